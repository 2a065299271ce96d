/*
 * Metrics from counts. Everything here is an array of doubles that starts at zero, is added
 * to batch by batch, and may be added element by element over batches and ranks: the values
 * are those of one pass over all the samples, however they were divided. Whole numbers in a
 * double are exact up to 2^53, so the sums do not depend on any order either (those of
 * gr_metric_error_add are rounded, in double).
 *
 * A value that is not defined (nothing was counted, a class never occurred) is NaN, and means
 * over classes leave such classes out. Nothing here fails, allocates or keeps state; any
 * thread, different arrays at the same time.
 */
#ifndef GRADUS_METRIC_H
#define GRADUS_METRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "gradus/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- confusion matrix: n x n counts, the target is the row, the prediction the column ---- */

/* Adds `count` pairs. A target equal to `ignore` does not count, nor does one outside [0, n)
 * (targets that must be classes are checked where they are loaded); a prediction outside
 * [0, n) counts as none: it does not count either. */
GR_API void gr_metric_confusion_add(double *matrix, int n, const int32_t *target,
                                    const int32_t *predicted, int64_t count, int32_t ignore);

/* How many pairs were counted. */
GR_API double gr_metric_count(const double *matrix, int n);

/* The share of pairs that are equal: accuracy of samples, pixel accuracy of pixels. */
GR_API double gr_metric_accuracy(const double *matrix, int n);

/*
 * Of one class, from its true positives, false positives and false negatives:
 *     precision TP / (TP + FP), recall TP / (TP + FN), f1 and dice 2 TP / (2 TP + FP + FN),
 *     iou TP / (TP + FP + FN)
 * A class is absent when it is neither a target nor a prediction: its values are NaN. For one
 * that is there, 0 / 0 is 0 (the precision of a class that is never predicted), as
 * scikit-learn has it.
 */
typedef enum gr_class_metric {
    GR_METRIC_PRECISION,
    GR_METRIC_RECALL,
    GR_METRIC_F1,
    GR_METRIC_IOU,
    GR_METRIC_DICE
} gr_class_metric;

/* Of class c, from 0 to before n, in a confusion matrix. */
GR_API double gr_metric_of_class(const double *matrix, int n, int c, gr_class_metric metric);

/* The plain ("macro") mean over the classes that are there; NaN when none is. */
GR_API double gr_metric_mean(const double *matrix, int n, gr_class_metric metric);

/* ---- top-k: { right, counted } ---- */

/* Adds `rows` rows of n scores each. A row is right when fewer than k scores come before the
 * target's; the greater comes first, and of equals the first. A target's score that is NaN is
 * never right. k of 1 is the accuracy of argmax. */
typedef struct gr_metric_scores {
    const float *score; /* [rows, n] */
    const int32_t *target;
    int64_t rows;
    int n;
} gr_metric_scores;
GR_API void gr_metric_top_k_add(double counts[2], const gr_metric_scores *s, int k, int32_t ignore);

/* counts[0] / counts[1]: also for any other share. NaN for 0 / 0. */
GR_API double gr_metric_share(const double counts[2]);

/* ---- area under the ROC curve, from histograms of scores ----
 *
 * Of one class: 2 x bins counts, first those of the negatives, then of the positives, by
 * score from 0 to 1. The area is the probability that a positive scores higher than a
 * negative; pairs in one bin count as one half each. So it differs from the exact one by at
 * most half the share of pairs that share a bin, which gr_metric_auc_error() gives: with
 * scores that spread over 4096 bins some 1e-4, and 0 when no bin holds both kinds.
 */

/* Adds `count` scores, score[i * step] being that of target[i]: positive when the target is
 * `yes`; one that is `ignore` does not count, nor does a score that is NaN. Scores outside
 * [0, 1] count as 0 and 1. */
typedef struct gr_metric_truth {
    const int32_t *target;
    int32_t yes, ignore;
} gr_metric_truth;
GR_API void gr_metric_auc_add(double *histogram, int bins, const float *score, int64_t step,
                              const gr_metric_truth *truth, int64_t count);

/* NaN unless there are both positives and negatives. */
GR_API double gr_metric_auc(const double *histogram, int bins);
GR_API double gr_metric_auc_error(const double *histogram, int bins);

/* ---- distances: { sum of |a - b|, sum of (a - b)^2, count } ---- */

/* Adds `count` pairs; what is not finite shows in the sums. */
GR_API void gr_metric_error_add(double counts[3], const float *a, const float *b, int64_t count);
/* The means; NaN of nothing. */
GR_API double gr_metric_mae(const double counts[3]);
GR_API double gr_metric_mse(const double counts[3]);

#ifdef __cplusplus
}
#endif

#endif
