/*
 * A node with a fusion in pieces: a small graph of maps, the operator and reductions, each
 * with a kernel of its own, whose results lie in the workspace or, where one is stored as it
 * is, at its place.
 *
 *     [map: load]..  ─►  operator  ─►  [map: one register]  ─►  [reduce]
 *
 * (1) A stored register is computed by a map over the program up to it. One that is reduced
 *     is read where it is stored in f32, or else computed once more.
 * (2) A distance's mean is computed first, then squares of distances are summed.
 * (3) The workspace is the values between pieces, each at a place of its own, and after them
 *     room for the largest piece's own workspace.
 *
 * This is the law for kernels that carry out fusions, as the reference is for operators: with
 * GR_KERNEL's `only` set to "reference", all pieces are references.
 */
#include "op/fusion.h"

#include "base/alloc.h"
#include "base/size.h"
#include "op/map/program.h"
#include "op/reduce/reduce.h"

#include <string.h>

#define ALIGN      ((size_t)256)
#define MOST_EACH  4 /* pieces of an end: register, mean, squares, sum */
#define MAX_PIECES (GR_FUSION_MAX_SRC + 1 + MOST_EACH * GR_FUSION_MAX_ENDS)

/* Where a value lies while a node runs. */
typedef enum where { AT_SRC, AT_OUT, AT_WORK } where;

typedef struct place {
    where in;
    size_t at; /* which source or result of the node; bytes into the workspace */
} place;

typedef struct piece {
    gr_node node;
    union {
        gr_program program;
        gr_reduce_attr reduce;
    } attr;
    gr_value *src[GR_MAP_MAX_SRC];
    gr_value out[GR_FUSION_MAX_OUT];
    place from[GR_MAP_MAX_SRC], to[GR_FUSION_MAX_OUT];
    gr_ready ready;
} piece;

typedef struct apart {
    const gr_node *node;
    gr_plain plain;
    int n;
    size_t between, work; /* bytes: of values between pieces, of a piece's own workspace */
    piece pieces[MAX_PIECES];
} apart;

/* ---- making pieces ---- */

static place between(apart *a, const gr_value *v)
{
    place p = { AT_WORK, a->between };

    a->between += gr_round_up(gr_value_bytes(v), ALIGN);
    return p;
}

static piece *add(apart *a, const gr_op *op, int n_src)
{
    piece *p = &a->pieces[a->n++];

    GR_BUG_IF(a->n > MAX_PIECES);
    p->node = (gr_node){ .op = op,
                         .id = a->node->id,
                         .phase = a->node->phase,
                         .n_src = n_src,
                         .n_out = 1,
                         .src = p->src,
                         .out = p->out,
                         .attr = &p->attr,
                         .site = a->node->site };
    p->out[0] = (gr_value){ .node = &p->node, .id = -1, .space = GR_SPACE_ARENA };
    return p;
}

/* A map over value v: the program up to register `reg`, as type t. */
static gr_status add_map(apart *a, const gr_fused_program *f, int reg, gr_dtype t, gr_value *v,
                         place at)
{
    piece *p = add(a, &gr_op_map, f->program->n_src);

    p->attr.program = *f->program;
    p->attr.program.dtype = t;
    p->attr.program.n_instr = reg < p->node.n_src ? 0 : reg - p->node.n_src + 1;
    if (reg == 0) /* a copy reads nothing else */
        p->node.n_src = p->attr.program.n_src = 1;
    p->src[0] = v;
    p->from[0] = at;
    for (int s = 1; s < p->node.n_src; s++) {
        p->src[s] = a->node->src[f->first + s - 1];
        p->from[s] = (place){ AT_SRC, (size_t)(f->first + s - 1) };
    }
    return gr_op_map.infer(&p->node);
}

static gr_status add_reduce(apart *a, const gr_fused_end *e, gr_reduce_fn fn, gr_value *v, place at)
{
    piece *p = add(a, &gr_op_reduce, 1);

    p->attr.reduce =
        (gr_reduce_attr){ .fn = fn, .axes = e->axes, .keep = e->keep, .dtype = GR_F32 };
    p->src[0] = v;
    p->from[0] = at;
    return gr_op_reduce.infer(&p->node);
}

static piece *last(apart *a)
{
    return &a->pieces[a->n - 1];
}

static place keep_between(apart *a)
{
    return last(a)->to[0] = between(a, &last(a)->out[0]);
}

static gr_status add_loads(apart *a)
{
    const gr_node *n = a->node;

    for (int s = 0; s < n->fusion->n_own_src; s++) {
        const gr_program *p = gr_fusion_load(n, s);

        if (!p)
            continue;
        GR_TRY(add_map(a, &n->fusion->load[s], p->n_src + p->n_instr - 1, p->dtype, n->src[s],
                       (place){ AT_SRC, (size_t)s }));
        keep_between(a);
    }
    return GR_OK;
}

