/*
 * Joining maps: a map that is read by a map becomes part of it, and its result is never
 * stored.
 *
 *     %5 = add(%4, %3)   %6 = relu(%5)        ─►   %6 = map(%4, %3) add(r0, r1) relu(r2)
 *
 * Which ones (P is the producer, C a reader of it):
 * (1) Both belong to the forward or backward pass, P's result lies in the arena, is no
 *     output and nobody's view. P reads nothing that an exchange changes meanwhile.
 * (2) P's result is as large as C's: then each element is still computed once. A copy that
 *     only stretches, and a constant, go into every map that reads them.
 * (3) C is the only reader. Or all readers are maps of that size, P is an instruction or
 *     two of the cheap kind over one large source no wider than its result: to read the
 *     source again costs what reading the result would.
 * (4) From the forward into the backward pass only when that keeps no more memory alive.
 * (5) Both are computed in one type, and the value in between is of that type; or it is
 *     what a comparison gives; or a 16-bit float. The last one loses its rounding: the
 *     joined value is nearer to the f32 result, never further. A cast to 16 bits is there
 *     for its rounding, and stays.
 * (6) Two of the forward pass are of one block of the trace, if of any: what leaves a block
 *     is what the recompute pass keeps.
 * (7) The program keeps within the limits below, so that its tiles stay in the L1 cache.
 *
 * In f32 the bits do not change: the same instructions run in the same order.
 */
#include "pass/fuse.h"
#include "base/alloc.h"
#include "op/map/join.h"

static const gr_join_limits limits = { .n_src = 10, .n_instr = 48 };

static const gr_program *program_of(const gr_node *n)
{
    return (const gr_program *)n->attr;
}

bool gr_fuse_is_map(const gr_node *n)
{
    return n->op == &gr_op_map && (n->phase == GR_PHASE_FORWARD || n->phase == GR_PHASE_BACKWARD);
}

static bool changes_type(const gr_node *n)
{
    return program_of(n)->n_instr == 0 && n->src[0]->dtype != n->out[0].dtype;
}

/* Whether `v` stands among the first `end` sources of the node. */
static bool reads_before(const gr_node *n, int end, const gr_value *v)
{
    for (int s = 0; s < end; s++)
        if (n->src[s] == v)
            return true;
    return false;
}

void gr_fuse_count(gr_fuser *f, const gr_node *n, int by)
{
    for (int s = 0; s < n->n_src; s++)
        if (!reads_before(n, s, n->src[s]))
            f->n_readers[n->src[s]->id] += by;
}

static void keep(gr_fuser *f, const gr_value *v)
{
    for (; v; v = v->alias)
        f->is_kept[v->id] = true;
}

static gr_status fuser_init(gr_fuser *f, gr_graph *g)
{
    size_t n = (size_t)g->n_values + 1;

    f->g = g;
    f->n_readers = gr_calloc(n, sizeof(*f->n_readers));
    f->is_kept = gr_calloc(n, sizeof(*f->is_kept));
    f->is_cast = gr_calloc(n, sizeof(*f->is_cast));
    if (!f->n_readers || !f->is_kept || !f->is_cast)
        return GR_ERR_NOMEM;
    for (int i = 0; i < g->n_nodes; i++) {
        gr_fuse_count(f, g->nodes[i], 1);
        if (gr_fuse_is_map(g->nodes[i]))
            f->is_cast[g->nodes[i]->out[0].id] = changes_type(g->nodes[i]);
    }
    for (int i = 0; i < g->n_outputs; i++)
        keep(f, g->outputs[i].value);
    keep(f, g->loss);
    keep(f, g->control);
    return GR_OK;
}

/* ---- whether ---- */

/* Rule (1). */
bool gr_fuse_is_free(const gr_fuser *f, const gr_node *p)
{
    const gr_value *v = &p->out[0];

    if (v->space != GR_SPACE_ARENA || v->alias || v->var || f->is_kept[v->id])
        return false;
    for (int s = 0; s < p->n_src; s++)
        if (gr_value_root(p->src[s])->space == GR_SPACE_EXCHANGE)
            return false;
    return true;
}

/* A constant or a copy of something smaller: rule (2). */
static bool is_stretch(const gr_node *p)
{
    if (p->n_src == 0)
        return true;
    return program_of(p)->n_instr == 0 && p->src[0]->dtype == p->out[0].dtype &&
           gr_shape_count(&p->src[0]->shape) < gr_shape_count(&p->out[0].shape);
}

static bool is_same_size(const gr_node *p, const gr_node *c)
{
    return gr_shape_equal(&p->out[0].shape, &c->out[0].shape);
}

static bool ends_in_test(const gr_program *p)
{
    return p->n_instr > 0 &&
           gr_scalar_kind_of((gr_scalar_fn)p->instr[p->n_instr - 1].fn) == GR_SCALAR_TEST;
}

/* Rule (5), all but the type of the joined node. */
static bool is_exact_between(const gr_fuser *f, const gr_node *p, gr_dtype compute)
{
    gr_dtype t = p->out[0].dtype;

    if (gr_map_compute_dtype(p) != compute)
        return false;
    if (t == compute || (t == GR_BOOL && ends_in_test(program_of(p))))
        return true;
    return (t == GR_BF16 || t == GR_F16) && !f->is_cast[p->out[0].id];
}

