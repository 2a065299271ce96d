/*
 * Operators that move elements rather than compute: time of each on a shape of the models
 * that they serve. One line per case:
 *
 *     CASE KERNEL MICROSECONDS GB/s
 *
 * GB/s counts every source and result once. The best of many rounds counts, with 8 MiB of
 * other memory read before each: as in a step, operands come from L3 or beyond.
 * bench/layout_torch.py runs this beside PyTorch, case by case.
 * Usage: layout [--threads N] [--rounds N] [--kernel NAME] [--case NAME] [--list]
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/option.h"
#include "gradus/image.h"
#include "gradus/index.h"
#include "gradus/ops.h"
#include "graph/op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SWEEP_BYTES ((size_t)8 << 20)
#define MAX_SRC     3
#define MAX_NODES   16

typedef gr_value *build_fn(gr_graph *g, gr_value **src);

typedef struct subject {
    const char *name;
    gr_dtype dtype;
    int64_t src[MAX_SRC][4]; /* shapes, up to the first 0 */
    build_fn *build;
    int64_t n_index; /* the second source is indices below this */
    bool is_grad;    /* the gradient for source 0 is measured instead */
} subject;

/* ---- cases ---- */

static gr_value *turn(gr_graph *g, gr_value **s)
{
    return gr_transpose(g, s[0], ((const int[]){ 1, 0 }));
}

static gr_value *heads(gr_graph *g, gr_value **s)
{
    return gr_transpose(g, s[0], ((const int[]){ 0, 2, 1, 3 }));
}

static gr_value *to_nhwc(gr_graph *g, gr_value **s)
{
    return gr_transpose(g, s[0], ((const int[]){ 0, 2, 3, 1 }));
}

static gr_value *to_nchw(gr_graph *g, gr_value **s)
{
    return gr_transpose(g, s[0], ((const int[]){ 0, 3, 1, 2 }));
}

static gr_value *concat_last(gr_graph *g, gr_value **s)
{
    return gr_concat(g, s, 2, -1);
}

static gr_value *concat_tokens(gr_graph *g, gr_value **s)
{
    return gr_concat(g, s, 2, 1);
}

static gr_value *split3(gr_graph *g, gr_value **s)
{
    gr_value *out[3];

    gr_split(g, s[0], -1, 3, NULL, out);
    return out[0];
}

static gr_value *slice(gr_graph *g, gr_value **s)
{
    return gr_slice_axis(g, s[0], 1, 256, 512);
}

static gr_value *pad(gr_graph *g, gr_value **s)
{
    static const int64_t one[] = { 0, 1, 1, 0 };

    return gr_pad(g, s[0], one, one, 0);
}

static gr_value *patchify(gr_graph *g, gr_value **s)
{
    return gr_patchify(g, s[0], 4, GR_PATCH_CHW);
}

static gr_value *max_pool(gr_graph *g, gr_value **s)
{
    gr_window w = GR_WINDOW_INIT;

    w.kernel[0] = w.kernel[1] = 3;
    w.stride[0] = w.stride[1] = 2;
    w.padding[0] = w.padding[1] = 1;
    return gr_max_pool2d(g, s[0], &w);
}

static gr_value *avg_pool(gr_graph *g, gr_value **s)
{
    gr_window w = GR_WINDOW_INIT;

    return gr_avg_pool2d(g, s[0], &w);
}

static gr_value *bilinear(gr_graph *g, gr_value **s)
{
    return gr_resize(g, s[0], 129, 129, GR_BILINEAR_CORNERS);
}

static gr_value *nearest(gr_graph *g, gr_value **s)
{
    return gr_resize(g, s[0], 64, 64, GR_NEAREST);
}

static gr_value *gather(gr_graph *g, gr_value **s)
{
    return gr_gather(g, s[0], s[1]);
}

static gr_value *scatter(gr_graph *g, gr_value **s)
{
    return gr_scatter_add(g, s[0], s[1], 640);
}

static gr_value *top(gr_graph *g, gr_value **s)
{
    return gr_top_k(g, s[0], 30, true, NULL);
}

static gr_value *knn(gr_graph *g, gr_value **s)
{
    return gr_knn(g, s[0], NULL, ((gr_knn_config){ 30, false }), NULL);
}

