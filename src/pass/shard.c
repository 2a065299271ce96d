/* Who updates what: shares of buckets, parts of parameters, blocks of the norm. */
#include "pass/shard.h"

#include "base/size.h"

#define LINE 16 /* elements in 64 bytes: slots and shares begin at multiples */

static int64_t slot_elems(const gr_buckets *b, int slot)
{
    return gr_shape_count(&b->var[slot]->shape);
}

static void move_bucket(gr_buckets *b, gr_bucket *k, size_t to)
{
    for (int s = k->first; s < k->first + k->n; s++)
        b->offset[s] = b->offset[s] - k->coll.offset + to;
    k->coll.offset = to;
}

/* Ids of collectives: buckets, then what follows them, then two for the norm. */
static int first_norm_id(const gr_shard *s)
{
    return s->buckets->n_buckets + (s->is_common ? 1 : s->buckets->n_buckets);
}

/* Moves the buckets apart so that each has a multiple of n_shares lines. */
static gr_status pad_buckets(const gr_shard *s, gr_buckets *b, int n_shares)
{
    size_t at = 0, unit = LINE * (size_t)n_shares;

    if (first_norm_id(s) + 2 > GR_MAX_COLLS)
        return gr_fail(GR_ERR_ARG, "%d gradient buckets are too many to shard: raise bucket_bytes",
                       b->n_buckets);
    for (int i = 0; i < b->n_buckets; i++) {
        gr_bucket *k = &b->bucket[i];

        move_bucket(b, k, at);
        k->coll.kind = GR_CALL_REDUCE_SCATTER;
        k->coll.own_only = s->is_common; /* all meet before gradients are written again */
        k->coll.rows = s->has_rows;
        k->coll.n_elem = (k->coll.n_elem + unit - 1) / unit * unit;
        GR_TRY(gr_size_add(&at, at, k->coll.n_elem * sizeof(float)));
    }
    b->n_bytes = at;
    return GR_OK;
}

/* Lets buckets take turns, if that is less; *kept stays NULL otherwise. No overflow: all of it
 * is smaller than what the buckets need side by side, or is not used. */
static gr_status reuse_buckets(gr_buckets *b, gr_arena *arena, int n_shares, const size_t **kept)
{
    size_t shares = 0, turn[2] = { 0, 0 };
    size_t *at = gr_arena_array(arena, (size_t)b->n_buckets + 1, sizeof(*at));

    if (!at)
        return GR_ERR_NOMEM;
    for (int i = 0; i < b->n_buckets; i++) {
        size_t n_bytes = b->bucket[i].coll.n_elem * sizeof(float);

        at[i] = shares;
        shares += n_bytes / (size_t)n_shares;
        turn[i % 2] = n_bytes > turn[i % 2] ? n_bytes : turn[i % 2];
    }
    if (b->n_buckets < 3 || shares + turn[0] + turn[1] >= b->n_bytes)
        return GR_OK;
    for (int i = 0; i < b->n_buckets; i++)
        move_bucket(b, &b->bucket[i], shares + (i % 2 ? turn[0] : 0));
    b->n_bytes = shares + turn[0] + turn[1];
    b->is_reused = true;
    *kept = at;
    return GR_OK;
}

/* Elements of [at, at + n) that lie in share `rank` of `share` elements each, from `at`. */
static gr_stretch cut(int64_t at, int64_t n, int64_t share, int rank)
{
    int64_t lo = rank * share - at, hi = lo + share;

    lo = lo < 0 ? 0 : lo;
    hi = hi > n ? n : hi;
    return lo < hi ? (gr_stretch){ lo, hi - lo } : (gr_stretch){ 0, 0 };
}

static int64_t share_of(const gr_shard *s, const gr_bucket *k)
{
    return (int64_t)(k->coll.n_elem / (size_t)gr_pg_size(s->pg));
}

/* A bucket begins with its first slot; its collective may lie elsewhere. */
static int64_t place_in_bucket(const gr_buckets *b, const gr_bucket *k, int slot)
{
    return (int64_t)((b->offset[slot] - b->offset[k->first]) / sizeof(float));
}

int gr_shard_bucket(const gr_shard *s, const gr_var *v)
{
    int slot = v->kind == GR_VAR_PARAM ? s->slot_of[v->index] : -1, k = 0;

    if (slot < 0)
        return -1;
    while (slot >= s->buckets->bucket[k].first + s->buckets->bucket[k].n)
        k++;
    return k;
}

gr_stretch gr_shard_range(const gr_shard *s, const gr_var *param, int rank)
{
    int slot = s->slot_of[param->index], number = gr_shard_bucket(s, param);
    const gr_bucket *k;

    if (number < 0)
        return (gr_stretch){ 0, 0 };
    k = &s->buckets->bucket[number];
    return cut(place_in_bucket(s->buckets, k, slot), slot_elems(s->buckets, slot), share_of(s, k),
               rank);
}

/* ---- parts ---- */

