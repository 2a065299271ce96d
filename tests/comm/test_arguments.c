/*
 * Calls that are wrong on this rank alone, whatever the others do: they are refused before
 * anybody is met, and the message describes the call that was made.
 */
#include "check.h"
#include "comm/world.h"

#define N 4

/* A call that must be refused on rank `rank`, and what is said. */
typedef struct wrong {
    int rank;
    gr_pg_call call;
    const char *says;
} wrong;

static float four[N], eight[2 * N];
static const size_t some[] = { N, N };

#define GIVES  "gives is NULL"
#define RESULT "for the result on rank 0 is NULL"
#define F32    .dtype = GR_F32

static const wrong memory[] = {
    { 0, { GR_CALL_ALLREDUCE, F32, .n_elem = N }, "all-reduce (sum of 4 f32): the memory" },
    { 0, { GR_CALL_ALLREDUCE, F32, .src = four, .n_elem = N }, RESULT },
    { 1, { GR_CALL_REDUCE, F32, .n_elem = N }, GIVES },
    { 0, { GR_CALL_REDUCE, F32, .src = four, .n_elem = N }, RESULT },
    { 0, { GR_CALL_REDUCE_SCATTER, F32, .src = eight, .n_elem = N }, RESULT },
    { 0, { GR_CALL_REDUCE_SCATTER, F32, .n_elem = N }, GIVES },
    { 0, { GR_CALL_ALLGATHER, F32, .src = four, .n_elem = N }, RESULT },
    { 0, { GR_CALL_ALLGATHER, F32, .counts = some }, GIVES },
    { 0, { GR_CALL_BROADCAST, F32, .n_elem = N }, GIVES },
    { 1, { GR_CALL_BROADCAST, F32, .n_elem = N }, "for the result on rank 1 is NULL" },
    { 0, { GR_CALL_GATHER, F32, .src = four, .n_elem = N }, RESULT },
    { 1, { GR_CALL_GATHER, F32, .n_elem = N }, GIVES },
    { 0, { GR_CALL_SCATTER, F32, .src = eight, .n_elem = N }, RESULT },
    { 1, { GR_CALL_SCATTER, F32, .n_elem = N }, "for the result on rank 1 is NULL" },
    { 0, { GR_CALL_ALLTOALL, F32, .src = eight, .n_elem = N }, RESULT },
    { 0, { GR_CALL_ALLTOALL, F32, .counts = some, .send_counts = some }, GIVES },
    { 0, { GR_CALL_SEND, F32, .n_elem = N, .root = 1 }, "send (4 f32, rank 1): the memory" },
    { 0, { GR_CALL_RECV, F32, .n_elem = N, .root = 1 }, "receive (4 f32, rank 1): the memory" },
};

static const wrong described[] = {
    { 0,
      { GR_CALL_ALLREDUCE, F32, .dst = four, .n_elem = 1, .op = GR_REDUCE_OR },
      "all-reduce (bit-or of 1 f32): the bit-or of f32" },
    { 0,
      { GR_CALL_BROADCAST, F32, .dst = four, .n_elem = 3, .root = 7 },
      "broadcast (3 f32, root 7): root is rank 7" },
    { 0, { GR_CALL_SEND, F32, .src = four, .n_elem = 2 }, "send (2 f32, rank 0): to rank 0" },
    { 0,
      { GR_CALL_RECV, F32, .dst = four, .n_elem = 2, .root = 5 },
      "receive (2 f32, rank 5): from rank 5" },
    { 0,
      { GR_CALL_ALLREDUCE, (gr_dtype)99, .dst = four, .n_elem = 1, .label = "loss" },
      "all-reduce 'loss' (sum of 1 unknown): there is no element type 99" },
    { 0,
      { GR_CALL_BROADCAST, F32, .dst = four, .n_elem = N, .counts = some },
      "broadcast (4 f32, root 0): counts are for" },
    { 0, { (gr_call_kind)99, F32, .dst = four }, "there is no call of kind 99" },
};

