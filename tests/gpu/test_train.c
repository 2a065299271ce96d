/*
 * The training step on a GPU: the CPU's losses within rounding, also when input shapes take
 * turns, the same bits at every run and after a resume, and two ranks (ipc and nccl) that equal
 * one with the joint batch, exactly where sums are exact.
 */
#include "check.h"
#include "gpu/gpu.h"
#include "scratch.h"
#include "step/world.h"
#include "train/mean.h"
#include "train/queued.h"

static job make_job(gr_amp amp, int accumulate, bool adamw)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    job j = { .global_batch = 32, .n_steps = 30 };

    c.trace = trace_mlp;
    c.seed = 3;
    c.amp = amp;
    c.accumulate = accumulate;
    c.init_scale = 1024;
    c.optim.momentum = 0.9;
    if (adamw) {
        c.optim = (gr_optim)GR_OPTIM_ADAMW_INIT;
        c.clip_norm = 0.5;
    }
    j.c = c;
    return j;
}

static void test_like_cpu(gr_amp amp, int accumulate, bool adamw)
{
    job cpu = make_job(amp, accumulate, adamw), gpu = cpu, again = cpu;
    /* Rounding differences grow along the way: by orders of magnitude in thirty steps. */
    double tolerance = amp == GR_AMP_NONE ? 2e-4 : 5e-2;

    gpu.device = again.device = "cuda";
    GR_CHECK_OK(run_rank(&cpu, NULL));
    GR_CHECK_OK(run_rank(&gpu, NULL));
    GR_CHECK_OK(run_rank(&again, NULL));
    check_same_state(gpu.end, again.end);
    for (int i = 0; i < cpu.n_steps; i++)
        GR_CHECK_NEAR(gpu.loss[i], cpu.loss[i], tolerance * fmax(1.0, (double)cpu.loss[i]));
    printf("amp %d, accumulate %d, %s: loss after %d steps: %.6f on the GPU, %.6f on the CPU\n",
           (int)amp, accumulate, adamw ? "adamw" : "sgd", cpu.n_steps,
           (double)gpu.loss[cpu.n_steps - 1], (double)cpu.loss[cpu.n_steps - 1]);
    gr_snapshot_destroy(cpu.end);
    gr_snapshot_destroy(gpu.end);
    gr_snapshot_destroy(again.end);
}

/* In a file, as a run does it: only rank 0 has the state, and all read it. */
static gr_status resume(gr_amp amp, int accumulate, gr_pg *host, const char *group)
{
    job whole = make_job(amp, accumulate, true), first, rest;

    whole.device = "cuda";
    whole.c.group = group;
    whole.n_steps = 12;
    first = rest = whole;
    first.n_steps = rest.n_steps = 6;
    rest.first = 6;
    GR_TRY(run_rank(&whole, host));
    GR_TRY(run_rank(&first, host));
    if (gr_pg_rank(host) == 0)
        GR_TRY(gr_ckpt_write("first.safetensors", first.end));
    if (host)
        GR_TRY(gr_pg_barrier(host));
    GR_TRY(gr_ckpt_read("first.safetensors", &rest.start));
    GR_TRY(run_rank(&rest, host));
    if (gr_pg_rank(host) == 0)
        check_same_state(whole.end, rest.end);
    gr_snapshot_destroy(whole.end);
    gr_snapshot_destroy(first.end);
    gr_snapshot_destroy(rest.start);
    gr_snapshot_destroy(rest.end);
    return GR_OK;
}

#define N_TURNS 8

/* Full and short batches take turns: two plans, each made once. */
static gr_status take_turns(const char *device, gr_pg *host, const char *group, float *loss)
{
    job j = make_job(GR_AMP_NONE, 1, true);
    batch *b = malloc(sizeof(*b));
    gr_step_stats stats;
    gr_step *s;

    GR_CHECK(b);
    j.c.device = device;
    j.c.group = group;
    j.c.pg = host;
    GR_TRY(gr_step_create(&s, &j.c));
    for (int i = 0; i < N_TURNS; i++) {
        batch_fill(b, false, i, 8 * gr_pg_rank(host), i % 2 ? 5 : 8);
        GR_TRY(gr_step_train(s, b->feeds, 2, 0.01));
        GR_TRY(gr_step_read(s, "loss", (gr_vec){ &loss[i], 1, GR_F32 }));
    }
    GR_TRY(gr_step_get_stats(s, &stats));
    GR_CHECK_EQ(stats.n_plans, 2);
    GR_CHECK_EQ(stats.n_plans_made, 2);
    gr_step_destroy(s);
    free(b);
    return GR_OK;
}

