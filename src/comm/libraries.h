/* Versions of the libraries that this room uses, as they are at run time. Static text. */
#ifndef GR_COMM_LIBRARIES_H
#define GR_COMM_LIBRARIES_H

#ifdef __cplusplus
extern "C" {
#endif

const char *gr_mpi_version(void); /* loads the MPI module; NULL: it is not there */

#ifdef __cplusplus
}
#endif

#endif
