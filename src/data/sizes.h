/*
 * Lengths of samples, and the sizes that batches of them are padded to.
 *
 * A sample has a length on each axis (residues, fragments). A size is a padded length on every
 * axis; each sample has the cheapest one that holds it. Each size costs a plan of the step, so
 * there are few, chosen so that the samples have as few padded tokens as possible:
 *
 * (1) Lengths are rounded up to the axis' multiple, which leaves far fewer than there are samples.
 * (2) Sorted by tokens, or by one axis, neighbours that share a size are a stretch of the list; the
 *     best cut into stretches is found by dynamic programming. With one axis that is the best
 *     there is.
 * (3) With several, samples then go to the cheapest size that holds them, sizes shrink to what
 *     they hold, and whatever is better with another size is tried, until nothing gets better.
 *
 * A function of the lengths alone, in whole numbers: equal on all ranks. One thread makes it; it
 * does not change then, and any thread may read it.
 */
#ifndef GR_DATA_SIZES_H
#define GR_DATA_SIZES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "gradus/data.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GR_MAX_AXES         8
#define GR_SIZES_MOST       12
#define GR_AXIS_MULTIPLE    8
#define GR_SIZES_LENGTH_MAX 2147483647 /* of a sample */

typedef struct gr_sizes {
    int n_axes;
    gr_axis axes[GR_MAX_AXES]; /* names are borrowed; `multiple` is at least 1 */
    int64_t n_samples;
    int32_t *lengths; /* owned: n_samples x n_axes */

    int n_sizes;
    int64_t *size;   /* owned: n_sizes x n_axes, by rising tokens */
    int64_t *tokens; /* owned: n_sizes, of one sample */
    int32_t *kind;   /* owned: n_samples: the first size that holds it */
} gr_sizes;

/* All lengths are 0 at first. An axis whose cost is 0 counts no tokens, but each counts if all are
 * 0. GR_ERR_ARG for axes that make no sense. The caller owns *out. */
gr_status gr_sizes_create(gr_sizes **out, const gr_axis *axes, int n_axes,
                          int64_t n_samples) GR_MUST_CHECK;
void gr_sizes_destroy(gr_sizes *s); /* NULL is fine */

/* The lengths of sample i, one per axis. GR_ERR_ARG names a length that the axis does not allow. */
gr_status gr_sizes_set(gr_sizes *s, int64_t i, const int64_t *lengths) GR_MUST_CHECK;

typedef struct gr_sizes_limits {
    int most;           /* sizes; 0: GR_SIZES_MOST */
    int64_t max_tokens; /* of a sample at its size; 0: any */
    bool whole;         /* one of them holds all samples: for batches that come by chance */
} gr_sizes_limits;

/* After all lengths are set: chooses the sizes. GR_ERR_ARG names a sample that has more tokens. */
gr_status gr_sizes_choose(gr_sizes *s, const gr_sizes_limits *limits) GR_MUST_CHECK;
/* Instead, with one axis: a size for each multiple that occurs, however many there are; the
 * largest is max_tokens where rounding leads beyond it. */
gr_status gr_sizes_by_multiples(gr_sizes *s, int64_t max_tokens) GR_MUST_CHECK;

/* Whether sample i can be padded to size k; the first size that holds all of n samples. */
bool gr_sizes_holds(const gr_sizes *s, int k, int64_t i);
int gr_sizes_of_batch(const gr_sizes *s, const int64_t *index, int64_t n);
/* Padded tokens of all samples, each at its own size. */
int64_t gr_sizes_total(const gr_sizes *s);
/* What a length is padded to if it is alone. */
int64_t gr_axis_padded(const gr_axis *axis, int64_t length);
/* Of a sample of these lengths; rounded up to whole ones. */
int64_t gr_sizes_tokens(const gr_sizes *s, const int64_t *lengths);

#ifdef __cplusplus
}
#endif

#endif
