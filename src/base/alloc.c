/*
 * Host memory with a count and a switch for failure.
 *
 * (1) Every allocating call takes one number from `n_calls`, whether it succeeds or not.
 * (2) Calls numbered `fail_from` and above return NULL; tests set it, nobody else does.
 *
 * Any thread.
 */
#include "base/alloc.h"

#include "base/size.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN_BYTES 64

static atomic_long n_calls;
static atomic_long fail_from = LONG_MAX;
static _Thread_local long n_mine;

/* Counts this call; false when a test wants it to fail. */
static bool may_allocate(void)
{
    long number = atomic_fetch_add_explicit(&n_calls, 1, memory_order_relaxed);

    n_mine++;
    return number < atomic_load_explicit(&fail_from, memory_order_relaxed);
}

static void *checked(void *p, size_t n_bytes)
{
    if (!p)
        gr_fail(GR_ERR_NOMEM, "no memory for %zu bytes", n_bytes);
    return p;
}

void *gr_malloc(size_t n_bytes)
{
    return checked(may_allocate() ? malloc(n_bytes ? n_bytes : 1) : NULL, n_bytes);
}

void *gr_calloc(size_t n, size_t elem_bytes)
{
    size_t n_bytes;

    if (gr_size_mul(&n_bytes, n, elem_bytes) != GR_OK)
        return NULL;
    return checked(may_allocate() ? calloc(n_bytes ? n_bytes : 1, 1) : NULL, n_bytes);
}

void *gr_realloc(void *p, size_t n_bytes)
{
    return checked(may_allocate() ? realloc(p, n_bytes ? n_bytes : 1) : NULL, n_bytes);
}

void *gr_malloc_aligned(size_t n_bytes)
{
    void *p = NULL;

    if (may_allocate() && n_bytes <= SIZE_MAX - ALIGN_BYTES &&
        posix_memalign(&p, ALIGN_BYTES, gr_round_up(n_bytes ? n_bytes : 1, ALIGN_BYTES)) != 0)
        p = NULL;
    return checked(p, n_bytes);
}

void gr_free(void *p)
{
    free(p);
}

char *gr_strdup(const char *s)
{
    size_t n_bytes = strlen(s) + 1;
    char *copy = gr_malloc(n_bytes);

    if (copy)
        memcpy(copy, s, n_bytes);
    return copy;
}

long gr_alloc_count(void)
{
    return atomic_load_explicit(&n_calls, memory_order_relaxed);
}

long gr_alloc_count_mine(void)
{
    return n_mine;
}

void gr_alloc_fail_after(long n)
{
    atomic_store_explicit(&fail_from, n < 0 ? LONG_MAX : gr_alloc_count() + n,
                          memory_order_relaxed);
}

gr_status gr_grow(void **items, int *cap, int need, size_t elem_bytes)
{
    size_t n_bytes;
    int new_cap;
    void *grown;

    if (need <= *cap)
        return GR_OK;
    new_cap = *cap > INT_MAX / 2 ? INT_MAX : 2 * *cap;
    if (new_cap < 8)
        new_cap = 8;
    if (new_cap < need)
        new_cap = need;
    GR_TRY(gr_size_mul(&n_bytes, (size_t)new_cap, elem_bytes));
    grown = gr_realloc(*items, n_bytes);
    if (!grown)
        return GR_ERR_NOMEM;
    *items = grown;
    *cap = new_cap;
    return GR_OK;
}
