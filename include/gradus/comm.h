/*
 * Process groups: the ranks of a job and what they do together.
 *
 * Functions marked collective are called by every rank of the group, in the same order
 * with equal counts and types. A group belongs to one thread of each rank. After one
 * failure it refuses all further work with GR_ERR_PEER, and no rank waits for ever:
 * each wait ends at the group's timeout with the name of what was missing.
 */
#ifndef GRADUS_COMM_H
#define GRADUS_COMM_H

#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_pg gr_pg;

typedef enum gr_reduce {
    GR_REDUCE_SUM,
    GR_REDUCE_AVG, /* each rank's element times 1/size, rounded, then summed */
    GR_REDUCE_MAX,
    GR_REDUCE_MIN
} gr_reduce;

typedef struct gr_pg_config {
    int timeout_ms;        /* of every wait; default 300000 */
    const char *transport; /* NULL: chosen; "shm" */
} gr_pg_config;
#define GR_PG_CONFIG_INIT \
    {                     \
        300000, NULL      \
    }

/* The group that the environment describes: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
 * as gradrun and torchrun set them; without them a group of one. Half-set environments
 * are GR_ERR_ARG and name the missing variable. Collective over the job. */
GR_API gr_status gr_pg_create(gr_pg **out, const gr_pg_config *config) GR_MUST_CHECK;

/* n ranks inside one process, for tests and examples: out[r] is for rank r's thread. */
GR_API gr_status gr_pg_create_threads(gr_pg **out, int n, const gr_pg_config *config) GR_MUST_CHECK;

/* Accepts NULL. Tells peers that this rank is gone. */
GR_API void gr_pg_destroy(gr_pg *pg);

GR_API int gr_pg_rank(const gr_pg *pg); /* 0 for NULL */
GR_API int gr_pg_size(const gr_pg *pg); /* 1 for NULL */
GR_API int gr_pg_local_rank(const gr_pg *pg);

/* Collective, host memory. Each element is combined in rank order: equal bits on every
 * rank and in every run. f32, f64, bf16, f16 (in f32), i32, i64, u8. */
GR_API gr_status gr_pg_allreduce(gr_pg *pg, gr_vec v, gr_reduce op) GR_MUST_CHECK;
/* Collective: rank `root`'s elements reach every rank. */
GR_API gr_status gr_pg_broadcast(gr_pg *pg, gr_vec v, int root) GR_MUST_CHECK;
GR_API gr_status gr_pg_barrier(gr_pg *pg) GR_MUST_CHECK;

/* Collective: n_bytes (any number per rank, 0 too) from each rank to each. (*out)[r] is
 * rank r's copy, NUL-terminated, sizes[r] its length if sizes is given. One free() of
 * *out frees all. */
GR_API gr_status gr_pg_gather_bytes(gr_pg *pg, const void *src, size_t n_bytes, char ***out,
                                    size_t *sizes) GR_MUST_CHECK;

/* Breaks the group on purpose: every waiting rank returns GR_ERR_PEER with `why`. */
GR_API void gr_pg_abort(gr_pg *pg, const char *why);

#ifdef __cplusplus
}
#endif

#endif
