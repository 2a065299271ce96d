/* A growing string. A failed append sticks; gr_text_status() reports it at the end. */
#ifndef GR_BASE_TEXT_H
#define GR_BASE_TEXT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_text {
    char *str; /* never NULL after the first append that worked; NUL-terminated */
    size_t len, cap;
    gr_status status;
} gr_text;

#define GR_TEXT_INIT      \
    {                     \
        NULL, 0, 0, GR_OK \
    }

/* What a regular noun ends in behind the number n: "%d rank%s", n, gr_plural(n). */
static inline const char *gr_plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

GR_API void gr_text_add(gr_text *t, const char *s);
GR_API void gr_text_addn(gr_text *t, const char *s, size_t n);
GR_API void gr_text_addf(gr_text *t, const char *fmt, ...) GR_PRINTF(2, 3);
GR_API void gr_text_addv(gr_text *t, const char *fmt, va_list args) GR_PRINTF(2, 0);
GR_API const char *gr_text_str(const gr_text *t); /* "" when empty; borrowed */
GR_API gr_status gr_text_status(const gr_text *t) GR_MUST_CHECK;
GR_API void gr_text_fini(gr_text *t);

#ifdef __cplusplus
}
#endif

#endif
