/*
 * Terms of a loss: formulas against plain arithmetic and what they refuse; sums of samples that
 * make the same loss however a split is cut; records; what a trace may not do.
 */
#include "check.h"

#include "gradus/gradus.h"
#include "gradus/loss.h"
#include "op/loss/formula.h"
#include "op/loss/terms.h"
#include "train/parts.h"

#include <math.h>

/* ---- formulas ---- */

static const char *const names[] = { "a", "b", "v", "w_2" };
static const int64_t lengths[] = { 1, 1, 3, 3 };
static const gr_formula_names known = { names, lengths, 4 };

static double value_of(const char *text)
{
    static const double a = 3, b = 4, v[] = { 1, 2, 6 }, w[] = { 0.5, 4, 0.25 };
    static const double *const sums[] = { &a, &b, v, w };
    gr_formula f;

    GR_CHECK_OK(gr_formula_parse(&f, text, &known));
    return gr_formula_compute(&f, sums);
}

static bool is_mean(const char *text)
{
    gr_formula f;

    GR_CHECK_OK(gr_formula_parse(&f, text, &known));
    return gr_formula_is_mean(&f);
}

static void formulas(void)
{
    char deep[42], many[90] = "a";
    gr_formula f;

    GR_CHECK_NEAR(value_of("a / b"), 0.75, 0);
    GR_CHECK_NEAR(value_of(" 2*a - -b*(1+ .5) "), 12, 0);
    GR_CHECK_NEAR(value_of("a - b - 1"), -2, 0);
    GR_CHECK_NEAR(value_of("a / b / 2 * 4"), 1.5, 0);
    GR_CHECK_NEAR(value_of("mean(v)"), 3, 0);
    GR_CHECK_NEAR(value_of("sum(v * w_2 + 1) * 1e-1"), 1.3, 1e-15);
    GR_CHECK_NEAR(value_of("1 - mean((2 * v + b) / (w_2 + a))"),
                  1 - (6 / 3.5 + 8.0 / 7 + 16 / 3.25) / 3, 1e-15);
    GR_CHECK_NEAR(value_of("sqrt(b) + exp(log(a))"), 5, 1e-15);
    GR_CHECK_NEAR(value_of("a / (b - 4)"), 3, 0); /* a mean over nothing */
    GR_CHECK(is_mean("a / b") && is_mean("2 * (a / b) - b / a / 4") && is_mean("-(a / b)"));
    GR_CHECK(!is_mean("a") && !is_mean("mean(v)") && !is_mean("(a + 1) / b") && !is_mean("2 / b"));

    GR_CHECK_FAILS(gr_formula_parse(&f, "a / c", &known), GR_ERR_ARG, "no sum of the loss at 'c'");
    GR_CHECK_FAILS(gr_formula_parse(&f, "a +", &known), GR_ERR_ARG,
                   "number or a name at 'its end'");
    GR_CHECK_FAILS(gr_formula_parse(&f, "(a", &known), GR_ERR_ARG, "lacks a ')'");
    GR_CHECK_FAILS(gr_formula_parse(&f, "a b", &known), GR_ERR_ARG, "does not end at 'b'");
    GR_CHECK_FAILS(gr_formula_parse(&f, "max(a)", &known), GR_ERR_ARG, "no function (mean, sum");
    GR_CHECK_FAILS(gr_formula_parse(&f, "v / a", &known), GR_ERR_ARG, "a vector of 3 elements");
    GR_CHECK_FAILS(gr_formula_parse(&f, NULL, &known), GR_ERR_ARG, "its end");
    GR_CHECK_FAILS(gr_formula_parse(&f, ".", &known), GR_ERR_ARG, "no number");
    memset(deep, '(', sizeof(deep));
    deep[sizeof(deep) - 1] = 0;
    GR_CHECK_FAILS(gr_formula_parse(&f, deep, &known), GR_ERR_ARG, "nests too deeply");
    for (int i = 0; i < 40; i++)
        memcpy(many + 1 + 2 * i, "+a", 3);
    GR_CHECK_FAILS(gr_formula_parse(&f, many, &known), GR_ERR_ARG, "more than 64 parts");
}

/* ---- a model with two terms and records ---- */

#define N       10
#define CLASSES 3

static float x[N * CLASSES];
static int32_t label[N];

static gr_named *feeds_of(gr_named feeds[2], int first, int n)
{
    feeds[0] = (gr_named){ "x", GR_F32, GR_SHAPE(n, CLASSES), x + first * CLASSES };
    feeds[1] = (gr_named){ "label", GR_I32, GR_SHAPE(n), label + first };
    return feeds;
}

