/*
 * The names that a pickle may mention, and what calling them gives. This list is the whole
 * of what a file can make happen: values of the kinds in pickle.h.
 *
 * Numbers of tensors are checked here, once: shape, strides and the last element that they
 * reach lie within the storage as the pickle describes it. Whether the file holds that
 * storage is checked where it is read.
 */
#include "ckpt/pickle.h"

#include "base/alloc.h"

#include <string.h>

static const gr_pk_global globals[] = {
    { "collections", "OrderedDict", GR_PK_ORDERED_DICT, GR_F32 },
    { "collections", "Counter", GR_PK_COUNTER, GR_F32 },
    { "torch._utils", "_rebuild_tensor", GR_PK_REBUILD_V1, GR_F32 },
    { "torch._utils", "_rebuild_tensor_v2", GR_PK_REBUILD_V2, GR_F32 },
    { "torch._utils", "_rebuild_parameter", GR_PK_PARAMETER, GR_F32 },
    { "_codecs", "encode", GR_PK_ENCODE, GR_F32 },
    { "__builtin__", "bytes", GR_PK_EMPTY_BYTES, GR_F32 },
    { "builtins", "bytes", GR_PK_EMPTY_BYTES, GR_F32 },
    { "torch", "Size", GR_PK_SIZE, GR_F32 },
    { "torch", "FloatStorage", GR_PK_STORAGE_CLASS, GR_F32 },
    { "torch", "DoubleStorage", GR_PK_STORAGE_CLASS, GR_F64 },
    { "torch", "BFloat16Storage", GR_PK_STORAGE_CLASS, GR_BF16 },
    { "torch", "HalfStorage", GR_PK_STORAGE_CLASS, GR_F16 },
    { "torch", "IntStorage", GR_PK_STORAGE_CLASS, GR_I32 },
    { "torch", "LongStorage", GR_PK_STORAGE_CLASS, GR_I64 },
    { "torch", "ByteStorage", GR_PK_STORAGE_CLASS, GR_U8 },
    { "torch", "BoolStorage", GR_PK_STORAGE_CLASS, GR_BOOL },
};

const gr_pk_global *gr_pk_global_find(gr_pk_text module, gr_pk_text name)
{
    static const char cuda[] = "torch.cuda";
    const gr_pk_text torch = { .at = (const unsigned char *)"torch", .n = 5 };

    for (size_t i = 0; i < sizeof(globals) / sizeof(globals[0]); i++)
        if (gr_pk_text_is(name, globals[i].name) && gr_pk_text_is(module, globals[i].module))
            return &globals[i];
    /* Old files name the storages of a GPU so; the bytes are the same. */
    if (gr_pk_text_is(module, cuda)) {
        const gr_pk_global *g = gr_pk_global_find(torch, name);

        return g && g->role == GR_PK_STORAGE_CLASS ? g : NULL;
    }
    return NULL;
}

static bool get_size(const gr_pk_value *v, size_t *out)
{
    if (v->kind != GR_PK_INT || v->i < 0)
        return false;
    *out = (size_t)v->i;
    return true;
}

/* (key, first element, number of elements): a part of a storage, in legacy files. */
static gr_status set_view(gr_pk_storage *s, const gr_pk_value *v)
{
    if (v->kind != GR_PK_TUPLE || v->items.n != 3 || !get_size(v->items.at[1], &s->first) ||
        !get_size(v->items.at[2], &s->n_view))
        return gr_fail(GR_ERR_FORMAT, "the view of a storage is not (key, offset, size)");
    if (s->first > s->n_elem || s->n_view > s->n_elem - s->first)
        return gr_fail(GR_ERR_FORMAT, "a view of %zu elements from %zu on, the storage has %zu",
                       s->n_view, s->first, s->n_elem);
    return GR_OK;
}

static gr_status read_storage(gr_pk_storage *s, const gr_pk_items *id)
{
    const gr_pk_value *class = id->at[1], *key = id->at[2];
    uint64_t n_bytes;

    if (class->kind != GR_PK_GLOBAL || class->global->role != GR_PK_STORAGE_CLASS)
        return gr_fail(GR_ERR_FORMAT, "a storage whose class is %s", gr_pk_kind_name(class->kind));
    if (key->kind != GR_PK_TEXT)
        return gr_fail(GR_ERR_FORMAT, "a storage whose key is %s", gr_pk_kind_name(key->kind));
    s->key = key->text;
    s->dtype = class->global->dtype;
    if (!get_size(id->at[4], &s->n_elem) ||
        __builtin_mul_overflow((uint64_t)s->n_elem, gr_dtype_bytes(s->dtype), &n_bytes) ||
        n_bytes > (uint64_t)INT64_MAX)
        return gr_fail(GR_ERR_FORMAT, "a storage whose number of elements is %s out of range",
                       gr_pk_kind_name(id->at[4]->kind));
    s->n_view = s->n_elem;
    if (id->n == 6 && id->at[5]->kind != GR_PK_NONE)
        return set_view(s, id->at[5]);
    return GR_OK;
}

