/*
 * Convolution beyond the driver's cases.
 *
 *   shapes    random small geometry through every kernel of the three operators, f32, bf16
 *             and f16 (and gradients of weights in f32): against the reference, and the same
 *             bits on one, two and three threads
 *   chunks    gradients of weights over many lines, likewise
 *   values    infinities, NaN, huge and tiny numbers come out of the kernels as out of f32
 *             arithmetic; subnormal bf16, too
 *   accuracy  error of three bf16 parts beside that of f32 multiply-adds; and long sums in f32
 *             have the error of chains of 256, as PyTorch's (matmul_chain_body.h)
 */
#include "base/alloc.h"
#include "check.h"
#include "op/conv/conv.h"
#include "op/element.h"

#include <float.h>

#define N_SHAPES 150
#define N_OPS    3
#ifdef __SANITIZE_ADDRESS__ /* slow, and looks at memory, not at numbers */
#define EVERY_TYPE false
#else
#define EVERY_TYPE true
#endif

typedef struct problem {
    gr_conv opt;
    gr_shape x, w;
    gr_dtype type;
    gr_vars *vars;
    gr_graph *graph;
    gr_node *node[N_OPS]; /* conv, conv_data, conv_weight */
    void *mem[N_OPS];     /* x, w, y: y is a gradient for the other two */
    bool wide;            /* the weight's gradient is f32, as mixed precision wants it */
    gr_conv_attr attr;    /* of conv_weight then */
} problem;

static uint64_t state = 88172645463325252u;

static uint32_t noise(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32);
}

