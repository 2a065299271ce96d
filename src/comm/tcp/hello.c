/*
 * The first bytes of a connection between ranks, little-endian: u32 magic "GRh1", u32
 * version, i32 rank, i32 size, i32 stream, 32 bytes of token, 8 bytes of zeros, u32 crc32c.
 * They are the only bytes that strangers can get to us.
 */
#include "comm/tcp/mesh.h"

#include "base/outfile.h"

#include <string.h>

#define MAGIC    0x31685247u
#define VERSION  1u
#define TOKEN_AT 20
#define CRC_AT   60

static void put32(uint8_t *at, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(v >> (8 * i));
}

static uint32_t get32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

void mesh_hello_put(uint8_t bytes[MESH_HELLO], const mesh_hello *h)
{
    memset(bytes, 0, MESH_HELLO);
    put32(bytes, MAGIC);
    put32(bytes + 4, VERSION);
    put32(bytes + 8, (uint32_t)h->rank);
    put32(bytes + 12, (uint32_t)h->size);
    put32(bytes + 16, (uint32_t)h->stream);
    memcpy(bytes + TOKEN_AT, h->token, MESH_TOKEN);
    put32(bytes + CRC_AT, gr_crc32c(0, bytes, CRC_AT));
}

gr_status mesh_hello_get(const uint8_t bytes[MESH_HELLO], mesh_hello *h)
{
    if (get32(bytes) != MAGIC)
        return gr_fail(GR_ERR_FORMAT, "it does not speak our language");
    if (get32(bytes + 4) != VERSION)
        return gr_fail(GR_ERR_FORMAT, "it speaks version %u, this is %u", get32(bytes + 4),
                       VERSION);
    if (get32(bytes + CRC_AT) != gr_crc32c(0, bytes, CRC_AT))
        return gr_fail(GR_ERR_FORMAT, "its greeting is damaged");
    h->rank = (int)(int32_t)get32(bytes + 8);
    h->size = (int)(int32_t)get32(bytes + 12);
    h->stream = (int)(int32_t)get32(bytes + 16);
    memcpy(h->token, bytes + TOKEN_AT, MESH_TOKEN);
    return GR_OK;
}

gr_status mesh_hello_check(const mesh_hello *h, const mesh_hello *expected, int n_streams)
{
    uint8_t differs = 0;

    for (size_t i = 0; i < MESH_TOKEN; i++)
        differs |= h->token[i] ^ expected->token[i];
    if (differs)
        return gr_fail(GR_ERR_ARG, "its token is not this job's");
    if (h->size != expected->size || h->rank <= expected->rank || h->rank >= expected->size ||
        h->stream < -1 || h->stream >= n_streams)
        return gr_fail(GR_ERR_ARG, "it says it is rank %d of %d, stream %d", h->rank, h->size,
                       h->stream);
    return GR_OK;
}
