/*
 * Arena: many small objects of one lifetime, freed together. Freed and unused
 * stretches are poisoned under ASan. Not thread-safe. Memory comes zeroed.
 */
#ifndef GR_BASE_ARENA_H
#define GR_BASE_ARENA_H

#include <stddef.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_arena gr_arena;
typedef struct gr_arena_mark {
    void *block;
    size_t used;
} gr_arena_mark;

gr_status gr_arena_create(gr_arena **out) GR_MUST_CHECK;
void gr_arena_destroy(gr_arena *a);

/* Zeroed, 16-byte aligned; NULL when out of memory (message set). */
void *gr_arena_alloc(gr_arena *a, size_t n_bytes);
void *gr_arena_array(gr_arena *a, size_t n, size_t elem_bytes);
char *gr_arena_strdup(gr_arena *a, const char *s);
char *gr_arena_printf(gr_arena *a, const char *fmt, ...) GR_PRINTF(2, 3);
#define gr_arena_new(a, type) ((type *)gr_arena_alloc((a), sizeof(type)))

gr_arena_mark gr_arena_save(const gr_arena *a);
void gr_arena_reset(gr_arena *a, gr_arena_mark m);

#ifdef __cplusplus
}
#endif

#endif
