/*
 * Patient messages: one that nobody asked for stays in its stream, without memory of its own,
 * until its receive comes; sums by shares over TCP are made of them. Calls of several kinds
 * that ranks begin and finish at different times get through all the same, and so does what a
 * rank sent before it left.
 */
#include "base/clock.h"
#include "check.h"
#include "comm/stream.h"
#include "comm/world.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- one stream ---- */

typedef struct source {
    uint8_t bytes[4 * (GR_HEAD_BYTES + 8)];
    size_t n, at, most;
} source;

/* At most `most` bytes at a time: bodies and heads are cut anywhere. */
static ssize_t feed(void *arg, const struct iovec *parts, int n_parts)
{
    source *s = (source *)arg;
    size_t most = s->n - s->at < s->most ? s->n - s->at : s->most, done = 0;

    for (int k = 0; k < n_parts && done < most; k++) {
        size_t n = parts[k].iov_len < most - done ? parts[k].iov_len : most - done;

        memcpy(parts[k].iov_base, s->bytes + s->at + done, n);
        done += n;
    }
    s->at += done;
    return (ssize_t)done;
}

static void put(source *s, uint32_t slot, const char text[8])
{
    gr_head h = { .type = GR_HEAD_MESSAGE, .n_bytes = 8, .slot = slot };

    gr_head_put(s->bytes + s->n, &h);
    memcpy(s->bytes + s->n + GR_HEAD_BYTES, text, 8);
    s->n += GR_HEAD_BYTES + 8;
}

static gr_status on_head(void *arg, int peer, const gr_head *h, const char *text)
{
    (void)arg;
    (void)peer;
    (void)h;
    (void)text;
    return GR_OK;
}

static void test_stream(bool has_patience, size_t most)
{
    gr_wire w = { .size = 2, .user = { NULL, on_head }, .has_patience = has_patience };
    source s = { .most = most };
    gr_pipe p = { .arg = &s, .read = feed };
    gr_what what = { .kind = GR_CALL_ALLREDUCE };
    char mem[3][8];
    gr_msg m[3];
    gr_stream in = { .in_at = 0 };
    bool moved = false;

    for (uint32_t i = 0; i < 3; i++) {
        put(&s, i == 1 ? 7 : i | GR_SLOT_PATIENT, i == 0 ? "first..." : "another");
        m[i] = (gr_msg){ .peer = 1, .mem = mem[i], .n_bytes = 8, .what = &what, .label = "" };
        m[i].slot = i == 1 ? 7 : i | GR_SLOT_PATIENT;
    }
    GR_CHECK_OK(gr_inboxes_create(&w.inboxes, 2));
    GR_CHECK_OK(gr_stream_in(&in, &p, &w, 1, &moved));
    GR_CHECK_EQ(gr_stream_is_held(&in), has_patience);
    GR_CHECK_EQ(s.at == s.n, !has_patience); /* the first one holds up the others */
    GR_CHECK(gr_inbox_find(&w.inboxes[1], 0) != NULL);
    GR_CHECK_EQ(w.inboxes[1].parcel_bytes, has_patience ? 0 : 24);
    for (int i = 0; i < 3; i++)
        GR_CHECK_OK(gr_inbox_post(&w.inboxes[1], &m[i]));
    GR_CHECK(!gr_stream_is_held(&in));
    GR_CHECK_OK(gr_stream_in(&in, &p, &w, 1, &moved));
    for (int i = 0; i < 3; i++)
        GR_CHECK(m[i].is_done && memcmp(mem[i], i == 0 ? "first..." : "another", 8) == 0);
    GR_CHECK(gr_inbox_find(&w.inboxes[1], 0) == NULL);
    gr_inboxes_destroy(w.inboxes, 2);
}

/* ---- groups ---- */

#define N_ELEM  ((size_t)3 << 20)
#define N_CALLS 3

static void pause_ms(int ms)
{
    struct timespec t = { 0, ms * 1000000L };

    nanosleep(&t, NULL);
}

static float expected(gr_call_kind kind, int w, size_t i)
{
    float sum = 0;

    for (int r = 0; r < w; r++)
        sum += (float)(r + 1) + (float)(i % 1000);
    return kind == GR_CALL_BROADCAST ? 1.0F + (float)(i % 1000) : sum;
}

/* The last rank begins a call only after the one before it is finished; the others have all
 * under way and finish the last one first. Each kind needs something from everybody. */
static gr_status out_of_step(gr_pg *pg, void *arg)
{
    static const gr_call_kind kinds[N_CALLS] = { GR_CALL_ALLREDUCE, GR_CALL_BROADCAST,
                                                 GR_CALL_ALLREDUCE };
    int me = gr_pg_rank(pg), w = gr_pg_size(pg);
    bool is_slow = me == *(int *)arg;
    gr_work *work[N_CALLS];
    float *mem[N_CALLS];

    for (int k = 0; k < N_CALLS; k++) {
        gr_pg_call c = { .kind = kinds[k], .dtype = GR_F32, .n_elem = N_ELEM, .label = "mixed" };

        mem[k] = malloc(N_ELEM * sizeof(float));
        for (size_t i = 0; i < N_ELEM; i++)
            mem[k][i] = (float)(me + 1) + (float)(i % 1000);
        c.src = c.dst = mem[k];
        if (is_slow)
            pause_ms(20);
        GR_TRY(gr_pg_begin(&work[k], pg, &c));
        if (is_slow)
            GR_TRY(gr_work_finish(work[k]));
    }
    for (int k = N_CALLS; k-- > 0 && !is_slow;)
        GR_TRY(gr_work_finish(work[k]));
    for (int k = 0; k < N_CALLS; k++) {
        for (size_t i = 0; i < N_ELEM; i++)
            GR_CHECK(mem[k][i] == expected(kinds[k], w, i));
        free(mem[k]);
    }
    return GR_OK;
}

/* Rank 0 comes late; the others have their shares before it has looked at what they sent. */
static gr_status scatter_and_leave(gr_pg *pg, void *arg)
{
    int me = gr_pg_rank(pg), w = gr_pg_size(pg);
    size_t n = N_ELEM / (size_t)w;
    float *src = malloc((size_t)w * n * sizeof(float)), *dst = malloc(n * sizeof(float));
    gr_status st;

    (void)arg;
    for (size_t i = 0; i < (size_t)w * n; i++)
        src[i] = (float)(me + 1) + (float)(i % 1000);
    if (me == 0)
        pause_ms(20);
    st = gr_pg_reduce_scatter(pg, dst, (gr_vec){ src, (size_t)w * n, GR_F32 }, GR_REDUCE_SUM);
    for (size_t i = 0; st == GR_OK && i < n; i++)
        GR_CHECK(dst[i] == expected(GR_CALL_REDUCE_SCATTER, w, (size_t)me * n + i));
    free(src);
    free(dst);
    return st;
}

int main(void)
{
    for (size_t most = 1; most < 3 * GR_HEAD_BYTES; most++) {
        test_stream(false, most);
        test_stream(true, most);
    }
    world_transport("tcp");
    for (int slow = 0; slow < 3; slow++)
        world_run(3, out_of_step, &slow);
    for (int i = 0; i < 5; i++)
        world_run(2 + i % 3, scatter_and_leave, NULL);
    return 0;
}
