/*
 * From the nested value of a file to the flat names of a snapshot:
 *
 *     {"model": {"fc.weight": tensor}, "epoch": 3}  ->  tensor "model.fc.weight",
 *                                                       text "epoch" = "3"
 *
 * (1) Keys are joined with '.'; places in lists and tuples are keys too. A list of nothing
 *     but numbers is one text.
 * (2) Two values under one name are refused.
 * (3) A small file can name a large whole (a list of lists of the same list, one element
 *     spread over a huge shape). Depth, visits, texts and bytes are therefore counted, and
 *     memory is taken only after its bytes were counted.
 */
#include "ckpt/pt.h"

#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct walk {
    const gr_pt_source *src;
    gr_snapshot *snap;
    gr_text name;  /* owned; where we are */
    size_t n_left; /* bytes that may still be taken */
    int n_visits;
} walk;

/* Invariant (3). */
static gr_status charge(walk *w, size_t n_bytes)
{
    size_t n = n_bytes + w->name.len;

    if (n < n_bytes || n > w->n_left)
        return gr_fail(GR_ERR_FORMAT,
                       "its values would take over %d times the %zu bytes of the file",
                       GR_PT_GROWTH, w->src->n_file);
    w->n_left -= n;
    return GR_OK;
}

/* Elements along the last dimension, one after the other. */
static void copy_row(unsigned char *dst, const unsigned char *src, size_t n, size_t step,
                     size_t elem_bytes)
{
    if (step == elem_bytes) {
        memcpy(dst, src, n * elem_bytes);
        return;
    }
    for (size_t i = 0; i < n; i++, dst += elem_bytes, src += step)
        memcpy(dst, src, elem_bytes);
}

static bool is_contiguous(const gr_pk_tensor *t)
{
    int64_t stride = 1;

    for (int i = t->shape.n_dims - 1; i >= 0; i--) {
        if (t->shape.dim[i] != 1 && t->stride[i] != stride)
            return false;
        stride *= t->shape.dim[i];
    }
    return true;
}

/* Row after row; the places of all but the last dimension count up like an odometer. */
static void copy_strided(unsigned char *dst, const unsigned char *src, const gr_pk_tensor *t)
{
    size_t elem_bytes = gr_dtype_bytes(t->storage->dtype);
    int last = t->shape.n_dims - 1;
    size_t n_row = (size_t)t->shape.dim[last];
    size_t n_rows = (size_t)gr_shape_count(&t->shape) / n_row;
    int64_t at[GR_MAX_DIMS] = { 0 };

    for (size_t row = 0; row < n_rows; row++) {
        size_t offset = 0;

        for (int i = 0; i < last; i++)
            offset += (size_t)(at[i] * t->stride[i]);
        copy_row(dst, src + offset * elem_bytes, n_row, (size_t)t->stride[last] * elem_bytes,
                 elem_bytes);
        dst += n_row * elem_bytes;
        for (int i = last - 1; i >= 0 && ++at[i] == t->shape.dim[i]; i--)
            at[i] = 0;
    }
}

static gr_status add_tensor(walk *w, const gr_pk_tensor *t)
{
    size_t elem_bytes = gr_dtype_bytes(t->storage->dtype);
    size_t n_bytes = (size_t)gr_shape_count(&t->shape) * elem_bytes;
    const unsigned char *bytes;
    void *mem;

    if (w->src->texts_only)
        return GR_OK;
    GR_TRY(w->src->storage(w->src->arg, t->storage, &bytes));
    GR_TRY(charge(w, n_bytes));
    GR_TRY(gr_snapshot_add(w->snap, gr_text_str(&w->name), t->storage->dtype, t->shape, &mem));
    if (n_bytes == 0)
        return GR_OK;
    bytes += (t->storage->first + t->first) * elem_bytes;
    if (is_contiguous(t))
        memcpy(mem, bytes, n_bytes);
    else
        copy_strided(mem, bytes, t);
    return GR_OK;
}

static gr_status add_bytes(walk *w, gr_pk_text bytes)
{
    gr_shape shape = GR_SHAPE((int64_t)bytes.n);
    void *mem;

    if (w->src->texts_only)
        return GR_OK;
    GR_TRY(charge(w, bytes.n));
    GR_TRY(gr_snapshot_add(w->snap, gr_text_str(&w->name), GR_U8, shape, &mem));
    if (bytes.n > 0)
        memcpy(mem, bytes.at, bytes.n);
    return GR_OK;
}

