/*
 * Side chains of a protein from its backbone: messages between residues that are near in
 * space, then a transformer decoder that reads fragments and looks at the residues. Residues that
 * are padding are no nodes of that network: what a structure gets does not depend on its batch.
 *
 * Backbone atoms are inputs, so nothing before the first layer has a gradient.
 */
#include "gradus/models.h"

#include "gradus/index.h"
#include "gradus/ops.h"
#include "gradus/random.h"
#include "nn/layer.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

#define TINY       1e-8
#define N_RBF      32
#define RBF_TO     20.0
#define N_FEATURES 6 /* sine and cosine of three angles */
#define PAIR_WIDTH 32

typedef struct net {
    const char *site;
    gr_graph *g;
    const char *prefix;
    gr_protein c;
    int64_t b, l;   /* samples, residues */
    gr_value *mask; /* [b, l], of residues that are there; or NULL: all are */
} net;

static gr_value *map2(const net *n, const char *fn, gr_value *a, gr_value *b)
{
    return gr_map2_at(n->site, n->g, fn, a, b);
}

/* a / (|a| + tiny), along the last dimension. */
static gr_value *unit(const net *n, gr_value *a)
{
    gr_value *length = gr_norm_at(n->site, n->g, a, true);

    return map2(n, "div", a, gr_mapk_at(n->site, n->g, "add", length, TINY));
}

/* The angle between the planes (a, b, c) and (b, c, d), [b, l]. */
static gr_value *dihedral(const net *n, gr_value *const at[4])
{
    gr_value *v1 = map2(n, "sub", at[1], at[0]), *v2 = map2(n, "sub", at[2], at[1]);
    gr_value *v3 = map2(n, "sub", at[3], at[2]);
    gr_value *n1 = unit(n, gr_cross_at(n->site, n->g, v1, v2));
    gr_value *n2 = unit(n, gr_cross_at(n->site, n->g, v2, v3));
    gr_value *cosine = gr_clamp_at(n->site, n->g, gr_dot_at(n->site, n->g, n1, n2, false), -1, 1);
    gr_value *side = gr_dot_at(n->site, n->g, n1, v3, false);

    return map2(n, "mul", gr_map1_at(n->site, n->g, "acos", cosine),
                gr_map1_at(n->site, n->g, "sign", side));
}

static gr_value *row(const net *n, gr_value *a, int64_t i)
{
    return gr_slice_axis_at(n->site, n->g, a, 1, i, i + 1);
}

/* Along the residues: a of the next one, and in the last row that of `end`. */
static gr_value *of_next(const net *n, gr_value *a, gr_value *end)
{
    gr_value *both[2] = { gr_slice_axis_at(n->site, n->g, a, 1, 1, n->l), row(n, end, n->l - 1) };

    return gr_concat_at(n->site, n->g, both, 2, 1);
}

static gr_value *of_previous(const net *n, gr_value *a, gr_value *end)
{
    gr_value *both[2] = { row(n, end, 0), gr_slice_axis_at(n->site, n->g, a, 1, 0, n->l - 1) };

    return gr_concat_at(n->site, n->g, both, 2, 1);
}

typedef gr_value *neighbour(const net *n, gr_value *a, gr_value *end);

/* a of the neighbour along the chain; at the end of what is there, `end` of the residue itself. */
static gr_value *beside(const net *n, neighbour *of, gr_value *a, gr_value *end)
{
    gr_value *is_there, *none;

    a = of(n, a, end);
    if (!n->mask)
        return a;
    none = gr_fill_at(n->site, n->g, gr_value_dtype(n->mask), GR_SHAPE(n->b, n->l), 0);
    is_there = gr_reshape_at(n->site, n->g, of(n, n->mask, none), GR_SHAPE(n->b, n->l, 1));
    return gr_map3_at(n->site, n->g, "where", is_there, a, end);
}

