/*
 * Epilogues by rows: each stretch of a row goes through the program's loops in tiles, as
 * map's own kernels do it, with the result's f32 numbers as source 0.
 *
 * (1) A source whose last dimension runs along with the row is read where it lies, or
 *     converted into its slot; one that stands still is spread out there.
 * (2) The last instruction writes a slot that is then stored, never the output itself: the
 *     f32 numbers may lie there, and loops do not write where they read.
 */
#include "op/epilogue.h"

#include "base/alloc.h"

#include <string.h>

#define SLOT_BYTES ((size_t)GR_EPILOGUE_TILE * sizeof(float))
#define MAX_REGS   (GR_MAP_MAX_SRC + GR_MAP_MAX_INSTR)

typedef struct epilogue_src {
    gr_map_convert *load; /* NULL: f32 */
    size_t elem_bytes;
    int64_t stride[GR_MAX_DIMS]; /* elements; 0 where it is broadcast */
} epilogue_src;

typedef struct epilogue_step {
    gr_map_loop *loop;
    int dst, arg[3]; /* registers; -1: unused */
} epilogue_step;

struct gr_epilogue_plan {
    int n_dims, n_src, n_steps, n_slots, result;
    int64_t dim[GR_MAX_DIMS];
    epilogue_src src[GR_MAP_MAX_SRC]; /* [0] is not used */
    epilogue_step step[GR_MAP_MAX_INSTR];
    int slot_of[MAX_REGS]; /* -1: none */
    int n_consts;
    int const_slot[GR_MAP_MAX_INSTR];
    float const_value[GR_MAP_MAX_INSTR];
    gr_map_convert *store; /* NULL: f32 */
    size_t out_bytes;      /* of an element */
};

/* ---- rules ---- */

const char *gr_epilogue_takes(const gr_node *n, const gr_fusion *f)
{
    const gr_fused_end *e = &f->ends[0];

    for (int s = 0; s < f->n_own_src; s++)
        if (gr_fusion_load(n, s))
            return "applies no program on load";
    if (f->n_ends > 1 || f->n_own_out > 1 || e->fate != GR_FATE_STORE)
        return "gives one result, stored";
    return e->reg == f->end.program->n_src + f->end.program->n_instr - 1
               ? NULL
               : "stores the program's last register";
}

gr_status gr_epilogue_ref(const gr_launch *l, const void *acc)
{
    const gr_program *p = l->node->fusion->end.program;
    int first = l->node->fusion->end.first;
    gr_value before = { .shape = l->node->out[0].shape };
    gr_value *values[GR_MAP_MAX_SRC] = { &before };
    void *src[GR_MAP_MAX_SRC] = { (void *)(uintptr_t)acc };
    gr_node n = { .op = &gr_op_map, .attr = p, .src = values, .n_src = p->n_src };
    gr_launch map = *l;

    before.dtype = gr_epilogue_wide(l->node);
    for (int s = 1; s < p->n_src; s++) {
        values[s] = l->node->src[first + s - 1];
        src[s] = l->src[first + s - 1];
    }
    n.out = l->node->out;
    n.n_out = 1;
    map.node = &n;
    map.src = src;
    return gr_map_ref_run(&map);
}

/* ---- plan ---- */

static void set_strides(const gr_shape *out, const gr_shape *s, int64_t *stride)
{
    int64_t step = 1;

    for (int d = 1; d <= out->n_dims; d++) {
        int64_t have = d <= s->n_dims ? s->dim[s->n_dims - d] : 1;

        stride[out->n_dims - d] = have == 1 ? 0 : step;
        step *= have;
    }
}

static void plan_sources(gr_epilogue_plan *e, const gr_node *n, const gr_map_isa *isa)
{
    e->slot_of[0] = -1; /* read where it lies */
    for (int s = 1; s < e->n_src; s++) {
        const gr_value *v = n->src[n->fusion->end.first + s - 1];

        e->src[s].load = isa->load[GR_MAP_F32][v->dtype];
        e->src[s].elem_bytes = gr_dtype_bytes(v->dtype);
        set_strides(&n->out[0].shape, &v->shape, e->src[s].stride);
        e->slot_of[s] = e->n_slots++;
    }
}

static void plan_steps(gr_epilogue_plan *e, const gr_program *p, const gr_map_isa *isa)
{
    for (int i = 0; i < p->n_instr; i++) {
        const gr_instr *in = &p->instr[i];
        epilogue_step *step = &e->step[e->n_steps];

        e->slot_of[p->n_src + i] = e->n_slots;
        if (in->fn == GR_FN_CONST) {
            e->const_slot[e->n_consts] = e->n_slots++;
            e->const_value[e->n_consts++] = (float)in->k;
            continue;
        }
        e->n_slots++;
        step->loop = isa->fast[in->fn] ? isa->fast[in->fn] : isa->loop[GR_MAP_F32][in->fn];
        step->dst = p->n_src + i;
        for (int a = 0; a < 3; a++)
            step->arg[a] = in->reg[a];
        e->n_steps++;
    }
    e->result = p->n_src + p->n_instr - 1;
}

