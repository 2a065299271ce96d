/*
 * The safetensors format, both ways. Bytes come from a source and go to a sink, so that
 * a file and a piece of memory take the same path: the fuzzer drives what users run.
 *
 *     u64 LE: n | n bytes of JSON, padded with spaces | the tensors, one after the other
 *
 * docs/formats.md has the byte table. Elements are little-endian in the file and are
 * copied as they are, so the host must be little-endian too; the sources assert it.
 */
#ifndef GR_CKPT_SAFETENSORS_H
#define GR_CKPT_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GR_ST_LEAD_BYTES       8         /* the length in front of the header */
#define GR_ST_MAX_HEADER_BYTES 100000000 /* other readers refuse more */
#define GR_ST_METADATA         "__metadata__"

/* Entries of "__metadata__" that describe the file and not the snapshot: the writer sets
 * them, the reader checks them and does not hand them on. */
#define GR_ST_KEY_FRAMEWORK "format"
#define GR_ST_KEY_VERSION   "gradus.format"
#define GR_ST_KEY_CRC       "gradus.crc32c"
#define GR_ST_FRAMEWORK     "pt"
#define GR_ST_VERSION       "1"
#define GR_ST_CRC_DIGITS    8

/* Does the key belong to the file? A snapshot cannot use it. */
bool gr_st_key_is_reserved(const char *key);

/* The name of a type in the file. */
const char *gr_st_dtype_name(gr_dtype t);

/* A name or text from outside made fit for a one-line message: control characters become
 * '?', long ones are cut. Returns `buf`. */
#define GR_ST_SHOWN_BYTES 100
const char *gr_st_shown(const char *text, char buf[GR_ST_SHOWN_BYTES]);

/*
 * Where the eight digits of the checksum stand in the raw header; false when there is no
 * such entry. It looks for
 *     "gradus.crc32c":"
 * whose first quote does not follow a backslash. Only an entry of that name can look so:
 * inside a string a quote always has a backslash before it, so the quote after the name
 * ends a string, and a first quote without one begins it. Spaces around the colon or
 * escapes in the name are not found.
 */
bool gr_st_crc_find(const char *header, size_t n_bytes, size_t *at);

typedef struct gr_st_tensor {
    const char *name; /* borrowed from the header */
    gr_dtype dtype;
    gr_shape shape;
    size_t begin, end; /* bytes, counted from the end of the header */
} gr_st_tensor;

typedef struct gr_st_header {
    struct json_t *json;   /* owned */
    gr_st_tensor *tensors; /* owned; in the order of their bytes */
    int n_tensors;
    bool has_crc;
    uint32_t crc;  /* what the file says */
    size_t crc_at; /* place of its digits in the header */
} gr_st_header;

/* Checks everything that can be known without the tensors' bytes. n_data_bytes: what the
 * file holds after the header. Ended with _fini, after a failure too. */
gr_status gr_st_header_parse(gr_st_header *h, const char *text, size_t n_bytes,
                             size_t n_data_bytes) GR_MUST_CHECK;
void gr_st_header_fini(gr_st_header *h);
/* Adds the entries of "__metadata__" that are not reserved. */
gr_status gr_st_header_texts(const gr_st_header *h, gr_snapshot *s) GR_MUST_CHECK;

/* Gives the next n_bytes into dst, all of them or a failure. */
typedef gr_status gr_st_read_fn(void *arg, void *dst, size_t n_bytes);

typedef struct gr_st_source {
    gr_st_read_fn *read;
    void *arg;
    size_t n_bytes; /* of the whole file */
} gr_st_source;

/* Caller owns *out. GR_ERR_FORMAT names tensor and numbers, not the file: the caller
 * knows that. Memory is taken only for what the source holds. */
gr_status gr_st_read(const gr_st_source *src, gr_snapshot **out) GR_MUST_CHECK;
/* The same from memory. */
gr_status gr_safetensors_parse(const char *bytes, size_t n_bytes, gr_snapshot **out) GR_MUST_CHECK;

/* The same from an open file of n_bytes, read from its place to its end. */
gr_status gr_st_read_fd(int fd, size_t n_bytes, gr_snapshot **out) GR_MUST_CHECK;
/* Its texts alone: the header is read, and the checksum therefore not compared. */
gr_status gr_st_read_texts(int fd, size_t n_bytes, gr_snapshot **out) GR_MUST_CHECK;

/* Takes bytes; remembers its own failures. */
typedef void gr_st_write_fn(void *arg, const void *src, size_t n_bytes);

/* GR_ERR_ARG for what the format cannot hold: names that are not UTF-8, reserved names. */
gr_status gr_safetensors_format(const gr_snapshot *s, gr_st_write_fn *write,
                                void *arg) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
