/*
 * The kernels of instructions on bf16 beyond what the driver's cases reach; AMX declines small
 * shapes there.
 *
 *   edges     shapes around tiles, panels, held blocks and passes over k; stored all four
 *             ways, f32 and bf16; the same bits on one, two and three threads
 *   accuracy  error of AMX's three bf16 parts beside that of a chain of f32 multiply-adds
 *   chain     AVX512_BF16: of each pair of k the second product is added first, then the first,
 *             in the order of k, whatever tiles, panels and passes do
 *   values    infinities, NaN, huge and tiny numbers must come out as in f32 arithmetic
 *
 * The truth is the sum in double. Ends with 77 where there are neither AMX nor AVX512_BF16.
 */
#include "base/alloc.h"
#include "base/cpu.h"
#include "base/half.h"
#include "check.h"
#include "gradus/ops.h"
#include "op/element.h"
#include "op/matmul/matmul.h"

#include <float.h>

#define GUARD 64

static const gr_kernel *kernel; /* that is tested */
static bool takes_f32;

typedef struct problem {
    int64_t batch, m, n, k;
    bool trans_a, trans_b;
    gr_dtype type, type_y;
    double *a, *b, *y; /* operands as they were rounded to the type, and the truth */
    double *size;      /* sum of |a||b| for each element of y */
    void *mem[2];      /* operands */
    gr_vars *vars;
    gr_graph *graph;
    gr_node *node;
    gr_matmul_attr attr;
} problem;

static uint32_t noise(void)
{
    static uint64_t state = 88172645463325252u;

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32);
}

static double uniform(void)
{
    return (double)noise() / 2147483648.0 - 1;
}

static void *must_alloc(size_t n_bytes)
{
    void *p = gr_malloc_aligned(n_bytes + 1);

    GR_CHECK(p);
    return p;
}

#define COUNT_A(p) ((p)->batch * (p)->m * (p)->k)
#define COUNT_B(p) ((p)->batch * (p)->k * (p)->n)
#define COUNT_Y(p) ((p)->batch * (p)->m * (p)->n)

/* Memory of a's, b's element (row or column i, k). */
static int64_t at_a(const problem *p, int64_t z, int64_t i, int64_t k)
{
    return z * p->m * p->k + (p->trans_a ? k * p->m + i : i * p->k + k);
}

static int64_t at_b(const problem *p, int64_t z, int64_t i, int64_t k)
{
    return z * p->n * p->k + (p->trans_b ? i * p->k + k : k * p->n + i);
}

static void build_node(problem *p)
{
    gr_shape sa = p->trans_a ? GR_SHAPE(p->batch, p->k, p->m) : GR_SHAPE(p->batch, p->m, p->k);
    gr_shape sb = p->trans_b ? GR_SHAPE(p->batch, p->n, p->k) : GR_SHAPE(p->batch, p->k, p->n);
    const gr_named feeds[] = { { "a", p->type, sa, NULL }, { "b", p->type, sb, NULL } };
    gr_value *y;

    GR_CHECK_OK(gr_vars_create(&p->vars));
    GR_CHECK_OK(gr_graph_create(&p->graph, p->vars, true, feeds, 2));
    y = gr_matmul_t(p->graph, gr_input(p->graph, "a"), gr_input(p->graph, "b"), p->trans_a,
                    p->trans_b);
    GR_CHECK_OK(gr_graph_status(p->graph));
    p->node = y->node;
    p->attr = *(const gr_matmul_attr *)p->node->attr;
    p->attr.dtype = p->type_y;
    p->node->attr = &p->attr;
    p->node->out[0].dtype = p->type_y;
}

static void open_problem(problem *p)
{
    build_node(p);
    p->mem[0] = must_alloc((size_t)COUNT_A(p) * gr_dtype_bytes(p->type));
    p->mem[1] = must_alloc((size_t)COUNT_B(p) * gr_dtype_bytes(p->type));
    p->a = must_alloc((size_t)COUNT_A(p) * sizeof(double));
    p->b = must_alloc((size_t)COUNT_B(p) * sizeof(double));
    p->y = must_alloc((size_t)COUNT_Y(p) * sizeof(double));
    p->size = must_alloc((size_t)COUNT_Y(p) * sizeof(double));
    for (int64_t i = 0; i < COUNT_A(p); i++)
        p->a[i] = 2 * uniform();
    for (int64_t i = 0; i < COUNT_B(p); i++)
        p->b[i] = 2 * uniform();
}

