/*
 * Map programs on the GPU: each becomes a kernel, compiled by NVRTC when the plan is
 * made. The text depends on the program, the types and the pattern of broadcasts, not
 * on sizes, so that plans for other shapes find it in the device's cache.
 *
 * (1) Dimensions are collapsed: neighbours that every source walks through alike are
 *     one. What is usual ends as one dimension (same shapes), or two (a bias).
 * (2) A thread makes VEC neighbouring results, read and written with one access each of
 *     at most 16 bytes. With several dimensions VEC divides the innermost one, so a
 *     thread stays in one row; with one dimension the last thread may go by elements.
 * (3) Arithmetic is the CPU reference's: the same formulas (scalar.h), no fused
 *     multiply-add, registers in the compute type.
 *
 * A generated kernel, for relu(x [m, n] + bias [n]) in f32:
 *
 *     struct V0 { float v[4]; }; ...
 *     T f(T r0, T r1) { T r2; { T a = r0, b = r1; r2 = (T)(a + b); } ... return r3; }
 *     void map(P p) { I i = ...; I x1 = i % p.dim[1], ...; V0 s0 = load at i; V1 s1 = ... }
 */
#include "op/map/program.h"

#include "backend/cuda/jit.h"
#include "backend/cuda/launch.cuh"
#include "base/alloc.h"
#include "base/text.h"
#include "op/module_cuda.h"

#include <string.h>

#define BLOCK GR_CUDA_BLOCK

/* How a source is read. */
typedef enum access {
    DENSE, /* at the result's own index */
    ROW,   /* at an index of its own; the innermost dimension is walked */
    POINT  /* at an index of its own; one element for all of the innermost dimension */
} access;

/* The parameter of every generated kernel; its text declares the same struct. */
typedef struct params {
    int64_t n; /* results */
    int64_t dim[GR_MAX_DIMS];
    int64_t stride[GR_MAP_MAX_SRC][GR_MAX_DIMS]; /* in elements; 0: broadcast */
    const void *src[GR_MAP_MAX_SRC];
    void *out;
} params;

static const char params_text[] = "struct P {\n"
                                  "  long long n, dim[8], stride[16][8];\n"
                                  "  const void *src[16];\n"
                                  "  void *out;\n"
                                  "};\n";
static_assert(GR_MAX_DIMS == 8 && GR_MAP_MAX_SRC == 16, "params_text says so");

typedef struct map_plan {
    params p;
    int n_src, n_dims, vec;
    access how[GR_MAP_MAX_SRC];
    gr_cuda_compiled *kernel;
} map_plan;

/* ---- geometry ---- */

static void source_strides(int64_t *stride, const gr_shape *src, const gr_shape *out)
{
    int64_t step = 1;
    int lead = out->n_dims - src->n_dims;

    for (int d = out->n_dims - 1; d >= 0; d--) {
        int64_t size = d >= lead ? src->dim[d - lead] : 1;

        stride[d] = size == 1 ? 0 : step;
        step *= size;
    }
}

/* True when dimension d of every source continues its dimension d - 1 (invariant 1). */
static bool joins(const map_plan *m, int last, int64_t size, const int64_t (*full)[GR_MAX_DIMS],
                  int d)
{
    for (int s = 0; s < m->n_src; s++)
        if (m->p.stride[s][last] != full[s][d] * size)
            return false;
    return true;
}

static void collapse(map_plan *m, const gr_node *n)
{
    const gr_shape *out = &n->out[0].shape;
    int64_t full[GR_MAP_MAX_SRC][GR_MAX_DIMS];
    int n_dims = 0;

    for (int s = 0; s < m->n_src; s++)
        source_strides(full[s], &n->src[s]->shape, out);
    for (int d = 0; d < out->n_dims; d++) {
        int64_t size = out->dim[d];

        if (size == 1)
            continue;
        if (n_dims > 0 && joins(m, n_dims - 1, size, full, d))
            m->p.dim[n_dims - 1] *= size;
        else
            m->p.dim[n_dims++] = size;
        for (int s = 0; s < m->n_src; s++)
            m->p.stride[s][n_dims - 1] = full[s][d];
    }
    if (n_dims == 0) {
        m->p.dim[0] = 1;
        n_dims = 1;
    }
    m->n_dims = n_dims;
}

