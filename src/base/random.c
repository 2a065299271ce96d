/*
 * Random numbers: PyTorch's CPU streams.
 *
 * What must hold so that samples and initial weights are those of PyTorch:
 * (1) uniform f32 takes one 32-bit draw per element and uses its low 24 bits;
 * (2) normal f32 of 16 elements or more fills with uniforms first and transforms blocks
 *     of 16 in place; with a remainder the last 16 elements are drawn again;
 * (3) normal f32 of fewer elements works in double, two 64-bit draws per pair, and the
 *     second half of a pair waits in the generator, also across calls;
 * (4) randperm takes 32-bit draws below 2^32/20 elements and 64-bit draws from there on;
 * (5) where PyTorch's vector code multiplies and adds in one rounding, so does fmaf() here.
 *
 * Permutations, uniforms and normals of (3) are PyTorch's to the last bit. Normals of (2)
 * are its stream, but its vector code has its own logarithm, sine and cosine: they agree
 * to a few units in the last place of the angle and the radius.
 *
 * A generator belongs to one thread at a time.
 */
#include "base/random.h"

#include "base/random_impl.h"

#include <math.h>
#include <stdbool.h>

#define MT_N 624
#define MT_M 397

#define NORMAL_BLOCK 16
#define PI           3.14159265358979323846

void gr_mt_seed(gr_mt19937 *r, uint64_t seed)
{
    r->state[0] = (uint32_t)seed;
    for (uint32_t i = 1; i < MT_N; i++) {
        uint32_t before = r->state[i - 1];

        r->state[i] = 1812433253u * (before ^ (before >> 30)) + i;
    }
    r->next = MT_N;
    r->normal_cached = 0;
    r->has_normal = 0;
}

static void refill(gr_mt19937 *r)
{
    for (int i = 0; i < MT_N; i++) {
        uint32_t joined = (r->state[i] & 0x80000000u) | (r->state[(i + 1) % MT_N] & 0x7fffffffu);
        uint32_t twist = (joined & 1u) ? 0x9908b0dfu : 0;

        r->state[i] = r->state[(i + MT_M) % MT_N] ^ (joined >> 1) ^ twist;
    }
    r->next = 0;
}

uint32_t gr_mt_u32(gr_mt19937 *r)
{
    uint32_t y;

    if (r->next >= MT_N)
        refill(r);
    y = r->state[r->next++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

uint64_t gr_mt_u64(gr_mt19937 *r)
{
    uint64_t high = gr_mt_u32(r);

    return high << 32 | gr_mt_u32(r);
}

static float uniform_f32(gr_mt19937 *r)
{
    return (float)(gr_mt_u32(r) & 0xffffffu) * 0x1p-24f;
}

double gr_mt_double(gr_mt19937 *r)
{
    return (double)(gr_mt_u64(r) & (((uint64_t)1 << 53) - 1)) * 0x1p-53;
}

void gr_mt_uniform_f32(gr_mt19937 *r, float *dst, size_t n, float from, float to)
{
    float width = to - from;

    for (size_t i = 0; i < n; i++)
        dst[i] = fmaf(uniform_f32(r), width, from);
}

/* Box-Muller on 16 uniforms: [0, 8) give the radii, [8, 16) the angles. */
static void normal_block(float *d, float mean, float std)
{
    for (int j = 0; j < NORMAL_BLOCK / 2; j++) {
        float u1 = 1.0f - d[j]; /* [0, 1) becomes (0, 1], for the logarithm */
        float radius = sqrtf(-2.0f * logf(u1));
        float angle = (float)(2.0 * PI) * d[j + NORMAL_BLOCK / 2];

        d[j] = fmaf(radius * cosf(angle), std, mean);
        d[j + NORMAL_BLOCK / 2] = fmaf(radius * sinf(angle), std, mean);
    }
}

double gr_mt_normal_1(gr_mt19937 *r)
{
    double u1, u2, radius, angle;

    if (r->has_normal) {
        r->has_normal = 0;
        return r->normal_cached;
    }
    u1 = gr_mt_double(r);
    u2 = gr_mt_double(r);
    radius = sqrt(-2.0 * log1p(-u2));
    angle = 2.0 * PI * u1;
    r->normal_cached = radius * sin(angle);
    r->has_normal = 1;
    return radius * cos(angle);
}

void gr_mt_normal_f32(gr_mt19937 *r, float *dst, size_t n, float mean, float std)
{
    if (n < NORMAL_BLOCK) {
        for (size_t i = 0; i < n; i++)
            dst[i] = (float)(gr_mt_normal_1(r) * (double)std + (double)mean);
        return;
    }
    gr_mt_uniform_f32(r, dst, n, 0.0f, 1.0f);
    for (size_t i = 0; i + NORMAL_BLOCK <= n; i += NORMAL_BLOCK)
        normal_block(dst + i, mean, std);
    if (n % NORMAL_BLOCK != 0) {
        float *last = dst + n - NORMAL_BLOCK;

        gr_mt_uniform_f32(r, last, NORMAL_BLOCK, 0.0f, 1.0f);
        normal_block(last, mean, std);
    }
}

void gr_mt_randperm(gr_mt19937 *r, int64_t *dst, int64_t n)
{
    bool small = n < (int64_t)(UINT32_MAX / 20);

    for (int64_t i = 0; i < n; i++)
        dst[i] = i;
    for (int64_t i = 0; small && i < n - 1; i++) {
        int64_t z = i + (int64_t)(gr_mt_u32(r) % (uint64_t)(n - i));
        int64_t kept = dst[i];

        dst[i] = dst[z];
        dst[z] = kept;
    }
    for (int64_t i = 0; !small && i < n; i++) {
        int64_t z = (int64_t)(gr_mt_u64(r) % (uint64_t)(i + 1));

        dst[i] = dst[z];
        dst[z] = i;
    }
}
