/*
 * Losses and what counts classes. See graph.h for failures, lifetimes and threads.
 *
 * Builders that end in _each give one loss per element or row, to be weighted and reduced by
 * the caller; those of the plain name give the mean, a scalar, as PyTorch's functions do.
 * Logits of classes have the class last: [.., c] with labels [..]. Results are f32 (f64 for f64);
 * in mixed precision too, as long as one of two sources is f32, as targets are.
 */
#ifndef GRADUS_LOSS_H
#define GRADUS_LOSS_H

#include "gradus/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- cross-entropy ---- */

typedef struct gr_cross_entropy_options {
    int64_t ignore_index;   /* rows with this label do not count; need not be a class */
    double label_smoothing; /* e: (1 - e) of the label, e / c of every class */
    gr_value *weight;       /* of the classes, [c] of f32; or NULL */
} gr_cross_entropy_options; /* NULL wherever they are asked for: as GR_CROSS_ENTROPY_INIT */

#define GR_CROSS_ENTROPY_INIT \
    {                         \
        -100, 0.0, NULL       \
    }

/* One loss per label, 0 where it is ignored. Other labels outside [0, c) fail the run. */
#define gr_cross_entropy_each(g, logits, labels, ...) \
    gr_cross_entropy_each_at(GR_HERE, g, logits, labels, __VA_ARGS__)
GR_API gr_value *gr_cross_entropy_each_at(const char *site, gr_graph *g, gr_value *logits,
                                          gr_value *labels, const gr_cross_entropy_options *o);

/* The sum of the losses, and in *count how many labels were not ignored (with weights: the sum
 * of theirs), both f32 scalars: for a mean over more than this rank's batch. */
#define gr_cross_entropy_parts(g, logits, labels, options, ...) \
    gr_cross_entropy_parts_at(GR_HERE, g, logits, labels, options, __VA_ARGS__)
GR_API gr_value *gr_cross_entropy_parts_at(const char *site, gr_graph *g, gr_value *logits,
                                           gr_value *labels, const gr_cross_entropy_options *o,
                                           gr_value **count);

/* Sum over count, as PyTorch's mean; but 0, not NaN, when every label is ignored: one such
 * batch must not end a training. */
#define gr_cross_entropy_mean(g, logits, labels, ...) \
    gr_cross_entropy_mean_at(GR_HERE, g, logits, labels, __VA_ARGS__)
GR_API gr_value *gr_cross_entropy_mean_at(const char *site, gr_graph *g, gr_value *logits,
                                          gr_value *labels, const gr_cross_entropy_options *o);

/* sum / count of two floating scalars, 0 over 0 is 0: how a loss of one's own says what it is the
 * mean of, so that loss_reduction global (gradus/step.h) can count over all ranks. */
#define gr_counted_mean(g, sum, count) gr_counted_mean_at(GR_HERE, g, sum, count)
GR_API gr_value *gr_counted_mean_at(const char *site, gr_graph *g, gr_value *sum, gr_value *count);

/* - sum over c of target log softmax(logits), for targets [.., c] that are probabilities. */
#define gr_soft_cross_entropy_each(g, logits, target) \
    gr_soft_cross_entropy_each_at(GR_HERE, g, logits, target)
#define gr_soft_cross_entropy(g, logits, target) \
    gr_mean(g, gr_soft_cross_entropy_each(g, logits, target), GR_AXES_ALL, false)
GR_API gr_value *gr_soft_cross_entropy_each_at(const char *site, gr_graph *g, gr_value *logits,
                                               gr_value *target);

/* Sum over the last dimension of p log p, p = softmax(logits): the entropy, negative. [..] */
#define gr_neg_entropy(g, logits) gr_neg_entropy_at(GR_HERE, g, logits)
GR_API gr_value *gr_neg_entropy_at(const char *site, gr_graph *g, gr_value *logits);

/* Entropy weighted by a map w [..]: with e = w sum of p log p, - sum of e over how many e are
 * not 0; 0 when all are. */
#define gr_entropy_loss(g, logits, w) gr_entropy_loss_at(GR_HERE, g, logits, w)
GR_API gr_value *gr_entropy_loss_at(const char *site, gr_graph *g, gr_value *logits, gr_value *w);

/* target (log target - log_p), 0 where target is 0; the classes last and log_p a log_softmax.
 * The mean is PyTorch's "batchmean" over [n, c] times n over rows: divide as needed. */
#define gr_kl_each(g, log_p, target) gr_kl_each_at(GR_HERE, g, log_p, target)
GR_API gr_value *gr_kl_each_at(const char *site, gr_graph *g, gr_value *log_p, gr_value *target);

/* ---- yes or no ---- */

/* -log sigmoid(z) for target 1, -log(1 - sigmoid(z)) for 0, in between mixed. pos_weight (NULL:
 * 1) multiplies the first part and broadcasts with z. */
