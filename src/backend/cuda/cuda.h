/*
 * The CUDA device from the inside: what kernels and GPU process groups of the module
 * need beyond the backend table.
 *
 * Threads: the one that opened the device. open() makes it that thread's current CUDA
 * device; several threads may each open the same GPU and get a stream of their own.
 */
#ifndef GR_BACKEND_CUDA_CUDA_H
#define GR_BACKEND_CUDA_CUDA_H

#include <cuda_runtime_api.h>

#include "backend/backend.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_cuda_jit gr_cuda_jit;
struct cublasLtContext;
struct cudnnContext;

/*
 * Called every few milliseconds while the host waits for the stream, so that a group
 * whose peer died can end the wait: a collective without a partner never ends by itself.
 * A status other than GR_OK ends the wait; the device then counts as lost.
 */
typedef struct gr_cuda_watch {
    gr_status (*check)(void *arg, int64_t waited_ns);
    void *arg;
} gr_cuda_watch;

/* A library whose handles kernels ask for: each stream has one of its own, so that work on two
 * streams shares no workspace. */
typedef struct gr_cuda_library {
    const char *name; /* "cublasLt" */
    gr_status (*create)(void *stream, void **out);
    void (*destroy)(void *handle);
} gr_cuda_library;

typedef struct gr_cuda_handle {
    const gr_cuda_library *library;
    void *stream, *handle;
} gr_cuda_handle;

#define GR_CUDA_HANDLES 16

typedef struct gr_cuda_device {
    gr_device base;
    cudaStream_t stream[GR_N_STREAMS];
    int arch; /* what kernels may use; 90: compute capability 9.0. May be less than the GPU's */
    int n_sm;
    cudaEvent_t slot[GR_N_SLOTS];
    bool slot_used[GR_N_SLOTS];
    gr_cuda_handle handles[GR_CUDA_HANDLES]; /* of libraries, made when they are asked for */
    int n_handles;
    cudaEvent_t timer[2]; /* begin and end; made at first use */
    gr_cuda_jit *jit;
    gr_cuda_watch watch; /* check is NULL: nobody watches */
    bool is_lost;        /* a watch gave up: work is stuck on the stream, nobody waits for it */
} gr_cuda_device;

/* GR_OK, or a failure "<what>: <the vendor's text>"; memory failures are GR_ERR_NOMEM. */
gr_status gr_cuda_check(cudaError_t e, const char *what) GR_MUST_CHECK;

/* gr_launch.stream as what it is. */
static inline cudaStream_t gr_cuda_stream(void *stream)
{
    return (cudaStream_t)stream;
}

/* The library's handle for work on `stream` (gr_launch.stream), made at the first call. Owned by
 * the device, which ends it when it is closed. Not for runs: they allocate nothing. */
gr_status gr_cuda_library_handle(gr_cuda_device *d, const gr_cuda_library *library, void *stream,
                                 void **out) GR_MUST_CHECK;
/* That of cuBLASLt. */
gr_status gr_cuda_blas(gr_cuda_device *d, void *stream, struct cublasLtContext **out) GR_MUST_CHECK;

#if GR_HAVE_CUDNN
/* That of cuDNN, which works on `stream`. */
gr_status gr_cuda_dnn(gr_cuda_device *d, void *stream, struct cudnnContext **out) GR_MUST_CHECK;
#endif

/* For the driver: ends all handles. */
void gr_cuda_end_handles(gr_cuda_device *d);

/* Waits until `e` has happened, under the device's watch. */
gr_status gr_cuda_wait(gr_cuda_device *d, cudaEvent_t e, const char *what) GR_MUST_CHECK;

extern const gr_backend_ops gr_backend_cuda;

#ifdef __cplusplus
}
#endif

#endif