/* The end that stores the operator's result as it is: -1: none. */
static int end_of_own(const gr_fusion *f)
{
    for (int i = 0; i < f->n_ends; i++)
        if (f->ends[i].fate == GR_FATE_STORE && f->ends[i].reg == 0 &&
            f->ends[i].dtype == f->own[0].dtype)
            return i;
    return -1;
}

static piece *add_core(apart *a)
{
    const gr_fusion *f = a->node->fusion;
    piece *p = add(a, a->node->op, 0);
    int stored = end_of_own(f), n_loaded = 0;

    gr_fusion_plain(a->node, &a->plain);
    p->node = a->plain.node;
    for (int s = 0; s < f->n_own_src; s++) {
        bool is_loaded = gr_fusion_load(a->node, s) != NULL;

        p->from[s] = is_loaded ? a->pieces[n_loaded++].to[0] : (place){ AT_SRC, (size_t)s };
    }
    for (int i = 1; i < f->n_own_out; i++)
        p->to[i] = (place){ AT_OUT, (size_t)(f->n_ends + i - 1) };
    p->to[0] = stored >= 0 ? (place){ AT_OUT, (size_t)stored } : between(a, &a->plain.own[0]);
    return p;
}

/* The f32 numbers of a register: rule (1). */
static gr_status find_register(apart *a, const piece *core, int reg, gr_value **v, place *at)
{
    const gr_fusion *f = a->node->fusion;

    *v = &a->plain.own[0];
    *at = core->to[0];
    if (reg == 0)
        return GR_OK;
    for (int i = 0; i < f->n_ends; i++)
        if (f->ends[i].fate == GR_FATE_STORE && f->ends[i].reg == reg &&
            f->ends[i].dtype == GR_F32) {
            *v = &a->node->out[i];
            *at = (place){ AT_OUT, (size_t)i };
            return GR_OK;
        }
    GR_TRY(add_map(a, &f->end, reg, GR_F32, *v, *at));
    *v = &last(a)->out[0];
    *at = keep_between(a);
    return GR_OK;
}

/* Squares of distances of v from its mean over the end's axes. */
static gr_status add_squares(apart *a, const gr_fused_end *e, gr_value **v, place *at)
{
    gr_fused_end mean = *e;
    piece *p;

    mean.keep = true;
    GR_TRY(add_reduce(a, &mean, GR_MEAN, *v, *at));
    keep_between(a);
    p = add(a, &gr_op_map, 2);
    p->attr.program = (gr_program){ .shape = (*v)->shape, .dtype = GR_F32, .n_src = 2 };
    p->attr.program.n_instr = 2;
    p->attr.program.instr[0] = (gr_instr){ .fn = GR_FN_SUB, .reg = { 0, 1, -1 } };
    p->attr.program.instr[1] = (gr_instr){ .fn = GR_FN_SQUARE, .reg = { 2, -1, -1 } };
    p->src[0] = *v;
    p->from[0] = *at;
    p->src[1] = &(p - 1)->out[0];
    p->from[1] = (p - 1)->to[0];
    GR_TRY(gr_op_map.infer(&p->node));
    *v = &p->out[0];
    *at = keep_between(a);
    return GR_OK;
}

static gr_status add_reduced(apart *a, const piece *core, int i)
{
    const gr_fused_end *e = &a->node->fusion->ends[i];
    gr_value *v;
    place at;

    GR_TRY(find_register(a, core, e->reg, &v, &at));
    if (e->fate == GR_FATE_M2)
        GR_TRY(add_squares(a, e, &v, &at));
    GR_TRY(add_reduce(a, e, e->fate == GR_FATE_MEAN ? GR_MEAN : GR_SUM, v, at));
    last(a)->to[0] = (place){ AT_OUT, (size_t)i };
    return GR_OK;
}

static gr_status make_pieces(apart *a, int *core_at)
{
    const gr_fusion *f = a->node->fusion;
    const piece *core;

    GR_TRY(add_loads(a));
    *core_at = a->n;
    core = add_core(a);
    for (int i = 0; i < f->n_ends; i++) {
        const gr_fused_end *e = &f->ends[i];

        if (e->fate != GR_FATE_STORE || i == end_of_own(f))
            continue;
        GR_TRY(add_map(a, &f->end, e->reg, e->dtype, &a->plain.own[0], core->to[0]));
        last(a)->to[0] = (place){ AT_OUT, (size_t)i };
    }
    for (int i = 0; i < f->n_ends; i++) /* what is stored is there by now */
        if (f->ends[i].fate != GR_FATE_STORE)
            GR_TRY(add_reduced(a, core, i));
    return GR_OK;
}

