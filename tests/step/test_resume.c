/*
 * Resume: 2k steps are the same, bit for bit, as k steps, a checkpoint file, and k steps
 * in a new world; for every precision, with accumulation and clipping, on 1 and 2 ranks.
 */
#include "check.h"
#include "scratch.h"
#include "step/world.h"

static job make_job(gr_amp amp, int accumulate, gr_optim_kind kind)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    job j = { .global_batch = 32 };

    c.trace = trace_mlp;
    c.amp = amp;
    c.accumulate = accumulate;
    c.optim.kind = kind;
    c.optim.momentum = 0.9;
    c.clip_norm = 0.5;
    c.seed = 9;
    j.c = c;
    return j;
}

static void run(job *j, int ranks)
{
    if (ranks == 1)
        GR_CHECK_OK(run_rank(j, NULL));
    else
        run_ranks(j, ranks);
}

static void test_resume(gr_amp amp, int accumulate, gr_optim_kind kind, int ranks)
{
    job whole = make_job(amp, accumulate, kind), half = whole, rest = whole;

    whole.n_steps = 10;
    half.n_steps = 5;
    rest.first = 5;
    rest.n_steps = 5;
    run(&whole, ranks);
    run(&half, ranks);
    GR_CHECK_OK(gr_ckpt_write("half.safetensors", half.end));
    GR_CHECK_OK(gr_ckpt_read("half.safetensors", &rest.start));
    run(&rest, ranks);
    check_same_state(whole.end, rest.end);
    for (int i = 0; i < 5; i++)
        GR_CHECK(whole.loss[5 + i] == rest.loss[i]);
    gr_snapshot_destroy(whole.end);
    gr_snapshot_destroy(half.end);
    gr_snapshot_destroy(rest.start);
    gr_snapshot_destroy(rest.end);
}

/* A snapshot of another model is refused by name, and the state stays as it was. */
static void test_wrong_snapshot(void)
{
    job j = make_job(GR_AMP_NONE, 1, GR_OPTIM_SGD);
    gr_snapshot *s;
    void *mem;

    GR_CHECK_OK(gr_snapshot_create(&s));
    j.start = s;
    j.n_steps = 1;
    GR_CHECK_FAILS(run_rank(&j, NULL), GR_ERR_ARG, "the snapshot has no 'fc1.weight'");
    GR_CHECK_OK(gr_snapshot_add(s, "fc1.weight", GR_F32, GR_SHAPE(16, 13), &mem));
    GR_CHECK_FAILS(run_rank(&j, NULL), GR_ERR_ARG,
                   "'fc1.weight' is f32 [16, 13] in the snapshot, f32 [16, 12] here");
    gr_snapshot_destroy(s);
}

int main(void)
{
    static const gr_amp amps[] = { GR_AMP_NONE, GR_AMP_BF16, GR_AMP_F16 };

    gr_test_scratch();
    for (int ranks = 1; ranks <= 2; ranks++)
        for (int a = 0; a < 3; a++) {
            test_resume(amps[a], 1, GR_OPTIM_ADAMW, ranks);
            test_resume(amps[a], 4, GR_OPTIM_SGD, ranks);
        }
    test_wrong_snapshot();
    return 0;
}
