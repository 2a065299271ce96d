/*
 * The times of `gradus bench step`: a step's, what ranks spend on each other, and two networks in
 * turn. Machines are shared and their cores differ from one moment to the next, so what is told is
 * meant to hold where plain times do not:
 *
 *   parts     each step is cut at its slowest rank: what that one worked, the others waited for
 *             whatever they did; only the rest is the exchange's.
 *   speed_up  of two networks whose steps took turns; and of their nodes' fastest runs, in which a
 *             core that is slow for a moment shows only if it is slow every time.
 */
#include "backend/backend.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "op/flops.h"
#include "step/inspect.h"
#include "train/bench_step.h"
#include "train/peak.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define MOST_OWN 100000 /* steps whose own times are kept */

typedef struct times {
    double median_ms, least_ms, most_ms, mean_ms;
    int n;
    double *own_ms; /* owned; of this rank, step by step: outside the process group's calls */
    int64_t n_own, most_own;
} times;

/* Sorts. */
static void take_times(times *t, double *ms, int n)
{
    t->median_ms = gr_median(ms, n);
    t->least_ms = ms[0];
    t->most_ms = ms[n - 1];
    t->n = n;
    t->mean_ms = 0;
    for (int i = 0; i < n; i++)
        t->mean_ms += ms[i] / n;
}

static int count_stretches(const gr_bench_run *b)
{
    return b->steps < b->model->stretch ? 1 : (int)(b->steps / b->model->stretch);
}

gr_status gr_bench_run_step(gr_bench_run *b, gr_step *step)
{
    for (int64_t i = 0; i < b->accumulate; i++)
        GR_TRY(gr_step_train(step, b->feeds, b->model->n_feeds, 1e-3));
    return GR_OK;
}

/* One step; its own part is kept in t, unless there is no more room. */
static gr_status time_step(gr_bench_run *b, gr_step *step, times *t)
{
    int64_t from_ns = gr_now_ns(), busy_ns = gr_pg_busy_ns(b->pg), own_ns;

    GR_TRY(gr_bench_run_step(b, step));
    own_ns = gr_now_ns() - from_ns - (gr_pg_busy_ns(b->pg) - busy_ns);
    if (t && t->n_own < t->most_own)
        t->own_ms[t->n_own++] = (double)own_ns * 1e-6;
    return GR_OK;
}

/* Milliseconds of a step, over a stretch of them: a GPU is waited for at its end. */
static gr_status time_stretch(gr_bench_run *b, gr_step *step, double *ms, times *t)
{
    int64_t began = gr_now_ns();

    for (int i = 0; i < b->model->stretch; i++)
        GR_TRY(time_step(b, step, t));
    GR_TRY(gr_step_sync(step));
    *ms = (double)(gr_now_ns() - began) * 1e-6 / b->model->stretch;
    return GR_OK;
}

static gr_status time_steps(gr_bench_run *b, times *out)
{
    int n = count_stretches(b);
    double *ms = gr_calloc((size_t)n, sizeof(*ms));
    gr_status st = GR_ERR_NOMEM;

    out->most_own = (int64_t)n * b->model->stretch;
    if (out->most_own > MOST_OWN)
        out->most_own = MOST_OWN;
    out->own_ms = gr_calloc((size_t)out->most_own, sizeof(*out->own_ms));
    if (ms && out->own_ms)
        st = time_stretch(b, b->step, ms, NULL); /* warms up */
    for (int i = 0; i < n && st == GR_OK; i++)
        st = time_stretch(b, b->step, &ms[i], out);
    if (st == GR_OK)
        take_times(out, ms, n);
    gr_free(ms);
    return st;
}