static const subject subjects[] = {
    { "transpose", GR_F32, { { 1024, 1024 } }, turn, 0, false },
    { "transpose_bf16", GR_BF16, { { 1024, 1024 } }, turn, 0, false },
    { "heads", GR_F32, { { 8, 512, 12, 64 } }, heads, 0, false },
    { "heads_bf16", GR_BF16, { { 8, 512, 12, 64 } }, heads, 0, false },
    { "to_nhwc", GR_F32, { { 16, 64, 32, 32 } }, to_nhwc, 0, false },
    { "to_nchw", GR_F32, { { 16, 32, 32, 64 } }, to_nchw, 0, false },
    { "to_nchw_bf16", GR_BF16, { { 16, 32, 32, 64 } }, to_nchw, 0, false },
    { "image_to_nhwc", GR_F32, { { 16, 3, 128, 128 } }, to_nhwc, 0, false },
    { "image_to_nchw", GR_F32, { { 16, 128, 128, 3 } }, to_nchw, 0, false },
    { "concat_channels",
      GR_F32,
      { { 16, 32, 32, 64 }, { 16, 32, 32, 48 } },
      concat_last,
      0,
      false },
    { "concat_tokens", GR_F32, { { 8, 256, 768 }, { 8, 256, 768 } }, concat_tokens, 0, false },
    { "split_qkv", GR_F32, { { 1024, 2304 } }, split3, 0, false },
    { "slice_tokens", GR_F32, { { 8, 512, 768 } }, slice, 0, false },
    { "pad_image", GR_F32, { { 16, 32, 32, 64 } }, pad, 0, false },
    { "patchify", GR_F32, { { 64, 64, 64, 3 } }, patchify, 0, false },
    { "max_pool", GR_F32, { { 16, 32, 32, 64 } }, max_pool, 0, false },
    { "max_pool_bf16", GR_BF16, { { 16, 32, 32, 64 } }, max_pool, 0, false },
    { "max_pool_grad", GR_F32, { { 16, 32, 32, 64 } }, max_pool, 0, true },
    { "avg_pool", GR_F32, { { 16, 32, 32, 64 } }, avg_pool, 0, false },
    { "avg_pool_grad", GR_F32, { { 16, 32, 32, 64 } }, avg_pool, 0, true },
    { "bilinear", GR_F32, { { 4, 17, 17, 21 } }, bilinear, 0, false },
    { "bilinear_grad", GR_F32, { { 4, 17, 17, 21 } }, bilinear, 0, true },
    { "nearest", GR_F32, { { 8, 32, 32, 64 } }, nearest, 0, false },
    { "nearest_grad", GR_F32, { { 8, 32, 32, 64 } }, nearest, 0, true },
    { "gather", GR_F32, { { 640, 256 }, { 19200 } }, gather, 640, false },
    { "scatter_add", GR_F32, { { 19200, 256 }, { 19200 } }, scatter, 640, false },
    { "scatter_add_bf16", GR_BF16, { { 19200, 256 }, { 19200 } }, scatter, 640, false },
    { "embedding_grad", GR_F32, { { 2048, 256 }, { 1024 } }, gather, 2048, true },
    { "top_k", GR_F32, { { 2400, 300 } }, top, 0, false },
    { "knn", GR_F32, { { 8, 300, 3 } }, knn, 0, false },
};
#define N_SUBJECTS ((int)(sizeof(subjects) / sizeof(subjects[0])))

/* ---- measuring ---- */

typedef struct options {
    int64_t n_threads, n_rounds;
    const char *kernel, *only;
    bool list;
} options;

/* A node that is measured, ready to run. */
typedef struct ready {
    const gr_kernel *kernel;
    gr_launch launch;
    void *src[MAX_SRC], *out[4];
} ready;

typedef struct bench {
    const options *o;
    gr_pool *pool;
    volatile float *sweep;
    gr_graph *g;
    void **mem; /* by value id */
    ready list[MAX_NODES];
    int n;
} bench;

static gr_shape shape_of(const int64_t dims[4])
{
    gr_shape s = { 0 };

    while (s.n_dims < 4 && dims[s.n_dims] > 0) {
        s.dim[s.n_dims] = dims[s.n_dims];
        s.n_dims++;
    }
    return s;
}

