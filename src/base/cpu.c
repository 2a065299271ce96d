/*
 * Instruction sets. The answer is found once and kept: under a hypervisor each question
 * to the processor traps. Threads that ask at the same time find the same answer.
 */
#include "base/cpu.h"

#include "base/cpu_tiles.h"
#include "base/log.h"

#include <cpuid.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef enum cpu_level {
    LEVEL_UNKNOWN,
    LEVEL_SCALAR,
    LEVEL_AVX2,
    LEVEL_AVX512,
    LEVEL_AVX512_BF16,
    LEVEL_AMX
} cpu_level;

static bool amx_works; /* written once, under its pthread_once_t */

#define FLAG_AVX512_BF16 (1u << 5) /* CPUID 7, 1: eax */

/* Beside AVX-512. Not every compiler's __builtin_cpu_supports() knows its name. */
static bool has_bf16(void)
{
    unsigned a, b, c, d;

    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && a >= 1 &&
           __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & FLAG_AVX512_BF16);
}

static cpu_level level_of_processor(void)
{
    unsigned a, b, c, d;

    __builtin_cpu_init();
    /* __builtin_cpu_supports() also asks whether the system saves the wide registers. */
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
        !__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_F16C))
        return LEVEL_SCALAR;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return has_bf16() ? LEVEL_AVX512_BF16 : LEVEL_AVX512;
    return LEVEL_AVX2;
}

static cpu_level level_allowed(void)
{
    const char *word = getenv("GR_CPU");

    if (!word || !*word || strcmp(word, "amx") == 0)
        return LEVEL_AMX;
    if (strcmp(word, "avx512_bf16") == 0)
        return LEVEL_AVX512_BF16;
    if (strcmp(word, "avx512") == 0)
        return LEVEL_AVX512;
    if (strcmp(word, "avx2") == 0)
        return LEVEL_AVX2;
    if (strcmp(word, "scalar") != 0)
        gr_log(BASE, WARN,
               "GR_CPU: '%s' is not amx, avx512_bf16, avx512, avx2 or scalar; taking scalar", word);
    return LEVEL_SCALAR;
}

static cpu_level level(void)
{
    static _Atomic int known = LEVEL_UNKNOWN;
    cpu_level l = (cpu_level)atomic_load_explicit(&known, memory_order_relaxed);

    if (l == LEVEL_UNKNOWN) {
        cpu_level cap = level_allowed();

        l = level_of_processor();
        l = l < cap ? l : cap;
        atomic_store_explicit(&known, (int)l, memory_order_relaxed);
    }
    return l;
}

bool gr_cpu_has_avx2(void)
{
    return level() >= LEVEL_AVX2;
}

bool gr_cpu_has_avx512(void)
{
    return level() >= LEVEL_AVX512;
}

bool gr_cpu_has_avx512_bf16(void)
{
    return level() >= LEVEL_AVX512_BF16;
}

static void try_amx(void)
{
    amx_works = gr_cpu_has_avx512() && level_allowed() >= LEVEL_AMX && gr_cpu_try_tiles();
}

/* Apart from level(): who never asks does not request the tile registers, which make the
 * frames of signals larger. */
bool gr_cpu_has_amx(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    return pthread_once(&once, try_amx) == 0 && amx_works;
}

int gr_cpu_count(void)
{
    cpu_set_t set;
    int n;

    /* Fails on machines with more than 1024 processors; those have cores to spare. */
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return CPU_SETSIZE;
    n = CPU_COUNT(&set);
    return n > 0 ? n : 1;
}
