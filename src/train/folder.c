/*
 * The folder of a run:
 *
 *     config.yaml              every setting, as resolved
 *     metrics.jsonl            one record per line
 *     checkpoints/step-N.safetensors, checkpoints/last
 *     lock                     locked while a process uses the folder; holds its number
 *
 * Rank 0 alone reads and writes it: a checkpoint reaches the other ranks through the
 * group, so no file system need be shared. A run with a checkpoint is never overwritten.
 * The lock comes before every look at what the folder holds, and it stays where it is
 * when the run ends: who removes a lock may take it from one who is just opening it.
 */
#include "train/trainer.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/outfile.h"
#include "ckpt/safetensors.h"
#include "gradus/ckpt.h"

#include <dirent.h>
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

#define KEY_RECIPE  "train.recipe"
#define KEY_RANKS   "train.n_ranks"
#define KEY_SAMPLES "train.n_samples"
#define KEY_CONFIG  "train.config"

#define HEADER_BYTES 65536 /* names, shapes and settings; more than they take */

static const char *path_in(const gr_trainer *t, const char *name)
{
    return gr_arena_printf(t->arena, "%s/%s", t->folder, name);
}

/* ---- the folder ---- */

/* Makes runs/shapes-20260131-235959, with -2, -3, ... when it is taken. */
static gr_status invent_folder(const gr_trainer *t, gr_text *out)
{
    char stamp[32];
    struct tm parts;
    time_t now = time(NULL);

    if (!localtime_r(&now, &parts) || strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &parts) == 0)
        return gr_fail(GR_ERR_IO, "cannot tell the time for a folder's name");
    GR_TRY(gr_make_folders("runs"));
    for (int i = 1; i < 1000; i++) {
        out->len = 0;
        gr_text_addf(out, "runs/%s-%s", t->recipe->name, stamp);
        if (i > 1)
            gr_text_addf(out, "-%d", i);
        GR_TRY(gr_text_status(out));
        if (mkdir(gr_text_str(out), 0777) == 0)
            return GR_OK;
        if (errno != EEXIST)
            return gr_fail(GR_ERR_IO, "cannot make folder '%s': %s", gr_text_str(out),
                           strerror(errno));
    }
    return gr_fail(GR_ERR_IO, "'%s' and 998 more are taken", gr_text_str(out));
}

/* Rank 0's name for the folder, on all ranks. */
static gr_status share_name(gr_trainer *t)
{
    gr_text name = GR_TEXT_INIT;
    char **names;
    gr_status st = GR_OK;

    if (gr_trainer_writes(t))
        st = invent_folder(t, &name);
    if (st == GR_OK)
        st = gr_pg_gather_bytes(t->pg, gr_text_str(&name), name.len, &names, NULL);
    gr_text_fini(&name);
    GR_TRY(st);
    t->folder = gr_arena_strdup(t->arena, names[0]);
    free(names);
    return t->folder ? GR_OK : GR_ERR_NOMEM;
}

/* The number that the lock's holder wrote, 0 when there is none. */
static long lock_holder(int fd)
{
    char text[32] = { 0 };

    return pread(fd, text, sizeof(text) - 1, 0) > 0 ? strtol(text, NULL, 10) : 0;
}

static gr_status take_lock(gr_trainer *t)
{
    const char *path = path_in(t, "lock");
    long holder;

    if (!path)
        return GR_ERR_NOMEM;
    t->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
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

static int count_checkpoints(const char *folder)
{
    static const char suffix[] = ".safetensors";
    DIR *d = opendir(folder);
    int n = 0;

    for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        size_t len = strlen(e->d_name), n_suffix = sizeof(suffix) - 1;

        n += len > n_suffix && strcmp(e->d_name + len - n_suffix, suffix) == 0;
    }
    if (d)
        closedir(d);
    return n;
}

static gr_status make_new(gr_trainer *t)
{
    const char *config = path_in(t, "config.yaml");
    const char *checkpoints = path_in(t, "checkpoints");

    if (!config || !checkpoints)
        return GR_ERR_NOMEM;
    GR_TRY(gr_make_folders(t->folder));
    GR_TRY(take_lock(t));
    if (count_checkpoints(checkpoints) > 0)
        return gr_fail(GR_ERR_ARG,
                       "'%s' holds a run already; go on with it by --resume, or choose another "
                       "--output_dir",
                       t->folder);
    if (access(config, F_OK) == 0)
        gr_trainer_say(t, "'%s' holds a run that ended before its first checkpoint; it begins anew.",
                       t->folder);
    GR_TRY(gr_make_folders(checkpoints));
    if (access(checkpoints, W_OK) != 0)
        return gr_fail(GR_ERR_IO, "cannot write to '%s': %s", checkpoints, strerror(errno));
    return GR_OK;
}

