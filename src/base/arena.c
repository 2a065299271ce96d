/*
 * Arena: a list of blocks, the newest on top; only the top one is allocated from.
 *
 *     top ─► [ block | used ....... | free ]  ─► [ older block, full ]  ─► NULL
 *
 * (1) A mark is the top block and its fill; reset frees the blocks above it.
 * (2) Everything above `used` is poisoned under ASan, and each object is followed by a
 *     poisoned gap, so use after reset and overruns are found as with malloc.
 * (3) Memory is zeroed when handed out, not when freed: a reset block is dirty.
 *
 * Not thread-safe.
 */
#include "base/arena.h"

#include "base/alloc.h"
#include "base/size.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif

#ifdef WITH_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(p, n)   ASAN_POISON_MEMORY_REGION(p, n)
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#define GAP_BYTES      16
#else
#define POISON(p, n)   ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#define GAP_BYTES      0
#endif

#define ALIGN_BYTES     16
#define MIN_BLOCK_BYTES ((size_t)4096)
#define MAX_BLOCK_BYTES ((size_t)1 << 20)

typedef struct block {
    struct block *older;
    size_t cap, used;
    _Alignas(ALIGN_BYTES) char mem[];
} block;

struct gr_arena {
    block *top;        /* owned; NULL while empty */
    size_t next_bytes; /* size of the next block: doubles, so blocks stay few */
};

gr_status gr_arena_create(gr_arena **out)
{
    gr_arena *a = gr_malloc(sizeof(*a));

    if (!a)
        return GR_ERR_NOMEM;
    *a = (gr_arena){ .top = NULL, .next_bytes = MIN_BLOCK_BYTES };
    *out = a;
    return GR_OK;
}

static void pop_block(gr_arena *a)
{
    block *b = a->top;

    a->top = b->older;
    UNPOISON(b->mem, b->cap);
    gr_free(b);
}

void gr_arena_destroy(gr_arena *a)
{
    if (!a)
        return;
    while (a->top)
        pop_block(a);
    gr_free(a);
}

/* A new top block with room for `need`; what is left of the old one stays unused. */
static block *push_block(gr_arena *a, size_t need)
{
    size_t cap = a->next_bytes > need ? a->next_bytes : need;
    size_t n_bytes;
    block *b;

    if (gr_size_add(&n_bytes, sizeof(block), cap) != GR_OK)
        return NULL;
    b = gr_malloc(n_bytes);
    if (!b)
        return NULL;
    *b = (block){ .older = a->top, .cap = cap };
    POISON(b->mem, b->cap);
    a->top = b;
    if (a->next_bytes < MAX_BLOCK_BYTES)
        a->next_bytes *= 2;
    return b;
}

void *gr_arena_alloc(gr_arena *a, size_t n_bytes)
{
    block *b = a->top;
    size_t need;
    char *p;

    if (n_bytes > SIZE_MAX / 2) {
        gr_fail(GR_ERR_NOMEM, "no memory for %zu bytes", n_bytes);
        return NULL;
    }
    need = gr_round_up(n_bytes ? n_bytes : 1, ALIGN_BYTES) + GAP_BYTES;
    if (!b || b->cap - b->used < need)
        b = push_block(a, need);
    if (!b)
        return NULL;
    p = b->mem + b->used;
    b->used += need;
    UNPOISON(p, n_bytes);
    memset(p, 0, n_bytes);
    return p;
}

void *gr_arena_array(gr_arena *a, size_t n, size_t elem_bytes)
{
    size_t n_bytes;

    if (gr_size_mul(&n_bytes, n, elem_bytes) != GR_OK)
        return NULL;
    return gr_arena_alloc(a, n_bytes);
}

char *gr_arena_strdup(gr_arena *a, const char *s)
{
    size_t n_bytes = strlen(s) + 1;
    char *copy = gr_arena_alloc(a, n_bytes);

    if (copy)
        memcpy(copy, s, n_bytes);
    return copy;
}

char *gr_arena_printf(gr_arena *a, const char *fmt, ...)
{
    va_list args, again;
    char *text = NULL;
    int n;

    va_start(args, fmt);
    va_copy(again, args);
    n = vsnprintf(NULL, 0, fmt, args);
    if (n >= 0)
        text = gr_arena_alloc(a, (size_t)n + 1);
    else
        gr_fail(GR_ERR_ARG, "text '%s' cannot be formatted", fmt);
    if (text)
        vsnprintf(text, (size_t)n + 1, fmt, again);
    va_end(again);
    va_end(args);
    return text;
}

gr_arena_mark gr_arena_save(const gr_arena *a)
{
    return (gr_arena_mark){ .block = a->top, .used = a->top ? a->top->used : 0 };
}

void gr_arena_reset(gr_arena *a, gr_arena_mark m)
{
    while (a->top != m.block) {
        GR_BUG_IF(!a->top); /* a mark of another arena, or one already reset past */
        pop_block(a);
    }
    if (!a->top)
        return;
    POISON(a->top->mem + m.used, a->top->cap - m.used);
    a->top->used = m.used;
}
