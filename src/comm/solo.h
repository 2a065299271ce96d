/* The group of one rank: nothing to exchange, on any device. */
#ifndef GR_COMM_SOLO_H
#define GR_COMM_SOLO_H

#include "comm/pg.h"

gr_status gr_solo_create(gr_pg **out, const gr_pg_config *config) GR_MUST_CHECK;

#endif
