/* The version of MPI. */
#include "comm/libraries.h"

#include "comm/mpi_module.h"

const char *gr_mpi_version(void)
{
    const gr_mpi_module *module;

    return gr_mpi_load(&module) == GR_OK ? module->version() : NULL;
}
