/* Planning of the tiled kernels: see map_plan.h. Runs once per plan; may allocate. */
#include "op/map/cpu/map_plan.h"

#include "base/alloc.h"

/* ---- dimensions ---- */

/* Strides of a source over the result's dimensions: 0 where it is stretched. */
static void set_strides(const gr_shape *out, const gr_shape *src, int64_t *stride)
{
    int64_t step = 1;

    for (int d = 1; d <= out->n_dims; d++) {
        int64_t have = d <= src->n_dims ? src->dim[src->n_dims - d] : 1;

        stride[out->n_dims - d] = have == 1 ? 0 : step;
        step *= have;
    }
}

/* True when stepping through dimension d + 1 to its end is one step of dimension d. */
static bool can_join(const gr_map_plan *p, int d)
{
    for (int s = 0; s < p->n_src; s++)
        if (p->src[s].stride[d] != p->src[s].stride[d + 1] * p->dim[d + 1])
            return false;
    return true;
}

static void remove_dim(gr_map_plan *p, int d)
{
    for (int i = d; i + 1 < p->n_dims; i++) {
        p->dim[i] = p->dim[i + 1];
        for (int s = 0; s < p->n_src; s++)
            p->src[s].stride[i] = p->src[s].stride[i + 1];
    }
    p->n_dims--;
}

static void join_dims(gr_map_plan *p)
{
    for (int d = p->n_dims - 1; d >= 0; d--)
        if (p->dim[d] == 1)
            remove_dim(p, d);
    for (int d = p->n_dims - 2; d >= 0; d--)
        if (can_join(p, d)) {
            p->dim[d + 1] *= p->dim[d];
            remove_dim(p, d);
        }
}

static gr_map_layout layout_of(const gr_map_plan *p, const gr_map_src *s)
{
    int64_t step = 1;
    bool flat = true, one = true;

    for (int d = p->n_dims - 1; d >= 0; d--) {
        flat = flat && s->stride[d] == step;
        one = one && s->stride[d] == 0;
        step *= p->dim[d];
    }
    if (one)
        return GR_MAP_ONE;
    return flat ? GR_MAP_FLAT : GR_MAP_ROWS;
}

/* After how many elements a broadcast source starts again. */
static int64_t period_of(const gr_map_plan *p, const gr_map_src *s)
{
    int64_t n = 1;
    int first = 0;

    while (first < p->n_dims && s->stride[first] == 0)
        first++;
    for (int d = first; d < p->n_dims; d++)
        n *= p->dim[d];
    return n;
}

/* Periods are products of the last few dimensions, so each divides the longer ones. */
static void choose_tile(gr_map_plan *p)
{
    int64_t most = (int64_t)(GR_MAP_SLOT_BYTES / p->elem_bytes), period = 1;

    for (int s = 0; s < p->n_src; s++) {
        int64_t n = p->src[s].layout == GR_MAP_ROWS ? period_of(p, &p->src[s]) : 1;

        if (n <= most && n > period)
            period = n;
        p->src[s].repeats = n <= most;
    }
    p->tile = p->is_wide ? most : most / period * period;
    if (p->is_wide && p->n_slots == 0)
        p->tile = GR_MAP_LONG_TILE;
}

/* ---- registers ---- */

/* Whether a source's elements can be used where they lie. */
static bool is_direct(const gr_map_plan *p, const gr_map_src *s)
{
    if (s->load || s->layout == GR_MAP_ONE)
        return false;
    return s->layout == GR_MAP_FLAT || (p->is_wide && s->stride[p->n_dims - 1] != 0);
}

static void plan_sources(gr_map_plan *p, const gr_node *n, const gr_map_isa *isa)
{
    for (int i = 0; i < p->n_src; i++) {
        gr_map_src *s = &p->src[i];
        gr_dtype t = n->src[i]->dtype;

        s->elem_bytes = gr_dtype_bytes(t);
        s->load = isa->load[p->type][t];
        s->layout = layout_of(p, s);
        s->slot = is_direct(p, s) ? GR_MAP_NO_SLOT : p->n_slots++;
        p->slot_of[i] = s->slot;
    }
}

/* The last step that reads register r; -1: none. */
static int last_use(const gr_program *prog, int r)
{
    for (int i = prog->n_instr - 1; i >= 0; i--)
        for (int j = 0; j < 3; j++)
            if (prog->instr[i].reg[j] == r)
                return i;
    return -1;
}

/* A slot that holds nothing needed at or after step i; the arguments of step i keep
 * theirs, for loops may not write where they read. */
static int free_slot(const gr_map_plan *p, const gr_program *prog, int i, int first)
{
    for (int slot = first;; slot++) {
        bool busy = false;

        for (int r = prog->n_src; r < prog->n_src + i && !busy; r++)
            busy = p->slot_of[r] == slot && last_use(prog, r) >= i;
        if (!busy)
            return slot;
    }
}

