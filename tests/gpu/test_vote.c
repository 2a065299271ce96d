/*
 * A step that is watched, on a GPU (tests/step/test_vote.c has the rest): the same bits as one that
 * is not; a request of the last rank reaches every host two updates later, from a recorded step;
 * an update whose loss is no number on one rank changes nothing on any, nor do later ones until a
 * state is restored. One rank, and two by ipc and by nccl.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "gpu/gpu.h"
#include "op/vote/vote.h"
#include "step/vote.h"
#include "step/world.h"

#define BATCH  8
#define N_GOOD 4 /* by then the step is recorded and replayed */

static gr_step *open_step(gr_pg *host, const char *group, int accumulate, bool watch)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_step *s;

    c.trace = trace_exact;
    c.device = "cuda";
    c.pg = host;
    c.group = group;
    c.accumulate = accumulate;
    c.optim.momentum = 0.5;
    c.ema_decay = 0.75;
    c.first_bucket_bytes = 64;
    c.bucket_bytes = 512;
    GR_CHECK_OK(gr_step_create(&s, &c));
    if (watch)
        GR_CHECK_OK(gr_step_watch(s));
    return s;
}

/* The last rank's last micro-step may be bad. */
static void update(gr_step *s, gr_pg *host, int accumulate, int number, bool bad)
{
    batch *b = malloc(sizeof(*b));

    GR_CHECK(b);
    for (int m = 0; m < accumulate; m++) {
        batch_fill(b, true, number, (m * gr_pg_size(host) + gr_pg_rank(host)) * BATCH, BATCH);
        if (bad && m + 1 == accumulate && gr_pg_rank(host) + 1 == gr_pg_size(host))
            b->t[3] = (float)NAN;
        GR_CHECK_OK(gr_step_train(s, b->feeds, 2, 0.0625));
    }
    free(b);
}

static gr_verdict next(gr_step *s, bool drain)
{
    gr_verdict v;

    GR_CHECK_OK(gr_step_next_verdict(s, drain, &v));
    return v;
}

static void check_same_params(const gr_snapshot *a, const gr_snapshot *b)
{
    GR_CHECK_EQ(gr_snapshot_count(a), gr_snapshot_count(b));
    for (int i = 0; i < gr_snapshot_count(a); i++) {
        const gr_named *x = gr_snapshot_at(a, i), *y = gr_snapshot_find(b, x->name);

        if (strcmp(x->name, "optimizer.skipped") != 0)
            GR_CHECK(memcmp(x->mem, y->mem,
                            (size_t)gr_shape_count(&x->shape) * gr_dtype_bytes(x->dtype)) == 0);
    }
}

/* Update N_GOOD is bad, and asked to stop; two more follow. */
static void check_bad(gr_step *s, gr_pg *host, int accumulate, const gr_snapshot *before)
{
    int last = gr_pg_size(host) - 1;
    gr_snapshot *after;
    gr_verdict v;

    gr_step_ask_to_stop(s, gr_pg_rank(host) == last ? 15 : 0);
    for (int i = N_GOOD; i < N_GOOD + 3; i++) {
        update(s, host, accumulate, i, i == N_GOOD);
        v = next(s, false);
        GR_CHECK_EQ(v.is_there, i == N_GOOD + 2);
    }
    GR_CHECK(v.behind == 2 && v.stop == 15 && v.halted && v.grad);
    GR_CHECK_EQ(v.loss, gr_loss_code(last, last + 1, true));
    for (int behind = 1; behind >= 0; behind--) {
        v = next(s, true);
        GR_CHECK(v.is_there && v.behind == behind && v.halted && !v.grad && v.loss == 0);
    }
    GR_CHECK_OK(gr_step_save(s, &after));
    check_same_params(before, after);
    gr_snapshot_destroy(after);
}

static gr_status check_rank(gr_pg *host, const char *group, int accumulate)
{
    gr_step *watched = open_step(host, group, accumulate, true);
    gr_step *plain = open_step(host, group, accumulate, false);
    gr_snapshot *before, *a, *b;

    for (int i = 0; i < N_GOOD; i++) {
        update(watched, host, accumulate, i, false);
        update(plain, host, accumulate, i, false);
        GR_CHECK_EQ(next(watched, false).is_there, i >= 2);
    }
    while (next(watched, true).is_there)
        ;
    GR_CHECK_OK(gr_step_save(watched, &before));
    GR_CHECK_OK(gr_step_save(plain, &b));
    check_same_state(b, before);
    gr_snapshot_destroy(b);
    check_bad(watched, host, accumulate, before);
    GR_CHECK_OK(gr_step_restore(watched, before));
    for (int i = N_GOOD; i < N_GOOD + 3; i++) {
        update(watched, host, accumulate, i, false);
        update(plain, host, accumulate, i, false);
        next(watched, false);
    }
    GR_CHECK_OK(gr_step_save(watched, &a));
    GR_CHECK_OK(gr_step_save(plain, &b));
    check_same_state(b, a);
    gr_snapshot_destroy(before);
    gr_snapshot_destroy(a);
    gr_snapshot_destroy(b);
    gr_step_destroy(watched);
    gr_step_destroy(plain);
    return GR_OK;
}

static gr_status one_rank(gr_pg *host, void *group)
{
    gpu_module();
    GR_TRY(check_rank(host, group, 1));
    return check_rank(host, group, 2);
}

int main(void)
{
    static char ipc[] = "ipc", nccl[] = "nccl";

    /* Processes first: after CUDA has started, forks cannot use it. */
    gpu_ranks(2, 60000, 0, one_rank, ipc);
    gpu_ranks(2, 60000, 0, one_rank, nccl);
    gpu_module();
    GR_CHECK_OK(check_rank(NULL, "auto", 1));
    GR_CHECK_OK(check_rank(NULL, "auto", 2));
    return 0;
}
