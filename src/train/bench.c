/*
 * `gradus bench step MODEL`: the time of a training step on random data, against the
 * machine's own peak. bench/mlp.sh and bench/models.sh set it beside PyTorch.
 */
#include "train/bench_step.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/option.h"
#include "base/outfile.h"
#include "base/random.h"
#include "net/env.h"
#include "step/inspect.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef gr_bench_run bench;

#define N_OPTIONS 16

static void make_table(bench *b, gr_option table[N_OPTIONS + 1])
{
    const gr_option rows[N_OPTIONS + 1] = {
        { "batch", GR_OPTION_INT, &b->batch, 1, 1e7, NULL, "N", "samples per rank" },
        { "steps", GR_OPTION_INT, &b->steps, 1, 1e9, NULL, "N", "steps that are timed" },
        { "threads", GR_OPTION_INT, &b->threads, 0, 1024, NULL, "N",
          "per rank; 0: GR_THREADS, else 1" },
        { "beside", GR_OPTION_INT, &b->beside, 0, 1024, NULL, "N",
          "the same network with N threads in turn with it, and how many times as fast; one rank" },
        { "accumulate", GR_OPTION_INT, &b->accumulate, 1, 1e6, NULL, "N", "micro-steps per step" },
        { "zero", GR_OPTION_INT, &b->zero, 0, 2, NULL, "N",
          "state cut up between ranks: 1 the optimiser's, 2 gradients too" },
        { "amp", GR_OPTION_CHOICE, &b->amp, 0, 0, "none|bf16|fp16", NULL, "mixed precision" },
        { "optim", GR_OPTION_CHOICE, &b->optimizer, 0, 0, "sgd|adamw", NULL, "update rule" },
        { "device", GR_OPTION_TEXT, &b->device, 0, 0, NULL, "NAME", "cpu, cuda, cuda:N or auto" },
        { "group", GR_OPTION_TEXT, &b->group, 0, 0, NULL, "NAME",
          "exchange between GPUs: nccl, ipc or auto" },
        { "dump_after", GR_OPTION_TEXT, &b->dump_after, 0, 0, NULL, "PASS",
          "print the graphs after that pass, or after all" },
        { "dump_dot", GR_OPTION_TEXT, &b->dump_dot, 0, 0, NULL, "FILE",
          "write the planned graph for Graphviz" },
        { "without", GR_OPTION_TEXT, &b->without, 0, 0, NULL, "PASSES",
          "leave out these passes, parted by commas, to see what they are worth" },
        { "starts", GR_OPTION_INT, &b->starts, 0, 1000, NULL, "N",
          "starts of the program that are timed; one rank" },
        { "tune", GR_OPTION_FLAG, &b->tune, 0, 0, NULL, NULL, "choose kernels by measuring them" },
        { "profile", GR_OPTION_FLAG, &b->profile, 0, 0, NULL, NULL,
          "show where the time of rank 0 goes, node by node" },
        { 0 },
    };

    memcpy(table, rows, sizeof(rows));
}

static void set_defaults(bench *b, const gr_command *c, const gr_bench_model *m)
{
    *b = (bench){ .command = c,
                  .model = m,
                  .batch = m->batch,
                  .steps = (int64_t)30 * m->stretch,
                  .accumulate = 1,
                  .starts = 5,
                  .device = "auto",
                  .group = "auto" };
}

void gr_bench_help(gr_text *out)
{
    gr_option table[N_OPTIONS + 1];
    bench b;

    gr_text_add(out, "usage: gradus bench step MODEL [OPTION...]\n\n"
                     "Times training steps on random data, and a start of the program. Under\n"
                     "gradrun: all ranks together.\n\nModels, and their samples per rank:\n");
    for (const gr_bench_model *m = gr_bench_models; m->name; m++)
        gr_text_addf(out, "  %-12s %s (%" PRId64 ")\n", m->name, m->text, m->batch);
    gr_text_add(out, "\nOptions, as mlp has them:\n");
    set_defaults(&b, NULL, &gr_bench_models[0]);
    make_table(&b, table);
    gr_option_help(table, out);
    gr_bench_comm_help(out);
}

static const gr_bench_model *find_model(const gr_command *c)
{
    return c->argc > 1 && strcmp(c->argv[0], "step") == 0 ? gr_bench_find(c->argv[1]) : NULL;
}

static gr_status refuse_model(const gr_command *c)
{
    if (c->argc < 1 || strcmp(c->argv[0], "step") != 0)
        return gr_fail(
            GR_ERR_ARG,
            "what to measure is missing: 'gradus bench step MODEL' or 'gradus bench comm'");
    return gr_fail(GR_ERR_ARG, "'%s' is no model to measure; 'gradus help bench' lists them",
                   c->argc > 1 ? c->argv[1] : "");
}

static gr_status parse(bench *b)
{
    const gr_command *c = b->command;
    gr_option table[N_OPTIONS + 1];
    int n_used;

    make_table(b, table);
    GR_TRY(gr_option_parse(table, c->argc - 2, c->argv + 2, &n_used));
    if (n_used < c->argc - 2)
        return gr_fail(GR_ERR_ARG, "unexpected word '%s'", c->argv[n_used + 2]);
    return GR_OK;
}

/* ---- data ---- */

