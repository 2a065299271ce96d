/*
 * Writes a zip archive of stored entries, front to back.
 *
 * (1) The bytes of each entry begin at a multiple of 64, so that a reader can map them: an
 *     extra field "FB" in the local header, filled with 'Z', makes up the difference.
 * (2) Sizes and CRC stand in the local header: the bytes are summed before they are written.
 * (3) Numbers from `limit` on go to zip64 fields. The same entries give the same bytes:
 *     there is no time in them.
 *
 * One thread per writer.
 */
#include "ckpt/zip.h"

#include "base/size.h"

#include <string.h>

#define LOCAL_BYTES   30
#define FLAG_UTF8     0x0800u
#define EXTRA_HEAD    4
#define ZIP64_LOCAL   16 /* two sizes */
#define MAX_U16       0xffffu
#define VERSION       0
#define VERSION_ZIP64 45

static void add_le(gr_text *t, uint64_t number, int n_bytes)
{
    char bytes[8];

    for (int i = 0; i < n_bytes; i++)
        bytes[i] = (char)(number >> (8 * i) & 0xff);
    gr_text_addn(t, bytes, (size_t)n_bytes);
}

/* The number, or the mark that it stands in a zip64 field. */
static uint64_t low32(const gr_zip_writer *w, uint64_t number)
{
    return number >= w->limit ? GR_ZIP_LIMIT : number;
}

typedef struct entry {
    const char *name;
    uint64_t n_bytes, offset;
    uint32_t crc;
    bool is_wide; /* its size needs zip64 */
} entry;

/* From "version needed" to the length of the name: the same in both headers. */
static void add_common(gr_text *t, const entry *e, const gr_zip_writer *w)
{
    bool is_wide = e->is_wide || e->offset >= w->limit;

    add_le(t, is_wide ? VERSION_ZIP64 : VERSION, 2);
    add_le(t, FLAG_UTF8, 2);
    add_le(t, 0, 2); /* stored */
    add_le(t, 0, 4); /* no time */
    add_le(t, e->crc, 4);
    add_le(t, low32(w, e->n_bytes), 4);
    add_le(t, low32(w, e->n_bytes), 4);
    add_le(t, strlen(e->name), 2);
}

static void add_local(gr_text *t, const entry *e, const gr_zip_writer *w)
{
    size_t n_wide = e->is_wide ? EXTRA_HEAD + ZIP64_LOCAL : 0;
    size_t n_head = LOCAL_BYTES + strlen(e->name) + n_wide + EXTRA_HEAD;
    size_t n_pad = (size_t)(GR_ZIP_ALIGN - (e->offset + n_head) % GR_ZIP_ALIGN) % GR_ZIP_ALIGN;

    gr_text_addn(t, "PK\3\4", 4);
    add_common(t, e, w);
    add_le(t, n_wide + EXTRA_HEAD + n_pad, 2);
    gr_text_add(t, e->name);
    if (e->is_wide) {
        add_le(t, 1, 2);
        add_le(t, ZIP64_LOCAL, 2);
        add_le(t, e->n_bytes, 8);
        add_le(t, e->n_bytes, 8);
    }
    gr_text_add(t, "FB");
    add_le(t, n_pad, 2);
    for (size_t i = 0; i < n_pad; i++)
        gr_text_addn(t, "Z", 1);
}

static void add_to_directory(gr_text *t, const entry *e, const gr_zip_writer *w)
{
    bool far = e->offset >= w->limit;
    int n_wide = (e->is_wide ? ZIP64_LOCAL : 0) + (far ? 8 : 0);

    gr_text_addn(t, "PK\1\2", 4);
    add_le(t, VERSION, 2); /* made by */
    add_common(t, e, w);
    add_le(t, (uint64_t)(n_wide ? EXTRA_HEAD + n_wide : 0), 2);
    add_le(t, 0, 2); /* comment */
    add_le(t, 0, 4); /* disk, internal attributes */
    add_le(t, 0, 4); /* external attributes */
    add_le(t, low32(w, e->offset), 4);
    gr_text_add(t, e->name);
    if (n_wide == 0)
        return;
    add_le(t, 1, 2);
    add_le(t, (uint64_t)n_wide, 2);
    if (e->is_wide) {
        add_le(t, e->n_bytes, 8);
        add_le(t, e->n_bytes, 8);
    }
    if (far)
        add_le(t, e->offset, 8);
}

static void put(gr_zip_writer *w, const void *src, size_t n_bytes)
{
    w->write(w->arg, src, n_bytes);
    w->n_bytes += n_bytes;
}

gr_status gr_zip_add(gr_zip_writer *w, const char *name, const void *src, size_t n_bytes)
{
    entry e = { .name = name, .n_bytes = n_bytes, .offset = w->n_bytes };
    gr_text head = GR_TEXT_INIT;
    gr_status st;

    GR_BUG_IF(strlen(name) > MAX_U16);
    e.is_wide = n_bytes >= w->limit;
    e.crc = gr_crc32(0, src, n_bytes);
    add_local(&head, &e, w);
    add_to_directory(&w->directory, &e, w);
    GR_TRY_GOTO(st, gr_text_status(&head), done);
    GR_TRY_GOTO(st, gr_text_status(&w->directory), done);
    put(w, head.str, head.len);
    put(w, src, n_bytes);
    w->n_entries++;

done:
    gr_text_fini(&head);
    return st;
}

static void add_end64(gr_text *t, const gr_zip_writer *w, uint64_t n_directory)
{
    gr_text_addn(t, "PK\6\6", 4);
    add_le(t, 44, 8); /* what follows */
    add_le(t, VERSION_ZIP64, 2);
    add_le(t, VERSION_ZIP64, 2);
    add_le(t, 0, 8); /* disks */
    add_le(t, w->n_entries, 8);
    add_le(t, w->n_entries, 8);
    add_le(t, n_directory, 8);
    add_le(t, w->n_bytes, 8);
    gr_text_addn(t, "PK\6\7", 4);
    add_le(t, 0, 4); /* disk */
    add_le(t, w->n_bytes + n_directory, 8);
    add_le(t, 1, 4); /* disks */
}

gr_status gr_zip_end(gr_zip_writer *w)
{
    gr_text *t = &w->directory;
    uint64_t n_directory = t->len;
    bool many = w->n_entries >= MAX_U16 || w->n_entries >= w->limit;

    if (many || n_directory >= w->limit || w->n_bytes >= w->limit)
        add_end64(t, w, n_directory);
    gr_text_addn(t, "PK\5\6", 4);
    add_le(t, 0, 4); /* disks */
    add_le(t, many ? MAX_U16 : w->n_entries, 2);
    add_le(t, many ? MAX_U16 : w->n_entries, 2);
    add_le(t, low32(w, n_directory), 4);
    add_le(t, low32(w, w->n_bytes), 4);
    add_le(t, 0, 2); /* comment */
    GR_TRY(gr_text_status(t));
    put(w, t->str, t->len);
    return GR_OK;
}

void gr_zip_writer_fini(gr_zip_writer *w)
{
    gr_text_fini(&w->directory);
}
