/*
 * The folder of a run:
 *
 *     config.yaml         every setting, as resolved
 *     model_summary.txt   parameters, memory, kernels
 *     metrics.jsonl, metrics.csv, tensorboard/, plots/, wandb/
 *     logs/rank_<N>.log   what each rank had to say
 *     checkpoints/        last, best_model, checkpoint_epoch_<N>, checkpoint_step_<N>
 *     lock                locked while a process uses the folder; holds its number
 *     launch              the launch that began it, for its restarts
 *     home                which folder it is and whose: see own.c
 *
 * Rank 0 alone reads and writes it: a checkpoint reaches the other ranks through the
 * group, so no file system need be shared. A run with a checkpoint is never overwritten.
 * The lock comes before every look at what the folder holds, and it stays where it is
 * when the run ends: who removes a lock may take it from one who is just opening it. (Only a
 * folder whose name was just invented is removed again, when the start is refused.)
 */
#include "train/checkpoint.h"

#include "base/log.h"
#include "base/outfile.h"
#include "ckpt/listing.h"
#include "gradus/ckpt.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define HEADER_BYTES 65536 /* names, shapes and settings; more than they take */

static const char *path_in(const gr_trainer *t, const char *name)
{
    return gr_arena_printf(t->arena, "%s/%s", t->folder, name);
}

/* ---- the folder ---- */

/* Makes runs/shapes-20260131-235959, with -2, -3, ... when it is taken. */
static gr_status invent_folder(gr_trainer *t, gr_text *out)
{
    char stamp[32];
    struct tm parts;
    time_t now = time(NULL);

    if (!localtime_r(&now, &parts) || strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &parts) == 0)
        return gr_fail(GR_ERR_IO, "cannot tell the time for a folder's name");
    GR_TRY(gr_make_folders(GR_RUNS));
    for (int i = 1; i < 1000; i++) {
        out->len = 0;
        gr_text_addf(out, GR_RUNS "/%s-%s", t->recipe->name, stamp);
        if (i > 1)
            gr_text_addf(out, "-%d", i);
        GR_TRY(gr_text_status(out));
        if (mkdir(gr_text_str(out), 0777) == 0) {
            t->is_trial = true;
            return GR_OK;
        }
        if (errno != EEXIST)
            return gr_fail(GR_ERR_IO, "cannot make folder '%s': %s", gr_text_str(out),
                           strerror(errno));
    }
    return gr_fail(GR_ERR_IO, "'%s' and 998 more are taken", gr_text_str(out));
}

/* The number that the lock's holder wrote, 0 when there is none. */
static long lock_holder(int fd)
{
    char text[32] = { 0 };

    return pread(fd, text, sizeof(text) - 1, 0) > 0 ? strtol(text, NULL, 10) : 0;
}

gr_status gr_trainer_lock_folder(gr_trainer *t)
{
    const char *path = path_in(t, "lock");
    long holder;

    if (!path)
        return GR_ERR_NOMEM;
    t->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (t->lock < 0)
        return gr_fail(GR_ERR_IO, "cannot open '%s': %s", path, strerror(errno));
    if (flock(t->lock, LOCK_EX | LOCK_NB) == 0) {
        /* For people; a lock without a number is as good. */
        if (ftruncate(t->lock, 0) != 0 || dprintf(t->lock, "%d\n", (int)getpid()) < 0)
            gr_log(TRAIN, DEBUG, "cannot write '%s': %s", path, strerror(errno));
        return GR_OK;
    }
    if (errno != EWOULDBLOCK) { /* some network file systems know no locks */
        gr_log(TRAIN, WARN, "cannot lock '%s': %s; take care that no other run uses the folder",
               path, strerror(errno));
        return GR_OK;
    }
    holder = lock_holder(t->lock);
    if (holder > 0)
        return gr_fail(GR_ERR_ARG,
                       "'%s' is used by another run, process %ld; wait for its end, or choose "
                       "another --output_dir",
                       t->folder, holder);
    return gr_fail(GR_ERR_ARG,
                   "'%s' is used by another run; wait for its end, or choose another "
                   "--output_dir",
                   t->folder);
}

/* ---- claiming it ---- */

/* No file can take the place of a folder, and the first save is late to find out. */
static gr_status prove_unobstructed(const gr_trainer *t)
{
    const char *folder = path_in(t, GR_CKPT_FOLDER);
    gr_ckpt_listing l;
    gr_status st = folder ? gr_ckpt_list(&l, folder, false) : GR_ERR_NOMEM;

    if (!folder)
        return st;
    for (int i = 0; i < l.n && st == GR_OK; i++) {
        const char *path = gr_arena_printf(t->arena, "%s/%s", folder, l.entries[i].name);
        struct stat about;

        if (!path)
            st = GR_ERR_NOMEM;
        else if (lstat(path, &about) == 0 && S_ISDIR(about.st_mode))
            st = gr_fail(GR_ERR_IO,
                         "'%s' is a folder, in the place of a checkpoint that the run would write; "
                         "move it away, or choose another --output_dir",
                         path);
    }
    gr_ckpt_listing_fini(&l);
    return st;
}

