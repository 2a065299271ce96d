/*
 * The header of a safetensors file, from text to a table. Everything in it is doubted:
 *
 * (1) Every key is "__metadata__" (text to text) or a tensor with exactly dtype, shape
 *     and data_offsets: an entry that we do not know might change what the bytes mean.
 * (2) Sorted by place, each tensor begins where the one before it ends, the first at 0,
 *     the last ends with the file; so the tensors together are as large as the file.
 * (3) A tensor's bytes are its shape times its type, multiplied with a check.
 * (4) A file that says "gradus.format" must carry the checksum: otherwise damage to the
 *     name of the checksum's entry would switch the check off.
 *
 * JSON is read by jansson, which tells a syntax error and missing memory apart only
 * through errno. Any thread.
 */
#include "ckpt/safetensors.h"

#include "base/alloc.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

static const char *const dtype_names[GR_DTYPE_COUNT] = {
#define X(id, name, st_name, bytes, is_float) st_name,
    GR_DTYPE_MAP(X)
#undef X
};

#define X(id, name, st_name, bytes, is_float) " " st_name
#define DTYPE_LIST                            GR_DTYPE_MAP(X)
static const char dtype_list[] = DTYPE_LIST;
#undef X

const char *gr_st_dtype_name(gr_dtype t)
{
    GR_BUG_IF((unsigned)t >= GR_DTYPE_COUNT);
    return dtype_names[t];
}

bool gr_st_key_is_reserved(const char *key)
{
    return strcmp(key, GR_ST_KEY_FRAMEWORK) == 0 || strcmp(key, GR_ST_KEY_VERSION) == 0 ||
           strcmp(key, GR_ST_KEY_CRC) == 0;
}

const char *gr_st_shown(const char *text, char buf[GR_ST_SHOWN_BYTES])
{
    size_t room = GR_ST_SHOWN_BYTES - sizeof("...");
    size_t n = strnlen(text, room + 1);
    bool is_cut = n > room;

    if (is_cut)
        for (n = room; n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80;)
            n--; /* a character of several bytes is dropped whole */
    for (size_t i = 0; i < n; i++)
        buf[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i];
    memcpy(buf + n, is_cut ? "..." : "", is_cut ? sizeof("...") : 1);
    return buf;
}

bool gr_st_crc_find(const char *header, size_t n_bytes, size_t *at)
{
    static const char mark[] = "\"" GR_ST_KEY_CRC "\":\"";
    const size_t n_mark = sizeof(mark) - 1;
    const char *end = header + n_bytes;
    const char *p = header;

    while ((p = memmem(p, (size_t)(end - p), mark, n_mark)) != NULL) {
        if ((size_t)(end - p) < n_mark + GR_ST_CRC_DIGITS + 1)
            return false;
        if (p == header || p[-1] != '\\') {
            *at = (size_t)(p - header) + n_mark;
            return p[n_mark + GR_ST_CRC_DIGITS] == '"';
        }
        p += n_mark;
    }
    return false;
}

static gr_status load_json(json_t **out, const char *text, size_t n_bytes)
{
    char shown[GR_ST_SHOWN_BYTES];
    json_error_t err;

    if (n_bytes == 0 || text[0] != '{')
        return gr_fail(GR_ERR_FORMAT, "the header of %zu bytes does not start with '{'", n_bytes);
    errno = 0;
    *out = json_loadb(text, n_bytes, JSON_REJECT_DUPLICATES, &err);
    if (*out)
        return GR_OK;
    if (errno == ENOMEM)
        return gr_fail(GR_ERR_NOMEM, "no memory to read a header of %zu bytes", n_bytes);
    return gr_fail(GR_ERR_FORMAT, "header of %zu bytes, at byte %d: %s", n_bytes, err.position,
                   gr_st_shown(err.text, shown));
}

static gr_status find_dtype(gr_dtype *out, const json_t *value)
{
    const char *name = json_string_value(value);
    char shown[GR_ST_SHOWN_BYTES];

    if (!name)
        return gr_fail(GR_ERR_FORMAT, "'dtype' is not a text");
    for (int t = 0; t < GR_DTYPE_COUNT; t++)
        if (strcmp(name, dtype_names[t]) == 0) {
            *out = (gr_dtype)t;
            return GR_OK;
        }
    return gr_fail(GR_ERR_FORMAT, "dtype '%s' is none of those known here:%s",
                   gr_st_shown(name, shown), dtype_list);
}

