/*
 * Numbers that several ranks touch at once. Always sequentially consistent, and wrapped so
 * that no plain access slips in. Compiler built-ins instead of <stdatomic.h>: headers here
 * are read as C++ too.
 */
#ifndef GR_COMM_SHM_ATOM_H
#define GR_COMM_SHM_ATOM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct atom32 {
    uint32_t v;
} atom32;

typedef struct atom64 {
    uint64_t v;
} atom64;

static inline uint32_t atom32_get(const atom32 *a)
{
    return __atomic_load_n(&a->v, __ATOMIC_SEQ_CST);
}

static inline void atom32_set(atom32 *a, uint32_t v)
{
    __atomic_store_n(&a->v, v, __ATOMIC_SEQ_CST);
}

/* Adds and returns the new value; subtracts with a negative number. */
static inline uint32_t atom32_add(atom32 *a, int32_t by)
{
    return __atomic_add_fetch(&a->v, (uint32_t)by, __ATOMIC_SEQ_CST);
}

/* From `old` to `v`; false when it was something else. */
static inline bool atom32_claim(atom32 *a, uint32_t old, uint32_t v)
{
    return __atomic_compare_exchange_n(&a->v, &old, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static inline uint64_t atom64_get(const atom64 *a)
{
    return __atomic_load_n(&a->v, __ATOMIC_SEQ_CST);
}

static inline void atom64_set(atom64 *a, uint64_t v)
{
    __atomic_store_n(&a->v, v, __ATOMIC_SEQ_CST);
}

static inline void atom64_add(atom64 *a, uint64_t by)
{
    __atomic_add_fetch(&a->v, by, __ATOMIC_SEQ_CST);
}

/* From *old to `v`; false when it was something else, which *old is then. */
static inline bool atom64_claim(atom64 *a, uint64_t *old, uint64_t v)
{
    return __atomic_compare_exchange_n(&a->v, old, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* For hints that others may see late. */
static inline void atom64_hint(atom64 *a, uint64_t v)
{
    __atomic_store_n(&a->v, v, __ATOMIC_RELAXED);
}

/* For rings: what was written before set is seen after get. */
static inline uint64_t atom64_acquire(const atom64 *a)
{
    return __atomic_load_n(&a->v, __ATOMIC_ACQUIRE);
}

#endif
