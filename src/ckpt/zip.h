/*
 * Zip archives as PyTorch makes them: stored entries, CRC-32, zip64 where numbers ask for
 * it. The reader works on the whole file in memory (a mapping) and copies nothing; the
 * writer hands bytes to a sink. docs/formats.md has the byte tables.
 */
#ifndef GR_CKPT_ZIP_H
#define GR_CKPT_ZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* CRC-32 as zip, gzip and PNG have it; start with crc 0, feed in pieces. Any thread. */
uint32_t gr_crc32(uint32_t crc, const void *src, size_t n_bytes);

typedef struct gr_zip_entry {
    const unsigned char *name; /* borrowed from the file, not ended by NUL */
    size_t n_name;
    const unsigned char *bytes; /* borrowed from the file */
    size_t n_bytes;
    size_t offset; /* of `bytes` in the file */
    uint32_t crc;
    bool is_checked; /* the CRC was found right */
} gr_zip_entry;

typedef struct gr_zip {
    gr_zip_entry *entries; /* owned; sorted by name */
    int n_entries;
} gr_zip;

/* Reads the directory and checks it against the file; `bytes` must outlive the zip.
 * Refuses packed and encrypted entries and names that occur twice. Ended with _fini,
 * after a failure too. */
gr_status gr_zip_parse(gr_zip *z, const unsigned char *bytes, size_t n_bytes) GR_MUST_CHECK;
void gr_zip_fini(gr_zip *z);

/* The entry called `folder` + `name`, with its CRC compared on first use; *out is NULL when
 * there is none. Neither part needs a NUL. */
typedef struct gr_zip_name {
    const unsigned char *folder, *name;
    size_t n_folder, n_name;
} gr_zip_name;
gr_status gr_zip_find(gr_zip *z, gr_zip_name name, const gr_zip_entry **out) GR_MUST_CHECK;

/* Takes bytes; remembers its own failures. */
typedef void gr_zip_write_fn(void *arg, const void *src, size_t n_bytes);

#define GR_ZIP_LIMIT 0xffffffffu /* numbers from here on need zip64 */

typedef struct gr_zip_writer {
    gr_zip_write_fn *write;
    void *arg;
    uint64_t limit;   /* GR_ZIP_LIMIT; lower in tests */
    uint64_t n_bytes; /* written so far */
    uint64_t n_entries;
    gr_text directory; /* owned; grows with each entry */
} gr_zip_writer;

#define GR_ZIP_ALIGN 64 /* the bytes of each entry begin at a multiple of it */

/* The writer starts as { .write, .arg, .limit }. `name` is UTF-8. */
gr_status gr_zip_add(gr_zip_writer *w, const char *name, const void *src,
                     size_t n_bytes) GR_MUST_CHECK;
gr_status gr_zip_end(gr_zip_writer *w) GR_MUST_CHECK;
void gr_zip_writer_fini(gr_zip_writer *w);

#ifdef __cplusplus
}
#endif

#endif