/* Bytes of sources that are as large as the result; small ones do not count. */
static size_t large_source_bytes(const gr_node *p, int *n_large)
{
    size_t n_bytes = 0;

    *n_large = 0;
    for (int s = 0; s < p->n_src; s++)
        if (gr_shape_count(&p->src[s]->shape) == gr_shape_count(&p->out[0].shape) &&
            gr_value_root(p->src[s])->space == GR_SPACE_ARENA) {
            n_bytes += gr_value_bytes(p->src[s]);
            ++*n_large;
        }
    return n_bytes;
}

static bool is_cheap_fn(int fn)
{
    switch (fn) {
    case GR_FN_CONST:
    case GR_FN_ADD:
    case GR_FN_SUB:
    case GR_FN_MUL:
    case GR_FN_NEG:
    case GR_FN_SQUARE:
    case GR_FN_RELU:
    case GR_FN_RELU_GRAD: return true;
    default: return false;
    }
}

static bool is_cheap(const gr_node *p)
{
    const gr_program *prog = program_of(p);
    int n_large, n = 0;

    for (int i = 0; i < prog->n_instr; i++) {
        if (!is_cheap_fn(prog->instr[i].fn))
            return false;
        n += prog->instr[i].fn != GR_FN_CONST;
    }
    return n <= 2 && large_source_bytes(p, &n_large) <= gr_value_bytes(&p->out[0]) && n_large < 2;
}

bool gr_fuse_may_meet(const gr_node *p, const gr_node *c)
{
    return p->block == c->block || p->phase != GR_PHASE_FORWARD || c->phase != GR_PHASE_FORWARD;
}

/* Rules (2), (4), (5) and (6) for this pair. */
static bool fits(const gr_fuser *f, const gr_node *p, const gr_node *c)
{
    int n_large;

    if (!gr_fuse_is_map(c) || !is_exact_between(f, p, gr_map_compute_dtype(c)))
        return false;
    if (is_stretch(p))
        return true;
    if (!is_same_size(p, c) || !gr_fuse_may_meet(p, c))
        return false;
    return p->phase == c->phase || large_source_bytes(p, &n_large) <= gr_value_bytes(&p->out[0]);
}

static bool all_readers_fit(const gr_fuser *f, const gr_node *p)
{
    for (int i = 0; i < f->g->n_nodes; i++) {
        const gr_node *n = f->g->nodes[i];

        if (reads_before(n, n->n_src, &p->out[0]) && !fits(f, p, n))
            return false;
    }
    return true;
}

static bool may_join(const gr_fuser *f, const gr_node *p, const gr_node *c)
{
    if (!gr_fuse_is_map(p) || !gr_fuse_is_free(f, p) || !fits(f, p, c))
        return false;
    if (is_stretch(p) || f->n_readers[p->out[0].id] == 1)
        return true;
    return is_cheap(p) && all_readers_fit(f, p);
}

/* ---- joining ---- */

static gr_status replace(gr_fuser *f, gr_node *c, const gr_joined *j)
{
    size_t n = (size_t)j->p.n_src;
    gr_program *prog = gr_arena_new(f->g->arena, gr_program);
    gr_value **src = gr_arena_array(f->g->arena, n + 1, sizeof(*src));

    if (!prog || !src)
        return GR_ERR_NOMEM;
    *prog = j->p;
    for (size_t s = 0; s < n; s++)
        src[s] = j->src[s];
    gr_fuse_count(f, c, -1);
    c->attr = prog;
    c->src = src;
    c->n_src = (int)n;
    gr_fuse_count(f, c, 1);
    return GR_OK;
}

/* The joined node must be computed in the type of before. */
static bool keeps_type(const gr_node *c, gr_joined *j)
{
    gr_node joined = *c;

    joined.src = j->src;
    joined.n_src = j->p.n_src;
    return gr_map_compute_dtype(&joined) == gr_map_compute_dtype(c);
}

static gr_status try_join(gr_fuser *f, gr_node *c, const gr_value *v, bool *joined)
{
    gr_joined j;

    *joined = may_join(f, v->node, c) && gr_map_join(&j, c, v, &limits) && keeps_type(c, &j);
    if (!*joined)
        return GR_OK;
    GR_TRY(replace(f, c, &j));
    if (f->n_readers[v->id] == 0)
        gr_fuse_count(f, v->node, -1); /* it is dead and reads nothing more */
    return GR_OK;
}

static gr_status fuse_node(gr_fuser *f, gr_node *c)
{
    for (int s = 0; s < c->n_src;) {
        bool joined;

        GR_TRY(try_join(f, c, c->src[s], &joined));
        s = joined ? 0 : s + 1; /* sources are new: from the start */
    }
    return GR_OK;
}

gr_status gr_pass_fuse(gr_graph *g, const gr_kernel_set *sets)
{
    gr_fuser f = { 0 };
    gr_status st = fuser_init(&f, g);

    for (int i = 0; i < g->n_nodes && st == GR_OK; i++)
        if (gr_fuse_is_map(g->nodes[i]))
            st = fuse_node(&f, g->nodes[i]);
    if (st == GR_OK)
        st = gr_graph_prune(g); /* of what was joined: a dead map must not be offered */
    if (st == GR_OK)
        st = gr_fuse_offer(&f, sets);
    gr_free(f.n_readers);
    gr_free(f.is_kept);
    gr_free(f.is_cast);
    return st == GR_OK ? gr_graph_prune(g) : st;
}