/* After a and b were filled: rounds them to the type, and sums up the truth. */
static void settle(problem *p)
{
    for (int64_t i = 0; i < COUNT_A(p); i++) {
        gr_element_put_f64(p->mem[0], p->type, i, p->a[i]);
        p->a[i] = gr_element_f64(p->mem[0], p->type, i);
    }
    for (int64_t i = 0; i < COUNT_B(p); i++) {
        gr_element_put_f64(p->mem[1], p->type, i, p->b[i]);
        p->b[i] = gr_element_f64(p->mem[1], p->type, i);
    }
    for (int64_t e = 0; e < COUNT_Y(p); e++) {
        int64_t z = e / (p->m * p->n), i = e / p->n % p->m, j = e % p->n;

        p->y[e] = p->size[e] = 0;
        for (int64_t k = 0; k < p->k; k++) {
            double term = p->a[at_a(p, z, i, k)] * p->b[at_b(p, z, j, k)];

            p->y[e] += term;
            p->size[e] += fabs(term);
        }
    }
}

static void close_problem(problem *p)
{
    gr_graph_destroy(p->graph);
    gr_vars_destroy(p->vars);
    gr_free(p->mem[0]);
    gr_free(p->mem[1]);
    gr_free(p->a);
    gr_free(p->b);
    gr_free(p->y);
    gr_free(p->size);
}

static bool all_are(const unsigned char *p, size_t n, unsigned char c)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != c)
            return false;
    return true;
}

/* The product in memory of its own, with guards behind it and behind the workspace. */
static void *run_kernel(const problem *p, int n_threads, unsigned char poison)
{
    gr_prepare prep = { .node = p->node, .n_threads = n_threads };
    size_t n_y = (size_t)COUNT_Y(p) * gr_dtype_bytes(p->type_y), n_work;
    unsigned char *y = must_alloc(n_y + GUARD), *work;
    void *out[] = { y };
    gr_launch l = { .node = p->node, .src = p->mem, .out = out };

    GR_CHECK_OK(gr_pool_create(&l.pool, n_threads));
    GR_CHECK_OK(kernel->prepare(&prep));
    n_work = kernel->workspace(p->node, prep.data);
    work = must_alloc(n_work + GUARD);
    memset(y, poison, n_y + GUARD);
    memset(work, poison, n_work + GUARD);
    l.work = work;
    l.data = prep.data;
    GR_CHECK_OK(kernel->run(&l));
    GR_CHECK(all_are(y + n_y, GUARD, poison));
    GR_CHECK(all_are(work + n_work, GUARD, poison));
    kernel->release(prep.data);
    gr_pool_destroy(l.pool);
    gr_free(work);
    return y;
}

/* Like the driver's tolerance: the chain's roundings, the result's, the least number. */
static double tolerance(const problem *p, int64_t e, double scale)
{
    double root = sqrt((double)p->k), want = fabs(p->y[e]);

    return 4 * 0x1p-24 * root * fmax(want, root * scale) +
           want * (p->type_y == GR_BF16 ? 0x1p-8 : 0x1p-23) + 0x1p-149;
}

static void check_near(const problem *p, const void *y, double scale)
{
    for (int64_t e = 0; e < COUNT_Y(p); e++) {
        double got = gr_element_f64(y, p->type_y, e);

        if (!(fabs(got - p->y[e]) <= tolerance(p, e, scale))) {
            fprintf(stderr, "%dx%dx%d %d %d, %s: element %d: %.9g, expected %.9g within %.3g\n",
                    (int)p->m, (int)p->n, (int)p->k, p->trans_a, p->trans_b, gr_dtype_name(p->type),
                    (int)e, got, p->y[e], tolerance(p, e, scale));
            exit(1);
        }
    }
}

/* ---- edges ---- */

static void check_shape(problem p)
{
    size_t n_bytes;
    void *one;

    open_problem(&p);
    settle(&p);
    n_bytes = (size_t)COUNT_Y(&p) * gr_dtype_bytes(p.type_y);
    one = run_kernel(&p, 1, 0xff);
    check_near(&p, one, 1);
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        void *other = run_kernel(&p, n_threads, 0xab);

        GR_CHECK(memcmp(one, other, n_bytes) == 0);
        gr_free(other);
    }
    gr_free(one);
    close_problem(&p);
}

