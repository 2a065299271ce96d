/*
 * .npy files: the parser of their head, arrays by themselves, and data sets of them.
 *
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }
 *
 * The head is read as what numpy writes: these three keys in any order, strings in either
 * quotes, nothing else.
 */
#include "data/npy.h"

#include "base/alloc.h"
#include "base/size.h"
#include "data/arrays.h"

#include <string.h>

/* ---- The head ---- */

typedef struct head {
    const char *at, *end;
    char descr[16];
    bool fortran;
    gr_shape shape;
    bool has_descr, has_order, has_shape;
} head;

static const struct {
    const char *descr;
    gr_dtype dtype;
} types[] = { { "|u1", GR_U8 },  { "|b1", GR_BOOL }, { "<f2", GR_F16 },
              { "<f4", GR_F32 }, { "<f8", GR_F64 },  { "<i4", GR_I32 },
              { "<i8", GR_I64 }, { "<u1", GR_U8 },   { "|?", GR_BOOL } };

static void skip_blanks(head *h)
{
    while (h->at < h->end && (*h->at == ' ' || *h->at == '\n' || *h->at == '\t'))
        h->at++;
}

static bool take(head *h, char c)
{
    skip_blanks(h);
    if (h->at == h->end || *h->at != c)
        return false;
    h->at++;
    return true;
}

static bool take_word(head *h, const char *word)
{
    size_t n = strlen(word);

    skip_blanks(h);
    if ((size_t)(h->end - h->at) < n || memcmp(h->at, word, n) != 0)
        return false;
    h->at += n;
    return true;
}

static bool take_string(head *h, char *dst, size_t cap)
{
    size_t n = 0;
    char quote;

    skip_blanks(h);
    if (h->at == h->end || (*h->at != '\'' && *h->at != '"'))
        return false;
    quote = *h->at++;
    while (h->at < h->end && *h->at != quote && n + 1 < cap)
        dst[n++] = *h->at++;
    dst[n] = '\0';
    return h->at < h->end && *h->at++ == quote;
}

static bool take_number(head *h, int64_t *out)
{
    bool any = false;

    skip_blanks(h);
    for (*out = 0; h->at < h->end && *h->at >= '0' && *h->at <= '9'; any = true) {
        if (*out > (INT64_MAX - 9) / 10)
            return false;
        *out = *out * 10 + (*h->at++ - '0');
    }
    return any;
}

static bool take_shape(head *h)
{
    h->shape.n_dims = 0;
    if (!take(h, '('))
        return false;
    while (!take(h, ')')) {
        if (h->shape.n_dims == GR_MAX_DIMS || !take_number(h, &h->shape.dim[h->shape.n_dims++]))
            return false;
        if (!take(h, ',')) /* numpy ends one-dimensional shapes with one */
            return take(h, ')');
    }
    return true;
}

static bool take_entry(head *h)
{
    char key[24];
    bool *seen;
    bool ok = take_string(h, key, sizeof(key)) && take(h, ':');

    if (!ok)
        return false;
    if (strcmp(key, "descr") == 0) {
        seen = &h->has_descr;
        ok = take_string(h, h->descr, sizeof(h->descr));
    } else if (strcmp(key, "fortran_order") == 0) {
        seen = &h->has_order;
        h->fortran = take_word(h, "True");
        ok = h->fortran || take_word(h, "False");
    } else if (strcmp(key, "shape") == 0) {
        seen = &h->has_shape;
        ok = take_shape(h);
    } else {
        return false;
    }
    ok = ok && !*seen;
    *seen = true;
    return ok;
}

static gr_status parse_head(head *h)
{
    const char *start = h->at;
    bool ok = take(h, '{');

    while (ok && !take(h, '}')) {
        ok = take_entry(h);
        if (ok && !take(h, ',')) {
            ok = take(h, '}');
            break;
        }
    }
    skip_blanks(h);
    if (!ok || h->at != h->end || !h->has_descr || !h->has_order || !h->has_shape)
        return gr_fail(GR_ERR_FORMAT, "this head of a .npy file is not understood: '%.*s'",
                       (int)(h->end - start < 120 ? h->end - start : 120), start);
    return GR_OK;
}

static gr_status find_type(const head *h, gr_dtype *out)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(types[i].descr, h->descr) == 0) {
            *out = types[i].dtype;
            return GR_OK;
        }
    return gr_fail(
        GR_ERR_FORMAT,
        "an array of type '%s' is not read here; save it as uint8, int32, int64, float16, "
        "float32 or float64, little-endian",
        h->descr);
}