/* Atom i of every residue, [b, l, 3]. */
static gr_value *atom(const net *n, gr_value *coords, int64_t i)
{
    return gr_reshape_at(n->site, n->g, gr_slice_axis_at(n->site, n->g, coords, 2, i, i + 1),
                         GR_SHAPE(n->b, n->l, 3));
}

/* Sines and cosines of phi, psi and omega, [b, l, 6]. At the ends of the chain the missing
 * atoms are replaced by those of the residue itself. */
static gr_value *angle_features(const net *n, gr_value *coords)
{
    gr_value *nitrogen = atom(n, coords, 0), *alpha = atom(n, coords, 1), *c = atom(n, coords, 2);
    gr_value *before = beside(n, of_previous, c, c);
    gr_value *next_n = beside(n, of_next, nitrogen, nitrogen);
    gr_value *omega_n = beside(n, of_next, nitrogen, alpha);
    gr_value *next_a = beside(n, of_next, alpha, alpha);
    gr_value *angle[3], *both[2];

    angle[0] = dihedral(n, (gr_value *[]){ before, nitrogen, alpha, c });
    angle[1] = dihedral(n, (gr_value *[]){ nitrogen, alpha, c, next_n });
    angle[2] = dihedral(n, (gr_value *[]){ alpha, c, omega_n, next_a });
    both[1] = gr_stack_at(n->site, n->g, angle, 3, 2);
    both[0] = gr_map1_at(n->site, n->g, "sin", both[1]);
    both[1] = gr_map1_at(n->site, n->g, "cos", both[1]);
    return gr_concat_at(n->site, n->g, both, 2, 2);
}

typedef struct edges {
    int64_t k;           /* per residue; edge [i, j] goes from residue i to to[i, j] */
    gr_value *to;        /* rows of [n_rows], [b * l, k] */
    int64_t n_rows;      /* b * l; with a mask as many more, where what is no edge leads */
    gr_value *features;  /* [b * l, k, 35] */
    gr_value *in_degree; /* f32 [b * l, 1] */
} edges;

/* What arrives at each residue along the edges. */
static gr_value *gathered(const net *n, const edges *e, gr_value *x)
{
    int64_t n_nodes = n->b * n->l;

    x = gr_scatter_add_at(n->site, n->g, x, e->to, e->n_rows);
    return e->n_rows == n_nodes ? x : gr_slice_axis_at(n->site, n->g, x, 0, 0, n_nodes);
}

/* Where a residue has fewer than k others, the rest of `near` names itself, infinitely far away:
 * that is no edge. Each residue has a row of its own for these, so that none gets many. */
static void set_ends(const net *n, gr_value *near, gr_value *distance, edges *e)
{
    int64_t n_nodes = n->b * n->l;
    gr_value *none;

    e->to = near;
    e->n_rows = n_nodes;
    if (!n->mask)
        return;
    none = gr_mapk_at(n->site, n->g, "gt", distance, (double)FLT_MAX);
    none = gr_reshape_at(n->site, n->g, none, GR_SHAPE(n_nodes, e->k));
    none = gr_cast_at(n->site, n->g, none, gr_value_dtype(near));
    e->to = map2(n, "add", near, gr_mapk_at(n->site, n->g, "mul", none, (double)n_nodes));
    e->n_rows = 2 * n_nodes;
}

/* Edges go from a residue to each of its nearest: who is near many hears from many. */
static edges make_edges(const net *n, gr_value *coords)
{
    gr_value *alpha = atom(n, coords, 1), *points, *near, *distance, *step, *both[2];
    int64_t k = n->c.neighbours < n->l - 1 ? n->c.neighbours : n->l - 1, n_nodes = n->b * n->l;
    gr_knn_config knn = { .k = k, .in_batch = true };
    gr_rbf_config rbf = { .n = N_RBF, .to = RBF_TO, .width = RBF_TO / N_RBF, .factor = 0.5 };
    edges e = { .k = k };

    near = gr_knn_at(n->site, n->g, alpha, n->mask, knn, &distance);
    near = gr_reshape_at(n->site, n->g, near, GR_SHAPE(n_nodes, k));
    points = gr_reshape_at(n->site, n->g, alpha, GR_SHAPE(n_nodes, 3));
    step = map2(n, "sub", gr_gather_at(n->site, n->g, points, near),
                gr_reshape_at(n->site, n->g, points, GR_SHAPE(n_nodes, 1, 3)));
    both[0] = gr_rbf_at(n->site, n->g, gr_norm_at(n->site, n->g, step, false), rbf);
    both[1] = unit(n, step);
    e.features = gr_concat_at(n->site, n->g, both, 2, 2);
    set_ends(n, near, distance, &e);
    e.in_degree = gathered(n, &e, gr_fill_at(n->site, n->g, GR_F32, GR_SHAPE(n_nodes, k, 1), 1));
    return e;
}

