/*
 * Convolutions at the sizes of real layers on the GPU: every kernel, and every engine that cuDNN
 * offers by name, against the plain kernel that is last in the list; equal bits from run to run.
 * The cases of tests/op are small, so that libraries choose other engines there. Prints what each
 * takes: "us" is the mean of several runs, kernels queued one behind the other.
 */
#include "base/alloc.h"
#include "gpu/gpu.h"
#include "gradus/ops.h"
#include "op/conv/conv.h"
#include "op/driver.h"
#include "tests/check.h"

#define N_RUNS 10

typedef struct layer {
    const char *name;
    int64_t n, c, size, k, taps;
    gr_conv opt;
} layer;

#define OPT(s, p, d, g)                                                          \
    {                                                                            \
        .stride = { s, s }, .pad = { p, p }, .dilation = { d, d }, .groups = (g) \
    }

static const layer layers[] = {
    { "stem 3>64 7x7/2", 8, 3, 224, 64, 7, OPT(2, 3, 1, 1) },
    { "64>64 3x3", 32, 64, 56, 64, 3, OPT(1, 1, 1, 1) },
    { "64>256 1x1", 32, 64, 56, 256, 1, OPT(1, 0, 1, 1) },
    { "128>128 3x3/2", 32, 128, 56, 128, 3, OPT(2, 1, 1, 1) },
    { "256>512 1x1/2", 32, 256, 56, 512, 1, OPT(2, 0, 1, 1) },
    { "512>512 3x3", 32, 512, 7, 512, 3, OPT(1, 1, 1, 1) },
    { "256>256 3x3 dilated 2", 4, 256, 59, 256, 3, OPT(1, 2, 2, 1) },
    { "128>128 3x3, 32 groups", 32, 128, 28, 128, 3, OPT(1, 1, 1, 32) },
    { "256 3x3/2 depthwise", 32, 256, 28, 256, 3, OPT(2, 1, 1, 256) },
};

/* A node with memory for what it reads and gives. */
typedef struct bench {
    gr_device *d;
    const gr_kernel_set *sets;
    const gr_node *node;
    void *src[2], *out[1], *work;
    size_t work_bytes, out_bytes;
    char *want, *got, *again; /* what the plain kernel gives, what another does, twice */
} bench;

static gr_value *build(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_conv2d(g, src[0], src[1], (const gr_conv *)c->arg);
}

/* ---- one kernel ---- */

static void launch(bench *b, const gr_ready *r, int n_runs)
{
    gr_launch l = { .node = b->node, .src = b->src, .out = b->out, .data = r->data };

    if (r->work_bytes > b->work_bytes) {
        b->d->ops->free(b->d, b->work);
        GR_CHECK_OK(b->d->ops->alloc(b->d, r->work_bytes, &b->work));
        b->work_bytes = r->work_bytes;
    }
    l.work = b->work;
    l.stream = b->d->ops->stream(b->d, GR_STREAM_COMPUTE);
    for (int i = 0; i < n_runs; i++)
        GR_CHECK_OK(r->kernel->run(&l));
}

static void fetch(bench *b, char *host)
{
    GR_CHECK_OK(b->d->ops->download(b->d, host, b->out[0], b->out_bytes));
    GR_CHECK_OK(b->d->ops->sync(b->d));
}

/* Root of the mean square of the difference, over that of the values. */
static double difference(const bench *b)
{
    const gr_value *v = &b->node->out[0];
    double diff = 0, size = 0;

    for (int64_t i = 0; i < gr_shape_count(&v->shape); i++) {
        double x = driver_get(v->dtype, b->got, i), y = driver_get(v->dtype, b->want, i);

        diff += (x - y) * (x - y);
        size += y * y;
    }
    return sqrt(diff / (size > 0 ? size : 1));
}

/* False: the kernel declined. */
static bool try(bench *b, const gr_kernel *k, const char *variant, char *host)
{
    gr_prepare p = { .node = b->node,
                     .n_threads = 1,
                     .device = b->d,
                     .stream = b->d->ops->stream(b->d, GR_STREAM_COMPUTE),
                     .sets = b->sets };
    const char *label = variant ? variant : k->name;
    gr_ready r;
    bool declined = false;
    double seconds;

    if (gr_kernel_ready_one(&r, &p, k, variant, &declined) != GR_OK) {
        printf("    %s: %s\n", label, gr_error_message());
        GR_CHECK(declined);
        return false;
    }
    GR_CHECK_OK(b->d->ops->zero(b->d, b->out[0], b->out_bytes));
    launch(b, &r, 1);
    fetch(b, host);
    GR_CHECK_OK(b->d->ops->timer_begin(b->d));
    launch(b, &r, N_RUNS);
    GR_CHECK_OK(b->d->ops->timer_end(b->d, &seconds));
    printf("    %-44s %9.1f us, %zu bytes", label, seconds / N_RUNS * 1e6, r.work_bytes);
    if (host == b->got) {
        printf(", differs by %.1e", difference(b));
        GR_CHECK(difference(b) < (b->node->src[0]->dtype == GR_F32 ? 1e-5 : 4e-3));
    }
    printf("\n");
    fetch(b, b->again);
    GR_CHECK(memcmp(host, b->again, b->out_bytes) == 0);
    gr_kernel_end(&r);
    return true;
}

