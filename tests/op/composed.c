#include "op/composed.h"

#include "check.h"
#include "gradus/ops.h"

/* A composition and its gradients in a graph of its own; enough of a driver_world to be run. */
typedef struct world {
    driver_world w;
    gr_value *out, *dx[DRIVER_MAX_SRC];
    const gr_named *want_out, *want_dx[DRIVER_MAX_SRC];
} world;

static void take(driver_world *w, const driver_golden *d, const char *record, const char *tensor)
{
    const gr_named *have = driver_golden_find(d, record, tensor);
    int i = w->n_feeds++;

    GR_CHECK(have);
    snprintf(w->name[i], sizeof(w->name[i]), "s%d", i);
    w->feed[i] = *have;
    w->feed[i].name = w->name[i];
}

static void start(world *t, const composed_case *c, const driver_golden *d)
{
    static const driver_case nothing = { .name = "composed", .op = "none" };
    driver_world *w = &t->w;
    gr_value *weighted;
    char tensor[16];

    *t = (world){ .w = { .c = &nothing } };
    for (int i = 0; i < c->n_src; i++) {
        snprintf(tensor, sizeof(tensor), "src%d", i);
        take(w, d, c->name, tensor);
    }
    take(w, d, c->name, "dout0");
    GR_CHECK_OK(gr_vars_create(&w->vars));
    GR_CHECK_OK(gr_graph_create(&w->graph, w->vars, true, w->feed, w->n_feeds));
    for (int i = 0; i < c->n_src; i++)
        w->src[i] = gr_input(w->graph, w->name[i]);
    t->out = c->build(w->graph, w->src);
    weighted = gr_mul(w->graph, t->out, gr_input(w->graph, w->name[c->n_src]));
    gr_gradients(w->graph, gr_sum(w->graph, weighted, GR_AXES_ALL, false), w->src, c->n_grads,
                 t->dx);
    if (gr_graph_status(w->graph) != GR_OK) {
        fprintf(stderr, "'%s': %s\n", c->name, gr_error_message());
        exit(1);
    }
    t->want_out = driver_golden_find(d, c->name, "out0");
    for (int i = 0; i < c->n_grads; i++) {
        snprintf(tensor, sizeof(tensor), "dsrc%d", i);
        t->want_dx[i] = driver_golden_find(d, c->name, tensor);
    }
}

/* Within 8 roundings of the greatest number, times the square root of what was summed. */
static void compare(const composed_case *c, const char *what, const void *got, const gr_named *want)
{
    const float *a = got, *b = want->mem;
    int64_t n = gr_shape_count(&want->shape);
    double most = 0, off;

    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)b[i]));
    off = 8 * 0x1p-24 * sqrt((double)c->n_summed) * most;
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= off)) {
            fprintf(stderr, "'%s', %s, element %lld: %.9g, PyTorch has %.9g, may be off by %.3g\n",
                    c->name, what, (long long)i, (double)a[i], (double)b[i], off);
            exit(1);
        }
}

static void check_case(const composed_case *c, const driver_golden *d, const driver_how *how)
{
    driver_eval *e;
    world t;

    start(&t, c, d);
    GR_CHECK(gr_shape_equal(&t.out->shape, &t.want_out->shape));
    GR_CHECK_OK(driver_eval_run(&e, &t.w, how));
    compare(c, "value", driver_eval_get(e, t.out), t.want_out);
    for (int i = 0; i < c->n_grads; i++)
        compare(c, "gradient", driver_eval_get(e, t.dx[i]), t.want_dx[i]);
    driver_eval_destroy(e);
    gr_graph_destroy(t.w.graph);
    gr_vars_destroy(t.w.vars);
}

void composed_check(const char *family, const composed_case *cases, int n)
{
    static const driver_how ways[] = {
        { .n_threads = 1, .poison = 0xff },
        { .n_threads = 2, .poison = 0xab },
        { .only = "reference", .n_threads = 1, .poison = 0xff },
    };
    driver_golden *d;

    GR_CHECK_OK(driver_golden_load(&d, family));
    for (int i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof(ways) / sizeof(ways[0]); k++)
            check_case(&cases[i], d, &ways[k]);
    driver_golden_destroy(d);
}
