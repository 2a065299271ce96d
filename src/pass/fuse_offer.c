/*
 * Offering fusions: maps around a node that is no map become part of it where a kernel takes
 * that (graph/fusion.h).
 *
 *   on its result   %4 = matmul(%0, %1)   %6 = map(%4, %3) add(r0, r1) relu(r2)
 *                   ─►  %6 = matmul(%0, %1, %3) then add(r0, r1) relu(r2)
 *   kept            the same where others read %4, too: two results, %4 among them
 *   reduced         %7 = reduce(%6) sum over 0    ─►  a further result of the node of %6
 *                   %7, %8, %9 = batch_stats(%6)  ─►  two of them, and the count a constant
 *   on load         %2 = map(%0) relu(r0)   %4 = matmul(%2, %1)   ─►  matmul(%0, %1) load 0 ..
 *
 * (1) A map is of the result's (or source's) shape, computed in f32, of the same phase, and
 *     few further sources are read: each is one more stream through the cache.
 * (2) What becomes part of another node is no output, and nobody else reads it; with "kept"
 *     and "reduced" everything stays readable.
 * (3) The node's kernels are asked in order, up to the first that would run it unfused: a
 *     fusion must not cost the faster kernel. Most have no `takes`, and then nothing is built.
 * (4) With "on its result" alone the map's node becomes the new one, so it keeps its place.
 *     With the others it is the operator's node: what it reads in addition stands before it.
 * In f32 the bits do not change; a 16-bit result is no longer rounded in between.
 */
#include "graph/op.h"
#include "op/fusion.h"
#include "op/map/program.h"
#include "op/norm/norm.h"
#include "op/reduce/reduce.h"
#include "pass/fuse.h"

#include <string.h>

#define MAX_MORE 6 /* sources beside the operator's own */

/* ---- asking ---- */

static bool may_be_fused(const gr_node *p)
{
    if (p->op == &gr_op_map || p->op->has_effect || p->n_out < 1 || p->n_src < 1 ||
        p->phase > GR_PHASE_BACKWARD)
        return false;
    if (p->fusion ? false : p->n_src > GR_FUSION_MAX_SRC || p->n_out > GR_FUSION_MAX_OUT)
        return false;
    for (int i = 0; i < p->n_out; i++)
        if (p->out[i].space != GR_SPACE_ARENA || p->out[i].alias || p->out[i].var)
            return false;
    return true;
}

/* Whether any kernel that is asked could take something: rule (3) without the fusion. */
static bool some_may_take(const gr_kernel_set *sets, const gr_node *p)
{
    for (const gr_kernel *k = gr_kernel_list(sets, p->op); k && k->name; k++) {
        if (k->takes)
            return true;
        if (!gr_kernel_refusal(k, p))
            return false;
    }
    return false;
}

/* Rule (3): `fused` is what `p` would become. */
static bool some_takes(const gr_kernel_set *sets, const gr_node *p, const gr_node *fused)
{
    for (const gr_kernel *k = gr_kernel_list(sets, p->op); k && k->name; k++) {
        if (!gr_kernel_refusal(k, fused))
            return true;
        if (!gr_kernel_refusal(k, p))
            return false;
    }
    return false;
}

/* ---- the node that is offered ---- */

/* A node on trial: nothing points to it, and the arena keeps what is thrown away. */
typedef struct offer {
    gr_node node;
    gr_fusion *f;
    gr_fused_program *load; /* f->load */
    gr_value out[GR_FUSION_MAX_ENDS + GR_FUSION_MAX_OUT];
} offer;

/* `p` with room for more sources, and a fusion that can be changed. */
static gr_status offer_init(offer *o, gr_graph *g, const gr_node *p)
{
    gr_fusion *f = gr_arena_new(g->arena, gr_fusion);
    gr_fused_program *load = gr_arena_array(g->arena, GR_FUSION_MAX_SRC, sizeof(*load));
    gr_value **src =
        gr_arena_array(g->arena, (size_t)p->n_src + 2 * GR_MAP_MAX_SRC, sizeof(gr_value *));

    if (!f || !load || !src)
        return GR_ERR_NOMEM;
    o->node = *p;
    if (p->fusion) {
        *f = *p->fusion;
    } else {
        f = gr_fusion_new(g, p, &o->node.attr);
        if (!f)
            return GR_ERR_NOMEM;
    }
    if (f->load)
        memcpy(load, f->load, (size_t)f->n_own_src * sizeof(*load));
    f->load = o->load = load;
    memcpy(src, p->src, (size_t)p->n_src * sizeof(gr_value *));
    memcpy(o->out, p->out, (size_t)p->n_out * sizeof(gr_value));
    o->f = f;
    o->node.fusion = f;
    o->node.src = src;
    o->node.out = o->out;
    return GR_OK;
}

