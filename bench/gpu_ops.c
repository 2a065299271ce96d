/*
 * Operators on a GPU, node by node, forward and backward: which kernel runs, how long it takes,
 * and how many bytes of sources and results that is in a second. For those whose time is that
 * of the memory; most tensors are larger than the GPU's cache.
 *
 *     CASE: OPERATOR (KERNEL) US us GB GB/s
 *
 * Usage: gpu_ops [--rounds N] [--case NAME]
 */
#include "gradus/image.h"
#include "gradus/norm.h"
#include "gradus/ops.h"

#include "backend/backend.h"
#include "base/alloc.h"
#include "base/option.h"
#include "graph/op.h"
#include "op/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SRC     16
#define WORTH_BYTES 1e6 /* nodes over a few vectors are left out */

typedef struct subject {
    const char *name;
    gr_value *(*build)(gr_graph *g, gr_value *x, gr_value *w); /* w: one per channel */
    gr_dtype type;
    gr_shape shape;
} subject;

typedef struct world {
    const gr_module *module;
    gr_device *device;
    int64_t n_rounds;
    gr_graph *graph;
    void **mem; /* of each root, by its id */
} world;

static void must(gr_status st)
{
    if (st == GR_OK)
        return;
    fprintf(stderr, "gpu_ops: %s\n", gr_error_message());
    exit(1);
}

/* ---- what is built ---- */

static gr_value *batch(gr_graph *g, gr_value *x, gr_value *w)
{
    gr_batch_norm_args a = GR_BATCH_NORM_INIT;

    a.weight = a.bias = w;
    return gr_relu(g, gr_batch_norm(g, x, &a));
}

static gr_value *layer(gr_graph *g, gr_value *x, gr_value *w)
{
    return gr_layer_norm(g, x, w, w, 1e-5);
}

static gr_value *group(gr_graph *g, gr_value *x, gr_value *w)
{
    return gr_group_norm_at(GR_HERE, g, x, 32, w, w, 1e-5);
}

static gr_value *pool(gr_graph *g, gr_value *x, gr_value *w)
{
    const gr_window window = {
        .kernel = { 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 }, .dilation = { 1, 1 }
    };

    (void)w;
    return gr_max_pool2d(g, x, &window);
}

static gr_value *twice(gr_graph *g, gr_value *x, gr_value *w)
{
    gr_shape s = gr_value_shape(x);

    (void)w;
    return gr_resize(g, x, 2 * s.dim[1], 2 * s.dim[2], GR_BILINEAR);
}

#define SHAPE(...)                                                                             \
    {                                                                                          \
        .n_dims = sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t), .dim = { __VA_ARGS__ } \
    }

static const subject subjects[] = {
    { "batch 64", batch, GR_BF16, SHAPE(256, 56, 56, 64) },
    { "batch 256", batch, GR_BF16, SHAPE(256, 56, 56, 256) },
    { "batch 512", batch, GR_BF16, SHAPE(256, 28, 28, 512) },
    { "batch 2048", batch, GR_BF16, SHAPE(256, 7, 7, 2048) },
    { "batch 64 f32", batch, GR_F32, SHAPE(256, 56, 56, 64) },
    { "group 320", group, GR_BF16, SHAPE(16, 64, 64, 320) },
    { "layer 128", layer, GR_BF16, SHAPE(262144, 128) },
    { "layer 768", layer, GR_BF16, SHAPE(65536, 768) },
    { "layer 4096", layer, GR_BF16, SHAPE(16384, 4096) },
    { "layer 768 f32", layer, GR_F32, SHAPE(65536, 768) },
    { "max pool 64", pool, GR_BF16, SHAPE(256, 112, 112, 64) },
    { "bilinear 64", twice, GR_BF16, SHAPE(16, 128, 128, 64) },
};

/* ---- running ---- */

/* Zeros: times do not depend on what is there. Views lie in the memory of their root. */
static void *address(world *w, const gr_value *v)
{
    const gr_value *root = gr_value_root(v);

    if (root->space == GR_SPACE_NONE)
        return NULL;
    if (!w->mem[root->id])
        must(w->device->ops->alloc(w->device, gr_value_bytes(root) + 256, &w->mem[root->id]));
    return w->mem[root->id];
}

static double bytes_of(const gr_node *n)
{
    double sum = 0;

    for (int i = 0; i < n->n_src; i++)
        sum += (double)gr_value_bytes(n->src[i]);
    for (int i = 0; i < n->n_out; i++)
        sum += n->out[i].space == GR_SPACE_NONE ? 0 : (double)gr_value_bytes(&n->out[i]);
    return sum;
}