gr_status gr_pk_persistent(gr_pk *pk, const gr_pk_value *id, gr_pk_value **out)
{
    void *items = pk->storages;
    gr_pk_storage *s;
    gr_status st;

    if (id->kind != GR_PK_TUPLE || id->items.n < 5 || id->items.n > 6 ||
        id->items.at[0]->kind != GR_PK_TEXT || !gr_pk_text_is(id->items.at[0]->text, "storage"))
        return gr_fail(GR_ERR_FORMAT, "a persistent id that is no storage is refused");
    s = gr_arena_new(pk->arena, gr_pk_storage);
    *out = gr_pk_new(pk, GR_PK_STORAGE);
    if (!s)
        return GR_ERR_NOMEM;
    if (!*out)
        return gr_pk_no_value(pk);
    GR_TRY(read_storage(s, &id->items));
    (*out)->storage = s;
    st = gr_grow(&items, &pk->cap_storages, pk->n_storages + 1, sizeof(*pk->storages));
    pk->storages = (const gr_pk_storage **)items;
    if (st == GR_OK)
        pk->storages[pk->n_storages++] = s;
    return st;
}

/* The numbers of a tuple of sizes or strides. */
static gr_status get_dims(const gr_pk_value *v, const char *what, int64_t *dim, int *n)
{
    if (v->kind != GR_PK_TUPLE && v->kind != GR_PK_LIST)
        return gr_fail(GR_ERR_FORMAT, "the %s of a tensor is %s", what, gr_pk_kind_name(v->kind));
    if (v->items.n > GR_MAX_DIMS)
        return gr_fail(GR_ERR_FORMAT, "a %s of %d dimensions, at most %d are possible", what,
                       v->items.n, GR_MAX_DIMS);
    *n = v->items.n;
    for (int i = 0; i < *n; i++) {
        const gr_pk_value *one = v->items.at[i];

        if (one->kind != GR_PK_INT || one->i < 0)
            return gr_fail(GR_ERR_FORMAT, "dimension %d of the %s is no integer from 0 on", i,
                           what);
        dim[i] = one->i;
    }
    return GR_OK;
}

/* Is the last element that the strides reach inside the storage? */
static gr_status check_reach(const gr_pk_tensor *t)
{
    uint64_t last = t->first;
    bool fits = true;

    if (gr_shape_count(&t->shape) == 0)
        return GR_OK;
    for (int i = 0; i < t->shape.n_dims; i++) {
        uint64_t far;

        fits = fits && !__builtin_mul_overflow((uint64_t)(t->shape.dim[i] - 1),
                                               (uint64_t)t->stride[i], &far);
        fits = fits && !__builtin_add_overflow(last, far, &last);
    }
    if (!fits || last >= t->storage->n_view) {
        char text[GR_SHAPE_TEXT];

        return gr_fail(GR_ERR_FORMAT, "a tensor %s from element %zu on, its storage has %zu",
                       gr_shape_text(&t->shape, text, sizeof(text)), t->first, t->storage->n_view);
    }
    return GR_OK;
}

static gr_status read_tensor(gr_pk_tensor *t, const gr_pk_items *args)
{
    int n_strides = 0;

    if (args->at[0]->kind != GR_PK_STORAGE)
        return gr_fail(GR_ERR_FORMAT, "a tensor whose storage is %s",
                       gr_pk_kind_name(args->at[0]->kind));
    t->storage = args->at[0]->storage;
    if (!get_size(args->at[1], &t->first))
        return gr_fail(GR_ERR_FORMAT, "a tensor whose offset is no integer from 0 on");
    GR_TRY(get_dims(args->at[2], "shape", t->shape.dim, &t->shape.n_dims));
    GR_TRY(get_dims(args->at[3], "stride", t->stride, &n_strides));
    if (n_strides != t->shape.n_dims)
        return gr_fail(GR_ERR_FORMAT, "a tensor of %d dimensions with %d strides", t->shape.n_dims,
                       n_strides);
    if (gr_shape_check(&t->shape, t->storage->dtype) != GR_OK)
        return gr_wrap(GR_ERR_FORMAT, "a tensor's shape");
    return check_reach(t);
}

/* (storage, offset, shape, stride[, requires_grad, hooks[, metadata]]) */
static gr_status rebuild(gr_pk *pk, const gr_pk_items *args, bool is_v1, gr_pk_value *out)
{
    gr_pk_tensor *t = gr_arena_new(pk->arena, gr_pk_tensor);

    if (!t)
        return GR_ERR_NOMEM;
    if (is_v1 ? args->n != 4 : args->n < 6 || args->n > 7)
        return gr_fail(GR_ERR_FORMAT, "a tensor made from %d values", args->n);
    /* Views that are to be negated or conjugated say so here. */
    if (args->n == 7 && !(args->at[6]->kind == GR_PK_NONE ||
                          (args->at[6]->kind == GR_PK_DICT && args->at[6]->items.n == 0)))
        return gr_fail(GR_ERR_FORMAT, "a tensor with metadata is refused");
    GR_TRY(read_tensor(t, args));
    out->kind = GR_PK_TENSOR;
    out->tensor = t;
    return GR_OK;
}

