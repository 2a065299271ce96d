/*
 * Makes every allocation of a body fail in turn (rule 40).
 *
 * The body is run with its first, second, third ... allocation failing, and all after it,
 * until a run needs no more allocations than are granted. Each failing run must return
 * GR_ERR_NOMEM and release what it took, which the leak checker of ASan sees at the end.
 * A body that loses a failure and returns GR_OK is caught by the count of its calls.
 */
#ifndef GR_TESTS_ALLOC_FAIL_H
#define GR_TESTS_ALLOC_FAIL_H

#include "base/alloc.h"
#include "check.h"

typedef gr_status gr_alloc_body(void *arg);

/* Returns how many allocations a whole run makes. The body starts from scratch each time. */
static inline long gr_alloc_fail_each(gr_alloc_body *body, void *arg)
{
    for (long n = 0;; n++) {
        long before = gr_alloc_count();
        gr_status st;

        gr_alloc_fail_after(n);
        st = body(arg);
        gr_alloc_fail_after(-1);
        if (st == GR_OK) {
            GR_CHECK(gr_alloc_count() - before <= n);
            return n;
        }
        GR_CHECK_EQ(st, GR_ERR_NOMEM);
        GR_CHECK(gr_error_message()[0] != '\0');
        GR_CHECK(n < 1000000);
    }
}

#endif
