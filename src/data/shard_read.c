/*
 * Reading shards. The parser takes any bytes: after gr_shard_parse() every record lies inside the
 * file, so that later only checksums can be wrong.
 */
#include "data/shard.h"

#include "base/outfile.h"
#include "data/mapped.h"
#include "data/shard_bytes.h"

#include <string.h>

static const uint8_t *entry_at(const gr_shard *s, uint32_t i)
{
    return s->index + (size_t)i * ENTRY_BYTES;
}

static gr_status check_tail(const uint8_t *mem, const uint8_t *tail)
{
    uint32_t crc = gr_crc32c(gr_crc32c(0, mem, SHARD_HEAD_BYTES), tail, TAIL_CRC);

    if (memcmp(mem, SHARD_MAGIC, 8) != 0)
        return gr_fail(GR_ERR_FORMAT, "not a shard");
    if (gr_le32(mem + 8) != SHARD_VERSION)
        return gr_fail(GR_ERR_FORMAT, "a shard of version %u; version %d is read", gr_le32(mem + 8),
                       SHARD_VERSION);
    if (memcmp(tail + TAIL_END, SHARD_END, 4) != 0)
        return gr_fail(GR_ERR_FORMAT, "the shard is cut short: its end mark is missing");
    if (gr_le32(tail + TAIL_CRC) != crc)
        return gr_fail(GR_ERR_FORMAT, "the shard's tail is damaged: checksum %08x, expected %08x",
                       crc, gr_le32(tail + TAIL_CRC));
    return GR_OK;
}

static void read_head(gr_shard_head *h, const uint8_t *tail)
{
    uint32_t flags = gr_le32(tail + TAIL_FLAGS);

    *h = (gr_shard_head){ .n_records = gr_le32(tail + TAIL_RECORDS),
                          .number = gr_le32(tail + TAIL_NUMBER),
                          .n_shards = gr_le32(tail + TAIL_SHARDS),
                          .first = gr_le64(tail + TAIL_FIRST),
                          .n_total = gr_le64(tail + TAIL_TOTAL),
                          .n_classes = gr_le32(tail + TAIL_CLASSES),
                          .has_names = (flags & FLAG_NAMES) != 0,
                          .has_masks = (flags & FLAG_MASKS) != 0 };
}

bool gr_shard_next_class(const gr_shard *s, const uint8_t **at, const char **name,
                         uint32_t *n_bytes)
{
    const uint8_t *p = *at ? *at : s->names, *end = s->mem + s->n_bytes - TAIL_BYTES;

    if (!s->head.has_names || (size_t)(end - p) < 4)
        return false;
    *n_bytes = gr_le32(p);
    if (*n_bytes > (size_t)(end - p) - 4)
        return false;
    *name = (const char *)p + 4;
    *at = p + 4 + *n_bytes;
    return true;
}

static gr_status check_classes(const gr_shard *s)
{
    const uint8_t *at = NULL;
    const char *name;
    uint32_t n = 0, n_bytes;

    if (s->head.n_classes > INT32_MAX)
        return gr_fail(GR_ERR_FORMAT, "%u classes", s->head.n_classes);
    if (!s->head.has_names)
        return GR_OK;
    while (gr_shard_next_class(s, &at, &name, &n_bytes)) {
        if (memchr(name, '\0', n_bytes))
            return gr_fail(GR_ERR_FORMAT, "a zero byte in the name of class %u", n);
        n++;
    }
    if (n != s->head.n_classes)
        return gr_fail(GR_ERR_FORMAT, "%u class names, expected %u", n, s->head.n_classes);
    return GR_OK;
}

