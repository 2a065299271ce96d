/*
 * The writer of checkpoints: one thread, one snapshot.
 *
 *     caller   begin ── fill ── submit ── train on ...
 *     thread                       └── write aside, sync, rename, link, remove old ──┐
 *     caller   begin (waits for it) ◄─────────────────────────────────────────────────┘
 *
 * (1) The snapshot belongs to the thread while `busy`, to the caller otherwise. There is one,
 *     so that memory is bounded and no save pays for fresh pages but the first.
 * (2) `last` is written first, whole, over the last one; the other names are then links to
 *     it, each made aside and renamed. So `last` is never older than any other, and at every
 *     instant the newest before it is there until the new one is.
 * (3) Old ones are removed only after that, and never `last`, best_model, or one of a step
 *     higher than that just saved: it belongs to a run that went further.
 * (4) A save has succeeded when all its names are on the disk. What fails after that
 *     (removing) is a warning: training must not die of it.
 */
#include "gradus/ckpt.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "base/outfile.h"
#include "base/text.h"
#include "base/thread.h"
#include "ckpt/listing.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TIMEOUT_MS   600000
#define LONG_WAIT_NS 1000000000 /* a wait that is worth a line */
#define NICE         10         /* steps have the cores; what is left is enough for a disk */
#define MAX_NAMES    4

struct gr_ckpt_writer {
    char *folder;     /* owned; fixed at creation, as the next five */
    unsigned formats; /* GR_CKPT_SAFETENSORS, GR_CKPT_PT */
    int keep;
    int timeout_ms;
    void (*before)(void *arg);
    void *arg;
    pthread_t thread;
    gr_snapshot *snap; /* owned; invariant (1) */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* work came, work is done, close was asked for */
    gr_ckpt_as as;          /* guarded by lock, as the rest */
    bool busy, closing;
    gr_error failure; /* of a save, until a call has returned it */
};

/* ---- the files ---- */

static const struct format {
    unsigned bit;
    const char *suffix;
} formats[] = { { GR_CKPT_SAFETENSORS, ".safetensors" }, { GR_CKPT_PT, ".pt" } };

#define N_FORMATS ((int)(sizeof(formats) / sizeof(formats[0])))

static gr_status remove_path(const char *path)
{
    if (unlink(path) == 0 || errno == ENOENT)
        return GR_OK;
    return gr_fail(GR_ERR_IO, "cannot remove '%s': %s", path, strerror(errno));
}

static gr_status remove_name(const char *folder, const char *name)
{
    gr_text path = GR_TEXT_INIT;
    gr_status st;

    gr_text_addf(&path, "%s/%s", folder, name);
    st = gr_text_status(&path);
    if (st == GR_OK)
        st = remove_path(gr_text_str(&path));
    gr_text_fini(&path);
    return st;
}

/* `to` becomes another name of the file `from`; atomically, in place of an older one. */
static gr_status link_over(const char *from, const char *to, bool *can_link)
{
    gr_text aside = GR_TEXT_INIT;
    gr_status st;

    *can_link = true;
    gr_text_addf(&aside, "%s" GR_CKPT_ASIDE, to);
    GR_TRY_GOTO(st, gr_text_status(&aside), done);
    GR_TRY_GOTO(st, remove_path(gr_text_str(&aside)), done);
    if (link(from, gr_text_str(&aside)) != 0) {
        *can_link = false; /* not on every file system; the caller writes it again */
        goto done;
    }
    if (rename(gr_text_str(&aside), to) != 0)
        st = gr_fail(GR_ERR_IO, "cannot rename '%s' to '%s': %s", gr_text_str(&aside), to,
                     strerror(errno));
    /* Gone by now, unless the rename failed or both were the same file already. */
    unlink(gr_text_str(&aside));

done:
    gr_text_fini(&aside);
    return st;
}

static gr_status write_or_link(const gr_snapshot *snap, const char *first, const char *path)
{
    bool can_link;

    GR_TRY(link_over(first, path, &can_link));
    return can_link ? GR_OK : gr_ckpt_write(path, snap);
}

/* One format under all its names; invariant (2). */
static gr_status write_names(gr_ckpt_writer *w, const char *suffix)
{
    gr_text paths[MAX_NAMES] = { GR_TEXT_INIT, GR_TEXT_INIT, GR_TEXT_INIT, GR_TEXT_INIT };
    gr_status st;
    int n = 0;

    gr_text_addf(&paths[n++], "%s/last%s", w->folder, suffix);
    if (w->as.epoch >= 0)
        gr_text_addf(&paths[n++], "%s/checkpoint_epoch_%" PRId64 "%s", w->folder, w->as.epoch,
                     suffix);
    if (w->as.step >= 0)
        gr_text_addf(&paths[n++], "%s/checkpoint_step_%" PRId64 "%s", w->folder, w->as.step,
                     suffix);
    if (w->as.best)
        gr_text_addf(&paths[n++], "%s/best_model%s", w->folder, suffix);
    for (int i = 0; i < n; i++)
        GR_TRY_GOTO(st, gr_text_status(&paths[i]), done);
    GR_TRY_GOTO(st, gr_ckpt_write(gr_text_str(&paths[0]), w->snap), done);
    for (int i = 1; i < n; i++)
        GR_TRY_GOTO(st, write_or_link(w->snap, gr_text_str(&paths[0]), gr_text_str(&paths[i])),
                    done);
    st = n > 1 ? gr_sync_folder(w->folder) : GR_OK;

done:
    for (int i = 0; i < MAX_NAMES; i++)
        gr_text_fini(&paths[i]);
    return st;
}