static int64_t pick(int64_t lo, int64_t hi)
{
    return lo + (int64_t)(noise() % (uint32_t)(hi - lo + 1));
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

static void fill(const gr_value *v, void *mem)
{
    for (int64_t i = 0; i < gr_shape_count(&v->shape); i++)
        gr_element_put_f64(mem, v->dtype, i, uniform());
}

static void open_problem(problem *p)
{
    const gr_named feeds[] = { { "x", p->type, p->x, NULL }, { "w", p->type, p->w, NULL } };
    gr_value *v[3], *d[2] = { NULL, NULL };

    GR_CHECK_OK(gr_vars_create(&p->vars));
    GR_CHECK_OK(gr_graph_create(&p->graph, p->vars, true, feeds, 2));
    v[0] = gr_input(p->graph, "x");
    v[1] = gr_input(p->graph, "w");
    v[2] = gr_conv2d(p->graph, v[0], v[1], &p->opt);
    GR_CHECK_OK(gr_graph_status(p->graph));
    GR_CHECK_OK(gr_op_conv.grad(p->graph, v[2]->node, &v[2], d));
    p->node[0] = v[2]->node;
    p->node[1] = d[0]->node;
    p->node[2] = d[1]->node;
    if (p->wide) {
        p->attr = *(const gr_conv_attr *)d[1]->node->attr;
        p->attr.dtype = GR_F32;
        p->node[2]->attr = &p->attr;
        GR_CHECK_OK(gr_op_conv_weight.infer(p->node[2]));
    }
    for (int i = 0; i < 3; i++) {
        p->mem[i] = must_alloc(gr_value_bytes(v[i]));
        fill(v[i], p->mem[i]);
    }
}

static void close_problem(problem *p)
{
    for (int i = 0; i < 3; i++)
        gr_free(p->mem[i]);
    gr_graph_destroy(p->graph);
    gr_vars_destroy(p->vars);
}

static const char *const ops[N_OPS] = { "conv", "conv_data", "conv_weight" };

static void describe(const problem *p, int op, const char *kernel)
{
    char x[GR_SHAPE_TEXT], w[GR_SHAPE_TEXT];

    fprintf(stderr,
            "%s by '%s', %s x %s w %s stride %d %d pad %d %d dilation %d %d groups %d: ", ops[op],
            kernel, gr_dtype_name(p->type), gr_shape_text(&p->x, x, sizeof(x)),
            gr_shape_text(&p->w, w, sizeof(w)), (int)p->opt.stride[0], (int)p->opt.stride[1],
            (int)p->opt.pad[0], (int)p->opt.pad[1], (int)p->opt.dilation[0],
            (int)p->opt.dilation[1], (int)p->opt.groups);
}

/* The operator's result by a kernel; NULL when it declines. The caller frees it. */
static void *run(const problem *p, int op, const gr_kernel *k, int n_threads)
{
    static const int src[N_OPS][2] = { { 0, 1 }, { 2, 1 }, { 0, 2 } };
    const gr_node *n = p->node[op];
    gr_prepare prep = { .node = n, .n_threads = n_threads };
    void *from[2] = { p->mem[src[op][0]], p->mem[src[op][1]] }, *out;
    gr_launch l = { .node = n, .src = from, .out = &out };
    size_t n_work;

    if (k->reject && k->reject(n))
        return NULL;
    if (k->prepare)
        GR_CHECK_OK(k->prepare(&prep));
    l.data = prep.data;
    n_work = k->workspace ? k->workspace(n, prep.data) : 0;
    l.work = must_alloc(n_work);
    memset(l.work, 0xff, n_work);
    out = must_alloc(gr_value_bytes(&n->out[0]));
    memset(out, 0xab, gr_value_bytes(&n->out[0]));
    GR_CHECK_OK(gr_pool_create(&l.pool, n_threads));
    GR_CHECK_OK(k->run(&l));
    gr_pool_destroy(l.pool);
    gr_free(l.work);
    if (k->release)
        k->release(prep.data);
    return out;
}

static const gr_kernel *reference_of(const gr_op *op)
{
    const gr_kernel *k = op->kernels;

    while ((k + 1)->name)
        k++;
    return k;
}

/* Terms of the operator's sums. */
static int64_t n_terms(const problem *p, int op)
{
    gr_conv_dims d;

    gr_conv_get_dims(p->node[op], &d);
    if (op == 2)
        return d.n * d.out[0] * d.out[1];
    return (op == 0 ? d.ci : d.co) / d.groups * d.k[0] * d.k[1];
}

/* Terms are below 1; so are rounding errors of n of them below n eps of the largest sum. */
static void compare(const problem *p, int op, const gr_kernel *k, const void *got, const void *want)
{
    const gr_value *v = &p->node[op]->out[0];
    const double n = (double)n_terms(p, op);
    const double eps = v->dtype == GR_F32 ? 0 : v->dtype == GR_BF16 ? 0x1p-8 : 0x1p-11;

    for (int64_t i = 0; i < gr_shape_count(&v->shape); i++) {
        double a = gr_element_f64(got, v->dtype, i), b = gr_element_f64(want, v->dtype, i);

        if (fabs(a - b) <= 2 * eps * fabs(b) + n * (double)FLT_EPSILON + 1e-7)
            continue;
        describe(p, op, k->name);
        fprintf(stderr, "element %lld is %g, not %g\n", (long long)i, a, b);
        exit(1);
    }
}

static void check_kernels(const problem *p, int op)
{
    const gr_kernel *ref = reference_of(p->node[op]->op);
    const size_t n_bytes = gr_value_bytes(&p->node[op]->out[0]);
    void *want = run(p, op, ref, 1);

    for (const gr_kernel *k = p->node[op]->op->kernels; k != ref; k++) {
        void *one = run(p, op, k, 1);

        if (!one)
            continue;
        compare(p, op, k, one, want);
        for (int n_threads = 2; n_threads <= 3; n_threads++) {
            void *other = run(p, op, k, n_threads);

            if (memcmp(one, other, n_bytes) != 0) {
                describe(p, op, k->name);
                fprintf(stderr, "other bits on %d threads\n", n_threads);
                exit(1);
            }
            gr_free(other);
        }
        gr_free(one);
    }
    gr_free(want);
}

/* ---- shapes ---- */

static problem random_problem(void)
{
    static const gr_dtype types[] = { GR_F32, GR_F32, GR_BF16, GR_F16 };
    static const int64_t batches[] = { 1, 2, 3, 4, 8, 16 };
    const int64_t groups = noise() % 4 ? 1 : pick(1, 3);
    const bool depthwise = noise() % 8 == 0;
    int64_t size[2], k[2], ci = pick(1, 40), co = pick(1, 40);
    problem p = { .opt = GR_CONV_INIT, .type = types[noise() % 4] };

    p.opt.groups = groups;
    p.wide = noise() % 2;
    for (int i = 0; i < 2; i++) {
        k[i] = pick(1, 4);
        p.opt.stride[i] = pick(1, 3);
        p.opt.dilation[i] = pick(1, 3);
        p.opt.pad[i] = pick(0, 4);
        size[i] = pick(1, 9);
        if (size[i] + 2 * p.opt.pad[i] <= p.opt.dilation[i] * (k[i] - 1))
            size[i] = p.opt.dilation[i] * (k[i] - 1) + 1;
    }
    if (depthwise)
        p.opt.groups = ci;
    p.x = GR_SHAPE(batches[noise() % 6], size[0], size[1], depthwise ? ci : ci * groups);
    p.w = GR_SHAPE(depthwise ? ci : co * groups, depthwise ? 1 : ci, k[0], k[1]);
    return p;
}

static void check_shapes(void)
{
    for (int i = 0; i < N_SHAPES; i++) {
        problem p = random_problem();

        open_problem(&p);
        for (int op = 0; op < N_OPS; op++)
            check_kernels(&p, op);
        close_problem(&p);
    }
}

/* Weights' gradients of many lines: several chunks, in parts that a thread does alone (two threads)
 * or that all share (three): dense, in groups, and with taps that are merged into one line; then
 * with sums so many that there is one part, whose last chunk goes straight into the weight. */
static void check_chunks(void)
{
    static const struct {
        gr_shape x, w;
        int stride, groups;
    } of[] = {
        { { 4, { 2, 40, 40, 64 } }, { 4, { 48, 64, 3, 3 } }, 1, 1 },
        { { 4, { 2, 40, 40, 80 } }, { 4, { 48, 40, 3, 3 } }, 1, 2 },
        { { 4, { 2, 90, 90, 3 } }, { 4, { 40, 3, 7, 7 } }, 2, 1 },
        { { 4, { 1, 33, 33, 160 } }, { 4, { 160, 160, 3, 3 } }, 1, 1 },
    };

    for (int i = 0; i < 12; i++) {
        problem p = { .opt = GR_CONV_INIT, .type = i % 3 ? GR_BF16 : GR_F32, .wide = i % 3 == 2 };

        if (!EVERY_TYPE && i % 3 != i / 3 % 3) /* each shape, and each type, once at least */
            continue;
        p.opt.pad[0] = p.opt.pad[1] = 1;
        p.opt.stride[0] = p.opt.stride[1] = of[i / 3].stride;
        p.opt.groups = of[i / 3].groups;
        p.x = of[i / 3].x;
        p.w = of[i / 3].w;
        open_problem(&p);
        check_kernels(&p, 2);
        close_problem(&p);
    }
}

/* No channels on one side, on the other, on both: nothing to sum, or nowhere to put it. */
static void check_empty(void)
{
    static const int64_t channels[3][2] = { { 0, 3 }, { 3, 0 }, { 0, 0 } };

    for (int i = 0; i < 6; i++) {
        const int64_t *c = channels[i / 2];
        problem p = { .opt = GR_CONV_INIT, .type = i % 2 ? GR_BF16 : GR_F32 };

        p.x = GR_SHAPE(2, 5, 6, c[0]);
        p.w = GR_SHAPE(c[1], c[0], 3, 3);
        open_problem(&p);
        for (int op = 0; op < N_OPS; op++)
            check_kernels(&p, op);
        close_problem(&p);
    }
}

/* ---- values ---- */

/* Every kernel must give the class of number that the reference gives, and tiny results
 * to f32's precision. */
static void check_values(gr_dtype type, double special)
{
    problem p = { .opt = GR_CONV_INIT, .type = type };

    p.x = GR_SHAPE(1, 5, 6, 40);
    p.w = GR_SHAPE(33, 40, 2, 2);
    open_problem(&p);
    gr_element_put_f64(p.mem[0], type, 77, special);
    for (int op = 0; op < 2; op++) { /* conv_weight: see conv_fold.h */
        const gr_value *v = &p.node[op]->out[0];
        const gr_kernel *ref = reference_of(p.node[op]->op);
        void *want = run(&p, op, ref, 1);

        for (const gr_kernel *k = p.node[op]->op->kernels; k != ref; k++) {
            void *got = run(&p, op, k, 1);

            for (int64_t i = 0; got && i < gr_shape_count(&v->shape); i++) {
                double a = gr_element_f64(got, v->dtype, i), b = gr_element_f64(want, v->dtype, i);

                if ((isnan(a) && isnan(b)) || a == b || fabs(a - b) <= 0x1p-7 * fabs(b) + 1e-4)
                    continue;
                describe(&p, op, k->name);
                fprintf(stderr, "with %g: element %lld is %g, not %g\n", special, (long long)i, a,
                        b);
                exit(1);
            }
            gr_free(got);
        }
        gr_free(want);
    }
    close_problem(&p);
}

/* All numbers scaled so that their products are near the smallest ones. */
static void check_tiny(gr_dtype type, double scale)
{
    problem p = { .opt = GR_CONV_INIT, .type = type };
    const gr_kernel *ref = reference_of(&gr_op_conv);
    double most = 0;
    void *want;

    p.x = GR_SHAPE(1, 5, 6, 40);
    p.w = GR_SHAPE(33, 40, 2, 2);
    open_problem(&p);
    for (int64_t i = 0; i < gr_shape_count(&p.x); i++)
        gr_element_put_f64(p.mem[0], type, i, uniform() * scale);
    want = run(&p, 0, ref, 1);
    for (int64_t i = 0; i < gr_shape_count(&p.node[0]->out[0].shape); i++)
        most = fmax(most, fabs(gr_element_f64(want, type, i)));
    for (const gr_kernel *k = gr_op_conv.kernels; k != ref; k++) {
        void *got = run(&p, 0, k, 1);

        for (int64_t i = 0; got && i < gr_shape_count(&p.node[0]->out[0].shape); i++)
            GR_CHECK(fabs(gr_element_f64(got, type, i) - gr_element_f64(want, type, i)) <=
                     0.01 * most);
        gr_free(got);
    }
    gr_free(want);
    close_problem(&p);
}

/* ---- accuracy ---- */

static double rms_error(const problem *p, int op, const char *kernel)
{
    const gr_kernel *k = p->node[op]->op->kernels;
    const int64_t n = gr_shape_count(&p->node[op]->out[0].shape);
    double sum = 0;
    float *got, *want;

    while (k->name && strcmp(k->name, kernel) != 0)
        k++;
    got = k->name ? run(p, op, k, 1) : NULL;
    if (!got)
        return -1;
    want = run(p, op, reference_of(p->node[op]->op), 1); /* sums in double, rounded once */
    for (int64_t i = 0; i < n; i++)
        sum += pow((double)got[i] - (double)want[i], 2);
    gr_free(got);
    gr_free(want);
    return sqrt(sum / (double)n);
}

static void check_accuracy(void)
{
    problem p = { .opt = GR_CONV_INIT, .type = GR_F32 };

    p.opt.pad[0] = p.opt.pad[1] = 1;
    p.x = GR_SHAPE(1, 8, 9, 64);
    p.w = GR_SHAPE(32, 64, 3, 3);
    open_problem(&p);
    for (int op = 0; op < N_OPS; op++) {
        double amx = rms_error(&p, op, "amx"), plain = rms_error(&p, op, "avx512");

        printf("%s: rms error of amx %.2g, of avx512 %.2g\n", ops[op], amx, plain);
        /* No more than one chain of all terms has, which is 1.5 times what chains of 256 have. */
        if (amx >= 0 && plain >= 0)
            GR_CHECK(amx <= 1.5 * plain);
    }
    close_problem(&p);
}

static double rms(const float *x, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sqrt(sum / (double)n);
}

/* Sums of n random terms one by one are off by some 2.5e-8 sqrt(n / 2), relative to the sums:
 * 2.8e-7 for 256, 8.5e-7 for 2304. */
static void check_long_sums(void)
{
    static const char *const kernels[] = { "avx512", "avx2" };
    problem p = { .opt = GR_CONV_INIT, .type = GR_F32 };

    p.opt.pad[0] = p.opt.pad[1] = 1;
    for (int op = 0; op < N_OPS; op++) { /* 2304 terms, 4096 in a weight's gradient */
        float *truth;
        double size;

        p.x = op == 2 ? GR_SHAPE(4, 32, 32, 16) : GR_SHAPE(1, 4, 4, 256);
        p.w = op == 2 ? GR_SHAPE(16, 16, 3, 3) : GR_SHAPE(256, 256, 3, 3);
        open_problem(&p);
        truth = run(&p, op, reference_of(p.node[op]->op), 1);
        size = rms(truth, gr_shape_count(&p.node[op]->out[0].shape));
        for (int k = 0; k < 2; k++) {
            double off = rms_error(&p, op, kernels[k]);

            if (off < 0)
                continue;
            printf("%s by '%s': long sums are %.2g off\n", ops[op], kernels[k], off / size);
            GR_CHECK(off / size < 4e-7);
        }
        gr_free(truth);
        close_problem(&p);
    }
}

int main(void)
{
    check_shapes();
    check_chunks();
    check_empty();
    for (int i = 0; i < 2; i++) {
        const gr_dtype type = i ? GR_BF16 : GR_F32;

        check_values(type, (double)INFINITY);
        check_values(type, (double)-INFINITY);
        check_values(type, (double)NAN);
        check_values(type, 0x1p100);
        check_values(type, 0x1p-140);
        check_tiny(type, 0x1p-110);
    }
    check_tiny(GR_F32, 0x1p-130);
    check_tiny(GR_BF16, 0x1p-127);
    check_accuracy();
    check_long_sums();
    return 0;
}