/* ---- the kernel ---- */

static const char *apart_takes(const gr_node *n, const gr_fusion *f)
{
    (void)n;
    (void)f;
    return NULL;
}

static void apart_release(void *data)
{
    apart *a = (apart *)data;

    for (int i = 0; a && i < a->n; i++)
        gr_kernel_end(&a->pieces[i].ready);
    gr_free(a);
}

static gr_status ready_piece(apart *a, int i, bool is_core, const gr_prepare *p)
{
    piece *e = &a->pieces[i];
    gr_prepare inner = gr_prepare_for(p, &e->node);
    bool declined; /* either way this kernel cannot */

    if (is_core && p->variant)
        GR_TRY(gr_kernel_ready_choice(&e->ready, &inner, p->variant, &declined));
    else
        GR_TRY(gr_kernel_ready(&e->ready, &inner, NULL));
    if (e->ready.work_bytes > a->work)
        a->work = e->ready.work_bytes;
    return e->ready.kernel->no_capture
               ? gr_fail(GR_ERR_ARG, "kernel '%s' cannot be recorded", e->ready.kernel->name)
               : GR_OK;
}

static gr_status apart_prepare(gr_prepare *p)
{
    apart *a = (apart *)gr_calloc(1, sizeof(*a));
    int core = 0;
    gr_status st;

    if (!a)
        return GR_ERR_NOMEM;
    a->node = p->node;
    st = make_pieces(a, &core);
    for (int i = 0; i < a->n && st == GR_OK; i++)
        st = ready_piece(a, i, i == core, p);
    if (st != GR_OK)
        apart_release(a);
    if (st == GR_ERR_ARG)
        return gr_decline(p, "%s", gr_error_message());
    p->data = st == GR_OK ? a : NULL;
    return st;
}

static size_t apart_workspace(const gr_node *n, const void *data)
{
    const apart *a = (const apart *)data;

    (void)n;
    return a->between + a->work;
}

static void *address(const gr_launch *l, const place *p)
{
    switch (p->in) {
    case AT_SRC: return l->src[p->at];
    case AT_OUT: return l->out[p->at];
    case AT_WORK: break;
    }
    return (char *)l->work + p->at;
}

static gr_status apart_run(const gr_launch *l)
{
    const apart *a = (const apart *)l->data;

    for (int i = 0; i < a->n; i++) {
        const piece *p = &a->pieces[i];
        void *src[GR_MAP_MAX_SRC], *out[GR_FUSION_MAX_OUT];
        gr_launch inner = *l;

        for (int s = 0; s < p->node.n_src; s++)
            src[s] = address(l, &p->from[s]);
        for (int o = 0; o < p->node.n_out; o++)
            out[o] = address(l, &p->to[o]);
        inner.node = &p->node;
        inner.src = src;
        inner.out = out;
        inner.data = p->ready.data;
        inner.work = p->ready.work_bytes ? (char *)l->work + a->between : NULL;
        GR_TRY(p->ready.kernel->run(&inner));
    }
    return GR_OK;
}

/* ---- variants ---- */

static gr_status add_variants(const gr_kernel *k, const gr_prepare *p, gr_text *out)
{
    gr_text own = GR_TEXT_INIT;
    gr_status st = k->variants(p, &own);

    for (const char *at = gr_text_str(&own); st == GR_OK && *at;) {
        size_t len = strcspn(at, "\n");

        gr_text_addf(out, "%s:%.*s\n", k->name, (int)len, at);
        at += len + (at[len] == '\n');
    }
    gr_text_fini(&own);
    return st;
}

static gr_status apart_variants(const gr_prepare *p, gr_text *out)
{
    gr_prepare inner;
    const gr_kernel *k;
    gr_plain plain;

    gr_fusion_plain(p->node, &plain);
    inner = gr_prepare_for(p, &plain.node);
    for (int i = 0; (k = gr_kernel_at(p->sets, &plain.node, i)); i++) {
        if (gr_kernel_refusal(k, &plain.node) || strcmp(k->name, "reference") == 0)
            continue;
        if (k->variants)
            GR_TRY(add_variants(k, &inner, out));
        else
            gr_text_addf(out, "%s\n", k->name);
    }
    return gr_text_status(out);
}

const gr_kernel gr_fusion_apart = {
    .name = "apart",
    .takes = apart_takes,
    .variants = apart_variants,
    .prepare = apart_prepare,
    .workspace = apart_workspace,
    .run = apart_run,
    .release = apart_release,
};
