/* Trying to reach other hosts. */
#ifndef GR_LAUNCH_PROBE_H
#define GR_LAUNCH_PROBE_H

#include "base/text.h"

/* Connects to every "address port host" line at once, for at most limit_ms. Adds a line to
 * `trouble` for each that cannot be reached: "host 'b' at 10.0.0.2 port 7000: Connection
 * refused". */
gr_status gr_probe(const char *list, int limit_ms, gr_text *trouble) GR_MUST_CHECK;

#endif
