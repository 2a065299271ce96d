/*
 * Attention beyond the driver: what hidden rows give (P43), that nothing grows like queries
 * times keys (P22), how precise kernels are, what numbers that are not finite do, what dropout
 * depends on, the builders for three dimensions and for cosines, and mixed precision.
 */
#include "base/alloc.h"
#include "check.h"
#include "gradus/attention.h"
#include "gradus/nn.h"
#include "gradus/ops.h"
#include "gradus/step.h"
#include "op/attention/attention.h"
#include "op/composed.h"

#include <math.h>
#include <string.h>

#define MAX_VALUES 24

/* A graph over inputs q, k, v (and do, mask), each value in memory of its own. */
typedef struct world {
    gr_vars *vars;
    gr_graph *graph;
    gr_value *o;
    gr_node *grad;
    void *mem[MAX_VALUES];
} world;

typedef struct form {
    int64_t b, nq, nk, heads, d;
    gr_dtype type;
    gr_attention_opts o;
    bool masked;
} form;

static float number(int64_t i, int stream)
{
    uint32_t x = (uint32_t)i * 747796405u + (uint32_t)stream * 2891336453u + 1;

    x = ((x >> ((x >> 28) + 4)) ^ x) * 277803737u;
    return (float)((x >> 22) ^ x) * 0x1p-31f - 1;
}

static void put(gr_dtype t, void *mem, int64_t i, float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    if (t == GR_F32)
        ((float *)mem)[i] = x;
    else if (t == GR_BF16)
        ((uint16_t *)mem)[i] = (uint16_t)(bits >> 16);
    else
        ((double *)mem)[i] = (double)x;
}

static double get(gr_dtype t, const void *mem, int64_t i)
{
    float x;
    uint32_t bits;

    if (t == GR_F32)
        return (double)((const float *)mem)[i];
    if (t == GR_F64)
        return ((const double *)mem)[i];
    bits = (uint32_t)((const uint16_t *)mem)[i] << 16;
    memcpy(&x, &bits, sizeof(x));
    return (double)x;
}

static void world_init(world *w, const form *f)
{
    gr_shape q = GR_SHAPE(f->b, f->nq, f->heads, f->d), k = GR_SHAPE(f->b, f->nk, f->heads, f->d);
    const gr_named feeds[] = { { "q", f->type, q, NULL },
                               { "k", f->type, k, NULL },
                               { "v", f->type, k, NULL },
                               { "do", f->type, q, NULL },
                               { "mask", GR_BOOL, GR_SHAPE(f->b, f->nk), NULL } };
    gr_attention_opts o = f->o;
    gr_value *d_out[2] = { NULL }, *d_src[5] = { NULL };

    *w = (world){ 0 };
    GR_CHECK_OK(gr_vars_create(&w->vars));
    GR_CHECK_OK(gr_graph_create(&w->graph, w->vars, true, feeds, 5));
    if (f->masked)
        o.key_mask = gr_input(w->graph, "mask");
    w->o = gr_attention(w->graph, gr_input(w->graph, "q"), gr_input(w->graph, "k"),
                        gr_input(w->graph, "v"), &o);
    d_out[0] = gr_input(w->graph, "do");
    GR_CHECK_OK(gr_graph_status(w->graph));
    GR_CHECK_OK(gr_op_attention.grad(w->graph, w->o->node, d_out, d_src));
    w->grad = d_src[0]->node;
    GR_CHECK(w->graph->n_values <= MAX_VALUES);
    for (int i = 0; i < w->graph->n_values; i++) {
        const gr_value *v = w->graph->values[i];

        w->mem[i] = gr_malloc_aligned(gr_value_bytes(v) + 64);
        GR_CHECK(w->mem[i]);
        memset(w->mem[i], 0, gr_value_bytes(v));
        for (int64_t e = 0; gr_dtype_is_float(v->dtype) && e < gr_shape_count(&v->shape); e++)
            put(v->dtype, w->mem[i], e, number(e, i));
    }
}

static void world_fini(world *w)
{
    for (int i = 0; i < MAX_VALUES; i++)
        gr_free(w->mem[i]);
    gr_graph_destroy(w->graph);
    gr_vars_destroy(w->vars);
}