static void check_edges(void)
{
    static const int64_t shapes[][4] = {
        { 1, 1, 1, 1 },     { 1, 3, 5, 2 },      { 1, 16, 16, 32 },    { 1, 17, 16, 33 },
        { 1, 15, 33, 31 },  { 1, 32, 32, 64 },   { 1, 33, 31, 16 },    { 1, 48, 80, 49 },
        { 1, 64, 96, 128 }, { 1, 100, 70, 200 }, { 1, 40, 40, 1100 },  { 1, 33, 65, 2100 },
        { 3, 20, 34, 40 },  { 2, 64, 64, 1056 }, { 1, 190, 170, 900 }, { 1, 0, 5, 3 },
        { 1, 5, 0, 3 },     { 1, 5, 4, 0 },      { 0, 5, 4, 3 },       { 1, 30, 45, 1057 },
        { 2, 61, 7, 4099 },
    };
    static const gr_dtype types[][2] = {
        { GR_F32, GR_F32 }, { GR_BF16, GR_BF16 }, { GR_BF16, GR_F32 }, { GR_F32, GR_BF16 }
    };

    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++)
        for (int t = 0; t < 4; t++)
            for (int stored = 0; (takes_f32 || types[t][0] == GR_BF16) && stored < (t < 2 ? 4 : 1);
                 stored++)
                check_shape((problem){ .batch = shapes[s][0],
                                       .m = shapes[s][1],
                                       .n = shapes[s][2],
                                       .k = shapes[s][3],
                                       .trans_a = (stored & 1) != 0,
                                       .trans_b = (stored & 2) != 0,
                                       .type = types[t][0],
                                       .type_y = types[t][1] });
}

/* ---- accuracy ---- */

typedef struct error {
    double most, squares;
} error;

static void add_error(error *e, double off)
{
    e->most = fmax(e->most, fabs(off));
    e->squares += off * off;
}

/* `same_sign`: no sum cancels, so a part that is missing would show as a bias. */
static void check_accuracy(problem p, bool same_sign)
{
    error amx = { 0, 0 }, chain = { 0, 0 };
    double rms_amx, rms_chain;
    float *y;

    open_problem(&p);
    for (int64_t i = 0; same_sign && i < COUNT_A(&p); i++)
        p.a[i] = fabs(p.a[i]);
    for (int64_t i = 0; same_sign && i < COUNT_B(&p); i++)
        p.b[i] = fabs(p.b[i]);
    settle(&p);
    y = run_kernel(&p, 1, 0xff);
    check_near(&p, y, 1);
    for (int64_t e = 0; e < COUNT_Y(&p); e++) {
        float sum = 0;

        for (int64_t k = 0; k < p.k; k++)
            sum =
                fmaf((float)p.a[at_a(&p, 0, e / p.n, k)], (float)p.b[at_b(&p, 0, e % p.n, k)], sum);
        add_error(&amx, (double)y[e] - p.y[e]);
        add_error(&chain, (double)sum - p.y[e]);
    }
    rms_amx = sqrt(amx.squares / (double)COUNT_Y(&p));
    rms_chain = sqrt(chain.squares / (double)COUNT_Y(&p));
    printf("%4d x %4d x %4d%s: error of AMX max %.2e rms %.2e, of f32 max %.2e rms %.2e\n",
           (int)p.m, (int)p.n, (int)p.k, same_sign ? " positive" : "", amx.most, rms_amx,
           chain.most, rms_chain);
    GR_CHECK(rms_amx <= rms_chain);
    GR_CHECK(amx.most <= chain.most);
    gr_free(y);
    close_problem(&p);
}

static void check_accuracies(void)
{
    /* Rows are many of the same: a part of a layer is enough. */
    static const problem products[] = {
        { .batch = 1, .m = 32, .n = 512, .k = 784, .trans_b = true },
        { .batch = 1, .m = 32, .n = 512, .k = 512 },
        { .batch = 1, .m = 64, .n = 784, .k = 128, .trans_a = true },
    };

    for (int i = 0; i < 3; i++)
        for (int positive = 0; positive < 2; positive++) {
            problem p = products[i];

            p.type = p.type_y = GR_F32;
            check_accuracy(p, positive != 0);
        }
}

/* ---- chain ---- */

static void check_chain(bool trans_a, bool trans_b, int64_t k)
{
    problem p = { .batch = 1, .m = 31, .n = 70, .k = k, .trans_a = trans_a, .trans_b = trans_b };
    float *y;

    p.type = GR_BF16;
    p.type_y = GR_F32;
    open_problem(&p);
    settle(&p);
    y = run_kernel(&p, 2, 0xff);
    for (int64_t e = 0; e < COUNT_Y(&p); e++) {
        const int64_t i = e / p.n, j = e % p.n;
        float sum = 0;

        for (int64_t at = 0; at < k; at += 2)
            for (int64_t n = at + 1 < k ? at + 1 : at; n >= at; n--)
                sum = fmaf((float)p.a[at_a(&p, 0, i, n)], (float)p.b[at_b(&p, 0, j, n)], sum);
        GR_CHECK(y[e] == sum);
    }
    gr_free(y);
    close_problem(&p);
}

