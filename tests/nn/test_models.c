/*
 * Whole models beside PyTorch: same weights, same data, 20 steps of SGD and of AdamW in f32.
 * At each step Gradus must be no further from PyTorch in f64 than twice as far as PyTorch's
 * own f32 has been so far, plus 1e-6. tests/golden/make_models.py made the numbers.
 *
 * Then a few steps otherwise: with two threads and with everything recomputed the losses are
 * the same bits, and bf16 stays within BF16_OFF of f32's losses, relative to them (times the
 * model's slack). The furthest seen: 0.0092 of DeepLab's, 0.0040 of ResNet's, 0.0007 of others.
 *
 * usage: test_models [small|full [MODEL]]
 */
#include "base/alloc.h"
#include "base/outfile.h"
#include "check.h"
#include "nn/models.h"

#define N_STEPS  20
#define N_SAME   2 /* the second loss has seen every gradient */
#define N_BF16   6
#define BF16_OFF 0.008

/* What the curves are run with; all 0 is f32 on one thread. */
typedef struct variant {
    gr_optim_kind kind;
    gr_amp amp;
    gr_recompute recompute;
    int n_threads, n_steps;
} variant;

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

/* Lines "model optimiser step f64 f32". Returns how many were compared. */
static int compare(const model *m, const char *text, const char *key, const double *loss,
                   double *worst)
{
    size_t len = strlen(key);
    double furthest = 0;
    int n = 0;

    for (const char *line = text; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
        char *end;
        double wide, f32, limit;
        long step;

        if (strncmp(line, key, len) != 0)
            continue;
        step = strtol(line + len, &end, 10);
        GR_CHECK(step == n && step < N_STEPS);
        wide = strtod(end, &end);
        f32 = strtod(end, NULL);
        furthest = fmax(furthest, fabs(f32 - wide));
        limit = m->slack * (2 * furthest + 1e-6);
        if (getenv("MODELS_VERBOSE"))
            printf("%s%ld: %.9f, f64 %.9f, off %.2e of %.2e\n", key, step, loss[step], wide,
                   fabs(loss[step] - wide), limit);
        else
            GR_CHECK_NEAR(loss[step], wide, limit);
        *worst = fmax(*worst, fabs(loss[step] - wide) / limit);
        n++;
    }
    return n;
}

/* `loss` is the curve of f32 with SGD. */
static void check_variants(const model *m, const double *loss)
{
    static const struct {
        const char *what;
        variant v;
    } same[] = {
        { "two threads", { .n_threads = 2, .n_steps = N_SAME } },
        { "recompute", { .recompute = GR_RECOMPUTE_ALL, .n_threads = 1, .n_steps = N_SAME } },
    };
    double other[N_STEPS], worst = 0;

    for (size_t k = 0; k < sizeof(same) / sizeof(same[0]); k++) {
        curve(m, same[k].v, other);
        for (int i = 0; i < N_SAME; i++) {
            if (other[i] != loss[i])
                fprintf(stderr, "%s, %s, step %d: ", m->name, same[k].what, i);
            GR_CHECK_NEAR(other[i], loss[i], 0);
        }
    }
    curve(m, (variant){ .amp = GR_AMP_BF16, .n_threads = 1, .n_steps = N_BF16 }, other);
    for (int i = 0; i < N_BF16; i++)
        worst = fmax(worst, fabs(other[i] - loss[i]) / loss[i]);
    printf("%s bf16: %.1e of the loss off\n", m->name, worst);
    GR_CHECK(worst > 0); /* else it was not bf16 */
    GR_CHECK_NEAR(worst, 0, BF16_OFF * m->slack);
}

static void check_model(const model *m, const char *text, bool full)
{
    static const char *const names[] = { "sgd", "adamw" };

    for (int k = 0; k < 2; k++) {
        double loss[N_STEPS], worst = 0;
        char key[64];

        snprintf(key, sizeof(key), "%s %s ", m->name, names[k]);
        curve(m,
              (variant){ .kind = k == 0 ? GR_OPTIM_SGD : GR_OPTIM_ADAMW,
                         .n_threads = full ? 0 : 1,
                         .n_steps = N_STEPS },
              loss);
        GR_CHECK_EQ(compare(m, text, key, loss, &worst), N_STEPS);
        printf("%s%.2f of what is allowed\n", key, worst);
        fflush(stdout);
        if (k == 0 && !full)
            check_variants(m, loss);
    }
}

int main(int argc, char **argv)
{
    bool full = argc > 1 && strcmp(argv[1], "full") == 0;
    const model *list = full ? models_full : models_small;
    int n = full ? n_models_full : n_models_small;
    char *text;
    size_t n_bytes;

    GR_CHECK_OK(gr_file_read(full ? GR_TESTS_DIR "/golden/models_full.txt"
                                  : GR_TESTS_DIR "/golden/models_small.txt",
                             &text, &n_bytes));
    for (int i = 0; i < n; i++)
        if (argc < 3 || strcmp(argv[2], list[i].name) == 0)
            check_model(&list[i], text, full);
    gr_free(text);
    return 0;
}