/* False when the kernel declines. */
static bool run_node(world *w, const gr_node *n, const char *kernel, const gr_scalars *scalars)
{
    const gr_kernel *k = n->op->kernels;
    gr_prepare p = { .node = n, .n_threads = 1 };
    void *src[8], *out[4];
    gr_launch l = { .node = n, .src = src, .out = out, .scalars = scalars };

    while (k->name && strcmp(k->name, kernel) != 0)
        k++;
    if (!k->name || (k->reject && k->reject(n)))
        return false;
    if (k->prepare)
        GR_CHECK_OK(k->prepare(&p));
    for (int i = 0; i < n->n_src; i++)
        src[i] = w->mem[n->src[i]->id];
    for (int i = 0; i < n->n_out; i++)
        out[i] = w->mem[n->out[i].id];
    l.data = p.data;
    l.work = gr_malloc_aligned((k->workspace ? k->workspace(n, p.data) : 0) + 64);
    GR_CHECK(l.work);
    GR_CHECK_OK(k->run(&l));
    gr_free(l.work);
    if (k->release)
        k->release(p.data);
    return true;
}

static bool run(world *w, const char *kernel)
{
    static const gr_scalars scalars = { .seed = 5 };

    return run_node(w, w->o->node, kernel, &scalars) && run_node(w, w->grad, kernel, &scalars);
}

static const char *const kernels[] = { "amx", "avx512_bf16", "avx512", "avx2", "reference" };
#define N_KERNELS 5

/* ---- P43 ---- */

static void check_zero(const world *w, const gr_value *v, int64_t from, int64_t n)
{
    for (int64_t i = from; i < from + n; i++)
        GR_CHECK(get(v->dtype, w->mem[v->id], i) == 0);
}

/* Sample 0 of 2 has no key; of causal rows none is hidden entirely. */
static void test_hidden_rows(gr_dtype type)
{
    const form f = {
        .b = 2, .nq = 40, .nk = 50, .heads = 2, .d = 24, .type = type, .masked = true
    };
    const int64_t n_q = f.nq * f.heads * f.d, n_k = f.nk * f.heads * f.d;

    for (int k = 0; k < N_KERNELS; k++) {
        world w;

        world_init(&w, &f);
        memset((char *)w.mem[w.o->node->src[3]->id] + f.nk, 1, (size_t)f.nk);
        if (run(&w, kernels[k])) {
            check_zero(&w, w.o, 0, n_q);
            check_zero(&w, &w.grad->out[0], 0, n_q);
            check_zero(&w, &w.grad->out[1], 0, n_k);
            check_zero(&w, &w.grad->out[2], 0, n_k);
            GR_CHECK(get(type, w.mem[w.o->id], n_q) != 0);
            GR_CHECK(get(type, w.mem[w.grad->out[1].id], n_k) != 0);
        }
        world_fini(&w);
    }
}

/* ---- P22 ---- */

static size_t workspace_of(const gr_node *n, const gr_kernel *k)
{
    gr_prepare p = { .node = n, .n_threads = 2 };
    size_t n_bytes;

    if (k->reject && k->reject(n))
        return 0;
    if (k->prepare)
        GR_CHECK_OK(k->prepare(&p));
    n_bytes = k->workspace ? k->workspace(n, p.data) : 0;
    if (k->release)
        k->release(p.data);
    return n_bytes;
}

static void check_growth(const gr_node *small, const gr_node *large)
{
    for (const gr_kernel *k = small->op->kernels; k->name; k++) {
        size_t a = workspace_of(small, k), b = workspace_of(large, k);

        if (b > 4 * a + 4096) {
            fprintf(stderr,
                    "%s of %s: workspace grows from %zu to %zu with four times the tokens\n",
                    k->name, small->op->name, a, b);
            exit(1);
        }
    }
}

static void test_memory_is_linear(gr_dtype type)
{
    const form small = { 1, 512, 512, 1, 64, type, { 0 }, false };
    const form large = { 1, 2048, 2048, 1, 64, type, { 0 }, false };
    world a, b;

    world_init(&a, &small);
    world_init(&b, &large);
    check_growth(a.o->node, b.o->node);
    check_growth(a.grad, b.grad);
    world_fini(&a);
    world_fini(&b);
}

/* ---- precision ---- */

static double rms_error(const world *got, const world *want, const gr_value *v)
{
    const int64_t n = gr_shape_count(&v->shape);
    double error = 0, size = 0;

    for (int64_t i = 0; i < n; i++) {
        double a = get(v->dtype, got->mem[v->id], i), b = get(v->dtype, want->mem[v->id], i);

        error += (a - b) * (a - b);
        size += b * b;
    }
    return sqrt(error / size);
}

/* Of the reference, rounded once. f32: a few roundings of products and sums, which random
 * signs keep near half a unit; bf16: p, ds and results are rounded to 8 bits. */
