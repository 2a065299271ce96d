/*
 * Epilogues: a map that alone reads a product becomes the product's end.
 *
 *     %4 = matmul(%0, %1)   %6 = map(%4, %3) add(r0, r1) relu(r2)
 *     ─►  %6 = matmul(%0, %1, %3) then add(r0, r1) relu(r2)
 *
 * (1) The map is of the product's shape, computed in f32, of the same phase; nobody else
 *     reads the product, and it is no output.
 * (2) The kernel that would run the product offers it (gr_kernel.has_epilogue).
 * (3) Few further sources: each is one more stream through the cache beside the product's
 *     own.
 * The map's node becomes the new one, so its result keeps its place and its readers. In f32
 * the bits do not change; a 16-bit product is no longer rounded in between.
 */
#include "graph/op.h"
#include "op/map/program.h"
#include "op/matmul/matmul.h"
#include "pass/fuse.h"

#include <string.h>

#define MAX_MORE 6 /* sources beside the product's own */

/* How an operator takes a program: the attr to use instead, NULL without memory. */
typedef const void *attach_fn(gr_graph *g, const gr_node *n, const gr_program *p);

static const void *attach_matmul(gr_graph *g, const gr_node *n, const gr_program *p)
{
    gr_matmul_attr *attr = gr_arena_new(g->arena, gr_matmul_attr);

    if (!attr)
        return NULL;
    memcpy(attr, n->attr, sizeof(*attr));
    attr->epilogue = p;
    attr->dtype = p->dtype;
    return attr;
}

static bool has_one_matmul(const gr_node *n)
{
    return ((const gr_matmul_attr *)n->attr)->epilogue != NULL;
}

/* A family that takes epilogues has a row here. */
static const struct family {
    const gr_op *op;
    bool (*has_one)(const gr_node *n);
    attach_fn *attach;
} families[] = {
    { &gr_op_matmul, has_one_matmul, attach_matmul },
};

static const struct family *family_of(const gr_node *n)
{
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        if (families[i].op == n->op && !families[i].has_one(n))
            return &families[i];
    return NULL;
}

static bool offers(const gr_kernel_set *sets, const gr_node *n)
{
    for (const gr_kernel *k = gr_kernel_list(sets, n->op); k && k->name; k++)
        if (!k->reject || !k->reject(n))
            return k->has_epilogue;
    return false;
}

static bool is_f32_map(const gr_node *c)
{
    gr_dtype t = c->out[0].dtype;

    return gr_map_compute_dtype(c) == GR_F32 && (t == GR_F32 || t == GR_BF16 || t == GR_F16);
}

/* Rule (1) and (3) for the map `c` and the product `p`. */
static bool may_end(const gr_fuser *f, const gr_node *p, const gr_node *c)
{
    const gr_value *v = &p->out[0];
    int n_more = 0;

    if (f->n_readers[v->id] != 1 || !gr_fuse_is_free(f, p) || p->phase != c->phase ||
        !gr_fuse_may_meet(p, c))
        return false;
    if (!gr_shape_equal(&v->shape, &c->out[0].shape) || !is_f32_map(c))
        return false;
    for (int s = 0; s < c->n_src; s++) {
        if (gr_value_root(c->src[s])->space == GR_SPACE_EXCHANGE)
            return false;
        n_more += c->src[s] != v;
    }
    return n_more <= MAX_MORE;
}

/* c's program with the product as source 0 and the others behind it, and the sources that
 * the new node reads: p's, then the others. */
static gr_program *turn_program(gr_graph *g, const gr_node *p, const gr_node *c, gr_value **src)
{
    const gr_program *old = (const gr_program *)c->attr;
    gr_program *made = gr_arena_new(g->arena, gr_program);
    int16_t reg[GR_MAP_MAX_SRC + GR_MAP_MAX_INSTR];
    int n = p->n_src;

    if (!made)
        return NULL;
    *made = (gr_program){ .shape = old->shape, .dtype = old->dtype, .n_src = 1 };
    for (int s = 0; s < p->n_src; s++)
        src[s] = p->src[s];
    for (int s = 0; s < c->n_src; s++) {
        reg[s] = c->src[s] == &p->out[0] ? 0 : (int16_t)made->n_src;
        if (c->src[s] == &p->out[0])
            continue;
        src[n++] = c->src[s];
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
    return made;
}

static gr_status attach(gr_fuser *f, const struct family *fam, const gr_node *p, gr_node *c)
{
    size_t room = (size_t)p->n_src + (size_t)c->n_src;
    gr_value **src = gr_arena_array(f->g->arena, room + 1, sizeof(*src));
    gr_program *prog = src ? turn_program(f->g, p, c, src) : NULL;
    const void *attr = prog ? fam->attach(f->g, p, prog) : NULL;

    if (!attr)
        return GR_ERR_NOMEM;
    gr_fuse_count(f, c, -1);
    gr_fuse_count(f, p, -1);
    c->op = p->op;
    c->attr = attr;
    c->src = src;
    c->n_src = p->n_src + prog->n_src - 1;
    gr_fuse_count(f, c, 1);
    return GR_OK;
}

gr_status gr_fuse_epilogues(gr_fuser *f, const gr_kernel_set *sets)
{
    for (int i = 0; i < f->g->n_nodes; i++) {
        gr_node *c = f->g->nodes[i];

        for (int s = 0; gr_fuse_is_map(c) && s < c->n_src; s++) {
            const gr_node *p = c->src[s]->node;
            const struct family *fam = family_of(p);

            if (fam && may_end(f, p, c) && offers(sets, p)) {
                GR_TRY(attach(f, fam, p, c));
                break;
            }
        }
    }
    return GR_OK;
}
