/* Monotonic time and deadlines. A deadline is a point in time, passed down whole. */
#ifndef GR_BASE_CLOCK_H
#define GR_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

GR_API int64_t gr_now_ns(void); /* monotonic */

typedef struct gr_deadline {
    int64_t at_ns;
} gr_deadline;

GR_API gr_deadline gr_deadline_in_ms(int64_t ms);
GR_API bool gr_deadline_passed(gr_deadline d);
GR_API int gr_deadline_left_ms(gr_deadline d); /* 0 when passed; fits poll() */

#ifdef __cplusplus
}
#endif

#endif