static gr_status run_wrong(gr_pg *pg, void *arg)
{
    const wrong *w = (const wrong *)arg;

    return gr_pg_rank(pg) == w->rank ? gr_pg_run(pg, &w->call) : GR_OK;
}

static gr_status begin_wrong(gr_pg *pg, void *arg)
{
    const wrong *w = (const wrong *)arg;
    gr_work *work;

    return gr_pg_rank(pg) == w->rank ? gr_pg_begin(&work, pg, &w->call) : GR_OK;
}

static void refuse(const wrong *w, int n_wrong)
{
    gr_error e[2];

    for (int i = 0; i < 2 * n_wrong; i++) {
        const wrong *one = &w[i / 2];

        world_try(2, 0, i % 2 ? begin_wrong : run_wrong, (void *)(uintptr_t)one, e);
        if (e[one->rank].status != GR_ERR_ARG || !strstr(e[one->rank].text, one->says)) {
            fprintf(stderr, "case %d: got '%s', expected '%s'\n", i / 2, e[one->rank].text,
                    one->says);
            exit(1);
        }
    }
}

/* One group each, because the first failure breaks it. */
static gr_status no_call(gr_pg *pg, void *arg)
{
    (void)arg;
    GR_CHECK_FAILS(gr_work_test(NULL, NULL), GR_ERR_ARG, "there is no work");
    GR_CHECK_FAILS(gr_pg_begin(NULL, pg, NULL), GR_ERR_ARG, "no place for the work");
    GR_CHECK_FAILS(gr_pg_run(pg, NULL), GR_ERR_ARG, "there is no call (NULL)");
    return GR_OK;
}

static gr_status no_bytes(gr_pg *pg, void *arg)
{
    gr_pg *sub;
    char **all;

    (void)arg;
    GR_CHECK_FAILS(gr_pg_create_sub(&sub, pg, NULL, 1), GR_ERR_ARG, "without their list (NULL)");
    GR_CHECK_FAILS(gr_pg_gather_bytes(pg, NULL, 9, &all, NULL), GR_ERR_ARG, "the 9 bytes is NULL");
    return GR_OK;
}

/* No elements need no memory, and a rank that only gives or only gets needs one of the two. */
static gr_status enough(gr_pg *pg, void *arg)
{
    bool is_root = gr_pg_rank(pg) == 0;
    float mine[N] = { 1, 2, 3, 4 }, sum[N];
    gr_vec none = { NULL, 0, GR_F32 };
    gr_pg_call reduce = { GR_CALL_REDUCE, F32, mine, is_root ? sum : NULL, N, .root = 0 };

    (void)arg;
    GR_TRY(gr_pg_allreduce(pg, none, GR_REDUCE_SUM));
    GR_TRY(gr_pg_broadcast(pg, none, 0));
    GR_TRY(gr_pg_allgather(pg, NULL, none));
    GR_TRY(gr_pg_alltoall(pg, NULL, none));
    GR_TRY(is_root ? gr_pg_send(pg, none, 1) : gr_pg_recv(pg, none, 0));
    GR_TRY(gr_pg_run(pg, &reduce));
    GR_CHECK(!is_root || sum[3] == 8);
    GR_TRY(gr_pg_scatter(pg, (gr_vec){ mine, 2, GR_F32 }, is_root ? sum : NULL, 0));
    GR_CHECK(mine[0] == (is_root ? 2 : 6));
    return gr_pg_barrier(pg);
}

int main(void)
{
    gr_error e[2];

    refuse(memory, (int)(sizeof(memory) / sizeof(memory[0])));
    refuse(described, (int)(sizeof(described) / sizeof(described[0])));
    world_try(2, 0, no_call, NULL, e);
    world_try(2, 0, no_bytes, NULL, e);
    world_run(2, enough, NULL);
    world_transport("tcp");
    refuse(memory, 1);
    world_run(2, enough, NULL);
    return 0;
}
