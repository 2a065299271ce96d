/* Heads of messages: to bytes and back. */
#include "comm/head.h"

#include "base/outfile.h"

#include <string.h>

#define MAGIC   0x31665247u
#define VERSION 1u
#define CRC_AT  124

static void put(uint8_t *at, uint64_t v, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++)
        at[i] = (uint8_t)(v >> (8 * i));
}

static uint64_t get(const uint8_t *at, int n_bytes)
{
    uint64_t v = 0;

    for (int i = n_bytes; i-- > 0;)
        v = v << 8 | at[i];
    return v;
}

static void put_i32(uint8_t *at, int32_t v)
{
    put(at, (uint32_t)v, 4);
}

static int32_t get_i32(const uint8_t *at)
{
    return (int32_t)(uint32_t)get(at, 4);
}

void gr_head_put(uint8_t bytes[GR_HEAD_BYTES], const gr_head *f)
{
    uint64_t agreed;

    memcpy(&agreed, &f->what.agreed, sizeof(agreed));
    put(bytes, MAGIC, 4);
    put(bytes + 4, VERSION, 2);
    put(bytes + 6, (uint64_t)f->type, 2);
    put(bytes + 8, f->seq, 8);
    put(bytes + 16, f->n_bytes, 8);
    put(bytes + 24, f->slot, 4);
    put_i32(bytes + 28, f->what.kind);
    put_i32(bytes + 32, f->what.id);
    put_i32(bytes + 36, f->what.dtype);
    put_i32(bytes + 40, f->what.op);
    put_i32(bytes + 44, f->what.root);
    put(bytes + 48, f->what.n_elem, 8);
    put(bytes + 56, f->what.detail, 8);
    put(bytes + 64, agreed, 8);
    memcpy(bytes + 72, f->label, GR_LABEL);
    put_i32(bytes + 120, f->what.n_ranks);
    put(bytes + CRC_AT, gr_crc32c(0, bytes, CRC_AT), 4);
}

static gr_status check(const uint8_t *bytes, const gr_head *f)
{
    uint64_t most = f->type == GR_HEAD_MESSAGE ? GR_HEAD_DATA : GR_HEAD_TEXT;

    if (get(bytes, 4) != MAGIC)
        return gr_fail(GR_ERR_FORMAT, "a message begins with %02x%02x%02x%02x: not from a rank",
                       bytes[0], bytes[1], bytes[2], bytes[3]);
    if (get(bytes + 4, 2) != VERSION)
        return gr_fail(GR_ERR_FORMAT, "a message of version %u; this one speaks %u",
                       (unsigned)get(bytes + 4, 2), VERSION);
    if (get(bytes + CRC_AT, 4) != gr_crc32c(0, bytes, CRC_AT))
        return gr_fail(GR_ERR_FORMAT, "the head of a message is damaged");
    if (f->type < GR_HEAD_MESSAGE || f->type >= GR_HEAD_TYPES)
        return gr_fail(GR_ERR_FORMAT, "a message of unknown type %d", (int)f->type);
    if (f->n_bytes > most)
        return gr_fail(GR_ERR_FORMAT, "a message of %llu bytes, more than %llu",
                       (unsigned long long)f->n_bytes, (unsigned long long)most);
    if ((uint32_t)f->what.kind >= GR_WHAT_COUNT || !memchr(bytes + 72, 0, GR_LABEL))
        return gr_fail(GR_ERR_FORMAT, "the head of a message is malformed");
    return GR_OK;
}

gr_status gr_head_get(const uint8_t bytes[GR_HEAD_BYTES], gr_head *f)
{
    uint64_t agreed = get(bytes + 64, 8);

    f->type = (gr_head_type)get(bytes + 6, 2);
    f->seq = get(bytes + 8, 8);
    f->n_bytes = get(bytes + 16, 8);
    f->slot = (uint32_t)get(bytes + 24, 4);
    f->what = (gr_what){ .kind = get_i32(bytes + 28),
                         .id = get_i32(bytes + 32),
                         .dtype = get_i32(bytes + 36),
                         .op = get_i32(bytes + 40),
                         .root = get_i32(bytes + 44),
                         .n_ranks = get_i32(bytes + 120),
                         .n_elem = get(bytes + 48, 8),
                         .detail = get(bytes + 56, 8) };
    memcpy(&f->what.agreed, &agreed, sizeof(agreed));
    memcpy(f->label, bytes + 72, GR_LABEL);
    return check(bytes, f);
}