static gr_status claim_old(gr_trainer *t)
{
    const char *checkpoints = path_in(t, "checkpoints");

    if (!checkpoints)
        return GR_ERR_NOMEM;
    if (access(t->folder, F_OK) != 0)
        return gr_fail(GR_ERR_IO, "resume: cannot open '%s': %s; begin a run without --resume",
                       t->folder, strerror(errno));
    GR_TRY(take_lock(t));
    if (count_checkpoints(checkpoints) == 0)
        return gr_fail(GR_ERR_IO,
                       "resume: '%s' holds no checkpoint; start the run again without --resume",
                       t->folder);
    return GR_OK;
}

gr_status gr_trainer_claim_folder(gr_trainer *t)
{
    t->folder = t->o.output_dir;
    if (!t->folder && t->o.resume)
        return gr_fail(GR_ERR_ARG, "--resume needs --output_dir, the folder of the run");
    if (!t->folder)
        GR_TRY(share_name(t));
    if (!gr_trainer_writes(t))
        return GR_OK;
    return t->o.resume ? claim_old(t) : make_new(t);
}

void gr_trainer_release_folder(gr_trainer *t)
{
    if (t->lock >= 0)
        close(t->lock);
    t->lock = -1;
}

/* ---- room ---- */

/* A new checkpoint is written before an old one goes. */
static gr_status check_free(const gr_trainer *t, uint64_t n_checkpoints)
{
    struct statvfs about;
    uint64_t free_bytes, needed = n_checkpoints * t->checkpoint_bytes;

    if (statvfs(t->folder, &about) != 0)
        return gr_fail(GR_ERR_IO, "cannot look at '%s': %s", t->folder, strerror(errno));
    free_bytes = (uint64_t)about.f_bavail * about.f_frsize;
    if (free_bytes >= needed)
        return GR_OK;
    return gr_fail(GR_ERR_IO,
                   "'%s' has %" PRIu64 " bytes free, and %" PRIu64 " checkpoint(s) need %" PRIu64
                   "; make room or choose another --output_dir",
                   t->folder, free_bytes, n_checkpoints, needed);
}

gr_status gr_trainer_check_room(gr_trainer *t)
{
    const char *checkpoints = path_in(t, "checkpoints");
    int64_t wanted = (t->o.keep > 0 ? t->o.keep : 1) + 1;
    gr_step_stats stats;

    if (!checkpoints)
        return GR_ERR_NOMEM;
    GR_TRY(gr_step_get_stats(t->step, &stats));
    t->checkpoint_bytes = stats.state_bytes + HEADER_BYTES;
    wanted -= count_checkpoints(checkpoints);
    return check_free(t, wanted > 1 ? (uint64_t)wanted : 1);
}

/* ---- saving ---- */

static gr_status set_number(gr_snapshot *snap, const char *key, int64_t value)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRId64, value);
    return gr_snapshot_set(snap, key, text);
}

static gr_status describe(const gr_trainer *t, gr_snapshot *snap)
{
    gr_text config = GR_TEXT_INIT;
    gr_status st;

    GR_TRY(gr_snapshot_set(snap, KEY_RECIPE, t->recipe->name));
    GR_TRY(set_number(snap, KEY_RANKS, t->n_ranks));
    GR_TRY(set_number(snap, KEY_SAMPLES, t->n_train));
    gr_train_options_record(&t->o, GR_RECORD_SAVE, &config);
    st = gr_text_status(&config);
    if (st == GR_OK)
        st = gr_snapshot_set(snap, KEY_CONFIG, gr_text_str(&config));
    gr_text_fini(&config);
    return st;
}

gr_status gr_trainer_save(gr_trainer *t)
{
    const char *folder;
    gr_snapshot *snap;
    gr_status st;

    if (t->saved_at == t->at)
        return GR_OK;
    t->saved_at = t->at;
    if (!gr_trainer_writes(t))
        return GR_OK;
    folder = path_in(t, "checkpoints");
    if (!folder)
        return GR_ERR_NOMEM;
    GR_TRY(gr_wrap(check_free(t, 1), "saving step %" PRId64 " (%s)", t->at, whole));
    GR_TRY(gr_step_save(t->step, &snap));
    st = describe(t, snap);
    if (st == GR_OK)
        st = gr_ckpt_save(folder, t->at, snap, (int)t->o.keep);
    gr_snapshot_destroy(snap);
    return gr_wrap(st, "saving step %" PRId64, t->at);
}