#define gr_bce_logits_each(g, z, target, pos_weight) \
    gr_bce_logits_each_at(GR_HERE, g, z, target, pos_weight)
#define gr_bce_logits(g, z, target) \
    gr_mean(g, gr_bce_logits_each(g, z, target, NULL), GR_AXES_ALL, false)
GR_API gr_value *gr_bce_logits_each_at(const char *site, gr_graph *g, gr_value *z, gr_value *target,
                                       gr_value *pos_weight);

/* bce (1 - p_t)^gamma, p_t the probability of the truth; alpha weighs target 1 and 1 - alpha
 * target 0 (negative: neither). */
#define gr_focal_each(g, z, target, alpha, gamma) \
    gr_focal_each_at(GR_HERE, g, z, target, alpha, gamma)
#define gr_focal(g, z, target, alpha, gamma) \
    gr_mean(g, gr_focal_each(g, z, target, alpha, gamma), GR_AXES_ALL, false)
GR_API gr_value *gr_focal_each_at(const char *site, gr_graph *g, gr_value *z, gr_value *target,
                                  double alpha, double gamma);

/* 1 - the mean over classes of (2 sum p y + s) / (sum p + sum y + s), p = sigmoid(logits), sums
 * over everything but the last dimension, which is the class. */
#define gr_dice(g, logits, target, s) gr_dice_at(GR_HERE, g, logits, target, s)
GR_API gr_value *gr_dice_at(const char *site, gr_graph *g, gr_value *logits, gr_value *target,
                            double s);

/* ---- distances; a and b broadcast, d = a - b ---- */

/* d^2. */
#define gr_mse_each(g, a, b) gr_mse_each_at(GR_HERE, g, a, b)
#define gr_mse(g, a, b)      gr_mean(g, gr_mse_each(g, a, b), GR_AXES_ALL, false)
GR_API gr_value *gr_mse_each_at(const char *site, gr_graph *g, gr_value *a, gr_value *b);

/* |d|. */
#define gr_l1_each(g, a, b) gr_l1_each_at(GR_HERE, g, a, b)
#define gr_l1(g, a, b)      gr_mean(g, gr_l1_each(g, a, b), GR_AXES_ALL, false)
GR_API gr_value *gr_l1_each_at(const char *site, gr_graph *g, gr_value *a, gr_value *b);

/* d^2 / 2 beta below beta, else |d| - beta / 2; beta > 0. */
#define gr_smooth_l1_each(g, a, b, beta) gr_smooth_l1_each_at(GR_HERE, g, a, b, beta)
#define gr_smooth_l1(g, a, b, beta)      gr_mean(g, gr_smooth_l1_each(g, a, b, beta), GR_AXES_ALL, false)
GR_API gr_value *gr_smooth_l1_each_at(const char *site, gr_graph *g, gr_value *a, gr_value *b,
                                      double beta);

/* d^2 / 2 up to delta, else delta (|d| - delta / 2); delta > 0. */
#define gr_huber_each(g, a, b, delta) gr_huber_each_at(GR_HERE, g, a, b, delta)
#define gr_huber(g, a, b, delta)      gr_mean(g, gr_huber_each(g, a, b, delta), GR_AXES_ALL, false)
GR_API gr_value *gr_huber_each_at(const char *site, gr_graph *g, gr_value *a, gr_value *b,
                                  double delta);

/* sum of mask d^2 over the sum of mask; 0 when that is 0. A mask that is stretched over d (one
 * for three channels) counts once, so the result is that many times the mean. */
#define gr_masked_mse(g, a, b, mask) gr_masked_mse_at(GR_HERE, g, a, b, mask)
GR_API gr_value *gr_masked_mse_at(const char *site, gr_graph *g, gr_value *a, gr_value *b,
                                  gr_value *mask);

/* sum of mask w k d^2 over the sum of mask; 0 when that is 0. a and b are images [n, h, w, 3], d
 * the difference in YCbCr, k = 1, 1/2, 1/2 by channel, w JPEG's: reciprocals of its table of 8 x 8
 * at that quality (1 to 100), the greatest 1, the table stretched over the whole image, so that
 * each entry has an eighth of its height and width. mask [n, h, w, 1] counts once for all channels;
 * NULL: every pixel counts. */
#define gr_jpeg_mse(g, a, b, mask, quality) gr_jpeg_mse_at(GR_HERE, g, a, b, mask, quality)
GR_API gr_value *gr_jpeg_mse_at(const char *site, gr_graph *g, gr_value *a, gr_value *b,
                                gr_value *mask, int quality);

/* ---- classes ---- */

/* labels [..] (i32, i64 or u8) -> [.., n] with 1 at the label, else 0; a label outside [0, n)
 * gives zeros. */
