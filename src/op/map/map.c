/*
 * The operator map: shape and type rules, dumps. Its builders are in map_build.c, its
 * gradient in map_grad.c, its kernels in map_cpu.c and map_ref.c.
 */
#include "op/map/map_impl.h"

#include <math.h>

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

gr_dtype gr_map_promote(gr_dtype a, gr_dtype b)
{
    if (a != b && rank_of(a) == rank_of(b))
        return GR_F32;
    return rank_of(a) > rank_of(b) ? a : b;
}

gr_dtype gr_map_compute_dtype(const gr_node *n)
{
    gr_dtype widest = n->out[0].dtype;

    for (int i = 0; i < n->n_src; i++)
        widest = gr_map_promote(widest, n->src[i]->dtype);
    if (!gr_dtype_is_float(widest))
        return GR_I64;
    return widest == GR_F64 ? GR_F64 : GR_F32;
}

bool gr_map_broadcast(gr_shape *to, const gr_shape *s)
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

        if (!gr_map_broadcast(&all, s))
            return gr_fail(GR_ERR_ARG, "shape %s does not broadcast with %s",
                           gr_shape_text(s, text[0], sizeof(text[0])),
                           gr_shape_text(&all, text[1], sizeof(text[1])));
    }
    GR_TRY(gr_shape_check(&p->shape, p->dtype));
    if (!gr_map_broadcast(&all, &p->shape) || !gr_shape_equal(&all, &p->shape))
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

static gr_status check_floats(const gr_program *p)
{
    for (int i = 0; i < p->n_instr; i++) {
        gr_scalar_fn fn = (gr_scalar_fn)p->instr[i].fn;

        if (gr_scalar_kind_of(fn) == GR_SCALAR_INT)
            return gr_fail(GR_ERR_ARG, "'%s' is defined on integers only", gr_scalar_name(fn));
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
    return gr_map_compute_dtype(n) == GR_I64 ? check_integers(p) : check_floats(p);
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
