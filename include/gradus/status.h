/*
 * Statuses and messages: how every function of gradus reports failure.
 *
 * A function that can fail returns gr_status and leaves one line of text for the
 * calling thread, read with gr_error_message(). The text is valid until the next
 * failure on that thread, and can be shown as it is: what files and other ranks have put into
 * it cannot steer a terminal (control characters are written as \x1b). NULL where something is
 * needed is GR_ERR_ARG.
 *
 * Nothing in the library prints or exits, with one exception: what no input can cause but
 * only a wrong line of a program (a setting's key that is in no table, an index beyond a
 * count), where its function says so or has no way to fail, ends the program with a line
 * that names the place.
 */
#ifndef GRADUS_STATUS_H
#define GRADUS_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#define GR_API               __attribute__((visibility("default")))
#define GR_MUST_CHECK        __attribute__((warn_unused_result))
#define GR_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* id, exit-independent text. One list makes the enum and gr_status_text(). */
#define GR_STATUS_MAP(X)                       \
    X(OK, "ok")                                \
    X(ERR_ARG, "invalid argument")             \
    X(ERR_NOMEM, "out of memory")              \
    X(ERR_IO, "input or output failed")        \
    X(ERR_FORMAT, "malformed file or message") \
    X(ERR_TIMEOUT, "timed out")                \
    X(ERR_PEER, "another rank failed")         \
    X(ERR_DEVICE, "device failure")            \
    X(ERR_STOPPED, "stopped on request")

typedef enum gr_status {
#define X(id, text) GR_##id,
    GR_STATUS_MAP(X)
#undef X
        GR_STATUS_COUNT
} gr_status;

/* The fixed text of a status. Any thread. Never NULL. */
GR_API const char *gr_status_text(gr_status st);

/* The message of this thread's last failure, "" before any. Borrowed from the
 * thread; valid until its next failure. */
GR_API const char *gr_error_message(void);

/* Sets this thread's message and returns `st`: `return gr_fail(GR_ERR_ARG, ...)`.
 * Lower case, no full stop, names in single quotes, numbers included. */
GR_API gr_status gr_fail(gr_status st, const char *fmt, ...) GR_PRINTF(2, 3);

/* Puts context before the message: "shard 'x': " + what was there. Returns `st`. */
GR_API gr_status gr_wrap(gr_status st, const char *fmt, ...) GR_PRINTF(2, 3);

/* What main() returns: 0, 2 for wrong arguments, 4 when another rank failed, so that launchers look
 * elsewhere for the cause (docs/errors.md), and 1 for everything else. Any thread. */
GR_API int gr_exit_code(gr_status st);

/* Propagation: return, or jump to the function's only cleanup label. */
#define GR_TRY(call)                \
    do {                            \
        gr_status try_st_ = (call); \
        if (try_st_ != GR_OK)       \
            return try_st_;         \
    } while (0)

#define GR_TRY_GOTO(st, call, label) \
    do {                             \
        (st) = (call);               \
        if ((st) != GR_OK)           \
            goto label;              \
    } while (0)

#ifdef __cplusplus
}
#endif

#endif
