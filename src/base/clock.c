/* Monotonic time and deadlines. Any thread; saturates instead of wrapping. */
#include "base/clock.h"

#include <limits.h>
#include <time.h>

#define NS_PER_MS 1000000
#define NS_PER_S  1000000000

int64_t gr_now_ns(void)
{
    struct timespec t;

    /* Cannot fail: the clock exists on every Linux and the pointer is good. */
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

gr_deadline gr_deadline_in_ms(int64_t ms)
{
    gr_deadline d = { gr_now_ns() };
    int64_t ns;

    if (ms <= 0)
        return d;
    if (__builtin_mul_overflow(ms, (int64_t)NS_PER_MS, &ns) ||
        __builtin_add_overflow(d.at_ns, ns, &d.at_ns))
        d.at_ns = INT64_MAX;
    return d;
}

bool gr_deadline_passed(gr_deadline d)
{
    return gr_now_ns() >= d.at_ns;
}

int gr_deadline_left_ms(gr_deadline d)
{
    int64_t left_ns = d.at_ns - gr_now_ns();
    int64_t left_ms;

    if (left_ns <= 0)
        return 0;
    /* Rounded up: 0 must mean "passed", and poll(0) in a loop would spin. */
    left_ms = left_ns / NS_PER_MS + (left_ns % NS_PER_MS != 0);
    return left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}