/* A folder that looks writable may not be: read-only mounts, quotas, network file systems. */
static gr_status prove_writable(gr_trainer *t, const char *probe)
{
    const char *path = path_in(t, probe);
    gr_outfile *f;

    if (!path)
        return GR_ERR_NOMEM;
    GR_TRY(gr_outfile_open(&f, path));
    gr_outfile_write(f, "gradus\n", 7);
    GR_TRY(gr_outfile_commit(f));
    if (unlink(path) != 0)
        return gr_fail(GR_ERR_IO, "cannot remove '%s': %s", path, strerror(errno));
    return GR_OK;
}

/* For a restart of the same launch; see where.c. */
static gr_status note_launch(gr_trainer *t)
{
    const char *launch = getenv("TORCHELASTIC_RUN_ID"), *path = path_in(t, GR_LAUNCH_FILE);
    gr_outfile *f;

    if (!launch || !*launch)
        return GR_OK;
    if (!path)
        return GR_ERR_NOMEM;
    GR_TRY(gr_outfile_open(&f, path));
    gr_outfile_write(f, launch, strlen(launch));
    return gr_outfile_commit(f);
}

static gr_status claim_new(gr_trainer *t)
{
    const char *config = path_in(t, "config.yaml");
    const char *checkpoints = path_in(t, GR_CKPT_FOLDER);

    if (!config || !checkpoints)
        return GR_ERR_NOMEM;
    GR_TRY(gr_make_folders(t->folder));
    GR_TRY(gr_trainer_lock_folder(t));
    if (gr_ckpt_count(checkpoints) > 0)
        return gr_fail(GR_ERR_ARG,
                       "'%s' holds a run already; go on with it by --resume '%s', or choose "
                       "another --output_dir or --run_id",
                       t->folder, t->folder);
    if (access(config, F_OK) == 0)
        gr_trainer_note(
            t, "  '%s' holds a run that ended before its first checkpoint; it begins anew.",
            t->folder);
    GR_TRY(gr_make_folders(checkpoints));
    GR_TRY(gr_run_settle(t->folder));
    return note_launch(t);
}

static gr_status claim_folder(gr_trainer *t)
{
    gr_text name = GR_TEXT_INIT;
    gr_status st = GR_OK;

    if (!t->folder) {
        st = invent_folder(t, &name);
        if (st == GR_OK)
            t->folder = gr_arena_strdup(t->arena, gr_text_str(&name));
        gr_text_fini(&name);
        GR_TRY(st);
        if (!t->folder)
            return GR_ERR_NOMEM;
    }
    GR_TRY(gr_run_check_inside(t->folder));
    GR_TRY(t->goes_on ? gr_trainer_lock_folder(t) : claim_new(t));
    GR_TRY(gr_wrap(prove_writable(t, ".probe"), "the folder of the run"));
    GR_TRY(gr_wrap(prove_writable(t, GR_CKPT_FOLDER "/.probe"), "the folder of the checkpoints"));
    return prove_unobstructed(t);
}

/* Rank 0's name for the folder, on all ranks (P41), whether its own run goes on, and whether the
 * name is invented. */
static gr_status share_name(gr_trainer *t)
{
    gr_text name = GR_TEXT_INIT;
    char **names;
    gr_status st;

    if (gr_trainer_writes(t))
        gr_text_addf(&name, "%c%s", t->goes_on ? '+' : t->is_trial ? '?' : '-', t->folder);
    st = gr_text_status(&name);
    if (st == GR_OK)
        st = gr_pg_gather_bytes(t->pg, gr_text_str(&name), name.len, &names, NULL);
    gr_text_fini(&name);
    GR_TRY(st);
    t->goes_on = names[0][0] == '+';
    t->is_trial = names[0][0] == '?';
    t->folder = gr_arena_strdup(t->arena, names[0] + 1);
    free(names);
    return t->folder ? GR_OK : GR_ERR_NOMEM;
}

gr_status gr_trainer_claim_folder(gr_trainer *t)
{
    if (gr_trainer_writes(t)) {
        GR_TRY(gr_trainer_plan_run(t));
        GR_TRY(claim_folder(t));
    }
    return share_name(t);
}

gr_status gr_trainer_find_run(gr_trainer *t)
{
    if (gr_trainer_writes(t)) {
        GR_TRY(gr_trainer_plan_run(t));
        t->folder = t->folder ? t->folder : "";
    }
    GR_TRY(share_name(t));
    t->folder = NULL;
    return GR_OK;
}

