/* CRC-32C: known values, and both implementations against one bit at a time. */
#include "base/crc.h"
#include "base/outfile.h"
#include "check.h"

static uint32_t bit_by_bit(const unsigned char *p, size_t n)
{
    uint32_t crc = 0xffffffffu;

    for (size_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit++) {
            uint32_t differs = (crc ^ (uint32_t)(p[i] >> bit)) & 1u;

            crc = (crc >> 1) ^ (differs ? 0x82f63b78u : 0);
        }
    return ~crc;
}

static void known(uint32_t (*crc)(uint32_t, const void *, size_t))
{
    unsigned char zeros[32] = { 0 }, ones[32], up[32];

    memset(ones, 0xff, sizeof(ones));
    for (int i = 0; i < 32; i++)
        up[i] = (unsigned char)i;
    GR_CHECK_EQ(crc(0, "123456789", 9), 0xE3069283u);
    GR_CHECK_EQ(crc(0, "", 0), 0);
    GR_CHECK_EQ(crc(0, zeros, 32), 0x8A9136AAu); /* these three: RFC 3720, B.4 */
    GR_CHECK_EQ(crc(0, ones, 32), 0x62A8AB43u);
    GR_CHECK_EQ(crc(0, up, 32), 0x46DD794Eu);
    GR_CHECK_EQ(crc(crc(0, "1234", 4), "56789", 5), 0xE3069283u);
}

int main(void)
{
    unsigned char bytes[300];
    uint32_t x = 1;

    known(gr_crc32c);
    known(gr_crc32c_table);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        x = x * 1664525u + 1013904223u;
        bytes[i] = (unsigned char)(x >> 24);
    }
    for (size_t at = 0; at < 9; at++)
        for (size_t n = 0; n + at <= 200; n++) {
            uint32_t want = bit_by_bit(bytes + at, n);

            GR_CHECK_EQ(gr_crc32c(0, bytes + at, n), want);
            GR_CHECK_EQ(gr_crc32c_table(0, bytes + at, n), want);
        }
    return 0;
}
