/*
 * AMX, asked and tried. CPUID's flags are not enough: the system hands out the tile
 * registers on request only, and some virtual machines show the flags but hide the leaves
 * 0x1d and 0x1e that describe the tiles, so libraries that read those fail at their first
 * product. Palette 1 is fixed by the architecture, so it is written out here and one
 * product is tried, with SIGILL caught.
 */
#include "base/cpu_tiles.h"

#include <cpuid.h>
#include <immintrin.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* arch_prctl(2); not in every system's headers. */
#define REQUEST_FEATURE 0x1023
#define TILE_DATA       18

#define FLAG_AMX_BF16 (1u << 22) /* CPUID 7, 0: edx */
#define FLAG_AMX_TILE (1u << 24)
#define FLAG_OSXSAVE  (1u << 27)  /* CPUID 1: ecx */
#define TILES_SAVED   (3u << 17)  /* XCR0: tile configuration and data */
#define BF16_ONES     0x3f803f80u /* two of them */
#define TILE_WORDS    ((size_t)16 * 16)

typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

/* A constant, because compilers do not see what the instruction reads. */
static const tile_config config = {
    .palette = 1,
    .row_bytes = { 64, 64, 64 },
    .rows = { 16, 16, 16 },
};

static sigjmp_buf back;

static bool flags_say_yes(void)
{
    unsigned a, b, c, d, low, high;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & FLAG_OSXSAVE))
        return false;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & FLAG_AMX_TILE) || !(d & FLAG_AMX_BF16))
        return false;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & TILES_SAVED) == TILES_SAVED;
}

/* 32 products of ones in each sum. */
__attribute__((target("amx-tile,amx-bf16"))) static bool multiply(void)
{
    static uint32_t ones[TILE_WORDS];
    static float sums[TILE_WORDS];
    bool good = true;

    for (size_t i = 0; i < TILE_WORDS; i++)
        ones[i] = BF16_ONES;
    __asm__ volatile("" ::: "memory");
    _tile_loadconfig(&config);
    _tile_zero(0);
    _tile_loadd(1, ones, 64);
    _tile_loadd(2, ones, 64);
    _tile_dpbf16ps(0, 1, 2);
    _tile_stored(0, sums, 64);
    _tile_release();
    __asm__ volatile("" ::: "memory");
    for (size_t i = 0; i < TILE_WORDS; i++)
        good = good && sums[i] == 32;
    return good;
}

static void on_illegal(int sig)
{
    siglongjmp(back, sig);
}

bool gr_cpu_try_tiles(void)
{
    struct sigaction catch = { .sa_handler = on_illegal }, before;
    volatile bool works = false;

    if (!flags_say_yes() || syscall(SYS_arch_prctl, REQUEST_FEATURE, TILE_DATA) != 0)
        return false;
    sigemptyset(&catch.sa_mask);
    if (sigaction(SIGILL, &catch, &before) != 0)
        return false;
    if (sigsetjmp(back, 1) == 0)
        works = multiply();
    if (sigaction(SIGILL, &before, NULL) != 0)
        return false;
    return works;
}
