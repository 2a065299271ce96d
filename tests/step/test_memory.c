/*
 * The memory report says what a run then takes; the batch that fits is the one that trying
 * all would find (P20: no surprise after an hour); the plan cache counts.
 */
#include "alloc_fail.h"
#include "check.h"
#include "step/world.h"

static gr_step_config config(void)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;

    c.trace = trace_mlp;
    c.device = "cpu";
    c.optim = (gr_optim)GR_OPTIM_ADAMW_INIT;
    return c;
}

static size_t sum_items(const gr_memory_report *r)
{
    size_t sum = 0;

    for (int i = 0; i < r->n_kept_by; i++)
        sum += r->kept_by[i].n_bytes;
    return sum;
}

static size_t kept_by(const gr_memory_report *r, const char *name)
{
    for (int i = 0; i < r->n_kept_by; i++)
        if (strcmp(r->kept_by[i].name, name) == 0)
            return r->kept_by[i].n_bytes;
    return 0;
}

/* What was promised before the first plan is what a run has. */
static void test_report(int accumulate)
{
    gr_step_config c = config();
    batch *b = malloc(sizeof(*b));
    gr_memory_report r, again;
    gr_step_stats stats;
    char *text;
    gr_step *s;

    c.accumulate = accumulate;
    batch_fill(b, false, 0, 0, 32);
    GR_CHECK_OK(gr_step_create(&s, &c));
    GR_CHECK_OK(gr_step_memory_report(s, true, b->feeds, 2, &r));
    for (int i = 0; i < accumulate; i++)
        GR_CHECK_OK(gr_step_train(s, b->feeds, 2, 0.1));
    GR_CHECK_OK(gr_step_get_stats(s, &stats));
    GR_CHECK_EQ(r.arena, stats.arena_bytes);
    GR_CHECK_EQ(r.params + r.buffers + r.optim, stats.state_bytes);
    GR_CHECK_EQ(r.exchange, stats.exchange_bytes);
    GR_CHECK_EQ(r.exchange > 0, accumulate > 1);
    GR_CHECK_EQ(r.inputs, 32 * 12 * 4 + 256); /* x; y takes a whole 256 */
    GR_CHECK_EQ(r.total, r.params + r.buffers + r.optim + r.exchange + r.inputs + r.arena);
    GR_CHECK(r.arena_live <= r.arena && r.arena <= r.arena_sum);
    GR_CHECK(r.peak_kept <= r.kept && r.kept <= r.arena_live && r.peak_op[0]);
    /* Kept are the two activations: 32 x 16 and 32 x 8. */
    GR_CHECK_EQ(sum_items(&r), r.kept);
    GR_CHECK_EQ(kept_by(&r, "fc1"), 32 * 16 * 4);
    GR_CHECK_EQ(kept_by(&r, "fc2"), 32 * 8 * 4);

    GR_CHECK_OK(gr_step_memory_report(s, true, b->feeds, 2, &again));
    GR_CHECK_EQ(r.total, again.total);
    GR_CHECK_EQ(r.kept, again.kept);
    GR_CHECK_OK(gr_memory_report_text(&r, &text));
    GR_CHECK(strstr(text, "optimiser state") && strstr(text, "    fc1 "));
    free(text);
    GR_CHECK_OK(gr_step_memory_report(s, false, b->feeds, 2, &r));
    GR_CHECK_EQ(r.kept, 0);
    gr_step_destroy(s);
    free(b);
}

