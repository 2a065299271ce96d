/* The group of one rank: nothing to exchange, on any device. */
#ifndef GR_COMM_SOLO_H
#define GR_COMM_SOLO_H

#include "comm/pg.h"

gr_status gr_solo_create(gr_pg **out, const gr_pg_config *config) GR_MUST_CHECK;
/* For who is about to do without a group. GR_ERR_ARG: a launcher has started this process as one
 * of several, or has half said so. */
gr_status gr_solo_check(void) GR_MUST_CHECK;

#endif