static access how_read(const map_plan *m, int s)
{
    int64_t step = 1;
    bool is_dense = true;

    for (int d = m->n_dims - 1; d >= 0; d--) {
        is_dense = is_dense && (m->p.stride[s][d] == step || m->p.dim[d] == 1);
        step *= m->p.dim[d];
    }
    if (is_dense)
        return DENSE;
    return m->p.stride[s][m->n_dims - 1] != 0 ? ROW : POINT;
}

static int choose_vec(const map_plan *m, const gr_node *n)
{
    size_t widest = gr_dtype_bytes(n->out[0].dtype);
    int vec;

    for (int s = 0; s < m->n_src; s++)
        if (m->how[s] != POINT && gr_dtype_bytes(n->src[s]->dtype) > widest)
            widest = gr_dtype_bytes(n->src[s]->dtype);
    vec = widest >= 2 ? (int)(16 / widest) : 8;
    while (m->n_dims > 1 && m->p.dim[m->n_dims - 1] % vec != 0)
        vec /= 2;
    return vec;
}

/* ---- text ---- */

static const char *raw_type(gr_dtype t)
{
    switch (t) {
    case GR_F32: return "float";
    case GR_F64: return "double";
    case GR_BF16:
    case GR_F16: return "unsigned short";
    case GR_I32: return "int";
    case GR_I64: return "long long";
    default: return "unsigned char";
    }
}

/* Conversion of a stored element `x` to the compute type. */
static const char *read_text(gr_dtype t)
{
    switch (t) {
    case GR_BF16: return "(T)__uint_as_float((unsigned)x << 16)";
    case GR_F16: return "(T)f16_to_f32(x)";
    default: return "(T)x";
    }
}

/* And of a result `x` to what is stored. Integers wrap; of floats, what is out of range
 * goes to its end (the conversion does that) and NaN to 0. */
static const char *write_text(gr_dtype t, bool is_float)
{
    switch (t) {
    case GR_BF16: return "f32_to_bf16((float)x)";
    case GR_F16: return "f32_to_f16((float)x)";
    case GR_BOOL: return "(unsigned char)(x != 0)";
    case GR_U8:
        return is_float ? "(unsigned char)(x >= 255 ? 255 : x > 0 ? (int)x : 0)"
                        : "(unsigned char)x";
    case GR_I32: return is_float ? "x == x ? (int)x : 0" : "(int)x";
    case GR_I64: return is_float ? "x == x ? (long long)x : 0" : "x";
    case GR_F64: return "(double)x";
    default: return "(float)x";
    }
}

static const char half_text[] =
    "__device__ __forceinline__ float f16_to_f32(unsigned short x)\n"
    "{ float y; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(y) : \"h\"(x)); return y; }\n"
    "__device__ __forceinline__ unsigned short f32_to_f16(float x)\n"
    "{ unsigned short y; unsigned u = __float_as_uint(x);\n"
    "  asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(y) : \"f\"(x));\n"
    "  /* NaN keeps sign and fraction, as on the CPU. */\n"
    "  return x == x ? y\n"
    "         : (unsigned short)((u >> 16 & 0x8000u) | 0x7e00u | (u >> 13 & 0x3ffu)); }\n"
    "__device__ __forceinline__ unsigned short f32_to_bf16(float x)\n"
    "{ unsigned u = __float_as_uint(x);\n"
    "  return (u & 0x7fffffffu) > 0x7f800000u ? (unsigned short)((u >> 16) | 0x40u)\n"
    "         : (unsigned short)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16); }\n";

/* A constant by its bits, so that the text is exact and inf and NaN are written too. */
static void add_constant(gr_text *t, gr_dtype compute, double k)
{
    unsigned long long bits;

    if (compute == GR_I64) {
        gr_text_addf(t, "(T)%lldLL", (long long)k);
        return;
    }
    memcpy(&bits, &k, sizeof(bits));
    gr_text_addf(t, "(T)__longlong_as_double(0x%llxLL)", bits);
}

