/* What the files that make a configuration share. */
#ifndef GR_LAUNCH_CONFIG_PARTS_H
#define GR_LAUNCH_CONFIG_PARTS_H

#include "launch/config.h"

/* A whole number of at least `min` at the front of *at, which moves behind it. */
bool gr_config_take(const char **at, int min, int *out);
/* A variable of the environment; an empty one counts as unset. */
const char *gr_config_variable(const char *name);

/* Hosts are counted already. */
gr_status gr_config_read_meeting(gr_launch_config *c, const gr_run_options *o) GR_MUST_CHECK;

#endif
