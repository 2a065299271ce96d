/*
 * What ranks suffer: abort, leaving, lateness, different calls, different settings. Every
 * case ends with a message that names the rank and the call, long before CTest's limit.
 * P1 P2 P6 P10.
 */
#include "base/clock.h"
#include "check.h"
#include "comm/pg.h"
#include "comm/world.h"

#include <stdatomic.h>
#include <unistd.h>

#define LONG_MS  240000 /* a limit that is never reached */
#define SHORT_MS 1500   /* one that is, by ranks that wait for a late one and not by others */

static void expect(const gr_error *e, gr_status st, const char *part)
{
    if (e->status != st || !strstr(e->text, part)) {
        fprintf(stderr, "got '%s: %s', expected '%s' with '%s'\n", gr_status_text(e->status),
                e->text, gr_status_text(st), part);
        exit(1);
    }
}

/* Both ranks tell both sides of a difference: the first to see it, and one that comes when the
 * group is broken. */
static void expect_both(const gr_error e[2], const char *one, const char *other)
{
    GR_CHECK(e[0].status == GR_ERR_ARG || e[1].status == GR_ERR_ARG);
    for (int r = 0; r < 2; r++) {
        gr_status st = e[r].status == GR_ERR_PEER ? GR_ERR_PEER : GR_ERR_ARG;

        expect(&e[r], st, one);
        expect(&e[r], st, other);
    }
}

static gr_status abort_one(gr_pg *pg, void *arg)
{
    (void)arg;
    if (pg->rank == 1)
        gr_pg_abort(pg, "loss is not finite");
    return gr_pg_barrier(pg);
}

static gr_status leave_early(gr_pg *pg, void *arg)
{
    (void)arg;
    return pg->rank == 2 ? GR_OK : gr_pg_barrier(pg);
}

/* The late rank comes when somebody has given up, however long that takes. */
static void be_late(atomic_int *n_given_up)
{
    gr_deadline d = gr_deadline_in_ms(LONG_MS / 4);

    while (atomic_load(n_given_up) == 0) {
        GR_CHECK(!gr_deadline_passed(d));
        usleep(1000);
    }
}

/* Rank 2 comes too late; rank 1 waits as rank 0 does and is not blamed. */
static gr_status late(gr_pg *pg, void *arg)
{
    gr_coll c = { .id = 3, .label = "bucket 3 (14 gradients)", .n_elem = 10, .dtype = GR_F32 };
    atomic_int *n_given_up = (atomic_int *)arg;
    void *base;
    gr_status st;

    GR_TRY(gr_pg_exchange(pg, NULL, 64, &base));
    pg->timeout_ms = SHORT_MS; /* not before: joining is not tried here */
    if (pg->rank == 2)
        be_late(n_given_up);
    st = gr_pg_start(pg, &c, NULL);
    if (st == GR_OK)
        st = gr_pg_finish(pg, &c, NULL);
    atomic_fetch_add(n_given_up, 1);
    return st;
}

/* "... waited 1.5 s for rank 2": at least as long as it should, and it is said how long. */
static void check_waited(const char *text, const char *who)
{
    const char *at = strstr(text, " waited ");
    char *end;

    GR_CHECK(at != NULL);
    GR_CHECK(strtod(at + 8, &end) * 1000 >= SHORT_MS - 51);
    GR_CHECK(strncmp(end, " s for ", 7) == 0 && strncmp(end + 7, who, strlen(who)) == 0);
}

static gr_status other_count(gr_pg *pg, void *arg)
{
    float x[3] = { 0 };

    (void)arg;
    return gr_pg_allreduce(pg, (gr_vec){ x, pg->rank == 0 ? 3 : 2, GR_F32 }, GR_REDUCE_SUM);
}

static gr_status other_call(gr_pg *pg, void *arg)
{
    float x = 0;

    (void)arg;
    return pg->rank == 0 ? gr_pg_barrier(pg) : gr_pg_broadcast(pg, (gr_vec){ &x, 1, GR_F32 }, 1);
}

static gr_status other_bucket(gr_pg *pg, void *arg)
{
    gr_coll c = { .label = pg->rank == 0 ? "embed" : "head", .n_elem = 8, .dtype = GR_F32 };
    void *base;

    (void)arg;
    c.offset = pg->rank == 0 ? 0 : 64;
    GR_TRY(gr_pg_exchange(pg, NULL, 256, &base));
    GR_TRY(gr_pg_start(pg, &c, NULL));
    return gr_pg_finish(pg, &c, NULL);
}

