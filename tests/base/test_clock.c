/* Time and deadlines, at their edges. */
#include "base/clock.h"
#include "check.h"

#include <limits.h>
#include <time.h>

int main(void)
{
    int64_t start = gr_now_ns();
    gr_deadline d = gr_deadline_in_ms(20), later = gr_deadline_in_ms(600000);
    struct timespec nap = { 0, 1000000 };

    GR_CHECK(!gr_deadline_passed(later));
    GR_CHECK(gr_deadline_left_ms(later) >= 1 && gr_deadline_left_ms(later) <= 600000);
    GR_CHECK(gr_deadline_left_ms(d) <= 20);
    while (!gr_deadline_passed(d)) {
        /* Left is 0 exactly when passed: it may pass between the two calls, never before. */
        if (gr_deadline_left_ms(d) == 0)
            GR_CHECK(gr_deadline_passed(d));
        nanosleep(&nap, NULL);
    }
    GR_CHECK(gr_now_ns() - start >= 20000000);
    GR_CHECK_EQ(gr_deadline_left_ms(d), 0);
    GR_CHECK(gr_deadline_passed(gr_deadline_in_ms(0)));
    GR_CHECK(gr_deadline_passed(gr_deadline_in_ms(-5)));
    GR_CHECK(gr_deadline_passed(gr_deadline_in_ms(INT64_MIN)));
    GR_CHECK(!gr_deadline_passed(gr_deadline_in_ms(INT64_MAX)));
    GR_CHECK_EQ(gr_deadline_left_ms(gr_deadline_in_ms(INT64_MAX)), INT_MAX);
    GR_CHECK_EQ(gr_deadline_left_ms(gr_deadline_in_ms((int64_t)INT_MAX * 10)), INT_MAX);
    return 0;
}