/* Whether it is a node at all, and a kernel takes it in place of `p`. */
static bool is_taken(offer *o, const gr_kernel_set *sets, const gr_node *p)
{
    for (int i = 0; i < o->node.n_out; i++)
        o->out[i].space = GR_SPACE_ARENA;
    return gr_node_infer(&o->node) == GR_OK && some_takes(sets, p, &o->node);
}

/* The map's program with `v` as source 0 and its other sources as further ones of the node. */
static gr_status add_program(offer *o, gr_graph *g, const gr_node *map, const gr_value *v,
                             gr_fused_program *out)
{
    const gr_program *old = (const gr_program *)map->attr;
    gr_program *made = gr_arena_new(g->arena, gr_program);
    int16_t reg[GR_MAP_MAX_SRC + GR_MAP_MAX_INSTR];

    if (!made)
        return GR_ERR_NOMEM;
    *made = (gr_program){ .shape = old->shape, .dtype = old->dtype, .n_src = 1 };
    *out = (gr_fused_program){ .program = made, .first = o->node.n_src };
    for (int s = 0; s < map->n_src; s++) {
        reg[s] = map->src[s] == v ? 0 : (int16_t)made->n_src;
        if (map->src[s] == v)
            continue;
        o->node.src[o->node.n_src++] = map->src[s];
        made->n_src++;
    }
    made->n_instr = old->n_instr;
    for (int i = 0; i < old->n_instr; i++) {
        made->instr[i] = old->instr[i];
        for (int a = 0; a < 3; a++)
            if (old->instr[i].reg[a] >= 0)
                made->instr[i].reg[a] = reg[old->instr[i].reg[a]];
        reg[old->n_src + i] = (int16_t)(made->n_src + i);
    }
    return GR_OK;
}

/* ---- rules ---- */

/* Rule (1) for the map `c` over value `v`. */
static bool is_fit(const gr_node *p, const gr_node *c, const gr_value *v)
{
    gr_dtype t = c->out[0].dtype;
    int n_more = 0;

    if (p->phase != c->phase || !gr_fuse_may_meet(p, c))
        return false;
    if (!gr_shape_equal(&v->shape, &c->out[0].shape) || gr_map_compute_dtype(c) != GR_F32 ||
        (t != GR_F32 && t != GR_BF16 && t != GR_F16))
        return false;
    for (int s = 0; s < c->n_src; s++) {
        if (gr_value_root(c->src[s])->space == GR_SPACE_EXCHANGE)
            return false;
        n_more += c->src[s] != v;
    }
    return n_more <= MAX_MORE;
}

static int place_of(const gr_graph *g, const gr_node *n)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i] == n)
            return i;
    return -1;
}

/* Rule (4): all that `c` reads but `v` is there before `p` runs. */
static bool is_before(const gr_graph *g, const gr_node *p, const gr_node *c, const gr_value *v)
{
    int at = place_of(g, p);

    if (c->n_after > 0)
        return false;
    for (int s = 0; s < c->n_src; s++)
        if (c->src[s] != v && place_of(g, c->src[s]->node) >= at)
            return false;
    return true;
}

/* ---- taking ---- */

/* p becomes what was offered; the n_more values from `more` on are its last ends from now on. */
static gr_status take_in_place(gr_fuser *f, offer *o, gr_node *p, gr_value *more, int n_more)
{
    int n_old = p->n_out, n_ends = o->f->n_ends;
    gr_value *out = gr_arena_array(f->g->arena, (size_t)o->node.n_out, sizeof(*out));
    gr_value *old = p->out;

    if (!out)
        return GR_ERR_NOMEM;
    gr_fuse_count(f, p, -1);
    p->fusion = o->f;
    p->attr = o->node.attr;
    p->src = o->node.src;
    p->n_src = o->node.n_src;
    p->out = out;
    p->n_out = o->node.n_out;
    for (int i = 0; i < p->n_out; i++)
        out[i] = (gr_value){ .node = p, .index = i };
    for (int i = 0; i < n_old; i++) /* what follows the ends moves up */
        gr_graph_move_value(f->g, &old[i], &out[i < n_ends - n_more ? i : i + n_more]);
    for (int i = 0; i < n_more; i++)
        gr_graph_move_value(f->g, &more[i], &out[n_ends - n_more + i]);
    gr_fuse_count(f, p, 1);
    return GR_OK;
}

