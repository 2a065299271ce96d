/*
 * The loss curve of PyTorch: same starting weights (drawn alike), same data, 20 steps of
 * each optimiser in f32, with groups, both kinds of clipping and averages. At each step Gradus must
 * be no further from PyTorch in f64 than twice PyTorch's own f32 is, plus 1e-6.
 * tests/golden/make_curve.py made the numbers.
 */
#include "base/alloc.h"
#include "base/outfile.h"
#include "check.h"
#include "step/world.h"

static const gr_param_group groups[] = { { "fc3.*", 0.5, 0, NULL } };

static const struct {
    const char *name;
    gr_optim_kind kind;
    bool nesterov, grouped;
    double clip_value, clip_norm, ema_decay;
} kinds[] = {
    { "sgd", GR_OPTIM_SGD, false, false, 0, 0, 0 },
    { "adamw", GR_OPTIM_ADAMW, false, false, 0, 0, 0 },
    { "adam", GR_OPTIM_ADAM, false, false, 0, 0, 0 },
    { "nesterov", GR_OPTIM_SGD, true, false, 0, 0, 0 },
    { "clip_value", GR_OPTIM_SGD, false, false, 0.01, 0, 0 },
    { "clip_norm", GR_OPTIM_SGD, false, false, 0, 0.25, 0 },
    { "groups", GR_OPTIM_ADAMW, false, true, 0, 0, 0 },
    { "ema", GR_OPTIM_SGD, false, false, 0, 0, 0.75 },
};

#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

static job make_job(size_t k)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    job j = { .global_batch = 16, .n_steps = 20 };

    c.trace = trace_mlp;
    c.seed = 3;
    c.optim.kind = kinds[k].kind;
    c.optim.momentum = 0.9;
    c.optim.weight_decay = 0.01;
    c.optim.nesterov = kinds[k].nesterov;
    if (kinds[k].grouped) {
        c.optim.decay_all = false;
        c.optim.groups = groups;
        c.optim.n_groups = 1;
    }
    c.clip_value = kinds[k].clip_value;
    c.clip_norm = kinds[k].clip_norm;
    c.ema_decay = kinds[k].ema_decay;
    j.c = c;
    return j;
}

/* As run_rank(), but the losses are those of the averaged weights after each step. */
static void run_averaged(job *j)
{
    gr_step *s;
    batch b;

    GR_CHECK_OK(gr_step_create(&s, &j->c));
    GR_CHECK_FAILS(gr_step_use_ema(s, true), GR_ERR_ARG, "plan a training shape first");
    for (int i = 0; i < j->n_steps; i++) {
        gr_vec loss = { .mem = &j->loss[i], .n_elem = 1, .dtype = GR_F32 };

        batch_fill(&b, false, i, 0, j->global_batch);
        GR_CHECK_OK(gr_step_train(s, b.feeds, 2, 0.125));
        GR_CHECK_OK(gr_step_use_ema(s, true));
        GR_CHECK_OK(gr_step_eval(s, b.feeds, 2));
        GR_CHECK_OK(gr_step_read(s, "loss", loss));
    }
    GR_CHECK_OK(gr_step_save(s, &j->end));
    gr_step_destroy(s);
}

/* The number at *at, which moves past it. */
static double parse(char **at)
{
    char *end;
    double x = strtod(*at, &end);

    GR_CHECK(end != *at);
    *at = end;
    return x;
}

static int compare(const job *j, const char *kind, const char *text)
{
    int n = 0;

    for (const char *line = text; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
        size_t len = strlen(kind);
        char *end;
        long step;
        double f64, worst;

        if (strncmp(line, kind, len) != 0 || line[len] != ' ')
            continue;
        step = strtol(line + len, &end, 10);
        GR_CHECK(step == n && step < 20);
        f64 = parse(&end);
        worst = 2 * fabs(parse(&end) - f64) + 1e-6;
        GR_CHECK_NEAR(j->loss[step], f64, worst);
        n++;
    }
    return n;
}

int main(void)
{
    char *text;
    size_t n_bytes;

    GR_CHECK_OK(gr_file_read(GR_TESTS_DIR "/golden/mlp_curve.txt", &text, &n_bytes));
    for (size_t k = 0; k < N_KINDS; k++) {
        job j = make_job(k);

        if (j.c.ema_decay > 0)
            run_averaged(&j);
        else
            GR_CHECK_OK(run_rank(&j, NULL));
        GR_CHECK_EQ(compare(&j, kinds[k].name, text), 20);
        gr_snapshot_destroy(j.end);
    }
    gr_free(text);
    return 0;
}
