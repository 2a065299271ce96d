/* Binding ranks to cores or NUMA nodes. hwloc is loaded only when this is asked for. */
#ifndef GR_LAUNCH_BIND_H
#define GR_LAUNCH_BIND_H

#include "base/status.h"

typedef struct gr_binding gr_binding;

/* One set of processors per local rank: `cores` shares the cores out evenly, `numa` gives each
 * rank a NUMA node, one after the other. Says on the log who got what. */
gr_status gr_binding_create(gr_binding **out, int kind, int n_local) GR_MUST_CHECK;
/* In the child, between fork and exec; NULL does nothing. */
void gr_binding_apply(const gr_binding *b, int local_rank);
void gr_binding_destroy(gr_binding *b);

/* The interface of the library that is installed, "2.9.0"; NULL: there is none, or the program was
 * built without it. Static text; one thread. */
const char *gr_hwloc_version(void);

#endif
