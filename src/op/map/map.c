/*
 * The operator map: shape and type rules, dumps, and the builders of elementwise
 * operators. Its gradient is in map_grad.c, its kernels in map_cpu.c and map_ref.c.
 *
 * Builders make programs of one function. Longer ones come from gradient rules and from
 * fusing, which joins programs.
 */
#include "op/map/map_impl.h"

#include "gradus/ops.h"

#include <math.h>
#include <string.h>

/* ---- types and shapes ---- */

/* Higher is wider; f16 and bf16 stand side by side. */
static int rank_of(gr_dtype t)
{
    switch (t) {
    case GR_BOOL: return 0;
    case GR_U8: return 1;
    case GR_I32: return 2;
    case GR_I64: return 3;
    case GR_BF16:
    case GR_F16: return 4;
    case GR_F32: return 5;
    case GR_F64: return 6;
    case GR_DTYPE_COUNT: break;
    }
    GR_BUG_IF(true);
}

static gr_dtype promote(gr_dtype a, gr_dtype b)
{
    if (a != b && rank_of(a) == rank_of(b))
        return GR_F32;
    return rank_of(a) > rank_of(b) ? a : b;
}

gr_dtype gr_map_compute_dtype(const gr_node *n)
{
    gr_dtype widest = n->out[0].dtype;

    for (int i = 0; i < n->n_src; i++)
        widest = promote(widest, n->src[i]->dtype);
    if (!gr_dtype_is_float(widest))
        return GR_I64;
    return widest == GR_F64 ? GR_F64 : GR_F32;
}

/* Stretches *to by `s`. False when a dimension differs and neither is 1. */
static bool broadcast_with(gr_shape *to, const gr_shape *s)
{
    gr_shape out = { .n_dims = to->n_dims > s->n_dims ? to->n_dims : s->n_dims };

    for (int i = 1; i <= out.n_dims; i++) {
        int64_t a = i <= to->n_dims ? to->dim[to->n_dims - i] : 1;
        int64_t b = i <= s->n_dims ? s->dim[s->n_dims - i] : 1;

        if (a != b && a != 1 && b != 1)
            return false;
        out.dim[out.n_dims - i] = a == 1 ? b : a;
    }
    *to = out;
    return true;
}

static gr_status check_shapes(const gr_node *n, const gr_program *p)
{
    char text[2][GR_SHAPE_TEXT];
    gr_shape all = GR_SCALAR;

    for (int i = 0; i < n->n_src; i++) {
        const gr_shape *s = &n->src[i]->shape;

        if (!broadcast_with(&all, s))
            return gr_fail(GR_ERR_ARG, "shape %s does not broadcast with %s",
                           gr_shape_text(s, text[0], sizeof(text[0])),
                           gr_shape_text(&all, text[1], sizeof(text[1])));
    }
    GR_TRY(gr_shape_check(&p->shape, p->dtype));
    if (!broadcast_with(&all, &p->shape) || !gr_shape_equal(&all, &p->shape))
        return gr_fail(GR_ERR_ARG, "shape %s does not broadcast to %s",
                       gr_shape_text(&all, text[0], sizeof(text[0])),
                       gr_shape_text(&p->shape, text[1], sizeof(text[1])));
    return GR_OK;
}

/* Programs come from our own code, so a malformed one is a bug. */
static void check_program(const gr_node *n, const gr_program *p)
{
    GR_BUG_IF(p->n_src != n->n_src || p->n_src < 0 || p->n_src > GR_MAP_MAX_SRC);
    GR_BUG_IF(p->n_instr < 0 || p->n_instr > GR_MAP_MAX_INSTR);
    GR_BUG_IF(p->n_instr == 0 && p->n_src != 1);
    for (int i = 0; i < p->n_instr; i++) {
        const gr_instr *in = &p->instr[i];

        GR_BUG_IF(in->fn < 0 || in->fn >= GR_FN_COUNT);
        for (int j = 0; j < gr_scalar_arity((gr_scalar_fn)in->fn); j++)
            GR_BUG_IF(in->reg[j] < 0 || in->reg[j] >= p->n_src + i);
    }
}

