/*
 * Streams that run later, in any legal order; see null.h.
 *
 * A stream is a list of items. An item is work, a copy, the happening of an event, or a wait
 * for one. While there are items, a stream is drawn whose first item may run: a wait may when
 * its event has happened as often as it was recorded when the wait was queued. Events are
 * recorded before they are waited for, so there always is such a stream.
 *
 * Recorded work is a list of items with their streams, put into the streams again at each launch.
 * Events in it happen anew at each launch, so that their counts are given out at launch.
 */
#include "backend/null/null.h"

#include "backend/host.h"
#include "base/alloc.h"
#include "base/random.h"

#include <string.h>

typedef enum item_kind { ITEM_CALL, ITEM_COPY, ITEM_ZERO, ITEM_HAPPEN, ITEM_WAIT } item_kind;

/* What comes before a place in recorded work: so many items of each stream. */
typedef struct clock {
    int n[GR_N_STREAMS];
} clock;

typedef struct event {
    uint64_t n_recorded, n_happened;
    int recording; /* the number of the recording in which it was recorded; 0: none */
    clock before;  /* then */
} event;

typedef struct item {
    struct item *next;
    item_kind kind;
    gr_stream_kind stream;
    gr_replay_fn *fn;
    void *dst; /* or fn's argument */
    const void *src;
    size_t n_bytes;
    event *event;
    uint64_t count;  /* of the event */
    uint64_t number; /* of all that was queued */
} item;

typedef struct queue {
    item *first, **end;
} queue;

typedef struct replay_device replay_device;

/* What gr_launch.stream points to. */
typedef struct stream {
    replay_device *d;
    gr_stream_kind kind;
} stream;

struct replay_device {
    gr_device base;
    gr_mt19937 rng;
    stream streams[GR_N_STREAMS];
    queue queued[GR_N_STREAMS];
    event slots[GR_N_SLOTS];
    queue *recording; /* NULL: nothing is recorded */
    int n_recordings;
    clock before[GR_N_STREAMS]; /* the next item of each stream, of what is recorded */
    bool takes_part[GR_N_STREAMS];
    uint64_t n_queued, n_run_to; /* the highest number that has run */
    int n_reordered;
};

static replay_device *device_of(gr_device *d)
{
    return (replay_device *)d;
}

static void put(queue *q, item *i)
{
    i->next = NULL;
    *q->end = i;
    q->end = &i->next;
}

static item *take(queue *q)
{
    item *i = q->first;

    q->first = i->next;
    if (!q->first)
        q->end = &q->first;
    return i;
}

static void drop(queue *q)
{
    while (q->first)
        gr_free(take(q));
}

static void free_queue(queue *q)
{
    if (q)
        drop(q);
    gr_free(q);
}

/* ---- queueing ---- */

/* Refuses what CUDA would, and keeps count. A wait for what is recorded brings its stream in. */
static gr_status note_recorded(replay_device *d, const item *want)
{
    clock *c = &d->before[want->stream];
    bool is_inside = want->event && want->event->recording == d->n_recordings;

    if (want->kind == ITEM_WAIT && !is_inside)
        return gr_fail(GR_ERR_DEVICE, "a wait for what happened before the recording");
    if (want->kind != ITEM_WAIT && !d->takes_part[want->stream])
        return gr_fail(GR_ERR_DEVICE, "stream %d takes no part in the recording",
                       (int)want->stream);
    d->takes_part[want->stream] = true;
    if (want->kind == ITEM_WAIT) {
        for (int s = 0; s < GR_N_STREAMS; s++)
            if (c->n[s] < want->event->before.n[s])
                c->n[s] = want->event->before.n[s];
    } else if (want->kind == ITEM_HAPPEN) {
        want->event->recording = d->n_recordings;
        want->event->before = *c;
    } else {
        c->n[want->stream]++;
    }
    return GR_OK;
}

/* Items of launches and of calls: the events' counts are given out in the order of both. */
static void queue_now(replay_device *d, item *i)
{
    i->number = ++d->n_queued;
    if (i->kind == ITEM_HAPPEN)
        i->count = ++i->event->n_recorded;
    if (i->kind == ITEM_WAIT)
        i->count = i->event->n_recorded;
    put(&d->queued[i->stream], i);
}

