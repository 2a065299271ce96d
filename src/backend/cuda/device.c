/*
 * The CUDA driver: memory, non-blocking streams, slots and forks as events, and the
 * recording of work as CUDA graphs.
 *
 * (1) Everything is queued on the device's own streams; the default stream is not used.
 * (2) Fresh memory is zeroed before alloc() returns, also as seen from other streams.
 * (3) Pinned host memory has one address on both sides (unified addressing).
 * (4) Recording is thread-local: other ranks of the same process go on meanwhile.
 */
#include "backend/cuda/arch.h"
#include "backend/cuda/cuda.h"
#include "backend/cuda/jit.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <sched.h>
#include <time.h>

/* A wait spins this long before it sleeps between looks. */
#define SPIN_NS        200000
#define NAP_NS         50000
#define WATCH_EVERY_NS 5000000

gr_status gr_cuda_check(cudaError_t e, const char *what)
{
    gr_status st = e == cudaErrorMemoryAllocation ? GR_ERR_NOMEM : GR_ERR_DEVICE;

    if (e == cudaSuccess)
        return GR_OK;
    /* Takes a launch failure away, so that it is not reported a second time by a later call. */
    (void)cudaGetLastError();
    return gr_fail(st, "%s: %s (%s)", what, cudaGetErrorString(e), cudaGetErrorName(e));
}

static gr_cuda_device *cuda_of(gr_device *d)
{
    return (gr_cuda_device *)d;
}

/* ---- open and close ---- */

static int cuda_count(void)
{
    int n = 0;

    if (cudaGetDeviceCount(&n) != cudaSuccess) {
        (void)cudaGetLastError();
        return 0;
    }
    return n;
}

static void cuda_close(gr_device *base)
{
    gr_cuda_device *d = cuda_of(base);

    if (!d)
        return;
    if (d->is_lost) {
        /* Everything below would wait for work that never ends; the process's end frees it. */
        gr_free(d);
        return;
    }
    for (int i = 0; i < GR_N_STREAMS; i++)
        if (d->stream[i])
            cudaStreamSynchronize(d->stream[i]);
    gr_cuda_jit_destroy(d->jit);
    gr_cuda_end_handles(d);
    for (int i = 0; i < GR_N_SLOTS; i++)
        if (d->slot[i])
            cudaEventDestroy(d->slot[i]);
    for (int i = 0; i < 2; i++)
        if (d->timer[i])
            cudaEventDestroy(d->timer[i]);
    for (int i = 0; i < GR_N_STREAMS; i++)
        if (d->stream[i])
            cudaStreamDestroy(d->stream[i]);
    gr_free(d);
}

/* Collectives go ahead of the backward pass where both could run. */
static gr_status open_streams(gr_cuda_device *d)
{
    int low = 0, high = 0;

    GR_TRY(gr_cuda_check(cudaDeviceGetStreamPriorityRange(&low, &high), "stream priorities"));
    for (int i = 0; i < GR_N_STREAMS; i++)
        GR_TRY(gr_cuda_check(cudaStreamCreateWithPriority(&d->stream[i], cudaStreamNonBlocking,
                                                          i == GR_STREAM_EXCHANGE ? high : low),
                             "cudaStreamCreate"));
    return GR_OK;
}

static gr_status open_parts(gr_cuda_device *d)
{
    int gpu = 0, cap = 0;

    GR_TRY(gr_cuda_arch_cap(&cap));
    GR_TRY(gr_cuda_gpu_arch(&gpu, d->base.index));
    GR_TRY(gr_cuda_check(cudaSetDevice(d->base.index), "cudaSetDevice"));
    GR_TRY(gr_cuda_check(
        cudaDeviceGetAttribute(&d->n_sm, cudaDevAttrMultiProcessorCount, d->base.index),
        "multiprocessor count"));
    d->arch = cap > 0 && cap < gpu ? cap : gpu;
    GR_TRY(open_streams(d));
    for (int i = 0; i < GR_N_SLOTS; i++)
        GR_TRY(gr_cuda_check(cudaEventCreateWithFlags(&d->slot[i], cudaEventDisableTiming),
                             "cudaEventCreate"));
    return gr_cuda_jit_create(&d->jit, gpu, cap);
}