typedef struct tables {
    int *slot_of, *first_var;
    gr_shard_attr *of;
    gr_shard_item *item; /* by slot */
    gr_coll *gather;
    gr_update_part *part; /* by variable index */
} tables;

static gr_status make_tables(tables *t, gr_arena *a, const gr_buckets *b, int n_vars)
{
    size_t n = (size_t)n_vars + 1, n_buckets = (size_t)b->n_buckets + 1;

    t->slot_of = gr_arena_array(a, n, sizeof(*t->slot_of));
    t->part = gr_arena_array(a, n, sizeof(*t->part));
    t->item = gr_arena_array(a, (size_t)b->n_slots + 1, sizeof(*t->item));
    t->of = gr_arena_array(a, n_buckets, sizeof(*t->of));
    t->gather = gr_arena_array(a, n_buckets, sizeof(*t->gather));
    t->first_var = gr_arena_array(a, n_buckets, sizeof(*t->first_var));
    return t->slot_of && t->part && t->item && t->of && t->gather && t->first_var ? GR_OK
                                                                                  : GR_ERR_NOMEM;
}

/* What this rank updates of a parameter of n elements that begins at `at` of its bucket: what lies
 * in the own share, which begins at `first`; with rows, whatever it takes of all. */
static gr_update_part own_part(const gr_shard *s, int64_t at, int64_t n, gr_stretch own,
                               int64_t first)
{
    if (s->has_rows)
        return (gr_update_part){ .of = { 0, n }, .grad_at = at, .in_whole = true };
    return (gr_update_part){ .of = own,
                             .grad_at = own.n > 0 ? at + own.first - first : 0,
                             .in_whole = s->is_common };
}

/* The parts of bucket i's parameters that lie in the own share. */
static void part_bucket(const gr_shard *s, tables *t, int i)
{
    const gr_buckets *b = s->buckets;
    const gr_bucket *k = &b->bucket[i];
    int64_t share = share_of(s, k), first = gr_pg_rank(s->pg) * share;

    t->first_var[i] = b->var[k->first]->index;
    t->of[i] = (gr_shard_attr){ .n_elem = (int64_t)k->coll.n_elem,
                                .first = first,
                                .n_own = share,
                                .n_items = k->n,
                                .item = &t->item[k->first] };
    t->gather[i] = k->coll;
    t->gather[i].kind = GR_CALL_ALLGATHER;
    t->gather[i].id = b->n_buckets + i;
    for (int slot = k->first; slot < k->first + k->n; slot++) {
        int64_t at = place_in_bucket(b, k, slot);
        gr_stretch own = cut(at, slot_elems(b, slot), share, gr_pg_rank(s->pg));

        t->item[slot] = (gr_shard_item){ .part = own, .at = at };
        t->slot_of[b->var[slot]->index] = slot;
        t->part[b->var[slot]->index] = own_part(s, at, slot_elems(b, slot), own, first);
    }
}

/* ---- the wire ---- */

/* Where shares are kept when buckets are not reused: in the place of their own gradients, which
 * are packed by then. */
static gr_status keep_in_place(gr_shard *s, gr_arena *arena)
{
    const gr_buckets *b = s->buckets;
    size_t *at = gr_arena_array(arena, (size_t)b->n_buckets + 1, sizeof(*at));

    for (int i = 0; i < b->n_buckets && at; i++)
        at[i] = b->bucket[i].coll.offset + (size_t)s->of[i].first * sizeof(float);
    s->kept = at;
    return at ? GR_OK : GR_ERR_NOMEM;
}

/* Gradients travel in rows of 16 bits behind the buckets, which take turns as those do. */
static gr_status narrow(gr_shard *s, gr_arena *arena, gr_buckets *b, gr_dtype low)
{
    size_t row[2] = { 0, 0 }, at = b->n_bytes, size = gr_dtype_bytes(low);

    if (!s->kept)
        GR_TRY(keep_in_place(s, arena));
    for (int i = 0; i < b->n_buckets; i++) {
        gr_coll *c = &b->bucket[i].coll;
        size_t n_bytes = gr_round_up(c->n_elem * size, b->align);

        c->dtype = low;
        if (!b->is_reused) {
            c->offset = at;
            GR_TRY(gr_size_add(&at, at, n_bytes));
        }
        row[i % 2] = n_bytes > row[i % 2] ? n_bytes : row[i % 2];
    }
    for (int i = 0; i < b->n_buckets && b->is_reused; i++)
        b->bucket[i].coll.offset = at + (i % 2 ? row[0] : 0);
    b->n_bytes = b->is_reused ? at + row[0] + row[1] : at;
    return GR_OK;
}

/* ---- norm ---- */

typedef struct norm_lists {
    gr_shard_norm *norm;
    gr_norm_piece *piece; /* NULL: only counted */
    gr_norm_cut *cut;
} norm_lists;

static void add_piece(norm_lists *l, const gr_norm_piece *p)
{
    if (l->piece)
        l->piece[l->norm->n_pieces] = *p;
    l->norm->n_pieces++;
}