/* A `last` of a format that is no longer written would be taken for the newest one day. */
static gr_status remove_stale_last(const gr_ckpt_writer *w)
{
    for (int i = 0; i < N_FORMATS; i++)
        if (!(w->formats & formats[i].bit)) {
            char name[GR_CKPT_NAME_BYTES];

            snprintf(name, sizeof(name), "last%s", formats[i].suffix);
            GR_TRY(remove_name(w->folder, name));
        }
    return GR_OK;
}

/* ---- what goes ---- */

static int64_t step_of(const gr_snapshot *snap)
{
    const char *text = gr_snapshot_get(snap, GR_CKPT_KEY_STEP);

    return text ? strtoll(text, NULL, 10) : INT64_MAX;
}

/* Keeps the `keep` highest steps up to `step`, under whatever names; a damaged one, whose step
 * is not known, stays for its owner to look at. */
static gr_status remove_old(const gr_ckpt_writer *w, int64_t step)
{
    gr_ckpt_listing l;
    int64_t previous = -1;
    int n_kept = 0;
    gr_status st = gr_ckpt_list(&l, w->folder, true);

    gr_ckpt_listing_sort(&l);
    for (int i = 0; i < l.n && st == GR_OK; i++) {
        const gr_ckpt_entry *e = &l.entries[i];

        if (e->kind != GR_CKPT_IS_NUMBERED || e->is_aside || e->step < 0 || e->step > step)
            continue;
        n_kept += e->step != previous;
        previous = e->step;
        if (n_kept > w->keep)
            st = remove_name(w->folder, e->name);
    }
    gr_ckpt_listing_fini(&l);
    return st;
}

/* Under the lock of the folder's owner: nobody else writes here now. */
static gr_status remove_asides(const gr_ckpt_writer *w)
{
    gr_ckpt_listing l;
    gr_status st = gr_ckpt_list(&l, w->folder, false);

    for (int i = 0; i < l.n && st == GR_OK; i++)
        if (l.entries[i].is_aside)
            st = remove_name(w->folder, l.entries[i].name);
    gr_ckpt_listing_fini(&l);
    return st;
}

/* Only what is still there is of use; a later file system error shows when writing. */
static void tidy(gr_ckpt_writer *w)
{
    gr_status st = remove_stale_last(w);

    if (st == GR_OK && w->keep > 0)
        st = remove_old(w, step_of(w->snap));
    if (st != GR_OK) /* invariant (4) */
        gr_log(CKPT, WARN, "old checkpoints stay: folder '%s': %s", w->folder, gr_error_message());
}

static gr_status write_all(gr_ckpt_writer *w)
{
    int64_t began = gr_now_ns();

    if (w->before)
        w->before(w->arg);
    for (int i = 0; i < N_FORMATS; i++)
        if (w->formats & formats[i].bit)
            GR_TRY(write_names(w, formats[i].suffix));
    tidy(w);
    gr_log(CKPT, DEBUG, "saved in '%s', %.2f s", w->folder, (double)(gr_now_ns() - began) * 1e-9);
    return GR_OK;
}

/* ---- the thread ---- */

/* Waits for work. False: there will be none. */
static bool next_work(gr_ckpt_writer *w)
{
    bool has_work;

    pthread_mutex_lock(&w->lock);
    while (!w->busy && !w->closing)
        pthread_cond_wait(&w->changed, &w->lock);
    has_work = w->busy;
    pthread_mutex_unlock(&w->lock);
    return has_work;
}

static void *writer_main(void *arg)
{
    gr_ckpt_writer *w = arg;

    /* Of this thread alone, on Linux; not to be had is no reason to fail. */
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
    while (next_work(w)) {
        gr_error error = { 0 };
        gr_status st = write_all(w);

        gr_error_take(&error, st);
        pthread_mutex_lock(&w->lock);
        if (w->failure.status == GR_OK)
            w->failure = error;
        w->busy = false;
        pthread_cond_broadcast(&w->changed);
        pthread_mutex_unlock(&w->lock);
    }
    return NULL;
}

static gr_status start_thread(gr_ckpt_writer *w)
{
    int rc;

    rc = gr_thread_start(&w->thread, writer_main, w);
    return rc == 0 ? GR_OK : gr_fail(GR_ERR_NOMEM, "no thread to write: %s", strerror(rc));
}

/* ---- the caller's side ---- */

