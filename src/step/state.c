/*
 * State: laid out at the first plan, given out as a snapshot and taken back. Also the
 * arena, which grows to the largest plan's need.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "op/update/update.h"
#include "step/private.h"

#define KEY_STEP   "gradus.step"
#define KEY_SEED   "gradus.seed"
#define KEY_FROZEN "gradus.frozen"
#define KEY_PART   "gradus.part" /* "all", or "trainable": frozen parameters are not in it */

/* A copy is shared out to the threads in pieces of at least this. */
#define COPY_GRAIN ((int64_t)1 << 20)

/* Behind the variables lies the control value of the last update: it outlives the runs
 * that follow, evaluations among them. */
size_t gr_step_state_bytes(const gr_step *s)
{
    return s->vars->n_bytes + sizeof(float[GR_CONTROL_COUNT]);
}

/* Starting values into host memory that is laid out as the state. */
static gr_status fill_image(const gr_step *s, void *host)
{
    static const float no_control[GR_CONTROL_COUNT] = { 1, 0, NAN, 1 };

    memcpy((char *)host + s->vars->n_bytes, no_control, sizeof(no_control));
    return gr_vars_fill(s->vars, s->c.seed, host);
}

/* In place where the host can write there: an image beside the state would be the most memory that
 * a run ever takes. Not where ranks have it in common, though: they write the same numbers there,
 * and must not see each other's half-made ones. */
static gr_status fill_state(gr_step *s)
{
    const gr_backend_ops *ops = s->device->ops;
    void *host;
    gr_status st;

    if (s->device->ops->has_host_memory && s->vars->n_common == 0)
        return fill_image(s, s->bases.state);
    GR_TRY(ops->host_alloc(s->device, gr_step_state_bytes(s), &host));
    st = fill_image(s, host);
    if (st == GR_OK)
        st = ops->upload(s->device, s->bases.state, host, gr_step_state_bytes(s));
    if (st == GR_OK)
        st = ops->sync(s->device);
    ops->host_free(s->device, host);
    return st;
}

size_t gr_step_exchange_bytes(const gr_step *s)
{
    return s->meetings.n > 0 ? s->meetings.n_bytes : s->buckets.n_bytes;
}

static gr_status alloc_exchange(gr_step *s)
{
    s->exchange_bytes = gr_step_exchange_bytes(s);
    if (gr_pg_size(s->group) > 1)
        return gr_pg_exchange(s->group, s->device, s->exchange_bytes, &s->bases.exchange);
    if (s->c.accumulate == 1)
        s->exchange_bytes = 0;
    return s->device->ops->alloc(s->device, s->exchange_bytes + 1, &s->bases.exchange);
}

static gr_status alloc_state(gr_step *s)
{
    size_t n_bytes = gr_step_state_bytes(s);

    if (s->vars->n_common == 0)
        return s->device->ops->alloc(s->device, n_bytes, &s->bases.state);
    GR_TRY(gr_pg_common(s->group, s->vars->n_common, n_bytes, &s->bases.state));
    s->common_bytes = n_bytes;
    return GR_OK;
}

void gr_step_free_state(gr_step *s)
{
    if (s->common_bytes > 0)
        gr_pg_common_free(s->bases.state, s->common_bytes);
    else
        s->device->ops->free(s->device, s->bases.state);
}

/* Ranks are compared before they share memory: a layout that differs is named, not hit. */
gr_status gr_step_seal(gr_step *s)
{
    const gr_backend_ops *ops = s->device->ops;
    void *mem;

    if (s->sealed)
        return GR_OK;
    GR_TRY(gr_vars_seal(s->vars));
    s->can_train = s->has_buckets;
    if (s->can_train)
        GR_TRY(gr_step_compare(s));
    /* Each only once: a seal that failed half-way is tried again. */
    if (!s->bases.state)
        GR_TRY(alloc_state(s));
    if (!s->scalars && !s->device->ops->needs_copies) {
        GR_TRY(ops->alloc(s->device, sizeof(gr_scalars), &mem));
        s->scalars = mem;
    }
    if (!s->bases.fault) {
        GR_TRY(ops->host_alloc(s->device, sizeof(gr_fault), &mem));
        memset(mem, 0, sizeof(gr_fault));
        s->bases.fault = mem;
    }
    GR_TRY(fill_state(s));
    if (s->can_train)
        GR_TRY(alloc_exchange(s));
    s->sealed = true;
    return GR_OK;
}