/* One rank is in a collective, the other in a round: neither sees the other's card. */
static gr_status crossed(gr_pg *pg, void *arg)
{
    gr_coll c = { .label = "bucket 0", .n_elem = 8, .dtype = GR_F32 };
    void *base;

    (void)arg;
    GR_TRY(gr_pg_exchange(pg, NULL, 64, &base));
    if (pg->rank == 0)
        return gr_pg_barrier(pg);
    GR_TRY(gr_pg_start(pg, &c, NULL));
    return gr_pg_finish(pg, &c, NULL);
}

/* One rank is in a call by messages, the other in a round. */
static gr_status crossed_call(gr_pg *pg, void *arg)
{
    float x[4] = { 0 };

    (void)arg;
    if (pg->rank == 0)
        return gr_pg_barrier(pg);
    return gr_pg_allgather(pg, x, (gr_vec){ x + 2, 1, GR_F32 });
}

/* Both wait for the other: nobody sends, and each sees that the roots differ. */
static gr_status other_root(gr_pg *pg, void *arg)
{
    float x[4] = { 0 };
    gr_pg_call c = { .kind = GR_CALL_SCATTER, .dtype = GR_F32, .src = x, .dst = x, .n_elem = 1 };

    (void)arg;
    c.root = 1 - pg->rank;
    c.label = "weights";
    return gr_pg_run(pg, &c);
}

static gr_status other_length(gr_pg *pg, void *arg)
{
    float x[4] = { 0 };

    (void)arg;
    if (pg->rank == 0)
        return gr_pg_send(pg, (gr_vec){ x, 3, GR_F32 }, 1);
    return gr_pg_recv(pg, (gr_vec){ x, 2, GR_F32 }, 0);
}

/* Rank 1 is late for a call by messages; its last one is named. */
static gr_status late_call(gr_pg *pg, void *arg)
{
    int32_t x[2] = { 1, 2 }, y[4];
    gr_pg_call c = { .kind = GR_CALL_ALLGATHER, .dtype = GR_I32, .src = x, .dst = y, .n_elem = 1 };
    gr_status st;

    c.label = "the first one";
    GR_TRY(gr_pg_run(pg, &c));
    pg->timeout_ms = SHORT_MS;
    if (pg->rank == 1)
        be_late((atomic_int *)arg);
    c.label = "the second one";
    st = gr_pg_run(pg, &c);
    atomic_fetch_add((atomic_int *)arg, 1);
    return st;
}

static gr_status settings(gr_pg *pg, void *arg)
{
    const char *const *text = (const char *const *)arg;

    GR_TRY(gr_pg_compare(pg, "model = mlp\nseed = 1\n"));
    GR_CHECK_FAILS(gr_pg_compare(pg, text[pg->rank]), GR_ERR_ARG, "ranks differ");
    gr_status st = gr_pg_compare(pg, text[pg->rank]);

    /* The group is whole: all ranks know the same and none was cut off. */
    GR_TRY(gr_pg_barrier(pg));
    return gr_pg_compare(pg, text[pg->rank]) == st ? st : GR_OK;
}

static gr_status sticky(gr_pg *pg, void *arg)
{
    float x = 0;

    (void)arg;
    GR_CHECK_FAILS(gr_pg_broadcast(pg, (gr_vec){ &x, 1, GR_F32 }, 9), GR_ERR_ARG, "rank 9");
    GR_CHECK_FAILS(gr_pg_barrier(pg), GR_ERR_PEER, "already failed (invalid argument)");
    return GR_OK;
}

static gr_status misuse(gr_pg *pg, void *arg)
{
    gr_coll c = { .label = "far", .offset = 64, .n_elem = 1000, .dtype = GR_F32 };
    void *base;

    (void)arg;
    GR_TRY(gr_pg_exchange(pg, NULL, 128, &base));
    return gr_pg_start(pg, &c, NULL);
}

static gr_status finish_only(gr_pg *pg, void *arg)
{
    gr_coll c = { .label = "b", .n_elem = 1, .dtype = GR_F32 };

    (void)arg;
    return gr_pg_finish(pg, &c, NULL);
}

