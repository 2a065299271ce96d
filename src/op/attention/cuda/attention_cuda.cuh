/*
 * What the kernels of attention on a GPU share: a node of either operator as they take it, where
 * its rows are, and which pairs are seen and kept.
 */
#ifndef GR_OP_ATTENTION_CUDA_CUH
#define GR_OP_ATTENTION_CUDA_CUH

#include "backend/cuda/cuda.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/types.cuh"
#include "op/attention/attention_drop.h"

#define GR_ATTENTION_TILE 64 /* queries or keys */

typedef struct gr_attention_args {
    gr_attention_dims d;
    gr_attention_drop drop; /* not bound yet */
    const gr_scalars *scalars;
    const void *q, *k, *v, *bias;
    const uint8_t *mask; /* NULL: none */
    const void *o, *d_o, *lse;
    void *out, *lse_out;
    void *dq, *dk, *dv, *dbias;
    void *delta; /* [b, hq, nq]: o · do of each query */
    gr_dtype bias_type, o_type, d_o_type, out_type;
    double scale;
    bool causal;
    int64_t n_tiles; /* of the grid, for each sample and head */
} gr_attention_args;

static inline gr_attention_args gr_attention_args_of(const gr_launch *l)
{
    const gr_node *n = l->node;
    const gr_attention_attr *at = (const gr_attention_attr *)n->attr;
    gr_attention_args p = {};

    gr_attention_get_dims(n, &p.d);
    p.drop = gr_attention_drop_plan(n);
    p.scalars = l->scalars;
    p.q = l->src[0];
    p.k = l->src[1];
    p.v = l->src[2];
    if (p.d.mask >= 0)
        p.mask = (const uint8_t *)l->src[p.d.mask];
    if (p.d.bias >= 0) {
        p.bias = l->src[p.d.bias];
        p.bias_type = n->src[p.d.bias]->dtype;
    }
    p.out_type = at->dtype;
    p.scale = at->scale;
    p.causal = at->causal;
    return p;
}

static inline gr_attention_args gr_attention_grad_args_of(const gr_launch *l)
{
    const gr_node *n = l->node;
    const gr_attention_attr *at = (const gr_attention_attr *)n->attr;
    const int to_k = at->packing == GR_ATTENTION_QKV ? 0 : 1;
    gr_attention_args p = gr_attention_args_of(l);

    p.o = l->src[3];
    p.o_type = n->src[3]->dtype;
    p.lse = l->src[GR_ATTENTION_LSE];
    p.d_o = l->src[5];
    p.d_o_type = n->src[5]->dtype;
    p.delta = l->work;
    p.dq = l->out[0];
    p.dk = l->out[to_k];
    p.dv = l->out[at->packing == GR_ATTENTION_SEPARATE ? 2 : to_k];
    p.dbias = n->out[3].space == GR_SPACE_NONE ? NULL : l->out[3];
    return p;
}

/* The kernels that take everything. */
gr_status gr_attention_fma_run(const gr_launch *l) GR_MUST_CHECK;
gr_status gr_attention_fma_grad_run(const gr_launch *l) GR_MUST_CHECK;
/* The last part of it: dbias, from delta. */
gr_status gr_attention_fma_grad_bias(const gr_attention_args &p, gr_dtype type,
                                     cudaStream_t s) GR_MUST_CHECK;

/* Those on tensor cores. */
gr_status gr_attention_mma_prepare(gr_prepare *p) GR_MUST_CHECK;
gr_status gr_attention_mma_grad_prepare(gr_prepare *p) GR_MUST_CHECK;
gr_status gr_attention_mma_run(const gr_launch *l) GR_MUST_CHECK;
gr_status gr_attention_mma_grad_run(const gr_launch *l) GR_MUST_CHECK;

/* Of either operator; the gradient's other sources are looked at by itself. */
static inline const char *gr_attention_mma_reject(const gr_node *n)
{
    const gr_attention_attr *at = (const gr_attention_attr *)n->attr;
    const gr_dtype t = n->src[0]->dtype;
    const int64_t d = n->src[0]->shape.dim[3];

    if (t != GR_BF16 && t != GR_F16)
        return "takes bf16 and f16";
    if (at->dtype != t)
        return "takes results of its inputs' type";
    return d > 0 && d <= 128 && d % 8 == 0 ? NULL : "takes head sizes of 8, 16 .. 128";
}

/* A tile of one sample and head. */
typedef struct gr_attention_spot {
    int64_t b, h, first;
} gr_attention_spot;

