/*
 * The head that precedes every message between ranks, 128 bytes, little-endian:
 *
 *      0  u32 magic "GRf1"      24  u32 slot          48  u64 n_elem
 *      4  u16 version 1         28  i32 kind          56  u64 detail
 *      6  u16 type              32  i32 id            64  f64 agreed
 *      8  u64 sequence number   36  i32 dtype         72  label, NUL-terminated, 48 bytes
 *     16  u64 bytes that follow 40  i32 op           120  u32 ranks in the group
 *                               44  i32 root         124  u32 crc32c of what precedes
 *
 * Sequence number and slot say which message of which call it is; the rest says what the
 * sender believes that call to be. Everything is checked before memory is touched.
 */
#ifndef GR_COMM_HEAD_H
#define GR_COMM_HEAD_H

#include "comm/what.h"

#define GR_HEAD_BYTES ((size_t)128)
#define GR_HEAD_DATA  ((size_t)8 << 20) /* most bytes behind a head of data */
#define GR_HEAD_TEXT  ((size_t)512)     /* and behind the others */

/* Sequence numbers of calls between two ranks count apart, with this bit. */
#define GR_SEQ_PAIR ((uint64_t)1 << 63)

typedef enum gr_head_type {
    GR_HEAD_MESSAGE = 1, /* bytes of a call */
    GR_HEAD_WAITS,       /* the sender has waited in this call for a while */
    GR_HEAD_ABORT,       /* the sender gives up; its reason follows */
    GR_HEAD_BYE,         /* the sender leaves and is not to be mourned */
    GR_HEAD_WAKE,        /* there is something in shared memory */
    GR_HEAD_TYPES
} gr_head_type;

typedef struct gr_head {
    gr_head_type type;
    uint64_t seq, n_bytes;
    uint32_t slot;
    gr_what what;
    char label[GR_LABEL];
} gr_head;

GR_API void gr_head_put(uint8_t bytes[GR_HEAD_BYTES], const gr_head *f);
/* GR_ERR_FORMAT says what is wrong. */
GR_API gr_status gr_head_get(const uint8_t bytes[GR_HEAD_BYTES], gr_head *f) GR_MUST_CHECK;

#endif
