/*
 * Random numbers against PyTorch's: permutations and uniforms to the last bit, normals of
 * fewer than 16 elements too, longer ones to the rounding of its own sine and logarithm.
 * Values beginning with 0x are CRC-32 over the little-endian bytes that PyTorch gives.
 */
#include "base/random.h"
#include "check.h"

static uint32_t crc32_of(const void *src, size_t n_bytes)
{
    const unsigned char *p = (const unsigned char *)src;
    uint32_t crc = 0xffffffffu;

    for (size_t i = 0; i < n_bytes; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ ((crc & 1u) ? 0xedb88320u : 0);
    }
    return ~crc;
}

static void check_near(const float *got, const double *want, int n, double tolerance)
{
    for (int i = 0; i < n; i++)
        GR_CHECK_NEAR(got[i], want[i], tolerance);
}

static void check_u32(uint64_t seed, const uint32_t want[5])
{
    gr_mt19937 r;

    gr_mt_seed(&r, seed);
    for (int i = 0; i < 5; i++)
        GR_CHECK_EQ(gr_mt_u32(&r), want[i]);
}

static void draws(void)
{
    static const uint32_t seed_0[] = { 2357136044u, 2546248239u, 3071714933u, 3626093760u,
                                       2588848963u };
    static const uint32_t seed_137[] = { 4053805790u, 2173880614u, 380293709u, 1237255315u,
                                         2986595568u };
    gr_mt19937 r;

    check_u32(0, seed_0);
    check_u32(137, seed_137);
    check_u32(((uint64_t)1 << 32) + 137, seed_137); /* only the low 32 bits enter */
    gr_mt_seed(&r, 0);
    GR_CHECK(gr_mt_u64(&r) == ((uint64_t)2357136044u << 32 | 2546248239u));
    /* The value that the C++ standard requires of mt19937's default seed. */
    gr_mt_seed(&r, 5489);
    for (int i = 0; i < 9999; i++)
        gr_mt_u32(&r);
    GR_CHECK_EQ(gr_mt_u32(&r), 4123659995u);
}

/* randint(0, range): the draw modulo the range, 64 bits from 2^28 on. */
static void randint(void)
{
    static const int small[] = { 75, 71, 6, 65, 16, 64 };
    static const int64_t large[] = { 204000912083, 166721346613, 878802328948 };
    gr_mt19937 r;

    gr_mt_seed(&r, 1234);
    for (int i = 0; i < 6; i++)
        GR_CHECK_EQ(gr_mt_u32(&r) % 100, small[i]);
    gr_mt_seed(&r, 1234);
    for (int i = 0; i < 3; i++)
        GR_CHECK_EQ(gr_mt_u64(&r) % ((uint64_t)1 << 40), large[i]);
}

static void uniforms(void)
{
    static const double seed_0[] = { 0.4963, 0.7682, 0.0885, 0.1320, 0.3074 };
    static const double seed_1234[] = { 0.028979, 0.401899, 0.259844, 0.366641 };
    static float v[100003];
    gr_mt19937 r;

    gr_mt_seed(&r, 0);
    gr_mt_uniform_f32(&r, v, 5, 0, 1);
    check_near(v, seed_0, 5, 5.01e-5);
    gr_mt_seed(&r, 1234);
    gr_mt_uniform_f32(&r, v, 4, 0, 1);
    check_near(v, seed_1234, 4, 5.01e-7);
    gr_mt_seed(&r, 42);
    gr_mt_uniform_f32(&r, v, 1000, -0.0357f, 0.0357f);
    GR_CHECK_EQ(crc32_of(v, 1000 * sizeof(float)), 0x56642d6fu);
    gr_mt_seed(&r, ((uint64_t)1 << 32) + 5);
    gr_mt_uniform_f32(&r, v, 100003, 2.5f, 7.25f);
    GR_CHECK_EQ(crc32_of(v, sizeof(v)), 0xaed183d9u);
}

/* nn.Linear(4, 2): weight, then bias, both uniform within 1/sqrt(4). */
static void linear(void)
{
    static const float want[] = { -0.00374341011f, 0.268221796f, -0.411522567f,   -0.367969513f,
                                  -0.192577183f,   0.134078681f, -0.00990658998f, 0.396444738f,
                                  -0.0443720222f,  0.132306278f };
    gr_mt19937 r;
    float v[10];

    gr_mt_seed(&r, 0);
    gr_mt_uniform_f32(&r, v, 8, -0.5f, 0.5f);
    gr_mt_uniform_f32(&r, v + 8, 2, -0.5f, 0.5f);
    GR_CHECK(memcmp(v, want, sizeof(v)) == 0);
}

