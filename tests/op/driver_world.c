/* A case as a graph: sources, the operator's node, and its gradient. */
#include "op/driver_impl.h"

#include "base/alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

static jmp_buf next_case;
static bool is_caught;

void driver_die(const driver_world *w, const char *fmt, ...)
{
    va_list args;

    fprintf(stderr, "case '%s' of '%s', as %s: ", w->c->name, w->c->op, gr_dtype_name(w->as));
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fprintf(stderr, "\n");
    if (is_caught)
        longjmp(next_case, 1);
    exit(1);
}

bool driver_survives(void (*run)(void *arg), void *arg)
{
    if (!getenv("GR_DRIVER_ALL")) {
        run(arg);
        return true;
    }
    is_caught = true;
    if (setjmp(next_case) == 0) {
        run(arg);
        is_caught = false;
        return true;
    }
    is_caught = false;
    return false;
}

static uint64_t seed_of(const char *name, int i)
{
    uint64_t h = 0xcbf29ce484222325u + (uint64_t)i;

    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    return h;
}

static void add_feed(driver_world *w, const driver_src *s, gr_dtype t, bool special)
{
    int i = w->n_feeds++;
    gr_named *f = &w->feed[i];

    snprintf(w->name[i], sizeof(w->name[i]), "s%d", i);
    *f = (gr_named){ .name = w->name[i], .dtype = t, .shape = s->shape };
    f->mem = gr_malloc_aligned((size_t)gr_shape_count(&s->shape) * gr_dtype_bytes(t));
    GR_CHECK(f->mem);
    driver_fill(s, t, seed_of(w->c->name, i), special, f->mem);
}

static gr_value *add_source(driver_world *w, int i)
{
    gr_var want = { .name = w->name[i],
                    .kind = GR_VAR_BUFFER,
                    .dtype = w->feed[i].dtype,
                    .shape = w->feed[i].shape };
    gr_var *var;

    if (!w->c->src[i].is_state)
        return gr_input(w->graph, w->name[i]);
    GR_CHECK_OK(gr_vars_get(w->vars, &want, &var));
    return gr_graph_var(w->graph, GR_HERE, var);
}

void driver_world_init(driver_world *w, const driver_case *c, gr_dtype as)
{
    gr_value *v;

    *w = (driver_world){ .c = c, .as = as };
    for (int i = 0; i < c->n_src; i++) {
        const driver_src *s = &c->src[i];

        add_feed(w, s, s->dtype == GR_F32 && !s->is_state ? as : s->dtype,
                 (c->flags & DRIVER_SPECIAL) != 0);
    }
    GR_CHECK_OK(gr_vars_create(&w->vars));
    GR_CHECK_OK(gr_graph_create(&w->graph, w->vars, true, w->feed, w->n_feeds));
    for (int i = 0; i < c->n_src; i++)
        w->src[i] = add_source(w, i);
    v = c->build(w->graph, w->src, c);
    if (!v)
        return;
    w->node = v->node;
    if (strcmp(w->node->op->name, c->op) != 0)
        driver_die(w, "build made a node of '%s'", w->node->op->name);
    GR_CHECK(w->node->n_out <= DRIVER_MAX_OUT);
    for (int i = 0; i < DRIVER_MAX_OUT; i++)
        w->d_feed[i] = -1;
    w->returned = v->index;
}

void driver_world_fini(driver_world *w)
{
    gr_graph_destroy(w->graph);
    gr_vars_destroy(w->vars);
    for (int i = 0; i < w->n_feeds; i++)
        gr_free(w->feed[i].mem);
}

void driver_world_grad(driver_world *w)
{
    gr_node *n = w->node;
    gr_value *d_out[DRIVER_MAX_OUT] = { NULL }, *d_src[DRIVER_MAX_SRC] = { NULL };
    unsigned outs = w->c->grad_outs ? w->c->grad_outs : 1u << w->returned;

    GR_CHECK(n->op->grad && n->n_src <= DRIVER_MAX_SRC);
    for (int i = 0; i < n->n_out; i++) {
        driver_src like = { .shape = n->out[i].shape, .lo = -1, .hi = 1 };

        if (!(outs >> i & 1))
            continue;
        w->d_feed[i] = w->n_feeds;
        add_feed(w, &like, n->out[i].dtype, false);
        w->graph->n_feeds = w->n_feeds;
        d_out[i] = gr_input(w->graph, w->name[w->d_feed[i]]);
    }
    w->graph->phase = GR_PHASE_BACKWARD;
    if (n->op->grad(w->graph, n, d_out, d_src) != GR_OK)
        driver_die(w, "the gradient rule failed: %s", gr_error_message());
    for (int i = 0; i < n->n_src; i++)
        for (int j = 0; j < w->c->n_src; j++)
            if (n->src[i] == w->src[j] && d_src[i])
                w->d_src[j] = d_src[i];
    for (int j = 0; j < w->c->n_src; j++) {
        if (!(w->c->grad >> j & 1))
            continue;
        if (!w->d_src[j])
            driver_die(w, "source %d has no gradient", j);
        if (!gr_shape_equal(&w->d_src[j]->shape, &w->src[j]->shape))
            driver_die(w, "the gradient of source %d has another shape", j);
    }
}

int64_t driver_grad_length(const driver_world *w, int source)
{
    const gr_node *n = w->node;
    int64_t most = w->c->n_reduced;

    for (int i = 0; i < n->n_out; i++) {
        int64_t have = gr_shape_count(&w->src[source]->shape);
        int64_t ratio = have > 0 ? gr_shape_count(&n->out[i].shape) / have : 0;

        most = ratio > most ? ratio : most;
        for (int d = 0; d < n->out[i].shape.n_dims; d++)
            if (n->out[i].shape.dim[d] > most && (w->c->n_reduced > 0 || ratio > 1))
                most = n->out[i].shape.dim[d];
    }
    return most > 1 ? most : w->c->n_reduced;
}