/* Python 2 gives the pairs as an argument, Python 3 sets them afterwards. */
static gr_status make_dict(gr_pk *pk, const gr_pk_items *args, gr_pk_value *out)
{
    out->kind = GR_PK_DICT;
    if (args->n == 0)
        return GR_OK;
    if (args->n != 1 || args->at[0]->kind != GR_PK_LIST)
        return gr_fail(GR_ERR_FORMAT, "an OrderedDict made from something else than a list");
    for (int i = 0; i < args->at[0]->items.n; i++) {
        const gr_pk_value *pair = args->at[0]->items.at[i];

        if ((pair->kind != GR_PK_LIST && pair->kind != GR_PK_TUPLE) || pair->items.n != 2)
            return gr_fail(GR_ERR_FORMAT, "an OrderedDict made from something else than pairs");
        GR_TRY(gr_pk_items_add(pk, &out->items, pair->items.at[0]));
        GR_TRY(gr_pk_items_add(pk, &out->items, pair->items.at[1]));
    }
    return GR_OK;
}

/* encode(text, 'latin1'): each character is one byte. */
static gr_status encode(gr_pk *pk, const gr_pk_items *args, gr_pk_value *out)
{
    gr_pk_text text;
    unsigned char *bytes;
    size_t n = 0;

    if (args->n != 2 || args->at[0]->kind != GR_PK_TEXT || args->at[1]->kind != GR_PK_TEXT ||
        !gr_pk_text_is(args->at[1]->text, "latin1"))
        return gr_fail(GR_ERR_FORMAT, "_codecs.encode of anything but (text, 'latin1') is refused");
    text = args->at[0]->text;
    GR_TRY(gr_pk_count(pk, text.n / sizeof(gr_pk_value))); /* the same text may come often */
    bytes = gr_arena_alloc(pk->arena, text.n);
    if (!bytes)
        return GR_ERR_NOMEM;
    for (size_t i = 0; i < text.n; i++) {
        if (text.at[i] < 0x80) {
            bytes[n++] = text.at[i];
        } else if (text.at[i] <= 0xc3) { /* valid UTF-8: one more byte follows */
            bytes[n++] = (unsigned char)(text.at[i] << 6 | (text.at[i + 1] & 0x3f));
            i++;
        } else {
            return gr_fail(GR_ERR_FORMAT, "bytes with a character beyond 255");
        }
    }
    out->kind = GR_PK_BYTES;
    out->text = (gr_pk_text){ .at = bytes, .n = n };
    return GR_OK;
}

/* The only argument, which must be of that kind, stands for the whole. */
static gr_status pass_on(const gr_pk_items *args, gr_pk_kind kind, const gr_pk_global *g,
                         gr_pk_value *out)
{
    if (args->n < 1 || args->at[0]->kind != kind)
        return gr_fail(GR_ERR_FORMAT, "%s.%s is not made from %s", g->module, g->name,
                       gr_pk_kind_name(kind));
    *out = *args->at[0];
    if (kind != GR_PK_TENSOR)
        out->items.cap = out->items.n; /* what is added later to one is not added to the other */
    return GR_OK;
}

static gr_status call(gr_pk *pk, const gr_pk_global *g, const gr_pk_items *args, gr_pk_value *out)
{
    switch (g->role) {
    case GR_PK_ORDERED_DICT: return make_dict(pk, args, out);
    case GR_PK_COUNTER: return pass_on(args, GR_PK_DICT, g, out);
    case GR_PK_REBUILD_V1: return rebuild(pk, args, true, out);
    case GR_PK_REBUILD_V2: return rebuild(pk, args, false, out);
    case GR_PK_PARAMETER: return pass_on(args, GR_PK_TENSOR, g, out);
    case GR_PK_SIZE: return pass_on(args, GR_PK_TUPLE, g, out);
    case GR_PK_ENCODE: return encode(pk, args, out);
    case GR_PK_EMPTY_BYTES:
        out->kind = GR_PK_BYTES;
        if (args->n == 0)
            return GR_OK;
        break;
    case GR_PK_STORAGE_CLASS: break;
    }
    return gr_fail(GR_ERR_FORMAT, "calling '%s.%s' is refused", g->module, g->name);
}

gr_status gr_pk_call(gr_pk *pk, const gr_pk_value *callee, const gr_pk_value *args,
                     gr_pk_value **out)
{
    if (callee->kind != GR_PK_GLOBAL || args->kind != GR_PK_TUPLE)
        return gr_fail(GR_ERR_FORMAT, "calling %s with %s is refused",
                       gr_pk_kind_name(callee->kind), gr_pk_kind_name(args->kind));
    *out = gr_pk_new(pk, GR_PK_NONE);
    if (!*out)
        return gr_pk_no_value(pk);
    return call(pk, callee->global, &args->items, *out);
}