/* One block: n elements from `at` of bucket number i. */
static void note_block(const gr_shard *s, norm_lists *l, int i, int64_t at, int64_t n)
{
    int64_t share = share_of(s, &s->buckets->bucket[i]);
    int rank = gr_pg_rank(s->pg);
    gr_stretch own = cut(at, n, share, rank);
    gr_norm_piece p = { .share = i, .at = at + own.first - rank * share, .n = own.n };
    bool is_cut = at / share != (at + n - 1) / share;

    p.block = is_cut ? -1 : l->norm->n_blocks;
    p.cut_at = l->norm->n_cut_elems + own.first;
    if (own.n > 0)
        add_piece(l, &p);
    if (is_cut) {
        if (l->cut)
            l->cut[l->norm->n_cuts] =
                (gr_norm_cut){ .block = l->norm->n_blocks, .at = l->norm->n_cut_elems, .n = n };
        l->norm->n_cuts++;
        l->norm->n_cut_elems += n;
    }
    l->norm->n_blocks++;
}

/* In the order of the table, as grad_control takes gradients: slots stand in reverse. */
static void note_blocks(const gr_shard *s, norm_lists *l)
{
    const gr_buckets *b = s->buckets;

    *l->norm = (gr_shard_norm){ 0 };
    for (int i = b->n_buckets - 1; i >= 0; i--) {
        const gr_bucket *k = &b->bucket[i];

        for (int slot = k->first + k->n - 1; slot >= k->first; slot--) {
            int64_t count = slot_elems(b, slot), at = place_in_bucket(b, k, slot);

            for (int64_t e = 0; e < count; e += GR_NORM_BLOCK)
                note_block(s, l, i, at + e, count - e < GR_NORM_BLOCK ? count - e : GR_NORM_BLOCK);
        }
    }
}

/* A stretch behind the buckets for a collective besides theirs. */
static gr_status add_coll(gr_buckets *b, gr_coll *c, const char *label, int id)
{
    c->id = id;
    c->label = label;
    c->offset = b->n_bytes;
    c->op = GR_REDUCE_SUM;
    return gr_size_add(&b->n_bytes, b->n_bytes,
                       gr_round_up(c->n_elem * gr_dtype_bytes(c->dtype), b->align));
}

static gr_status make_norm(gr_shard *s, gr_arena *arena, gr_buckets *b)
{
    gr_update_shard *u = &s->update;
    norm_lists l = { .norm = &u->norm };

    note_blocks(s, &l);
    l.piece = gr_arena_array(arena, (size_t)u->norm.n_pieces + 1, sizeof(*l.piece));
    l.cut = gr_arena_array(arena, (size_t)u->norm.n_cuts + 1, sizeof(*l.cut));
    if (!l.piece || !l.cut)
        return GR_ERR_NOMEM;
    note_blocks(s, &l);
    u->norm.piece = l.piece;
    u->norm.cut = l.cut;
    u->sums = (gr_coll){ .dtype = GR_F64, .n_elem = (size_t)u->norm.n_blocks };
    u->cuts = (gr_coll){ .dtype = GR_F32, .n_elem = (size_t)u->norm.n_cut_elems };
    GR_TRY(add_coll(b, &u->sums, "gradient norm", first_norm_id(s)));
    return add_coll(b, &u->cuts, "gradient norm, cut blocks", first_norm_id(s) + 1);
}

gr_status gr_shard_make(gr_shard *s, gr_arena *arena, gr_buckets *b, const gr_shard_config *c)
{
    tables t = { 0 };

    *s =
        (gr_shard){ .pg = c->pg, .buckets = b, .is_common = c->is_common, .has_rows = c->has_rows };
    GR_TRY(pad_buckets(s, b, gr_pg_size(c->pg)));
    if (c->may_reuse)
        GR_TRY(reuse_buckets(b, arena, gr_pg_size(c->pg), &s->kept));
    GR_TRY(make_tables(&t, arena, b, c->n_vars));
    for (int i = 0; i <= c->n_vars; i++)
        t.slot_of[i] = -1;
    for (int i = 0; i < b->n_buckets; i++)
        part_bucket(s, &t, i);
    s->slot_of = t.slot_of;
    s->of = t.of;
    s->gather = s->is_common ? NULL : t.gather;
    s->update.pg = c->pg;
    s->update.part = t.part;
    s->update.first_var = t.first_var;
    s->update.n_buckets = b->n_buckets;
    if (c->wire != GR_F32)
        GR_TRY(narrow(s, arena, b, c->wire));
    if (s->is_common) {
        s->met = (gr_coll){ .kind = GR_CALL_ALLGATHER,
                            .dtype = GR_F32,
                            .n_elem = LINE * (size_t)gr_pg_size(c->pg) };
        GR_TRY(add_coll(b, &s->met, "end of updates", b->n_buckets));
    }
    return c->wants_norm ? make_norm(s, arena, b) : GR_OK;
}
