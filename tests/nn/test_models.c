/*
 * Whole models beside PyTorch: same weights, same data, 20 steps of SGD and of AdamW in f32.
 * At each step Gradus must be no further from PyTorch in f64 than twice as far as PyTorch's
 * own f32 has been so far, plus 1e-6. tests/golden/make_models.py made the numbers.
 *
 * usage: test_models [small|full [MODEL]]
 */
#include "base/alloc.h"
#include "base/outfile.h"
#include "check.h"
#include "nn/models.h"

#define N_STEPS 20

static void curve(const model *m, gr_optim_kind kind, double *loss)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_named feeds[MODEL_MAX_FEEDS];
    gr_step_stats stats;
    gr_step *s;

    c.device = "cpu";
    c.optim.kind = kind;
    c.optim.momentum = 0.9;
    c.optim.weight_decay = kind == GR_OPTIM_SGD ? 1e-4 : 0.01;
    model_open(m, &c, &s);
    GR_CHECK_OK(gr_step_get_stats(s, &stats));
    if (m->n_params)
        GR_CHECK_EQ(stats.n_params, m->n_params);
    model_feeds_make(m, feeds);
    for (int i = 0; i < N_STEPS; i++) {
        float got;

        model_feeds_fill(m, feeds, i);
        GR_CHECK_OK(
            gr_step_train(s, feeds, m->n_feeds, m->lr * (kind == GR_OPTIM_SGD ? 1e-3 : 1e-4)));
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

static void check_model(const model *m, const char *text)
{
    static const char *const names[] = { "sgd", "adamw" };

    for (int k = 0; k < 2; k++) {
        double loss[N_STEPS], worst = 0;
        char key[64];

        snprintf(key, sizeof(key), "%s %s ", m->name, names[k]);
        curve(m, k == 0 ? GR_OPTIM_SGD : GR_OPTIM_ADAMW, loss);
        GR_CHECK_EQ(compare(m, text, key, loss, &worst), N_STEPS);
        printf("%s%.2f of what is allowed\n", key, worst);
        fflush(stdout);
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
            check_model(&list[i], text);
    gr_free(text);
    return 0;
}
