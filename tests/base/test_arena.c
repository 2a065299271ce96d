/* Arenas: zeroed memory, alignment, marks, and poison where ASan is there to see it. */
#include "alloc_fail.h"
#include "base/arena.h"
#include "check.h"

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif

#ifdef WITH_ASAN
#include <sanitizer/asan_interface.h>
#define CHECK_POISONED(p) GR_CHECK(__asan_address_is_poisoned(p))
#else
#define CHECK_POISONED(p) ((void)(p))
#endif

typedef struct point {
    double x, y;
} point;

static void check_zero(const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        GR_CHECK_EQ(p[i], 0);
}

static void objects(void)
{
    gr_arena *a;
    point *pt;
    int *ints;

    GR_CHECK_OK(gr_arena_create(&a));
    pt = gr_arena_new(a, point);
    GR_CHECK(pt && pt->x >= 0 && pt->x <= 0);
    ints = gr_arena_array(a, 1000000, sizeof(*ints)); /* larger than any block */
    GR_CHECK(ints && ints[999999] == 0);
    ints[999999] = 7;
    GR_CHECK_STR(gr_arena_strdup(a, "name"), "name");
    GR_CHECK_STR(gr_arena_printf(a, "blocks.%d.%s", 3, "weight"), "blocks.3.weight");
    GR_CHECK_STR(gr_arena_printf(a, "%s", ""), "");
    GR_CHECK(gr_arena_alloc(a, 0) != NULL);
    GR_CHECK(gr_arena_array(a, SIZE_MAX, 2) == NULL);
    GR_CHECK(gr_arena_alloc(a, SIZE_MAX - 5) == NULL);
    for (size_t n = 0; n < 2000; n++) {
        unsigned char *p = gr_arena_alloc(a, n);

        GR_CHECK(p != NULL);
        GR_CHECK_EQ((uintptr_t)p % 16, 0);
        check_zero(p, n);
        memset(p, 0xff, n);
        CHECK_POISONED(p + n);
    }
    gr_arena_destroy(a);
    gr_arena_destroy(NULL);
}

static void marks(void)
{
    gr_arena *a;
    gr_arena_mark empty, mark;
    char *kept, *lost, *again;

    GR_CHECK_OK(gr_arena_create(&a));
    empty = gr_arena_save(a);
    kept = gr_arena_strdup(a, "kept");
    mark = gr_arena_save(a);
    lost = gr_arena_strdup(a, "lost");
    for (int i = 0; i < 100; i++)
        GR_CHECK(gr_arena_alloc(a, 1000) != NULL);
    gr_arena_reset(a, mark);
    CHECK_POISONED(lost);
    GR_CHECK_STR(kept, "kept");
    again = gr_arena_alloc(a, 5);
    GR_CHECK(again == lost);               /* the place is used again, */
    check_zero((unsigned char *)again, 5); /* and clean */
    gr_arena_reset(a, empty);
    GR_CHECK(gr_arena_alloc(a, 8) != NULL);
    gr_arena_reset(a, empty);
    gr_arena_destroy(a);
}

static gr_status body(void *arg)
{
    gr_arena *a;
    gr_status st = GR_OK;

    (void)arg;
    GR_TRY(gr_arena_create(&a));
    for (int i = 0; i < 20 && st == GR_OK; i++)
        if (!gr_arena_array(a, 100, 10) || !gr_arena_printf(a, "%d", i))
            st = GR_ERR_NOMEM;
    gr_arena_destroy(a);
    return st;
}

int main(void)
{
    objects();
    marks();
    GR_CHECK(gr_alloc_fail_each(body, NULL) > 2);
    return 0;
}
