/*
 * The queue between the training and the disk:
 *
 *     submit ──► ring of items ──► writer thread ──► outputs
 *
 * (1) `lock` guards the ring and the flags. It is held for copies of an item only, never while
 *     something is written; so whoever submits waits for a copy at most.
 * (2) The outputs belong to the writer thread from open to its end.
 */
#include "track/track.h"

#include "base/alloc.h"
#include "base/cond.h"
#include "base/log.h"
#include "track/outputs.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define QUEUE_SIZE 512
#define CLOSE_MS   30000
#define WAKE_MS    1000 /* often enough for what is flushed every two seconds */

typedef struct item {
    enum { ITEM_RECORD, ITEM_BLOB, ITEM_PLOT, ITEM_END_STEP, ITEM_NOTHING } kind;
    gr_blob *blob; /* owned */
    gr_track_record record;
} item;

struct gr_track {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* an item came, close was asked for, the writer is done */
    pthread_t writer;
    item *ring;
    int cap, first, n;
    int n_plots; /* in the ring: only the last of them is drawn, it shows what all would */
    int64_t n_dropped;
    int64_t n_put, n_done;          /* items submitted, items that the outputs have */
    int64_t sync_wanted, sync_done; /* up to this item: on the disk by wish, and in fact */
    bool closing, done;
    int exit_code;
    int close_ms;
    bool no_upload;
    item current; /* the writer's: what it works on */
    gr_outputs outputs;
};

void gr_track_begin(gr_track_record *r, int64_t step)
{
    r->step = step;
    r->wall_time = gr_wall_time();
    r->n = 0;
    r->more = NULL;
    r->cap_more = 0;
}

/* The next place; NULL: no memory, which is told. */
static gr_track_value *next_value(gr_track_record *r)
{
    int n_more = r->n - GR_TRACK_FEW;

    if (n_more < 0)
        return &r->values[r->n++];
    if (gr_grow((void **)&r->more, &r->cap_more, n_more + 1, sizeof(*r->more)) != GR_OK) {
        gr_log(TRAIN, WARN, "no memory for the %dth value of step %lld: it is not recorded",
               r->n + 1, (long long)r->step);
        return NULL;
    }
    r->n++;
    return &r->more[n_more];
}

static void add_value(gr_track_record *r, const char *name, double value, bool is_whole)
{
    gr_track_value *v = next_value(r);

    if (!v)
        return;
    snprintf(v->name, sizeof(v->name), "%s", name);
    v->value = value;
    v->is_whole = is_whole;
}

void gr_track_i64(gr_track_record *r, const char *name, int64_t value)
{
    /* Beyond 2^53 a double has no odd numbers, and beyond 2^63 the way back is undefined. */
    add_value(r, name, (double)value, fabs((double)value) <= 9007199254740992.0);
}

void gr_track_f64(gr_track_record *r, const char *name, double value)
{
    add_value(r, name, value, false);
}

/* --- the writer --------------------------------------------------------------------------- */

/* Under the lock: somebody waits for the disk to have what the outputs have. */
static bool wants_sync(const gr_track *t)
{
    return t->sync_wanted > t->sync_done && t->n_done >= t->sync_wanted;
}

/* Waits a while for an item. False: there is none. *over: and there will be none. */
static bool take(gr_track *t, bool *over)
{
    gr_deadline d = gr_deadline_in_ms(WAKE_MS);
    bool taken;

    pthread_mutex_lock(&t->lock);
    while (t->n == 0 && !t->closing && !wants_sync(t) && gr_cond_wait(&t->changed, &t->lock, d))
        ;
    taken = t->n > 0;
    if (taken) {
        t->current = t->ring[t->first];
        t->first = (t->first + 1) % t->cap;
        t->n--;
        if (t->current.kind == ITEM_PLOT && --t->n_plots > 0)
            t->current.kind = ITEM_NOTHING;
    }
    *over = t->n == 0 && !taken && t->closing;
    pthread_mutex_unlock(&t->lock);
    return taken;
}

static void write_current(gr_track *t)
{
    switch (t->current.kind) {
    case ITEM_RECORD:
        gr_outputs_record(&t->outputs, &t->current.record);
        gr_free(t->current.record.more);
        break;
    case ITEM_BLOB:
        gr_outputs_blob(&t->outputs, t->current.blob);
        gr_free(t->current.blob);
        break;
    case ITEM_PLOT: gr_outputs_plot(&t->outputs); break;
    case ITEM_END_STEP: gr_outputs_end_step(&t->outputs); break;
    case ITEM_NOTHING: break;
    }
}

