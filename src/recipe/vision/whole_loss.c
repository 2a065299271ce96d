/*
 * The criterion of a whole split. A mean of the batches' losses would depend on how the split
 * is cut into batches and ranks: where pixels are ignored or classes weighted, batches do not
 * count alike, and dice is a quotient of sums. So an evaluation gives out, for each sample, the
 * sums that the losses are made of; they are added up over all samples and ranks, in double,
 * and the loss is made of the totals.
 *
 *   cross_entropy, bce, focal   sum of losses, how much counts (pixels, or weights of classes)
 *   dice                        of each class: sum of p y, of p, of y
 *
 * Of classes of pictures each counts as one, and nothing needs to say so; the usual case is then
 * one column, and no operator but those of the loss itself.
 */
#include "recipe/vision/vision.h"

#include "gradus/index.h"
#include "gradus/loss.h"
#include "gradus/ops.h"

#include <string.h>

/* Whether what counts must be counted. */
static bool is_counted(const gr_vision_criterion *c, const gr_vision_term *t)
{
    return !c->all_count || t->class_weight;
}

static int n_sums_of(const gr_vision_criterion *c, const gr_vision_term *t, int n_out)
{
    return t->loss == GR_LOSS_DICE ? 3 * n_out : is_counted(c, t) ? 2 : 1;
}

int gr_vision_n_sums(const gr_vision_criterion *c, int n_out)
{
    int n = 0;

    for (int i = 0; i < c->n_terms; i++)
        n += n_sums_of(c, &c->terms[i], n_out);
    return n;
}

/* What the terms read. */
typedef struct sources {
    gr_graph *g;
    gr_value *logits, *target;
    gr_value *valid; /* 0 where ignored, [n, .., 1] */
    gr_value *truth; /* 0 and 1, of the logits' shape; 0 where ignored */
    int64_t n_out;
    int32_t ignore;
} sources;

/* [n, .., k] to [n, k]: sums over the pixels of each sample. */
static gr_value *of_samples(const sources *s, gr_value *v)
{
    int n_dims = v ? gr_value_shape(v).n_dims : 0;

    return n_dims > 2 ? gr_sum(s->g, v, (GR_AXIS(n_dims - 1) - 1) & ~GR_AXIS(0), false) : v;
}

/* The same of [n, .., k] to [n, 1]. */
static gr_value *all_of_samples(const sources *s, gr_value *v)
{
    return gr_sum(s->g, of_samples(s, v), GR_AXIS(1), true);
}

static void cross_entropy(const sources *s, const gr_vision_term *t, gr_value **out)
{
    gr_cross_entropy_options o = GR_CROSS_ENTROPY_INIT;
    gr_value *each;

    o.ignore_index = s->ignore;
    o.label_smoothing = t->label_smoothing;
    if (t->class_weight)
        o.weight = gr_constant(s->g, GR_F32, GR_SHAPE(s->n_out), t->class_weight);
    each = gr_cross_entropy_each(s->g, s->logits, s->target, &o);
    out[0] = of_samples(s, gr_unsqueeze(s->g, each, -1));
    out[1] = t->class_weight ? all_of_samples(s, gr_mul(s->g, s->truth, o.weight))
                             : of_samples(s, s->valid);
}

/* The mean is over classes, too: what counts, counts once for each. */
static void yes_or_no(const sources *s, const gr_vision_term *t, gr_value **out)
{
    gr_value *pos = t->pos_weight == 1 ? NULL : gr_fill(s->g, GR_F32, GR_SCALAR, t->pos_weight);
    gr_value *each = t->loss == GR_LOSS_BCE
                         ? gr_bce_logits_each(s->g, s->logits, s->truth, pos)
                         : gr_focal_each(s->g, s->logits, s->truth, t->alpha, t->gamma);

    out[0] = all_of_samples(s, gr_mul(s->g, each, s->valid));
    out[1] = gr_mul_k(s->g, of_samples(s, s->valid), (double)s->n_out);
}

static void dice(const sources *s, gr_value **out)
{
    gr_value *p = gr_mul(s->g, gr_sigmoid(s->g, s->logits), s->valid);

    out[0] = of_samples(s, gr_mul(s->g, p, s->truth));
    out[1] = of_samples(s, p);
    out[2] = of_samples(s, s->truth);
}

gr_value *gr_vision_sums_build(const gr_vision_criterion *c, gr_graph *g, gr_value *logits,
                               gr_value *target)
{
    gr_value *parts[3 * GR_VISION_MAX_TERMS];
    sources s = { .g = g, .target = target, .ignore = c->ignore };
    gr_shape shape = gr_value_shape(logits);
    int n = 0;

    s.logits = gr_cast(g, logits, GR_F32);
    s.n_out = shape.dim[shape.n_dims - 1];
    s.valid = gr_cast(g, gr_unsqueeze(g, gr_ne_k(g, target, c->ignore), -1), GR_F32);
    s.truth = s.n_out == 1 ? gr_unsqueeze(g, gr_cast(g, target, GR_F32), -1)
                           : gr_one_hot(g, target, s.n_out, GR_F32);
    s.truth = gr_mul(g, s.truth, s.valid);
    for (int i = 0; i < c->n_terms; i++) {
        const gr_vision_term *t = &c->terms[i];

        if (t->loss == GR_LOSS_CE)
            cross_entropy(&s, t, parts + n);
        else if (t->loss == GR_LOSS_DICE)
            dice(&s, parts + n);
        else
            yes_or_no(&s, t, parts + n);
        n += t->loss == GR_LOSS_DICE ? 3 : is_counted(c, t) ? 2 : 1;
    }
    return n == 1 ? parts[0] : gr_concat(g, parts, n, 1);
}

static double dice_of(const gr_vision_term *t, int n_out, const double *sums)
{
    double mean = 0;

    for (int k = 0; k < n_out; k++)
        mean += (2 * sums[k] + t->smooth) / (sums[n_out + k] + sums[2 * n_out + k] + t->smooth);
    return 1 - mean / n_out;
}

/* 0, not NaN, where everything is ignored, as in training. */
static double mean_of(double sum, double count)
{
    return sum == 0 && count == 0 ? 0 : sum / count;
}

double gr_vision_whole_loss(const gr_vision_criterion *c, int n_out, double n_samples,
                            const double *sums)
{
    double loss = 0;

    for (int i = 0; i < c->n_terms; i++) {
        const gr_vision_term *t = &c->terms[i];
        double one;

        if (t->loss == GR_LOSS_DICE)
            one = dice_of(t, n_out, sums);
        else if (is_counted(c, t))
            one = mean_of(sums[0], sums[1]);
        else
            one = mean_of(sums[0], n_samples * (t->loss == GR_LOSS_CE ? 1 : n_out));
        loss += t->weight * one;
        sums += n_sums_of(c, t, n_out);
    }
    return loss;
}