/* Of the layer `name` with n_in inputs: weight and bias as torch.nn.Linear has them. */
typedef struct weights {
    gr_value *w, *b;
} weights;

static weights linear_weights(const net *n, const char *name, int64_t n_in)
{
    gr_layer l = { n->site, n->g, name };
    double bound = 1.0 / sqrt((double)n_in);
    gr_init start = gr_init_uniform(-bound, bound);
    weights w;

    w.w = gr_layer_param(&l, "weight", GR_SHAPE(n->c.width, n_in), NULL, start);
    w.b = gr_layer_param(&l, "bias", GR_SHAPE(n->c.width), NULL, start);
    return w;
}

static gr_value *norm_relu_drop(const net *n, const char *name, gr_value *x)
{
    x = gr_layer_norm_layer_at(n->site, n->g, name, x, 0);
    return gr_dropout_at(n->site, n->g, gr_map1_at(n->site, n->g, "relu", x), n->c.dropout);
}

/*
 * Sum over the edges to a residue of W2 relu(norm(W1 [h_from, features] + b1)) + b2, with
 * the products where there are fewest rows: W1's part for h is applied once per residue
 * rather than once per edge, and W2 after the sum, which it may change places with; b2
 * counts once per edge.
 */
static gr_value *messages(const net *n, const char *name, gr_value *h, const edges *e)
{
    int64_t d = n->c.width, n_nodes = n->b * n->l, sizes[2] = { d, N_RBF + 3 };
    weights first = linear_weights(n, gr_name(n->g, "%s.0", name), sizes[0] + sizes[1]), last;
    gr_value *part[2] = { NULL }, *x;

    gr_split_at(n->site, n->g, first.w, 1, 2, sizes, part);
    x = map2(n, "add", gr_matmul_at(n->site, n->g, h, part[0], false, true), first.b);
    x = gr_reshape_at(n->site, n->g, x, GR_SHAPE(n_nodes, 1, d));
    x = map2(n, "add", gr_matmul_at(n->site, n->g, e->features, part[1], false, true), x);
    x = norm_relu_drop(n, gr_name(n->g, "%s.1", name), x);
    x = gathered(n, e, x);
    last = linear_weights(n, gr_name(n->g, "%s.4", name), d);
    x = gr_matmul_at(n->site, n->g, x, last.w, false, true);
    return map2(n, "add", x, map2(n, "mul", e->in_degree, last.b));
}

static gr_value *update(const net *n, const char *name, gr_value *x)
{
    x = gr_linear_at(n->site, n->g, gr_name(n->g, "%s.0", name), x, n->c.width, NULL);
    x = norm_relu_drop(n, gr_name(n->g, "%s.1", name), x);
    return gr_linear_at(n->site, n->g, gr_name(n->g, "%s.4", name), x, n->c.width, NULL);
}

static gr_value *message_layer(const net *n, int64_t i, gr_value *h, const edges *e)
{
    const char *name = gr_name(n->g, "%sencoder.gnn_layers.%" PRId64, n->prefix, i);
    const char *norm = gr_name(n->g, "%sencoder.layer_norms.%" PRId64, n->prefix, i);
    gr_value *both[2] = { h, NULL }, *x;

    gr_block_begin_at(n->site, n->g, name);
    both[1] = messages(n, gr_name(n->g, "%s.msg_mlp", name), h, e);
    x = gr_concat_at(n->site, n->g, both, 2, 1);
    x = update(n, gr_name(n->g, "%s.update_mlp", name), x);
    x = gr_layer_norm_layer_at(n->site, n->g, norm, map2(n, "add", x, h), 0);
    gr_block_end_at(n->site, n->g);
    return x;
}

