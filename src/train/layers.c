/* The table of layers. Arithmetic of products that read no parameter (attention) stands in
 * the row of their block, or in that of the rest. */
#include "train/layers.h"

#include "base/alloc.h"
#include "graph/op.h"
#include "op/flops.h"

#include <inttypes.h>
#include <string.h>

typedef struct layer {
    const char *name; /* not ended: see len */
    size_t len;
    int64_t params, frozen, buffers;
    double flops;
} layer;

typedef struct table {
    layer *rows; /* the last one is the rest */
    int n;
} table;

static size_t layer_len(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot ? (size_t)(dot - name) : strlen(name);
}

static layer *row_of(table *t, const char *name, size_t len)
{
    for (int i = 0; i < t->n; i++)
        if (t->rows[i].len == len && strncmp(t->rows[i].name, name, len) == 0)
            return &t->rows[i];
    return NULL;
}

static void add_var(table *t, const gr_var *v)
{
    size_t len = layer_len(v->name);
    layer *row = row_of(t, v->name, len);
    int64_t n = gr_shape_count(&v->shape);

    if (v->kind != GR_VAR_PARAM && v->kind != GR_VAR_BUFFER)
        return;
    if (!row) {
        row = &t->rows[t->n++];
        *row = (layer){ .name = v->name, .len = len };
    }
    if (v->kind == GR_VAR_BUFFER)
        row->buffers += n;
    else
        row->params += n;
    row->frozen += v->kind == GR_VAR_PARAM && v->frozen ? n : 0;
}

#define MAX_CASTS 4 /* between a parameter and the product that reads it */

/* The parameter that a value is, or is a copy of in another type or form. */
static const gr_var *param_of(const gr_value *v)
{
    for (int i = 0; i < MAX_CASTS; i++) {
        const gr_value *root = gr_value_root(v);

        if (root->var)
            return gr_var_param(root->var);
        if (root->node->n_src != 1)
            return NULL;
        v = root->node->src[0];
    }
    return NULL;
}

static void add_node(table *t, layer *rest, const gr_graph *g, const gr_node *n)
{
    double flops = n->phase == GR_PHASE_FORWARD ? gr_node_flops(n) : 0;
    layer *row = NULL;

    if (flops <= 0)
        return;
    for (int s = 0; s < n->n_src && !row; s++) {
        const gr_var *v = param_of(n->src[s]);

        row = v ? row_of(t, v->name, layer_len(v->name)) : NULL;
    }
    if (!row && n->block > 0)
        row = row_of(t, g->blocks[n->block - 1], strlen(g->blocks[n->block - 1]));
    (row ? row : rest)->flops += flops;
}

void gr_layers_count(double n, gr_text *out)
{
    static const char *const units[] = { "", " K", " M", " G", " T", " P" };
    int u = 0;

    for (; n >= 999.5 && u < 5; u++)
        n /= 1000;
    gr_text_addf(out, "%.3g%s", n, units[u]);
}

static void add_row(gr_text *out, const layer *r, int64_t batch)
{
    gr_text flops = GR_TEXT_INIT;

    gr_layers_count(r->flops / (double)batch, &flops);
    gr_text_addf(out, "  %-40.*s %12" PRId64 " %12" PRId64 " %10" PRId64 " %10s\n", (int)r->len,
                 r->name, r->params, r->frozen, r->buffers, gr_text_str(&flops));
    gr_text_fini(&flops);
}

static void print(const table *t, const layer *rest, int64_t batch, gr_text *out)
{
    layer sum = { .name = "all", .len = 3, .flops = rest->flops };

    gr_text_addf(out, "  %-40s %12s %12s %10s %10s\n", "layer", "parameters", "frozen", "buffers",
                 "FLOP");
    for (int i = 0; i < t->n; i++) {
        const layer *r = &t->rows[i];

        add_row(out, r, batch);
        sum.params += r->params;
        sum.frozen += r->frozen;
        sum.buffers += r->buffers;
        sum.flops += r->flops;
    }
    if (rest->flops > 0)
        add_row(out, rest, batch);
    add_row(out, &sum, batch);
}

gr_status gr_layers_text(const gr_graph *g, const gr_vars *vars, int64_t batch, gr_text *out)
{
    table t = { .rows = gr_calloc((size_t)vars->n + 1, sizeof(layer)) };
    layer rest = { .name = "(without parameters)", .len = 20 };

    if (!t.rows)
        return GR_ERR_NOMEM;
    for (int i = 0; i < vars->n; i++)
        add_var(&t, vars->list[i]);
    for (int i = 0; i < g->n_nodes; i++)
        add_node(&t, &rest, g, g->nodes[i]);
    print(&t, &rest, batch > 0 ? batch : 1, out);
    gr_free(t.rows);
    return gr_text_status(out);
}
