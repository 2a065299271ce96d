/*
 * What stays of the records that an earlier start of a run has left. A checkpoint is renamed into
 * place after the records of its steps are on the disk (gr_track_sync()), so what is kept here has
 * no holes; what is dropped comes again, so nothing is there twice.
 */
#ifndef GR_TRACK_KEEP_H
#define GR_TRACK_KEEP_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_keep {
    int64_t last_step;        /* records of later steps go: those steps are run again */
    const char *const *again; /* names: their values of last_step itself come again, and go */
    int n_again;
} gr_keep;

#ifdef __cplusplus
}
#endif

#endif
