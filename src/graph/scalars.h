/*
 * Step scalars: what changes from step to step without changing the graph. One block
 * in device memory, uploaded before each run; kernels read it there. What the step
 * itself computes (loss scale, clip factor, skip flag) is graph values instead.
 */
#ifndef GR_GRAPH_SCALARS_H
#define GR_GRAPH_SCALARS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_scalars {
    float lr;
    uint32_t micro; /* micro-step within the accumulation, from 0 */
    uint64_t step;  /* updates started before this one */
    uint64_t seed;
    uint64_t sample; /* place of this rank's first sample in the global batch */
    int32_t stop;    /* what this rank asks the others for (op/vote); 0: nothing */
} gr_scalars;

/* Where a kernel that cannot return says that data was bad: an index out of range. The
 * first writer wins. Host-visible memory, looked at when the host waits anyway. */
typedef struct gr_fault {
    uint32_t is_set; /* 0 or 1, set last */
    uint32_t node_id;
    int64_t value; /* the offending index */
    int64_t limit; /* it had to be in [0, limit) */
    int64_t row;   /* which element held it */
} gr_fault;

#ifdef __cplusplus
}
#endif

#endif