static gr_status make_feed(const gr_bench_feed *f, int64_t batch, gr_mt19937 *random, gr_named *out)
{
    gr_shape shape = GR_SHAPE(batch);
    size_t n;

    for (int i = 0; i < f->n_dims; i++)
        shape.dim[shape.n_dims++] = f->dim[i];
    GR_TRY(gr_shape_check(&shape, f->dtype));
    n = (size_t)gr_shape_count(&shape);
    *out = (gr_named){ f->name, f->dtype, shape, gr_malloc_aligned(n * gr_dtype_bytes(f->dtype)) };
    if (!out->mem)
        return GR_ERR_NOMEM;
    if (f->dtype == GR_F32)
        gr_mt_uniform_f32(random, out->mem, n, -f->scale, f->scale);
    else if (f->dtype == GR_BOOL)
        memset(out->mem, 1, n);
    else
        for (size_t i = 0; i < n; i++)
            ((int32_t *)out->mem)[i] = (int32_t)(gr_mt_u32(random) % (uint32_t)f->n);
    return GR_OK;
}

static gr_status make_data(bench *b)
{
    gr_mt19937 random;

    gr_mt_seed(&random, (uint64_t)gr_pg_rank(b->pg));
    for (int i = 0; i < b->model->n_feeds; i++)
        GR_TRY(make_feed(&b->model->feeds[i], b->batch, &random, &b->feeds[i]));
    return GR_OK;
}

/* ---- running ---- */

static void dump(void *arg, const char *pass, const char *text)
{
    const bench *b = arg;

    if (gr_pg_rank(b->pg) == 0)
        fprintf(b->command->out, "graph after %s:\n%s\n", pass, text);
}

static gr_status open_step(bench *b, int64_t n_threads, gr_step **out)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_optim adamw = GR_OPTIM_ADAMW_INIT;

    c.trace = b->model->trace;
    c.device = b->device;
    c.group = b->group;
    c.pg = b->pg;
    if (b->optimizer == GR_OPTIM_ADAMW)
        c.optim = adamw;
    c.amp = (gr_amp)b->amp;
    c.accumulate = (int)b->accumulate;
    c.zero = (int)b->zero;
    c.n_threads = (int)n_threads;
    c.tune = b->tune;
    c.dump_after = b->dump_after;
    c.without = b->without;
    c.dump = dump;
    c.dump_arg = b;
    GR_TRY(gr_step_create(out, &c));
    return gr_step_plan(*out, true, b->feeds, b->model->n_feeds);
}

static gr_status open_steps(bench *b)
{
    if (b->beside > 0 && gr_pg_size(b->pg) > 1)
        return gr_fail(GR_ERR_ARG, "--beside is for one rank, and there are %d", gr_pg_size(b->pg));
    GR_TRY(open_step(b, b->threads, &b->step));
    return b->beside > 0 ? open_step(b, b->beside, &b->other) : GR_OK;
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

/* ---- the report ---- */

static gr_status print_profile(bench *b)
{
    gr_text table = GR_TEXT_INIT;
    gr_status st;

    if (!b->profile)
        return GR_OK;
    st = gr_step_profile(b->step, b->feeds, b->model->n_feeds,
                         (int)(b->steps < 1000 ? b->steps : 1000), &table);
    if (st == GR_OK && gr_pg_rank(b->pg) == 0)
        fputs(gr_text_str(&table), b->command->out);
    gr_text_fini(&table);
    return st;
}

static gr_status print_start(const bench *b)
{
    gr_start_times s;

    if (gr_pg_size(b->pg) > 1 || b->starts == 0) /* a start of one rank waits for the others */
        return GR_OK;
    GR_TRY(gr_start_measure(b->command, (int)b->starts, &s));
    fprintf(b->command->out,
            "start_ms: %.1f from exec to the first kernel, %.1f to the end of the first step "
            "(medians of %d starts)\n",
            s.first_kernel_ms, s.first_step_ms, (int)b->starts);
    return GR_OK;
}

/* In a process that gr_start_measure() started. */
static gr_status report_start(bench *b, int64_t born_ns)
{
    int64_t kernel_ns = gr_now_ns();

    GR_TRY(gr_bench_run_step(b, b->step));
    GR_TRY(gr_step_sync(b->step));
    gr_start_report(b->command->out, born_ns, kernel_ns, gr_now_ns());
    return GR_OK;
}

static gr_status run(bench *b)
{
    int64_t born_ns = gr_start_born_ns();

    GR_TRY(gr_pg_create(&b->pg, NULL));
    GR_TRY(gr_log_setup(gr_pg_rank(b->pg)));
    GR_TRY(make_data(b));
    GR_TRY(open_steps(b));
    if (born_ns)
        return report_start(b, born_ns);
    GR_TRY(write_dot(b));
    GR_TRY(gr_bench_tell_times(b));
    GR_TRY(gr_bench_tell_beside(b));
    GR_TRY(print_start(b));
    GR_TRY(print_profile(b));
    return gr_pg_barrier(b->pg);
}

gr_status gr_bench(const gr_command *c)
{
    const gr_bench_model *model = find_model(c);
    gr_error error;
    gr_status st;
    bench b;

    if (c->argc > 0 && strcmp(c->argv[0], "comm") == 0)
        return gr_bench_comm(c);
    if (!model)
        return refuse_model(c);
    set_defaults(&b, c, model);
    GR_TRY(parse(&b));
    st = run(&b);
    if (st != GR_OK && st != GR_ERR_PEER)
        gr_pg_abort(b.pg, gr_error_message());
    gr_error_take(&error, st);
    gr_step_destroy(b.other);
    gr_step_destroy(b.step);
    for (int i = 0; i < b.model->n_feeds; i++)
        gr_free(b.feeds[i].mem);
    gr_pg_destroy(b.pg);
    return st == GR_OK ? GR_OK : gr_error_raise(&error);
}
