/*
 * `gradus bench step mlp`: the time of a training step of an MLP on random data, against
 * the machine's own peak. bench/mlp.sh sets it beside PyTorch.
 */
#include "train/bench.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/option.h"
#include "base/outfile.h"
#include "base/random.h"
#include "gradus/nn.h"
#include "gradus/ops.h"
#include "net/env.h"
#include "step/inspect.h"
#include "train/peak.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define N_CLASSES 10
#define STRETCH   10 /* steps between two looks at the clock; a GPU is waited for there */
#define N_STARTS  5

static const int64_t widths[] = { 784, 512, 512, N_CLASSES };

#define N_LAYERS ((int)(sizeof(widths) / sizeof(widths[0])) - 1)

typedef struct bench {
    const gr_command *command;
    int64_t batch, steps, threads, accumulate;
    int amp, optimizer;
    const char *device, *group, *dump_after, *dump_dot;
    bool profile;

    gr_pg *pg;
    gr_step *step;
    float *image;
    int32_t *label;
    gr_named feeds[2];
} bench;

#define N_OPTIONS 11

static void make_table(bench *b, gr_option table[N_OPTIONS + 1])
{
    const gr_option rows[N_OPTIONS + 1] = {
        { "batch", GR_OPTION_INT, &b->batch, 1, 1e7, NULL, "N", "samples per rank" },
        { "steps", GR_OPTION_INT, &b->steps, STRETCH, 1e9, NULL, "N", "steps that are timed" },
        { "threads", GR_OPTION_INT, &b->threads, 0, 1024, NULL, "N",
          "per rank; 0: GR_THREADS, else 1" },
        { "accumulate", GR_OPTION_INT, &b->accumulate, 1, 1e6, NULL, "N", "micro-steps per step" },
        { "amp", GR_OPTION_CHOICE, &b->amp, 0, 0, "none|bf16|fp16", NULL, "mixed precision" },
        { "optim", GR_OPTION_CHOICE, &b->optimizer, 0, 0, "sgd|adamw", NULL, "update rule" },
        { "device", GR_OPTION_TEXT, &b->device, 0, 0, NULL, "NAME", "cpu, cuda, cuda:N or auto" },
        { "group", GR_OPTION_TEXT, &b->group, 0, 0, NULL, "NAME",
          "exchange between GPUs: nccl, ipc or auto" },
        { "dump_after", GR_OPTION_TEXT, &b->dump_after, 0, 0, NULL, "PASS",
          "print the graphs after that pass, or after all" },
        { "dump_dot", GR_OPTION_TEXT, &b->dump_dot, 0, 0, NULL, "FILE",
          "write the planned graph for Graphviz" },
        { "profile", GR_OPTION_FLAG, &b->profile, 0, 0, NULL, NULL,
          "show where the time goes, node by node; one rank" },
        { 0 },
    };

    memcpy(table, rows, sizeof(rows));
}

static void set_defaults(bench *b, const gr_command *c)
{
    *b = (bench){
        .command = c, .batch = 128, .steps = 300, .accumulate = 1, .device = "auto", .group = "auto"
    };
}

void gr_bench_help(gr_text *out)
{
    gr_option table[N_OPTIONS + 1];
    bench b;

    gr_text_add(out,
                "usage: gradus bench step mlp [OPTION...]\n\n"
                "Times training steps of an MLP 784-512-512-10 on random data, and a start of\n"
                "the program. Under gradrun: all ranks together.\n\nOptions:\n");
    set_defaults(&b, NULL);
    make_table(&b, table);
    gr_option_help(table, out);
}

static gr_status parse(bench *b)
{
    const gr_command *c = b->command;
    gr_option table[N_OPTIONS + 1];
    int n_used;

    if (c->argc < 2 || strcmp(c->argv[0], "step") != 0 || strcmp(c->argv[1], "mlp") != 0)
        return gr_fail(GR_ERR_ARG, "there is one benchmark: 'gradus bench step mlp'");
    make_table(b, table);
    GR_TRY(gr_option_parse(table, c->argc - 2, c->argv + 2, &n_used));
    if (n_used < c->argc - 2)
        return gr_fail(GR_ERR_ARG, "unexpected word '%s'", c->argv[n_used + 2]);
    return GR_OK;
}

/* ---- the model ---- */

