/*
 * Text that others have written (names of files, tensors and classes, settings of a checkpoint,
 * words of another rank) on its way to people: what could steer a terminal or forge a line comes
 * out as \x1b, the byte in hex. That is every control character, those of Unicode (U+0080 to
 * U+009F) and its line ends and marks of direction among them, and bytes that are no UTF-8. All
 * else stays, backslashes too: text that went through here may do so again.
 */
#ifndef GR_BASE_SHOWN_H
#define GR_BASE_SHOWN_H

#include <stdio.h>

#include "base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gr_shown_form {
    GR_SHOWN_LINE, /* no line ends and tabs either: one line, whatever is in it */
    GR_SHOWN_LINES /* '\n' and '\t' are ours and stay */
} gr_shown_form;

/*
 * n bytes of s into out[n_out], with a NUL. Returns the length, as snprintf() does that of the
 * whole; what does not fit is left out, but never a part of a character or of a \x1b. No memory is
 * needed; any thread.
 */
GR_API size_t gr_shown(char *out, size_t n_out, const char *s, size_t n, gr_shown_form form);
/* The last characters of a cut text make way for "...". len is what stands in out[n_out]. */
GR_API void gr_shown_cut(char *out, size_t n_out, size_t len);

/* Appends it. */
GR_API void gr_text_add_shown(gr_text *t, const char *s, size_t n, gr_shown_form form);
/* Puts all that `from` and later hold of the text into that form. */
GR_API void gr_text_make_shown(gr_text *t, size_t from, gr_shown_form form);
/* printf for people. What is lost is for gr_stream_flush() to find. */
GR_API void gr_shown_printf(FILE *out, gr_shown_form form, const char *fmt, ...) GR_PRINTF(3, 4);

#ifdef __cplusplus
}
#endif

#endif
