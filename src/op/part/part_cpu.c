/*
 * Concat and split on the CPU as copies of rows, slice, pad and flip as strided copies,
 * and their lists of kernels.
 */
#include "base/cpu.h"
#include "op/element.h"
#include "op/matmul/cpu/matmul_kernels.h"
#include "op/part/part_kernels.h"
#include "op/shape/strided.h"

#include <string.h>

/* ---- strided copies ---- */

static void run_slice(void *arg, int slice, int n_slices)
{
    gr_strided_run(arg, slice, n_slices);
}

static void run_strided(const gr_launch *l, gr_strided *s, size_t n_bytes)
{
    gr_strided_plan(s);
    gr_pool_run(l->pool, run_slice, s, n_bytes < GR_STRIDED_SLICE_MIN ? 1 : gr_pool_size(l->pool));
}

/* Both sides dense: `part` is one of the pieces, `whole` what they make up. */
static void set_shapes(gr_strided *s, const gr_shape *part, int64_t *part_step,
                       const gr_shape *whole, int64_t *whole_step)
{
    s->n_dims = part->n_dims;
    memcpy(s->dim, part->dim, sizeof(s->dim));
    gr_strided_steps(part, part_step);
    gr_strided_steps(whole, whole_step);
}

/* ---- concat and split ---- */

/* Both are `outer` rows of all parts side by side in the whole, and each part's rows by
 * themselves. Rows are walked outside, parts inside, so that the whole is touched once. */
typedef struct sides {
    const gr_launch *launch;
    int n_parts;
    bool is_split;
    int axis;
    int64_t outer;
    size_t inner; /* bytes of one place of the axis */
} sides;

static const gr_shape *part_shape(const sides *s, int i)
{
    return s->is_split ? &s->launch->node->out[i].shape : &s->launch->node->src[i]->shape;
}

/* f32 to 16 bits or back; concat_reject() saw to it that there is AVX2. */
static void convert(void *dst, gr_dtype to, const void *src, gr_dtype from, size_t n)
{
    const gr_tile_isa *isa = gr_cpu_has_avx512() ? &gr_matmul_tile_avx512 : &gr_matmul_tile_avx2;

    if (to == GR_F32)
        isa->widen(dst, src, from, (int64_t)n);
    else
        isa->narrow(dst, src, to, (int64_t)n);
}

/* Bytes [from, from + n) of part i, counted in the type of the whole, to or from their place
 * there. */
static void copy_part(const sides *s, int i, char *whole, size_t from, size_t n)
{
    const gr_launch *l = s->launch;
    const gr_dtype type = l->node->out[0].dtype,
                   other = s->is_split ? type : l->node->src[i]->dtype;
    const size_t elem = gr_dtype_bytes(type);

    if (s->is_split)
        memcpy((char *)l->out[i] + from, whole, n);
    else if (other == type)
        memcpy(whole, (const char *)l->src[i] + from, n);
    else
        convert(whole, type, (const char *)l->src[i] + from / elem * gr_dtype_bytes(other), other,
                n / elem);
}

static void sides_by_rows(void *arg, int slice, int n_slices)
{
    const sides *s = arg;
    char *whole = s->is_split ? s->launch->src[0] : s->launch->out[0];
    size_t row = 0;
    int64_t lo, hi;

    for (int i = 0; i < s->n_parts; i++)
        row += (size_t)part_shape(s, i)->dim[s->axis] * s->inner;
    gr_pool_cut(s->outer, 1, slice, n_slices, &lo, &hi);
    for (int64_t o = lo; o < hi; o++) {
        char *at = whole + (size_t)o * row;

        for (int i = 0; i < s->n_parts; i++) {
            size_t n = (size_t)part_shape(s, i)->dim[s->axis] * s->inner;

            copy_part(s, i, at, (size_t)o * n, n);
            at += n;
        }
    }
}

/* Few rows: each slice copies a stretch of every part's. */
static void sides_by_bytes(void *arg, int slice, int n_slices)
{
    const sides *s = arg;
    char *at = s->is_split ? s->launch->src[0] : s->launch->out[0];
    int64_t lo, hi;

    for (int64_t o = 0; o < s->outer; o++)
        for (int i = 0; i < s->n_parts; i++) {
            size_t n = (size_t)part_shape(s, i)->dim[s->axis] * s->inner;

            gr_pool_cut((int64_t)n, 4096, slice, n_slices, &lo, &hi);
            copy_part(s, i, at + lo, (size_t)o * n + (size_t)lo, (size_t)(hi - lo));
            at += n;
        }
}