static gr_status cuda_open(gr_device **out, int index)
{
    gr_cuda_device *d;
    int n = 0;
    gr_status st;

    GR_TRY(gr_cuda_count_gpus(&n));
    if (index < 0 || index >= n)
        return gr_fail(GR_ERR_DEVICE, "there is no GPU %d: this process sees %d", index, n);
    d = gr_calloc(1, sizeof(*d));
    if (!d)
        return GR_ERR_NOMEM;
    d->base = (gr_device){ &gr_backend_cuda, index };
    GR_TRY_GOTO(st, open_parts(d), fail);
    *out = &d->base;
    return GR_OK;

fail:
    cuda_close(&d->base);
    return gr_wrap(st, "GPU %d", index);
}

static void cuda_describe(gr_device *base, gr_text *out)
{
    struct cudaDeviceProp p;

    if (cudaGetDeviceProperties(&p, base->index) != cudaSuccess) {
        (void)cudaGetLastError();
        gr_text_addf(out, "GPU %d", base->index);
        return;
    }
    /* The place on the bus tells equal GPUs of a host apart. */
    gr_text_addf(out, "%s, %zu GiB, PCI %04x:%02x:%02x", p.name, p.totalGlobalMem >> 30,
                 (unsigned)p.pciDomainID, (unsigned)p.pciBusID, (unsigned)p.pciDeviceID);
}

/* ---- memory ---- */

static gr_status cuda_memory(gr_device *base, size_t *n_free, size_t *n_all)
{
    (void)base;
    return gr_cuda_check(cudaMemGetInfo(n_free, n_all), "cudaMemGetInfo");
}

static bool cuda_has_bf16(gr_device *base)
{
    return cuda_of(base)->arch >= 80;
}

static gr_status cuda_alloc(gr_device *base, size_t n_bytes, void **out)
{
    gr_cuda_device *d = cuda_of(base);
    size_t room = n_bytes ? n_bytes : 1;
    void *mem = NULL;
    gr_status st;

    st = gr_cuda_check(cudaMalloc(&mem, room), "cudaMalloc");
    if (st != GR_OK)
        return gr_wrap(st, "%zu bytes on GPU %d", n_bytes, base->index);
    st = gr_cuda_check(cudaMemsetAsync(mem, 0, room, d->stream[GR_STREAM_COMPUTE]), "cudaMemset");
    if (st == GR_OK)
        st = gr_cuda_check(cudaStreamSynchronize(d->stream[GR_STREAM_COMPUTE]), "cudaMemset");
    if (st != GR_OK) {
        cudaFree(mem);
        return st;
    }
    *out = mem;
    return GR_OK;
}

static void cuda_free(gr_device *base, void *mem)
{
    (void)base;
    if (mem)
        cudaFree(mem);
}

static gr_status cuda_host_alloc(gr_device *base, size_t n_bytes, void **out)
{
    size_t room = n_bytes ? n_bytes : 1;

    (void)base;
    GR_TRY(gr_cuda_check(cudaHostAlloc(out, room, cudaHostAllocMapped | cudaHostAllocPortable),
                         "cudaHostAlloc"));
    memset(*out, 0, room);
    return GR_OK;
}

static void cuda_host_free(gr_device *base, void *mem)
{
    (void)base;
    if (mem)
        cudaFreeHost(mem);
}

/* ---- queued work ---- */

static cudaStream_t stream_of(gr_device *base, gr_stream_kind stream)
{
    return cuda_of(base)->stream[stream];
}

static gr_status copy(gr_device *base, gr_stream_kind stream, void *dst, const void *src,
                      size_t n_bytes, enum cudaMemcpyKind kind)
{
    if (n_bytes == 0)
        return GR_OK;
    return gr_cuda_check(cudaMemcpyAsync(dst, src, n_bytes, kind, stream_of(base, stream)),
                         "cudaMemcpy");
}

static gr_status cuda_upload(gr_device *d, void *dst, const void *src, size_t n_bytes)
{
    return copy(d, GR_STREAM_COMPUTE, dst, src, n_bytes, cudaMemcpyHostToDevice);
}

static gr_status cuda_upload_ahead(gr_device *d, void *dst, const void *src, size_t n_bytes)
{
    return copy(d, GR_STREAM_COPY, dst, src, n_bytes, cudaMemcpyHostToDevice);
}

