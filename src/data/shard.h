/*
 * Shards: many samples in one file, written by `gradus pack`. docs/data.md has the bytes.
 *
 * A file is whole or not there (it is renamed when finished), and says how many files belong
 * together, so a set with one missing is noticed. Any number of processes map it at once.
 */
#ifndef GR_DATA_SHARD_H
#define GR_DATA_SHARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GR_SHARD_SUFFIX ".grs"

typedef struct gr_shard_record {
    const void *name, *image, *mask;
    uint32_t n_name, n_image, n_mask; /* bytes; n_mask 0: none */
    int32_t label;                    /* -1: none */
} gr_shard_record;

/* What all records have in common, and the place of the file in its set. */
typedef struct gr_shard_head {
    uint32_t n_records;
    uint32_t number, n_shards; /* this one of so many */
    uint64_t first, n_total;   /* samples before this file, and of all files */
    uint32_t n_classes;
    bool has_names; /* of classes */
    bool has_masks;
} gr_shard_head;

typedef struct gr_shard {
    gr_shard_head head;
    const uint8_t *mem, *index, *names; /* into the file */
    size_t n_bytes;
} gr_shard;

/* Checks head, index and their checksums, not the records. Borrows `src`. GR_ERR_FORMAT. */
gr_status gr_shard_parse(gr_shard *out, const void *src, size_t n_bytes) GR_MUST_CHECK;
/* One record, with its checksum checked. i < n_records. */
gr_status gr_shard_get(const gr_shard *s, uint32_t i, gr_shard_record *out) GR_MUST_CHECK;
/* Without looking at the record itself. */
int32_t gr_shard_label(const gr_shard *s, uint32_t i);
void gr_shard_name(const gr_shard *s, uint32_t i, const char **name, uint32_t *n_bytes);
/* The class names one after the other: *at begins at NULL. False when there is no more. */
bool gr_shard_next_class(const gr_shard *s, const uint8_t **at, const char **name,
                         uint32_t *n_bytes);

typedef struct gr_shard_writer gr_shard_writer;

/* head.n_records is counted by adding. The names are borrowed until the end. */
gr_status gr_shard_begin(gr_shard_writer **out, const char *path, const gr_shard_head *head,
                         const char *const *class_names) GR_MUST_CHECK;
gr_status gr_shard_add(gr_shard_writer *w, const gr_shard_record *r) GR_MUST_CHECK;
/* Ends the writer either way. Commit gives the file its name; *n_bytes is its size. */
gr_status gr_shard_commit(gr_shard_writer *w, int64_t *n_bytes) GR_MUST_CHECK;
void gr_shard_discard(gr_shard_writer *w);

#ifdef __cplusplus
}
#endif

#endif
