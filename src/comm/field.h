/* Fields of the lines that ranks leave in the store, parted by '|' or a blank. Anybody may have
 * written them. */
#ifndef GR_COMM_FIELD_H
#define GR_COMM_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The text up to the next separator, or to the end; *at moves behind it. False: it is empty or has
 * no room. */
bool gr_field_text(const char **at, char *field, size_t n_bytes);
/* False: it is no number up to max. */
bool gr_field_number(const char **at, uint64_t max, uint64_t *out);

#endif
