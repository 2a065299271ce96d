/*
 * Which probabilities are dropped: a function of seed, step, micro-step, the forward node's id,
 * the sample's place in the global batch, head, query and key. Never of rank, threads or
 * tiles, so that the backward pass and every kernel find the same ones.
 *
 *     a = Philox(counter: step, node, micro;         key: seed)
 *     s = Philox(counter: sample, head, a[2];        key: a[0], a[1])    one per sample and head
 *     u = Philox(counter: key / 8, query, s[2], s[3]; key: s[0], s[1])   eight numbers of 16 bits
 *
 * Key j has the half (j % 2) of word (j % 8) / 2 of u, and is dropped when that is below the
 * threshold. What is kept is divided by the exact probability of being kept.
 */
#ifndef GR_OP_ATTENTION_DROP_H
#define GR_OP_ATTENTION_DROP_H

#include "base/random.h"
#include "op/attention/attention.h"

#include <string.h>

typedef struct gr_attention_drop {
    uint32_t node[4];   /* a */
    uint64_t sample;    /* of the first one here */
    uint32_t threshold; /* of 65536; 0: nothing is dropped */
    double keep;        /* factor of what stays */
} gr_attention_drop;

/* One sample and head. */
typedef struct gr_attention_stream {
    uint32_t s[4];
} gr_attention_stream;

static inline gr_attention_drop gr_attention_drop_of(const gr_launch *l, uint32_t node_id)
{
    const gr_attention_attr *at = (const gr_attention_attr *)l->node->attr;
    const gr_scalars *k = l->scalars;
    gr_attention_drop d;
    uint32_t counter[4], key[2];

    memset(&d, 0, sizeof(d));
    d.keep = 1;
    if (!(at->dropout > 0))
        return d;
    counter[0] = (uint32_t)k->step;
    counter[1] = (uint32_t)(k->step >> 32);
    counter[2] = node_id;
    counter[3] = k->micro;
    key[0] = (uint32_t)k->seed;
    key[1] = (uint32_t)(k->seed >> 32);
    gr_philox(d.node, counter, key);
    d.sample = k->sample;
    d.threshold = (uint32_t)(at->dropout * 65536 + 0.5);
    d.threshold = d.threshold > 65535 ? 65535 : d.threshold;
    d.keep = 65536.0 / (65536 - d.threshold);
    return d;
}

static inline gr_attention_stream gr_attention_stream_of(const gr_attention_drop *d, int64_t b,
                                                         int64_t head)
{
    uint64_t sample = d->sample + (uint64_t)b;
    uint32_t counter[4] = { (uint32_t)sample, (uint32_t)(sample >> 32), (uint32_t)head,
                            d->node[2] };
    gr_attention_stream st;

    gr_philox(st.s, counter, d->node);
    return st;
}

/* The eight numbers of keys 8c to 8c + 7. */
static inline void gr_attention_draw(uint32_t u[4], const gr_attention_stream *st, uint32_t query,
                                     uint32_t c)
{
    uint32_t counter[4] = { c, query, st->s[2], st->s[3] };

    gr_philox(u, counter, st->s);
}

/* The factor of one probability: 0 or keep. */
static inline double gr_attention_kept(const gr_attention_drop *d, const gr_attention_stream *st,
                                       int64_t query, int64_t key)
{
    uint32_t u[4];

    if (d->threshold == 0)
        return 1;
    gr_attention_draw(u, st, (uint32_t)query, (uint32_t)(key / 8));
    return (u[key % 8 / 2] >> (key % 2 * 16) & 0xffff) < d->threshold ? 0 : d->keep;
}

#endif
