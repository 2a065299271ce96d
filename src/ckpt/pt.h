/*
 * PyTorch's own files, both ways: the zip container (torch 1.6 and later, read and
 * written) and the legacy sequence of pickles (before, read). docs/formats.md has the
 * tables and what becomes of which Python value.
 */
#ifndef GR_CKPT_PT_H
#define GR_CKPT_PT_H

#include "base/status.h"
#include "ckpt/pickle.h"
#include "ckpt/zip.h"
#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GR_PT_MAX_DEPTH  64
#define GR_PT_MAX_TEXTS  (1 << 14)
#define GR_PT_MAX_VISITS (1 << 20)

/* A snapshot may take this many times the bytes of its file, and some: tied tensors are
 * stored once and handed out by each of their names. */
#define GR_PT_GROWTH     64
#define GR_PT_MORE_BYTES ((size_t)64 << 20)

/* How many leading bytes the two functions look at; fewer is fine. */
#define GR_PT_LEAD_BYTES 32
bool gr_pt_is_zip(const unsigned char *bytes, size_t n_bytes);
bool gr_pt_is_legacy(const unsigned char *bytes, size_t n_bytes);

/* Either of them, from memory (a mapped file). Caller owns *out. GR_ERR_FORMAT names the
 * byte, not the file: the caller knows that. */
gr_status gr_pt_parse(const unsigned char *bytes, size_t n_bytes, gr_snapshot **out) GR_MUST_CHECK;
/* The same without its tensors, whose bytes are not looked at. */
gr_status gr_pt_parse_texts(const unsigned char *bytes, size_t n_bytes,
                            gr_snapshot **out) GR_MUST_CHECK;

/* The bytes of a storage, as many as it says; lent by the file. */
typedef gr_status gr_pt_storage_fn(void *arg, const gr_pk_storage *s, const unsigned char **out);

/* The value of a whole file as a snapshot. n_file: bounds the memory taken. */
typedef struct gr_pt_source {
    const gr_pk_value *value;
    gr_pt_storage_fn *storage;
    void *arg;
    size_t n_file;
    bool texts_only;
} gr_pt_source;
gr_status gr_pt_flatten(const gr_pt_source *src, gr_snapshot *snap) GR_MUST_CHECK;

/* GR_ERR_ARG for what the format cannot hold: names that are not UTF-8, a tensor called
 * GR_PK_TEXTS. zip64_from: GR_ZIP_LIMIT, less in tests. */
gr_status gr_pt_format(const gr_snapshot *s, gr_zip_write_fn *write, void *arg,
                       uint64_t zip64_from) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
