/*
 * The builders of elementwise operators. They make programs of one function, or of one with
 * constants. Longer ones come from gradient rules and from fusing, which joins programs.
 */
#include "op/map/map_impl.h"

#include "gradus/ops.h"

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
    if (!name) {
        gr_graph_fail(g, site, "map: the name of its function is NULL");
        return false;
    }
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
    for (int i = 0; i < n_src; i++)
        p.instr[0].reg[i] = (int16_t)i;
    for (int i = 0; i < n_src; i++) {
        gr_shape s = gr_value_shape(src[i]);

        if (!gr_map_broadcast(&p.shape, &s))
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
                   gr_map_promote(gr_value_dtype(a), gr_value_dtype(b)));
}

gr_value *gr_map3_at(const char *site, gr_graph *g, const char *fn, gr_value *a, gr_value *b,
                     gr_value *c)
{
    gr_dtype t = gr_map_promote(gr_value_dtype(b), gr_value_dtype(c));
    gr_scalar_fn id;

    if (!find_fn(site, g, fn, 3, &id))
        return NULL;
    if (id != GR_FN_WHERE)
        t = gr_map_promote(t, gr_value_dtype(a));
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

/* ---- functions of several constants ---- */

static gr_instr constant(double k)
{
    return (gr_instr){ .fn = GR_FN_CONST, .reg = { -1, -1, -1 }, .k = k };
}

gr_value *gr_clamp_at(const char *site, gr_graph *g, gr_value *a, double lo, double hi)
{
    gr_program p = { .shape = gr_value_shape(a), .dtype = gr_value_dtype(a), .n_src = 1 };

    if (!(lo <= hi)) {
        gr_graph_fail(g, site, "clamp: from %g to %g leaves nothing", lo, hi);
        return NULL;
    }
    p.instr[p.n_instr++] = constant(lo);
    p.instr[p.n_instr++] = constant(hi);
    p.instr[p.n_instr++] = (gr_instr){ .fn = GR_FN_CLAMP, .reg = { 0, 1, 2 } };
    return gr_map_add(g, site, &a, &p);
}

gr_value *gr_masked_fill_at(const char *site, gr_graph *g, gr_value *a, gr_value *mask, double k)
{
    gr_program p = { .shape = gr_value_shape(a), .dtype = gr_value_dtype(a), .n_src = 2 };
    gr_shape s = gr_value_shape(mask);

    if (gr_dtype_is_float(gr_value_dtype(mask)) && !gr_dtype_is_float(p.dtype)) {
        gr_graph_fail(g, site, "masked_fill: the mask of integers must be integers or bool");
        return NULL;
    }
    (void)gr_map_broadcast(&p.shape, &s); /* where it fails, infer says what is wrong */
    p.instr[p.n_instr++] = constant(k);
    p.instr[p.n_instr++] = (gr_instr){ .fn = GR_FN_WHERE, .reg = { 1, 2, 0 } };
    return gr_map_add(g, site, (gr_value *[]){ a, mask }, &p);
}

gr_value *gr_pow_at(const char *site, gr_graph *g, gr_value *a, double k)
{
    static const struct {
        double k;
        const char *fn;
    } known[] = { { 2, "square" }, { 0.5, "sqrt" }, { -0.5, "rsqrt" }, { -1, "reciprocal" } };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (k == known[i].k)
            return gr_map1_at(site, g, known[i].fn, a);
    return k == 1 && a ? a : gr_mapk_at(site, g, "pow", a, k);
}

gr_value *gr_scale_shift_at(const char *site, gr_graph *g, gr_value *x, gr_value *scale,
                            gr_value *shift)
{
    gr_value *src[] = { x, scale, shift };
    gr_program p = { .dtype = gr_value_dtype(x), .n_src = 3, .n_instr = 2 };

    for (int i = 0; i < 3; i++) {
        gr_shape s = gr_value_shape(src[i]);

        if (!gr_map_broadcast(&p.shape, &s))
            break;
    }
    p.instr[0] = (gr_instr){ .fn = GR_FN_MUL, .reg = { 0, 1, -1 } };
    p.instr[1] = (gr_instr){ .fn = GR_FN_ADD, .reg = { 3, 2, -1 } };
    return gr_map_add(g, site, src, &p);
}
