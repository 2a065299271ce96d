/*
 * swiglu on the CPU, by vectors and threads. A slice takes pieces of rows, and an element does
 * not depend on its neighbours, so bits do not depend on the thread count.
 */
#include "base/cpu.h"
#include "op/map/map_impl.h"
#include "op/swiglu/swiglu.h"

#include <string.h>

#define PIECE     1024 /* elements of y */
#define MIN_SLICE 16   /* pieces that are worth a thread */

typedef struct job {
    const gr_launch *launch;
    const gr_swiglu_isa *isa;
    const gr_map_isa *convert;
    int64_t n, per_row, n_pieces;
    gr_dtype type;
    bool is_grad;
} job;

/* Elements of another type go through `buffer`. */
static const float *read_piece(const job *j, const char *mem, int64_t at, int64_t n, float *buffer)
{
    const char *p = mem + (size_t)at * gr_dtype_bytes(j->type);

    if (j->type == GR_F32)
        return (const float *)(const void *)p;
    j->convert->load[GR_MAP_F32][j->type](buffer, p, n);
    return buffer;
}

static float *place_of(const job *j, char *mem, int64_t at, float *buffer)
{
    return j->type == GR_F32 ? (float *)(void *)mem + at : buffer;
}

static void write_piece(const job *j, char *mem, int64_t at, int64_t n, const float *buffer)
{
    if (j->type != GR_F32)
        j->convert->store[GR_MAP_F32][j->type](mem + (size_t)at * gr_dtype_bytes(j->type), buffer,
                                               n);
}

/* Elements [at, at + n) of the halves that begin at `row`, and of y. */
static void run_piece(const job *j, int64_t row, int64_t y_at, int64_t n)
{
    float buffer[5][PIECE];
    const char *x = j->launch->src[0];
    char *out = j->launch->out[0];
    const float *a = read_piece(j, x, row, n, buffer[0]);
    const float *b = read_piece(j, x, row + j->n, n, buffer[1]);

    if (!j->is_grad) {
        j->isa->gate(place_of(j, out, y_at, buffer[2]), a, b, n);
        write_piece(j, out, y_at, n, buffer[2]);
        return;
    }
    j->isa->grad(place_of(j, out, row, buffer[2]), place_of(j, out, row + j->n, buffer[3]),
                 read_piece(j, j->launch->src[1], y_at, n, buffer[4]), a, b, n);
    write_piece(j, out, row, n, buffer[2]);
    write_piece(j, out, row + j->n, n, buffer[3]);
}

static void run_slice(void *arg, int slice, int n_slices)
{
    const job *j = (const job *)arg;
    int64_t lo, hi;

    gr_pool_cut(j->n_pieces, 1, slice, n_slices, &lo, &hi);
    for (; lo < hi; lo++) {
        int64_t r = lo / j->per_row, at = lo % j->per_row * PIECE;
        int64_t left = j->n - at;

        run_piece(j, r * 2 * j->n + at, r * j->n + at, left < PIECE ? left : PIECE);
    }
}

static gr_status run_with(const gr_launch *l, const gr_swiglu_isa *isa, const gr_map_isa *convert,
                          bool is_grad)
{
    const gr_value *x = l->node->src[0];
    job j = { .launch = l, .isa = isa, .convert = convert, .type = x->dtype, .is_grad = is_grad };
    int64_t count = gr_shape_count(&x->shape), n_slices;

    if (count == 0)
        return GR_OK;
    j.n = x->shape.dim[x->shape.n_dims - 1] / 2;
    j.per_row = (j.n + PIECE - 1) / PIECE;
    j.n_pieces = count / (2 * j.n) * j.per_row;
    n_slices = count / (2 * PIECE * MIN_SLICE);
    if (n_slices > gr_pool_size(l->pool))
        n_slices = gr_pool_size(l->pool);
    gr_pool_run(l->pool, run_slice, &j, n_slices < 1 ? 1 : (int)n_slices);
    return GR_OK;
}

static const char *reject_f64(const gr_node *n)
{
    return n->src[0]->dtype == GR_F64 ? "f64 is left to the reference" : NULL;
}

static const char *avx512_reject(const gr_node *n)
{
    return gr_cpu_has_avx512() ? reject_f64(n) : "needs AVX-512";
}

static const char *avx2_reject(const gr_node *n)
{
    return gr_cpu_has_avx2() ? reject_f64(n) : "needs AVX2 and F16C";
}

static gr_status avx512_run(const gr_launch *l)
{
    return run_with(l, &gr_swiglu_avx512, &gr_map_avx512, false);
}

static gr_status avx2_run(const gr_launch *l)
{
    return run_with(l, &gr_swiglu_avx2, &gr_map_avx2, false);
}

static gr_status avx512_grad_run(const gr_launch *l)
{
    return run_with(l, &gr_swiglu_avx512, &gr_map_avx512, true);
}

static gr_status avx2_grad_run(const gr_launch *l)
{
    return run_with(l, &gr_swiglu_avx2, &gr_map_avx2, true);
}

const gr_kernel gr_swiglu_cpu[] = {
    { .name = "avx512", .reject = avx512_reject, .run = avx512_run },
    { .name = "avx2", .reject = avx2_reject, .run = avx2_run },
    { .name = "reference", .run = gr_swiglu_ref_run },
    { .name = NULL },
};

const gr_kernel gr_swiglu_grad_cpu[] = {
    { .name = "avx512", .reject = avx512_reject, .run = avx512_grad_run },
    { .name = "avx2", .reject = avx2_reject, .run = avx2_grad_run },
    { .name = "reference", .run = gr_swiglu_grad_ref_run },
    { .name = NULL },
};
