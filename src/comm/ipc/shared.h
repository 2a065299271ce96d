/*
 * What the ranks of an ipc group see of each other: one shared mapping with a board per
 * rank. A board is written by its rank alone.
 */
#ifndef GR_COMM_IPC_SHARED_H
#define GR_COMM_IPC_SHARED_H

#include "comm/ipc/over.h"

#ifdef __cplusplus
extern "C" {
#endif

#define IPC_LABEL 64

/* An event that other ranks wait for: by handle, or by pointer within one process. */
typedef struct ipc_event {
    cudaIpcEventHandle_t handle;
    cudaEvent_t local;
} ipc_event;

/* Collective `id` of a rank. Counts are how often the rank has come so far; they are
 * stored last, and all else before. */
typedef struct ipc_card {
    uint64_t n_started __attribute__((aligned(64))); /* atomic */
    uint64_t n_done;                                 /* atomic */
    uint64_t n_elem, offset;
    int32_t dtype, op;
    char label[IPC_LABEL];
    ipc_event start, done; /* written at the first start */
} ipc_card;

typedef struct ipc_board {
    uint32_t has_closed; /* atomic: this rank no longer touches anybody's memory */
    ipc_card card[GR_MAX_COLLS];
} ipc_board;

typedef struct ipc_shared {
    ipc_board *boards; /* by rank */
    size_t n_bytes;
    int fd; /* rank 0 keeps it open until all have mapped it */
} ipc_shared;

/* Collective: maps the boards, zeroed, on every rank. */
gr_status ipc_shared_open(ipc_shared *s, gr_over *o) GR_MUST_CHECK;
void ipc_shared_close(ipc_shared *s);

#ifdef __cplusplus
}
#endif

#endif