gr_status gr_step_bind(gr_step *s, gr_entry *e)
{
    gr_bases b = s->bases;

    b.scalars = s->device->ops->needs_copies ? e->input_mem : s->scalars;
    return gr_plan_bind(e->plan, &b);
}

/* Puts all plans on `arena`, in place of the old one. */
static gr_status move_arena(gr_step *s, void *arena, size_t n_bytes)
{
    s->device->ops->free(s->device, s->bases.arena);
    s->bases.arena = arena;
    s->arena_bytes = n_bytes;
    s->last = NULL; /* its outputs lay in the old one */
    for (int i = 0; i < s->n_entries; i++)
        GR_TRY(gr_step_bind(s, s->entries[i]));
    return GR_OK;
}

/* Without an arena no plan may stay: its addresses point nowhere. */
static void drop_entries(gr_step *s)
{
    for (int i = 0; i < s->n_entries; i++)
        gr_entry_destroy(s, s->entries[i]);
    s->n_entries = 0;
    s->last = NULL;
    s->arena_bytes = 0;
}

gr_status gr_step_grow_arena(gr_step *s, size_t n_bytes)
{
    const gr_backend_ops *ops = s->device->ops;
    void *arena = NULL;
    gr_error error;
    gr_status st;

    if (s->bases.arena && n_bytes <= s->arena_bytes)
        return GR_OK;
    GR_TRY(ops->sync(s->device));
    st = ops->alloc(s->device, n_bytes + 1, &arena);
    if (st == GR_OK)
        return move_arena(s, arena, n_bytes);
    if (!s->bases.arena)
        return st;
    /* There may be room for the new one where the old one lies; else the old comes back. */
    gr_error_take(&error, st);
    ops->free(s->device, s->bases.arena);
    s->bases.arena = NULL;
    if (ops->alloc(s->device, n_bytes + 1, &arena) == GR_OK)
        return move_arena(s, arena, n_bytes);
    if (ops->alloc(s->device, s->arena_bytes + 1, &arena) == GR_OK)
        GR_TRY(move_arena(s, arena, s->arena_bytes));
    else
        drop_entries(s);
    return gr_error_raise(&error);
}

gr_status gr_step_check_idle(const gr_step *s, const char *what)
{
    if (!s->sealed)
        return gr_fail(GR_ERR_ARG, "%s: there is no state before the first plan", what);
    if (s->micro != 0)
        return gr_fail(GR_ERR_ARG, "%s: micro-step %d of %d is under way; finish the update first",
                       what, s->micro, s->c.accumulate);
    return GR_OK;
}

static size_t var_bytes(const gr_var *v)
{
    return (size_t)gr_shape_count(&v->shape) * gr_dtype_bytes(v->dtype);
}

static gr_status set_number(gr_snapshot *snap, const char *key, uint64_t n)
{
    char text[32];

    snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
    return gr_snapshot_set(snap, key, text);
}

typedef struct copy_job {
    char *dst;
    const char *src;
    int64_t n_bytes;
} copy_job;

static void copy_slice(void *arg, int slice, int n_slices)
{
    const copy_job *j = arg;
    int64_t lo, hi;

    gr_pool_cut(j->n_bytes, COPY_GRAIN, slice, n_slices, &lo, &hi);
    memcpy(j->dst + lo, j->src + lo, (size_t)(hi - lo));
}

