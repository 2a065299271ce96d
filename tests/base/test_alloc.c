/* Allocation: sizes, alignment, the count, and failure on request. */
#include "alloc_fail.h"
#include "base/alloc.h"
#include "check.h"

static void sizes(void)
{
    char *zeros = gr_calloc(10, 3);
    void *nothing = gr_malloc(0);
    char *grown = gr_realloc(NULL, 4);
    char *copy = gr_strdup("text");

    GR_CHECK(zeros && nothing && grown && copy);
    for (int i = 0; i < 30; i++)
        GR_CHECK_EQ(zeros[i], 0);
    GR_CHECK_STR(copy, "text");
    memcpy(grown, "abc", 4);
    grown = gr_realloc(grown, 4000);
    GR_CHECK(grown != NULL);
    GR_CHECK_STR(grown, "abc");
    GR_CHECK(gr_calloc(SIZE_MAX / 2, 3) == NULL);
    GR_CHECK(strstr(gr_error_message(), "more than a size can hold") != NULL);
    GR_CHECK(gr_malloc_aligned(SIZE_MAX - 3) == NULL);
    gr_free(copy);
    gr_free(grown);
    gr_free(nothing);
    gr_free(zeros);
    gr_free(NULL);
}

static void aligned(void)
{
    for (size_t n = 0; n < 300; n++) {
        char *p = gr_malloc_aligned(n);

        GR_CHECK(p != NULL);
        GR_CHECK_EQ((uintptr_t)p % 64, 0);
        memset(p, 1, n);
        gr_free(p);
    }
}

static void counted(void)
{
    long before = gr_alloc_count();
    void *p = gr_malloc(1);

    p = gr_realloc(p, 2);
    gr_free(p);
    GR_CHECK_EQ(gr_alloc_count() - before, 2);
}

static void fails_on_request(void)
{
    void *p;

    gr_alloc_fail_after(1);
    p = gr_malloc(8);
    GR_CHECK(p != NULL);
    GR_CHECK(gr_malloc(16) == NULL);
    GR_CHECK(strstr(gr_error_message(), "16 bytes") != NULL);
    GR_CHECK(gr_calloc(1, 1) == NULL);
    GR_CHECK(gr_realloc(p, 100) == NULL); /* p stays */
    GR_CHECK(gr_malloc_aligned(1) == NULL);
    GR_CHECK(gr_strdup("x") == NULL);
    gr_alloc_fail_after(-1);
    gr_free(p);
    p = gr_malloc(8);
    GR_CHECK(p != NULL);
    gr_free(p);
}

static gr_status grow_body(void *arg)
{
    int cap = 0;
    gr_status st = GR_OK;
    void *items = NULL;

    (void)arg;
    for (int n = 1; n <= 100 && st == GR_OK; n++) {
        st = gr_grow(&items, &cap, n, sizeof(int));
        if (st != GR_OK)
            break;
        GR_CHECK(cap >= n);
        ((int *)items)[n - 1] = n;
        GR_CHECK_EQ(((int *)items)[0], 1);
    }
    gr_free(items);
    return st;
}

static void grows(void)
{
    void *items = NULL;
    int cap = 0;

    GR_CHECK_EQ(gr_alloc_fail_each(grow_body, NULL), 5); /* 8, 16, 32, 64, 128 */
    GR_CHECK_FAILS(gr_grow(&items, &cap, 1000, SIZE_MAX / 10), GR_ERR_ARG, "more than a size");
    GR_CHECK(items == NULL && cap == 0);
}

int main(void)
{
    sizes();
    aligned();
    counted();
    fails_on_request();
    grows();
    return 0;
}
