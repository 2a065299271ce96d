/*
 * Dumps after every pass, compared with stored ones (tests/pass/dumps/NAME.txt): what a
 * pass does to a graph is looked at, not only what comes out at the end. A pass that none
 * of the dumps shows fails the test. With GR_WRITE_DUMPS=1 in the environment the stored
 * ones are written anew.
 */
#include "base/alloc.h"
#include "base/outfile.h"
#include "base/text.h"
#include "check.h"
#include "step/vote.h"
#include "step/world.h"

static gr_text seen = GR_TEXT_INIT; /* passes in any dump so far: ",trace,outputs," */

static void collect(void *arg, const char *pass, const char *text)
{
    gr_text *t = arg;

    gr_text_addf(t, "==== after %s\n%s", pass, text);
    gr_text_addf(&seen, ",%s,", pass);
}

static void compare(const char *name, gr_text *dump)
{
    char path[512];
    char *want;
    size_t n;

    GR_CHECK_OK(gr_text_status(dump));
    snprintf(path, sizeof(path), "%s/pass/dumps/%s.txt", GR_TESTS_DIR, name);
    if (getenv("GR_WRITE_DUMPS")) {
        gr_outfile *f;

        GR_CHECK_OK(gr_outfile_open(&f, path));
        gr_outfile_write(f, dump->str, dump->len);
        GR_CHECK_OK(gr_outfile_commit(f));
        return;
    }
    GR_CHECK_OK(gr_file_read(path, &want, &n));
    if (strcmp(want, gr_text_str(dump)) != 0) {
        fprintf(stderr, "%s differs; now it is\n%s", path, gr_text_str(dump));
        exit(1);
    }
    gr_free(want);
}

typedef struct planned {
    const gr_step_config *c;
    bool watch;
    gr_text dump; /* of rank 0 */
} planned;

/* Evaluation with averages is a graph of its own, made when it first runs. */
static void evaluate_average(gr_step *s, const batch *b)
{
    GR_CHECK_OK(gr_step_use_ema(s, true));
    GR_CHECK_OK(gr_step_eval(s, b->feeds, 2));
}

/* A batch norm, and a loss that has a count. */
static gr_status trace_norm(gr_graph *g, void *user)
{
    gr_value *w = gr_param(g, "w", GR_SHAPE(12, 5), gr_init_const(1));
    gr_value *h = gr_batch_norm_layer(g, "bn", gr_matmul(g, gr_input(g, "x"), w));

    (void)user;
    gr_loss(g, gr_cross_entropy(g, h, gr_input(g, "y")));
    return gr_graph_status(g);
}

static void plan_rank(gr_pg *pg, void *arg)
{
    planned *p = arg;
    gr_step_config c = *p->c;
    batch *b = malloc(sizeof(*b));
    gr_step *s;

    c.pg = pg;
    c.dump = gr_pg_rank(pg) == 0 ? collect : NULL;
    c.dump_arg = &p->dump;
    GR_CHECK_OK(gr_step_create(&s, &c));
    if (p->watch)
        GR_CHECK_OK(gr_step_watch(s));
    batch_fill(b, c.trace != trace_norm, 0, 0, 8);
    GR_CHECK_OK(gr_step_plan(s, true, b->feeds, 2));
    if (c.ema_decay > 0)
        evaluate_average(s, b);
    gr_step_destroy(s);
    free(b);
}

static void run_dump(const char *name, planned *p, int n)
{
    if (n > 1)
        each_rank(n, plan_rank, p);
    else
        plan_rank(NULL, p);
    compare(name, &p->dump);
    gr_text_fini(&p->dump);
}

/* Plans on `n` ranks and compares what rank 0 dumped. */
static void test_dump(const char *name, const gr_step_config *config, int n)
{
    planned p = { .c = config, .dump = GR_TEXT_INIT };

    run_dump(name, &p, n);
}

/* The same of a step that keeps records. */
static void test_watched_dump(const char *name, const gr_step_config *config, int n)
{
    planned p = { .c = config, .watch = true, .dump = GR_TEXT_INIT };

    run_dump(name, &p, n);
}

