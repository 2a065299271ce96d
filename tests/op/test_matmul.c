/*
 * matmul beyond the driver: our own kernels give the same bits on any number of threads,
 * also when threads outnumber tiles, and a run allocates nothing.
 */
#include "base/alloc.h"
#include "check.h"
#include "gradus/ops.h"
#include "op/matmul/matmul.h"

typedef struct product {
    int64_t batch, m, n, k;
    bool trans_a, trans_b;
} product;

static const product products[] = {
    { 1, 128, 512, 40, false, true }, { 1, 128, 10, 512, false, true },
    { 1, 512, 100, 33, true, false }, { 1, 128, 512, 64, false, false },
    { 1, 3, 5, 7, false, false },     { 5, 20, 40, 9, false, true },
    { 3, 33, 17, 1300, true, true },  { 1, 300, 300, 1100, false, true },
};

typedef struct world {
    gr_vars *vars;
    gr_graph *graph;
    gr_node *node;
    void *src[2];
    float *out;
} world;

static void fill(float *x, int64_t n)
{
    uint32_t state = 1;

    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) * 0x1p-24f - 0.5f;
    }
}

static void world_init(world *w, const product *p)
{
    gr_named feeds[] = {
        { "a", GR_F32, p->trans_a ? GR_SHAPE(p->batch, p->k, p->m) : GR_SHAPE(p->batch, p->m, p->k),
          NULL },
        { "b", GR_F32, p->trans_b ? GR_SHAPE(p->batch, p->n, p->k) : GR_SHAPE(p->batch, p->k, p->n),
          NULL },
    };
    gr_value *y;

    GR_CHECK_OK(gr_vars_create(&w->vars));
    GR_CHECK_OK(gr_graph_create(&w->graph, w->vars, true, feeds, 2));
    y = gr_matmul_t(w->graph, gr_input(w->graph, "a"), gr_input(w->graph, "b"), p->trans_a,
                    p->trans_b);
    GR_CHECK_OK(gr_graph_status(w->graph));
    w->node = y->node;
    for (int i = 0; i < 2; i++) {
        w->src[i] = gr_malloc_aligned(gr_value_bytes(y->node->src[i]));
        GR_CHECK(w->src[i]);
        fill(w->src[i], gr_shape_count(&y->node->src[i]->shape));
    }
    w->out = gr_malloc_aligned(gr_value_bytes(y));
    GR_CHECK(w->out);
}

static void world_fini(world *w)
{
    for (int i = 0; i < 2; i++)
        gr_free(w->src[i]);
    gr_free(w->out);
    gr_graph_destroy(w->graph);
    gr_vars_destroy(w->vars);
}

static void run(world *w, const gr_kernel *k, int n_threads)
{
    gr_prepare p = { .node = w->node, .n_threads = n_threads };
    gr_launch l = { .node = w->node, .src = w->src, .out = (void *[]){ w->out } };
    size_t n_work;
    long before;

    GR_CHECK_OK(gr_pool_create(&l.pool, n_threads));
    GR_CHECK_OK(k->prepare(&p));
    l.data = p.data;
    n_work = k->workspace(w->node, p.data);
    l.work = gr_malloc_aligned(n_work + 1);
    GR_CHECK(l.work);
    memset(l.work, 0xff, n_work);
    memset(w->out, 0xff, gr_value_bytes(&w->node->out[0]));
    before = gr_alloc_count();
    GR_CHECK_OK(k->run(&l));
    GR_CHECK_EQ(gr_alloc_count() - before, 0);
    gr_free(l.work);
    k->release(p.data);
    gr_pool_destroy(l.pool);
}

static void check_kernel(const char *name)
{
    for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++) {
        world w;
        const gr_kernel *k;
        size_t n_bytes;
        float *first;

        world_init(&w, &products[i]);
        k = gr_kernel_pick(NULL, w.node, name);
        if (strcmp(k->name, name) == 0) { /* else this machine cannot run it */
            n_bytes = gr_value_bytes(&w.node->out[0]);
            first = gr_malloc(n_bytes);
            GR_CHECK(first);
            run(&w, k, 1);
            memcpy(first, w.out, n_bytes);
            for (int t = 2; t <= 13; t += 3) {
                run(&w, k, t);
                GR_CHECK_EQ(memcmp(first, w.out, n_bytes), 0);
            }
            gr_free(first);
        }
        world_fini(&w);
    }
}

int main(void)
{
    check_kernel("avx512");
    check_kernel("avx2");
    return 0;
}