/* Between steps the pool is idle: where the host can read the state all threads copy. */
static gr_status fetch(gr_step *s, void *dst, const gr_var *v)
{
    copy_job j = { .dst = dst,
                   .src = (const char *)s->bases.state + v->offset,
                   .n_bytes = (int64_t)var_bytes(v) };

    if (!s->device->ops->has_host_memory)
        return s->device->ops->download(s->device, j.dst, j.src, (size_t)j.n_bytes);
    gr_pool_run(s->pool, copy_slice, &j, j.n_bytes > COPY_GRAIN ? gr_pool_size(s->pool) : 1);
    return GR_OK;
}

/* The memory for `v` in the snapshot: what it has from the last save, or new. */
static gr_status place_in(gr_snapshot *snap, const gr_var *v, void **mem)
{
    const gr_named *old = gr_snapshot_find(snap, v->name);

    if (!old)
        return gr_snapshot_add(snap, v->name, v->dtype, *gr_var_whole(v), mem);
    if (old->dtype != v->dtype || !gr_shape_equal(&old->shape, gr_var_whole(v)))
        return gr_fail(GR_ERR_ARG, "save: the snapshot has another '%s'", v->name);
    *mem = old->mem;
    return GR_OK;
}

static bool is_left_out(const gr_var *v, gr_save_part part)
{
    /* Of use within an update (see gr_step_check_idle()), or made of what is saved. */
    if (v->kind == GR_VAR_HELD || v->kind == GR_VAR_COPY)
        return true;
    return part == GR_SAVE_TRAINABLE && v->kind == GR_VAR_PARAM && v->frozen;
}

/* Names of frozen parameters, a line each: who reads the file can tell them apart. */
static gr_status list_frozen(const gr_step *s, gr_snapshot *snap)
{
    gr_text names = GR_TEXT_INIT;
    gr_status st;

    for (int i = 0; i < s->vars->n; i++)
        if (s->vars->list[i]->kind == GR_VAR_PARAM && s->vars->list[i]->frozen)
            gr_text_addf(&names, "%s\n", s->vars->list[i]->name);
    st = gr_text_status(&names);
    if (st == GR_OK && names.len > 0)
        st = gr_snapshot_set(snap, KEY_FROZEN, gr_text_str(&names));
    gr_text_fini(&names);
    return st;
}

/* With shards the snapshot is rank 0's; the others only give their parts. */
static bool has_snapshot(const gr_step *s)
{
    return !gr_step_shards(s) || gr_pg_rank(s->c.pg) == 0;
}

static gr_status save_var(gr_step *s, gr_snapshot *snap, const gr_var *v)
{
    void *mem = NULL;

    if (has_snapshot(s))
        GR_TRY(place_in(snap, v, &mem));
    if (v->part_of)
        return gr_step_gather_part(s, v, mem);
    return has_snapshot(s) ? fetch(s, mem, v) : GR_OK;
}

static gr_status save_all(gr_step *s, gr_snapshot *snap, gr_save_part part)
{
    for (int i = 0; i < s->vars->n; i++)
        if (!is_left_out(s->vars->list[i], part))
            GR_TRY(save_var(s, snap, s->vars->list[i]));
    GR_TRY(s->device->ops->sync(s->device));
    if (!has_snapshot(s))
        return GR_OK;
    GR_TRY(list_frozen(s, snap));
    GR_TRY(gr_snapshot_set(snap, KEY_PART, part == GR_SAVE_TRAINABLE ? "trainable" : "all"));
    GR_TRY(set_number(snap, KEY_STEP, (uint64_t)s->n_updates));
    return set_number(snap, KEY_SEED, s->c.seed);
}