static void test_precision(gr_dtype type, double bound)
{
    const form f = { 1, 130, 300, 2, 64, type, { 0 }, false };
    world want;

    world_init(&want, &f);
    GR_CHECK(run(&want, "reference"));
    for (int k = 0; k < N_KERNELS - 1; k++) {
        world w;

        world_init(&w, &f);
        for (int i = 0; run(&w, kernels[k]) && i < 4; i++) {
            const gr_value *v = i < 3 ? &w.grad->out[i] : w.o;
            const double e = rms_error(&w, &want, v);

            if (!(e <= bound)) {
                fprintf(stderr, "%s: value %d is off by %g of its size, %g is allowed\n",
                        kernels[k], i, e, bound);
                exit(1);
            }
        }
        world_fini(&w);
    }
    world_fini(&want);
}

/* ---- not finite ---- */

/* AMX cannot do these numbers in f32: the AVX-512 kernel does, and its bits come out. */
static void test_not_finite(float odd)
{
    const form f = { 1, 40, 70, 2, 24, GR_F32, { 0 }, false };
    world a, b;

    world_init(&a, &f);
    world_init(&b, &f);
    ((float *)a.mem[a.o->node->src[1]->id])[100] = odd;
    ((float *)b.mem[b.o->node->src[1]->id])[100] = odd;
    if (run(&a, "amx") && run(&b, "avx512"))
        for (int i = 0; i < 5; i++) {
            const gr_value *v = i < 3 ? &a.grad->out[i] : &a.o->node->out[i - 3];

            GR_CHECK(memcmp(a.mem[v->id], b.mem[v->id], gr_value_bytes(v)) == 0);
        }
    world_fini(&a);
    world_fini(&b);
}

/* ---- dropout ---- */

/* Entry 1 of two, whose first is sample 6 of the batch, is entry 0 of what begins with 7. */
static void test_drop_follows_sample(void)
{
    const form two = { 2, 33, 70, 2, 16, GR_F32, { .dropout = 0.4 }, false };
    const form one = { 1, 33, 70, 2, 16, GR_F32, { .dropout = 0.4 }, false };
    const gr_scalars six = { .seed = 9, .step = 3, .sample = 6 };
    const gr_scalars seven = { .seed = 9, .step = 3, .sample = 7, .micro = 2 };
    const gr_scalars next = { .seed = 9, .step = 4, .sample = 7 };

    for (int k = 0; k < N_KERNELS; k++) {
        const size_t n = (size_t)(33 * 2 * 16) * sizeof(float);
        world a, b;

        world_init(&a, &two);
        world_init(&b, &one);
        for (int s = 0; s < 3; s++) {
            size_t n_bytes = gr_value_bytes(b.o->node->src[s]);

            memcpy(b.mem[b.o->node->src[s]->id], (char *)a.mem[a.o->node->src[s]->id] + n_bytes,
                   n_bytes);
        }
        if (run_node(&a, a.o->node, kernels[k], &six)) {
            const char *second = (const char *)a.mem[a.o->id] + n;

            GR_CHECK(run_node(&b, b.o->node, kernels[k], &seven));
            GR_CHECK(memcmp(second, b.mem[b.o->id], n) == 0);
            GR_CHECK(run_node(&b, b.o->node, kernels[k], &next));
            GR_CHECK(memcmp(second, b.mem[b.o->id], n) != 0);
        }
        world_fini(&a);
        world_fini(&b);
    }
}

/* With v = 1 everywhere a result is the part that was kept, over the probability of that. */
static void test_drop_is_fair(void)
{
    const form f = { 4, 64, 256, 2, 4, GR_F32, { .dropout = 0.3 }, false };
    world w;
    double sum = 0, squares = 0;
    const int n = 4 * 64 * 2;

    world_init(&w, &f);
    memset(w.mem[w.o->node->src[0]->id], 0, gr_value_bytes(w.o->node->src[0]));
    for (int64_t i = 0; i < gr_shape_count(&w.o->node->src[2]->shape); i++)
        ((float *)w.mem[w.o->node->src[2]->id])[i] = 1;
    GR_CHECK(run(&w, "reference"));
    for (int i = 0; i < n; i++) {
        double x = get(GR_F32, w.mem[w.o->id], (int64_t)4 * i);

        sum += x;
        squares += x * x;
    }
    /* mean 1, variance 0.3 / 0.7 / 256; five standard errors of each */
    GR_CHECK(fabs(sum / n - 1) < 5 * sqrt(0.3 / 0.7 / 256 / n));
    GR_CHECK(fabs((squares / n - sum / n * sum / n) * 256 * 0.7 / 0.3 - 1) < 5 * sqrt(2.0 / n));
    world_fini(&w);
}

