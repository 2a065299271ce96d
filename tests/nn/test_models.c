/*
 * Whole models beside PyTorch: same weights, same data, 20 steps of SGD and of AdamW.
 *
 *   f32    at each step Gradus is no further from PyTorch in f64 than twice as far as PyTorch's
 *          own f32, plus 1e-6. That is the furthest of its runs in the golden file, which differ
 *          in the order of sums alone: one run that happens to cross f64's curve says nothing
 *          about digits. tests/golden/make_models.py made the numbers.
 *   bf16   at each step within the model's `bf16` of our own f32's loss, relative to it
 *   same   small models with two threads and with everything recomputed: the bits of f32
 *
 * The small ones run in `make test`, the full ones in `make proof`.
 *
 * usage: test_models [small|full [MODEL]]
 */
#include "base/alloc.h"
#include "base/outfile.h"
#include "check.h"
#include "nn/models.h"

#define N_STEPS    20
#define N_SAME     2 /* the second loss has seen every gradient */
#define MAX_MODELS 16

/* What the curves are run with; all 0 is f32 on one thread. */
typedef struct variant {
    gr_optim_kind kind;
    gr_amp amp;
    gr_recompute recompute;
    int n_threads, n_steps;
} variant;

/* The furthest of a curve's steps. */
typedef struct result {
    const char *model, *optimiser;
    double f32;  /* of what is allowed */
    double bf16; /* of what is allowed */
} result;

/* One block may not be worth it: one whose inputs nothing else keeps. */
static void check_recomputed(gr_step *s, const model *m, const gr_named *feeds)
{
    gr_memory_report r;

    GR_CHECK_OK(gr_step_memory_report(s, true, feeds, m->n_feeds, &r));
    printf("%s: %d of %d blocks anew, %zu bytes less kept\n", m->name, r.n_recomputed, r.n_blocks,
           r.recomputed);
    GR_CHECK(r.n_blocks >= 2);
    GR_CHECK(r.n_recomputed >= r.n_blocks - 1);
    GR_CHECK(r.recomputed > 0);
}

static void curve(const model *m, variant v, double *loss)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    double lr = m->lr * (v.kind == GR_OPTIM_SGD ? 1e-3 : 1e-4);
    gr_named feeds[MODEL_MAX_FEEDS];
    gr_step_stats stats;
    gr_step *s;

    c.device = "cpu";
    c.amp = v.amp;
    c.recompute = v.recompute;
    c.n_threads = v.n_threads;
    c.optim.kind = v.kind;
    c.optim.momentum = 0.9;
    c.optim.weight_decay = v.kind == GR_OPTIM_SGD ? 1e-4 : 0.01;
    model_open(m, &c, &s);
    GR_CHECK_OK(gr_step_get_stats(s, &stats));
    if (m->n_params)
        GR_CHECK_EQ(stats.n_params, m->n_params);
    model_feeds_make(m, feeds);
    if (v.recompute == GR_RECOMPUTE_ALL)
        check_recomputed(s, m, feeds);
    for (int i = 0; i < v.n_steps; i++) {
        float got;

        model_feeds_fill(m, feeds, i);
        GR_CHECK_OK(gr_step_train(s, feeds, m->n_feeds, lr));
        GR_CHECK_OK(gr_step_read(s, "loss", (gr_vec){ &got, 1, GR_F32 }));
        loss[i] = (double)got;
    }
    model_feeds_free(m, feeds);
    gr_step_destroy(s);
}

/* How far the runs of PyTorch in f32, the columns of `at`, are from f64: the furthest. */
static double furthest_run(char *at, double wide)
{
    double furthest = 0;

    while (*at && *at != '\n') {
        char *end;
        double loss = strtod(at, &end);

        GR_CHECK(end > at);
        furthest = fmax(furthest, fabs(loss - wide));
        at = end;
    }
    GR_CHECK(furthest > 0);
    return furthest;
}

/* Lines "model optimiser step f64 f32 f32 ..". Returns how many were compared. */
static int compare(const char *text, const char *key, const double *loss, result *r)
{
    size_t len = strlen(key);
    int n = 0;

    for (const char *line = text; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
        char *end;
        double wide, off, limit;

        if (strncmp(line, key, len) != 0)
            continue;
        GR_CHECK(strtol(line + len, &end, 10) == n && n < N_STEPS);
        wide = strtod(end, &end);
        limit = 2 * furthest_run(end, wide) + 1e-6;
        off = fabs(loss[n] - wide);
        if (off > limit || getenv("MODELS_VERBOSE"))
            printf("%s%d: %.9f, f64 %.9f, off %.2e of %.2e\n", key, n, loss[n], wide, off, limit);
        r->f32 = fmax(r->f32, isfinite(loss[n]) ? off / limit : (double)INFINITY);
        n++;
    }
    return n;
}