static gr_status trace(gr_graph *g, void *user)
{
    gr_value *scale = gr_param(g, "scale", GR_SHAPE(CLASSES), gr_init_const(0.5));
    gr_value *z = gr_mul(g, gr_input(g, "x"), scale), *y = gr_input(g, "label");
    gr_value *mask = gr_ge_k(g, gr_input(g, "x"), 0);

    (void)user;
    gr_loss_add_cross_entropy(g, "ce", 1, z, y, &(gr_cross_entropy_options){ 2, 0.1, NULL });
    gr_loss_add_mean(g, "size", 0.25, gr_square(g, z), NULL);
    gr_loss_add_mean(g, "masked", 2, gr_square(g, z), mask);
    gr_loss_add_mean(g, "rows", 1, gr_square(g, z), gr_slice_axis(g, mask, 1, 0, 1));
    gr_loss_add_mean(g, "nothing", 0, gr_square(g, z), NULL);
    gr_loss_add_dice(g, "dice", 0.5, z, gr_one_hot(g, y, CLASSES, GR_F32), 1e-6);
    gr_record(g, "largest", gr_max(g, z, GR_AXIS(1), false), GR_RECORD_MAX);
    gr_record(g, "share", gr_mean(g, gr_cast(g, mask, GR_F32), GR_AXES_ALL, false), GR_RECORD_MEAN);
    gr_record(g, "count", gr_sum(g, gr_cast(g, mask, GR_F32), GR_AXIS(1), false), GR_RECORD_SUM);
    return gr_graph_status(g);
}

static double part(const gr_parts *p, const char *name)
{
    for (int i = 0; i < p->n; i++)
        if (strcmp(p->list[i].name, name) == 0)
            return p->list[i].value;
    fprintf(stderr, "no part '%s'\n", name);
    exit(1);
}

/* In batches of n. */
static void evaluate(gr_parts *p, gr_step *step, gr_pg *pg, gr_arena *arena, int n)
{
    gr_named feeds[2];

    gr_parts_clear(p);
    for (int at = 0; at < N; at += n) {
        int rows = N - at < n ? N - at : n;

        GR_CHECK_OK(gr_step_eval(step, feeds_of(feeds, at, rows), 2));
        GR_CHECK_OK(gr_parts_take_rows(p, step, arena, rows));
    }
    GR_CHECK_OK(gr_parts_share_rows(p, pg, N, arena));
}

static void check_values(const gr_parts *p)
{
    double size = 0, masked = 0, most = -HUGE_VAL;
    int n_masked = 0;

    for (int i = 0; i < N * CLASSES; i++) {
        double z = 0.5 * (double)x[i];

        size += z * z;
        masked += x[i] >= 0 ? z * z : 0;
        n_masked += x[i] >= 0;
        most = fmax(most, z);
    }
    GR_CHECK_NEAR(part(p, "loss/size"), size / (N * CLASSES), 1e-6);
    GR_CHECK_NEAR(part(p, "loss/masked"), masked / n_masked, 1e-6);
    GR_CHECK_NEAR(part(p, "largest"), most, 1e-6);
    GR_CHECK_NEAR(part(p, "share"), (double)n_masked / (N * CLASSES), 1e-6);
    GR_CHECK_NEAR(part(p, "count"), n_masked, 1e-5);
}

static void values(void)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_parts train = { 0 }, whole = { 0 }, cut = { 0 };
    gr_named feeds[2];
    gr_arena *arena;
    gr_step *step;
    gr_pg *pg;
    float loss;

    for (int i = 0; i < N * CLASSES; i++)
        x[i] = (float)((i * 7 % 11) - 5) / 3;
    for (int i = 0; i < N; i++)
        label[i] = i % CLASSES; /* 2 is ignored */
    c.trace = trace;
    c.device = "cpu";
    GR_CHECK_OK(gr_pg_create(&pg, NULL));
    GR_CHECK_OK(gr_arena_create(&arena));
    GR_CHECK_OK(gr_step_create(&step, &c));
    GR_CHECK_OK(gr_step_train(step, feeds_of(feeds, 0, N), 2, 0));
    GR_CHECK_OK(gr_step_read(step, "loss", (gr_vec){ &loss, 1, GR_F32 }));
    GR_CHECK_OK(gr_parts_take_step(&train, step, arena));
    GR_CHECK_OK(gr_parts_share_step(&train, pg, 1));
    GR_CHECK_EQ(train.n, 8); /* five terms of the six, three records */
    check_values(&train);
    evaluate(&whole, step, pg, arena, N);
    GR_CHECK_NEAR(whole.loss, (double)loss, 1e-6);
    GR_CHECK_NEAR(whole.loss,
                  part(&whole, "loss/ce") + 0.25 * part(&whole, "loss/size") +
                      2 * part(&whole, "loss/masked") + part(&whole, "loss/rows") +
                      0.5 * part(&whole, "loss/dice"),
                  1e-12);
    check_values(&whole);
    for (int i = 0; i < 5; i++)
        GR_CHECK_NEAR(whole.list[i].value, train.list[i].value, 1e-6);
    for (int n = 1; n < N; n++) {
        evaluate(&cut, step, pg, arena, n);
        GR_CHECK(cut.loss == whole.loss && cut.n == whole.n);
        for (int i = 0; i < 5; i++)
            GR_CHECK(cut.list[i].value == whole.list[i].value);
        check_values(&cut);
    }
    gr_parts_fini(&train);
    gr_parts_fini(&whole);
    gr_parts_fini(&cut);
    gr_step_destroy(step);
    gr_arena_destroy(arena);
    gr_pg_destroy(pg);
}