/* What the kind of a residue adds to its start; h if nothing is known. */
static gr_value *add_constants(const net *n, gr_value *h, gr_value *constants)
{
    const char *name = gr_name(n->g, "%sencoder.physicochemical_proj", n->prefix);
    gr_value *x;

    if (!constants)
        return h;
    x = gr_linear_at(n->site, n->g, name, constants, n->c.width, NULL);
    return map2(n, "add", h, gr_reshape_at(n->site, n->g, x, GR_SHAPE(n->b * n->l, n->c.width)));
}

static gr_value *encode(const net *n, const gr_protein_input *in)
{
    edges e = make_edges(n, in->coords);
    gr_value *h = gr_reshape_at(n->site, n->g, angle_features(n, in->coords),
                                GR_SHAPE(n->b * n->l, N_FEATURES));

    h = gr_linear_at(n->site, n->g, gr_name(n->g, "%sencoder.dihedral_encoder.proj", n->prefix), h,
                     64, NULL);
    h = gr_linear_at(n->site, n->g, gr_name(n->g, "%sencoder.node_proj", n->prefix), h, n->c.width,
                     NULL);
    h = add_constants(n, h, in->constants);
    for (int64_t i = 0; i < n->c.layers && h; i++)
        h = message_layer(n, i, h, &e);
    return gr_reshape_at(n->site, n->g, h, GR_SHAPE(n->b, n->l, n->c.width));
}

static gr_value *head(const net *n, const char *kind, gr_value *x, int64_t n_out)
{
    gr_layer l = { n->site, n->g, gr_name(n->g, "%sdecoder.%s_head", n->prefix, kind) };
    gr_layer first = gr_layer_inside(&l, "1"), last = gr_layer_inside(&l, "4");

    x = gr_layer_norm_layer_at(n->site, n->g, gr_layer_inside(&l, "0").name, x, 0);
    x = gr_layer_xavier_linear(&first, x, n->c.width);
    x = gr_dropout_at(n->site, n->g, gr_map1_at(n->site, n->g, "gelu", x), n->c.dropout);
    return gr_layer_xavier_linear(&last, x, n_out);
}

/* Tokens know their own residue: its row of memory is added. */
static gr_value *add_residues(const net *n, gr_value *x, gr_value *memory, gr_value *residues)
{
    gr_shape s = gr_value_shape(x);
    gr_value *at;

    if (!residues)
        return x;
    at = gr_reshape_at(n->site, n->g, residues, GR_SHAPE(s.dim[0], s.dim[1], 1));
    return map2(n, "add", x,
                gr_take_along_at(n->site, n->g, memory, 1, gr_broadcast_at(n->site, n->g, at, s)));
}

/* [b, n, n, k] to [b, heads, n, n]; NULL if there is none. */
static gr_value *pair_bias(const net *n, gr_value *pairs)
{
    static const int order[4] = { 0, 3, 1, 2 };
    gr_layer l = { n->site, n->g, gr_name(n->g, "%sdecoder.spatial_bias.mlp", n->prefix) };
    gr_layer first = gr_layer_inside(&l, "0"), last = gr_layer_inside(&l, "2");
    gr_value *x;

    if (!pairs)
        return NULL;
    x = gr_map1_at(n->site, n->g, "gelu", gr_layer_xavier_linear(&first, pairs, PAIR_WIDTH));
    return gr_transpose_at(n->site, n->g, gr_layer_xavier_linear(&last, x, n->c.heads), order);
}