/* `loss` is the curve of f32 with SGD. */
static void check_same(const model *m, const double *loss)
{
    static const struct {
        const char *what;
        variant v;
    } same[] = {
        { "two threads", { .n_threads = 2, .n_steps = N_SAME } },
        { "recompute", { .recompute = GR_RECOMPUTE_ALL, .n_threads = 1, .n_steps = N_SAME } },
    };
    double other[N_STEPS];

    for (size_t k = 0; k < sizeof(same) / sizeof(same[0]); k++) {
        curve(m, same[k].v, other);
        for (int i = 0; i < N_SAME; i++) {
            if (other[i] != loss[i])
                fprintf(stderr, "%s, %s, step %d: ", m->name, same[k].what, i);
            GR_CHECK_NEAR(other[i], loss[i], 0);
        }
    }
}

/* How far bf16 goes from the f32 of `loss`, relative to it, of what is allowed. */
static double bf16_off(const model *m, variant v, const double *loss)
{
    double other[N_STEPS], off = 0;

    v.amp = GR_AMP_BF16;
    curve(m, v, other);
    for (int i = 0; i < N_STEPS; i++) {
        const double now = fabs(other[i] - loss[i]) / loss[i];

        off = isfinite(now) ? fmax(off, now) : (double)INFINITY;
        if (getenv("MODELS_VERBOSE"))
            printf("%s bf16 %d: %.9f, f32 %.9f\n", m->name, i, other[i], loss[i]);
    }
    GR_CHECK(off > 0); /* else it was not bf16 */
    printf("%s bf16: %.1e of the loss off\n", m->name, off);
    return off / m->bf16;
}

static result check_model(const model *m, const char *text, bool full, int k)
{
    static const char *const names[] = { "sgd", "adamw" };
    variant v = { .kind = k == 0 ? GR_OPTIM_SGD : GR_OPTIM_ADAMW, .n_steps = N_STEPS };
    result r = { .model = m->name, .optimiser = names[k] };
    double loss[N_STEPS];
    char key[64];

    v.n_threads = full ? 0 : 1;
    snprintf(key, sizeof(key), "%s %s ", m->name, names[k]);
    curve(m, v, loss);
    GR_CHECK_EQ(compare(text, key, loss, &r), N_STEPS);
    if (k == 0 && !full)
        check_same(m, loss);
    r.bf16 = bf16_off(m, v, loss);
    printf("%sf32 %.2f of what is allowed, bf16 %.2f\n", key, r.f32, r.bf16);
    fflush(stdout);
    return r;
}

/* Returns how many curves went too far. */
static int summary(const result *all, int n)
{
    result f32 = { 0 }, bf16 = { 0 };
    int n_bad = 0;

    for (int i = 0; i < n; i++) {
        if (all[i].f32 > 1 || all[i].bf16 > 1) {
            printf("TOO FAR: %s %s\n", all[i].model, all[i].optimiser);
            n_bad++;
        }
        if (all[i].f32 >= f32.f32)
            f32 = all[i];
        if (all[i].bf16 >= bf16.bf16)
            bf16 = all[i];
    }
    printf("%d curves of %d steps, %d too far\n", n, N_STEPS, n_bad);
    printf("f32: at most %.2f of what is allowed (%s %s)\n", f32.f32, f32.model, f32.optimiser);
    printf("bf16: at most %.2f of what is allowed (%s %s)\n", bf16.bf16, bf16.model,
           bf16.optimiser);
    return n_bad;
}

int main(int argc, char **argv)
{
    bool full = argc > 1 && strcmp(argv[1], "full") == 0;
    const model *list = full ? models_full : models_small;
    int n_models = full ? n_models_full : n_models_small, n = 0;
    result all[2 * MAX_MODELS];
    char *text;
    size_t n_bytes;

    GR_CHECK(n_models <= MAX_MODELS);
    GR_CHECK_OK(gr_file_read(full ? GR_TESTS_DIR "/golden/models_full.txt"
                                  : GR_TESTS_DIR "/golden/models_small.txt",
                             &text, &n_bytes));
    for (int i = 0; i < n_models; i++)
        for (int k = 0; k < 2 && (argc < 3 || strcmp(argv[2], list[i].name) == 0); k++)
            all[n++] = check_model(&list[i], text, full, k);
    gr_free(text);
    if (n == 0)
        fprintf(stderr, "there is no such model\n");
    return n == 0 || summary(all, n) > 0;
}
