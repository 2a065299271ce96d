/* Checks for tests: each prints place and both values, then ends the process with 1. */
#ifndef GR_TESTS_CHECK_H
#define GR_TESTS_CHECK_H

#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gradus/status.h"

#define GR_CHECK(cond)                                                           \
    do {                                                                         \
        if (!(cond)) {                                                           \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #cond); \
            exit(1);                                                             \
        }                                                                        \
    } while (0)

#define GR_CHECK_EQ(a, b)                                                                     \
    do {                                                                                      \
        int64_t va_ = (int64_t)(a), vb_ = (int64_t)(b);                                       \
        if (va_ != vb_) {                                                                     \
            fprintf(stderr, "%s:%d: %s = %" PRId64 ", expected %s = %" PRId64 "\n", __FILE__, \
                    __LINE__, #a, va_, #b, vb_);                                              \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

#define GR_CHECK_NEAR(a, b, tol)                                                            \
    do {                                                                                    \
        double va_ = (double)(a), vb_ = (double)(b), vt_ = (double)(tol);                   \
        if (!(fabs(va_ - vb_) <= vt_)) {                                                    \
            fprintf(stderr, "%s:%d: %s = %.17g, expected %s = %.17g within %g\n", __FILE__, \
                    __LINE__, #a, va_, #b, vb_, vt_);                                       \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)

#define GR_CHECK_OK(call)                                                     \
    do {                                                                      \
        gr_status check_st_ = (call);                                         \
        if (check_st_ != GR_OK) {                                             \
            fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call, \
                    gr_status_text(check_st_), gr_error_message());           \
            exit(1);                                                          \
        }                                                                     \
    } while (0)

/* The call must fail with `want`, and its message must contain `part`. */
#define GR_CHECK_FAILS(call, want, part)                                                    \
    do {                                                                                    \
        gr_status check_st_ = (call);                                                       \
        if (check_st_ != (want) || !strstr(gr_error_message(), (part))) {                   \
            fprintf(stderr, "%s:%d: %s: got '%s: %s', expected '%s' with '%s'\n", __FILE__, \
                    __LINE__, #call, gr_status_text(check_st_), gr_error_message(),         \
                    gr_status_text(want), (part));                                          \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)

#define GR_CHECK_STR(a, b)                                                                   \
    do {                                                                                     \
        const char *va_ = (a), *vb_ = (b);                                                   \
        if (!va_ || !vb_ || strcmp(va_, vb_) != 0) {                                         \
            fprintf(stderr, "%s:%d: %s = \"%s\", expected \"%s\"\n", __FILE__, __LINE__, #a, \
                    va_ ? va_ : "(null)", vb_ ? vb_ : "(null)");                             \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)

#endif