/* trace_exact with its first layer as a block. */
static gr_status trace_block(gr_graph *g, void *user)
{
    gr_value *w1 = gr_param(g, "w1", GR_SHAPE(12, 16), gr_init_const(1));
    gr_value *w2 = gr_param(g, "w2", GR_SHAPE(16, 5), gr_init_const(-1));
    gr_value *h = gr_input(g, "x");

    (void)user;
    gr_block_begin(g, "first");
    h = gr_square(g, gr_tanh(g, gr_matmul(g, h, w1)));
    h = gr_matmul(g, h, w2);
    gr_block_end(g);
    gr_loss(g, gr_mean(g, gr_mul(g, h, gr_input(g, "t")), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

static gr_step_config base_config(void)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;

    c.trace = trace_exact;
    c.device = "cpu";
    c.dump_after = "all";
    c.first_bucket_bytes = 64;
    c.bucket_bytes = 512;
    return c;
}

/* The names of all passes are in the message about one that there is not. */
static void check_every_pass_seen(void)
{
    gr_step_config c = base_config();
    char *names, *name, *rest;
    gr_step *s;

    c.dump_after = "?";
    GR_CHECK_FAILS(gr_step_create(&s, &c), GR_ERR_ARG, "there are trace, ");
    names = strdup(strstr(gr_error_message(), "there are ") + strlen("there are "));
    GR_CHECK(names && strstr(names, " and all"));
    *strstr(names, " and all") = '\0';
    for (name = strtok_r(names, ", ", &rest); name; name = strtok_r(NULL, ", ", &rest)) {
        char key[64];

        snprintf(key, sizeof(key), ",%s,", name);
        if (!strstr(gr_text_str(&seen), key)) {
            fprintf(stderr, "no stored dump shows pass '%s'\n", name);
            exit(1);
        }
    }
    free(names);
}

static void dump_one_rank(void)
{
    gr_step_config c = base_config();

    test_dump("sgd", &c, 1);
    c.ema_decay = 0.5;
    test_dump("average", &c, 1);
    c.ema_decay = 0;
    c.trace = trace_block;
    c.recompute = GR_RECOMPUTE_ALL;
    test_dump("recompute", &c, 1);
}

static void dump_two_ranks(void)
{
    gr_step_config c = base_config();

    c.optim = (gr_optim)GR_OPTIM_ADAMW_INIT;
    c.clip_norm = 1;
    test_dump("common", &c, 2);
    c.clip_norm = 0;
    test_dump("rows", &c, 2);
    c.clip_norm = 1;
    c.zero = 1;
    test_dump("zero", &c, 2);
    c.zero = 0;
    c.without = "common";
    test_dump("sync", &c, 2);
    c.amp = GR_AMP_F16;
    c.accumulate = 2;
    test_dump("fp16_accumulate_sync", &c, 2);
}

static void dump_meetings(void)
{
    gr_step_config c = base_config();

    c.trace = trace_norm;
    c.without = "common";
    c.sync_bn = true;
    test_dump("sync_bn", &c, 2);
    c.sync_bn = false;
    c.loss_reduction = GR_LOSS_GLOBAL;
    test_dump("global", &c, 2);
}

static void dump_vote(void)
{
    gr_step_config c = base_config();

    c.device = "cpu:late";
    c.accumulate = 2;
    test_watched_dump("vote", &c, 2);
}

static void dump_guard(void)
{
    gr_step_config c = base_config();

    c.trace = trace_norm;
    c.clip_norm = 1;
    c.accumulate = 2;
    test_dump("guard", &c, 1);
}

int main(void)
{
    /* What fuses depends on the kernels that would run; the reference is everywhere. */
    GR_CHECK_EQ(setenv("GR_CPU", "scalar", 1), 0);
    GR_CHECK_EQ(setenv("GR_COMMON_FROM", "0", 1), 0); /* small models, too */
    dump_one_rank();
    dump_two_ranks();
    dump_meetings();
    dump_vote();
    dump_guard();
    check_every_pass_seen();
    gr_text_fini(&seen);
    return 0;
}
