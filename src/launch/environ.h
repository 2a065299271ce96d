/* The environment of ranks: ours, and torchrun's variables. */
#ifndef GR_LAUNCH_ENVIRON_H
#define GR_LAUNCH_ENVIRON_H

#include "launch/config.h"
#include "launch/place.h"

/* A list of "NAME=value" that owns its words. */
typedef struct gr_environ {
    char **words; /* ended by NULL */
    int n, cap;
} gr_environ;

/* What all ranks of this host have in common, beginning with our own environment. */
gr_status gr_environ_init(gr_environ *e, const gr_launch_config *c,
                          const gr_place *p) GR_MUST_CHECK;
/* Changes it for one rank after the other. error_file may be "". */
gr_status gr_environ_rank(gr_environ *e, const gr_launch_config *c, const gr_place *p,
                          int local_rank, const char *error_file) GR_MUST_CHECK;
void gr_environ_fini(gr_environ *e);

#endif
