/*
 * A stretch of shared memory: an anonymous mapping for threads of one process, or a memfd
 * that other processes of the host open through /proc/<pid>/fd/<n>. Memory of a memfd is
 * not limited by the size of /dev/shm, and nothing is left behind when processes die.
 */
#ifndef GR_COMM_SHM_SEGMENT_H
#define GR_COMM_SHM_SEGMENT_H

#include "base/status.h"

#include <stddef.h>

/* Large pages for what is used whole, small ones for what is sparse. */
typedef enum shm_pages { SHM_LARGE_PAGES, SHM_SMALL_PAGES } shm_pages;

typedef struct shm_segment {
    void *mem; /* NULL: none */
    size_t n_bytes;
    int fd; /* -1: none */
    shm_pages pages;
} shm_segment;

#define SHM_SEGMENT_NONE             \
    {                                \
        NULL, 0, -1, SHM_SMALL_PAGES \
    }

gr_status shm_segment_anonymous(shm_segment *s, size_t n_bytes) GR_MUST_CHECK;
gr_status shm_segment_create(shm_segment *s, size_t n_bytes, shm_pages pages) GR_MUST_CHECK;
/* Maps s->fd once more, at `at`, over what is mapped there, for good: closing does not undo it. */
gr_status shm_segment_map_over(const shm_segment *s, void *at) GR_MUST_CHECK;
/* Maps descriptor `fd` of process `pid`; it must hold at least n_bytes. */
gr_status shm_segment_open(shm_segment *s, int pid, int fd, size_t n_bytes,
                           shm_pages pages) GR_MUST_CHECK;
void shm_segment_close(shm_segment *s);
/* Keeps the mapping and closes the descriptor: when nobody will open it any more. */
void shm_segment_hide(shm_segment *s);

/* Gives the stretch its pages now, large ones if possible, so that no step pays for the
 * first touch and missing memory is an error instead of a signal. GR_ERR_NOMEM. */
gr_status shm_segment_populate(const shm_segment *s, size_t first, size_t n_bytes) GR_MUST_CHECK;

#endif