static gr_status check_entry(const gr_shard *s, uint32_t i, uint64_t end)
{
    const uint8_t *e = entry_at(s, i);
    uint64_t place = gr_le64(e + ENTRY_PLACE);
    uint64_t n =
        (uint64_t)gr_le32(e + ENTRY_IMAGE) + gr_le32(e + ENTRY_MASK) + gr_le32(e + ENTRY_NAME);
    int64_t label = (int32_t)gr_le32(e + ENTRY_CLASS);

    if (place < SHARD_HEAD_BYTES || place > end || n > end - place)
        return gr_fail(GR_ERR_FORMAT, "record %u lies outside the file", i);
    if (label < -1 || (label >= 0 && label >= (int64_t)s->head.n_classes))
        return gr_fail(GR_ERR_FORMAT, "record %u is of class %lld, there are %u", i,
                       (long long)label, s->head.n_classes);
    if (s->head.has_masks != (gr_le32(e + ENTRY_MASK) > 0))
        return gr_fail(GR_ERR_FORMAT, "record %u has %s mask", i,
                       s->head.has_masks ? "no" : "an unexpected");
    return GR_OK;
}

gr_status gr_shard_parse(gr_shard *out, const void *src, size_t n_bytes)
{
    gr_shard s = { .mem = (const uint8_t *)src, .n_bytes = n_bytes };
    const uint8_t *tail;
    uint64_t index, n_index;

    if (n_bytes < SHARD_HEAD_BYTES + TAIL_BYTES)
        return gr_fail(GR_ERR_FORMAT, "%zu bytes are too few for a shard", n_bytes);
    tail = s.mem + n_bytes - TAIL_BYTES;
    GR_TRY(check_tail(s.mem, tail));
    read_head(&s.head, tail);
    index = gr_le64(tail + TAIL_INDEX);
    n_index = gr_le64(tail + TAIL_INDEX_BYTES);
    if (index < SHARD_HEAD_BYTES || index > n_bytes - TAIL_BYTES ||
        n_index != n_bytes - TAIL_BYTES - index ||
        (uint64_t)s.head.n_records * ENTRY_BYTES > n_index)
        return gr_fail(GR_ERR_FORMAT, "the index of %u records lies outside the file",
                       s.head.n_records);
    s.index = s.mem + index;
    s.names = s.index + (size_t)s.head.n_records * ENTRY_BYTES;
    if (gr_crc32c(0, s.index, (size_t)n_index) != gr_le32(tail + TAIL_INDEX_CRC))
        return gr_fail(GR_ERR_FORMAT, "the shard's index is damaged");
    GR_TRY(check_classes(&s));
    for (uint32_t i = 0; i < s.head.n_records; i++)
        GR_TRY(check_entry(&s, i, index));
    *out = s;
    return GR_OK;
}

gr_status gr_shard_get(const gr_shard *s, uint32_t i, gr_shard_record *out)
{
    const uint8_t *e = entry_at(s, i), *p = s->mem + gr_le64(e + ENTRY_PLACE);

    *out = (gr_shard_record){ .n_name = gr_le32(e + ENTRY_NAME),
                              .n_image = gr_le32(e + ENTRY_IMAGE),
                              .n_mask = gr_le32(e + ENTRY_MASK),
                              .label = gr_shard_label(s, i) };
    out->name = p;
    out->image = p + out->n_name;
    out->mask = out->n_mask > 0 ? p + out->n_name + out->n_image : NULL;
    if (gr_crc32c(0, p, (size_t)out->n_name + out->n_image + out->n_mask) != gr_le32(e + ENTRY_CRC))
        return gr_fail(GR_ERR_FORMAT, "record %u is damaged: its checksum is wrong", i);
    return GR_OK;
}

int32_t gr_shard_label(const gr_shard *s, uint32_t i)
{
    return (int32_t)gr_le32(entry_at(s, i) + ENTRY_CLASS);
}

void gr_shard_name(const gr_shard *s, uint32_t i, const char **name, uint32_t *n_bytes)
{
    const uint8_t *e = entry_at(s, i);

    *name = (const char *)s->mem + gr_le64(e + ENTRY_PLACE);
    *n_bytes = gr_le32(e + ENTRY_NAME);
}