/* More than one dimension that is not 1: then the two orders differ. */
static bool order_matters(const gr_shape *s)
{
    int n = 0;

    for (int i = 0; i < s->n_dims; i++)
        n += s->dim[i] != 1;
    return n > 1;
}

static gr_status find_head(const uint8_t *p, size_t n_bytes, size_t *from, size_t *n_head)
{
    if (n_bytes < 10 || memcmp(p, "\x93NUMPY", 6) != 0)
        return gr_fail(GR_ERR_FORMAT, "not a .npy file");
    if (p[6] < 1 || p[6] > 3)
        return gr_fail(GR_ERR_FORMAT, ".npy of version %d.%d; 1 to 3 are read", p[6], p[7]);
    *from = p[6] == 1 ? 10 : 12;
    if (n_bytes < *from)
        return gr_fail(GR_ERR_FORMAT, "the file is cut short");
    *n_head = p[6] == 1 ? p[8] | (size_t)p[9] << 8 : gr_le32(p + 8);
    if (*n_head > n_bytes - *from)
        return gr_fail(GR_ERR_FORMAT, "the file is cut short: a head of %zu bytes in %zu", *n_head,
                       n_bytes);
    return GR_OK;
}

gr_status gr_npy_parse(gr_npy *out, const void *src, size_t n_bytes)
{
    const uint8_t *p = (const uint8_t *)src;
    size_t from = 0, n_head = 0, want;
    head h = { 0 };

    GR_TRY(find_head(p, n_bytes, &from, &n_head));
    h.at = (const char *)p + from;
    h.end = h.at + n_head;
    GR_TRY(parse_head(&h));
    *out = (gr_npy){ .shape = h.shape, .data = p + from + n_head };
    GR_TRY(find_type(&h, &out->dtype));
    if (h.fortran && order_matters(&h.shape))
        return gr_fail(GR_ERR_FORMAT, "the array is in Fortran order; save it with "
                                      "numpy.ascontiguousarray()");
    if (gr_shape_check(&out->shape, out->dtype) != GR_OK)
        return gr_wrap(GR_ERR_FORMAT, "the shape in the head");
    want = gr_dtype_bytes(out->dtype) * (size_t)gr_shape_count(&out->shape);
    out->n_bytes = n_bytes - from - n_head;
    if (out->n_bytes != want)
        return gr_fail(GR_ERR_FORMAT, "the head says %zu bytes of data, the file holds %zu", want,
                       out->n_bytes);
    return GR_OK;
}

/* ---- Arrays ---- */

struct gr_array {
    gr_mapped map;
    gr_npy npy;
    gr_named view;
    char *path; /* owned */
};

/* Old versions of numpy did not pad the head: such data are copied to where they are aligned. */
static gr_status align(gr_mapped *m, gr_npy *npy)
{
    void *copy;

    if ((uintptr_t)npy->data % gr_dtype_bytes(npy->dtype) == 0)
        return GR_OK;
    copy = gr_malloc_aligned(npy->n_bytes);
    if (!copy)
        return GR_ERR_NOMEM;
    memcpy(copy, npy->data, npy->n_bytes);
    gr_mapped_close(m);
    *m = (gr_mapped){ .mem = (const uint8_t *)copy, .n_bytes = npy->n_bytes, .unpacked = copy };
    npy->data = m->mem;
    return GR_OK;
}

static gr_status open_npy(gr_mapped *m, gr_npy *npy, const char *path)
{
    gr_status st;

    GR_TRY(gr_mapped_open(m, path));
    st = gr_npy_parse(npy, m->mem, m->n_bytes);
    if (st == GR_OK)
        st = align(m, npy);
    return st == GR_OK ? GR_OK : gr_wrap(st, "'%s'", path);
}

void gr_array_close(gr_array *a)
{
    if (!a)
        return;
    gr_mapped_close(&a->map);
    gr_free(a->path);
    gr_free(a);
}

