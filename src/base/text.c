/*
 * A growing string.
 *
 * After a failed append nothing is added any more, so the text is never one with a
 * hole in it. Not thread-safe.
 */
#include "base/text.h"

#include "base/alloc.h"
#include "base/size.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Room for n more characters and the NUL; false when the text has failed. */
static bool reserve(gr_text *t, size_t n)
{
    size_t need;
    size_t cap = t->cap ? t->cap : 64;
    char *grown;

    if (t->status != GR_OK)
        return false;
    t->status = gr_size_add(&need, t->len + 1, n);
    if (t->status != GR_OK)
        return false;
    if (need <= t->cap)
        return true;
    while (cap < need)
        cap = cap > SIZE_MAX / 2 ? need : 2 * cap;
    grown = gr_realloc(t->str, cap);
    if (!grown) {
        t->status = GR_ERR_NOMEM;
        return false;
    }
    t->str = grown;
    t->cap = cap;
    return true;
}

void gr_text_addn(gr_text *t, const char *s, size_t n)
{
    if (!reserve(t, n))
        return;
    if (n > 0)
        memcpy(t->str + t->len, s, n);
    t->len += n;
    t->str[t->len] = '\0';
}

void gr_text_add(gr_text *t, const char *s)
{
    gr_text_addn(t, s, strlen(s));
}

void gr_text_addv(gr_text *t, const char *fmt, va_list args)
{
    va_list again;
    int n;

    va_copy(again, args);
    n = vsnprintf(NULL, 0, fmt, args);
    if (n < 0) {
        t->status = t->status == GR_OK ? GR_ERR_ARG : t->status;
    } else if (reserve(t, (size_t)n)) {
        vsnprintf(t->str + t->len, (size_t)n + 1, fmt, again);
        t->len += (size_t)n;
    }
    va_end(again);
}

void gr_text_addf(gr_text *t, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    gr_text_addv(t, fmt, args);
    va_end(args);
}

const char *gr_text_str(const gr_text *t)
{
    return t->str ? t->str : "";
}

gr_status gr_text_status(const gr_text *t)
{
    if (t->status == GR_OK)
        return GR_OK;
    /* Said again: other failures may have replaced the message since the append. */
    return gr_fail(t->status, "text could not grow beyond %zu bytes", t->len);
}

void gr_text_fini(gr_text *t)
{
    gr_free(t->str);
    *t = (gr_text)GR_TEXT_INIT;
}
