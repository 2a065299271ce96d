/* The references: element by element, in double. */
#include "op/element.h"
#include "op/random/random_kernels.h"

#include <math.h>

#define TWO_PI 6.283185307179586476925

static double uniform_of(const gr_random_attr *at, uint32_t x)
{
    int bits = gr_random_bits(at->dtype);

    return fmin(at->a + (at->b - at->a) * (double)(x >> (32 - bits)) * ldexp(1, -bits),
                gr_random_most(at));
}

/* Elements 16 apart in groups of 32 are a pair: radius from the first, angle from the second. */
static double normal_of(const gr_random_attr *at, const gr_draw *d, uint32_t sample, int64_t e)
{
    int64_t first = e & ~(int64_t)16;
    double u = (double)((gr_draw_at(d, sample, first) >> 8) + 1) * 0x1p-24;
    double angle = TWO_PI * (double)(gr_draw_at(d, sample, first + 16) >> 8) * 0x1p-24;

    return at->a + at->b * sqrt(-2 * log(u)) * (e == first ? cos(angle) : sin(angle));
}

static void put(const gr_launch *l, const gr_draw *d, uint32_t sample, int64_t e, int64_t i)
{
    const gr_random_attr *at = (const gr_random_attr *)l->node->attr;
    void *out = l->out[0];

    switch (at->kind) {
    case GR_RANDOM_UNIFORM:
        gr_element_put_f64(out, at->dtype, i, uniform_of(at, gr_draw_at(d, sample, e)));
        return;
    case GR_RANDOM_NORMAL:
        gr_element_put_f64(out, at->dtype, i, normal_of(at, d, sample, e));
        return;
    case GR_RANDOM_BERNOULLI:
        gr_element_put_f64(out, at->dtype, i, gr_draw_at(d, sample, e) < at->range);
        return;
    case GR_RANDOM_INT:
        gr_element_put_i64(
            out, at->dtype, i,
            (int64_t)((uint64_t)at->from + ((uint64_t)gr_draw_at(d, sample, e) * at->range >> 32)));
        return;
    case GR_RANDOM_PERM: break;
    }
    GR_BUG_IF(true);
}

/* Fisher and Yates: number i of the row chooses among the n - i that are left. Rows of a
 * sample are numbered through, and take their numbers one after the other. */
void gr_random_perm_rows(const gr_launch *l, int64_t lo, int64_t hi)
{
    const gr_random_attr *at = (const gr_random_attr *)l->node->attr;
    gr_draw all = gr_draw_of(l->scalars, at->stream);
    gr_random_cut cut = gr_random_cut_of(l, &at->shape, at->n_samples);
    int64_t n = at->shape.dim[at->shape.n_dims - 1];

    for (int64_t r = lo; r < hi; r++) {
        int64_t e = r * n % cut.n_elem;
        uint32_t sample;
        gr_draw d = gr_random_draw_of(l, &all, &cut, r * n / cut.n_elem, &sample);

        for (int64_t i = 0; i < n; i++)
            gr_element_put_i64(l->out[0], at->dtype, r * n + i, i);
        for (int64_t i = 0; i + 1 < n; i++) {
            uint64_t x = gr_draw_at(&d, sample, e + i);
            int64_t j = i + (int64_t)(x * (uint64_t)(n - i) >> 32);
            int64_t kept = gr_element_i64(l->out[0], at->dtype, r * n + i);

            gr_element_put_i64(l->out[0], at->dtype, r * n + i,
                               gr_element_i64(l->out[0], at->dtype, r * n + j));
            gr_element_put_i64(l->out[0], at->dtype, r * n + j, kept);
        }
    }
}

gr_status gr_random_ref_run(const gr_launch *l)
{
    const gr_random_attr *at = (const gr_random_attr *)l->node->attr;
    gr_draw all = gr_draw_of(l->scalars, at->stream);
    gr_random_cut cut = gr_random_cut_of(l, &at->shape, at->n_samples);
    int64_t n = gr_shape_count(&at->shape);

    if (at->kind == GR_RANDOM_PERM) {
        gr_random_perm_rows(l, 0, n > 0 ? n / at->shape.dim[at->shape.n_dims - 1] : 0);
        return GR_OK;
    }
    for (int64_t i = 0; i < n; i++) {
        uint32_t sample;
        gr_draw d = gr_random_draw_of(l, &all, &cut, i / cut.n_elem, &sample);

        put(l, &d, sample, i % cut.n_elem, i);
    }
    return GR_OK;
}

gr_status gr_dropout_ref_run(const gr_launch *l)
{
    const gr_dropout_attr *at = (const gr_dropout_attr *)l->node->attr;
    const gr_value *x = l->node->src[0];
    gr_draw d = gr_draw_of(l->scalars, at->stream);
    gr_random_cut cut = gr_random_cut_of(l, &x->shape, at->n_samples);
    double scale = x->dtype == GR_F64 ? 1 / (1 - at->p) : (double)(float)(1 / (1 - at->p));

    for (int64_t i = 0; i < gr_shape_count(&x->shape); i++) {
        uint32_t sample = (uint32_t)(cut.first + (uint64_t)(i / cut.n_elem));
        uint32_t number = gr_draw16_at(&d, sample, at->by_sample ? 0 : i % cut.n_elem);
        double y = gr_element_f64(l->src[0], x->dtype, i) * scale;

        gr_element_put_f64(l->out[0], x->dtype, i, number < at->drop_below ? 0 : y);
    }
    return GR_OK;
}
