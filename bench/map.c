/*
 * Elementwise functions, dropout and losses: time of the best CPU kernels, forward and
 * backward, one line each:
 *
 *     NAME forward MS backward MS
 *
 * The best of many rounds counts: on a shared machine the rest is the neighbours.
 * bench/map_torch.py runs this and PyTorch in turns and prints both with their ratio.
 *
 * Usage: map [--threads N] [--rounds N]
 */
#include "gradus/loss.h"
#include "gradus/random.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/option.h"
#include "graph/op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NODES 64

typedef gr_value *build_fn(gr_graph *g, gr_value *const *x, const char *fn);

typedef struct subject {
    const char *name;
    build_fn *build;
    const char *fn;
    gr_shape shape[3];
    gr_dtype type[3];
    int n_src, n_grads, n_classes;
} subject;

typedef struct stage {
    const gr_kernel *kernel;
    gr_launch launch;
    void *src[8], *out[4];
    bool is_backward;
} stage;

typedef struct world {
    gr_pool *pool;
    int64_t n_threads, n_rounds;
    gr_vars *vars;
    gr_graph *graph;
    gr_named feed[4];
    void **mem; /* by value id */
    stage stage[MAX_NODES];
    int n_stages;
} world;

/* ---- what is built ---- */

static gr_value *one(gr_graph *g, gr_value *const *x, const char *fn)
{
    return gr_map1_at(GR_HERE, g, fn, x[0]);
}

static gr_value *swiglu(gr_graph *g, gr_value *const *x, const char *fn)
{
    (void)fn;
    return gr_swiglu(g, x[0]);
}

static gr_value *scale_shift(gr_graph *g, gr_value *const *x, const char *fn)
{
    (void)fn;
    return gr_scale_shift(g, x[0], x[1], x[2]);
}

static gr_value *dropout(gr_graph *g, gr_value *const *x, const char *fn)
{
    (void)fn;
    return gr_dropout(g, x[0], 0.1);
}

static gr_value *cross_entropy(gr_graph *g, gr_value *const *x, const char *fn)
{
    gr_cross_entropy_options o = GR_CROSS_ENTROPY_INIT;

    o.label_smoothing = strcmp(fn, "smooth") == 0 ? 0.1 : 0;
    return gr_cross_entropy_mean(g, x[0], x[1], &o);
}

static gr_value *bce(gr_graph *g, gr_value *const *x, const char *fn)
{
    (void)fn;
    return gr_bce_logits(g, x[0], x[1]);
}

#define ROWS GR_SHAPE(2048, 3072)
#define UNARY(fn)                                  \
    {                                              \
        fn, one, fn, { ROWS }, { GR_F32 }, 1, 1, 0 \
    }

static int subjects_of(subject *to)
{
    const subject all[] = {
        UNARY("relu"),
        UNARY("sigmoid"),
        UNARY("tanh"),
        UNARY("silu"),
        UNARY("gelu"),
        UNARY("gelu_tanh"),
        UNARY("exp"),
        UNARY("erf"),
        UNARY("sin"),
        UNARY("log1p"),
        UNARY("softplus"),
        { "gelu bf16", one, "gelu", { ROWS }, { GR_BF16 }, 1, 1, 0 },
        { "silu bf16", one, "silu", { ROWS }, { GR_BF16 }, 1, 1, 0 },
        { "swiglu", swiglu, NULL, { GR_SHAPE(1024, 6144) }, { GR_F32 }, 1, 1, 0 },
        { "scale_shift",
          scale_shift,
          NULL,
          { GR_SHAPE(8, 256, 768), GR_SHAPE(8, 1, 768), GR_SHAPE(8, 1, 768) },
          { GR_F32, GR_F32, GR_F32 },
          3,
          3,
          0 },
        { "dropout", dropout, NULL, { ROWS }, { GR_F32 }, 1, 1, 0 },
        { "dropout bf16", dropout, NULL, { ROWS }, { GR_BF16 }, 1, 1, 0 },
        { "xent 256x50257",
          cross_entropy,
          "plain",
          { GR_SHAPE(256, 50257), GR_SHAPE(256) },
          { GR_F32, GR_I64 },
          2,
          1,
          50257 },
        { "xent 128x10",
          cross_entropy,
          "plain",
          { GR_SHAPE(128, 10), GR_SHAPE(128) },
          { GR_F32, GR_I64 },
          2,
          1,
          10 },
        { "xent pixels x21",
          cross_entropy,
          "plain",
          { GR_SHAPE(2, 465, 465, 21), GR_SHAPE(2, 465, 465) },
          { GR_F32, GR_I64 },
          2,
          1,
          21 },
        { "xent smooth pixels x21",
          cross_entropy,
          "smooth",
          { GR_SHAPE(2, 465, 465, 21), GR_SHAPE(2, 465, 465) },
          { GR_F32, GR_I64 },
          2,
          1,
          21 },
        { "bce", bce, NULL, { ROWS, ROWS }, { GR_F32, GR_F32 }, 2, 1, 0 },
    };

    memcpy(to, all, sizeof(all));
    return (int)(sizeof(all) / sizeof(all[0]));
}