#define gr_one_hot(g, labels, n, dtype) gr_one_hot_at(GR_HERE, g, labels, n, dtype)
GR_API gr_value *gr_one_hot_at(const char *site, gr_graph *g, gr_value *labels, int64_t n,
                               gr_dtype t);

/* i64 [n, n]: how often target (row) was predicted as (column), over two values of one shape
 * (i32, i64 or u8). Targets outside [0, n) do not count (an ignored label); another prediction
 * fails the run. */
#define gr_confusion(g, target, predicted, n) gr_confusion_at(GR_HERE, g, target, predicted, n)
GR_API gr_value *gr_confusion_at(const char *site, gr_graph *g, gr_value *target,
                                 gr_value *predicted, int64_t n);

/* ---- terms ---- */

/*
 * A loss as a term: sums over samples, and a formula that makes one number of them. A mean is the
 * quotient of two sums, dice of three, each a vector with a place for every class.
 *
 *     gr_loss_sum sums[] = { { "error", .each = each }, { "count", .each = mask } };
 *     gr_loss_add(g, &(gr_loss_term){ "distance", 0.5, sums, 2, "error / count" });
 *
 * In training the terms, each times its weight, add up to the loss (gr_loss() is not called then).
 * The sums are those of this rank's batch, or with loss_reduction global of all ranks; over
 * micro-steps that works for means alone. In evaluation the same calls give out the sums of every
 * sample; they are added exactly over batches and ranks, and the formula is applied to the totals,
 * in double. So the loss of a split does not depend on how it is cut into batches, and is written
 * once. The trainer records each term by its name, "loss/distance", without its weight, where there
 * are several. A term of weight 0 is left out.
 *
 * A formula has numbers, the names of the sums, + - * / and parentheses, and the functions mean
 * and sum (of a vector's elements), sqrt, exp and log. A quotient of two numbers that are
 * computed is its dividend where the divisor is 0: a mean over nothing is 0.
 */
typedef struct gr_loss_sum {
    const char *name; /* in the formula: letters, digits and _ */
    gr_value *each;   /* what is added up, [n, ..] with the batch first, of any type: true is 1.
                         NULL: `constant` for each sample */
    bool by_class;    /* for each index of the last dimension a sum of its own: a vector */
    double constant;
} gr_loss_sum;

typedef struct gr_loss_term {
    const char *name;
    double weight;
    const gr_loss_sum *sums;
    int n_sums; /* at most 16 */
    const char *formula;
} gr_loss_term;

/* Adds a term. A wrong one, or a formula that cannot be read, is the failure of the graph. */
#define gr_loss_add(g, ...) gr_loss_add_at(GR_HERE, g, __VA_ARGS__)
GR_API void gr_loss_add_at(const char *site, gr_graph *g, const gr_loss_term *t);

/* gr_cross_entropy_mean() as a term; with NULL for options gr_cross_entropy(): every label counts.
 */
#define gr_loss_add_cross_entropy(g, name, weight, logits, labels, ...) \
    gr_loss_add_cross_entropy_at(GR_HERE, g, name, weight, logits, labels, __VA_ARGS__)
GR_API void gr_loss_add_cross_entropy_at(const char *site, gr_graph *g, const char *name,
                                         double weight, gr_value *logits, gr_value *labels,
                                         const gr_cross_entropy_options *o);
/* The mean of `each` [n, ..], as gr_mean() has it, or of what `mask` leaves of it: 0 or 1, or
 * weights, [n, ..] that broadcasts over `each`; NULL: all. */
#define gr_loss_add_mean(g, name, weight, each, mask) \
    gr_loss_add_mean_at(GR_HERE, g, name, weight, each, mask)
GR_API void gr_loss_add_mean_at(const char *site, gr_graph *g, const char *name, double weight,
                                gr_value *each, gr_value *mask);
/* gr_dice() as a term. */
#define gr_loss_add_dice(g, name, weight, logits, target, smooth) \
    gr_loss_add_dice_at(GR_HERE, g, name, weight, logits, target, smooth)
GR_API void gr_loss_add_dice_at(const char *site, gr_graph *g, const char *name, double weight,
                                gr_value *logits, gr_value *target, double smooth);

typedef enum gr_record_kind {
    GR_RECORD_MEAN, /* over samples, micro-steps and ranks */
    GR_RECORD_SUM,
    GR_RECORD_MAX
} gr_record_kind;

/* A number that is no loss and shall be recorded (the share of a mask, the norm of a feature): a
 * scalar of the batch, or one for each sample. */
#define gr_record(g, name, v, kind) gr_record_at(GR_HERE, g, name, v, kind)
GR_API void gr_record_at(const char *site, gr_graph *g, const char *name, gr_value *v,
                         gr_record_kind kind);

#ifdef __cplusplus
}
#endif

#endif
