/* The CPU kernels of random and dropout. */
#ifndef GR_OP_RANDOM_KERNELS_H
#define GR_OP_RANDOM_KERNELS_H

#include "op/random/draw.h"
#include "op/random/random.h"
#include "op/random/span.h"

#define GR_RANDOM_TILE 1024 /* elements, a multiple of GR_DRAW_GROUP */

/* The numbers of n_groups groups of a sample, from group `first` on: 64 for each. */
typedef void gr_random_fill_fn(uint32_t *dst, const gr_draw *d, uint32_t sample, int64_t first,
                               int64_t n_groups);

/* Where uniform numbers lie. Adding up rounds, which must not reach the end of the range. */
typedef struct gr_random_span {
    float unit, from, most;
} gr_random_span;

/* What an instruction set brings. */
typedef struct gr_random_isa {
    gr_random_fill_fn *fill;
    /* y = number < below ? 0 : x * scale */
    void (*drop)(float *y, const float *x, const uint16_t *number, uint32_t below, float scale,
                 int64_t n);
    /* from + (number >> shift) * unit, but no more than most */
    void (*uniform)(float *y, const uint32_t *number, int shift, const gr_random_span *span,
                    int64_t n);
    /* Pairs of numbers 16 apart, in groups of 32, by Box and Muller; n is a multiple of 32. */
    void (*normal)(float *y, const uint32_t *number, float mean, float std, int64_t n);
} gr_random_isa;

extern const gr_random_isa gr_random_avx512, gr_random_avx2;

/* How many samples there are, and elements in each. */
typedef struct gr_random_cut {
    int64_t n_samples, n_elem;
    uint64_t first; /* the position of sample 0 in the global batch */
} gr_random_cut;

static inline gr_random_cut gr_random_cut_of(const gr_launch *l, const gr_shape *s,
                                             int64_t n_samples)
{
    gr_random_cut cut;

    cut.n_samples = n_samples == 0 ? 1 : n_samples;
    cut.n_elem = gr_shape_count(s) / cut.n_samples;
    cut.first = n_samples == 0 ? 0 : l->scalars->sample;
    return cut;
}

/* The draw of sample s of the cut, and the counter's word for it: by its key, where there are
 * some. */
static inline gr_draw gr_random_draw_of(const gr_launch *l, const gr_draw *d,
                                        const gr_random_cut *cut, int64_t s, uint32_t *sample)
{
    if (l->node->n_src == 1 && l->node->op == &gr_op_random)
        return gr_draw_keyed(*d, ((const int64_t *)l->src[0])[s], sample);
    *sample = (uint32_t)(cut->first + (uint64_t)s);
    return *d;
}

gr_status gr_random_ref_run(const gr_launch *l) GR_MUST_CHECK;
gr_status gr_dropout_ref_run(const gr_launch *l) GR_MUST_CHECK;

/* Rows lo .. hi-1 of permutations: the same code for every kernel. */
void gr_random_perm_rows(const gr_launch *l, int64_t lo, int64_t hi);

#endif