/* Block x of n_heads * b * n_tiles; the last tile, which has the most keys when causal, first. */
static __device__ __forceinline__ gr_attention_spot gr_attention_spot_of(const gr_attention_args &p,
                                                                         int64_t n_heads,
                                                                         int64_t tile)
{
    int64_t head = blockIdx.x / p.n_tiles, t = p.n_tiles - 1 - (blockIdx.x - head * p.n_tiles);
    gr_attention_spot s;

    s.b = head / n_heads;
    s.h = head - s.b * n_heads;
    s.first = t * tile;
    return s;
}

/* ---- places: the first element of a token's head ---- */

static __device__ __forceinline__ int64_t gr_attention_q_at(const gr_attention_dims &d, int64_t b,
                                                            int64_t h, int64_t i)
{
    return (b * d.nq + i) * d.row_q + h * d.d;
}
/* g: the key head. */
static __device__ __forceinline__ int64_t gr_attention_k_at(const gr_attention_dims &d, int64_t b,
                                                            int64_t g, int64_t j)
{
    return (b * d.nk + j) * d.row_k + d.at_k + g * d.d;
}
static __device__ __forceinline__ int64_t gr_attention_v_at(const gr_attention_dims &d, int64_t b,
                                                            int64_t g, int64_t j)
{
    return (b * d.nk + j) * d.row_v + d.at_v + g * d.d;
}
static __device__ __forceinline__ int64_t gr_attention_o_at(const gr_attention_dims &d, int64_t b,
                                                            int64_t h, int64_t i)
{
    return ((b * d.nq + i) * d.hq + h) * d.d;
}
static __device__ __forceinline__ int64_t gr_attention_bias_at(const gr_attention_dims &d,
                                                               int64_t b, int64_t h, int64_t i,
                                                               int64_t j)
{
    return b * d.bias_step[0] + h * d.bias_step[1] + i * d.bias_step[2] + j * d.bias_step[3];
}

/* ---- pairs ---- */

/* i and j may lie outside: such pairs are not seen. */
static __device__ __forceinline__ bool gr_attention_sees(const gr_attention_args &p, int64_t b,
                                                         int64_t i, int64_t j)
{
    if (i >= p.d.nq || j >= p.d.nk || (p.causal && j > i))
        return false;
    return !p.mask || p.mask[b * p.d.nk + j];
}

template <class C>
static __device__ __forceinline__ C gr_attention_bias(const gr_attention_args &p, int64_t b,
                                                      int64_t h, int64_t i, int64_t j)
{
    int64_t at = gr_attention_bias_at(p.d, b, h, i, j);

    return p.bias_type == GR_F32 ? (C)((const float *)p.bias)[at]
                                 : (C)gr_load_f64(p.bias, at, p.bias_type);
}

/* Bit j: key 8 * group + j of the query is kept. */
static __device__ __forceinline__ uint32_t gr_attention_kept8(const gr_attention_drop &d,
                                                              const gr_attention_stream &st,
                                                              int64_t query, int64_t group)
{
    uint32_t counter[4] = { st.first + (uint32_t)query * st.per_query + (uint32_t)group, st.rest[0],
                            st.rest[1], st.rest[2] };
    uint32_t u[4], bits = 0;

    gr_philox(u, counter, st.key);
#pragma unroll
    for (int j = 0; j < 8; j++)
        bits |= ((u[j / 2] >> (j % 2 * 16) & 0xffff) < d.threshold ? 0u : 1u) << j;
    return bits;
}

/* The dropout of a tile of pairs, in shared memory: one byte for 8 keys. */
typedef struct __align__(16) gr_attention_bits
{
    uint8_t of[GR_ATTENTION_TILE][GR_ATTENTION_TILE / 8];
}
gr_attention_bits;

/* `drop` is bound; q and k are where the tile begins; of ROWS queries. To be followed by
 * __syncthreads(). */
template <int ROWS>
static __device__ __forceinline__ void
gr_attention_draw(gr_attention_bits *bits, const gr_attention_drop &drop,
                  const gr_attention_spot &s, int64_t q, int64_t k)
{
    const int per_row = GR_ATTENTION_TILE / 8;
    gr_attention_stream st = gr_attention_stream_of(&drop, s.b, s.h);

    for (int i = threadIdx.x; i < ROWS * per_row; i += blockDim.x)
        bits->of[i / per_row][i % per_row] =
            (uint8_t)gr_attention_kept8(drop, st, q + i / per_row, k / 8 + i % per_row);
}

static __device__ __forceinline__ bool gr_attention_is_kept(const gr_attention_bits *bits, int q,
                                                            int k)
{
    return bits->of[q][k / 8] >> (k % 8) & 1;
}

#endif