static void run_sides(sides *s, const gr_value *whole)
{
    const gr_launch *l = s->launch;
    int n = gr_value_bytes(whole) < GR_STRIDED_SLICE_MIN ? 1 : gr_pool_size(l->pool);

    s->outer = 1;
    s->inner = gr_dtype_bytes(whole->dtype);
    for (int d = 0; d < s->axis; d++)
        s->outer *= whole->shape.dim[d];
    for (int d = s->axis + 1; d < whole->shape.n_dims; d++)
        s->inner *= (size_t)whole->shape.dim[d];
    gr_pool_run(l->pool, s->outer >= 8 * n ? sides_by_rows : sides_by_bytes, s, n);
}

static gr_status concat_run(const gr_launch *l)
{
    const gr_concat_attr *at = l->node->attr;
    sides s = { .launch = l, .n_parts = l->node->n_src, .axis = at->axis };

    run_sides(&s, &l->node->out[0]);
    return GR_OK;
}

static bool is_half(gr_dtype t)
{
    return t == GR_BF16 || t == GR_F16;
}

static const char *concat_reject(const gr_node *n)
{
    for (int i = 0; i < n->n_src; i++) {
        gr_dtype from = n->src[i]->dtype, to = n->out[0].dtype;

        if (from == to)
            continue;
        if (!(from == GR_F32 && is_half(to)) && !(is_half(from) && to == GR_F32))
            return "only sources of the result's type, or f32 and 16 bits";
        if (!gr_cpu_has_avx2())
            return "needs AVX2 to convert";
    }
    return NULL;
}

static gr_status split_run(const gr_launch *l)
{
    const gr_split_attr *at = l->node->attr;
    sides s = { .launch = l, .n_parts = l->node->n_out, .axis = at->axis, .is_split = true };

    run_sides(&s, l->node->src[0]);
    return GR_OK;
}

/* ---- slice and flip ---- */

static gr_status slice_run(const gr_launch *l)
{
    const gr_slice_attr *at = l->node->attr;
    gr_strided s = { .src = l->src[0], .dst = l->out[0] };

    if (gr_value_bytes(&l->node->out[0]) == 0)
        return GR_OK;
    s.elem_bytes = gr_dtype_bytes(l->node->src[0]->dtype);
    set_shapes(&s, &l->node->out[0].shape, s.to, &l->node->src[0]->shape, s.from);
    for (int d = 0; d < s.n_dims; d++) {
        s.src += (size_t)(at->start[d] * s.from[d]) * s.elem_bytes;
        s.from[d] *= at->step[d];
    }
    run_strided(l, &s, gr_value_bytes(&l->node->out[0]));
    return GR_OK;
}

static gr_status flip_run(const gr_launch *l)
{
    const gr_flip_attr *at = l->node->attr;
    gr_strided s = { .src = l->src[0], .dst = l->out[0] };

    if (gr_value_bytes(&l->node->out[0]) == 0)
        return GR_OK;
    s.elem_bytes = gr_dtype_bytes(l->node->src[0]->dtype);
    set_shapes(&s, &l->node->out[0].shape, s.to, &l->node->src[0]->shape, s.from);
    for (int d = 0; d < s.n_dims; d++)
        if (at->axes >> d & 1) {
            s.src += (size_t)((s.dim[d] - 1) * s.from[d]) * s.elem_bytes;
            s.from[d] = -s.from[d];
        }
    run_strided(l, &s, gr_value_bytes(&l->node->out[0]));
    return GR_OK;
}

/* ---- pad ---- */

/* What every element of a stretch is. */
typedef struct filler {
    const gr_launch *launch;
    size_t elem_bytes;
    unsigned char value[8];
    int64_t n_rows, run; /* runs of the last padded dimension, and their bytes */
} filler;

/* n bytes of the value, by copies of what is there already. */
static void fill(const filler *f, char *to, size_t n)
{
    size_t done = f->elem_bytes;

    if (n == 0)
        return;
    memcpy(to, f->value, f->elem_bytes);
    for (; done < n; done *= 2)
        memcpy(to + done, to, done < n - done ? done : n - done);
}

static void fill_all(void *arg, int slice, int n_slices)
{
    const filler *f = arg;
    const gr_value *out = &f->launch->node->out[0];
    int64_t lo, hi;

    gr_pool_cut(gr_shape_count(&out->shape), 64, slice, n_slices, &lo, &hi);
    fill(f, (char *)f->launch->out[0] + (size_t)lo * f->elem_bytes,
         (size_t)(hi - lo) * f->elem_bytes);
}

/* Whether row r of the result lies in the padding of a dimension before `axis`; else
 * *from is the row of the source that belongs to it. */