static gr_status trace(gr_graph *g, void *user)
{
    gr_value *x = gr_input(g, "image");

    (void)user;
    for (int i = 1; i <= N_LAYERS; i++) {
        char name[16];

        snprintf(name, sizeof(name), "fc%d", i);
        x = gr_linear(g, name, x, widths[i]);
        x = i < N_LAYERS ? gr_relu(g, x) : x;
    }
    gr_loss(g, gr_cross_entropy(g, x, gr_input(g, "label")));
    return gr_graph_status(g);
}

/* Multiplications and additions of the products: forward, the weights' gradients, and the
 * inputs' gradients, which the first layer does not need. */
static double flops_per_sample(void)
{
    double n = 0;

    for (int i = 0; i < N_LAYERS; i++)
        n += (i == 0 ? 4.0 : 6.0) * (double)(widths[i] * widths[i + 1]);
    return n;
}

static gr_status make_data(bench *b)
{
    gr_mt19937 random;
    size_t n = (size_t)b->batch;

    b->image = gr_malloc_aligned(n * (size_t)widths[0] * sizeof(*b->image));
    b->label = gr_malloc_aligned(n * sizeof(*b->label));
    if (!b->image || !b->label)
        return GR_ERR_NOMEM;
    gr_mt_seed(&random, (uint64_t)gr_pg_rank(b->pg));
    gr_mt_uniform_f32(&random, b->image, n * (size_t)widths[0], -1.0f, 1.0f);
    for (size_t i = 0; i < n; i++)
        b->label[i] = (int32_t)(gr_mt_u32(&random) % N_CLASSES);
    b->feeds[0] = (gr_named){ "image", GR_F32, GR_SHAPE(b->batch, widths[0]), b->image };
    b->feeds[1] = (gr_named){ "label", GR_I32, GR_SHAPE(b->batch), b->label };
    return GR_OK;
}

/* ---- running ---- */

static void dump(void *arg, const char *pass, const char *text)
{
    const bench *b = arg;

    if (gr_pg_rank(b->pg) == 0)
        fprintf(b->command->out, "graph after %s:\n%s\n", pass, text);
}

static gr_status open_step(bench *b)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_optim adamw = GR_OPTIM_ADAMW_INIT;

    c.trace = trace;
    c.device = b->device;
    c.group = b->group;
    c.pg = b->pg;
    if (b->optimizer == GR_OPTIM_ADAMW)
        c.optim = adamw;
    c.amp = (gr_amp)b->amp;
    c.accumulate = (int)b->accumulate;
    c.n_threads = (int)b->threads;
    c.dump_after = b->dump_after;
    c.dump = dump;
    c.dump_arg = b;
    GR_TRY(gr_step_create(&b->step, &c));
    return gr_step_plan(b->step, true, b->feeds, 2);
}

static gr_status run_steps(bench *b, int64_t n)
{
    for (int64_t i = 0; i < n * b->accumulate; i++)
        GR_TRY(gr_step_train(b->step, b->feeds, 2, 1e-3));
    return gr_step_sync(b->step);
}

static gr_status write_dot(bench *b)
{
    gr_outfile *f;
    char *text;
    gr_status st;

    if (!b->dump_dot || gr_pg_rank(b->pg) != 0)
        return GR_OK;
    GR_TRY(gr_graph_dot(gr_step_first_graph(b->step), &text));
    st = gr_outfile_open(&f, b->dump_dot);
    if (st == GR_OK) {
        gr_outfile_write(f, text, strlen(text));
        st = gr_outfile_commit(f);
    }
    free(text);
    return st;
}

typedef struct times {
    double median_ms, least_ms, most_ms;
    int n;
} times;

static gr_status time_steps(bench *b, times *out)
{
    int n = (int)(b->steps / STRETCH);
    double *ms = gr_calloc((size_t)n, sizeof(*ms));
    gr_status st = ms ? run_steps(b, STRETCH) : GR_ERR_NOMEM; /* the first ones warm up */

    for (int i = 0; i < n && st == GR_OK; i++) {
        int64_t began = gr_now_ns();

        st = run_steps(b, STRETCH);
        ms[i] = (double)(gr_now_ns() - began) * 1e-6 / STRETCH;
    }
    if (st == GR_OK) {
        out->median_ms = gr_median(ms, n); /* sorts */
        out->least_ms = ms[0];
        out->most_ms = ms[n - 1];
        out->n = n;
    }
    gr_free(ms);
    return st;
}

