/*
 * Many updates on the GPU: as many as a launch's arguments hold, so that small parameters do
 * not pay for a launch each. A block takes one piece of one parameter.
 */
#include "op/update/many.h"

#include "backend/cuda/launch.cuh"
#include "op/module_cuda.h"
#include "op/update/update_cuda.cuh"

#include <string.h>

#define BLOCK    GR_CUDA_BLOCK
#define PIECE    (16 * BLOCK) /* elements of a block; a multiple of 4 */
#define MOST     192          /* updates of a launch, whose arguments may have 32764 bytes */
#define MAX_ARGS 32764

typedef enum update_kind { UPDATE_SGD, UPDATE_ADAMW, UPDATE_EMA } update_kind;

typedef struct update {
    update_kind kind;
    union {
        sgd_args sgd;
        adamw_args adamw;
        ema_args ema;
    };
} update;

typedef struct updates {
    int n;
    uint32_t first[MOST + 1]; /* number of its first block; [n]: the end */
    update of[MOST];
} updates;

static_assert(sizeof(updates) <= MAX_ARGS, "a launch takes no more arguments");

/* f(lanes, i) for packs of 4 and what is left of [lo, hi), by the threads of a block. */
template <class F>
static __device__ __forceinline__ void each_of(int64_t lo, int64_t hi, bool in_packs, F f)
{
    int64_t i = lo;

    if (in_packs) {
        for (i = lo + 4 * threadIdx.x; i + 4 <= hi; i += 4 * BLOCK)
            f(gr_lanes<4>(), i);
        i = hi - (hi - lo) % 4;
    }
    for (i += threadIdx.x; i < hi; i += BLOCK)
        f(gr_lanes<1>(), i);
}

static __device__ void run_sgd(const sgd_args &p, int64_t lo, int64_t hi)
{
    sgd_terms k = sgd_terms_of(p);

    if (!skips(p.control))
        each_of(lo, hi, p.in_packs,
                [&](auto lanes, int64_t i) { sgd_at<decltype(lanes)::n>(p, k, i); });
}

static __device__ void run_adamw(const adamw_args &p, int64_t lo, int64_t hi)
{
    __shared__ adamw_terms k;

    if (skips(p.control))
        return;
    if (threadIdx.x == 0)
        k = adamw_terms_of(p);
    __syncthreads();
    each_of(lo, hi, p.in_packs,
            [&](auto lanes, int64_t i) { adamw_at<decltype(lanes)::n>(p, k, i); });
}

static __device__ void run_ema(const ema_args &p, int64_t lo, int64_t hi)
{
    bool is_first = *p.step <= 1;

    if (!skips(p.control))
        each_of(lo, hi, p.in_packs,
                [&](auto lanes, int64_t i) { ema_at<decltype(lanes)::n>(p, is_first, i); });
}

static __device__ __forceinline__ int64_t end_of(int64_t lo, int64_t n)
{
    return lo + PIECE < n ? lo + PIECE : n;
}

/* The update whose block this is. */
static __device__ __forceinline__ int update_of(const updates &t)
{
    int lo = 0, hi = t.n;

    while (hi - lo > 1) {
        int mid = (lo + hi) / 2;

        if (t.first[mid] <= blockIdx.x)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static __global__ void __launch_bounds__(BLOCK) many(const __grid_constant__ updates t)
{
    int g = update_of(t);
    const update &u = t.of[g];
    int64_t lo = (int64_t)(blockIdx.x - t.first[g]) * PIECE;

    if (u.kind == UPDATE_ADAMW)
        run_adamw(u.adamw, lo, end_of(lo, u.adamw.n));
    else if (u.kind == UPDATE_SGD)
        run_sgd(u.sgd, lo, end_of(lo, u.sgd.n));
    else
        run_ema(u.ema, lo, end_of(lo, u.ema.n));
}

/* ---- the host's part ---- */

/* Part i as an update; returns its elements. */
static int64_t fill(update *u, const gr_launch *l, int i)
{
    const gr_many_part *p = &((const gr_many_attr *)l->node->attr)->part[i];
    gr_launch part = *l;
    gr_node n = *l->node;

    n.op = p->op;
    n.attr = p->attr;
    n.src += p->src;
    n.n_src = p->n_src;
    n.out += p->out;
    n.n_out = p->n_out;
    part.node = &n;
    part.src += p->src;
    part.out += p->out;
    if (strcmp(p->op->name, "adamw") == 0) {
        u->kind = UPDATE_ADAMW;
        u->adamw = adamw_args_of(&part);
        return u->adamw.n;
    }
    if (strcmp(p->op->name, "sgd") == 0) {
        u->kind = UPDATE_SGD;
        u->sgd = sgd_args_of(&part);
        return u->sgd.n;
    }
    u->kind = UPDATE_EMA;
    u->ema = ema_args_of(&part);
    return u->ema.n;
}

static gr_status launch(updates *t, cudaStream_t s)
{
    gr_cuda_grid grid = gr_cuda_grid_of(t->first[t->n], 1, BLOCK);

    GR_TRY(gr_cuda_launch("many_updates launch", grid, s, many, *t));
    t->n = 0;
    return GR_OK;
}

static gr_status many_run(const gr_launch *l)
{
    const gr_many_attr *a = (const gr_many_attr *)l->node->attr;
    cudaStream_t s = gr_cuda_stream(l->stream);
    updates t;

    t.n = 0;
    t.first[0] = 0;
    for (int i = 0; i < a->n_parts; i++) {
        int64_t n = fill(&t.of[t.n], l, i), blocks = gr_ceil_div(n, PIECE);

        if (n == 0)
            continue;
        if (t.first[t.n] + blocks > INT32_MAX)
            return gr_fail(GR_ERR_DEVICE, "many_updates: more elements than a launch takes");
        t.first[t.n + 1] = t.first[t.n] + (uint32_t)blocks;
        if (++t.n == MOST)
            GR_TRY(launch(&t, s));
    }
    return t.n > 0 ? launch(&t, s) : GR_OK;
}

static const char *many_reject(const gr_node *n)
{
    return ((const gr_many_attr *)n->attr)->rows.pg
               ? "rows of gradients that are not summed up are for ranks on the CPU"
               : NULL;
}

const gr_kernel gr_many_updates_cuda[] = {
    {
        .name = "cuda",
        .reject = many_reject,
        .prepare = NULL,
        .workspace = NULL,
        .run = many_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};
