/*
 * What a rank says it is about to do. It must be equal on all ranks that meet, and is
 * compared byte by byte; when it is not equal, both sides go into the message.
 */
#ifndef GR_COMM_WHAT_H
#define GR_COMM_WHAT_H

#include "gradus/comm.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GR_WHAT_ROWS_TEXT "update in common"

/* Calls that are not in the public list. */
#define GR_WHAT_MAP(X)                          \
    X(JOIN, "join")                             \
    X(GATHER_BYTES, "gather")                   \
    X(EXCHANGE, "set-up of the exchange space") \
    X(COMMON, "set-up of common memory")        \
    X(ROWS, GR_WHAT_ROWS_TEXT)

typedef enum gr_what_kind {
    GR_WHAT_FIRST = GR_CALL_COUNT - 1,
#define X(id, text) GR_WHAT_##id,
    GR_WHAT_MAP(X)
#undef X
        GR_WHAT_COUNT
} gr_what_kind;

#define GR_LABEL 48 /* bytes of a label that travel, the NUL among them */

typedef struct gr_what { /* no padding */
    int32_t kind;        /* gr_call_kind or gr_what_kind */
    int32_t id;          /* 1 + that of a reduction in the exchange space; else 0 */
    int32_t dtype, op, root;
    int32_t n_ranks;
    uint64_t n_elem;
    uint64_t detail; /* offset in the exchange space, or a checksum of unequal counts */
    double agreed;   /* gr_pg.agreed; 0 when nothing is */
} gr_what;

/* "all-reduce 'loss' (sum of 7 f32)". Values come from other processes and are not
 * trusted. `label` may be NULL or "". */
#define GR_WHAT_TEXT 192
const char *gr_what_text(const gr_what *w, const char *label, char *text, size_t n_bytes);

/* Into a field of GR_LABEL bytes; NULL is "". In the fast path most calls have none. */
static inline void gr_label_put(char *to, const char *label)
{
    to[0] = '\0';
    if (label && *label)
        snprintf(to, GR_LABEL, "%s", label);
}

/* GR_ERR_ARG with both sides. agreed_name as in gr_pg. */
typedef struct gr_side {
    int rank;
    const gr_what *what;
    const char *label;
} gr_side;
gr_status gr_what_differ(const gr_side *mine, const gr_side *theirs, const char *agreed_name);

#ifdef __cplusplus
}
#endif

#endif
