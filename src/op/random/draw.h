/*
 * Where a random number inside a step comes from: what every kernel, attention's dropout
 * among them, must agree on, on the CPU and on GPUs.
 *
 * Philox 4x32-10 with key = seed and counter = { block, sample, update, stream }. `stream` is
 * the id of the node that was traced first; it stays in the attributes, so that clones and
 * the backward pass draw the same. Updates and samples wrap around after 2^32.
 *
 * A counter gives four numbers. Element e of a sample takes number (e / 16) % 4 of block
 * e / 64 * 16 + e % 16: 64 neighbours are the four numbers of 16 counters, so that vectors of
 * counters are vectors of elements.
 *
 * With a key per sample its halves stand in the counter in place of sample and update.
 *
 * Dropout takes 16 bits an element, since drawing is what it costs: the numbers of a group, as
 * they lie in memory, are 128 halves, low before high.
 */
#ifndef GR_OP_RANDOM_DRAW_H
#define GR_OP_RANDOM_DRAW_H

#include "base/philox.h"
#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GR_DRAW_GROUP 64 /* elements that come from one vector of counters */

typedef struct gr_draw {
    uint32_t key[2];
    uint32_t update, stream;
} gr_draw;

/* On a GPU to be called by the kernel: the scalars lie in device memory. */
GR_BOTH gr_draw gr_draw_of(const gr_scalars *s, uint32_t stream)
{
    gr_draw d;

    d.key[0] = (uint32_t)s->seed;
    d.key[1] = (uint32_t)(s->seed >> 32);
    d.update = (uint32_t)s->step;
    d.stream = stream;
    return d;
}

/* The numbers of the four elements of a sample that share a counter with element e: e % 16 and
 * 16, 32 and 48 further on in its group. */
GR_BOTH void gr_draw_four(uint32_t out[4], const gr_draw *d, uint32_t sample, int64_t e)
{
    uint32_t counter[4] = { (uint32_t)(e / GR_DRAW_GROUP * 16 + e % 16), sample, d->update,
                            d->stream };

    gr_philox(out, counter, d->key);
}

/* The draw of a sample with a key; *sample is what the counter has in its place. */
GR_BOTH gr_draw gr_draw_keyed(gr_draw d, int64_t key, uint32_t *sample)
{
    d.update = (uint32_t)((uint64_t)key >> 32);
    *sample = (uint32_t)key;
    return d;
}

/* The 32 bits of element e of a sample. */
GR_BOTH uint32_t gr_draw_at(const gr_draw *d, uint32_t sample, int64_t e)
{
    uint32_t out[4];

    gr_draw_four(out, d, sample, e);
    return out[e / 16 % 4];
}

/* The 16 bits of element e of a sample, for dropout. */
GR_BOTH uint32_t gr_draw16_at(const gr_draw *d, uint32_t sample, int64_t e)
{
    int64_t word = e / (2 * GR_DRAW_GROUP) * GR_DRAW_GROUP + e % (2 * GR_DRAW_GROUP) / 2;

    return gr_draw_at(d, sample, word) >> (e % 2 * 16) & 0xffff;
}

/* What numbers of 16 bits are below with probability p. */
GR_BOTH uint32_t gr_draw16_below(double p)
{
    return (uint32_t)(p * 65536 + 0.5);
}

/* How many samples a value of this shape holds when the batch has n_batch of them: n_batch,
 * or 0 when it belongs to the whole batch. */
static inline int64_t gr_draw_samples(const gr_shape *s, int64_t n_batch)
{
    return n_batch > 0 && s->n_dims > 0 && s->dim[0] > 0 && s->dim[0] % n_batch == 0 ? n_batch : 0;
}

/* The batch of a trace: dimension 0 of the first feed that has one; 0: none. */
static inline int64_t gr_draw_batch(const gr_graph *g)
{
    for (int i = 0; i < g->n_feeds; i++)
        if (g->feeds[i].shape.n_dims > 0)
            return g->feeds[i].shape.dim[0];
    return 0;
}

#ifdef __cplusplus
}
#endif

#endif
