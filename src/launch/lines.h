/* Texts around lines of output: prefixes and filters. */
#ifndef GR_LAUNCH_LINES_H
#define GR_LAUNCH_LINES_H

#include "launch/worker.h"

/* What stands before each line: the template with ${rank}, ${local_rank}, ${role_name} and
 * ${hostname} replaced. */
void gr_prefix_expand(gr_text *out, const char *format, const gr_launch_config *c, const worker *w);

/* Whether the line has one of the texts of "a,b,,c": separated by commas, two of them are one. */
bool gr_filter_matches(const char *filters, const char *line, size_t len);

#endif