/* After an item was `taken` and written, or none was. */
static void sync_if_wanted(gr_track *t, bool taken)
{
    int64_t n_done;
    bool wanted;

    pthread_mutex_lock(&t->lock);
    t->n_done += taken;
    n_done = t->n_done;
    wanted = wants_sync(t);
    pthread_mutex_unlock(&t->lock);
    if (!wanted)
        return;
    gr_outputs_sync(&t->outputs);
    pthread_mutex_lock(&t->lock);
    t->sync_done = n_done;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

static void *writer_main(void *arg)
{
    gr_track *t = arg;
    bool over = false;
    int exit_code;

    while (!over) {
        bool taken = take(t, &over);

        if (taken)
            write_current(t);
        sync_if_wanted(t, taken);
        gr_outputs_flush(&t->outputs);
    }
    pthread_mutex_lock(&t->lock);
    exit_code = t->exit_code;
    pthread_mutex_unlock(&t->lock);
    gr_outputs_close(&t->outputs, exit_code);
    pthread_mutex_lock(&t->lock);
    t->done = true;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

/* --- open --------------------------------------------------------------------------------- */

static void free_track(gr_track *t)
{
    gr_text_fini(&t->outputs.wandb_folder);
    gr_text_fini(&t->outputs.wandb_id);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    gr_free(t->ring);
    gr_free(t);
}

gr_status gr_track_open(gr_track **out, const gr_track_config *c)
{
    gr_track *t = gr_calloc(1, sizeof(*t));
    int rc;

    if (!t)
        return GR_ERR_NOMEM;
    pthread_mutex_init(&t->lock, NULL);
    gr_cond_init(&t->changed);
    t->cap = c->queue_size > 0 ? c->queue_size : QUEUE_SIZE;
    t->close_ms = c->close_ms > 0 ? c->close_ms : CLOSE_MS;
    t->no_upload = c->no_upload;
    t->ring = gr_calloc((size_t)t->cap, sizeof(*t->ring));
    if (!t->ring) {
        free_track(t);
        return GR_ERR_NOMEM;
    }
    gr_outputs_open(&t->outputs, c);
    rc = pthread_create(&t->writer, NULL, writer_main, t);
    if (rc != 0) {
        gr_outputs_close(&t->outputs, 1);
        free_track(t);
        return gr_fail(GR_ERR_IO, "cannot start the thread that writes metrics: %s", strerror(rc));
    }
    *out = t;
    return GR_OK;
}

const char *gr_track_wandb_id(const gr_track *t)
{
    return t ? gr_text_str(&t->outputs.wandb_id) : "";
}

/* --- submit ------------------------------------------------------------------------------- */

/* The next free place of the ring, with the lock held; NULL, and the lock not held, when it is
 * full. */
static item *reserve(gr_track *t)
{
    item *place;

    pthread_mutex_lock(&t->lock);
    if (t->n == t->cap) {
        t->n_dropped++;
        pthread_mutex_unlock(&t->lock);
        return NULL;
    }
    place = &t->ring[(t->first + t->n) % t->cap];
    t->n++;
    t->n_put++;
    return place;
}

static void submitted(gr_track *t)
{
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

bool gr_track_submit(gr_track *t, gr_track_record *r)
{
    item *place = t ? reserve(t) : NULL;

    if (place) {
        place->kind = ITEM_RECORD;
        place->record = *r;
        submitted(t);
    } else {
        gr_free(r->more);
    }
    r->more = NULL;
    r->cap_more = 0;
    r->n = r->n < GR_TRACK_FEW ? r->n : GR_TRACK_FEW;
    return place;
}

bool gr_track_plot(gr_track *t)
{
    item *place = t ? reserve(t) : NULL;

    if (!place)
        return false;
    place->kind = ITEM_PLOT;
    t->n_plots++;
    submitted(t);
    return true;
}

bool gr_track_end_step(gr_track *t)
{
    item *place = t ? reserve(t) : NULL;

    if (!place)
        return false;
    place->kind = ITEM_END_STEP;
    submitted(t);
    return true;
}

/* A blob with room for its data, its tag behind that; NULL without memory. */
static gr_blob *new_blob(const char *tag, int64_t step, const void *data, size_t n_bytes)
{
    size_t tag_bytes = strlen(tag) + 1;
    gr_blob *b = gr_malloc(sizeof(*b) + n_bytes + tag_bytes);

    if (!b)
        return NULL;
    memset(b, 0, sizeof(*b));
    b->data = b + 1;
    memcpy(b->data, data, n_bytes);
    memcpy((char *)b->data + n_bytes, tag, tag_bytes);
    b->at = (gr_event_at){ (char *)b->data + n_bytes, step, gr_wall_time() };
    return b;
}

static bool submit_blob(gr_track *t, gr_blob *b)
{
    item *place = reserve(t);

    if (!place) {
        gr_free(b);
        return false;
    }
    place->kind = ITEM_BLOB;
    place->blob = b;
    submitted(t);
    return true;
}

static bool submit_image(gr_track *t, const char *tag, int64_t step, const gr_pixels *p,
                         bool is_picture)
{
    gr_blob *b;

    if (!t || !gr_png_fits(p))
        return false;
    b = new_blob(tag, step, p->data, (size_t)p->width * (size_t)p->height * (size_t)p->channels);
    if (!b)
        return false;
    b->kind = is_picture ? GR_BLOB_PICTURE : GR_BLOB_IMAGE;
    b->pixels = *p;
    b->pixels.data = b->data;
    return submit_blob(t, b);
}

bool gr_track_image(gr_track *t, const char *tag, int64_t step, const gr_pixels *p)
{
    return submit_image(t, tag, step, p, false);
}

bool gr_track_picture(gr_track *t, const char *tag, int64_t step, const gr_pixels *p)
{
    return submit_image(t, tag, step, p, true);
}

bool gr_track_text(gr_track *t, const char *tag, int64_t step, const char *text)
{
    gr_blob *b = t ? new_blob(tag, step, text, strlen(text) + 1) : NULL;

    if (!b)
        return false;
    b->kind = GR_BLOB_TEXT;
    return submit_blob(t, b);
}

bool gr_track_histogram(gr_track *t, const char *tag, int64_t step, const float *values, int64_t n)
{
    gr_blob *b = t ? new_blob(tag, step, values, (size_t)n * sizeof(*values)) : NULL;

    if (!b)
        return false;
    b->kind = GR_BLOB_HISTOGRAM;
    b->n = n;
    return submit_blob(t, b);
}

bool gr_track_sync(gr_track *t, int ms)
{
    gr_deadline d = gr_deadline_in_ms(ms);
    int64_t want;
    bool done;

    if (!t)
        return true;
    pthread_mutex_lock(&t->lock);
    want = t->n_put;
    if (t->sync_wanted < want)
        t->sync_wanted = want;
    pthread_cond_broadcast(&t->changed);
    while (t->sync_done < want && !t->done && gr_cond_wait(&t->changed, &t->lock, d))
        ;
    done = t->sync_done >= want;
    pthread_mutex_unlock(&t->lock);
    return done;
}

int64_t gr_track_dropped(gr_track *t)
{
    int64_t n;

    if (!t)
        return 0;
    pthread_mutex_lock(&t->lock);
    n = t->n_dropped;
    pthread_mutex_unlock(&t->lock);
    return n;
}

/* --- close -------------------------------------------------------------------------------- */

/* True when the writer has ended; false when it hangs. */
static bool end_writer(gr_track *t, int exit_code)
{
    gr_deadline d = gr_deadline_in_ms(t->close_ms);
    bool done;

    pthread_mutex_lock(&t->lock);
    t->exit_code = exit_code;
    t->closing = true;
    pthread_cond_broadcast(&t->changed);
    while (!t->done && gr_cond_wait(&t->changed, &t->lock, d))
        ;
    done = t->done;
    pthread_mutex_unlock(&t->lock);
    if (done)
        pthread_join(t->writer, NULL);
    else
        pthread_detach(t->writer);
    return done;
}

void gr_track_close(gr_track *t, int exit_code, gr_track_end *end)
{
    gr_track_end unused = { 0 };
    const char *folder;

    if (!end)
        end = &unused;
    *end = (gr_track_end){ .wandb_child = -1 };
    if (!t)
        return;
    end->n_dropped = gr_track_dropped(t);
    if (!end_writer(t, exit_code)) {
        gr_log(TRAIN, WARN, "metrics could not be written within %d s; the last are lost",
               t->close_ms / 1000);
        return;
    }
    if (end->n_dropped > 0)
        gr_log(TRAIN, WARN, "%lld records of metrics were dropped: the disk was too slow",
               (long long)end->n_dropped);
    folder = gr_text_str(&t->outputs.wandb_folder);
    if (*folder && gr_wandb_sync(folder, t->no_upload ? NULL : &end->wandb_child,
                                 &end->wandb_command) != GR_OK)
        gr_log(TRAIN, WARN, "W&B: %s", gr_error_message());
    gr_text_fini(&unused.wandb_command);
    free_track(t);
}