static gr_status print_head(gr_bench_run *b)
{
    static const char *const amp[] = { "f32", "bf16", "fp16" };
    char *text;

    GR_TRY(gr_step_describe(b->step, &text));
    fprintf(b->command->out, "gradus %s, %.*s\n", GR_VERSION, (int)strcspn(text, "\n"), text);
    free(text);
    fprintf(b->command->out, "%s, batch %" PRId64 ", %s, %s, %d rank%s", b->model->text, b->batch,
            amp[b->amp], b->optimizer == GR_OPTIM_ADAMW ? "adamw" : "sgd", gr_pg_size(b->pg),
            gr_plural(gr_pg_size(b->pg)));
    if (b->accumulate > 1)
        fprintf(b->command->out, ", %" PRId64 " micro-steps", b->accumulate);
    fprintf(b->command->out, "\n");
    return GR_OK;
}

static void print_times(const gr_bench_run *b, const times *t)
{
    double samples = (double)(b->batch * b->accumulate), peak = gr_peak_flops();
    double floor = gr_graph_flops(gr_step_first_graph(b->step)) * (double)b->accumulate;
    double flops = floor / (t->median_ms * 1e-3);
    struct rusage usage = { 0 };

    fprintf(b->command->out,
            "step_ms: %.4f (median of %d stretches of %d steps; %.4f to %.4f, mean %.4f)\n",
            t->median_ms, t->n, b->model->stretch, t->least_ms, t->most_ms, t->mean_ms);
    fprintf(b->command->out, "samples_per_s: %.1f (all ranks)\n",
            samples * gr_pg_size(b->pg) / (t->median_ms * 1e-3));
    fprintf(b->command->out,
            "gflops: %.1f per rank, matrix products only; one CPU core's measured FMA peak is %.1f "
            "(%.0f%%)\n",
            flops * 1e-9, peak * 1e-9, 100 * flops / peak);
    fprintf(b->command->out,
            "floor_ms: %.2f on one core at that peak, for %.2f GFLOP of products\n",
            floor / peak * 1e3, floor * 1e-9);
    GR_IGNORE(getrusage(RUSAGE_SELF, &usage) == 0 ? GR_OK : GR_ERR_IO);
    fprintf(b->command->out, "peak_mb: %.0f\n", (double)usage.ru_maxrss / 1024);
}

/* own: the own times of all ranks, n of each. */
static void print_parts(const gr_bench_run *b, const double *own, int64_t n, double step_ms)
{
    double mean = 0, longest = 0;
    int n_ranks = gr_pg_size(b->pg);

    for (int64_t s = 0; s < n; s++) {
        double most = 0;

        for (int r = 0; r < n_ranks; r++) {
            most = own[r * n + s] > most ? own[r * n + s] : most;
            mean += own[r * n + s] / n_ranks / (double)n;
        }
        longest += most / (double)n;
    }
    fprintf(b->command->out,
            "parts_ms: %.4f own work, %.4f waiting for the slowest rank of a step, %.4f exchange "
            "(%.1f%% of a step); means\n",
            mean, longest - mean, step_ms - longest, 100 * (1 - longest / step_ms));
}

/* What ranks lose by training together. On GPUs they only queue it, which says nothing. */
static gr_status tell_parts(gr_bench_run *b, const times *t)
{
    gr_status st;
    double *all;

    if (gr_pg_size(b->pg) == 1 || !gr_step_device(b->step)->ops->runs_at_once)
        return GR_OK;
    all = gr_calloc((size_t)gr_pg_size(b->pg) * (size_t)t->n_own, sizeof(*all));
    if (!all)
        return GR_ERR_NOMEM;
    st = gr_pg_allgather(b->pg, all, (gr_vec){ t->own_ms, (size_t)t->n_own, GR_F64 });
    if (st == GR_OK && gr_pg_rank(b->pg) == 0)
        print_parts(b, all, t->n_own, t->mean_ms);
    gr_free(all);
    return st;
}