static gr_status add_text(walk *w, const char *key, const char *text, size_t n)
{
    int before = gr_snapshot_n_texts(w->snap);

    if (memchr(text, '\0', n))
        return gr_fail(GR_ERR_FORMAT, "a text with a NUL in it");
    if (before >= GR_PT_MAX_TEXTS)
        return gr_fail(GR_ERR_FORMAT, "more than %d texts and numbers", GR_PT_MAX_TEXTS);
    GR_TRY(gr_snapshot_set(w->snap, key, text));
    if (gr_snapshot_n_texts(w->snap) == before) /* it took the place of another */
        return gr_fail(GR_ERR_FORMAT, "a second text of that name");
    return GR_OK;
}

/* A text of the pickle, which has no NUL at its end. */
static gr_status add_pickled(walk *w, const char *key, gr_pk_text text)
{
    gr_text copy = GR_TEXT_INIT;
    gr_status st;

    GR_TRY(charge(w, text.n));
    gr_text_addn(&copy, (const char *)text.at, text.n);
    GR_TRY_GOTO(st, gr_text_status(&copy), done);
    st = add_text(w, key, gr_text_str(&copy), text.n);

done:
    gr_text_fini(&copy);
    return st;
}

/* The fewest digits that give the same number again. */
static void float_text(gr_text *t, double f)
{
    char digits[40];

    for (int n = 15; n <= 17; n++) {
        snprintf(digits, sizeof(digits), "%.*g", n, f);
        if (isnan(f) || strtod(digits, NULL) == f)
            break;
    }
    gr_text_add(t, isnan(f) ? "nan" : digits);
}

/* Is it a number, a bool or None? Appended to `t` then. */
static bool plain_text(gr_text *t, const gr_pk_value *v)
{
    switch (v->kind) {
    case GR_PK_NONE: gr_text_add(t, "null"); return true;
    case GR_PK_BOOL: gr_text_add(t, v->b ? "true" : "false"); return true;
    case GR_PK_INT: gr_text_addf(t, "%" PRId64, v->i); return true;
    case GR_PK_UINT: gr_text_addf(t, "%" PRIu64, v->u); return true;
    case GR_PK_FLOAT: float_text(t, v->f); return true;
    case GR_PK_TEXT:
    case GR_PK_BYTES:
    case GR_PK_TUPLE:
    case GR_PK_LIST:
    case GR_PK_DICT:
    case GR_PK_GLOBAL:
    case GR_PK_STORAGE:
    case GR_PK_TENSOR:
    case GR_PK_KIND_COUNT: break;
    }
    return false;
}

static bool is_plain(const gr_pk_value *v)
{
    return v->kind <= GR_PK_FLOAT;
}

static gr_status add_numbers(walk *w, const gr_pk_value *v)
{
    gr_text text = GR_TEXT_INIT;
    gr_status st;

    if (is_plain(v)) {
        plain_text(&text, v);
    } else {
        gr_text_add(&text, "[");
        for (int i = 0; i < v->items.n; i++) {
            gr_text_add(&text, i ? ", " : "");
            plain_text(&text, v->items.at[i]);
        }
        gr_text_add(&text, "]");
    }
    GR_TRY_GOTO(st, gr_text_status(&text), done);
    GR_TRY_GOTO(st, charge(w, text.len), done);
    st = add_text(w, gr_text_str(&w->name), text.str, text.len);

done:
    gr_text_fini(&text);
    return st;
}

static gr_status visit(walk *w, const gr_pk_value *v, int depth);

/* Visits `v` under the name one step longer; `key` is NULL for number `i` of a list. */
static gr_status step_in(walk *w, const gr_pk_value *key, int i, const gr_pk_value *v, int depth)
{
    size_t before = w->name.len;

    if (depth > 0)
        gr_text_add(&w->name, ".");
    if (!key)
        gr_text_addf(&w->name, "%d", i);
    else if (key->kind == GR_PK_TEXT && !memchr(key->text.at, '\0', key->text.n))
        gr_text_addn(&w->name, (const char *)key->text.at, key->text.n);
    else if (key->kind == GR_PK_INT)
        gr_text_addf(&w->name, "%" PRId64, key->i);
    else
        return gr_fail(GR_ERR_FORMAT, "a key that is neither a text without NUL nor an integer");
    GR_TRY(gr_text_status(&w->name));
    GR_TRY(charge(w, 0));
    GR_TRY(visit(w, v, depth + 1));
    w->name.len = before;
    if (w->name.str)
        w->name.str[before] = '\0';
    return GR_OK;
}

/* What our writer makes of a snapshot's texts, or made as an entry before: they come back under
 * their own names. */
