/*
 * Taps: for each place of a result along one axis, which places of the source it looks at
 * and with what weight. Pooling and resizing are two such tables, one per axis; their
 * gradients are the same tables inverted, so that a gradient, too, is a sum that one
 * thread does in one order.
 */
#ifndef GR_OP_TAPS_H
#define GR_OP_TAPS_H

#include "base/status.h"

#include <stdint.h>

typedef struct gr_tap {
    int64_t at;  /* place in the source */
    int code;    /* for max pooling: which element of the window */
    float w;     /* weight */
    double wide; /* the same, for the reference */
} gr_tap;

/* Taps of place i: tap[first[i]] .. tap[first[i + 1] - 1], by rising place; one block of
 * memory, freed with gr_free(). */
typedef struct gr_taps {
    int64_t n;
    int64_t *first;
    gr_tap *tap;
} gr_taps;

/* Room for n places and n_taps taps; everything is zero. */
gr_status gr_taps_create(gr_taps **out, int64_t n, int64_t n_taps) GR_MUST_CHECK;
/* For each of `n` source places the result places that look at it. */
gr_status gr_taps_invert(gr_taps **out, const gr_taps *t, int64_t n) GR_MUST_CHECK;

#endif
