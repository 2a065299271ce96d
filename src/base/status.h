/* What only our own sources need of the error rules; the rest is in gradus/status.h. */
#ifndef GR_BASE_STATUS_H
#define GR_BASE_STATUS_H

#include "gradus/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For what only wrong gradus code can cause: prints file, line, condition; aborts.
 * Stays in release builds. Never on user data, files or messages from peers. */
#define GR_BUG_IF(cond)                        \
    do {                                       \
        if (__builtin_expect(!!(cond), 0))     \
            gr_bug(__FILE__, __LINE__, #cond); \
    } while (0)
GR_API __attribute__((noreturn)) void gr_bug(const char *file, int line, const char *cond);

/* What gr_exit_code() says of GR_ERR_PEER: a program suffered from another rank, and a launcher
 * looks for the cause elsewhere. */
#define GR_EXIT_PEER 4

/* A failure ignored on purpose; the reason stands beside the call. */
#define GR_IGNORE(call)                 \
    do {                                \
        gr_status ignored_st_ = (call); \
        (void)ignored_st_;              \
    } while (0)

/* A status and its message, to carry from a worker thread to the one that waits. */
#define GR_ERROR_TEXT 512
typedef struct gr_error {
    gr_status status;
    char text[GR_ERROR_TEXT];
} gr_error;

/* Takes this thread's message along with `st`; puts both back on another thread. */
GR_API void gr_error_take(gr_error *e, gr_status st);
GR_API gr_status gr_error_raise(const gr_error *e) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