static bool is_texts(const gr_pk_value *key, const gr_pk_value *v, int depth)
{
    if (depth != 0 || key->kind != GR_PK_TEXT || !gr_pk_text_is(key->text, GR_PK_TEXTS) ||
        v->kind != GR_PK_DICT)
        return false;
    for (int i = 0; i < v->items.n; i++)
        if (v->items.at[i]->kind != GR_PK_TEXT)
            return false;
    return true;
}

static gr_status add_texts(walk *w, const gr_pk_items *pairs)
{
    gr_text key = GR_TEXT_INIT;
    gr_status st = GR_OK;

    for (int i = 0; i < pairs->n && st == GR_OK; i += 2) {
        gr_pk_text name = pairs->at[i]->text;

        key.len = 0;
        gr_text_addn(&key, (const char *)name.at, name.n);
        GR_TRY_GOTO(st, gr_text_status(&key), done);
        if (memchr(gr_text_str(&key), '\0', name.n))
            st = gr_fail(GR_ERR_FORMAT, "the name of a text with a NUL in it");
        else
            st = charge(w, name.n);
        if (st == GR_OK)
            st = add_pickled(w, gr_text_str(&key), pairs->at[i + 1]->text);
    }

done:
    gr_text_fini(&key);
    return st;
}

static gr_status visit_dict(walk *w, const gr_pk_items *pairs, int depth)
{
    for (int i = 0; i < pairs->n; i += 2) {
        const gr_pk_value *key = pairs->at[i], *v = pairs->at[i + 1];

        if (is_texts(key, v, depth))
            GR_TRY(add_texts(w, &v->items));
        else
            GR_TRY(step_in(w, key, 0, v, depth));
    }
    return GR_OK;
}

static gr_status visit_list(walk *w, const gr_pk_value *v, int depth)
{
    int n_plain = 0;

    for (int i = 0; i < v->items.n; i++)
        n_plain += is_plain(v->items.at[i]);
    if (n_plain > GR_PT_MAX_VISITS - w->n_visits)
        return gr_fail(GR_ERR_FORMAT, "more than %d values", GR_PT_MAX_VISITS);
    w->n_visits += n_plain;
    if (n_plain == v->items.n)
        return add_numbers(w, v);
    for (int i = 0; i < v->items.n; i++)
        GR_TRY(step_in(w, NULL, i, v->items.at[i], depth));
    return GR_OK;
}

static gr_status visit(walk *w, const gr_pk_value *v, int depth)
{
    if (depth > GR_PT_MAX_DEPTH)
        return gr_fail(GR_ERR_FORMAT, "nested deeper than %d", GR_PT_MAX_DEPTH);
    if (++w->n_visits > GR_PT_MAX_VISITS)
        return gr_fail(GR_ERR_FORMAT, "more than %d values", GR_PT_MAX_VISITS);
    switch (v->kind) {
    case GR_PK_TENSOR: return add_tensor(w, v->tensor);
    case GR_PK_BYTES: return add_bytes(w, v->text);
    case GR_PK_TEXT: return add_pickled(w, gr_text_str(&w->name), v->text);
    case GR_PK_DICT: return visit_dict(w, &v->items, depth);
    case GR_PK_TUPLE:
    case GR_PK_LIST: return visit_list(w, v, depth);
    case GR_PK_GLOBAL:
        return gr_fail(GR_ERR_FORMAT, "'%s.%s' by itself is no value", v->global->module,
                       v->global->name);
    case GR_PK_STORAGE: return gr_fail(GR_ERR_FORMAT, "a storage without a tensor is refused");
    case GR_PK_NONE:
    case GR_PK_BOOL:
    case GR_PK_INT:
    case GR_PK_UINT:
    case GR_PK_FLOAT:
    case GR_PK_KIND_COUNT: break;
    }
    return add_numbers(w, v);
}

gr_status gr_pt_flatten(const gr_pt_source *src, gr_snapshot *snap)
{
    walk w = { .src = src, .snap = snap, .n_left = SIZE_MAX };
    char shown[GR_PK_SHOWN_BYTES];
    gr_status st;

    if (src->n_file < (SIZE_MAX - GR_PT_MORE_BYTES) / GR_PT_GROWTH)
        w.n_left = src->n_file * GR_PT_GROWTH + GR_PT_MORE_BYTES;
    st = visit(&w, src->value, 0);
    if (st != GR_OK && w.name.str) {
        gr_pk_text name = { .at = (const unsigned char *)w.name.str, .n = w.name.len };

        st = gr_wrap(st, "value '%s'", gr_pk_shown(name, shown));
    }
    gr_text_fini(&w.name);
    return st;
}