static void free_writer(gr_ckpt_writer *w)
{
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    gr_snapshot_destroy(w->snap);
    gr_free(w->folder);
    gr_free(w);
}

static gr_status open_folder(gr_ckpt_writer *w, const char *folder)
{
    w->folder = gr_strdup(folder);
    if (!w->folder)
        return GR_ERR_NOMEM;
    GR_TRY(gr_snapshot_create(&w->snap));
    GR_TRY(gr_make_folders(folder));
    return remove_asides(w);
}

gr_status gr_ckpt_writer_open(gr_ckpt_writer **out, const gr_ckpt_writer_config *c)
{
    gr_ckpt_writer *w;
    gr_status st;

    if (!out || !c || !c->folder)
        return gr_fail(GR_ERR_ARG, "writer of checkpoints: out, config or its folder is NULL");
    if (c->keep < 0 || c->timeout_ms < 0 || c->formats > (GR_CKPT_SAFETENSORS | GR_CKPT_PT))
        return gr_fail(GR_ERR_ARG, "writer of checkpoints: keep %d, timeout_ms %d, formats %u",
                       c->keep, c->timeout_ms, c->formats);
    w = gr_calloc(1, sizeof(*w));
    if (!w)
        return GR_ERR_NOMEM;
    w->formats = c->formats ? c->formats : GR_CKPT_SAFETENSORS;
    w->keep = c->keep;
    w->timeout_ms = c->timeout_ms ? c->timeout_ms : TIMEOUT_MS;
    w->before = c->before;
    w->arg = c->arg;
    pthread_mutex_init(&w->lock, NULL);
    gr_cond_init(&w->changed);
    st = open_folder(w, c->folder);
    if (st == GR_OK)
        st = start_thread(w);
    if (st != GR_OK) {
        free_writer(w);
        return gr_wrap(st, "checkpoint folder '%s'", c->folder);
    }
    *out = w;
    return GR_OK;
}

/* Under the lock. What a call returns is said once. */
static gr_status raise_failure(gr_ckpt_writer *w)
{
    gr_error error = w->failure;

    w->failure = (gr_error){ 0 };
    return error.status == GR_OK ? GR_OK : gr_error_raise(&error);
}

/* Under the lock: until nothing is being written, or `ms` have passed. */
static void wait_ms(gr_ckpt_writer *w, int ms)
{
    gr_deadline d = gr_deadline_in_ms(ms);

    while (w->busy && gr_cond_wait(&w->changed, &w->lock, d))
        ;
}

/* Under the lock. */
static gr_status wait_idle(gr_ckpt_writer *w)
{
    wait_ms(w, w->timeout_ms);
    if (w->busy)
        return gr_fail(GR_ERR_TIMEOUT,
                       "checkpoint folder '%s': the disk has not taken a checkpoint for %d s; look "
                       "whether it still answers",
                       w->folder, w->timeout_ms / 1000);
    return raise_failure(w);
}

gr_status gr_ckpt_writer_begin(gr_ckpt_writer *w, gr_snapshot **snap)
{
    int64_t began = gr_now_ns();
    gr_status st;

    pthread_mutex_lock(&w->lock);
    st = wait_idle(w);
    pthread_mutex_unlock(&w->lock);
    if (gr_now_ns() - began > LONG_WAIT_NS)
        gr_log(CKPT, WARN,
               "waited %.1f s for the checkpoint before this one to be written to '%s'; save less "
               "often, or to a faster disk",
               (double)(gr_now_ns() - began) * 1e-9, w->folder);
    *snap = st == GR_OK ? w->snap : NULL;
    return st;
}

void gr_ckpt_writer_submit(gr_ckpt_writer *w, const gr_ckpt_as *as)
{
    pthread_mutex_lock(&w->lock);
    GR_BUG_IF(w->busy);
    w->as = *as;
    w->busy = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

gr_status gr_ckpt_writer_poll(gr_ckpt_writer *w, int ms, bool *idle)
{
    gr_status st;

    pthread_mutex_lock(&w->lock);
    wait_ms(w, ms);
    *idle = !w->busy;
    st = raise_failure(w);
    pthread_mutex_unlock(&w->lock);
    return st;
}

gr_status gr_ckpt_writer_wait(gr_ckpt_writer *w)
{
    gr_status st;

    pthread_mutex_lock(&w->lock);
    st = wait_idle(w);
    pthread_mutex_unlock(&w->lock);
    return st;
}

gr_status gr_ckpt_writer_close(gr_ckpt_writer *w)
{
    bool idle;
    gr_status st;

    if (!w)
        return GR_OK;
    pthread_mutex_lock(&w->lock);
    st = wait_idle(w);
    w->closing = true;
    pthread_cond_broadcast(&w->changed);
    idle = !w->busy;
    pthread_mutex_unlock(&w->lock);
    if (idle) {
        pthread_join(w->thread, NULL);
        free_writer(w);
    } else {
        pthread_detach(w->thread); /* it hangs in the disk, with the snapshot */
    }
    return st;
}