/* relu of a sum that nothing else reads is one loop: dense layers end so. */
static bool is_add_relu(const gr_map_plan *p, const gr_program *prog, int i)
{
    const gr_instr *in = &prog->instr[i];
    int sum = in->reg[0] - prog->n_src;

    if (p->type != GR_MAP_F32 || in->fn != GR_FN_RELU || sum < 0 || sum != i - 1)
        return false;
    if (prog->instr[sum].fn != GR_FN_ADD)
        return false;
    return last_use(prog, in->reg[0]) == i;
}

/* Whether instruction i's result lies in the output itself. */
static bool in_output(const gr_map_plan *p, const gr_program *prog, int i)
{
    if (p->store)
        return false;
    return i + 1 == prog->n_instr || (i + 2 == prog->n_instr && is_add_relu(p, prog, i + 1));
}

static void place_registers(gr_map_plan *p, const gr_program *prog)
{
    int first;

    for (int i = 0; i < prog->n_instr; i++)
        if (prog->instr[i].fn == GR_FN_CONST) {
            p->constant[p->n_consts++] = (gr_map_const){ p->n_slots, prog->instr[i].k };
            p->slot_of[p->n_src + i] = p->n_slots++;
        }
    first = p->n_slots; /* sources and constants keep their slots for the whole run */
    for (int i = 0; i < prog->n_instr; i++) {
        int *slot = &p->slot_of[p->n_src + i];

        if (prog->instr[i].fn == GR_FN_CONST)
            continue;
        *slot = GR_MAP_NO_SLOT;
        if (in_output(p, prog, i))
            continue;
        *slot = is_add_relu(p, prog, i) ? p->slot_of[prog->instr[i].reg[0]]
                                        : free_slot(p, prog, i, first);
        if (*slot >= p->n_slots)
            p->n_slots = *slot + 1;
    }
}

/* ---- steps ---- */

static gr_map_loop *loop_of(const gr_map_plan *p, const gr_map_isa *isa, int fn)
{
    if (p->type == GR_MAP_F32 && isa->fast[fn])
        return isa->fast[fn];
    return isa->loop[p->type][fn];
}

static void write_steps(gr_map_plan *p, const gr_program *prog, const gr_map_isa *isa)
{
    for (int i = 0; i < prog->n_instr; i++) {
        const gr_instr *in = &prog->instr[i];
        gr_map_step *step = &p->step[p->n_steps];

        if (in->fn == GR_FN_CONST)
            continue;
        if (is_add_relu(p, prog, i)) {
            step[-1].loop = isa->add_relu;
            step[-1].dst = p->n_src + i;
            continue;
        }
        *step = (gr_map_step){ .loop = loop_of(p, isa, in->fn), .dst = p->n_src + i };
        for (int j = 0; j < 3; j++)
            step->arg[j] = in->reg[j];
        p->n_steps++;
    }
    /* A constant needs no step, whatever stands before it. */
    if (prog->n_instr > 0 && prog->instr[prog->n_instr - 1].fn == GR_FN_CONST)
        p->n_steps = 0;
}

gr_status gr_map_plan_create(gr_map_plan **out, const gr_node *n, const gr_map_isa *isa,
                             int n_threads)
{
    static const size_t elem_bytes[GR_MAP_N_TYPES] = { 4, 8, 8 };
    const gr_program *prog = (const gr_program *)n->attr;
    gr_map_plan *p = gr_calloc(1, sizeof(*p));
    gr_dtype compute = gr_map_compute_dtype(n);

    if (!p)
        return GR_ERR_NOMEM;
    p->type = compute == GR_F32 ? GR_MAP_F32 : compute == GR_F64 ? GR_MAP_F64 : GR_MAP_I64;
    p->elem_bytes = elem_bytes[p->type];
    p->n_threads = n_threads;
    p->n_src = n->n_src;
    p->n_dims = prog->shape.n_dims;
    p->total = gr_shape_count(&prog->shape);
    p->store = isa->store[p->type][prog->dtype];
    p->out_bytes = gr_dtype_bytes(prog->dtype);
    p->result = prog->n_src + prog->n_instr - 1;
    for (int d = 0; d < p->n_dims; d++)
        p->dim[d] = prog->shape.dim[d];
    for (int s = 0; s < p->n_src; s++)
        set_strides(&prog->shape, &n->src[s]->shape, p->src[s].stride);
    join_dims(p);
    p->row = p->n_dims > 0 ? p->dim[p->n_dims - 1] : 1;
    p->is_wide = p->n_dims < 2 || p->row >= GR_MAP_WIDE_ROW;
    plan_sources(p, n, isa);
    place_registers(p, prog);
    write_steps(p, prog, isa);
    choose_tile(p);
    p->is_cast =
        prog->n_instr == 0 && p->src[0].layout == GR_MAP_FLAT && p->src[0].load && !p->store;
    *out = p;
    return GR_OK;
}