static gr_status find_shape(gr_shape *out, const json_t *value, gr_dtype t)
{
    size_t n = json_array_size(value);

    if (!json_is_array(value))
        return gr_fail(GR_ERR_FORMAT, "'shape' is not a list");
    if (n > GR_MAX_DIMS)
        return gr_fail(GR_ERR_FORMAT, "%zu dimensions, at most %d are possible", n, GR_MAX_DIMS);
    *out = (gr_shape){ .n_dims = (int)n };
    for (size_t i = 0; i < n; i++) {
        const json_t *dim = json_array_get(value, i);

        if (!json_is_integer(dim))
            return gr_fail(GR_ERR_FORMAT, "'shape', dimension %zu is not an integer", i);
        out->dim[i] = json_integer_value(dim);
    }
    if (gr_shape_check(out, t) != GR_OK)
        return gr_wrap(GR_ERR_FORMAT, "'shape'");
    return GR_OK;
}

static gr_status find_offsets(gr_st_tensor *t, const json_t *value)
{
    const json_t *begin = json_array_get(value, 0);
    const json_t *end = json_array_get(value, 1);

    if (json_array_size(value) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return gr_fail(GR_ERR_FORMAT, "'data_offsets' is not a list of two integers");
    if (json_integer_value(begin) < 0 || json_integer_value(end) < json_integer_value(begin))
        return gr_fail(GR_ERR_FORMAT, "'data_offsets' are %lld and %lld",
                       (long long)json_integer_value(begin), (long long)json_integer_value(end));
    t->begin = (size_t)json_integer_value(begin);
    t->end = (size_t)json_integer_value(end);
    return GR_OK;
}

static gr_status parse_tensor(gr_st_tensor *t, const json_t *entry)
{
    char text[GR_SHAPE_TEXT];
    size_t n_bytes;

    if (!json_is_object(entry) || json_object_size(entry) != 3)
        return gr_fail(GR_ERR_FORMAT, "entry is not dtype, shape and data_offsets");
    GR_TRY(find_dtype(&t->dtype, json_object_get(entry, "dtype")));
    GR_TRY(find_shape(&t->shape, json_object_get(entry, "shape"), t->dtype));
    GR_TRY(find_offsets(t, json_object_get(entry, "data_offsets")));
    n_bytes = (size_t)gr_shape_count(&t->shape) * gr_dtype_bytes(t->dtype); /* checked: (3) */
    if (t->end - t->begin != n_bytes)
        return gr_fail(GR_ERR_FORMAT, "%s %s takes %zu bytes, its offsets hold %zu",
                       gr_dtype_name(t->dtype), gr_shape_text(&t->shape, text, sizeof(text)),
                       n_bytes, t->end - t->begin);
    return GR_OK;
}

static int by_place(const void *a, const void *b)
{
    const gr_st_tensor *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end; /* an empty one before its neighbour */
}

/* Invariant (2). Sorts the tensors by place. */
static gr_status check_places(gr_st_header *h, size_t n_data_bytes)
{
    char shown[GR_ST_SHOWN_BYTES];
    size_t end = 0;

    if (h->n_tensors > 0)
        qsort(h->tensors, (size_t)h->n_tensors, sizeof(h->tensors[0]), by_place);
    for (int i = 0; i < h->n_tensors; i++) {
        const gr_st_tensor *t = &h->tensors[i];

        if (t->begin != end)
            return gr_fail(GR_ERR_FORMAT, "tensor '%s' begins at byte %zu, %s ends at %zu",
                           gr_st_shown(t->name, shown), t->begin,
                           i ? "the one before it" : "the header", end);
        end = t->end;
    }
    if (end != n_data_bytes)
        return gr_fail(GR_ERR_FORMAT, "the tensors take %zu bytes, the file holds %zu", end,
                       n_data_bytes);
    return GR_OK;
}

static gr_status check_texts(json_t *meta)
{
    char shown[GR_ST_SHOWN_BYTES];

    if (!json_is_object(meta))
        return gr_fail(GR_ERR_FORMAT, "'" GR_ST_METADATA "' is not an object");
    for (void *it = json_object_iter(meta); it; it = json_object_iter_next(meta, it))
        if (!json_is_string(json_object_iter_value(it)))
            return gr_fail(GR_ERR_FORMAT, "'" GR_ST_METADATA "', entry '%s' is not a text",
                           gr_st_shown(json_object_iter_key(it), shown));
    return GR_OK;
}

static gr_status parse_hex(uint32_t *out, const char *digits)
{
    uint32_t v = 0;

    for (int i = 0; i < GR_ST_CRC_DIGITS; i++) {
        static const char hex[] = "0123456789abcdef";
        const char *p = memchr(hex, digits[i], sizeof(hex) - 1);

        if (!p)
            return gr_fail(GR_ERR_FORMAT, "'" GR_ST_KEY_CRC "' is not %d digits of 0-9a-f",
                           GR_ST_CRC_DIGITS);
        v = v << 4 | (uint32_t)(p - hex);
    }
    *out = v;
    return GR_OK;
}

/* Version and checksum, invariant (4). */
static gr_status parse_marks(gr_st_header *h, const json_t *meta, const char *text, size_t n_bytes)
{
    const char *version = json_string_value(json_object_get(meta, GR_ST_KEY_VERSION));
    char shown[GR_ST_SHOWN_BYTES];

    h->has_crc = json_object_get(meta, GR_ST_KEY_CRC) != NULL;
    if (version && strcmp(version, GR_ST_VERSION) != 0)
        return gr_fail(GR_ERR_FORMAT, "'" GR_ST_KEY_VERSION "' is '%s', this program reads '%s'",
                       gr_st_shown(version, shown), GR_ST_VERSION);
    if (version && !h->has_crc)
        return gr_fail(GR_ERR_FORMAT,
                       "it has '" GR_ST_KEY_VERSION "' but no checksum '" GR_ST_KEY_CRC "'");
    if (!h->has_crc)
        return GR_OK;
    if (!gr_st_crc_find(text, n_bytes, &h->crc_at))
        return gr_fail(GR_ERR_FORMAT,
                       "'" GR_ST_KEY_CRC "' is not written as \"" GR_ST_KEY_CRC "\":\"%d digits\"",
                       GR_ST_CRC_DIGITS);
    return parse_hex(&h->crc, text + h->crc_at);
}

static gr_status parse_tensors(gr_st_header *h)
{
    char shown[GR_ST_SHOWN_BYTES];

    h->tensors = (gr_st_tensor *)gr_calloc(json_object_size(h->json), sizeof(h->tensors[0]));
    if (!h->tensors)
        return GR_ERR_NOMEM;
    for (void *it = json_object_iter(h->json); it; it = json_object_iter_next(h->json, it)) {
        gr_st_tensor *t = &h->tensors[h->n_tensors];
        gr_status st;

        t->name = json_object_iter_key(it);
        if (strcmp(t->name, GR_ST_METADATA) == 0)
            continue;
        st = parse_tensor(t, json_object_iter_value(it));
        if (st != GR_OK)
            return gr_wrap(st, "tensor '%s'", gr_st_shown(t->name, shown));
        h->n_tensors++;
    }
    return GR_OK;
}

gr_status gr_st_header_parse(gr_st_header *h, const char *text, size_t n_bytes, size_t n_data_bytes)
{
    json_t *meta;

    *h = (gr_st_header){ 0 };
    GR_TRY(load_json(&h->json, text, n_bytes));
    meta = json_object_get(h->json, GR_ST_METADATA);
    if (meta) {
        GR_TRY(check_texts(meta));
        GR_TRY(parse_marks(h, meta, text, n_bytes));
    }
    GR_TRY(parse_tensors(h));
    return check_places(h, n_data_bytes);
}

void gr_st_header_fini(gr_st_header *h)
{
    gr_free(h->tensors);
    json_decref(h->json);
    *h = (gr_st_header){ 0 };
}

gr_status gr_st_header_texts(const gr_st_header *h, gr_snapshot *s)
{
    json_t *meta = json_object_get(h->json, GR_ST_METADATA);

    for (void *it = json_object_iter(meta); it; it = json_object_iter_next(meta, it)) {
        const char *key = json_object_iter_key(it);

        if (!gr_st_key_is_reserved(key))
            GR_TRY(gr_snapshot_set(s, key, json_string_value(json_object_iter_value(it))));
    }
    return GR_OK;
}