static gr_status cuda_download(gr_device *d, void *dst, const void *src, size_t n_bytes)
{
    return copy(d, GR_STREAM_COMPUTE, dst, src, n_bytes, cudaMemcpyDeviceToHost);
}

static gr_status cuda_copy(gr_device *d, void *dst, const void *src, size_t n_bytes)
{
    return copy(d, GR_STREAM_COMPUTE, dst, src, n_bytes, cudaMemcpyDeviceToDevice);
}

static gr_status cuda_zero(gr_device *base, void *dst, size_t n_bytes)
{
    if (n_bytes == 0)
        return GR_OK;
    return gr_cuda_check(cudaMemsetAsync(dst, 0, n_bytes, stream_of(base, GR_STREAM_COMPUTE)),
                         "cudaMemset");
}

static void *cuda_stream(gr_device *base, gr_stream_kind stream)
{
    return stream_of(base, stream);
}

/* ---- events ---- */

static gr_status cuda_event_create(gr_device *base, void **out)
{
    cudaEvent_t e = NULL;

    (void)base;
    GR_TRY(gr_cuda_check(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "cudaEventCreate"));
    *out = e;
    return GR_OK;
}

static void cuda_event_destroy(gr_device *base, void *event)
{
    if (event && !cuda_of(base)->is_lost)
        cudaEventDestroy((cudaEvent_t)event);
}

static gr_status cuda_event_record(gr_device *base, void *event, gr_stream_kind stream)
{
    return gr_cuda_check(cudaEventRecord((cudaEvent_t)event, stream_of(base, stream)),
                         "cudaEventRecord");
}

static gr_status cuda_event_wait(gr_device *base, void *event, gr_stream_kind stream)
{
    return gr_cuda_check(cudaStreamWaitEvent(stream_of(base, stream), (cudaEvent_t)event, 0),
                         "cudaStreamWaitEvent");
}

/* ---- waiting ---- */

static void nap(int64_t waited_ns)
{
    struct timespec t = { 0, NAP_NS };

    if (waited_ns < SPIN_NS)
        sched_yield();
    else
        nanosleep(&t, NULL);
}

typedef cudaError_t query_fn(void *what);

static cudaError_t query_stream(void *stream)
{
    return cudaStreamQuery((cudaStream_t)stream);
}

static cudaError_t query_event(void *event)
{
    return cudaEventQuery((cudaEvent_t)event);
}

/* Looks, and asks the watch now and then, which also knows the deadline. */
static gr_status wait_watched(gr_cuda_device *d, query_fn *query, void *arg, const char *what)
{
    int64_t start = gr_now_ns(), asked = start;

    for (;;) {
        cudaError_t e = query(arg);
        int64_t now = gr_now_ns();

        if (e != cudaErrorNotReady)
            return gr_cuda_check(e, what);
        /* Not ready is no failure, but it counts as the last error. */
        (void)cudaGetLastError();
        if (now - asked >= WATCH_EVERY_NS) {
            gr_status st = d->watch.check(d->watch.arg, now - start);

            asked = now;
            d->is_lost = d->is_lost || st != GR_OK;
            GR_TRY(st);
        }
        nap(now - start);
    }
}

static gr_status cuda_sync(gr_device *base)
{
    gr_cuda_device *d = cuda_of(base);

    if (d->is_lost)
        return gr_fail(GR_ERR_PEER, "GPU %d is stuck in a collective that failed", base->index);
    for (int i = 0; i < GR_N_STREAMS; i++)
        if (d->watch.check)
            GR_TRY(wait_watched(d, query_stream, d->stream[i], "waiting for the GPU"));
        else
            GR_TRY(gr_cuda_check(cudaStreamSynchronize(d->stream[i]), "waiting for the GPU"));
    return GR_OK;
}

gr_status gr_cuda_wait(gr_cuda_device *d, cudaEvent_t e, const char *what)
{
    if (d->watch.check)
        return wait_watched(d, query_event, e, what);
    return gr_cuda_check(cudaEventSynchronize(e), what);
}

static gr_status cuda_slot_mark(gr_device *base, int slot, gr_stream_kind stream)
{
    gr_cuda_device *d = cuda_of(base);

    GR_BUG_IF(slot < 0 || slot >= GR_N_SLOTS);
    d->slot_used[slot] = true;
    return gr_cuda_check(cudaEventRecord(d->slot[slot], d->stream[stream]), "cudaEventRecord");
}