gr_status gr_array_open(gr_array **out, const char *path)
{
    gr_array *a;
    gr_status st;

    if (!out || !path)
        return gr_fail(GR_ERR_ARG, "array: out or path is NULL");
    *out = NULL;
    a = gr_calloc(1, sizeof(*a));
    st = a ? GR_OK : GR_ERR_NOMEM;
    if (st == GR_OK) {
        a->path = gr_strdup(path);
        st = a->path ? open_npy(&a->map, &a->npy, path) : GR_ERR_NOMEM;
    }
    if (st != GR_OK) {
        gr_array_close(a);
        return st;
    }
    a->view = (gr_named){ .name = a->path,
                          .dtype = a->npy.dtype,
                          .shape = a->npy.shape,
                          .mem = (void *)(uintptr_t)a->npy.data };
    *out = a;
    return GR_OK;
}

const gr_named *gr_array_view(const gr_array *a)
{
    return &a->view;
}

/* ---- Data sets ---- */

static gr_status check_numbers(const gr_npy *npy, const char *what)
{
    if (npy->dtype == GR_U8 || npy->dtype == GR_BOOL || npy->dtype == GR_I32 ||
        npy->dtype == GR_I64)
        return GR_OK;
    return gr_fail(GR_ERR_FORMAT, "%s of type %s; they are whole numbers", what,
                   gr_dtype_name(npy->dtype));
}

static gr_status add_labels(gr_arrays *a, const char *path)
{
    gr_block *b = &a->block[0];
    gr_npy npy = { 0 };
    gr_shape s;

    GR_TRY(open_npy(&a->map[1], &npy, path));
    s = npy.shape;
    if (s.n_dims == 4 && (s.dim[1] == 1 || s.dim[3] == 1)) { /* masks with a channel */
        s.n_dims = 3;
        s.dim[1] = s.dim[1] == 1 ? s.dim[2] : s.dim[1];
        s.dim[2] = npy.shape.dim[1] == 1 ? npy.shape.dim[3] : npy.shape.dim[2];
    }
    if (s.n_dims == 2 && s.dim[1] == 1)
        s.n_dims = 1;
    if ((s.n_dims != 1 && s.n_dims != 3) || s.dim[0] != b->n) {
        char text[GR_SHAPE_TEXT];

        return gr_fail(GR_ERR_FORMAT,
                       "'%s' is of shape %s; for %lld samples, classes are of [%lld], masks of "
                       "[%lld, height, width]",
                       path, gr_shape_text(&npy.shape, text, sizeof(text)), (long long)b->n,
                       (long long)b->n, (long long)b->n);
    }
    GR_TRY(check_numbers(&npy, s.n_dims == 1 ? "labels" : "masks"));
    if (s.n_dims == 1) {
        b->labels = npy.data;
        a->labels = (gr_numbers){ .dtype = npy.dtype };
        a->label_stride = gr_dtype_bytes(npy.dtype);
        return GR_OK;
    }
    if (s.dim[1] > 65535 || s.dim[2] > 65535)
        return gr_fail(GR_ERR_FORMAT, "'%s': masks of %lld x %lld", path, (long long)s.dim[2],
                       (long long)s.dim[1]);
    a->masks = npy.data;
    a->mask_numbers = (gr_numbers){ .dtype = npy.dtype };
    a->mask_height = (int)s.dim[1];
    a->mask_width = (int)s.dim[2];
    return GR_OK;
}

gr_status gr_open_npy(gr_dataset *ds, const gr_dataset_config *config)
{
    const char *slash = strrchr(config->path, '/');
    gr_arrays *a = NULL;
    gr_npy npy = { 0 };

    GR_TRY(gr_arrays_begin(ds, 1, 2, &a));
    GR_TRY(open_npy(&a->map[0], &npy, config->path));
    if (npy.shape.n_dims < 1)
        return gr_fail(GR_ERR_FORMAT, "'%s' is one number; samples lie along the first dimension",
                       config->path);
    a->dtype = npy.dtype;
    a->shape = gr_shape_of(npy.shape.n_dims - 1, npy.shape.dim + 1);
    a->layout = gr_layout_of(&a->shape, a->dtype);
    a->stride = (size_t)gr_shape_count(&a->shape) * gr_dtype_bytes(a->dtype);
    a->block[0] =
        (gr_block){ .samples = npy.data,
                    .n = npy.shape.dim[0],
                    .name = gr_arena_strdup(ds->arena, slash ? slash + 1 : config->path) };
    if (!a->block[0].name)
        return GR_ERR_NOMEM;
    if (config->labels)
        GR_TRY(add_labels(a, config->labels));
    GR_TRY(gr_arrays_end(ds));
    return gr_arrays_count_classes(ds, config->classes_of);
}