static gr_status trace_chain(gr_graph *g, void *user)
{
    gr_value *x = gr_input(g, "x");

    (void)user;
    for (int i = 0; i < 3; i++) {
        const char *name = gr_name(g, "blocks.%d", i);

        gr_block_begin(g, name);
        x = gr_gelu(g, gr_linear(g, gr_name(g, "%s.fc", name), x, 64));
        x = gr_tanh(g, gr_dropout(g, x, 0.1));
        gr_block_end(g);
    }
    gr_loss(g, gr_mean(g, gr_square(g, x), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

/* Dropout and tanh write over their sources, gradients over what was kept: memory that several
 * values use one after the other counts once. Kept are the product and the block's result. */
static void test_report_in_place(void)
{
    const gr_named feed = { .name = "x", .dtype = GR_F32, .shape = GR_SHAPE(256, 32) };
    const size_t one = 256 * 64 * sizeof(float);
    gr_step_config c = config();
    gr_memory_report r;
    gr_step *s;

    c.trace = trace_chain;
    GR_CHECK_OK(gr_step_create(&s, &c));
    GR_CHECK_OK(gr_step_memory_report(s, true, &feed, 1, &r));
    for (int i = 0; i < 3; i++) {
        char name[16];

        snprintf(name, sizeof(name), "blocks.%d", i);
        GR_CHECK_EQ(kept_by(&r, name), 2 * one);
    }
    GR_CHECK(r.kept >= 6 * one && r.kept < 7 * one && r.kept <= r.arena_live);
    gr_step_destroy(s);
}

static void test_fit(void)
{
    gr_step_config c = config();
    gr_fit_config fit = GR_FIT_CONFIG_INIT;
    batch *b = malloc(sizeof(*b));
    size_t need[41], n_bytes;
    int64_t got;
    gr_step *s;

    GR_CHECK_OK(gr_step_create(&s, &c));
    for (int n = 1; n <= 40; n++) {
        gr_memory_report r;

        batch_fill(b, false, 0, 0, n);
        GR_CHECK_OK(gr_step_memory_report(s, true, b->feeds, 2, &r));
        need[n] = r.total;
    }
    fit.max_batch = 40;
    for (int n = 1; n <= 40; n += 13) {
        int want = n;

        fit.limit_bytes = need[n];
        while (want < 40 && need[want + 1] <= fit.limit_bytes)
            want++;
        GR_CHECK_OK(gr_step_fit_batch(s, b->feeds, 2, &fit, &got, &n_bytes));
        GR_CHECK_EQ(got, want);
        GR_CHECK_EQ(n_bytes, need[want]);
    }
    fit.limit_bytes = need[7];
    fit.max_batch = INT64_MAX; /* one more is no number */
    GR_CHECK_OK(gr_step_fit_batch(s, b->feeds, 2, &fit, &got, &n_bytes));
    GR_CHECK(got >= 7 && n_bytes == need[got] && need[got + 1] > need[7]);
    fit.min_batch = INT64_MAX;
    GR_CHECK_FAILS(gr_step_fit_batch(s, b->feeds, 2, &fit, &got, &n_bytes), GR_ERR_ARG,
                   "too large");
    fit.min_batch = 1;
    fit.max_batch = 40;
    fit.limit_bytes = need[1] - 1;
    got = -5;
    n_bytes = 3;
    GR_CHECK_FAILS(gr_step_fit_batch(s, b->feeds, 2, &fit, &got, &n_bytes), GR_ERR_NOMEM,
                   "a batch of 1 needs");
    GR_CHECK(got == -5 && n_bytes == 3); /* nothing of what did not fit */
    GR_CHECK_FAILS(gr_step_fit_batch(s, NULL, 2, &fit, &got, &n_bytes), GR_ERR_ARG, "2 feeds");
    fit.min_batch = 0;
    GR_CHECK_FAILS(gr_step_fit_batch(s, b->feeds, 2, &fit, &got, &n_bytes), GR_ERR_ARG,
                   "from 0 to 40");
    /* It left nothing behind: the step trains. */
    batch_fill(b, false, 0, 0, 8);
    GR_CHECK_OK(gr_step_train(s, b->feeds, 2, 0.1));
    gr_step_destroy(s);
    free(b);
}

static void test_cache(void)
{
    gr_step_config c = config();
    batch *b = malloc(sizeof(*b));
    gr_step_stats stats;
    gr_step *s;

    c.max_plans = 2;
    GR_CHECK_OK(gr_step_create(&s, &c));
    for (int i = 0; i < 6; i++) { /* 8 9 10, 8 9 10: two fit, and each comes too late */
        batch_fill(b, false, 0, 0, 8 + i % 3);
        GR_CHECK_OK(gr_step_train(s, b->feeds, 2, 0.1));
    }
    GR_CHECK_OK(gr_step_train(s, b->feeds, 2, 0.1));
    GR_CHECK_OK(gr_step_get_stats(s, &stats));
    GR_CHECK_EQ(stats.n_plans, 2);
    GR_CHECK_EQ(stats.n_plans_made, 6);
    GR_CHECK_EQ(stats.n_plans_dropped, 4);
    GR_CHECK_EQ(stats.n_plan_hits, 1); /* seven calls: each made one or found one */
    gr_step_destroy(s);

    c.max_plans = 8;
    c.accumulate = 2; /* plans are made in pairs, and still a call is counted once */
    GR_CHECK_OK(gr_step_create(&s, &c));
    GR_CHECK_OK(gr_step_train(s, b->feeds, 2, 0.1));
    GR_CHECK_OK(gr_step_train(s, b->feeds, 2, 0.1));
    GR_CHECK_OK(gr_step_plan(s, true, b->feeds, 2));
    GR_CHECK_OK(gr_step_eval(s, b->feeds, 2));
    GR_CHECK_OK(gr_step_eval(s, b->feeds, 2));
    GR_CHECK_OK(gr_step_get_stats(s, &stats));
    GR_CHECK_EQ(stats.n_plans_made, 3);
    GR_CHECK_EQ(stats.n_plan_hits, 3);
    gr_step_destroy(s);
    free(b);
}

static gr_status report_once(void *arg)
{
    gr_step_config c = config();
    gr_memory_report r;
    gr_step *s;
    gr_status st;

    GR_TRY(gr_step_create(&s, &c));
    st = gr_step_memory_report(s, true, ((batch *)arg)->feeds, 2, &r);
    gr_step_destroy(s);
    return st;
}

int main(void)
{
    batch *b = malloc(sizeof(*b));

    test_report(1);
    test_report(2);
    test_report_in_place();
    test_fit();
    test_cache();
    batch_fill(b, false, 0, 0, 8);
    GR_CHECK(gr_alloc_fail_each(report_once, b) > 20);
    free(b);
    return 0;
}
