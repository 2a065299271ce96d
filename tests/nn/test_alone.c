/*
 * What the protein model says of a structure does not depend on what it is batched with: alone,
 * at the start of a padded batch and at its end the logits agree, with weights and sums in f32, and
 * training on a padded batch of one structure is training on the structure.
 */
#include <math.h>

#include "check.h"
#include "nn/models.h"

#include "gradus/models.h"

#define N_LONG  37 /* residues of the longest structure; less than 30 neighbours in the others */
#define M_LONG  52 /* fragments of it */
#define N_SHORT 11
#define M_SHORT 14
#define N_OUT   (16 + 72)
#define N_STEPS 3

typedef struct form {
    bool newest;
} form;

static gr_status trace(gr_graph *g, void *user)
{
    const form *f = user;
    gr_protein c = { .width = 64, .layers = 2, .heads = 2, .offsets = f->newest };
    gr_protein_input in = { .coords = gr_input(g, "coords"),
                            .mask = gr_input(g, "mask"),
                            .tokens = gr_input(g, "ids"),
                            .token_mask = gr_input(g, "shown") };
    gr_protein_output out;
    gr_value *y, *shown;

    if (f->newest) {
        in.constants = gr_input(g, "constants");
        in.residues = gr_input(g, "at");
        in.pairs = gr_input(g, "pairs");
    }
    out = gr_protein_model(g, "", &in, &c);
    y = gr_concat(g, ((gr_value *[]){ out.fragments, out.torsions }), 2, 2);
    gr_output(g, "y", y);
    shown = gr_unsqueeze(g, gr_cast(g, in.token_mask, GR_F32), 2);
    y = gr_mul(g, gr_square(g, y), shown);
    gr_loss(g, gr_mul_k(g, gr_sum(g, y, GR_AXES_ALL, false), 1e-3));
    return gr_graph_status(g);
}

/* ---- batches ---- */

/* A batch of structures, each by its number: what it holds does not depend on the place. */
typedef struct batch {
    int64_t b, l, m; /* structures, and what they are padded to */
    float *coords, *constants, *pairs;
    bool *mask, *shown;
    int32_t *ids, *at;
    gr_named feeds[7];
} batch;

static float number(int structure, int64_t i, int stream)
{
    uint32_t x = (uint32_t)i * 747796405u + (uint32_t)(structure * 17 + stream) * 2891336453u + 1;

    x = ((x >> ((x >> 28) + 4)) ^ x) * 277803737u;
    return (float)((x >> 22) ^ x) * 0x1p-31f - 1;
}

static int64_t residues_of(int structure)
{
    return structure == 0 ? N_SHORT : N_LONG - structure;
}

static int64_t fragments_of(int structure)
{
    return structure == 0 ? M_SHORT : M_LONG - structure;
}

static void put_residues(batch *b, int64_t row, int structure)
{
    int64_t n = residues_of(structure);

    for (int64_t i = 0; i < b->l; i++) {
        b->mask[row * b->l + i] = i < n;
        for (int64_t k = 0; k < 12; k++) /* padding is zeros, as a loader leaves it */
            b->coords[(row * b->l + i) * 12 + k] = i < n ? 8 * number(structure, i * 12 + k, 1) : 0;
        for (int64_t k = 0; k < 5; k++)
            b->constants[(row * b->l + i) * 5 + k] = i < n ? number(structure, i * 5 + k, 2) : 0;
    }
}

static void put_fragments(batch *b, int64_t row, int structure)
{
    int64_t n = fragments_of(structure);

    for (int64_t i = 0; i < b->m; i++) {
        bool is_there = i < n;

        b->shown[row * b->m + i] = is_there;
        b->ids[row * b->m + i] = is_there ? (int32_t)(i * 7 + structure) % 16 : 0;
        b->at[row * b->m + i] = is_there ? (int32_t)(i * residues_of(structure) / n) : 0;
        for (int64_t j = 0; j < b->m; j++)
            for (int64_t k = 0; k < 19; k++)
                b->pairs[((row * b->m + i) * b->m + j) * 19 + k] =
                    is_there && j < n ? number(structure, (i * n + j) * 19 + k, 3) : 0;
    }
}