/* The program as a function f of its sources. */
static void add_function(gr_text *t, const gr_program *g, gr_dtype compute)
{
    static const char arg[] = { 'a', 'b', 'c' };

    gr_text_add(t, "__device__ __forceinline__ T f(");
    for (int s = 0; s < g->n_src; s++)
        gr_text_addf(t, "%sT r%d", s ? ", " : "", s);
    gr_text_add(t, ")\n{\n");
    for (int j = 0; j < g->n_instr; j++) {
        const gr_instr *in = &g->instr[j];

        gr_text_addf(t, "  T r%d;\n  { ", g->n_src + j);
        for (int i = 0; i < 3 && in->reg[i] >= 0; i++)
            gr_text_addf(t, "T %c = r%d; ", arg[i], in->reg[i]);
        if (in->fn == GR_FN_CONST) {
            gr_text_add(t, "T k = ");
            add_constant(t, compute, in->k);
            gr_text_add(t, "; ");
        }
        gr_text_addf(t, "r%d = (T)(%s); }\n", g->n_src + j, gr_scalar_source((gr_scalar_fn)in->fn));
    }
    gr_text_addf(t, "  return r%d;\n}\n", g->n_src + g->n_instr - 1);
}

static void add_types(gr_text *t, const gr_node *n, const map_plan *m)
{
    size_t n_bytes = gr_dtype_bytes(n->out[0].dtype);

    for (int s = 0; s < m->n_src; s++) {
        gr_dtype d = n->src[s]->dtype;

        gr_text_addf(t, "struct __align__(%zu) V%d { %s v[%d]; };\n",
                     gr_dtype_bytes(d) * (size_t)m->vec, s, raw_type(d), m->vec);
        gr_text_addf(t, "__device__ __forceinline__ T in%d(%s x) { return %s; }\n", s, raw_type(d),
                     read_text(d));
    }
    gr_text_addf(t, "struct __align__(%zu) VO { %s v[%d]; };\n", n_bytes * (size_t)m->vec,
                 raw_type(n->out[0].dtype), m->vec);
    gr_text_addf(t, "__device__ __forceinline__ %s put(T x) { return %s; }\n",
                 raw_type(n->out[0].dtype),
                 write_text(n->out[0].dtype, gr_map_compute_dtype(n) != GR_I64));
}

/* Coordinates x0.. of result i, and from them the place o<s> of sources read elsewhere. */
static void add_places(gr_text *t, const map_plan *m)
{
    bool is_needed = false;

    for (int s = 0; s < m->n_src; s++)
        is_needed = is_needed || m->how[s] != DENSE;
    if (is_needed) {
        gr_text_add(t, "  I rest = i;\n");
        for (int d = m->n_dims - 1; d > 0; d--)
            gr_text_addf(t, "  I x%d = rest %% (I)p.dim[%d]; rest /= (I)p.dim[%d];\n", d, d, d);
        gr_text_add(t, "  I x0 = rest;\n");
    }
    for (int s = 0; s < m->n_src; s++) {
        if (m->how[s] == DENSE) {
            gr_text_addf(t, "  I o%d = i;\n", s);
            continue;
        }
        gr_text_addf(t, "  I o%d = 0", s);
        for (int d = 0; d < m->n_dims; d++)
            if (m->p.stride[s][d] != 0)
                gr_text_addf(t, " + x%d * (I)p.stride[%d][%d]", d, s, d);
        gr_text_add(t, ";\n");
    }
}

/* The call of f with each source's element `at` ("[j]" of a vector, or nothing). */
static void add_call(gr_text *t, const map_plan *m, const char *at)
{
    gr_text_add(t, "put(f(");
    for (int s = 0; s < m->n_src; s++)
        gr_text_addf(t, "%sin%d(s%d%s)", s ? ", " : "", s, s, m->how[s] == POINT ? "" : at);
    gr_text_add(t, "))");
}

/* The thread that meets the end goes by elements (invariant 2). */
static void add_tail(gr_text *t, const gr_node *n, const map_plan *m)
{
    gr_text_addf(t, "  if (n - i < %d) {\n    for (; i < n; i++) {\n", m->vec);
    for (int s = 0; s < m->n_src; s++)
        gr_text_addf(t, "      %s s%d = ((const %s *)p.src[%d])[%s];\n", raw_type(n->src[s]->dtype),
                     s, raw_type(n->src[s]->dtype), s, m->how[s] == POINT ? "0" : "i");
    gr_text_addf(t, "      ((%s *)p.out)[i] = ", raw_type(n->out[0].dtype));
    add_call(t, m, "");
    gr_text_add(t, ";\n    }\n    return;\n  }\n");
}

