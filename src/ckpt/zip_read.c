/*
 * Reads the directory of a zip archive that lies in memory.
 *
 * (1) The directory at the end decides; of a local header only its signature, its name and
 *     its length count. So sizes left to data descriptors (which torch writes) are no matter.
 * (2) Every number from the file is compared with the bytes that are there before it is
 *     used, and the number of entries before memory is taken for them.
 * (3) Entries end before the directory begins.
 *
 * Any thread; gr_zip_find() notes which entries were checked, so one thread per gr_zip.
 */
#include "ckpt/zip.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

#define SIG_LOCAL     0x04034b50u
#define SIG_ENTRY     0x02014b50u
#define SIG_END       0x06054b50u
#define SIG_END64     0x06064b50u
#define SIG_LOCATOR64 0x07064b50u

#define LOCAL_BYTES     30
#define ENTRY_BYTES     46
#define END_BYTES       22
#define END64_BYTES     56
#define LOCATOR64_BYTES 20
#define MAX_COMMENT     65535
#define MAX_ENTRIES     (1 << 20)
#define EXTRA_ZIP64     1

#define FLAG_ENCRYPTED 1u

/* The place of the directory. */
typedef struct directory {
    const unsigned char *bytes; /* of the file */
    size_t n_file;
    uint64_t n_entries, n_bytes, offset;
} directory;

