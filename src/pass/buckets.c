/*
 * The layout of gradients in the exchange space.
 *
 * Slots stand in the reversed order of the parameter table, which is about the order in
 * which the backward pass finishes them; the first bucket is small so that exchange
 * starts early. Each slot is aligned as the state is; the padding stays zero and is summed along.
 */
#include "base/size.h"
#include "pass/pass.h"

static int count_used(const gr_vars *vars, const bool *used)
{
    int n = 0;

    for (int i = 0; i < vars->n; i++)
        n += used[i];
    return n;
}

static gr_status lay_slots(gr_buckets *b, const gr_vars *vars, const bool *used)
{
    size_t at = 0;

    for (int i = vars->n - 1; i >= 0; i--) {
        size_t n_bytes;

        if (!used[i])
            continue;
        GR_TRY(gr_size_mul(&n_bytes, (size_t)gr_shape_count(&vars->list[i]->shape), sizeof(float)));
        b->var[b->n_slots] = vars->list[i];
        b->offset[b->n_slots++] = at;
        GR_TRY(gr_size_add(&at, at, gr_round_up(n_bytes, vars->align)));
    }
    b->n_bytes = at;
    b->align = vars->align;
    return GR_OK;
}

static size_t slot_end(const gr_buckets *b, int slot)
{
    return slot + 1 < b->n_slots ? b->offset[slot + 1] : b->n_bytes;
}

static gr_status close_bucket(gr_buckets *b, gr_arena *arena, int first, int end)
{
    gr_bucket *k = &b->bucket[b->n_buckets];

    k->first = first;
    k->n = end - first;
    k->coll = (gr_coll){
        .id = b->n_buckets,
        .label = gr_arena_printf(arena, "bucket %d (%d gradients, %s first)", b->n_buckets,
                                 end - first, b->var[first]->name),
        .offset = b->offset[first],
        .n_elem = (slot_end(b, end - 1) - b->offset[first]) / sizeof(float),
        .dtype = GR_F32,
        .op = GR_REDUCE_AVG,
    };
    b->n_buckets++;
    if (!k->coll.label)
        return GR_ERR_NOMEM;
    if (b->n_buckets > GR_MAX_COLLS)
        return gr_fail(GR_ERR_ARG, "more than %d gradient buckets: raise bucket_bytes",
                       GR_MAX_COLLS);
    return GR_OK;
}

gr_status gr_buckets_make(gr_buckets *b, gr_arena *arena, const gr_vars *vars, const bool *used,
                          const size_t cap_bytes[2])
{
    size_t n = (size_t)count_used(vars, used) + 1;
    int first = 0;

    *b = (gr_buckets){ 0 };
    b->bucket = gr_arena_array(arena, n, sizeof(*b->bucket));
    b->var = gr_arena_array(arena, n, sizeof(*b->var));
    b->offset = gr_arena_array(arena, n, sizeof(*b->offset));
    if (!b->bucket || !b->var || !b->offset)
        return GR_ERR_NOMEM;
    GR_TRY(lay_slots(b, vars, used));
    for (int s = 0; s < b->n_slots; s++) {
        size_t cap = cap_bytes[b->n_buckets > 0];

        if (slot_end(b, s) - b->offset[first] < cap && s + 1 < b->n_slots)
            continue;
        GR_TRY(close_bucket(b, arena, first, s + 1));
        first = s + 1;
    }
    return GR_OK;
}

gr_status gr_buckets_narrow(gr_buckets *b, gr_dtype low)
{
    for (int i = 0; i < b->n_buckets; i++) {
        gr_coll *c = &b->bucket[i].coll;

        c->dtype = low;
        c->offset = b->n_bytes;
        GR_TRY(gr_size_add(&b->n_bytes, b->n_bytes,
                           gr_round_up(c->n_elem * gr_dtype_bytes(low), b->align)));
    }
    return GR_OK;
}

static bool reads_one(const gr_node *n, const gr_buckets *b, const gr_bucket *k)
{
    for (int s = 0; s < n->n_src; s++)
        for (int i = 0; n->src[s]->var && i < k->n; i++)
            if (n->src[s]->var == b->var[k->first + i])
                return true;
    return false;
}

void gr_buckets_find_keys(gr_buckets *b, const gr_graph *trace)
{
    for (int k = 0; k < b->n_buckets; k++) {
        gr_bucket *bucket = &b->bucket[k];

        bucket->key = UINT32_MAX;
        for (int i = 0; i < trace->n_nodes; i++) {
            const gr_node *n = trace->nodes[i];

            if (n->phase == GR_PHASE_FORWARD && n->id < bucket->key && reads_one(n, b, bucket))
                bucket->key = n->id;
        }
    }
}

void gr_buckets_print(const gr_buckets *b, gr_text *out)
{
    for (int i = 0; i < b->n_buckets; i++)
        gr_text_addf(out, "collective %d = %s at %zu, %zu %s\n", i, b->bucket[i].coll.label,
                     b->bucket[i].coll.offset, b->bucket[i].coll.n_elem,
                     gr_dtype_name(b->bucket[i].coll.dtype));
}