/* Small numbers without a pattern that a cache or a branch could learn. */
static void fill(const gr_value *v, void *mem, int64_t n_index)
{
    uint64_t state = 0x9e3779b97f4a7c15u;

    for (int64_t i = 0; i < gr_shape_count(&v->shape); i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        if (v->dtype == GR_F32)
            ((float *)mem)[i] = (float)(int32_t)(state >> 40) * 0x1p-24f;
        else if (v->dtype == GR_BF16)
            ((uint16_t *)mem)[i] = (uint16_t)(0x3f00 | (state >> 57));
        else
            ((int64_t *)mem)[i] = (int64_t)((state >> 33) % (uint64_t)n_index);
    }
}

static void *memory_of(bench *b, const gr_value *v, int64_t n_index)
{
    const gr_value *root = gr_value_root(v);

    if (!b->mem[root->id]) {
        b->mem[root->id] = gr_malloc_aligned(gr_value_bytes(root) + 64);
        if (b->mem[root->id] && n_index >= 0)
            fill(root, b->mem[root->id], n_index);
    }
    return b->mem[root->id];
}

static gr_status make_ready(bench *b, const gr_node *n)
{
    ready *r = &b->list[b->n++];
    gr_prepare p = { .node = n, .n_threads = (int)b->o->n_threads };

    r->kernel = gr_kernel_pick(NULL, n, b->o->kernel);
    if (!r->kernel)
        return GR_ERR_ARG;
    for (int i = 0; i < n->n_src; i++)
        r->src[i] = memory_of(b, n->src[i], -1);
    for (int i = 0; i < n->n_out; i++)
        r->out[i] = memory_of(b, &n->out[i], -1);
    if (r->kernel->prepare)
        GR_TRY(r->kernel->prepare(&p));
    r->launch = (gr_launch){ .node = n, .src = r->src, .out = r->out, .data = p.data };
    r->launch.pool = b->pool;
    if (r->kernel->workspace)
        r->launch.work = gr_malloc_aligned(r->kernel->workspace(n, p.data) + 64);
    return GR_OK;
}

static gr_status run_nodes(const bench *b, int from, int to)
{
    for (int i = from; i < to; i++)
        GR_TRY(b->list[i].kernel->run(&b->list[i].launch));
    return GR_OK;
}

static gr_status measure(bench *b, const subject *s, int from)
{
    double best = 1e9, n_bytes = 0;

    GR_TRY(run_nodes(b, 0, b->n));
    for (int64_t r = 0; r < b->o->n_rounds; r++) {
        int64_t start;
        double t;

        for (size_t i = 0; i < SWEEP_BYTES / sizeof(float); i += 16)
            (void)b->sweep[i];
        start = gr_now_ns();
        GR_TRY(run_nodes(b, from, b->n));
        t = (double)(gr_now_ns() - start) * 1e-3;
        best = t < best ? t : best;
    }
    for (int i = from; i < b->n; i++) {
        const gr_node *n = b->list[i].launch.node;

        for (int k = 0; k < n->n_src; k++)
            n_bytes += (double)gr_value_bytes(n->src[k]);
        for (int k = 0; k < n->n_out; k++)
            n_bytes += (double)gr_value_bytes(&n->out[k]);
    }
    printf("%s %s %.1f %.1f\n", s->name, b->list[b->n - 1].kernel->name, best,
           n_bytes / best * 1e-3);
    return GR_OK;
}

/* Builds the case; *from: the first of the ready nodes that is measured. */
static gr_status build(bench *b, const subject *s, int *from)
{
    static const char *const names[] = { "a", "b", "c" };
    gr_value *src[MAX_SRC] = { NULL }, *y, *d_src[MAX_SRC] = { NULL };
    int n_forward;

    for (int i = 0; i < b->g->n_feeds && i < MAX_SRC; i++)
        if (i == 0 || s->src[i][0] > 0)
            src[i] = gr_input(b->g, names[i]);
    y = s->build(b->g, src);
    n_forward = b->g->n_nodes;
    if (s->is_grad && y) {
        gr_value *d_out[2] = { gr_input(b->g, "d"), NULL };

        GR_TRY(y->node->op->grad(b->g, y->node, d_out, d_src));
    }
    GR_TRY(gr_graph_status(b->g));
    b->mem = gr_calloc((size_t)b->g->n_values, sizeof(*b->mem));
    if (!b->mem)
        return GR_ERR_NOMEM;
    for (int i = 0; i < b->g->n_nodes; i++) {
        gr_node *n = b->g->nodes[i];

        if (n->op == &gr_op_input)
            memory_of(b, &n->out[0], s->n_index > 0 ? s->n_index : 1);
        if (i == n_forward)
            *from = b->n;
        if (n->op->kernels)
            GR_TRY(make_ready(b, n));
    }
    return GR_OK;
}