int main(void)
{
    static const char *texts[] = { "lr = 0.1\nseed = 1\n", "lr = 0.1\nseed = 2\n" };
    static const char *other_keys[] = { "lr = 0.1\n", "lr = 0.1\nclip = 1\n" };
    int64_t start = gr_now_ns();
    atomic_int n_given_up = 0;
    gr_pg *none[1];
    gr_pg_config bad = GR_PG_CONFIG_INIT;
    gr_error e[4];

    world_try(3, LONG_MS, abort_one, NULL, e);
    for (int r = 0; r < 3; r++)
        expect(&e[r], GR_ERR_PEER, "rank 1 broke the group: loss is not finite");

    world_try(3, LONG_MS, leave_early, NULL, e);
    expect(&e[2], GR_OK, "");
    GR_CHECK(e[0].status == GR_ERR_PEER && e[1].status == GR_ERR_PEER);
    GR_CHECK(strstr(e[0].text, "rank 2 left the group before barrier"));

    world_try(3, LONG_MS, late, &n_given_up, e);
    GR_CHECK(e[0].status == GR_ERR_TIMEOUT || e[1].status == GR_ERR_TIMEOUT);
    GR_CHECK(strstr(e[0].text, "'bucket 3 (14 gradients)'") && strstr(e[0].text, "rank 2 ("));
    GR_CHECK(!strstr(e[0].text, "rank 1 ("));
    check_waited(e[0].text, "rank 2 (");
    expect(&e[2], GR_ERR_PEER, "bucket 3");

    world_try(2, LONG_MS, other_count, NULL, e);
    expect_both(e, "all-reduce (sum of 2 f32)", "all-reduce (sum of 3 f32)");
    world_try(2, LONG_MS, other_call, NULL, e);
    expect_both(e, "barrier", "broadcast (1 f32, root 1)");
    world_try(2, LONG_MS, other_bucket, NULL, e);
    expect_both(e, "'embed'", "'head'");
    world_try(2, LONG_MS, crossed, NULL, e);
    expect_both(e, "barrier", "'bucket 0'");

    world_try(2, LONG_MS, crossed_call, NULL, e);
    expect_both(e, "barrier", "all-gather (1 f32)");
    world_try(2, LONG_MS, other_root, NULL, e);
    expect_both(e, "scatter 'weights' (1 f32, root 0)", "scatter 'weights' (1 f32, root 1)");
    world_try(2, LONG_MS, other_length, NULL, e);
    expect(&e[1], GR_ERR_ARG, "rank 0 sent 12 bytes where 8 were expected in send (2 f32, rank 1)");
    n_given_up = 0;
    world_try(2, LONG_MS, late_call, &n_given_up, e);
    expect(&e[0], GR_ERR_TIMEOUT, "all-gather 'the second one' (1 i32) waited ");
    check_waited(e[0].text, "rank 1 (");
    expect(&e[0], GR_ERR_TIMEOUT, "last seen in all-gather 'the first one'");
    expect(&e[0], GR_ERR_TIMEOUT, "; --timeout or GR_TIMEOUT (seconds) allows more");

    world_try(2, LONG_MS, settings, texts, e);
    for (int r = 0; r < 2; r++)
        expect(&e[r], GR_ERR_ARG, "ranks differ in 'seed': rank 0 has '1', rank 1 has '2'");
    world_try(2, LONG_MS, settings, other_keys, e);
    expect(&e[1], GR_ERR_ARG, "'clip = 1'");

    world_try(1, LONG_MS, sticky, NULL, e);
    expect(&e[0], GR_OK, "");
    /* The first to see it may break the group while the other still makes the space. */
    world_try(2, LONG_MS, misuse, NULL, e);
    expect_both(e, "all-reduce 'far'", "bytes 64 to 4064");
    world_try(2, LONG_MS, finish_only, NULL, e);
    GR_CHECK(e[0].status == GR_ERR_ARG || e[1].status == GR_ERR_ARG);

    bad.timeout_ms = -1;
    GR_CHECK_FAILS(gr_pg_create_threads(none, 1, &bad), GR_ERR_ARG, "timeout_ms is -1");
    bad = (gr_pg_config){ 1000, "pigeon" };
    GR_CHECK_FAILS(gr_pg_create_threads(none, 1, &bad), GR_ERR_ARG, "'pigeon'");
    GR_CHECK(gr_now_ns() - start < LONG_MS / 2 * 1000000LL); /* nobody waited for the limit */
    return 0;
}