/* ---- running ---- */

static void must(gr_status st)
{
    if (st == GR_OK)
        return;
    fprintf(stderr, "map: %s\n", gr_error_message());
    exit(1);
}

static void fill(gr_named *f, int n_classes)
{
    size_t n = (size_t)gr_shape_count(&f->shape);

    f->mem = gr_malloc_aligned(n * gr_dtype_bytes(f->dtype));
    if (!f->mem)
        must(gr_fail(GR_ERR_NOMEM, "no memory for the sources"));
    for (size_t i = 0; i < n; i++) {
        uint32_t h = (uint32_t)i * 2654435761u;

        if (f->dtype == GR_F32)
            ((float *)f->mem)[i] = (float)(h >> 8) * 0x1p-22f - 2;
        else if (f->dtype == GR_BF16) /* about -2 .. 2 */
            ((uint16_t *)f->mem)[i] = (uint16_t)(0x3f00 + (h >> 24) + ((h & 1) << 15));
        else
            ((int64_t *)f->mem)[i] = (h >> 8) % (uint32_t)n_classes;
    }
}

/* Memory of a value; views lie in that of their root. */
static void *address(world *w, const gr_value *v)
{
    const gr_value *root = gr_value_root(v);

    if (!w->mem[root->id])
        w->mem[root->id] = gr_malloc_aligned(gr_value_bytes(root) + 64);
    return w->mem[root->id];
}

static void add_stage(world *w, const gr_node *n)
{
    static gr_scalars scalars = { .seed = 7 };
    static gr_fault fault;
    stage *s = &w->stage[w->n_stages];
    gr_prepare p = { .node = n, .n_threads = (int)w->n_threads };
    size_t n_bytes;

    if (!n->op->kernels)
        return;
    s->kernel = gr_kernel_pick(NULL, n, NULL);
    if (s->kernel->prepare)
        must(s->kernel->prepare(&p));
    n_bytes = s->kernel->workspace ? s->kernel->workspace(n, p.data) : 0;
    for (int i = 0; i < n->n_src; i++)
        s->src[i] = address(w, n->src[i]);
    for (int i = 0; i < n->n_out; i++)
        s->out[i] = address(w, &n->out[i]);
    s->is_backward = n->phase == GR_PHASE_BACKWARD;
    s->launch = (gr_launch){ .node = n,
                             .src = s->src,
                             .out = s->out,
                             .work = n_bytes ? gr_malloc_aligned(n_bytes) : NULL,
                             .data = p.data,
                             .scalars = &scalars,
                             .fault = &fault,
                             .pool = w->pool };
    w->n_stages++;
}

/* Of a single node its own rule over a given gradient; of a loss that of the whole. */
static void differentiate(world *w, const subject *s, gr_value *const *x, gr_value *y)
{
    static char name[] = "d";
    gr_value *dx[8] = { NULL }, *d;

    w->graph->phase = GR_PHASE_BACKWARD;
    if (y->shape.n_dims == 0) {
        gr_gradients(w->graph, y, x, s->n_grads, dx);
        return;
    }
    w->feed[s->n_src] = (gr_named){ name, y->dtype, y->shape, NULL };
    fill(&w->feed[s->n_src], 2);
    w->graph->n_feeds++;
    d = gr_input(w->graph, name);
    must(y->node->op->grad(w->graph, y->node, &d, dx));
}