/* ---- whole steps ---- */

static gr_status trace_flat(gr_graph *g, void *user)
{
    gr_value *x = gr_input(g, "x"), *t = gr_input(g, "t"), *y, *z;
    gr_attention_opts o = { .heads = 2, .dropout = 0.1, .causal = true };

    (void)user;
    y = gr_attention_packed(g, gr_linear(g, "qkv", x, 48), &o);
    o.causal = false;
    y = gr_add(g, x, gr_linear(g, "proj", y, 16));
    z = gr_attention_cross(g, gr_linear(g, "q", y, 16), gr_linear(g, "kv", x, 32), &o);
    y = gr_add(g, y, gr_linear(g, "out", z, 16));
    gr_loss(g, gr_mean(g, gr_square(g, gr_sub(g, y, t)), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

static void test_training(gr_amp amp)
{
    float x[2 * 9 * 16], t[2 * 9 * 16], loss[2] = { 0 };
    gr_named feeds[] = { { "x", GR_F32, GR_SHAPE(2, 9, 16), x },
                         { "t", GR_F32, GR_SHAPE(2, 9, 16), t } };
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_step *s;

    for (int i = 0; i < 2 * 9 * 16; i++) {
        x[i] = number(i, 1);
        t[i] = number(i, 2);
    }
    c.trace = trace_flat;
    c.device = "cpu";
    c.amp = amp;
    c.optim.kind = GR_OPTIM_SGD;
    GR_CHECK_OK(gr_step_create(&s, &c));
    for (int i = 0; i < 30; i++) {
        GR_CHECK_OK(gr_step_train(s, feeds, 2, 0.3));
        GR_CHECK_OK(gr_step_read(s, "loss", (gr_vec){ &loss[i > 0], 1, GR_F32 }));
    }
    GR_CHECK(loss[1] < 0.8f * loss[0]);
    gr_step_destroy(s);
}

/* ---- cosine ---- */

static double dot(const float *a, const float *b, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static gr_status trace_cosine(gr_graph *g, void *user)
{
    (void)user;
    gr_output(g, "y",
              gr_cosine_attention(g, gr_input(g, "q"), gr_input(g, "k"), gr_input(g, "v"),
                                  gr_input(g, "rows"), &(gr_attention_opts){ .heads = 1 }));
    return gr_graph_status(g);
}

enum { N = 7, C = 5 };

static void check_cosine(const float *q, const float *k, const float *v, const float *y)
{
    for (int64_t i = 0; i < N; i++)
        for (int64_t c = 0; c < C; c++) {
            double sum = 0, want = 0;

            for (int64_t j = 0; j < N; j++) {
                double cosine = dot(q + i * C, k + j * C, C) /
                                sqrt(dot(q + i * C, q + i * C, C) * dot(k + j * C, k + j * C, C));

                sum += exp(cosine);
                want += exp(cosine) * (double)v[j * C + c];
            }
            want = i % 3 == 1 ? 0 : want / sum;
            GR_CHECK(fabs((double)y[i * C + c] - want) < 1e-6);
        }
}

static void test_cosine(void)
{
    float q[N * C], k[N * C], v[N * C], y[N * C], rows[N];
    gr_named feeds[] = { { "q", GR_F32, GR_SHAPE(1, N, C), q },
                         { "k", GR_F32, GR_SHAPE(1, N, C), k },
                         { "v", GR_F32, GR_SHAPE(1, N, C), v },
                         { "rows", GR_F32, GR_SHAPE(1, N), rows } };
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_step *s;

    for (int i = 0; i < N * C; i++) {
        q[i] = number(i, 1);
        k[i] = number(i, 2);
        v[i] = number(i, 3);
    }
    for (int i = 0; i < N; i++)
        rows[i] = i % 3 == 1 ? 0 : 1;
    c.trace = trace_cosine;
    c.device = "cpu";
    GR_CHECK_OK(gr_step_create(&s, &c));
    GR_CHECK_OK(gr_step_eval(s, feeds, 4));
    GR_CHECK_OK(gr_step_read(s, "y", (gr_vec){ y, N * C, GR_F32 }));
    check_cosine(q, k, v, y);
    gr_step_destroy(s);
}

/* Values and gradients beside PyTorch. */
static gr_value *cosine(gr_graph *g, gr_value *const *src)
{
    return gr_cosine_attention(g, src[0], src[1], src[2], NULL, NULL);
}

static gr_value *cosine_of_rows(gr_graph *g, gr_value *const *src)
{
    return gr_cosine_attention(g, src[0], src[1], src[2], src[3],
                               &(gr_attention_opts){ .heads = 1 });
}

static gr_value *cosine_scaled(gr_graph *g, gr_value *const *src)
{
    gr_attention_opts o = { .heads = 3, .scale = 4 };

    return gr_cosine_attention(g, src[0], src[1], src[2], NULL, &o);
}

static gr_value *cosine_of_zeros(gr_graph *g, gr_value *const *src)
{
    return gr_cosine_attention(g, src[0], src[1], src[2], NULL,
                               &(gr_attention_opts){ .heads = 2, .min_norm = 1e-12 });
}

static void test_cosine_gradient(void)
{
    static const composed_case cases[] = { { "cosine", cosine, 3, 3, 9 },
                                           { "cosine of rows", cosine_of_rows, 4, 3, 7 },
                                           { "cosine, scaled", cosine_scaled, 3, 3, 8 },
                                           { "cosine of zeros", cosine_of_zeros, 3, 3, 9 } };

    composed_check("cosine", cases, 4);
}

/* In 16 bits, too, a zero vector has the cosine 0 and hands on no gradient that is no number. */
static gr_status trace_zeros(gr_graph *g, void *user)
{
    gr_value *x = gr_linear(g, "in", gr_input(g, "x"), 8), *y;

    y = gr_cosine_attention(g, gr_linear(g, "q", x, 8), gr_linear(g, "k", x, 8), x, NULL, user);
    gr_loss(g, gr_mean(g, gr_square(g, y), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

static void test_zeros(gr_amp amp, double min_norm, bool is_number)
{
    float x[N * C] = { 0 }, loss;
    gr_named feed = { "x", GR_F32, GR_SHAPE(1, N, C), x };
    gr_attention_opts o = { .heads = 1, .min_norm = min_norm };
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_snapshot *snap;
    gr_step *s;

    for (int i = 0; i < 3 * C; i++)
        x[i] = number(i, 1);
    c.trace = trace_zeros;
    c.user = &o;
    c.device = "cpu";
    c.amp = amp;
    GR_CHECK_OK(gr_step_create(&s, &c));
    GR_CHECK_OK(gr_step_plan(s, true, &feed, 1));
    GR_CHECK_OK(gr_step_save(s, &snap));
    for (int i = 0; i < gr_snapshot_count(snap); i++)
        if (strstr(gr_snapshot_at(snap, i)->name, "bias"))
            memset(gr_snapshot_at(snap, i)->mem, 0, 8 * sizeof(float));
    GR_CHECK_OK(gr_step_restore(s, snap));
    gr_snapshot_destroy(snap);
    for (int i = 0; i < 2; i++)
        GR_CHECK_OK(gr_step_train(s, &feed, 1, 0.1));
    GR_CHECK_OK(gr_step_read(s, "loss", (gr_vec){ &loss, 1, GR_F32 }));
    GR_CHECK(isfinite(loss) == is_number);
    gr_step_destroy(s);
}

static gr_status trace_bad_norm(gr_graph *g, void *user)
{
    gr_value *x = gr_input(g, "x");

    gr_cosine_attention(g, x, x, x, NULL, user);
    return gr_graph_status(g);
}

static void test_min_norm(void)
{
    float x[N * C] = { 0 };
    gr_named feed = { "x", GR_F32, GR_SHAPE(1, N, C), x };
    gr_attention_opts o = { .heads = 1, .min_norm = 1e-20 };
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_step *s;

    test_zeros(GR_AMP_NONE, 1e-12, true);
    test_zeros(GR_AMP_BF16, 1e-12, true);
    test_zeros(GR_AMP_NONE, 0, false);
    c.trace = trace_bad_norm;
    c.user = &o;
    c.device = "cpu";
    GR_CHECK_OK(gr_step_create(&s, &c));
    GR_CHECK_FAILS(gr_step_eval(s, &feed, 1), GR_ERR_ARG, "min_norm is 1e-20");
    gr_step_destroy(s);
}

int main(void)
{
    test_hidden_rows(GR_F32);
    test_hidden_rows(GR_BF16);
    test_memory_is_linear(GR_F32);
    test_memory_is_linear(GR_BF16);
    test_precision(GR_F32, 1e-6);
    test_precision(GR_BF16, 6e-3);
    test_not_finite(INFINITY);
    test_not_finite(NAN);
    test_not_finite(1e30f);
    test_drop_follows_sample();
    test_drop_is_fair();
    test_training(GR_AMP_NONE);
    test_training(GR_AMP_BF16);
    test_training(GR_AMP_F16);
    test_cosine();
    test_cosine_gradient();
    test_min_norm();
    return 0;
}