static gr_status queue_item(gr_device *base, item want)
{
    replay_device *d = device_of(base);
    item *i;

    if (d->recording)
        GR_TRY(note_recorded(d, &want));
    i = (item *)gr_malloc(sizeof(*i));
    if (!i)
        return GR_ERR_NOMEM;
    *i = want;
    if (d->recording)
        put(d->recording, i);
    else
        queue_now(d, i);
    return GR_OK;
}

gr_status gr_replay_queue(void *on, gr_replay_fn *fn, void *arg)
{
    const stream *s = (const stream *)on;

    return queue_item(&s->d->base,
                      (item){ .kind = ITEM_CALL, .stream = s->kind, .fn = fn, .dst = arg });
}

/* ---- running ---- */

static bool may_run(const item *i)
{
    return i && (i->kind != ITEM_WAIT || i->event->n_happened >= i->count);
}

static void run_item(replay_device *d, item *i)
{
    switch (i->kind) {
    case ITEM_CALL: i->fn(i->dst); break;
    case ITEM_COPY: memcpy(i->dst, i->src, i->n_bytes); break;
    case ITEM_ZERO: memset(i->dst, 0, i->n_bytes); break;
    case ITEM_HAPPEN: i->event->n_happened = i->count; break;
    case ITEM_WAIT: break;
    }
    if (i->kind != ITEM_WAIT && i->kind != ITEM_HAPPEN && i->number < d->n_run_to)
        d->n_reordered++;
    if (d->n_run_to < i->number)
        d->n_run_to = i->number;
    gr_free(i);
}

/* One item of a stream drawn among those that can go on; false: nothing is queued. */
static bool run_one(replay_device *d)
{
    int may[GR_N_STREAMS], n = 0;
    bool is_empty = true;

    for (int s = 0; s < GR_N_STREAMS; s++) {
        is_empty = is_empty && !d->queued[s].first;
        if (may_run(d->queued[s].first))
            may[n++] = s;
    }
    if (is_empty)
        return false;
    GR_BUG_IF(n == 0); /* everybody waits for somebody */
    run_item(d, take(&d->queued[may[gr_mt_u32(&d->rng) % (uint32_t)n]]));
    return true;
}

static gr_status replay_sync(gr_device *d)
{
    while (run_one(device_of(d)))
        ;
    return GR_OK;
}

/* ---- the table ---- */

static gr_status replay_open(gr_device **out, int index)
{
    replay_device *d = (replay_device *)gr_calloc(1, sizeof(*d));

    if (!d)
        return GR_ERR_NOMEM;
    d->base = (gr_device){ .ops = &gr_backend_replay, .index = index };
    gr_mt_seed(&d->rng, (uint32_t)index);
    for (int s = 0; s < GR_N_STREAMS; s++) {
        d->streams[s] = (stream){ .d = d, .kind = (gr_stream_kind)s };
        d->queued[s].end = &d->queued[s].first;
    }
    *out = &d->base;
    return GR_OK;
}

static void replay_close(gr_device *d)
{
    if (!d)
        return;
    for (int s = 0; s < GR_N_STREAMS; s++)
        drop(&device_of(d)->queued[s]);
    free_queue(device_of(d)->recording);
    gr_free(d);
}

static int replay_count(void)
{
    return 1;
}

static void replay_describe(gr_device *d, gr_text *out)
{
    (void)d;
    gr_text_add(out, "no device, and streams");
}

static gr_status replay_copy(gr_device *d, void *dst, const void *src, size_t n_bytes)
{
    return queue_item(d, (item){ .kind = ITEM_COPY, .dst = dst, .src = src, .n_bytes = n_bytes });
}

static gr_status replay_upload_ahead(gr_device *d, void *dst, const void *src, size_t n_bytes)
{
    return queue_item(d, (item){ .kind = ITEM_COPY,
                                 .stream = GR_STREAM_COPY,
                                 .dst = dst,
                                 .src = src,
                                 .n_bytes = n_bytes });
}

static gr_status replay_zero(gr_device *d, void *dst, size_t n_bytes)
{
    return queue_item(d, (item){ .kind = ITEM_ZERO, .dst = dst, .n_bytes = n_bytes });
}

static void *replay_stream(gr_device *d, gr_stream_kind kind)
{
    return &device_of(d)->streams[kind];
}

static gr_status replay_event_create(gr_device *d, void **out)
{
    (void)d;
    *out = gr_calloc(1, sizeof(event));
    return *out ? GR_OK : GR_ERR_NOMEM;
}