static gr_protein_output decode(const net *n, const gr_protein_input *in, gr_value *memory)
{
    gr_layer proj = { n->site, n->g, gr_name(n->g, "%sdecoder.encoder_proj", n->prefix) };
    gr_init start = gr_init_normal(0, 0.02);
    gr_transformer_opts o = { .heads = n->c.heads,
                              .activation = GR_ACT_GELU,
                              .dropout = n->c.dropout,
                              .xavier = true,
                              .key_mask = in->token_mask,
                              .bias = pair_bias(n, in->pairs),
                              .memory_mask = in->mask };
    gr_value *x = gr_embedding_layer_at(n->site, n->g,
                                        gr_name(n->g, "%sdecoder.fragment_embedding", n->prefix),
                                        in->tokens, n->c.n_fragments, n->c.width, &start);

    x = map2(n, "add", x,
             gr_sinusoid_at(n->site, n->g, gr_value_shape(in->tokens).dim[1], n->c.width, 10000));
    memory = gr_layer_xavier_linear(&proj, memory, n->c.width);
    x = gr_dropout_at(n->site, n->g, add_residues(n, x, memory, in->residues), n->c.dropout);
    for (int64_t i = 0; i < n->c.layers && x; i++)
        x = gr_decoder_layer_at(
            n->site, n->g,
            gr_name(n->g, "%sdecoder.transformer_layers.layers.%" PRId64, n->prefix, i), x, memory,
            &o);
    return (gr_protein_output){ .fragments = head(n, "type", x, n->c.n_fragments),
                                .torsions = head(n, "torsion", x, n->c.n_torsions),
                                .offsets =
                                    n->c.offsets ? head(n, "offset", x, n->c.n_torsions) : NULL };
}

static void fill_usual(gr_protein *c)
{
    c->width = c->width ? c->width : 256;
    c->layers = c->layers ? c->layers : 3;
    c->heads = c->heads ? c->heads : 8;
    c->neighbours = c->neighbours ? c->neighbours : 30;
    c->n_fragments = c->n_fragments ? c->n_fragments : 16;
    c->n_torsions = c->n_torsions ? c->n_torsions : 72;
}

gr_protein_output gr_protein_model_at(const char *site, gr_graph *g, const char *name,
                                      const gr_protein_input *in, const gr_protein *config)
{
    net n = { .site = site, .g = g, .c = config ? *config : (gr_protein){ 0 } };
    gr_shape coords, tokens, mask;
    char text[2][GR_SHAPE_TEXT];

    if (!in) {
        gr_graph_fail(g, site, "protein model '%s': its inputs are NULL", name ? name : "");
        return (gr_protein_output){ 0 };
    }
    coords = gr_value_shape(in->coords);
    tokens = gr_value_shape(in->tokens);
    n.b = coords.dim[0];
    n.l = coords.dim[1];
    if (coords.n_dims != 4 || coords.dim[1] < 2 || coords.dim[2] < 3 || coords.dim[3] != 3 ||
        tokens.n_dims != 2) {
        gr_graph_fail(g, site,
                      "protein model '%s': coordinates %s and tokens %s, expected [b, l, 4, 3] of "
                      "two residues or more and [b, n]",
                      name, gr_shape_text(&coords, text[0], sizeof(text[0])),
                      gr_shape_text(&tokens, text[1], sizeof(text[1])));
        return (gr_protein_output){ 0 };
    }
    mask = gr_value_shape(in->mask);
    if (in->mask && (mask.n_dims != 2 || mask.dim[0] != n.b || mask.dim[1] != n.l)) {
        gr_graph_fail(g, site,
                      "protein model '%s': mask %s of coordinates %s, expected [%" PRId64
                      ", %" PRId64 "]",
                      name ? name : "", gr_shape_text(&mask, text[0], sizeof(text[0])),
                      gr_shape_text(&coords, text[1], sizeof(text[1])), n.b, n.l);
        return (gr_protein_output){ 0 };
    }
    n.mask = in->mask;
    fill_usual(&n.c);
    n.prefix = name && name[0] ? gr_name(g, "%s.", name) : "";
    return decode(&n, in, encode(&n, in));
}
