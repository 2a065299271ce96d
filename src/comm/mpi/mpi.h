/*
 * The MPI module from the inside: MPI as a whole (world.c), and wires over it (wire.c).
 *
 * (1) Nothing here waits in MPI without end: what is collective is begun, and looked at until a
 *     deadline. MPI_Init and MPI_Finalize cannot be begun only; a thread watches them (watch.h).
 * (2) All groups share one communicator; each has two tags of its own, one for heads and one for
 *     bytes. No group so needs a collective call of MPI to be made.
 * (3) After a failure MPI_Finalize is not called: it would wait for a rank that is dead or stopped.
 *     mpirun then ends what is left of the job.
 *
 * Threads: one; MPI is started with MPI_THREAD_FUNNELED. The one that watches calls nothing of MPI.
 */
#ifndef GR_COMM_MPI_MPI_H
#define GR_COMM_MPI_MPI_H

#include "comm/mpi_module.h"

#include <mpi.h>

#define MPI_NAP_NS 20000

/* What each process tells all others, in bytes as it lies here. */
typedef struct mpi_card {
    char host_id[160];
    char host[64]; /* its name, for messages */
    int32_t pid;
    int32_t next_group; /* the first number of a group that it has not used */
} mpi_card;

typedef struct mpi_world {
    MPI_Comm comm;
    int rank, size;
    mpi_card *cards; /* one per process; lives as long as this one does */
    int n_groups;    /* the next number of a group that this process may be in */
    int group;       /* of the group of all that was agreed on last */
    int timeout_ms;  /* of the first group; MPI_Finalize gets as much */
    bool is_broken;  /* rule (3) */
} mpi_world;

/* The one of this process; zeros before it has started. */
mpi_world *mpi_world_get(void);

/* GR_ERR_PEER with MPI's own words. */
gr_status mpi_check(int rc, const char *what) GR_MUST_CHECK;

gr_status mpi_world_join(int *rank, int *size, int *local_rank, gr_deadline d) GR_MUST_CHECK;

/* Rule (2): the number of a group of some, which its ranks agree on when they meet. `ranks` gets
 * their numbers in the world, unless it is NULL. */
gr_status mpi_group_meet(gr_meet *m, int *ranks, int *group) GR_MUST_CHECK;

gr_status mpi_make_wire(gr_wire **out, gr_meet *m, const gr_pg_config *config) GR_MUST_CHECK;

#endif