/* ---- exact sums ---- */

static void sums(void)
{
    gr_exact up = { 0 }, down = { 0 }, bad = { 0 };

    for (int i = 0; i < 1000; i++) {
        gr_exact_add(&up, ldexp(1.1, i % 60 - 30));
        gr_exact_add(&down, ldexp(1.1, (999 - i) % 60 - 30));
    }
    gr_exact_add(&up, -7.25);
    gr_exact_add(&down, -7.25);
    GR_CHECK(memcmp(&up, &down, sizeof(up)) == 0);
    GR_CHECK_NEAR(gr_exact_value(&up), gr_exact_value(&down), 0);
    gr_exact_add(&bad, 1);
    GR_CHECK_NEAR(gr_exact_value(&bad), 1, 0);
    gr_exact_add(&bad, (double)INFINITY);
    GR_CHECK(isnan(gr_exact_value(&bad)));
    bad = (gr_exact){ 0 };
    for (int i = 0; i < 64; i++)
        gr_exact_add(&bad, 0x1p49);
    GR_CHECK(isnan(gr_exact_value(&bad))); /* no sum that has wrapped around */
}

/* ---- refused ---- */

typedef enum wrong { TWICE, NO_BATCH, BOTH, NO_VALUE, BAD_FORMULA, ALL_ZERO, RECORD } wrong;

static gr_status trace_wrong(gr_graph *g, void *user)
{
    gr_value *z =
        gr_mul(g, gr_input(g, "x"), gr_param(g, "scale", GR_SHAPE(CLASSES), gr_init_const(0.5)));
    gr_loss_sum none[] = { { .name = "a" } };

    switch (*(const wrong *)user) {
    case TWICE: gr_loss_add_mean(g, "size", 1, z, NULL); break;
    case NO_BATCH: gr_loss_add_mean(g, "part", 1, gr_sum(g, z, GR_AXES_ALL, false), NULL); break;
    case BOTH: gr_loss(g, gr_mean(g, z, GR_AXES_ALL, false)); break;
    case NO_VALUE: gr_loss_add(g, &(gr_loss_term){ "none", 1, none, 1, "a" }); break;
    case BAD_FORMULA:
        none[0].each = z;
        gr_loss_add(g, &(gr_loss_term){ "bad", 1, none, 1, "a / count" });
        break;
    case ALL_ZERO: gr_loss_add_mean(g, "size", 0, z, NULL); return gr_graph_status(g);
    case RECORD: gr_record(g, "wide", z, GR_RECORD_MEAN); break;
    }
    gr_loss_add_mean(g, "size", 1, z, NULL);
    return gr_graph_status(g);
}

static void refused(void)
{
    static const struct {
        wrong what;
        const char *says;
    } cases[] = {
        { TWICE, "two losses are called 'size'" },
        { NO_BATCH, "does not begin with the batch of 10" },
        { BOTH, "calls gr_loss() and adds 'size'" },
        { NO_VALUE, "has neither values nor a constant" },
        { BAD_FORMULA, "loss 'bad': the formula 'a / count' names no sum of the loss at 'count'" },
        { ALL_ZERO, "has no loss" },
        { RECORD, "record 'wide' is one number, or one for each of 10 samples" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        gr_step_config c = GR_STEP_CONFIG_INIT;
        wrong what = cases[i].what;
        gr_named feeds[2];
        gr_step *step;

        c.trace = trace_wrong;
        c.user = &what;
        c.device = "cpu";
        GR_CHECK_OK(gr_step_create(&step, &c));
        GR_CHECK_FAILS(gr_step_plan(step, true, feeds_of(feeds, 0, N), 2), GR_ERR_ARG,
                       cases[i].says);
        gr_step_destroy(step);
    }
}

int main(void)
{
    formulas();
    sums();
    values();
    refused();
    return 0;
}
