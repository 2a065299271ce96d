/*
 * Which probabilities are dropped: a function of seed, update, the node as it was traced, the
 * sample's place in the global batch, head, query and key (op/random/draw.h). Never of rank,
 * threads or tiles, so that the backward pass and every kernel find the same ones.
 *
 *     u = Philox(counter: { (head * nq + query) * ceil(nk / 8) + key / 8, sample, update, stream };
 *                key: seed)
 *
 * gives eight numbers of 16 bits. Key j has the half (j % 2) of word (j % 8) / 2, and is dropped
 * when that is below the threshold. What is kept is divided by the exact probability of being
 * kept.
 */
#ifndef GR_OP_ATTENTION_DROP_H
#define GR_OP_ATTENTION_DROP_H

#include "op/attention/attention.h"
#include "op/random/draw.h"

#include <string.h>

typedef struct gr_attention_drop {
    gr_draw draw;
    bool is_batch;      /* the batch dimension is one of samples */
    uint64_t sample;    /* place of the first one here */
    int64_t per_sample; /* entries of the batch dimension */
    int64_t heads, nq;
    uint32_t per_query; /* counters */
    uint32_t threshold; /* of 65536; 0: nothing is dropped */
    double keep;        /* factor of what stays */
} gr_attention_drop;

/* One sample and head. */
typedef struct gr_attention_stream {
    uint32_t key[2];
    uint32_t first, per_query; /* counters: of query 0, from query to query */
    uint32_t rest[3];          /* of the counter */
} gr_attention_stream;

/* All but what the step's scalars say. */
static inline gr_attention_drop gr_attention_drop_plan(const gr_node *n)
{
    const gr_attention_attr *at = (const gr_attention_attr *)n->attr;
    const gr_shape *q = &n->src[0]->shape, *k = &n->src[1]->shape;
    gr_attention_drop d;

    memset(&d, 0, sizeof(d));
    d.keep = 1;
    d.per_sample = 1;
    if (!(at->dropout > 0))
        return d;
    d.draw.stream = at->stream;
    d.is_batch = at->n_samples > 0;
    d.per_sample = d.is_batch ? q->dim[0] / at->n_samples : q->dim[0];
    d.per_sample = d.per_sample > 0 ? d.per_sample : 1;
    d.heads = at->heads;
    d.nq = q->dim[1];
    d.per_query = (uint32_t)((k->dim[1] + 7) / 8);
    d.threshold = (uint32_t)(at->dropout * 65536 + 0.5);
    d.threshold = d.threshold > 65535 ? 65535 : d.threshold;
    d.keep = 65536.0 / (65536 - d.threshold);
    return d;
}

/* The rest. On a GPU to be called by the kernel: the scalars lie in device memory. */
GR_BOTH void gr_attention_drop_bind(gr_attention_drop *d, const gr_scalars *s)
{
    if (d->threshold == 0)
        return;
    d->draw = gr_draw_of(s, d->draw.stream);
    d->sample = d->is_batch ? s->sample : 0;
}

static inline gr_attention_drop gr_attention_drop_of(const gr_launch *l)
{
    gr_attention_drop d = gr_attention_drop_plan(l->node);

    gr_attention_drop_bind(&d, l->scalars);
    return d;
}

GR_BOTH gr_attention_stream gr_attention_stream_of(const gr_attention_drop *d, int64_t b,
                                                   int64_t head)
{
    const int64_t row = (b % d->per_sample * d->heads + head) * d->nq;
    gr_attention_stream st;

    st.key[0] = d->draw.key[0];
    st.key[1] = d->draw.key[1];
    st.first = (uint32_t)row * d->per_query;
    st.per_query = d->per_query;
    st.rest[0] = (uint32_t)(d->sample + (uint64_t)(b / d->per_sample));
    st.rest[1] = d->draw.update;
    st.rest[2] = d->draw.stream;
    return st;
}

/* The factor of one probability: 0 or keep. */
GR_BOTH double gr_attention_kept(const gr_attention_drop *d, const gr_attention_stream *st,
                                 int64_t query, int64_t key)
{
    uint32_t counter[4] = { st->first + (uint32_t)query * st->per_query + (uint32_t)(key / 8),
                            st->rest[0], st->rest[1], st->rest[2] };
    uint32_t u[4];

    if (d->threshold == 0)
        return 1;
    gr_philox(u, counter, st->key);
    return (u[key % 8 / 2] >> (key % 2 * 16) & 0xffff) < d->threshold ? 0 : d->keep;
}

#endif