gr_status gr_bench_tell_times(gr_bench_run *b)
{
    times t = { 0 };
    gr_status st = time_steps(b, &t);

    if (st == GR_OK && gr_pg_rank(b->pg) == 0) {
        st = print_head(b);
        if (st == GR_OK)
            print_times(b, &t);
    }
    if (st == GR_OK)
        st = tell_parts(b, &t);
    gr_free(t.own_ms);
    return st;
}

/* ---- beside ---- */

/* Stretches of both in turn, so that whatever else the machine does meets both alike: the ratio of
 * neighbours holds where the times of neither do. ms: n times of each and n ratios. */
static gr_status time_pairs(gr_bench_run *b, double *ms, int n)
{
    GR_TRY(time_stretch(b, b->other, ms, NULL)); /* warms up */
    for (int i = 0; i < n; i++) {
        GR_TRY(time_stretch(b, b->step, &ms[i], NULL));
        GR_TRY(time_stretch(b, b->other, &ms[n + i], NULL));
        ms[2 * n + i] = ms[i] / ms[n + i];
    }
    return GR_OK;
}

static gr_status tell_pairs(gr_bench_run *b, int n)
{
    double *ms = gr_calloc((size_t)n * 3, sizeof(*ms));
    times t[3] = { { 0 } };
    gr_status st = ms ? time_pairs(b, ms, n) : GR_ERR_NOMEM;

    if (st == GR_OK) {
        for (int i = 0; i < 3; i++)
            take_times(&t[i], ms + (size_t)i * (size_t)n, n);
        fprintf(b->command->out,
                "beside_ms: %.4f and %.4f with %" PRId64 " thread%s, in turn (least %.4f, %.4f)\n"
                "speed_up: %.3f (median of %d pairs; %.3f to %.3f; of the medians %.3f)\n",
                t[0].median_ms, t[1].median_ms, b->beside, gr_plural(b->beside), t[0].least_ms,
                t[1].least_ms, t[2].median_ms, n, t[2].least_ms, t[2].most_ms,
                t[0].median_ms / t[1].median_ms);
    }
    gr_free(ms);
    return st;
}

/* least: of the nodes of both steps, those of the second behind n_one of the first. */
static gr_status time_nodes(gr_bench_run *b, int64_t *least, int n_one, int n)
{
    for (int i = 0; i < n; i++) {
        GR_TRY(gr_step_time_nodes(b->step, b->feeds, b->model->n_feeds, least));
        GR_TRY(gr_step_time_nodes(b->other, b->feeds, b->model->n_feeds, least + n_one));
    }
    return GR_OK;
}

static gr_status tell_nodes(gr_bench_run *b, int n)
{
    int n_one, n_other;
    double ms[2] = { 0, 0 };
    int64_t *least;
    gr_status st;

    GR_TRY(gr_step_n_nodes(b->step, b->feeds, b->model->n_feeds, &n_one));
    GR_TRY(gr_step_n_nodes(b->other, b->feeds, b->model->n_feeds, &n_other));
    least = gr_malloc(((size_t)n_one + (size_t)n_other) * sizeof(*least));
    if (!least)
        return GR_ERR_NOMEM;
    for (int i = 0; i < n_one + n_other; i++)
        least[i] = INT64_MAX;
    st = time_nodes(b, least, n_one, n);
    for (int i = 0; i < n_one + n_other; i++)
        ms[i >= n_one] += (double)least[i] * 1e-6;
    if (st == GR_OK)
        fprintf(b->command->out,
                "nodes_ms: %.4f and %.4f with %" PRId64 " thread%s, each node's fastest of %d runs "
                "in turn: %.3f times as fast\n",
                ms[0], ms[1], b->beside, gr_plural(b->beside), n, ms[0] / ms[1]);
    gr_free(least);
    return st;
}

gr_status gr_bench_tell_beside(gr_bench_run *b)
{
    int n = count_stretches(b);

    if (!b->other)
        return GR_OK;
    GR_TRY(tell_pairs(b, n));
    return tell_nodes(b, n);
}
