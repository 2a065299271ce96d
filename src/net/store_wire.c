/*
 * Parsing requests. One reader walks the bytes; it stands at the end, short of bytes, or
 * at a mistake, and never moves again once short or mistaken.
 */
#include "net/store_wire.h"

#include <string.h>

typedef struct reader {
    const uint8_t *mem;
    size_t at, n_bytes;
    bool is_short;
    gr_status status;
} reader;

static bool take(reader *r, void *dst, size_t n)
{
    if (r->status != GR_OK || r->is_short)
        return false;
    if (r->n_bytes - r->at < n) {
        r->is_short = true;
        return false;
    }
    if (dst)
        memcpy(dst, r->mem + r->at, n);
    r->at += n;
    return true;
}

static void take_span(reader *r, gr_span *out, size_t limit, const char *what)
{
    uint64_t len;

    if (!take(r, &len, sizeof(len)))
        return;
    if (len > limit) {
        r->status = gr_fail(GR_ERR_FORMAT, "a %s of %llu bytes; at most %zu are taken", what,
                            (unsigned long long)len, limit);
        return;
    }
    *out = (gr_span){ r->mem + r->at, (size_t)len };
    take(r, NULL, (size_t)len);
}

static void take_items(reader *r, gr_store_request *q, bool pairs)
{
    size_t first;

    if (!take(r, &q->n_items, sizeof(q->n_items)))
        return;
    if (q->n_items > GR_STORE_MAX_ITEMS) {
        r->status = gr_fail(GR_ERR_FORMAT, "a request for %llu keys; at most %d are taken",
                            (unsigned long long)q->n_items, GR_STORE_MAX_ITEMS);
        return;
    }
    first = r->at;
    for (uint64_t i = 0; i < q->n_items && !r->is_short && r->status == GR_OK; i++) {
        gr_span unused;

        take_span(r, &unused, GR_STORE_MAX_KEY, "key");
        if (pairs)
            take_span(r, &unused, GR_STORE_MAX_VALUE, "value");
    }
    q->items = (gr_span){ r->mem + first, r->at - first };
}

static void take_field(reader *r, gr_store_request *q, char field)
{
    switch (field) {
    case 'm': take(r, &q->word, sizeof(q->word)); break;
    case 'i': take(r, &q->number, sizeof(q->number)); break;
    case 'k': take_span(r, &q->key, GR_STORE_MAX_KEY, "key"); break;
    case 'v': take_span(r, &q->value, GR_STORE_MAX_VALUE, "value"); break;
    case 'w': take_span(r, &q->value2, GR_STORE_MAX_VALUE, "value"); break;
    case 'K': take_items(r, q, false); break;
    case 'P': take_items(r, q, true); break;
    default: GR_BUG_IF(field);
    }
}

gr_status gr_store_parse(const uint8_t *mem, size_t n_bytes, gr_store_request *out, size_t *n_used)
{
    static const char *const fields[GR_STORE_OP_COUNT] = {
#define X(id, text) text,
        GR_STORE_OP_MAP(X)
#undef X
    };
    reader r = { .mem = mem, .n_bytes = n_bytes };
    uint8_t op;

    *n_used = 0;
    *out = (gr_store_request){ 0 };
    if (!take(&r, &op, 1))
        return GR_OK;
    if (op >= GR_STORE_OP_COUNT)
        return gr_fail(GR_ERR_FORMAT, "unknown operation %d", op);
    out->op = (gr_store_op)op;
    for (const char *f = fields[op]; *f; f++)
        take_field(&r, out, *f);
    if (r.status != GR_OK)
        return r.status;
    if (r.is_short && n_bytes >= GR_STORE_MAX_REQUEST)
        return gr_fail(GR_ERR_FORMAT, "a request of more than %zu bytes", GR_STORE_MAX_REQUEST);
    if (!r.is_short)
        *n_used = r.at;
    return GR_OK;
}

void gr_store_next(gr_span *items, gr_span *key, gr_span *value)
{
    gr_span *const parts[2] = { key, value };

    for (int i = 0; i < 2 && parts[i]; i++) {
        uint64_t len;

        memcpy(&len, items->mem, sizeof(len)); /* parsed before: it is all there */
        *parts[i] = (gr_span){ items->mem + sizeof(len), (size_t)len };
        items->mem += sizeof(len) + len;
        items->len -= sizeof(len) + (size_t)len;
    }
}
