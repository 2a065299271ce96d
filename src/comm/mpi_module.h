/*
 * The MPI module, libgradus-mpi: a wire over the MPI that is installed, for clusters where
 * that knows the network best. It is a module of its own so that programs do not need MPI to
 * start. It moves messages only: sums stay ours, in rank order.
 */
#ifndef GR_COMM_MPI_MODULE_H
#define GR_COMM_MPI_MODULE_H

#include "comm/wired.h"

#define GR_MPI_ABI 5

typedef struct gr_mpi_module {
    int abi;
    /* Starts MPI if nobody has; this process's place in MPI_COMM_WORLD. Collective over it. */
    gr_status (*world)(int *rank, int *size, int *local_rank, gr_deadline d);
    gr_wire_factory *make_wire;   /* a meet without gather() is MPI_COMM_WORLD */
    const char *(*version)(void); /* of the MPI library; static text */
} gr_mpi_module;

typedef const gr_mpi_module *gr_mpi_module_get_fn(void);

/* GR_ERR_ARG when there is no such module, or it does not load: the message says where it
 * was looked for. */
gr_status gr_mpi_load(const gr_mpi_module **out) GR_MUST_CHECK;

/* The group of MPI_COMM_WORLD. */
gr_status gr_mpi_create(gr_pg **out, const gr_pg_config *config) GR_MUST_CHECK;

#endif