static void batch_make(batch *b, const int *structures, int n, int64_t l, int64_t m)
{
    *b = (batch){ .b = n, .l = l, .m = m };
    b->coords = calloc((size_t)(n * l * 12), sizeof(float));
    b->constants = calloc((size_t)(n * l * 5), sizeof(float));
    b->pairs = calloc((size_t)(n * m * m * 19), sizeof(float));
    b->mask = calloc((size_t)(n * l), sizeof(bool));
    b->shown = calloc((size_t)(n * m), sizeof(bool));
    b->ids = calloc((size_t)(n * m), sizeof(int32_t));
    b->at = calloc((size_t)(n * m), sizeof(int32_t));
    for (int i = 0; i < n; i++) {
        put_residues(b, i, structures[i]);
        put_fragments(b, i, structures[i]);
    }
    b->feeds[0] = (gr_named){ "coords", GR_F32, GR_SHAPE(n, l, 4, 3), b->coords };
    b->feeds[1] = (gr_named){ "mask", GR_BOOL, GR_SHAPE(n, l), b->mask };
    b->feeds[2] = (gr_named){ "ids", GR_I32, GR_SHAPE(n, m), b->ids };
    b->feeds[3] = (gr_named){ "shown", GR_BOOL, GR_SHAPE(n, m), b->shown };
    b->feeds[4] = (gr_named){ "constants", GR_F32, GR_SHAPE(n, l, 5), b->constants };
    b->feeds[5] = (gr_named){ "at", GR_I32, GR_SHAPE(n, m), b->at };
    b->feeds[6] = (gr_named){ "pairs", GR_F32, GR_SHAPE(n, m, m, 19), b->pairs };
}

static void batch_free(batch *b)
{
    free(b->coords);
    free(b->constants);
    free(b->pairs);
    free(b->mask);
    free(b->shown);
    free(b->ids);
    free(b->at);
}

/* ---- results ---- */

static gr_step *open_step(form *f, batch *b)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_step *s;

    c.trace = trace;
    c.user = f;
    c.device = "cpu";
    c.seed = 3;
    GR_CHECK_OK(gr_step_create(&s, &c));
    GR_CHECK_OK(gr_step_plan(s, true, b->feeds, f->newest ? 7 : 4));
    return s;
}

static float *logits_of(form *f, gr_step *s, batch *b)
{
    size_t n = (size_t)(b->b * b->m * N_OUT);
    float *y = malloc(n * sizeof(*y));

    GR_CHECK_OK(gr_step_eval(s, b->feeds, f->newest ? 7 : 4));
    GR_CHECK_OK(gr_step_read(s, "y", (gr_vec){ y, n, GR_F32 }));
    return y;
}

/* Structure 0 alone is `want`; it stands in row `row` of the batch. */
static double furthest(form *f, gr_step *s, const float *want, const int *structures, int64_t row)
{
    double most = 0;
    float *y;
    batch b;

    batch_make(&b, structures, 3, N_LONG, M_LONG);
    y = logits_of(f, s, &b);
    for (int64_t i = 0; i < M_SHORT * N_OUT; i++)
        most = fmax(most, fabs((double)y[row * M_LONG * N_OUT + i] - (double)want[i]));
    free(y);
    batch_free(&b);
    return most;
}

static void test_logits(form *f)
{
    batch alone;
    gr_step *s;
    float *want;
    double most = 0;

    batch_make(&alone, (int[]){ 0 }, 1, N_SHORT, M_SHORT);
    s = open_step(f, &alone);
    want = logits_of(f, s, &alone);
    for (int64_t i = 0; i < M_SHORT * N_OUT; i++)
        most = fmax(most, fabs((double)want[i]));
    GR_CHECK(most > 0.1);
    GR_CHECK_NEAR(furthest(f, s, want, (int[]){ 0, 1, 2 }, 0), 0, 1e-5);
    GR_CHECK_NEAR(furthest(f, s, want, (int[]){ 2, 1, 0 }, 2), 0, 1e-5);
    free(want);
    batch_free(&alone);
    gr_step_destroy(s);
}

/* Gradients, too: weights after some steps on the structure alone, and padded. */
static void test_training(form *f)
{
    batch b[2];
    gr_snapshot *end[2];
    double moved = 0;

    batch_make(&b[0], (int[]){ 0 }, 1, N_SHORT, M_SHORT);
    batch_make(&b[1], (int[]){ 0 }, 1, N_LONG, M_LONG);
    for (int i = 0; i < 2; i++) {
        gr_step *s = open_step(f, &b[i]);

        for (int k = 0; k < N_STEPS; k++)
            GR_CHECK_OK(gr_step_train(s, b[i].feeds, f->newest ? 7 : 4, 0.01));
        GR_CHECK_OK(gr_step_save(s, &end[i]));
        gr_step_destroy(s);
        batch_free(&b[i]);
    }
    for (int i = 0; i < gr_snapshot_count(end[0]); i++) {
        const gr_named *x = gr_snapshot_at(end[0], i), *y = gr_snapshot_find(end[1], x->name);

        if (x->dtype != GR_F32)
            continue;
        for (int64_t k = 0; k < gr_shape_count(&x->shape); k++)
            GR_CHECK_NEAR(((const float *)x->mem)[k], (double)((const float *)y->mem)[k], 1e-5);
        if (strstr(x->name, "gnn_layers.0.msg_mlp.4.bias"))
            moved += fabs((double)((const float *)x->mem)[0]);
    }
    GR_CHECK(moved > 0);
    gr_snapshot_destroy(end[0]);
    gr_snapshot_destroy(end[1]);
}

int main(void)
{
    form seed = { false }, newest = { true };

    test_logits(&seed);
    test_logits(&newest);
    test_training(&seed);
    test_training(&newest);
    return 0;
}
