/*
 * Statuses and messages.
 *
 * (1) Each thread has one message in a fixed buffer, so failing never allocates and
 *     never waits: a failure that reports "out of memory" must not need memory.
 * (2) New text is formatted aside first: the arguments may point into the old message.
 * (3) A text that does not fit ends in "...", so that nobody takes it for whole.
 * (4) A message is one line that can be shown to people, whatever files and peers have put
 *     into it: see shown.h.
 *
 * Any thread; threads never see each other's message.
 */
#include "base/status.h"

#include "base/shown.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXIT_USAGE 2

/* Aligned as the section that follows thread-local ones: lld 14 protects relocated pages from the
 * first of these on, and where they end just before a page border, that page is not mapped and the
 * program does not load ("cannot apply additional memory protection after relocation"). */
static _Alignas(16) _Thread_local char message[GR_ERROR_TEXT];

static const char *const status_text[GR_STATUS_COUNT] = {
#define X(id, text) text,
    GR_STATUS_MAP(X)
#undef X
};

const char *gr_status_text(gr_status st)
{
    /* A status may arrive from another process as a number, so it is not trusted. */
    return (unsigned)st < GR_STATUS_COUNT ? status_text[st] : "unknown status";
}

int gr_exit_code(gr_status st)
{
    if (st == GR_OK)
        return EXIT_SUCCESS;
    return st == GR_ERR_PEER ? GR_EXIT_PEER : st == GR_ERR_ARG ? EXIT_USAGE : EXIT_FAILURE;
}

const char *gr_error_message(void)
{
    return message;
}

/* `would` is what snprintf() says it would have written into text[GR_ERROR_TEXT]. */
static void set_message(const char *text, int would)
{
    size_t n = would < GR_ERROR_TEXT ? (size_t)would : GR_ERROR_TEXT - 1, len;

    if (would < 0) {
        memcpy(message, "(message lost)", sizeof("(message lost)"));
        return;
    }
    len = gr_shown(message, sizeof(message), text, n, GR_SHOWN_LINE);
    if (would >= GR_ERROR_TEXT || len >= sizeof(message))
        gr_shown_cut(message, sizeof(message), strlen(message));
}

gr_status gr_fail(gr_status st, const char *fmt, ...)
{
    char text[GR_ERROR_TEXT];
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    set_message(text, n);
    return st;
}

gr_status gr_wrap(gr_status st, const char *fmt, ...)
{
    char text[GR_ERROR_TEXT];
    va_list args;
    int n;

    if (st == GR_OK) /* nothing failed: there is nothing to put context before */
        return st;
    va_start(args, fmt);
    n = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (n >= 0 && n < GR_ERROR_TEXT && message[0])
        n += snprintf(text + n, sizeof(text) - (size_t)n, ": %s", message);
    set_message(text, n);
    return st;
}

void gr_bug(const char *file, int line, const char *cond)
{
    char text[GR_ERROR_TEXT];

    snprintf(text, sizeof(text), "%s:%d: bug in gradus: %s\n", file, line, cond);
    /* The process ends in the next line: nobody could act on a failed write. */
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        abort();
    abort();
}

void gr_error_take(gr_error *e, gr_status st)
{
    e->status = st;
    memcpy(e->text, message, sizeof(e->text));
}

gr_status gr_error_raise(const gr_error *e)
{
    if (e->status != GR_OK)
        memcpy(message, e->text, sizeof(message));
    return e->status;
}