static void check_chains(void)
{
    for (int stored = 0; stored < 4; stored++) {
        check_chain((stored & 1) != 0, (stored & 2) != 0, 101);
        check_chain((stored & 1) != 0, (stored & 2) != 0, 2300);
    }
}

/* ---- values ---- */

/* Infinities and NaN where the truth has them, other elements near it. */
static void check_like_truth(const problem *p, const void *y, double limit)
{
    for (int64_t e = 0; e < COUNT_Y(p); e++) {
        double got = gr_element_f64(y, p->type_y, e), want = p->y[e];

        if (isnan(want))
            GR_CHECK(isnan(got));
        else if (fabs(want) > limit)
            GR_CHECK(got == copysign((double)INFINITY, want));
        else
            GR_CHECK_NEAR(got, want,
                          p->size[e] * 4 * 0x1p-24 * sqrt((double)p->k) + 0x1p-149 +
                              fabs(want) * (p->type_y == GR_BF16 ? 0x1p-8 : 0));
    }
}

static void check_special(gr_dtype t, double in_a, double in_b)
{
    problem p = { .batch = 1, .m = 20, .n = 40, .k = 50, .type = t, .type_y = t };
    double limit = t == GR_F32 ? (double)FLT_MAX : 0x1.ffp127;
    void *y;

    open_problem(&p);
    p.a[at_a(&p, 0, 3, 45)] = in_a;
    p.b[at_b(&p, 0, 36, 45)] = in_b;
    settle(&p);
    y = run_kernel(&p, 2, 0xff);
    check_like_truth(&p, y, limit);
    gr_free(y);
    close_problem(&p);
}

/* Whole operands at the ends of the range: exponents of a and of b around these. */
static void check_range(gr_dtype t, int exp_a, int exp_b)
{
    problem p = { .batch = 1, .m = 40, .n = 70, .k = 90, .type = t, .type_y = t };
    void *y;

    open_problem(&p);
    for (int64_t i = 0; i < COUNT_A(&p); i++)
        p.a[i] = ldexp(p.a[i], exp_a + (int)(noise() % 20));
    for (int64_t i = 0; i < COUNT_B(&p); i++)
        p.b[i] = ldexp(p.b[i], exp_b + (int)(noise() % 20));
    settle(&p);
    y = run_kernel(&p, 1, 0xff);
    check_like_truth(&p, y, t == GR_F32 ? (double)FLT_MAX : 0x1.ffp127);
    gr_free(y);
    close_problem(&p);
}

static void check_values(void)
{
    static const float specials[] = { 0,         -0.0F,   1,         INFINITY,    -INFINITY,
                                      NAN,       FLT_MAX, -FLT_MAX,  0x1p120F,    0x1p-149F,
                                      0x1p-130F, FLT_MIN, 0x1p-120F, 0x1.01p-110F };
    const int n = (int)(sizeof(specials) / sizeof(specials[0]));

    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            if (takes_f32)
                check_special(GR_F32, (double)specials[i], (double)specials[j]);
            check_special(GR_BF16, (double)specials[i], (double)specials[j]);
        }
    for (int i = takes_f32 ? 0 : 1; i < 2; i++) {
        const gr_dtype t = i ? GR_BF16 : GR_F32;

        check_range(t, -149, 0);
        check_range(t, -149, 100);
        check_range(t, 0, -140);
        if (t == GR_F32) { /* products of bf16 are 0 below 2^-126 */
            check_range(t, -80, -80);
            check_range(t, -70, -50);
        }
        check_range(t, 50, 20);
        check_range(t, 55, 25);
        check_range(t, 100, -120);
        check_range(t, 108, -140); /* bf16: subnormals, and too large to be scaled */
    }
}

static void choose(const char *name)
{
    for (kernel = gr_matmul_cpu; strcmp(kernel->name, name) != 0;)
        kernel++;
}

int main(void)
{
    if (!gr_cpu_has_amx() && !gr_cpu_has_avx512_bf16())
        return 77;
    if (gr_cpu_has_amx()) {
        choose("amx");
        takes_f32 = true;
        check_edges();
        check_accuracies();
        check_values();
    }
    if (gr_cpu_has_avx512_bf16()) {
        choose("avx512_bf16");
        takes_f32 = false;
        check_edges();
        check_chains();
        check_values();
    }
    return 0;
}
