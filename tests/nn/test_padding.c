/*
 * An embedding with padding_idx, trained beside PyTorch's (tests/golden/make_padding.py): its row
 * starts as zeros and stays zeros, the others are drawn and trained as without it.
 */
#include "gradus/gradus.h"

#include "base/alloc.h"
#include "base/outfile.h"
#include "check.h"

#include <stdlib.h>

enum { N_ROWS = 9, WIDTH = 4, N_STEPS = 3 };

typedef struct padding_case {
    const char *name;
    int64_t padding, row; /* as asked for, and the row that is meant */
    gr_optim optim;
    double lr;
    gr_amp amp;
    double tolerance; /* of draws (4e-7) and a few steps */
} padding_case;

static gr_status trace(gr_graph *g, void *user)
{
    const padding_case *c = user;
    gr_value *y =
        gr_embedding_layer_padded(g, "embed", gr_input(g, "i"), N_ROWS, WIDTH, c->padding, NULL);

    y = gr_add_k(g, y, -0.5);
    gr_loss(g, gr_mean(g, gr_mul(g, y, y), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

/* Behind the line "case NAME". */
static const char *section(const char *text, const char *name)
{
    char head[32];
    const char *at;

    snprintf(head, sizeof(head), "\ncase %s\n", name);
    at = strstr(text, head);
    GR_CHECK(at != NULL);
    return at + strlen(head);
}

static void check_zeros(const gr_snapshot *snap, int64_t row)
{
    const gr_named *t = gr_snapshot_find(snap, "embed.weight");

    GR_CHECK(t && t->dtype == GR_F32);
    for (int k = 0; k < WIDTH; k++)
        GR_CHECK(((const float *)t->mem)[row * WIDTH + k] == 0.0F);
}

static void check(const padding_case *k, const char *text)
{
    static int64_t index[] = { 0, 2, 2, 8, 3, 2, 5, 8, 8, 1 };
    const gr_named feed = { .name = "i", .dtype = GR_I64, .shape = GR_SHAPE(2, 5), .mem = index };
    gr_step_config c = GR_STEP_CONFIG_INIT;
    const char *at = section(text, k->name);
    const float *w;
    gr_snapshot *snap;
    gr_step *s;
    char *end;

    c.trace = trace;
    c.user = (void *)(uintptr_t)k;
    c.device = "cpu";
    c.seed = 7;
    c.optim = k->optim;
    c.amp = k->amp;
    GR_CHECK_OK(gr_step_create(&s, &c));
    GR_CHECK_OK(gr_step_plan(s, true, &feed, 1));
    GR_CHECK_OK(gr_step_save(s, &snap));
    check_zeros(snap, k->row);
    gr_snapshot_destroy(snap);
    for (int i = 0; i < N_STEPS; i++)
        GR_CHECK_OK(gr_step_train(s, &feed, 1, k->lr));
    GR_CHECK_OK(gr_step_save(s, &snap));
    check_zeros(snap, k->row);
    w = gr_snapshot_find(snap, "embed.weight")->mem;
    for (int i = 0; i < N_ROWS * WIDTH; i++, at = end)
        GR_CHECK_NEAR((double)w[i], strtod(at, &end), k->tolerance);
    gr_snapshot_destroy(snap);
    gr_step_destroy(s);
}

int main(void)
{
    static const padding_case cases[] = {
        { "sgd", 2, 2, GR_OPTIM_INIT, 0.5, GR_AMP_NONE, 1e-6 },
        { "adamw", 2, 2, GR_OPTIM_ADAMW_INIT, 0.1, GR_AMP_NONE, 2e-6 },
        { "end", -1, 8, GR_OPTIM_INIT, 0.5, GR_AMP_NONE, 1e-6 },
        { "sgd", 2, 2, GR_OPTIM_INIT, 0.5, GR_AMP_BF16, 0.02 },
    };
    size_t n_bytes;
    char *text;

    GR_CHECK_OK(gr_file_read(GR_TESTS_DIR "/golden/padding.txt", &text, &n_bytes));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        check(&cases[i], text);
    gr_free(text);
    return 0;
}