static gr_status check_integers(const gr_program *p)
{
    for (int i = 0; i < p->n_instr; i++) {
        const gr_instr *in = &p->instr[i];
        gr_scalar_fn fn = (gr_scalar_fn)in->fn;

        if (gr_scalar_kind_of(fn) == GR_SCALAR_FLOAT)
            return gr_fail(GR_ERR_ARG, "'%s' is not defined on integers: cast one to f32",
                           gr_scalar_name(fn));
        if (fn == GR_FN_CONST && !(fabs(in->k) < 0x1p63 && in->k == floor(in->k)))
            return gr_fail(GR_ERR_ARG, "constant %g with integers: cast them to f32", in->k);
    }
    return GR_OK;
}

static gr_status map_infer(gr_node *n)
{
    const gr_program *p = (const gr_program *)n->attr;

    check_program(n, p);
    GR_TRY(check_shapes(n, p));
    n->out[0].shape = p->shape;
    n->out[0].dtype = p->dtype;
    if (gr_map_compute_dtype(n) == GR_I64)
        GR_TRY(check_integers(p));
    return GR_OK;
}

/* The amp pass narrows floating results; tests stay bool. */
static const void *map_retype(gr_graph *g, const gr_node *n, gr_dtype t)
{
    gr_program *p = gr_arena_new(g->arena, gr_program);

    if (!p)
        return NULL;
    *p = *(const gr_program *)n->attr;
    if (gr_dtype_is_float(p->dtype))
        p->dtype = t;
    return p;
}

/* " add(r0, r1) relu(r2)": registers below n_src are sources. */
static void map_print(const gr_node *n, gr_text *out)
{
    const gr_program *p = (const gr_program *)n->attr;

    if (p->n_instr == 0)
        gr_text_add(out, " copy");
    for (int i = 0; i < p->n_instr; i++) {
        const gr_instr *in = &p->instr[i];
        gr_scalar_fn fn = (gr_scalar_fn)in->fn;

        gr_text_addf(out, " %s(", gr_scalar_name(fn));
        if (fn == GR_FN_CONST)
            gr_text_addf(out, "%.9g", in->k);
        for (int j = 0; j < gr_scalar_arity(fn); j++)
            gr_text_addf(out, "%sr%d", j > 0 ? ", " : "", in->reg[j]);
        gr_text_add(out, ")");
    }
}

const gr_op gr_op_map = {
    .name = "map",
    .n_src = GR_ANY_COUNT,
    .n_out = 1,
    .amp = GR_AMP_FOLLOW,
    .infer = map_infer,
    .grad = gr_map_grad,
    .retype = map_retype,
    .print = map_print,
    .kernels = gr_map_cpu,
};

/* ---- builders ---- */

gr_value *gr_map_add(gr_graph *g, const char *site, gr_value *const *src, const gr_program *p)
{
    gr_build b = {
        .op = &gr_op_map,
        .site = site,
        .src = src,
        .n_src = p->n_src,
        .attr = p,
        .attr_bytes = sizeof(*p),
    };

    return gr_graph_add_value(g, &b);
}

static bool find_fn(const char *site, gr_graph *g, const char *name, int n_args, gr_scalar_fn *fn)
{
    if (!gr_scalar_find(name, fn)) {
        gr_graph_fail(g, site, "map: there is no scalar function '%s'", name);
        return false;
    }
    if (gr_scalar_arity(*fn) != n_args) {
        gr_graph_fail(g, site, "map: '%s' takes %d arguments, not %d", name, gr_scalar_arity(*fn),
                      n_args);
        return false;
    }
    return true;
}

/* The type of fn's result over sources of type t. */
static gr_dtype result_dtype(gr_scalar_fn fn, gr_dtype t)
{
    return gr_scalar_kind_of(fn) == GR_SCALAR_TEST ? GR_BOOL : t;
}

/* A program of one function over as many sources as it takes. Where shapes do not broadcast, the
 * shape so far is kept: infer then says what is wrong. */
