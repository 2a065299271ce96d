/*
 * Samples that differ in length: the sizes of a split, and the order of its batches. Sizes are
 * those of a split's own samples, equal on all ranks.
 */
#include "train/trainer.h"

#include "base/alloc.h"
#include "data/sampler.h"

#include <inttypes.h>

/* ---- sizes ---- */

static gr_status take_lengths(const gr_trainer *t, gr_split split, gr_sizes *sizes)
{
    int64_t lengths[GR_MAX_AXES] = { 0 };

    for (int64_t i = 0; i < t->size[split]; i++) {
        GR_TRY(gr_wrap(t->recipe->data->lengths(t->user, split, i, lengths), "sample %" PRId64, i));
        GR_TRY(gr_sizes_set(sizes, i, lengths));
    }
    return GR_OK;
}

static gr_status make_sizes(gr_trainer *t, gr_split split)
{
    /* Elsewhere a sample beyond the budget is a batch of its own. */
    bool trains = split == GR_SPLIT_TRAIN;
    gr_sizes_limits limits = { .max_tokens = trains ? t->o.token_budget : 0,
                               .whole = trains && t->o.sampler != GR_ORDER_BUCKETED };
    gr_sizes *sizes;

    GR_TRY(gr_sizes_create(&sizes, t->view.axes, t->view.n_axes, t->size[split]));
    t->sizes[split] = sizes;
    GR_TRY(take_lengths(t, split, sizes));
    return gr_sizes_choose(sizes, &limits);
}

gr_status gr_trainer_sizes(gr_trainer *t, gr_split split, const gr_sizes **out)
{
    *out = t->sizes[split];
    if (t->view.n_axes == 0 || *out)
        return GR_OK;
    GR_TRY(gr_wrap(make_sizes(t, split), "%s samples of recipe '%s'", gr_split_name(split),
                   t->recipe->name));
    *out = t->sizes[split];
    return GR_OK;
}

void gr_trainer_close_sizes(gr_trainer *t)
{
    for (int split = 0; split < GR_N_SPLITS; split++) {
        gr_sizes_destroy(t->sizes[split]);
        t->sizes[split] = NULL;
    }
}

/* ---- the order of a split ---- */

int64_t gr_trainer_batch_size(const gr_trainer *t, gr_split split)
{
    int64_t own = split == GR_SPLIT_TRAIN   ? 0
                  : split == GR_SPLIT_VALID ? t->o.valid_batch
                                            : t->o.test_batch;

    return own > 0 ? own : t->o.batch_size;
}

static gr_status open_weighted(const gr_trainer *t, gr_batch_cut cut, gr_order_source **out)
{
    gr_weighted_config c = { .n_samples = t->size[GR_SPLIT_TRAIN],
                             .seed = (uint64_t)t->o.seed,
                             .rank = { t->rank, t->n_ranks },
                             .cut = cut };
    double *weights = gr_calloc((size_t)c.n_samples, sizeof(*weights));
    gr_status st;

    if (!weights)
        return GR_ERR_NOMEM;
    c.weights = weights;
    st = t->recipe->data->weights(t->user, weights);
    if (st == GR_OK)
        st = gr_order_weighted(out, &c);
    gr_free(weights);
    return gr_wrap(st, "--sampler weighted");
}

static gr_status list_epoch(void *arg, int64_t epoch, int64_t *index)
{
    const gr_trainer *t = arg;

    return gr_wrap(t->recipe->data->order(t->user, (uint64_t)t->o.seed, epoch, index),
                   "recipe '%s'", t->recipe->name);
}

/* Of training; batches that come by chance. */
static gr_status open_sampled(gr_trainer *t, gr_order_source **out)
{
    gr_batch_cut cut = { t->o.batch_size, t->o.drop_last };
    gr_sampler_config c = { .n_samples = t->size[GR_SPLIT_TRAIN],
                            .rank = t->rank,
                            .n_ranks = t->n_ranks,
                            .seed = (uint64_t)t->o.seed,
                            .in_order = !t->o.shuffle };
    gr_listed_config listed = { .list = list_epoch,
                                .arg = t,
                                .n_samples = c.n_samples,
                                .rank = { t->rank, t->n_ranks },
                                .cut = cut };

    if (t->o.sampler == GR_ORDER_WEIGHTED)
        return open_weighted(t, cut, out);
    if (t->recipe->data->order && t->o.shuffle)
        return gr_order_listed(out, &listed);
    return gr_order_shuffled(out, &c, cut);
}

gr_status gr_trainer_open_order(gr_trainer *t, gr_split split, gr_order_source **out)
{
    bool trains = split == GR_SPLIT_TRAIN;
    gr_rank rank = { t->rank, t->n_ranks };
    int64_t batch = gr_trainer_batch_size(t, split);
    gr_bucket_config c = { .max_tokens = t->o.token_budget,
                           .max_batch = batch,
                           .multiple = t->o.accumulate,
                           .seed = (uint64_t)t->o.seed,
                           .in_order = !t->o.shuffle,
                           .exact = !trains,
                           .rank = rank };
    const gr_sizes *sizes;
    gr_order_source *plain;

    GR_TRY(gr_trainer_sizes(t, split, &sizes));
    c.sizes = sizes;
    if (sizes && (!trains || t->o.sampler == GR_ORDER_BUCKETED))
        return gr_order_bucketed(out, &c);
    if (!trains)
        return gr_order_exact(out, t->size[split], rank, batch);
    if (!sizes)
        return open_sampled(t, out);
    GR_TRY(open_sampled(t, &plain));
    return gr_order_padded(out, plain, sizes);
}

/* ---- shapes ---- */

typedef struct shapes {
    gr_order_shape_fn *fn;
    void *arg;
    int64_t n_left_out; /* samples of a batch that is never trained on; 0: none */
} shapes;

static gr_status pass_on(void *arg, int64_t n, int k)
{
    const shapes *s = arg;

    return n == s->n_left_out ? GR_OK : s->fn(s->arg, n, k);
}

gr_status gr_trainer_shapes(gr_trainer *t, gr_split split, gr_order_shape_fn *fn, void *arg)
{
    shapes s = { .fn = fn, .arg = arg };
    gr_order_source *source;
    gr_status st;

    if (t->size[split] < 1)
        return GR_OK;
    GR_TRY(gr_trainer_open_order(t, split, &source));
    /* An epoch's last micro-steps make no whole step: the short batch is among them. */
    if (split == GR_SPLIT_TRAIN && source->last_batch < source->max_batch &&
        t->n_micro < source->n_batches)
        s.n_left_out = source->last_batch;
    st = gr_order_shapes(source, pass_on, &s);
    gr_order_source_destroy(source);
    return st;
}
