/*
 * The parser of shards on arbitrary bytes, as they are and with the checksums made right, which
 * otherwise stop every mutation: each record that it admits lies inside the file.
 */
#include "src/base/alloc.h"
#include "src/base/outfile.h"
#include "src/base/status.h"
#include "src/data/mapped.h"
#include "src/data/shard.h"
#include "src/data/shard_bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void put_le32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static void mend_checksums(uint8_t *p, size_t n)
{
    uint8_t *tail = p + n - TAIL_BYTES;
    uint64_t index = gr_le64(tail + TAIL_INDEX);

    if (index <= n - TAIL_BYTES)
        put_le32(tail + TAIL_INDEX_CRC, gr_crc32c(0, p + index, (size_t)(n - TAIL_BYTES - index)));
    put_le32(tail + TAIL_CRC, gr_crc32c(gr_crc32c(0, p, SHARD_HEAD_BYTES), tail, TAIL_CRC));
}

static void read_all(const uint8_t *data, size_t n_bytes)
{
    const uint8_t *at = NULL;
    const char *name;
    uint32_t n_name;
    gr_shard s;

    if (gr_shard_parse(&s, data, n_bytes) != GR_OK) {
        GR_BUG_IF(gr_error_message()[0] == '\0');
        return;
    }
    while (gr_shard_next_class(&s, &at, &name, &n_name))
        GR_BUG_IF((const uint8_t *)name < data || (const uint8_t *)name + n_name > data + n_bytes);
    for (uint32_t i = 0; i < s.head.n_records; i++) {
        gr_shard_record r;
        gr_status st = gr_shard_get(&s, i, &r); /* its checksum reads all of it */

        GR_BUG_IF(st != GR_OK && st != GR_ERR_FORMAT);
        GR_BUG_IF((const uint8_t *)r.image + r.n_image > data + n_bytes);
        GR_BUG_IF(gr_shard_label(&s, i) >= (int64_t)s.head.n_classes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    uint8_t *copy;

    read_all(data, n_bytes);
    if (n_bytes < SHARD_HEAD_BYTES + TAIL_BYTES)
        return 0;
    copy = gr_malloc(n_bytes);
    GR_BUG_IF(!copy);
    memcpy(copy, data, n_bytes);
    mend_checksums(copy, n_bytes);
    read_all(copy, n_bytes);
    gr_free(copy);
    return 0;
}