gr_status gr_epilogue_plan_create(gr_epilogue_plan **out, const gr_node *n, const gr_map_isa *isa)
{
    const gr_program *p = n->fusion->end.program;
    gr_epilogue_plan *e = (gr_epilogue_plan *)gr_calloc(1, sizeof(*e));
    const gr_shape *shape = &n->out[0].shape;

    if (!e)
        return GR_ERR_NOMEM;
    e->n_src = p->n_src;
    e->n_dims = shape->n_dims;
    for (int d = 0; d < shape->n_dims; d++)
        e->dim[d] = shape->dim[d];
    e->store = isa->store[GR_MAP_F32][p->dtype];
    e->out_bytes = gr_dtype_bytes(p->dtype);
    plan_sources(e, n, isa);
    plan_steps(e, p, isa);
    *out = e;
    return GR_OK;
}

size_t gr_epilogue_scratch_bytes(const gr_epilogue_plan *p)
{
    return p ? (size_t)p->n_slots * SLOT_BYTES : 0;
}

/* ---- running ---- */

static float *slot_at(const gr_epilogue_run *r, int slot)
{
    return (float *)(r->scratch + (size_t)slot * SLOT_BYTES);
}

static void spread(float *dst, float x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = x;
}

void gr_epilogue_begin(const gr_epilogue_run *r)
{
    for (int i = 0; i < r->plan->n_consts; i++)
        spread(slot_at(r, r->plan->const_slot[i]), r->plan->const_value[i], GR_EPILOGUE_TILE);
}

/* Where in source s the output's element with these indices is. */
static const char *source_at(const gr_epilogue_run *r, int s, const int64_t *index)
{
    const epilogue_src *e = &r->plan->src[s];
    int64_t at = 0;

    for (int d = 0; d < r->plan->n_dims; d++)
        at += index[d] * e->stride[d];
    return (const char *)r->src[s - 1] + (size_t)at * e->elem_bytes;
}

static const float *fetch(const gr_epilogue_run *r, int s, const int64_t *index, int64_t n)
{
    const epilogue_src *e = &r->plan->src[s];
    const char *mem = source_at(r, s, index);
    float *slot = slot_at(r, r->plan->slot_of[s]), x;

    if (r->plan->n_dims > 0 && e->stride[r->plan->n_dims - 1] != 0) {
        if (!e->load)
            return (const float *)(const void *)mem;
        e->load(slot, mem, n);
        return slot;
    }
    if (e->load)
        e->load(&x, mem, 1);
    else
        memcpy(&x, mem, sizeof(x));
    spread(slot, x, n);
    return slot;
}

static void run_tile(const gr_epilogue_run *r, const float *acc, const int64_t *index, char *out,
                     int64_t n)
{
    const gr_epilogue_plan *p = r->plan;
    const float *reg[MAX_REGS];

    reg[0] = acc;
    for (int s = 1; s < p->n_src; s++)
        reg[s] = fetch(r, s, index, n);
    for (int i = p->n_src; i <= p->result; i++)
        reg[i] = slot_at(r, p->slot_of[i]);
    for (int i = 0; i < p->n_steps; i++) {
        const epilogue_step *s = &p->step[i];

        s->loop(slot_at(r, p->slot_of[s->dst]), reg[s->arg[0]],
                s->arg[1] < 0 ? NULL : reg[s->arg[1]], s->arg[2] < 0 ? NULL : reg[s->arg[2]], n);
    }
    if (p->store)
        p->store(out, reg[p->result], n);
    else if ((const char *)reg[p->result] != out)
        memcpy(out, reg[p->result], (size_t)n * sizeof(float));
}

static void split(const gr_epilogue_plan *p, int64_t at, int64_t *index)
{
    for (int d = p->n_dims - 1; d >= 0; d--) {
        index[d] = at % p->dim[d];
        at /= p->dim[d];
    }
}

void gr_epilogue_rows(const gr_epilogue_run *r, const gr_epilogue_rows_args *a)
{
    int64_t index[GR_MAX_DIMS] = { 0 };
    int last = r->plan->n_dims - 1;

    for (int64_t i = 0; i < a->rows; i++) {
        int64_t at = a->at + i * a->step;

        split(r->plan, at, index);
        for (int64_t c = 0; c < a->cols; c += GR_EPILOGUE_TILE) {
            int64_t n = a->cols - c < GR_EPILOGUE_TILE ? a->cols - c : GR_EPILOGUE_TILE;

            run_tile(r, a->acc + i * a->acc_step + c, index,
                     r->out + (size_t)(at + c) * r->plan->out_bytes, n);
            if (last >= 0)
                index[last] += n;
        }
    }
}