static gr_value *add_one(const char *site, gr_graph *g, gr_scalar_fn fn, gr_value *const *src,
                         int n_src, gr_dtype t)
{
    gr_program p = { .dtype = result_dtype(fn, t), .n_src = n_src, .n_instr = 1 };

    p.instr[0] = (gr_instr){ .fn = (int16_t)fn, .reg = { -1, -1, -1 } };
    for (int i = 0; i < n_src; i++) {
        gr_shape s = gr_value_shape(src[i]);

        p.instr[0].reg[i] = (int16_t)i;
        if (!broadcast_with(&p.shape, &s))
            break;
    }
    return gr_map_add(g, site, src, &p);
}

gr_value *gr_map1_at(const char *site, gr_graph *g, const char *fn, gr_value *a)
{
    gr_scalar_fn id;

    if (!find_fn(site, g, fn, 1, &id))
        return NULL;
    return add_one(site, g, id, &a, 1, gr_value_dtype(a));
}

gr_value *gr_map2_at(const char *site, gr_graph *g, const char *fn, gr_value *a, gr_value *b)
{
    gr_scalar_fn id;

    if (!find_fn(site, g, fn, 2, &id))
        return NULL;
    return add_one(site, g, id, (gr_value *[]){ a, b }, 2,
                   promote(gr_value_dtype(a), gr_value_dtype(b)));
}

gr_value *gr_map3_at(const char *site, gr_graph *g, const char *fn, gr_value *a, gr_value *b,
                     gr_value *c)
{
    gr_dtype t = promote(gr_value_dtype(b), gr_value_dtype(c));
    gr_scalar_fn id;

    if (!find_fn(site, g, fn, 3, &id))
        return NULL;
    if (id != GR_FN_WHERE)
        t = promote(t, gr_value_dtype(a));
    else if (gr_dtype_is_float(gr_value_dtype(a)) && !gr_dtype_is_float(t)) {
        /* It would be computed in f32, which does not hold every integer. */
        gr_graph_fail(g, site, "map: 'where' of integers needs an integer or bool condition");
        return NULL;
    }
    return add_one(site, g, id, (gr_value *[]){ a, b, c }, 3, t);
}

gr_value *gr_mapk_at(const char *site, gr_graph *g, const char *fn, gr_value *a, double k)
{
    gr_program p = { .shape = gr_value_shape(a), .n_src = 1, .n_instr = 2 };
    gr_scalar_fn id;

    if (!find_fn(site, g, fn, 2, &id))
        return NULL;
    p.dtype = result_dtype(id, gr_value_dtype(a));
    p.instr[0] = (gr_instr){ .fn = GR_FN_CONST, .reg = { -1, -1, -1 }, .k = k };
    p.instr[1] = (gr_instr){ .fn = (int16_t)id, .reg = { 0, 1, -1 } };
    return gr_map_add(g, site, &a, &p);
}

/* A caller's type and shape, before anything asks for their properties. */
static bool is_valid(gr_graph *g, const char *site, gr_dtype t, const gr_shape *shape)
{
    gr_status st = gr_shape_check(shape, t);

    if (st != GR_OK)
        gr_graph_stick(g, gr_wrap(st, "%s", site));
    return st == GR_OK;
}

gr_value *gr_fill_at(const char *site, gr_graph *g, gr_dtype t, gr_shape shape, double k)
{
    gr_program p = { .shape = shape, .dtype = t, .n_instr = 1 };

    if (!is_valid(g, site, t, &shape))
        return NULL;
    p.instr[0] = (gr_instr){ .fn = GR_FN_CONST, .reg = { -1, -1, -1 }, .k = k };
    return gr_map_add(g, site, NULL, &p);
}

gr_value *gr_cast_at(const char *site, gr_graph *g, gr_value *a, gr_dtype t)
{
    gr_program p = { .shape = gr_value_shape(a), .dtype = t, .n_src = 1 };

    if (!is_valid(g, site, t, &p.shape))
        return NULL;
    if (a && a->dtype == t)
        return a;
    return gr_map_add(g, site, &a, &p);
}

gr_value *gr_broadcast_at(const char *site, gr_graph *g, gr_value *a, gr_shape shape)
{
    gr_program p = { .shape = shape, .dtype = gr_value_dtype(a), .n_src = 1 };

    if (!is_valid(g, site, p.dtype, &shape))
        return NULL;
    if (a && gr_shape_equal(&a->shape, &shape))
        return a;
    return gr_map_add(g, site, &a, &p);
}