/* c, which alone read p, becomes what was offered. */
static void take_over(gr_fuser *f, const offer *o, const gr_node *p, gr_node *c)
{
    gr_fuse_count(f, c, -1);
    gr_fuse_count(f, p, -1);
    c->op = p->op;
    c->attr = o->node.attr;
    c->fusion = o->f;
    c->src = o->node.src;
    c->n_src = o->node.n_src;
    gr_fuse_count(f, c, 1);
}

static void drop(gr_fuser *f, gr_node *n)
{
    gr_fuse_count(f, n, -1);
    n->n_src = 0; /* what it gave is another node's now: pruned at the end */
}

/* ---- on the result ---- */

static bool has_program(const gr_node *p)
{
    return p->fusion && (p->fusion->end.program->n_instr > 0 || p->fusion->n_ends > 1);
}

static gr_status offer_end(gr_fuser *f, const gr_kernel_set *sets, gr_node *p, gr_node *c,
                           bool *taken)
{
    const gr_value *v = &p->out[0];
    bool alone = f->n_readers[v->id] == 1 && p->n_out == 1 && gr_fuse_is_free(f, p);
    gr_fused_end *e;
    offer o;

    if (has_program(p) || !is_fit(p, c, v) || (!alone && !is_before(f->g, p, c, v)))
        return GR_OK;
    GR_TRY(offer_init(&o, f->g, p));
    GR_TRY(add_program(&o, f->g, c, v, &o.f->end));
    e = &o.f->ends[alone ? 0 : o.f->n_ends++];
    *e = (gr_fused_end){ .fate = GR_FATE_STORE, .dtype = c->out[0].dtype };
    e->reg = o.f->end.program->n_src + o.f->end.program->n_instr - 1;
    o.node.n_out += !alone;
    *taken = is_taken(&o, sets, p);
    if (!*taken)
        return GR_OK;
    if (alone) {
        take_over(f, &o, p, c);
        return GR_OK;
    }
    GR_TRY(take_in_place(f, &o, p, &c->out[0], 1));
    drop(f, c);
    return GR_OK;
}

/* ---- reduced ---- */

/* Whether n_more of p's elementwise result `index` can be reduced in it, for the node c. */
static bool may_reduce(const gr_node *p, const gr_node *c, int index, int n_more)
{
    const gr_fusion *f = p->fusion;

    if (c->out[0].dtype != GR_F32 || p->phase != c->phase || c->n_after > 0 ||
        !gr_fuse_may_meet(p, c))
        return false;
    if (!f)
        return index == 0;
    return f->n_ends + n_more <= GR_FUSION_MAX_ENDS && index < f->n_ends &&
           f->ends[index].fate == GR_FATE_STORE;
}

static void add_end(offer *o, gr_fate fate, int index, unsigned axes, bool keep)
{
    o->f->ends[o->f->n_ends++] = (gr_fused_end){
        .fate = fate, .reg = o->f->ends[index].reg, .axes = axes, .keep = keep, .dtype = GR_F32
    };
    o->node.n_out++;
}

static gr_status offer_sum(gr_fuser *f, const gr_kernel_set *sets, gr_node *p, gr_node *c,
                           bool *taken)
{
    const gr_reduce_attr *at = (const gr_reduce_attr *)c->attr;
    int index = c->src[0]->index;
    offer o;

    if (at->fn == GR_MAX || !may_reduce(p, c, index, 1))
        return GR_OK;
    GR_TRY(offer_init(&o, f->g, p));
    add_end(&o, at->fn == GR_MEAN ? GR_FATE_MEAN : GR_FATE_SUM, index, at->axes, at->keep);
    *taken = is_taken(&o, sets, p);
    if (!*taken)
        return GR_OK;
    GR_TRY(take_in_place(f, &o, p, &c->out[0], 1));
    drop(f, c);
    return GR_OK;
}

/* What is left of batch statistics, their count, is a constant. */
static gr_status turn_into_count(gr_fuser *f, gr_node *c, int64_t count)
{
    gr_program *p = gr_arena_new(f->g->arena, gr_program);

    if (!p)
        return GR_ERR_NOMEM;
    drop(f, c);
    *p = (gr_program){ .shape = GR_SCALAR, .dtype = GR_F32, .n_instr = 1 };
    p->instr[0] = (gr_instr){ .fn = GR_FN_CONST, .reg = { -1, -1, -1 }, .k = (double)count };
    c->op = &gr_op_map;
    c->attr = p;
    c->n_out = 1;
    gr_graph_move_value(f->g, &c->out[2], &c->out[0]);
    return GR_OK;
}

