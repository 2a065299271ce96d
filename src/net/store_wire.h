/*
 * The store's bytes on the wire: PyTorch's TCPStore format.
 *
 * A request is one byte of operation and its fields, without a frame around them. Numbers
 * are little-endian, a text is a u64 length and that many bytes.
 */
#ifndef GR_NET_STORE_WIRE_H
#define GR_NET_STORE_WIRE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GR_STORE_MAGIC 0x3C85F7CEu

/* What the original's server accepts, and a bound on a request as a whole. */
#define GR_STORE_MAX_KEY     ((size_t)8 << 10)
#define GR_STORE_MAX_VALUE   ((size_t)8 << 20)
#define GR_STORE_MAX_ITEMS   131072
#define GR_STORE_MAX_REQUEST ((size_t)64 << 20)

/* Operation and its fields, in order: m u32 word, k key, v value, w second value, i i64
 * number, K a count and that many keys, P a count and that many pairs of key and value. */
#define GR_STORE_OP_MAP(X) \
    X(VALIDATE, "m")       \
    X(SET, "kv")           \
    X(COMPARE_SET, "kvw")  \
    X(GET, "k")            \
    X(ADD, "ki")           \
    X(CHECK, "K")          \
    X(WAIT, "K")           \
    X(GETNUMKEYS, "")      \
    X(DELETE_KEY, "k")     \
    X(APPEND, "kv")        \
    X(MULTI_GET, "K")      \
    X(MULTI_SET, "P")      \
    X(CANCEL_WAIT, "")     \
    X(PING, "m")           \
    X(QUEUE_PUSH, "kv")    \
    X(QUEUE_POP, "k")      \
    X(QUEUE_LEN, "k")      \
    X(LIST_KEYS, "")       \
    X(BARRIER, "ki")

typedef enum gr_store_op {
#define X(id, fields) GR_STORE_##id,
    GR_STORE_OP_MAP(X)
#undef X
        GR_STORE_OP_COUNT
} gr_store_op;

/* Replies of one byte. */
enum { GR_STORE_READY = 0, GR_STORE_NOT_READY = 1 };
enum { GR_STORE_STOP_WAITING = 0, GR_STORE_WAIT_CANCELED = 1 };

/* A stretch of somebody else's memory. */
typedef struct gr_span {
    const uint8_t *mem;
    size_t len;
} gr_span;

typedef struct gr_store_request {
    gr_store_op op;
    uint32_t word;
    int64_t number;
    gr_span key, value, value2;
    uint64_t n_items; /* of CHECK, WAIT, MULTI_GET, MULTI_SET */
    gr_span items;    /* their bytes; read with gr_store_next() */
} gr_store_request;

/*
 * Reads one request from the front of n_bytes; the spans point into `mem`. *n_used 0: it
 * is not whole yet. GR_ERR_FORMAT: no request can begin so, or a limit is passed, which
 * is noticed before the bytes are there. Touches nothing beyond mem[n_bytes - 1].
 */
gr_status gr_store_parse(const uint8_t *mem, size_t n_bytes, gr_store_request *out,
                         size_t *n_used) GR_MUST_CHECK;

/* Takes the next key (and value, if not NULL) off a parsed request's items. */
void gr_store_next(gr_span *items, gr_span *key, gr_span *value);

#ifdef __cplusplus
}
#endif

#endif
