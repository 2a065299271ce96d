/*
 * A limit for the calls of MPI that have none: MPI_Init and MPI_Finalize wait for all ranks, and
 * nothing can be asked meanwhile. A thread beside them says after a few seconds what is waited
 * for. At the deadline it ends the process, since a call of MPI cannot be left: the one place of
 * the library that does, and the alternative is a job that hangs for ever.
 *
 * Threads: one call is watched at a time, by the thread that makes it.
 */
#ifndef GR_COMM_MPI_WATCH_H
#define GR_COMM_MPI_WATCH_H

#include "base/clock.h"

typedef struct mpi_watch mpi_watch;

/* `what` is a call and what it waits for, "MPI_Init, which waits until ..."; borrowed. NULL when no
 * thread could be made: then nobody looks. */
mpi_watch *mpi_watch_begin(const char *what, gr_deadline d);
void mpi_watch_end(mpi_watch *w);

#endif