gr_status gr_step_save_into(gr_step *s, gr_snapshot *snap, gr_save_part part)
{
    gr_status st;

    GR_TRY(gr_step_check_given(s));
    if (!snap)
        return gr_fail(GR_ERR_ARG, "save: the snapshot is NULL");
    if (part != GR_SAVE_ALL && part != GR_SAVE_TRAINABLE)
        return gr_fail(GR_ERR_ARG, "save: there is no part %d of a state", (int)part);
    GR_TRY(gr_step_check_idle(s, "save"));
    gr_step_put_back_params(s);
    GR_TRY(s->device->ops->sync(s->device));
    st = save_all(s, snap, part);
    if (st != GR_OK && gr_step_shards(s))
        gr_pg_abort(s->c.pg, gr_error_message()); /* the others wait for this rank */
    return st;
}

gr_status gr_step_save(gr_step *s, gr_snapshot **out)
{
    gr_snapshot *snap;
    gr_status st;

    if (!out)
        return gr_fail(GR_ERR_ARG, "save: out is NULL");
    GR_TRY(gr_snapshot_create(&snap));
    st = gr_step_save_into(s, snap, GR_SAVE_ALL);
    if (st != GR_OK) {
        gr_snapshot_destroy(snap);
        return st;
    }
    *out = snap;
    return GR_OK;
}

/* Everything is checked before anything is written: a refused restore changes nothing. */
static gr_status check_tensor(const gr_var *v, const gr_named *t)
{
    char a[GR_SHAPE_TEXT], b[GR_SHAPE_TEXT];

    if (!t)
        return gr_fail(GR_ERR_ARG, "restore: the snapshot has no '%s'", v->name);
    if (t->dtype == v->dtype && gr_shape_equal(&t->shape, gr_var_whole(v)))
        return GR_OK;
    return gr_fail(GR_ERR_ARG, "restore: '%s' is %s %s in the snapshot, %s %s here", v->name,
                   gr_dtype_name(t->dtype), gr_shape_text(&t->shape, a, sizeof(a)),
                   gr_dtype_name(v->dtype), gr_shape_text(gr_var_whole(v), b, sizeof(b)));
}

static gr_save_part part_of(const gr_snapshot *snap)
{
    const char *part = gr_snapshot_get(snap, KEY_PART);

    return part && strcmp(part, "trainable") == 0 ? GR_SAVE_TRAINABLE : GR_SAVE_ALL;
}

static gr_status check_snapshot(const gr_step *s, const gr_snapshot *snap)
{
    gr_save_part part = part_of(snap);

    for (int i = 0; i < s->vars->n; i++) {
        const gr_named *t = gr_snapshot_find(snap, s->vars->list[i]->name);

        if (t || !is_left_out(s->vars->list[i], part))
            GR_TRY(check_tensor(s->vars->list[i], t));
    }
    for (int i = 0; i < gr_snapshot_count(snap); i++) {
        const char *name = gr_snapshot_at(snap, i)->name;

        if (!gr_vars_find(s->vars, name) &&
            strncmp(name, GR_SNAPSHOT_ASIDE, strlen(GR_SNAPSHOT_ASIDE)) != 0)
            return gr_fail(GR_ERR_ARG, "restore: the snapshot has '%s', which this model has not",
                           name);
    }
    return GR_OK;
}

static gr_status read_number(const gr_snapshot *snap, const char *key, uint64_t *out)
{
    const char *text = gr_snapshot_get(snap, key);
    char *end;

    if (!text)
        return gr_fail(GR_ERR_ARG, "restore: the snapshot has no entry '%s'", key);
    errno = 0;
    *out = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0)
        return gr_fail(GR_ERR_FORMAT, "restore: entry '%s' is '%s', not a number", key, text);
    return GR_OK;
}

/* What a restore takes from the snapshot, which with shards only rank 0 has. */
typedef struct restored {
    const gr_snapshot *snap; /* NULL: rank 0's */
    uint64_t step, seed;
    char *has; /* by variable: 1 when the snapshot has it */
} restored;

