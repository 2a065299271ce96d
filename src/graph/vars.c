/* The table of state variables: found by name, laid out once, filled from one stream. */
#include "graph/vars.h"

#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/half.h"
#include "base/random.h"
#include "base/size.h"

#define PAGE_BYTES 4096u

gr_status gr_vars_create(gr_vars **out)
{
    gr_vars *t = gr_calloc(1, sizeof(*t));
    gr_status st;

    if (!t)
        return GR_ERR_NOMEM;
    t->align = 64;
    GR_TRY_GOTO(st, gr_arena_create(&t->arena), fail);
    *out = t;
    return GR_OK;

fail:
    gr_vars_destroy(t);
    return st;
}

void gr_vars_destroy(gr_vars *t)
{
    if (!t)
        return;
    gr_free(t->list);
    gr_arena_destroy(t->arena);
    gr_free(t);
}

gr_var *gr_vars_find(const gr_vars *t, const char *name)
{
    for (int i = 0; i < t->n; i++)
        if (strcmp(t->list[i]->name, name) == 0)
            return t->list[i];
    return NULL;
}

static const char *kind_name(gr_var_kind kind)
{
    return kind == GR_VAR_PARAM    ? "parameter"
           : kind == GR_VAR_BUFFER ? "buffer"
           : kind == GR_VAR_HELD   ? "held buffer"
           : kind == GR_VAR_COPY   ? "copy in 16 bits"
                                   : "variable of the optimiser";
}

static gr_status check_same(const gr_var *have, const gr_var *want)
{
    char a[GR_SHAPE_TEXT], b[GR_SHAPE_TEXT];

    if (have->kind == want->kind && have->dtype == want->dtype &&
        gr_shape_equal(&have->shape, &want->shape))
        return GR_OK;
    if (have->kind != want->kind)
        return gr_fail(GR_ERR_ARG, "variable '%s' is a %s, now asked for as a %s", want->name,
                       kind_name(have->kind), kind_name(want->kind));
    return gr_fail(GR_ERR_ARG, "variable '%s' is %s %s, now asked for as %s %s", want->name,
                   gr_dtype_name(have->dtype), gr_shape_text(&have->shape, a, sizeof(a)),
                   gr_dtype_name(want->dtype), gr_shape_text(&want->shape, b, sizeof(b)));
}

/* Names go into files and messages: one line of text, and not the key that safetensors
 * keeps for itself. */
static gr_status check_name(const char *name)
{
    if (!name || !*name)
        return gr_fail(GR_ERR_ARG, "a variable without a name");
    if (strcmp(name, "__metadata__") == 0)
        return gr_fail(GR_ERR_ARG, "a variable cannot be called '__metadata__'");
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return gr_fail(GR_ERR_ARG, "the variable name '%s' holds a control character", name);
    return GR_OK;
}

/* ---- freezing by name ---- */

#define MAX_PATTERN GR_VARS_PATTERN

/* Takes the next pattern off a list parted by commas, without blanks around it; false at the
 * end. One that is too long matches nothing, and is then named as such. */
static bool next_pattern(const char **list, char one[MAX_PATTERN])
{
    const char *at = *list + strspn(*list, " ,");
    size_t len = strcspn(at, ",");

    *list = at + len;
    while (len > 0 && at[len - 1] == ' ')
        len--;
    if (len >= MAX_PATTERN)
        len = MAX_PATTERN - 1;
    memcpy(one, at, len);
    one[len] = '\0';
    return len > 0;
}

static bool is_frozen(const char *patterns, const char *name)
{
    char one[MAX_PATTERN];

    while (patterns && next_pattern(&patterns, one))
        if (fnmatch(one, name, 0) == 0)
            return true;
    return false;
}

gr_status gr_vars_check_freeze(const gr_vars *t)
{
    const char *rest = t->freeze;
    char one[MAX_PATTERN];

    while (rest && next_pattern(&rest, one)) {
        GR_TRY(gr_wrap(gr_vars_check_pattern(t, one), "freeze"));
    }
    return GR_OK;
}

