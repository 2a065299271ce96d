/*
 * The loss curve of PyTorch: same starting weights (drawn alike), same data, 20 steps of
 * SGD and AdamW in f32. At each step Gradus must be no further from PyTorch in f64 than
 * twice PyTorch's own f32 is, plus 1e-6. tests/golden/make_curve.py made the numbers.
 */
#include "base/alloc.h"
#include "base/outfile.h"
#include "check.h"
#include "step/world.h"

static job make_job(gr_optim_kind kind)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    job j = { .global_batch = 16, .n_steps = 20 };

    c.trace = trace_mlp;
    c.seed = 3;
    c.optim.kind = kind;
    c.optim.momentum = 0.9;
    c.optim.weight_decay = 0.01;
    j.c = c;
    return j;
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
    for (int k = 0; k < 2; k++) {
        job j = make_job(k == 0 ? GR_OPTIM_SGD : GR_OPTIM_ADAMW);

        GR_CHECK_OK(run_rank(&j, NULL));
        GR_CHECK_EQ(compare(&j, k == 0 ? "sgd" : "adamw", text), 20);
        gr_snapshot_destroy(j.end);
    }
    gr_free(text);
    return 0;
}