static gr_status read_snapshot(gr_step *s, restored *r)
{
    if (!r->snap)
        return gr_fail(GR_ERR_ARG, "restore: the snapshot is NULL");
    GR_TRY(check_snapshot(s, r->snap));
    GR_TRY(read_number(r->snap, KEY_STEP, &r->step));
    GR_TRY(read_number(r->snap, KEY_SEED, &r->seed));
    if (r->step > INT64_MAX)
        return gr_fail(GR_ERR_FORMAT, "restore: entry '%s' is out of range", KEY_STEP);
    for (int i = 0; i < s->vars->n; i++)
        r->has[i] = gr_snapshot_find(r->snap, s->vars->list[i]->name) != NULL;
    return GR_OK;
}

/* Rank 0 looks at its snapshot and tells what it found: one failure for all. */
static gr_status agree_on_snapshot(gr_step *s, restored *r)
{
    uint64_t numbers[2];
    gr_status st = GR_OK;

    if (gr_pg_rank(s->c.pg) == 0)
        st = read_snapshot(s, r);
    else
        r->snap = NULL;
    GR_TRY(gr_step_tell(s, st, r->has, (size_t)s->vars->n));
    numbers[0] = r->step;
    numbers[1] = r->seed;
    GR_TRY(gr_step_tell(s, GR_OK, numbers, sizeof(numbers)));
    r->step = numbers[0];
    r->seed = numbers[1];
    return GR_OK;
}

static gr_status restore_var(gr_step *s, const restored *r, const gr_var *v, void *dst)
{
    const gr_named *t = r->snap ? gr_snapshot_find(r->snap, v->name) : NULL;

    if (v->part_of)
        return gr_step_scatter_part(s, v, t ? t->mem : NULL, dst);
    if (t)
        memcpy(dst, t->mem, var_bytes(v));
    return gr_step_shards(s) ? gr_step_tell(s, GR_OK, dst, var_bytes(v)) : GR_OK;
}

/* What the snapshot leaves out keeps the values that it has: they come down first. */
static gr_status write_state(gr_step *s, const restored *r)
{
    const gr_backend_ops *ops = s->device->ops;
    void *pinned;
    gr_status st = GR_OK;

    GR_TRY(ops->host_alloc(s->device, s->vars->n_bytes + 1, &pinned));
    memset(pinned, 0, s->vars->n_bytes);
    for (int i = 0; i < s->vars->n && st == GR_OK; i++) {
        const gr_var *v = s->vars->list[i];
        char *dst = (char *)pinned + v->offset;

        if (v->kind != GR_VAR_COPY) /* these follow */
            st = r->has[i] ? restore_var(s, r, v, dst) : fetch(s, dst, v);
    }
    if (st == GR_OK)
        st = ops->sync(s->device);
    if (st == GR_OK)
        gr_vars_fill_copies(s->vars, pinned);
    if (st == GR_OK)
        st = ops->upload(s->device, s->bases.state, pinned, s->vars->n_bytes);
    if (st == GR_OK)
        st = ops->sync(s->device);
    ops->host_free(s->device, pinned);
    return st;
}

static gr_status restore(gr_step *s, restored *r)
{
    GR_TRY(gr_step_shards(s) ? agree_on_snapshot(s, r) : read_snapshot(s, r));
    GR_TRY(write_state(s, r));
    GR_TRY(gr_step_clear_record(s));
    s->n_updates = (int64_t)r->step;
    s->c.seed = r->seed;
    s->saw_bad_data = false;
    return GR_OK;
}

gr_status gr_step_restore(gr_step *s, const gr_snapshot *snap)
{
    restored r = { .snap = snap };
    gr_status st;

    GR_TRY(gr_step_check_given(s));
    GR_TRY(gr_step_check_idle(s, "restore"));
    gr_step_put_back_params(s);
    r.has = gr_calloc((size_t)s->vars->n + 1, 1);
    if (!r.has)
        return GR_ERR_NOMEM;
    st = restore(s, &r);
    gr_free(r.has);
    return st;
}