/* A start that is refused leaves no folder behind whose name nobody chose. Every rank removes what
 * it has put there, and the folder if that was the last of it: what others have put there stays,
 * the log of a rank that died among it. */
void gr_trainer_remove_trial(gr_trainer *t)
{
    const char *own = gr_arena_printf(t->arena, "logs/rank_%d.log", t->rank);
    const char *const names[] = {
        "lock", GR_LAUNCH_FILE, GR_HOME_FILE, own, "logs", GR_CKPT_FOLDER
    };

    /* The first three are rank 0's. */
    for (size_t i = gr_trainer_writes(t) ? 0 : 3; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *path = names[i] ? path_in(t, names[i]) : NULL;

        if (path)
            (void)remove(path); /* a folder only when it is empty */
    }
    (void)remove(t->folder);
}

/* Those of tables and plots are the track's, those of checkpoints the writer's. */
void gr_trainer_remove_asides(gr_trainer *t)
{
    static const char *const names[] = {
        "config.yaml.tmp", "model_summary.txt.tmp",  GR_LAUNCH_FILE ".tmp",       ".probe",
        ".probe.tmp",      GR_CKPT_FOLDER "/.probe", GR_CKPT_FOLDER "/.probe.tmp"
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *path = path_in(t, names[i]);

        if (path)
            unlink(path); /* seldom there */
    }
}

void gr_trainer_release_folder(gr_trainer *t)
{
    if (t->lock >= 0)
        close(t->lock);
    t->lock = -1;
}

/* ---- logs ---- */

/* Each rank writes its own, also where the folder is not that of rank 0 (another host). One
 * that cannot be written is no reason to end. */
void gr_trainer_open_log(gr_trainer *t)
{
    char head[80];
    const char *folder = path_in(t, "logs");
    const char *path = gr_arena_printf(t->arena, "%s/logs/rank_%d.log", t->folder, t->rank);

    if (!folder || !path)
        return;
    if (gr_run_check_inside(t->folder) != GR_OK || gr_make_folders(folder) != GR_OK ||
        gr_log_to_file(path) != GR_OK) {
        gr_log(TRAIN, WARN, "no log of rank %d in the run's folder: %s", t->rank,
               gr_error_message());
        return;
    }
    snprintf(head, sizeof(head), "rank %d of %d, process %d", t->rank, t->n_ranks, (int)getpid());
    gr_log_keep(head);
}

/* ---- room ---- */

/* A new checkpoint is written before an old one goes. */
static gr_status check_free(const gr_trainer *t, uint64_t n_checkpoints, const char *advice)
{
    char room[GR_BYTES_TEXT], need[GR_BYTES_TEXT];
    struct statvfs about;
    uint64_t free_bytes, needed = n_checkpoints * t->checkpoint_bytes;

    if (statvfs(t->folder, &about) != 0)
        return gr_fail(GR_ERR_IO, "cannot look at '%s': %s", t->folder, strerror(errno));
    free_bytes = (uint64_t)about.f_bavail * about.f_frsize;
    if (free_bytes >= needed)
        return GR_OK;
    return gr_fail(GR_ERR_IO, "'%s' has %s free, and %" PRIu64 " checkpoint%s %s; %s", t->folder,
                   gr_bytes_text(free_bytes, room), n_checkpoints,
                   n_checkpoints == 1 ? " needs" : "s need", gr_bytes_text(needed, need), advice);
}

/* Before the state is fetched: nothing on the disk has been touched when this fails. */
gr_status gr_trainer_check_save(gr_trainer *t, int64_t saved_at)
{
    const char *advice = "make room and start the run again";

    if (saved_at >= 0)
        advice = gr_arena_printf(
            t->arena, "make room and go on with --resume from step %" PRId64 ", which is safe",
            saved_at);
    return advice ? check_free(t, (uint64_t)gr_trainer_n_formats(t), advice) : GR_ERR_NOMEM;
}

/* What is kept, the best, and the one that is being written; in each format. */
gr_status gr_trainer_check_room(gr_trainer *t)
{
    const char *checkpoints = path_in(t, GR_CKPT_FOLDER);
    int64_t n_formats = gr_trainer_n_formats(t);
    int64_t wanted = ((t->o.keep > 0 ? t->o.keep : 1) + 2) * n_formats;
    gr_step_stats stats;

    if (!checkpoints)
        return GR_ERR_NOMEM;
    GR_TRY(gr_step_get_stats(t->step, &stats));
    t->checkpoint_bytes = stats.state_bytes + HEADER_BYTES;
    wanted -= gr_ckpt_count(checkpoints);
    return check_free(t, wanted > n_formats ? (uint64_t)wanted : (uint64_t)n_formats,
                      "make room, choose another --output_dir, or --keep fewer");
}