/* A negative deviation draws the numbers of another one, which is not what was meant. */
static gr_status check_init(const gr_var *want)
{
    const gr_init *k = &want->init;

    if ((k->kind == GR_INIT_NORMAL || k->kind == GR_INIT_TRUNC_NORMAL) && k->b < 0)
        return gr_fail(GR_ERR_ARG, "variable '%s': starts with a deviation of %g, below 0",
                       want->name, k->b);
    return GR_OK;
}

static gr_status add(gr_vars *t, const gr_var *want, gr_var **out)
{
    gr_var *v = gr_arena_new(t->arena, gr_var);
    char *name = gr_arena_strdup(t->arena, want->name);

    if (!v || !name)
        return GR_ERR_NOMEM;
    GR_TRY(gr_wrap(gr_shape_check(&want->shape, want->dtype), "variable '%s'", want->name));
    GR_TRY(check_init(want));
    GR_TRY(gr_grow((void **)&t->list, &t->cap, t->n + 1, sizeof(*t->list)));
    *v = *want;
    v->name = name;
    v->frozen = v->frozen || (v->kind == GR_VAR_PARAM && is_frozen(t->freeze, name));
    v->index = t->n;
    t->list[t->n++] = v;
    *out = v;
    return GR_OK;
}

gr_status gr_vars_get(gr_vars *t, const gr_var *want, gr_var **out)
{
    gr_var *have;

    GR_TRY(check_name(want->name));
    have = gr_vars_find(t, want->name);
    if (have) {
        GR_TRY(check_same(have, want));
        *out = have;
        return GR_OK;
    }
    if (t->sealed)
        return gr_fail(GR_ERR_ARG,
                       "variable '%s' is new, but the state was laid out by the first plan; "
                       "the training trace must use every variable",
                       want->name);
    return add(t, want, out);
}

static gr_status place_vars(gr_vars *t, bool common, size_t *at)
{
    for (int i = 0; i < t->n; i++) {
        gr_var *v = t->list[i];
        size_t n_bytes = (size_t)gr_shape_count(&v->shape) * gr_dtype_bytes(v->dtype);

        if (v->common != common)
            continue;
        v->offset = *at;
        GR_TRY(gr_size_add(at, *at, n_bytes + t->align - 1));
        *at &= ~(t->align - 1);
    }
    return GR_OK;
}

gr_status gr_vars_seal(gr_vars *t)
{
    size_t at = 0;

    GR_TRY(place_vars(t, true, &at));
    GR_TRY(gr_size_add(&at, at, PAGE_BYTES - 1));
    t->n_common = at &= ~(size_t)(PAGE_BYTES - 1);
    GR_TRY(place_vars(t, false, &at));
    t->n_bytes = at;
    t->sealed = true;
    return GR_OK;
}

static gr_status fill_const(const gr_var *v, void *dst, size_t n)
{
    if (v->dtype == GR_F32) {
        for (size_t i = 0; i < n; i++)
            ((float *)dst)[i] = (float)v->init.a;
        return GR_OK;
    }
    if (v->dtype == GR_I64) {
        for (size_t i = 0; i < n; i++)
            ((int64_t *)dst)[i] = (int64_t)v->init.a;
        return GR_OK;
    }
    if (v->dtype == GR_I32) {
        for (size_t i = 0; i < n; i++)
            ((int32_t *)dst)[i] = (int32_t)v->init.a;
        return GR_OK;
    }
    return gr_fail(GR_ERR_ARG, "variable '%s': no starting values for type %s", v->name,
                   gr_dtype_name(v->dtype));
}

