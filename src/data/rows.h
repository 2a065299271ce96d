/* List files and tables: text to rows of an image and what belongs to it. */
#ifndef GR_DATA_ROWS_H
#define GR_DATA_ROWS_H

#include <stdbool.h>

#include "base/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_row {
    const char *image;
    const char *second; /* label or mask; NULL: none in all rows */
    int line;           /* counted from 1 */
} gr_row;

typedef struct gr_rows {
    gr_row *at; /* owned; strings in the arena */
    int n, cap;
} gr_rows;

/* A list: one or two words a line, separated by blanks or, if there is a tab, by it; empty lines
 * and lines that begin with '#' do not count. GR_ERR_FORMAT with the line's number. */
gr_status gr_rows_parse_list(gr_rows *out, gr_arena *a, const char *text,
                             size_t n_bytes) GR_MUST_CHECK;
/* A table with commas and quotes (RFC 4180). With a head line (its first name is path, image,
 * file ...) the columns go by name, otherwise the first is the image, the second the label. */
gr_status gr_rows_parse_csv(gr_rows *out, gr_arena *a, const char *text,
                            size_t n_bytes) GR_MUST_CHECK;
void gr_rows_fini(gr_rows *r);

#ifdef __cplusplus
}
#endif

#endif