static gr_status cuda_slot_wait(gr_device *base, int slot)
{
    gr_cuda_device *d = cuda_of(base);

    GR_BUG_IF(slot < 0 || slot >= GR_N_SLOTS);
    if (!d->slot_used[slot])
        return GR_OK;
    return gr_cuda_wait(d, d->slot[slot], "waiting for a place in the stream");
}

/* ---- time ---- */

static gr_status cuda_timer_begin(gr_device *base)
{
    gr_cuda_device *d = cuda_of(base);

    for (int i = 0; i < 2; i++)
        if (!d->timer[i])
            GR_TRY(gr_cuda_check(cudaEventCreate(&d->timer[i]), "cudaEventCreate"));
    return gr_cuda_check(cudaEventRecord(d->timer[0], d->stream[GR_STREAM_COMPUTE]),
                         "cudaEventRecord");
}

static gr_status cuda_timer_end(gr_device *base, double *seconds)
{
    gr_cuda_device *d = cuda_of(base);
    float ms = 0;

    GR_TRY(gr_cuda_check(cudaEventRecord(d->timer[1], d->stream[GR_STREAM_COMPUTE]),
                         "cudaEventRecord"));
    GR_TRY(gr_cuda_wait(d, d->timer[1], "waiting for measured work"));
    GR_TRY(
        gr_cuda_check(cudaEventElapsedTime(&ms, d->timer[0], d->timer[1]), "cudaEventElapsedTime"));
    *seconds = (double)ms * 1e-3;
    return GR_OK;
}

/* ---- recording ---- */

static gr_status cuda_capture_begin(gr_device *base)
{
    return gr_cuda_check(cudaStreamBeginCapture(stream_of(base, GR_STREAM_COMPUTE),
                                                cudaStreamCaptureModeThreadLocal),
                         "start of recording");
}

static gr_status cuda_capture_end(gr_device *base, void **recorded)
{
    gr_cuda_device *d = cuda_of(base);
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    gr_status st;

    GR_TRY(gr_cuda_check(cudaStreamEndCapture(d->stream[GR_STREAM_COMPUTE], &graph),
                         "end of recording"));
    st = gr_cuda_check(cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
    cudaGraphDestroy(graph);
    if (st != GR_OK)
        return st;
    *recorded = exec;
    return GR_OK;
}

static gr_status cuda_capture_launch(gr_device *base, void *recorded)
{
    return gr_cuda_check(
        cudaGraphLaunch((cudaGraphExec_t)recorded, stream_of(base, GR_STREAM_COMPUTE)),
        "cudaGraphLaunch");
}

static void cuda_capture_free(gr_device *base, void *recorded)
{
    (void)base;
    if (recorded)
        cudaGraphExecDestroy((cudaGraphExec_t)recorded);
}

const gr_backend_ops gr_backend_cuda = {
    .name = "cuda",
    .align = 256, /* what libraries and the widest loads of a warp ask for */
    .has_host_memory = false,
    .needs_copies = true,
    .runs_at_once = false,
    .can_poll = false,
    .has_streams = true,
    .can_capture = true,
    .shares_memory = false,
    .keeps_low = false,
    .open = cuda_open,
    .close = cuda_close,
    .count = cuda_count,
    .describe = cuda_describe,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .host_alloc = cuda_host_alloc,
    .host_free = cuda_host_free,
    .upload = cuda_upload,
    .download = cuda_download,
    .copy = cuda_copy,
    .zero = cuda_zero,
    .upload_ahead = cuda_upload_ahead,
    .sync = cuda_sync,
    .stream = cuda_stream,
    .event_create = cuda_event_create,
    .event_destroy = cuda_event_destroy,
    .event_record = cuda_event_record,
    .event_wait = cuda_event_wait,
    .slot_mark = cuda_slot_mark,
    .slot_wait = cuda_slot_wait,
    .capture_begin = cuda_capture_begin,
    .capture_end = cuda_capture_end,
    .capture_launch = cuda_capture_launch,
    .capture_free = cuda_capture_free,
    .timer_begin = cuda_timer_begin,
    .timer_end = cuda_timer_end,
    .memory = cuda_memory,
    .has_bf16 = cuda_has_bf16,
};