/* ---- resuming ---- */

static void append(void *text, const void *src, size_t n_bytes)
{
    gr_text_addn(text, src, n_bytes);
}

/* Rank 0: the newest whole checkpoint as one piece of memory. */
static gr_status read_newest(gr_trainer *t, gr_text *bytes)
{
    const char *folder = path_in(t, "checkpoints");
    gr_snapshot *snap;
    char *note;
    int64_t step;
    gr_status st;

    if (!folder)
        return GR_ERR_NOMEM;
    GR_TRY(gr_ckpt_load(folder, &snap, &step, &note));
    if (note)
        gr_log(TRAIN, WARN, "%s", note);
    free(note);
    st = gr_safetensors_format(snap, append, bytes);
    gr_snapshot_destroy(snap);
    GR_TRY(st);
    return gr_text_status(bytes);
}

/* Rank 0's bytes, on all ranks. */
static gr_status share_bytes(gr_trainer *t, gr_text *bytes)
{
    int64_t n = (int64_t)bytes->len;
    gr_status st;

    GR_TRY(gr_pg_broadcast(t->pg, (gr_vec){ &n, 1, GR_I64 }, 0));
    if (!gr_trainer_writes(t)) {
        bytes->str = gr_malloc((size_t)n + 1);
        if (!bytes->str)
            return GR_ERR_NOMEM;
        bytes->cap = (size_t)n + 1;
        bytes->len = (size_t)n;
        bytes->str[n] = '\0';
    }
    st = gr_pg_broadcast(t->pg, (gr_vec){ bytes->str, (size_t)n, GR_U8 }, 0);
    return gr_wrap(st, "the checkpoint from rank 0");
}

static gr_status check_number(const gr_snapshot *snap, const char *key, int64_t now,
                              const char *what)
{
    const char *text = gr_snapshot_get(snap, key);

    if (!text)
        return gr_fail(GR_ERR_FORMAT, "the checkpoint has no entry '%s'", key);
    if (strtoll(text, NULL, 10) != now)
        return gr_fail(GR_ERR_ARG,
                       "the run began with %s %s and goes on with %" PRId64
                       "; steps would take other samples",
                       text, what, now);
    return GR_OK;
}

/* Settings come from the checkpoint where the command line does not say otherwise. */
static gr_status take_settings(gr_trainer *t)
{
    const char *recipe = gr_snapshot_get(t->resumed, KEY_RECIPE);
    const char *config = gr_snapshot_get(t->resumed, KEY_CONFIG);

    if (!recipe || !config)
        return gr_fail(GR_ERR_FORMAT, "the checkpoint was not written by this program: it has no "
                                      "entry '" KEY_CONFIG "'");
    if (strcmp(recipe, t->recipe->name) != 0)
        return gr_fail(GR_ERR_ARG, "the run is of recipe '%s', not '%s'", recipe, t->recipe->name);
    GR_TRY(check_number(t->resumed, KEY_RANKS, t->n_ranks, "rank(s)"));
    return gr_train_options_resume(&t->o, t->arena, t->recipe, config, t->command->argc - 1,
                                   t->command->argv + 1);
}

gr_status gr_trainer_load(gr_trainer *t)
{
    gr_text bytes = GR_TEXT_INIT;
    gr_status st = GR_OK;

    if (gr_trainer_writes(t))
        GR_TRY_GOTO(st, read_newest(t, &bytes), done);
    GR_TRY_GOTO(st, share_bytes(t, &bytes), done);
    GR_TRY_GOTO(st, gr_safetensors_parse(bytes.str, bytes.len, &t->resumed), done);
    st = take_settings(t);
    t->told_all = st != GR_OK; /* every rank reads the same bytes */

done:
    gr_text_fini(&bytes);
    return gr_wrap(st, "resume");
}

gr_status gr_trainer_restore(gr_trainer *t)
{
    gr_step_stats stats;

    if (!t->resumed)
        return GR_OK;
    GR_TRY(
        gr_wrap(check_number(t->resumed, KEY_SAMPLES, t->n_train, "training samples"), "resume"));
    GR_TRY(gr_step_restore(t->step, t->resumed));
    gr_snapshot_destroy(t->resumed);
    t->resumed = NULL;
    GR_TRY(gr_step_get_stats(t->step, &stats));
    t->at = stats.n_steps;
    t->saved_at = t->at;
    return GR_OK;
}