static gr_status two_shapes(gr_pg *host, const char *group)
{
    float cpu[N_TURNS], gpu[N_TURNS];

    GR_TRY(take_turns("cpu", host, group, cpu));
    GR_TRY(take_turns("cuda", host, group, gpu));
    for (int i = 0; i < N_TURNS; i++)
        GR_CHECK_NEAR(gpu[i], cpu[i], 2e-4 * fmax(1.0, (double)cpu[i]));
    return GR_OK;
}

static job exact_job(int accumulate)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    job j = { .global_batch = 32, .n_steps = 3, .exact = true };

    c.trace = trace_exact;
    c.accumulate = accumulate;
    c.optim.momentum = 0.5;
    c.first_bucket_bytes = 64; /* several buckets */
    c.bucket_bytes = 512;
    j.c = c;
    return j;
}

static void test_threads(int accumulate)
{
    job one = exact_job(1), two = exact_job(accumulate);

    two.device = "cuda";
    two.c.group = "ipc";
    GR_CHECK_OK(run_rank(&one, NULL));
    run_ranks(&two, 2);
    check_same_state(one.end, two.end);
    gr_snapshot_destroy(one.end);
    gr_snapshot_destroy(two.end);
}

/* Two processes on one GPU: exact data, then a real model with amp and clipping. */
static gr_status one_rank(gr_pg *host, void *group)
{
    job one = exact_job(1), two = exact_job(2), mlp = make_job(GR_AMP_BF16, 2, true), same;

    gpu_module();
    two.device = mlp.device = "cuda";
    two.c.group = mlp.c.group = group;
    GR_TRY(run_rank(&two, host));
    GR_TRY(run_rank(&one, NULL));
    if (host->rank == 0)
        check_same_state(one.end, two.end);
    same = mlp;
    GR_TRY(run_rank(&mlp, host));
    GR_TRY(run_rank(&same, host));
    if (host->rank == 0) {
        check_same_state(mlp.end, same.end);
        printf("%s: two ranks, bf16: loss %.6f to %.6f\n", (const char *)group, (double)mlp.loss[0],
               (double)mlp.loss[mlp.n_steps - 1]);
    }
    gr_snapshot_destroy(one.end);
    gr_snapshot_destroy(two.end);
    gr_snapshot_destroy(mlp.end);
    gr_snapshot_destroy(same.end);
    GR_TRY(resume(GR_AMP_BF16, 2, host, group));
    GR_TRY(resume(GR_AMP_F16, 2, host, group));
    return two_shapes(host, group);
}

static void test_bad_label(void)
{
    job j = make_job(GR_AMP_NONE, 1, false);
    static batch b;
    gr_step *s;
    float loss;

    j.c.device = "cuda";
    GR_CHECK_OK(gr_step_create(&s, &j.c));
    for (int i = 0; i < 3; i++) {
        batch_fill(&b, false, 0, 0, 8);
        GR_CHECK_OK(gr_step_train(s, b.feeds, 2, 0.1));
        GR_CHECK_OK(gr_step_read(s, "loss", (gr_vec){ &loss, 1, GR_F32 }));
    }
    b.y[3] = 17; /* in a replayed graph: the kernel cannot return */
    GR_CHECK_OK(gr_step_train(s, b.feeds, 2, 0.1));
    GR_CHECK_FAILS(gr_step_read(s, "loss", (gr_vec){ &loss, 1, GR_F32 }), GR_ERR_ARG,
                   "index 17 at row 3 is outside [0, 5)");
    gr_step_destroy(s);
}

int main(void)
{
    static char ipc[] = "ipc", nccl[] = "nccl";

    gr_test_scratch();
    /* Processes first: after CUDA has started, forks cannot use it. */
    gpu_ranks(2, 60000, 0, one_rank, ipc);
    gpu_ranks(2, 60000, 0, one_rank, nccl);
    gpu_module();
    test_like_cpu(GR_AMP_NONE, 1, false);
    test_like_cpu(GR_AMP_NONE, 2, true);
    test_like_cpu(GR_AMP_BF16, 1, true);
    test_like_cpu(GR_AMP_F16, 2, true);
    GR_CHECK_OK(resume(GR_AMP_NONE, 1, NULL, "auto"));
    GR_CHECK_OK(resume(GR_AMP_F16, 2, NULL, "auto"));
    GR_CHECK_OK(two_shapes(NULL, "auto"));
    test_threads(1);
    test_threads(4);
    test_bad_label();
    check_queued_losses("cuda", GR_MEAN_QUEUE + 100);
    return 0;
}