static void start(world *w, const subject *s)
{
    static char name[3][4] = { "s0", "s1", "s2" };
    gr_value *x[3], *y;

    for (int i = 0; i < s->n_src; i++) {
        w->feed[i] = (gr_named){ name[i], s->type[i], s->shape[i], NULL };
        fill(&w->feed[i], s->n_classes);
    }
    must(gr_vars_create(&w->vars));
    must(gr_graph_create(&w->graph, w->vars, true, w->feed, s->n_src));
    for (int i = 0; i < s->n_src; i++)
        x[i] = gr_input(w->graph, name[i]);
    y = s->build(w->graph, x, s->fn);
    must(gr_graph_status(w->graph));
    differentiate(w, s, x, y);
    must(gr_graph_status(w->graph));
    w->mem = gr_calloc((size_t)w->graph->n_values, sizeof(*w->mem));
    for (int i = 0; i < w->graph->n_nodes; i++) {
        const gr_value *v = &w->graph->nodes[i]->out[0];

        for (int k = 0; k < w->graph->n_feeds; k++)
            if (v->name && strcmp(v->name, w->feed[k].name) == 0)
                w->mem[v->id] = w->feed[k].mem;
    }
    for (int i = 0; i < w->graph->n_nodes; i++)
        add_stage(w, w->graph->nodes[i]);
}

static void stop(world *w)
{
    for (int i = 0; i < w->n_stages; i++) {
        gr_free(w->stage[i].launch.work);
        if (w->stage[i].kernel->release)
            w->stage[i].kernel->release(w->stage[i].launch.data);
    }
    for (int i = 0; i < w->graph->n_values; i++)
        gr_free(w->mem[i]);
    gr_free(w->mem);
    gr_graph_destroy(w->graph);
    gr_vars_destroy(w->vars);
}

static double run(const world *w, bool backward)
{
    int64_t from = gr_now_ns();

    for (int i = 0; i < w->n_stages; i++)
        if (w->stage[i].is_backward == backward)
            must(w->stage[i].kernel->run(&w->stage[i].launch));
    return (double)(gr_now_ns() - from) * 1e-6;
}

static void measure(const world *with, const subject *s)
{
    double forward = 1e9, backward = 1e9;
    world *w = gr_calloc(1, sizeof(*w));

    if (!w)
        must(GR_ERR_NOMEM);
    w->pool = with->pool;
    w->n_threads = with->n_threads;
    start(w, s);
    for (int64_t i = 0; i < with->n_rounds; i++) {
        double f = run(w, false), b = run(w, true);

        forward = f < forward ? f : forward;
        backward = b < backward ? b : backward;
    }
    printf("%-24s forward %9.4f ms backward %9.4f ms\n", s->name, forward, backward);
    fflush(stdout);
    stop(w);
    gr_free(w);
}

int main(int argc, char **argv)
{
    static subject all[40];
    const char *only = NULL;
    world w = { .n_threads = 1, .n_rounds = 15 };
    const gr_option table[] = {
        { "threads", GR_OPTION_INT, &w.n_threads, 1, 64, NULL, "N", "threads" },
        { "rounds", GR_OPTION_INT, &w.n_rounds, 1, 1e6, NULL, "N", "rounds; the best counts" },
        { "case", GR_OPTION_TEXT, &only, 0, 0, NULL, "NAME", "this case alone" },
        { .name = NULL },
    };
    int n_used;
    int n = subjects_of(all);

    must(gr_option_parse(table, argc - 1, argv + 1, &n_used));
    must(gr_pool_create(&w.pool, (int)w.n_threads));
    for (int i = 0; i < n; i++)
        if (!only || strcmp(only, all[i].name) == 0)
            measure(&w, &all[i]);
    gr_pool_destroy(w.pool);
    return 0;
}