static void add_kernel(gr_text *t, const gr_node *n, const map_plan *m)
{
    gr_text_addf(t,
                 "extern \"C\" __global__ void __launch_bounds__(%d) map(const "
                 "__grid_constant__ P p)\n{\n"
                 "  I n = (I)p.n, i = ((I)blockIdx.x * %d + threadIdx.x) * %d;\n"
                 "  if (i >= n) return;\n",
                 BLOCK, BLOCK, m->vec);
    if (m->n_dims == 1 && m->vec > 1)
        add_tail(t, n, m);
    add_places(t, m);
    for (int s = 0; s < m->n_src; s++) {
        const char *raw = raw_type(n->src[s]->dtype);

        if (m->how[s] == POINT)
            gr_text_addf(t, "  %s s%d = ((const %s *)p.src[%d])[o%d];\n", raw, s, raw, s, s);
        else
            gr_text_addf(t, "  V%d s%d = *(const V%d *)((const %s *)p.src[%d] + o%d);\n", s, s, s,
                         raw, s, s);
    }
    gr_text_addf(t,
                 "  VO y;\n#pragma unroll\n  for (int j = 0; j < %d; j++)\n    y.v[j] = ", m->vec);
    add_call(t, m, ".v[j]");
    gr_text_addf(t, ";\n  *(VO *)((%s *)p.out + i) = y;\n}\n", raw_type(n->out[0].dtype));
}

static void write_source(gr_text *t, const gr_node *n, const map_plan *m)
{
    gr_dtype compute = gr_map_compute_dtype(n);

    gr_text_addf(t, "typedef %s T;\ntypedef unsigned %s I;\n", raw_type(compute),
                 m->p.n < ((int64_t)1 << 31) - BLOCK * 8 ? "int" : "long long");
    gr_text_add(t, params_text);
    gr_text_add(t, half_text);
    add_types(t, n, m);
    add_function(t, (const gr_program *)n->attr, compute);
    add_kernel(t, n, m);
}

/* ---- kernel ---- */

static void map_release(void *data)
{
    gr_free(data);
}

static gr_status map_prepare(gr_prepare *pr)
{
    const gr_node *n = pr->node;
    gr_cuda_device *dev = (gr_cuda_device *)pr->device;
    gr_text text = GR_TEXT_INIT;
    map_plan *m = (map_plan *)gr_calloc(1, sizeof(*m));
    gr_status st = GR_OK;

    if (!m)
        return GR_ERR_NOMEM;
    m->n_src = n->n_src;
    m->p.n = gr_shape_count(&n->out[0].shape);
    if (m->p.n > 0) {
        collapse(m, n);
        for (int s = 0; s < m->n_src; s++)
            m->how[s] = how_read(m, s);
        m->vec = choose_vec(m, n);
        write_source(&text, n, m);
        st = gr_text_status(&text);
        if (st == GR_OK)
            st = gr_cuda_jit_ask(dev->jit, gr_text_str(&text), "map", &m->kernel);
        gr_text_fini(&text);
    }
    if (st != GR_OK) {
        map_release(m);
        return st;
    }
    pr->data = m;
    return GR_OK;
}

static gr_status map_run(const gr_launch *l)
{
    const map_plan *m = (const map_plan *)l->data;
    params p = m->p;
    void *args[] = { &p };
    const void *kernel;
    int64_t n_threads;
    dim3 grid;

    if (p.n == 0)
        return GR_OK;
    GR_TRY(gr_cuda_jit_use(m->kernel, &kernel));
    for (int s = 0; s < m->n_src; s++)
        p.src[s] = l->src[s];
    p.out = l->out[0];
    n_threads = gr_ceil_div(p.n, m->vec);
    grid.x = (unsigned)gr_ceil_div(n_threads, BLOCK);
    return gr_cuda_check(
        cudaLaunchKernel(kernel, grid, dim3(BLOCK), args, 0, gr_cuda_stream(l->stream)),
        "map launch");
}

const gr_kernel gr_map_cuda[] = {
    {
        .name = "nvrtc",
        .reject = NULL,
        .prepare = map_prepare,
        .workspace = NULL,
        .run = map_run,
        .release = map_release,
        .no_capture = false,
        .in_place = false,
    },
    {},
};
