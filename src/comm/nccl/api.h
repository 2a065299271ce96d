/*
 * The NCCL library, loaded when the first group is made, so that the module also works
 * where there is none. One table per group; the system's loader keeps one library.
 */
#ifndef GR_COMM_NCCL_API_H
#define GR_COMM_NCCL_API_H

#include "base/status.h"

#include <nccl.h>

#define NCCL_API_MAP(X)     \
    X(GetVersion)           \
    X(GetUniqueId)          \
    X(GetErrorString)       \
    X(GetLastError)         \
    X(CommInitRankConfig)   \
    X(CommGetAsyncError)    \
    X(CommFinalize)         \
    X(CommDestroy)          \
    X(CommAbort)            \
    X(MemAlloc)             \
    X(MemFree)              \
    X(RedOpCreatePreMulSum) \
    X(AllReduce)

typedef struct nccl_api {
    void *lib;
#define X(name) __typeof__(&nccl##name) name;
    NCCL_API_MAP(X)
#undef X
} nccl_api;

/* GR_ERR_DEVICE says where the library was looked for, or which function it lacks. */
gr_status nccl_api_load(nccl_api *a) GR_MUST_CHECK;
void nccl_api_unload(nccl_api *a);

#endif
