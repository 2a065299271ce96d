/* The JSON that a rank may leave about its failure (TORCHELASTIC_ERROR_FILE). */
#ifndef GR_LAUNCH_ERROR_FILE_H
#define GR_LAUNCH_ERROR_FILE_H

#include "base/text.h"

#include <stdbool.h>

/* Adds its message to `out`, and its call stack if it has one. False when there is no such
 * file, or none that can be read: it may be half written. */
bool gr_error_file_read(const char *path, gr_text *out);
/* The same for its text. */
bool gr_error_file_parse(const char *json, size_t n_bytes, gr_text *out);
/* Leaves one as a rank, for whoever started us: where TORCHELASTIC_ERROR_FILE says, or nowhere.
 * What cannot be written is not: the same text is on stderr. */
void gr_error_file_leave(const char *text);

#endif