static void try_variants(bench *b, const gr_kernel *k)
{
    gr_prepare p = { .node = b->node,
                     .n_threads = 1,
                     .device = b->d,
                     .stream = b->d->ops->stream(b->d, GR_STREAM_COMPUTE),
                     .sets = b->sets,
                     .work_limit = GR_WORK_LIMIT };
    gr_text all = GR_TEXT_INIT;

    if (!k->variants)
        return;
    GR_CHECK_OK(k->variants(&p, &all));
    for (const char *at = gr_text_str(&all); *at;) {
        size_t n = strcspn(at, "\n");
        char name[512];

        snprintf(name, sizeof(name), "%.*s", (int)n, at);
        try(b, k, name, b->got);
        at += n + (at[n] == '\n');
    }
    gr_text_fini(&all);
}

/* ---- one node ---- */

static void *upload(const driver_world *w, gr_device *d, const gr_value *v)
{
    void *mem = NULL;

    for (int i = 0; i < w->n_feeds; i++)
        if (v->name && strcmp(v->name, w->feed[i].name) == 0) {
            GR_CHECK_OK(d->ops->alloc(d, gr_value_bytes(v), &mem));
            GR_CHECK_OK(d->ops->upload(d, mem, w->feed[i].mem, gr_value_bytes(v)));
            GR_CHECK_OK(d->ops->sync(d));
        }
    GR_CHECK(mem);
    return mem;
}

/* 16-bit products run on cuDNN wherever it is installed; f32 and the stem where it likes. */
static bool must_have_cudnn(const bench *b)
{
    return b->node->src[0]->dtype != GR_F32 && b->node->src[0]->shape.dim[3] > 3 &&
           b->node->out[0].shape.dim[3] > 3;
}

static void bench_node(gr_device *d, const driver_world *w, const gr_node *n)
{
    bench b = { .d = d, .sets = gpu_loaded()->kernels, .node = n };
    const gr_kernel *list = gr_kernel_list(b.sets, n->op), *last = list;

    b.out_bytes = gr_value_bytes(&n->out[0]);
    b.want = (char *)gr_malloc(b.out_bytes);
    b.got = (char *)gr_malloc(b.out_bytes);
    b.again = (char *)gr_malloc(b.out_bytes);
    GR_CHECK(b.want && b.got && b.again);
    for (int i = 0; i < 2; i++)
        b.src[i] = upload(w, d, n->src[i]);
    GR_CHECK_OK(d->ops->alloc(d, b.out_bytes, &b.out[0]));
    printf("  %s, %s\n", n->op->name, gr_dtype_name(n->src[0]->dtype));
    while (last[1].name)
        last++;
    GR_CHECK(try(&b, last, NULL, b.want));
    for (const gr_kernel *k = list; k != last; k++) {
        if (gr_kernel_refusal(k, n))
            continue;
        if (!try(&b, k, NULL, b.got) && strcmp(k->name, "cudnn") == 0 && must_have_cudnn(&b))
            GR_CHECK(strstr(gr_error_message(), "not installed"));
        try_variants(&b, k);
    }
    fflush(stdout);
    for (int i = 0; i < 2; i++)
        d->ops->free(d, b.src[i]);
    d->ops->free(d, b.out[0]);
    d->ops->free(d, b.work);
    gr_free(b.want);
    gr_free(b.got);
    gr_free(b.again);
}

static void bench_layer(gr_device *d, const layer *l, gr_dtype t)
{
    const driver_case c = {
        .name = l->name,
        .op = "conv",
        .build = build,
        .arg = &l->opt,
        .n_src = 2,
        .grad = 3,
        .src = { DRIVER_F32(l->n, l->size, l->size, l->c),
                 DRIVER_F32(l->k, l->c / l->opt.groups, l->taps, l->taps) },
    };
    driver_world w;

    printf("%s, batch %d\n", l->name, (int)l->n);
    driver_world_init(&w, &c, t);
    GR_CHECK(w.node);
    driver_world_grad(&w);
    bench_node(d, &w, w.node);
    bench_node(d, &w, w.d_src[0]->node);
    bench_node(d, &w, w.d_src[1]->node);
    driver_world_fini(&w);
}

int main(void)
{
    gr_device *d = gpu_open();

    for (size_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++) {
        bench_layer(d, &layers[i], GR_BF16);
        bench_layer(d, &layers[i], GR_F32);
    }
    d->ops->close(d);
    return 0;
}