static bool is_border(const gr_node *n, int axis, int64_t r, int64_t *from)
{
    const gr_pad_attr *at = n->attr;
    const gr_shape *in = &n->src[0]->shape, *out = &n->out[0].shape;
    int64_t step = 1;

    *from = 0;
    for (int d = axis - 1; d >= 0; d--) {
        int64_t i = r % out->dim[d] - at->lo[d];

        r /= out->dim[d];
        if (i < 0 || i >= in->dim[d])
            return true;
        *from += i * step;
        step *= in->dim[d];
    }
    return false;
}

/* The last dimension that is padded; -1: none, or one with a step. */
static int last_padded(const gr_node *n)
{
    const gr_pad_attr *at = n->attr;
    int last = -1;

    for (int d = 0; d < n->src[0]->shape.n_dims; d++) {
        if (at->step[d] != 1)
            return -1;
        if (at->lo[d] > 0 || at->hi[d] > 0)
            last = d;
    }
    return last;
}

/* Rows of the result up to the last padded dimension: border, copy, border. Every byte is
 * written once. */
static void pad_rows(void *arg, int slice, int n_slices)
{
    const filler *f = arg;
    const gr_launch *l = f->launch;
    const gr_pad_attr *at = l->node->attr;
    int axis = last_padded(l->node);
    const int64_t dim = l->node->src[0]->shape.dim[axis];
    size_t before = (size_t)(at->lo[axis] * f->run), middle = (size_t)(dim * f->run);
    size_t row = before + middle + (size_t)(at->hi[axis] * f->run);
    int64_t lo, hi, from;

    gr_pool_cut(f->n_rows, 1, slice, n_slices, &lo, &hi);
    for (int64_t r = lo; r < hi; r++) {
        char *to = (char *)l->out[0] + (size_t)r * row;

        if (is_border(l->node, axis, r, &from)) {
            fill(f, to, row);
            continue;
        }
        fill(f, to, before);
        memcpy(to + before, (const char *)l->src[0] + (size_t)from * middle, middle);
        fill(f, to + before + middle, row - before - middle);
    }
}

static void copy_inside(const gr_launch *l)
{
    const gr_pad_attr *at = l->node->attr;
    gr_strided s = { .src = l->src[0], .dst = l->out[0] };

    s.elem_bytes = gr_dtype_bytes(l->node->src[0]->dtype);
    set_shapes(&s, &l->node->src[0]->shape, s.from, &l->node->out[0].shape, s.to);
    for (int d = 0; d < s.n_dims; d++) {
        s.dst += (size_t)(at->lo[d] * s.to[d]) * s.elem_bytes;
        s.to[d] *= at->step[d];
    }
    run_strided(l, &s, gr_value_bytes(&l->node->out[0]));
}

static gr_status pad_run(const gr_launch *l)
{
    const gr_pad_attr *at = l->node->attr;
    const gr_value *out = &l->node->out[0];
    size_t n_bytes = gr_value_bytes(out);
    int n_slices = n_bytes < GR_STRIDED_SLICE_MIN ? 1 : gr_pool_size(l->pool);
    filler f = { .launch = l, .elem_bytes = gr_dtype_bytes(out->dtype), .n_rows = 1 };
    int axis = last_padded(l->node);

    if (n_bytes == 0)
        return GR_OK;
    gr_element_put_f64(f.value, out->dtype, 0, at->value);
    f.run = (int64_t)f.elem_bytes;
    for (int d = 0; d < out->shape.n_dims; d++)
        if (d != axis)
            *(d < axis ? &f.n_rows : &f.run) *= out->shape.dim[d];
    if (axis >= 0 && gr_value_bytes(l->node->src[0]) > 0) {
        gr_pool_run(l->pool, pad_rows, &f, n_slices);
        return GR_OK;
    }
    gr_pool_run(l->pool, fill_all, &f, n_slices);
    if (gr_value_bytes(l->node->src[0]) > 0)
        copy_inside(l);
    return GR_OK;
}

/* ---- lists ---- */

const gr_kernel gr_concat_cpu[] = {
    { .name = "rows", .reject = concat_reject, .run = concat_run },
    { .name = "reference", .run = gr_concat_ref_run },
    { .name = NULL },
};

const gr_kernel gr_split_cpu[] = {
    { .name = "rows", .run = split_run },
    { .name = "reference", .run = gr_split_ref_run },
    { .name = NULL },
};

const gr_kernel gr_slice_cpu[] = {
    { .name = "strided", .run = slice_run },
    { .name = "reference", .run = gr_slice_ref_run },
    { .name = NULL },
};

const gr_kernel gr_pad_cpu[] = {
    { .name = "rows", .run = pad_run },
    { .name = "reference", .run = gr_pad_ref_run },
    { .name = NULL },
};

const gr_kernel gr_flip_cpu[] = {
    { .name = "strided", .run = flip_run },
    { .name = "reference", .run = gr_flip_ref_run },
    { .name = NULL },
};