static uint16_t u16(const unsigned char *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t u32(const unsigned char *p)
{
    return (uint32_t)u16(p) | (uint32_t)u16(p + 2) << 16;
}

static uint64_t u64(const unsigned char *p)
{
    return (uint64_t)u32(p) | (uint64_t)u32(p + 4) << 32;
}

/* The end record: its comment must reach to the end of the file exactly. */
static gr_status find_end(const directory *d, size_t *at)
{
    size_t first;

    if (d->n_file < END_BYTES)
        return gr_fail(GR_ERR_FORMAT, "%zu bytes are no zip archive", d->n_file);
    *at = d->n_file - END_BYTES;
    first = *at > MAX_COMMENT ? *at - MAX_COMMENT : 0;
    for (;; (*at)--) {
        const unsigned char *p = d->bytes + *at;

        if (u32(p) == SIG_END && u16(p + 20) == d->n_file - END_BYTES - *at)
            return GR_OK;
        if (*at == first)
            break;
    }
    return gr_fail(GR_ERR_FORMAT, "no end record in %zu bytes: the file is cut or no zip archive",
                   d->n_file);
}

static gr_status read_end64(directory *d, size_t end)
{
    const unsigned char *p;
    uint64_t at;

    if (end < LOCATOR64_BYTES || u32(d->bytes + end - LOCATOR64_BYTES) != SIG_LOCATOR64)
        return gr_fail(GR_ERR_FORMAT, "the zip64 locator before byte %zu is missing", end);
    at = u64(d->bytes + end - LOCATOR64_BYTES + 8);
    if (end - LOCATOR64_BYTES < END64_BYTES || at > end - LOCATOR64_BYTES - END64_BYTES)
        return gr_fail(GR_ERR_FORMAT, "the zip64 end record lies at byte %llu of %zu",
                       (unsigned long long)at, d->n_file);
    p = d->bytes + at;
    if (u32(p) != SIG_END64)
        return gr_fail(GR_ERR_FORMAT, "byte %llu holds no zip64 end record",
                       (unsigned long long)at);
    d->n_entries = u64(p + 32);
    d->n_bytes = u64(p + 40);
    d->offset = u64(p + 48);
    return GR_OK;
}

static gr_status find_directory(directory *d)
{
    const unsigned char *p;
    size_t end = 0;

    GR_TRY(find_end(d, &end));
    p = d->bytes + end;
    d->n_entries = u16(p + 10);
    d->n_bytes = u32(p + 12);
    d->offset = u32(p + 16);
    if (d->n_entries == 0xffff || d->n_bytes == GR_ZIP_LIMIT || d->offset == GR_ZIP_LIMIT)
        GR_TRY(read_end64(d, end));
    if (d->offset > end || d->n_bytes > end - d->offset)
        return gr_fail(GR_ERR_FORMAT,
                       "the zip directory of %llu bytes at byte %llu reaches beyond %zu",
                       (unsigned long long)d->n_bytes, (unsigned long long)d->offset, end);
    if (d->n_entries > d->n_bytes / ENTRY_BYTES || d->n_entries > MAX_ENTRIES)
        return gr_fail(GR_ERR_FORMAT, "%llu zip entries in a directory of %llu bytes",
                       (unsigned long long)d->n_entries, (unsigned long long)d->n_bytes);
    return GR_OK;
}

/* One number of the zip64 field, when the 32-bit one says that it is there. */
static gr_status widen(uint64_t *number, const unsigned char **p, size_t *n_left)
{
    if (*number != GR_ZIP_LIMIT)
        return GR_OK;
    if (*n_left < 8)
        return gr_fail(GR_ERR_FORMAT, "its zip64 field is too short");
    *number = u64(*p);
    *p += 8;
    *n_left -= 8;
    return GR_OK;
}

typedef struct numbers {
    uint64_t n_plain, n_packed, offset;
} numbers;

static gr_status read_extra(numbers *n, const unsigned char *p, size_t n_bytes)
{
    while (n_bytes >= 4) {
        size_t n_field = u16(p + 2);

        if (n_field > n_bytes - 4)
            return gr_fail(GR_ERR_FORMAT, "an extra field of %zu bytes, %zu are left", n_field,
                           n_bytes - 4);
        if (u16(p) == EXTRA_ZIP64) {
            const unsigned char *at = p + 4;

            GR_TRY(widen(&n->n_plain, &at, &n_field));
            GR_TRY(widen(&n->n_packed, &at, &n_field));
            return widen(&n->offset, &at, &n_field);
        }
        p += 4 + n_field;
        n_bytes -= 4 + n_field;
    }
    return GR_OK;
}

/* Where the bytes begin: behind the local header, whose name must be the same. */
static gr_status find_bytes(const directory *d, gr_zip_entry *e, numbers n)
{
    const unsigned char *local;
    uint64_t start;

    if (d->offset < LOCAL_BYTES || n.offset > d->offset - LOCAL_BYTES)
        return gr_fail(GR_ERR_FORMAT, "its header would lie at byte %llu, the directory at %llu",
                       (unsigned long long)n.offset, (unsigned long long)d->offset);
    local = d->bytes + n.offset;
    start = n.offset + LOCAL_BYTES + u16(local + 26) + u16(local + 28);
    if (u32(local) != SIG_LOCAL || u16(local + 26) != e->n_name || start > d->offset ||
        memcmp(local + LOCAL_BYTES, e->name, e->n_name) != 0)
        return gr_fail(GR_ERR_FORMAT, "byte %llu does not hold its header",
                       (unsigned long long)n.offset);
    if (n.n_plain > d->offset - start)
        return gr_fail(GR_ERR_FORMAT, "%llu bytes from byte %llu on, the directory begins at %llu",
                       (unsigned long long)n.n_plain, (unsigned long long)start,
                       (unsigned long long)d->offset);
    e->offset = (size_t)start;
    e->bytes = d->bytes + start;
    e->n_bytes = (size_t)n.n_plain;
    return GR_OK;
}

static gr_status read_entry(const directory *d, gr_zip_entry *e, const unsigned char *p)
{
    numbers n = { .n_packed = u32(p + 20), .n_plain = u32(p + 24), .offset = u32(p + 42) };

    e->crc = u32(p + 16);
    GR_TRY(read_extra(&n, p + ENTRY_BYTES + e->n_name, u16(p + 30)));
    if (u16(p + 8) & FLAG_ENCRYPTED)
        return gr_fail(GR_ERR_FORMAT, "it is encrypted");
    if (u16(p + 10) != 0 || n.n_plain != n.n_packed)
        return gr_fail(GR_ERR_FORMAT, "it is packed (method %d); only stored entries are read",
                       u16(p + 10));
    return find_bytes(d, e, n);
}

static gr_status read_directory(gr_zip *z, const directory *d)
{
    const unsigned char *p = d->bytes + d->offset;
    const unsigned char *end = p + d->n_bytes;

    for (uint64_t i = 0; i < d->n_entries; i++) {
        gr_zip_entry *e = &z->entries[i];
        gr_status st;

        if ((size_t)(end - p) < ENTRY_BYTES || u32(p) != SIG_ENTRY ||
            (size_t)(end - p) - ENTRY_BYTES < (size_t)u16(p + 28) + u16(p + 30) + u16(p + 32))
            return gr_fail(GR_ERR_FORMAT, "zip entry %llu at byte %zu is damaged",
                           (unsigned long long)i, (size_t)(p - d->bytes));
        e->name = p + ENTRY_BYTES;
        e->n_name = u16(p + 28);
        st = read_entry(d, e, p);
        if (st != GR_OK)
            return gr_wrap(st, "zip entry %llu, described at byte %zu", (unsigned long long)i,
                           (size_t)(p - d->bytes));
        z->n_entries++;
        p = e->name + e->n_name + u16(p + 30) + u16(p + 32);
    }
    return GR_OK;
}

static int compare(const unsigned char *a, size_t n_a, const unsigned char *b, size_t n_b)
{
    size_t n = n_a < n_b ? n_a : n_b;
    int order = n > 0 ? memcmp(a, b, n) : 0;

    if (order != 0)
        return order;
    return n_a < n_b ? -1 : n_a > n_b;
}

static int by_name(const void *a, const void *b)
{
    const gr_zip_entry *x = a, *y = b;

    return compare(x->name, x->n_name, y->name, y->n_name);
}

gr_status gr_zip_parse(gr_zip *z, const unsigned char *bytes, size_t n_bytes)
{
    directory d = { .bytes = bytes, .n_file = n_bytes };

    *z = (gr_zip){ 0 };
    GR_TRY(find_directory(&d));
    z->entries = gr_calloc((size_t)d.n_entries, sizeof(*z->entries));
    if (!z->entries)
        return GR_ERR_NOMEM;
    GR_TRY(read_directory(z, &d));
    if (z->n_entries > 0)
        qsort(z->entries, (size_t)z->n_entries, sizeof(*z->entries), by_name);
    for (int i = 1; i < z->n_entries; i++)
        if (by_name(&z->entries[i - 1], &z->entries[i]) == 0)
            return gr_fail(GR_ERR_FORMAT,
                           "two zip entries have the same name, at bytes %zu and %zu",
                           z->entries[i - 1].offset, z->entries[i].offset);
    return GR_OK;
}

void gr_zip_fini(gr_zip *z)
{
    gr_free(z->entries);
    *z = (gr_zip){ 0 };
}

static int compare_joined(gr_zip_name name, const gr_zip_entry *e)
{
    size_t n_head = e->n_name < name.n_folder ? e->n_name : name.n_folder;
    int order = compare(name.folder, name.n_folder, e->name, n_head);

    if (order != 0)
        return order;
    return compare(name.name, name.n_name, e->name + n_head, e->n_name - n_head);
}

gr_status gr_zip_find(gr_zip *z, gr_zip_name name, const gr_zip_entry **out)
{
    int low = 0, high = z->n_entries;

    *out = NULL;
    while (low < high) {
        int middle = low + (high - low) / 2;
        gr_zip_entry *e = &z->entries[middle];
        int order = compare_joined(name, e);

        if (order == 0) {
            uint32_t crc = e->is_checked ? e->crc : gr_crc32(0, e->bytes, e->n_bytes);

            if (crc != e->crc)
                return gr_fail(GR_ERR_FORMAT,
                               "damaged: the CRC of the entry at byte %zu is %08x, its %zu bytes "
                               "give %08x",
                               e->offset, (unsigned)e->crc, e->n_bytes, (unsigned)crc);
            e->is_checked = true;
            *out = e;
            return GR_OK;
        }
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return GR_OK;
}