static gr_status offer_stats(gr_fuser *f, const gr_kernel_set *sets, gr_node *p, gr_node *c,
                             bool *taken)
{
    const gr_channel_attr *at = (const gr_channel_attr *)c->attr;
    const gr_shape *s = &c->src[0]->shape;
    unsigned axes = (1u << (s->n_dims - 1)) - (at->per_sample ? 2 : 1);
    int64_t count = 1;
    int index = c->src[0]->index;
    offer o;

    if (axes == 0 || !may_reduce(p, c, index, 2))
        return GR_OK;
    GR_TRY(offer_init(&o, f->g, p));
    add_end(&o, GR_FATE_MEAN, index, axes, false);
    add_end(&o, GR_FATE_M2, index, axes, false);
    *taken = is_taken(&o, sets, p);
    if (!*taken)
        return GR_OK;
    for (int d = 0; d < s->n_dims; d++)
        count *= axes >> d & 1 ? s->dim[d] : 1;
    GR_TRY(take_in_place(f, &o, p, &c->out[0], 2));
    return turn_into_count(f, c, count);
}

/* ---- on load ---- */

static gr_status offer_load(gr_fuser *f, const gr_kernel_set *sets, gr_node *p, int s)
{
    gr_node *c = p->src[s]->node;
    int beside = c->n_src > 0 ? 0 : -1;
    offer o;

    if (!gr_fuse_is_map(c) || f->n_readers[c->out[0].id] != 1 || !gr_fuse_is_free(f, c))
        return GR_OK;
    while (beside >= 0 && beside < c->n_src &&
           !gr_shape_equal(&c->src[beside]->shape, &c->out[0].shape))
        beside++;
    for (int i = 0; i < p->n_src; i++) /* read in two places */
        if (i != s && p->src[i] == p->src[s])
            return GR_OK;
    if (beside < 0 || beside == c->n_src || gr_fusion_load(p, s) || !is_fit(p, c, c->src[beside]))
        return GR_OK;
    GR_TRY(offer_init(&o, f->g, p));
    GR_TRY(add_program(&o, f->g, c, c->src[beside], &o.load[s]));
    o.node.src[s] = c->src[beside];
    if (!is_taken(&o, sets, p))
        return GR_OK;
    GR_TRY(take_in_place(f, &o, p, NULL, 0));
    drop(f, c);
    return GR_OK;
}

/* ---- all ---- */

/* Offers the node `c` to the one that makes its source s. */
static gr_status offer_to_source(gr_fuser *f, const gr_kernel_set *sets, gr_node *c, int s,
                                 bool *taken)
{
    gr_node *p = c->src[s]->node;

    if (!may_be_fused(p) || !some_may_take(sets, p))
        return GR_OK;
    if (c->op == &gr_op_reduce)
        return offer_sum(f, sets, p, c, taken);
    if (c->op == &gr_op_batch_stats)
        return offer_stats(f, sets, p, c, taken);
    return c->src[s]->index == 0 ? offer_end(f, sets, p, c, taken) : GR_OK;
}

static bool may_be_offered(const gr_node *c)
{
    return gr_fuse_is_map(c) || c->op == &gr_op_reduce || c->op == &gr_op_batch_stats;
}

gr_status gr_fuse_offer(gr_fuser *f, const gr_kernel_set *sets)
{
    gr_graph *g = f->g;

    for (int i = 0; i < g->n_nodes; i++) {
        gr_node *c = g->nodes[i];
        bool taken = false;

        for (int s = 0; may_be_offered(c) && s < c->n_src && !taken; s++)
            GR_TRY(offer_to_source(f, sets, c, s, &taken));
    }
    GR_TRY(gr_graph_prune(g)); /* what was taken over reads nothing any more */
    for (int i = 0; i < g->n_nodes; i++) {
        gr_node *p = g->nodes[i];

        if (!may_be_fused(p) || !some_may_take(sets, p))
            continue;
        for (int s = 0; s < (p->fusion ? p->fusion->n_own_src : p->n_src); s++)
            GR_TRY(offer_load(f, sets, p, s));
    }
    return GR_OK;
}