/* Items may still name it: as with CUDA, it goes when they are done. */
static void replay_event_destroy(gr_device *d, void *e)
{
    if (e)
        GR_IGNORE(replay_sync(d));
    gr_free(e);
}

static gr_status replay_record(gr_device *d, void *e, gr_stream_kind kind)
{
    return queue_item(d, (item){ .kind = ITEM_HAPPEN, .stream = kind, .event = (event *)e });
}

static gr_status replay_wait(gr_device *d, void *e, gr_stream_kind kind)
{
    return queue_item(d, (item){ .kind = ITEM_WAIT, .stream = kind, .event = (event *)e });
}

static gr_status replay_slot_mark(gr_device *d, int slot, gr_stream_kind kind)
{
    GR_BUG_IF(slot < 0 || slot >= GR_N_SLOTS);
    return replay_record(d, &device_of(d)->slots[slot], kind);
}

static gr_status replay_slot_wait(gr_device *d, int slot)
{
    const event *e = &device_of(d)->slots[slot];
    uint64_t count = e->n_recorded;

    while (e->n_happened < count)
        GR_BUG_IF(!run_one(device_of(d)));
    return GR_OK;
}

int gr_replay_n_reordered(gr_device *d)
{
    int n = device_of(d)->n_reordered;

    device_of(d)->n_reordered = 0;
    return n;
}

/* ---- recording ---- */

static gr_status replay_begin(gr_device *base)
{
    replay_device *d = device_of(base);

    GR_BUG_IF(d->recording != NULL);
    d->recording = (queue *)gr_malloc(sizeof(*d->recording));
    if (!d->recording)
        return GR_ERR_NOMEM;
    *d->recording = (queue){ .end = &d->recording->first };
    d->n_recordings++;
    for (int s = 0; s < GR_N_STREAMS; s++) {
        d->before[s] = (clock){ { 0 } };
        d->takes_part[s] = s == GR_STREAM_COMPUTE;
    }
    return GR_OK;
}

static gr_status replay_end(gr_device *base, void **recorded)
{
    replay_device *d = device_of(base);
    queue *q = d->recording;

    GR_BUG_IF(!q);
    d->recording = NULL;
    for (int s = 0; s < GR_N_STREAMS; s++)
        if (d->before[GR_STREAM_COMPUTE].n[s] < d->before[s].n[s]) {
            free_queue(q);
            return gr_fail(GR_ERR_DEVICE, "stream %d has not joined at the recording's end", s);
        }
    *recorded = q;
    return GR_OK;
}

static gr_status replay_launch(gr_device *d, void *recorded)
{
    for (const item *i = ((const queue *)recorded)->first; i; i = i->next) {
        item *again = (item *)gr_malloc(sizeof(*again));

        if (!again)
            return GR_ERR_NOMEM;
        *again = *i;
        queue_now(device_of(d), again);
    }
    return GR_OK;
}

static void replay_free(gr_device *d, void *recorded)
{
    (void)d;
    free_queue((queue *)recorded);
}

const gr_backend_ops gr_backend_replay = {
    .name = "replay",
    .align = 256,
    .has_host_memory = false,
    .needs_copies = true,
    .runs_at_once = false,
    .can_poll = false,
    .has_streams = true,
    .can_capture = true,
    .shares_memory = true,
    .keeps_low = false,
    .open = replay_open,
    .close = replay_close,
    .count = replay_count,
    .describe = replay_describe,
    .alloc = gr_host_alloc,
    .free = gr_host_free,
    .host_alloc = gr_host_alloc,
    .host_free = gr_host_free,
    .upload = replay_copy,
    .download = replay_copy,
    .copy = replay_copy,
    .zero = replay_zero,
    .upload_ahead = replay_upload_ahead,
    .sync = replay_sync,
    .stream = replay_stream,
    .event_create = replay_event_create,
    .event_destroy = replay_event_destroy,
    .event_record = replay_record,
    .event_wait = replay_wait,
    .timer_begin = gr_host_timer_begin,
    .timer_end = gr_host_timer_end,
    .slot_mark = replay_slot_mark,
    .slot_wait = replay_slot_wait,
    .capture_begin = replay_begin,
    .capture_end = replay_end,
    .capture_launch = replay_launch,
    .capture_free = replay_free,
    .memory = gr_host_memory,
    .has_bf16 = gr_host_has_bf16,
};