static void tidy(bench *b)
{
    for (int i = 0; i < b->n; i++) {
        if (b->list[i].kernel && b->list[i].kernel->release)
            b->list[i].kernel->release(b->list[i].launch.data);
        gr_free(b->list[i].launch.work);
    }
    for (int i = 0; b->mem && i < b->g->n_values; i++)
        gr_free(b->mem[i]);
    gr_free(b->mem);
    b->mem = NULL;
    b->n = 0;
}

/* The shape of the result is that of a trace of its own. */
static gr_status result_shape(const subject *s, const gr_named *feeds, gr_shape *out)
{
    gr_value *src[MAX_SRC] = { NULL };
    gr_vars *vars;
    gr_graph *g;
    gr_status st;

    GR_TRY(gr_vars_create(&vars));
    GR_TRY(gr_graph_create(&g, vars, true, feeds, MAX_SRC));
    src[0] = gr_input(g, "a");
    src[1] = s->src[1][0] > 0 ? gr_input(g, "b") : NULL;
    *out = gr_value_shape(s->build(g, src));
    st = gr_graph_status(g);
    gr_graph_destroy(g);
    gr_vars_destroy(vars);
    return st;
}

static gr_status run_subject(bench *b, const subject *s)
{
    gr_named feeds[MAX_SRC] = { { "a", s->dtype, shape_of(s->src[0]), NULL },
                                { "b", s->n_index > 0 ? GR_I64 : s->dtype, shape_of(s->src[1]),
                                  NULL },
                                { "d", s->dtype, GR_SCALAR, NULL } };
    gr_vars *vars;
    gr_status st;
    int from = 0;

    GR_TRY(result_shape(s, feeds, &feeds[2].shape));
    GR_TRY(gr_vars_create(&vars));
    GR_TRY(gr_graph_create(&b->g, vars, true, feeds, MAX_SRC));
    st = build(b, s, &from);
    if (st == GR_OK)
        st = measure(b, s, from);
    tidy(b);
    gr_graph_destroy(b->g);
    gr_vars_destroy(vars);
    return st;
}

static gr_status run(const options *o)
{
    bench b = { .o = o };
    float *sweep = gr_calloc(SWEEP_BYTES, 1);

    if (!sweep)
        return GR_ERR_NOMEM;
    b.sweep = sweep;
    GR_TRY(gr_pool_create(&b.pool, (int)o->n_threads));
    for (int i = 0; i < N_SUBJECTS; i++) {
        if (o->only && strcmp(o->only, subjects[i].name) != 0)
            continue;
        if (o->list)
            printf("%s\n", subjects[i].name);
        else
            GR_TRY(run_subject(&b, &subjects[i]));
    }
    gr_pool_destroy(b.pool);
    gr_free(sweep);
    return GR_OK;
}

int main(int argc, char **argv)
{
    options o = { .n_threads = 1, .n_rounds = 40 };
    const gr_option table[] = {
        { "threads", GR_OPTION_INT, &o.n_threads, 1, 1024, NULL, "N", "size of the thread pool" },
        { "rounds", GR_OPTION_INT, &o.n_rounds, 1, 1e6, NULL, "N", "runs, the best counts" },
        { "kernel", GR_OPTION_TEXT, &o.kernel, 0, 0, NULL, "NAME", "this kernel; else the best" },
        { "case", GR_OPTION_TEXT, &o.only, 0, 0, NULL, "NAME", "this case only" },
        { "list", GR_OPTION_FLAG, &o.list, 0, 0, NULL, NULL, "print the cases and end" },
        { 0 },
    };
    int n_used;
    gr_status st = gr_option_parse(table, argc - 1, argv + 1, &n_used);

    if (st == GR_OK)
        st = run(&o);
    if (st == GR_OK)
        return EXIT_SUCCESS;
    fprintf(stderr, "layout: %s: %s\n", gr_status_text(st), gr_error_message());
    return st == GR_ERR_ARG ? 2 : 1;
}