static gr_status fill_random(const gr_var *v, gr_mt19937 *r, float *dst, size_t n)
{
    const gr_init *k = &v->init;
    gr_mt_cut cut = { k->a, k->b, k->lo, k->hi };
    gr_status st = GR_OK;

    if (!isfinite(k->a) || !isfinite(k->b))
        return gr_fail(GR_ERR_ARG, "variable '%s': starts from %g and %g", v->name, k->a, k->b);
    if (k->kind == GR_INIT_UNIFORM)
        gr_mt_uniform_f32(r, dst, n, (float)k->a, (float)k->b);
    else if (k->kind == GR_INIT_NORMAL)
        gr_mt_normal_f32(r, dst, n, (float)k->a, (float)k->b);
    else
        st = gr_mt_trunc_normal_f32(r, dst, n, &cut);
    return st == GR_OK ? st : gr_wrap(st, "variable '%s'", v->name);
}

/* Behind the draws, so that what is drawn later does not depend on it. */
static gr_status clear_row(const gr_var *v, void *dst, size_t n)
{
    int64_t n_rows = v->shape.n_dims > 0 ? v->shape.dim[0] : 0;
    size_t n_bytes;

    if (v->init.zeros == 0)
        return GR_OK;
    if (v->init.zeros < 0 || v->init.zeros > n_rows)
        return gr_fail(GR_ERR_ARG, "variable '%s': row %lld is to be zeros, and there are %lld",
                       v->name, (long long)v->init.zeros - 1, (long long)n_rows);
    n_bytes = n / (size_t)n_rows * gr_dtype_bytes(v->dtype);
    memset((char *)dst + (size_t)(v->init.zeros - 1) * n_bytes, 0, n_bytes);
    return GR_OK;
}

static gr_status fill_var(const gr_var *v, gr_mt19937 *r, void *dst)
{
    gr_status st;
    size_t n = (size_t)gr_shape_count(&v->shape);

    if (v->copy_of) {
        size_t first = v->part_of ? (size_t)v->first : 0, size = gr_dtype_bytes(v->dtype);

        memcpy(dst, (const char *)dst - v->offset + v->copy_of->offset + first * size, n * size);
        return GR_OK;
    }
    if (v->init.kind == GR_INIT_CONST)
        st = fill_const(v, dst, n);
    else if (v->dtype == GR_F32)
        st = fill_random(v, r, dst, n);
    else
        st = gr_fail(GR_ERR_ARG, "variable '%s': random values need type f32, not %s", v->name,
                     gr_dtype_name(v->dtype));
    return st == GR_OK ? clear_row(v, dst, n) : st;
}

/* Whether v waits for a variable that comes later in the table. */
static bool is_late(const gr_var *v)
{
    return v->drawn_after && v->drawn_after->index > v->index;
}

gr_status gr_vars_fill(const gr_vars *t, uint64_t seed, void *host)
{
    gr_mt19937 r;

    GR_BUG_IF(!t->sealed);
    gr_mt_seed(&r, seed);
    for (int i = 0; i < t->n; i++) {
        if (is_late(t->list[i]) || t->list[i]->kind == GR_VAR_COPY)
            continue;
        GR_TRY(fill_var(t->list[i], &r, (char *)host + t->list[i]->offset));
        for (int k = 0; k < i; k++) {
            const gr_var *v = t->list[k];

            if (v->drawn_after != t->list[i])
                continue;
            for (int64_t n = 0; n < v->n_burnt; n++)
                (void)gr_mt_u32(&r);
            GR_TRY(fill_var(v, &r, (char *)host + v->offset));
        }
    }
    gr_vars_fill_copies(t, host);
    return GR_OK;
}

void gr_vars_fill_copies(const gr_vars *t, void *host)
{
    for (int i = 0; i < t->n; i++) {
        const gr_var *v = t->list[i];
        size_t n = (size_t)gr_shape_count(&v->shape);
        const float *param;
        uint16_t *copy;

        if (v->kind != GR_VAR_COPY)
            continue;
        param = (const float *)((const char *)host + v->copy_of->offset);
        copy = (uint16_t *)((char *)host + v->offset);
        for (size_t k = 0; k < n; k++)
            copy[k] = v->dtype == GR_BF16 ? gr_f32_to_bf16(param[k]) : gr_f32_to_f16(param[k]);
    }
}