/* Seconds of one run, in the best of three stretches. */
static double seconds_of(const world *w, const gr_kernel *k, const gr_launch *l)
{
    double best = 1e9;

    for (int i = 0; i < 4; i++) { /* the first warms up */
        double t;

        must(w->device->ops->timer_begin(w->device));
        for (int64_t r = 0; r < w->n_rounds; r++)
            must(k->run(l));
        must(w->device->ops->timer_end(w->device, &t));
        if (i > 0 && t < best)
            best = t;
    }
    return best / (double)w->n_rounds;
}

static void run_node(world *w, const char *name, const gr_node *n, const gr_launch *common)
{
    const gr_backend_ops *ops = w->device->ops;
    void *src[MAX_SRC], *out[MAX_SRC], *stream = ops->stream(w->device, GR_STREAM_COMPUTE);
    gr_launch l = *common;
    gr_prepare p = {
        .node = n, .n_threads = 1, .device = w->device, .stream = stream, .sets = w->module->kernels
    };
    gr_ready r = { 0 };
    double t;

    for (int i = 0; i < n->n_src; i++)
        src[i] = address(w, n->src[i]);
    for (int i = 0; i < n->n_out; i++)
        out[i] = address(w, &n->out[i]);
    must(gr_kernel_ready(&r, &p, NULL));
    l.node = n;
    l.src = src;
    l.out = out;
    l.stream = stream;
    l.data = r.data;
    if (r.work_bytes > 0)
        must(ops->alloc(w->device, r.work_bytes, &l.work));
    t = seconds_of(w, r.kernel, &l);
    printf("%s: %s (%s) %.1f us %.3f GB %.0f GB/s\n", name, n->op->name, r.kernel->name, t * 1e6,
           bytes_of(n) * 1e-9, bytes_of(n) * 1e-9 / t);
    fflush(stdout);
    ops->free(w->device, l.work);
    gr_kernel_end(&r);
}

static void measure(world *w, const subject *s)
{
    static char x_name[] = "x", w_name[] = "w";
    static char nothing[64];
    gr_shape c = gr_shape_of(1, &s->shape.dim[s->shape.n_dims - 1]);
    gr_named feed[2] = { { x_name, s->type, s->shape, nothing }, { w_name, GR_F32, c, nothing } };
    gr_launch common = { 0 };
    gr_value *x[2], *dx[2], *y;
    gr_vars *vars;
    void *mem;

    must(gr_vars_create(&vars));
    must(gr_graph_create(&w->graph, vars, true, feed, 2));
    x[0] = gr_input(w->graph, x_name);
    x[1] = gr_input(w->graph, w_name);
    y = gr_sum(w->graph, s->build(w->graph, x[0], x[1]), (1u << s->shape.n_dims) - 1, false);
    gr_gradients(w->graph, y, x, s->build == pool || s->build == twice ? 1 : 2, dx);
    must(gr_graph_status(w->graph));
    w->mem = gr_calloc((size_t)w->graph->n_values, sizeof(*w->mem));
    must(w->mem ? GR_OK : GR_ERR_NOMEM);
    must(w->device->ops->alloc(w->device, sizeof(gr_scalars), &mem));
    common.scalars = mem;
    must(w->device->ops->host_alloc(w->device, sizeof(gr_fault), (void **)&common.fault));
    for (int i = 0; i < w->graph->n_nodes; i++)
        if (w->graph->nodes[i]->op->kernels && bytes_of(w->graph->nodes[i]) >= WORTH_BYTES)
            run_node(w, s->name, w->graph->nodes[i], &common);
    for (int i = 0; i < w->graph->n_values; i++)
        w->device->ops->free(w->device, w->mem[i]);
    w->device->ops->free(w->device, mem);
    w->device->ops->host_free(w->device, common.fault);
    gr_free(w->mem);
    gr_graph_destroy(w->graph);
    gr_vars_destroy(vars);
}

int main(int argc, char **argv)
{
    const char *only = NULL;
    world w = { .n_rounds = 20 };
    const gr_option table[] = {
        { "rounds", GR_OPTION_INT, &w.n_rounds, 1, 1e6, NULL, "N", "runs that are timed together" },
        { "case", GR_OPTION_TEXT, &only, 0, 0, NULL, "NAME", "this case alone" },
        { .name = NULL },
    };
    int n_used;

    must(gr_option_parse(table, argc - 1, argv + 1, &n_used));
    must(gr_module_load("cuda", &w.module));
    must(w.module->backend->open(&w.device, 0));
    for (size_t i = 0; i < sizeof(subjects) / sizeof(subjects[0]); i++)
        if (!only || strcmp(only, subjects[i].name) == 0)
            measure(&w, &subjects[i]);
    w.device->ops->close(w.device);
    return 0;
}