static void short_normals(void)
{
    static const double seed_0[] = { 1.5410, -0.2934, -2.1788, 0.5684, -1.0845 };
    static const double seed_42[] = { 0.3367, 0.1288, 0.2345, 0.2303 };
    gr_mt19937 r;
    float v[7];

    gr_mt_seed(&r, 0);
    gr_mt_normal_f32(&r, v, 5, 0, 1);
    check_near(v, seed_0, 5, 5.01e-5);
    gr_mt_seed(&r, 42);
    gr_mt_normal_f32(&r, v, 4, 0, 1);
    check_near(v, seed_42, 4, 5.01e-5);
    /* An odd count leaves half a pair for the next call. */
    gr_mt_seed(&r, 3);
    gr_mt_normal_f32(&r, v, 3, 0, 1);
    gr_mt_normal_f32(&r, v + 3, 4, 0.5f, 0.25f);
    GR_CHECK_EQ(crc32_of(v, sizeof(v)), 0x85a9fbf1u);
    /* Seeding drops it. */
    gr_mt_normal_f32(&r, v, 2, 0, 1);
    gr_mt_seed(&r, 0);
    gr_mt_normal_f32(&r, v, 5, 0, 1);
    check_near(v, seed_0, 5, 5.01e-5);
}

static void long_normals(void)
{
    static const double eight[] = { 0.794766426,  1.43693173,  -0.229219213,  0.475563258,
                                    -0.633441091, -0.57919538, -0.0925704762, -0.865919709 };
    static const double sixteen[] = { 0.776723623, -1.28138781,  -2.64639568,  -0.0656950325,
                                      0.21808295,  -0.465361655, -0.331084102, 2.54854822,
                                      0.430166692, 0.846065998,  0.946244836,  -0.291376501,
                                      0.343138069, -1.11867046,  -0.183053285, -2.31531596 };
    static const double seventeen[] = { 4.85383034,   0.680805087, 0.005204916, 1.87917852,
                                        -0.516262293, 3.15663528,  2.60160112,  4.36124134,
                                        1.71171975,   3.59284568,  2.22093296,  3.66947556,
                                        0.53675139,   1.08351898,  0.496849418, 2.71971703,
                                        0.380546451 };
    gr_mt19937 r;
    float v[17];

    gr_mt_seed(&r, 137);
    for (int i = 0; i < 5; i++)
        gr_mt_u32(&r);
    gr_mt_normal_f32(&r, v, 8, 0, 1);
    check_near(v, eight, 8, 1e-8);
    gr_mt_normal_f32(&r, v, 16, 0, 1);
    check_near(v, sixteen, 16, 5e-7);
    /* With a remainder the last 16 are drawn again; 33 draws in all. */
    gr_mt_seed(&r, 42);
    gr_mt_normal_f32(&r, v, 17, 1, 2);
    check_near(v, seventeen, 17, 1e-6);
    gr_mt_uniform_f32(&r, v, 1, 0, 1);
    GR_CHECK_NEAR(v[0], 0.583209574, 1e-8);
}

static void check_perm(uint64_t seed, int64_t n, const int64_t *head, int n_head)
{
    static int64_t v[1281167];
    gr_mt19937 r;

    gr_mt_seed(&r, seed);
    gr_mt_randperm(&r, v, n);
    for (int i = 0; i < n_head; i++)
        GR_CHECK_EQ(v[i], head[i]);
    if (n == 50000) {
        static const int64_t tail[] = { 2642, 42128, 15898, 31476 };

        GR_CHECK(memcmp(v + n - 4, tail, sizeof(tail)) == 0);
        GR_CHECK_EQ(crc32_of(v, (size_t)n * sizeof(*v)), 0xff666e73u);
    }
    if (n == 1281167)
        GR_CHECK_EQ(crc32_of(v, (size_t)n * sizeof(*v)), 0x77bd8951u);
}

static void permutations(void)
{
    static const int64_t a[] = { 3, 2, 4, 5, 1, 0 };
    static const int64_t b[] = { 4, 1, 7, 5, 3, 9, 0, 8, 6, 2 };
    static const int64_t c[] = { 5, 6, 1, 2, 0, 8, 9, 3, 7, 4 };
    static const int64_t d[] = { 2, 6, 1, 8, 4, 5, 0, 9, 3, 7 };
    static const int64_t e[] = { 615, 284, 599, 580, 347, 92, 383, 891 };
    static const int64_t f[] = { 36044, 49165, 37807, 11341, 6091, 16904 };
    static const int64_t g[] = { 1069931, 571398, 762430, 399643, 899707, 226472 };
    static const int64_t zero[] = { 0 };

    check_perm(1234, 6, a, 6);
    check_perm(0, 10, b, 10);
    check_perm(1, 10, c, 10);
    check_perm(42, 10, d, 10);
    check_perm(7, 1000, e, 8);
    check_perm(0, 50000, f, 6);
    check_perm(0, 1281167, g, 6);
    check_perm(0, 1, zero, 1);
    check_perm(0, 0, zero, 0);
}

/* The known answers of Random123 for philox4x32-10: zeros, ones, and digits of pi. */
static void philox(void)
{
    static const uint32_t rows[3][10] = {
        { 0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 },
        { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d,
          0x41c83b0e, 0xa20bc7c6, 0x6d5451fd },
        { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09,
          0x94fdcceb, 0x5001e420, 0x24126ea1 },
    };

    for (int i = 0; i < 3; i++) {
        uint32_t out[4];

        gr_philox(out, rows[i], rows[i] + 4);
        for (int j = 0; j < 4; j++)
            GR_CHECK_EQ(out[j], rows[i][6 + j]);
    }
}

int main(void)
{
    draws();
    randint();
    uniforms();
    linear();
    short_normals();
    long_normals();
    permutations();
    philox();
    return 0;
}