/* ---- the report ---- */

static gr_status print_head(bench *b)
{
    static const char *const amp[] = { "f32", "bf16", "fp16" };
    char *text;

    GR_TRY(gr_step_describe(b->step, &text));
    fprintf(b->command->out, "gradus %s, %.*s\n", GR_VERSION, (int)strcspn(text, "\n"), text);
    free(text);
    fprintf(b->command->out, "MLP 784-512-512-10, batch %" PRId64 ", %s, %s, %d rank(s)", b->batch,
            amp[b->amp], b->optimizer == GR_OPTIM_ADAMW ? "adamw" : "sgd", gr_pg_size(b->pg));
    if (b->accumulate > 1)
        fprintf(b->command->out, ", %" PRId64 " micro-steps", b->accumulate);
    fprintf(b->command->out, "\n");
    return GR_OK;
}

static void print_times(const bench *b, const times *t)
{
    double samples = (double)(b->batch * b->accumulate);
    double flops = samples * flops_per_sample() / (t->median_ms * 1e-3);
    double peak = gr_peak_flops();

    fprintf(b->command->out, "step_ms: %.4f (median of %d stretches of %d steps; %.4f to %.4f)\n",
            t->median_ms, t->n, STRETCH, t->least_ms, t->most_ms);
    fprintf(b->command->out, "samples_per_s: %.0f (all ranks)\n",
            samples * gr_pg_size(b->pg) / (t->median_ms * 1e-3));
    fprintf(b->command->out,
            "gflops: %.1f per rank, matrix products only; one CPU core's measured FMA peak is %.1f "
            "(%.0f%%)\n",
            flops * 1e-9, peak * 1e-9, 100 * flops / peak);
}

static gr_status print_profile(bench *b)
{
    gr_text table = GR_TEXT_INIT;
    gr_status st;

    if (!b->profile)
        return GR_OK;
    st = gr_step_profile(b->step, b->feeds, 2, (int)(b->steps < 1000 ? b->steps : 1000), &table);
    if (st == GR_OK)
        fputs(gr_text_str(&table), b->command->out);
    gr_text_fini(&table);
    return st;
}

static gr_status print_start(const bench *b)
{
    gr_start_times s;

    if (gr_pg_size(b->pg) > 1) /* a start of one rank waits for the others */
        return GR_OK;
    GR_TRY(gr_start_measure(b->command, N_STARTS, &s));
    fprintf(b->command->out,
            "start_ms: %.1f from exec to the first kernel, %.1f to the end of the first step "
            "(medians of %d starts)\n",
            s.first_kernel_ms, s.first_step_ms, N_STARTS);
    return GR_OK;
}

/* In a process that gr_start_measure() started. */
static gr_status report_start(bench *b, int64_t born_ns)
{
    int64_t kernel_ns = gr_now_ns();

    GR_TRY(run_steps(b, 1));
    gr_start_report(b->command->out, born_ns, kernel_ns, gr_now_ns());
    return GR_OK;
}

static gr_status run(bench *b)
{
    int64_t born_ns = gr_start_born_ns();
    times t;

    GR_TRY(parse(b));
    GR_TRY(gr_pg_create(&b->pg, NULL));
    GR_TRY(gr_log_setup(gr_pg_rank(b->pg)));
    GR_TRY(make_data(b));
    GR_TRY(open_step(b));
    if (born_ns)
        return report_start(b, born_ns);
    GR_TRY(write_dot(b));
    GR_TRY(time_steps(b, &t));
    if (gr_pg_rank(b->pg) == 0) {
        GR_TRY(print_head(b));
        print_times(b, &t);
        GR_TRY(print_start(b));
        GR_TRY(print_profile(b));
    }
    return gr_pg_barrier(b->pg);
}

gr_status gr_bench(const gr_command *c)
{
    gr_error error;
    gr_status st;
    bench b;

    set_defaults(&b, c);
    st = run(&b);
    if (st != GR_OK && st != GR_ERR_PEER)
        gr_pg_abort(b.pg, gr_error_message());
    gr_error_take(&error, st);
    gr_step_destroy(b.step);
    gr_free(b.image);
    gr_free(b.label);
    gr_pg_destroy(b.pg);
    return st == GR_OK ? GR_OK : gr_error_raise(&error);
}
