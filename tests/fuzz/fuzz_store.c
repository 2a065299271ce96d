/*
 * Bytes from strangers to the key-value store. The first byte says how to cut the rest
 * into pieces, as a network would; two sessions get them, so that one may wake the other.
 */
#include "net/store_hub.h"
#include "net/store_wire.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void feed(gr_store_hub *hub, const uint8_t *data, size_t size, size_t piece)
{
    static const uint8_t hello[5] = { GR_STORE_VALIDATE, 0xce, 0xf7, 0x85, 0x3c };
    gr_store_session *s[2] = { NULL, NULL };
    size_t pending;

    for (int i = 0; i < 2; i++)
        if (gr_store_session_open(&s[i], hub) != GR_OK ||
            gr_store_session_feed(s[i], hello, sizeof(hello)) != GR_OK)
            abort();
    for (size_t at = 0, i = 0; at < size; at += piece, i++) {
        size_t n = size - at < piece ? size - at : piece;
        gr_store_session *one = s[i % 2];

        if (gr_store_session_feed(one, data + at, n) != GR_OK)
            return; /* the server would close it */
        while (gr_store_session_pending(one, &pending))
            if (gr_store_session_sent(one, pending > 7 ? 7 : pending) != GR_OK)
                return;
    }
}

/* The parser alone must never look beyond the bytes it is given: an exact copy on the
 * heap lets the sanitizers see it. */
static void parse(const uint8_t *data, size_t size)
{
    uint8_t *copy = (uint8_t *)malloc(size ? size : 1);
    gr_store_request q;
    size_t n_used;

    if (!copy)
        abort();
    memcpy(copy, data, size);
    if (gr_store_parse(copy, size, &q, &n_used) == GR_OK && n_used > 0) {
        gr_span items = q.items, key, value;

        if (n_used > size)
            abort();
        for (uint64_t i = 0; i < q.n_items; i++)
            gr_store_next(&items, &key, q.op == GR_STORE_MULTI_SET ? &value : NULL);
        if (items.len != 0)
            abort();
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gr_store_hub *hub;

    if (size == 0)
        return 0;
    parse(data + 1, size - 1);
    if (gr_store_hub_create(&hub) != GR_OK)
        abort();
    feed(hub, data + 1, size - 1, data[0] ? data[0] : size);
    gr_store_hub_destroy(hub);
    return 0;
}
