/*
 * Writes a snapshot as a safetensors file.
 *
 * (1) Tensors of wide types come first, then by name: with a header of a multiple of 8
 *     bytes every tensor then lies at a multiple of its element, fit for mapping.
 * (2) The same snapshot gives the same bytes, whatever order its tensors were added in.
 * (3) The checksum (CRC-32C) is over the whole file with its own eight digits as '0'. It
 *     stands in the header, so the tensors are summed before the first byte is written.
 *
 * Strings are escaped by jansson, which refuses what is not UTF-8. Any thread; the
 * snapshot must not change meanwhile.
 */
#include "ckpt/safetensors.h"

#include "base/alloc.h"
#include "base/outfile.h"
#include "base/size.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are copied as they are");

#define HEADER_ALIGN 8

static int add_piece(const char *piece, size_t n_bytes, void *arg)
{
    gr_text *t = arg;

    gr_text_addn(t, piece, n_bytes);
    return t->status == GR_OK ? 0 : -1;
}

/* Appends the string with quotes and escapes. `what` names it in messages. */
static gr_status add_string(gr_text *t, const char *str, const char *what)
{
    char shown[GR_ST_SHOWN_BYTES];
    json_t *json;
    int rc;

    errno = 0;
    json = json_string(str);
    if (!json && errno != ENOMEM)
        return gr_fail(GR_ERR_ARG, "%s '%s' is not UTF-8", what, gr_st_shown(str, shown));
    if (!json)
        return gr_fail(GR_ERR_NOMEM, "no memory for %s '%s'", what, gr_st_shown(str, shown));
    rc = json_dump_callback(json, add_piece, t, JSON_ENCODE_ANY | JSON_COMPACT);
    json_decref(json);
    GR_TRY(gr_text_status(t));
    if (rc != 0)
        return gr_fail(GR_ERR_NOMEM, "no memory for %s '%s'", what, gr_st_shown(str, shown));
    return GR_OK;
}

static gr_status add_texts(gr_text *t, const gr_snapshot *s)
{
    gr_text_add(t, "{\"" GR_ST_METADATA "\":{\"" GR_ST_KEY_CRC "\":\"00000000\"");
    gr_text_add(t, ",\"" GR_ST_KEY_VERSION "\":\"" GR_ST_VERSION "\"");
    gr_text_add(t, ",\"" GR_ST_KEY_FRAMEWORK "\":\"" GR_ST_FRAMEWORK "\"");
    for (int i = 0; i < gr_snapshot_n_texts(s); i++) {
        const char *key, *text;

        gr_snapshot_text_at(s, i, &key, &text);
        if (gr_st_key_is_reserved(key))
            return gr_fail(GR_ERR_ARG, "the text '%s' is reserved for the file itself", key);
        gr_text_add(t, ",");
        GR_TRY(add_string(t, key, "the name of text"));
        gr_text_add(t, ":");
        GR_TRY(add_string(t, text, "text"));
    }
    gr_text_add(t, "}");
    return gr_text_status(t);
}

static size_t tensor_bytes(const gr_named *t)
{
    /* The snapshot has checked the shape when the tensor was added. */
    return (size_t)gr_shape_count(&t->shape) * gr_dtype_bytes(t->dtype);
}

/* Appends the entry of a tensor at *offset and moves *offset behind it. */
static gr_status add_tensor(gr_text *t, const gr_named *tensor, size_t *offset)
{
    size_t begin = *offset;

    if (strcmp(tensor->name, GR_ST_METADATA) == 0)
        return gr_fail(GR_ERR_ARG, "no tensor can be called '" GR_ST_METADATA "'");
    GR_TRY(gr_size_add(offset, begin, tensor_bytes(tensor)));
    gr_text_add(t, ",");
    GR_TRY(add_string(t, tensor->name, "the name of tensor"));
    gr_text_addf(t, ":{\"dtype\":\"%s\",\"shape\":[", gr_st_dtype_name(tensor->dtype));
    for (int i = 0; i < tensor->shape.n_dims; i++)
        gr_text_addf(t, "%s%" PRId64, i ? "," : "", tensor->shape.dim[i]);
    gr_text_addf(t, "],\"data_offsets\":[%zu,%zu]}", begin, *offset);
    return gr_text_status(t);
}

static gr_status make_header(gr_text *t, const gr_snapshot *s, const gr_named *const *order)
{
    size_t offset = 0;

    GR_TRY(add_texts(t, s));
    for (int i = 0; i < gr_snapshot_count(s); i++)
        GR_TRY(add_tensor(t, order[i], &offset));
    gr_text_add(t, "}");
    while (t->status == GR_OK && t->len % HEADER_ALIGN != 0)
        gr_text_add(t, " ");
    GR_TRY(gr_text_status(t));
    if (t->len > GR_ST_MAX_HEADER_BYTES)
        return gr_fail(GR_ERR_ARG, "the header would have %zu bytes, at most %d are possible",
                       t->len, GR_ST_MAX_HEADER_BYTES);
    return GR_OK;
}

static int by_width_and_name(const void *a, const void *b)
{
    const gr_named *x = *(const gr_named *const *)a, *y = *(const gr_named *const *)b;
    size_t x_bytes = gr_dtype_bytes(x->dtype), y_bytes = gr_dtype_bytes(y->dtype);

    if (x_bytes != y_bytes)
        return x_bytes > y_bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* The tensors in the order of the file; from gr_malloc(), NULL when out of memory. */
static const gr_named **make_order(const gr_snapshot *s)
{
    size_t n = (size_t)gr_snapshot_count(s);
    const gr_named **order = (const gr_named **)gr_calloc(n, sizeof(*order));

    if (!order)
        return NULL;
    for (size_t i = 0; i < n; i++)
        order[i] = gr_snapshot_at(s, (int)i);
    qsort(order, n, sizeof(*order), by_width_and_name);
    return order;
}

/* Invariant (3): sums everything, then puts the digits in their place. */
static void seal(gr_text *header, const unsigned char *lead, const gr_named *const *order, int n)
{
    uint32_t crc = gr_crc32c(0, lead, GR_ST_LEAD_BYTES);
    char digits[GR_ST_CRC_DIGITS + 1];
    size_t at;

    GR_BUG_IF(!gr_st_crc_find(header->str, header->len, &at));
    crc = gr_crc32c(crc, header->str, header->len);
    for (int i = 0; i < n; i++)
        crc = gr_crc32c(crc, order[i]->mem, tensor_bytes(order[i]));
    snprintf(digits, sizeof(digits), "%08" PRIx32, crc);
    memcpy(header->str + at, digits, GR_ST_CRC_DIGITS);
}

gr_status gr_safetensors_format(const gr_snapshot *s, gr_st_write_fn *write, void *arg)
{
    const gr_named **order = make_order(s);
    gr_text header = GR_TEXT_INIT;
    unsigned char lead[GR_ST_LEAD_BYTES];
    gr_status st = GR_ERR_NOMEM;

    if (!order)
        return st;
    GR_TRY_GOTO(st, make_header(&header, s, order), done);
    for (int i = 0; i < GR_ST_LEAD_BYTES; i++)
        lead[i] = (unsigned char)((uint64_t)header.len >> (8 * i));
    seal(&header, lead, order, gr_snapshot_count(s));
    write(arg, lead, sizeof(lead));
    write(arg, header.str, header.len);
    for (int i = 0; i < gr_snapshot_count(s); i++)
        write(arg, order[i]->mem, tensor_bytes(order[i]));

done:
    gr_text_fini(&header);
    gr_free(order);
    return st;
}
