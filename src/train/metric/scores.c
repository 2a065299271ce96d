/* Metrics of scores: top-k, and the area under the ROC curve from histograms. */
#include "gradus/metric.h"

#include <math.h>

double gr_metric_share(const double counts[2])
{
    return counts[1] > 0 ? counts[0] / counts[1] : (double)NAN;
}

/* How many scores of a row come before the one at `at`; n for NaN, which comes last. */
static int place(const float *row, int n, int at)
{
    int before = 0;

    if (isnan(row[at]))
        return n;
    for (int c = 0; c < n; c++)
        before += row[c] > row[at] || (row[c] == row[at] && c < at);
    return before;
}

void gr_metric_top_k_add(double counts[2], const gr_metric_scores *s, int k, int32_t ignore)
{
    for (int64_t i = 0; i < s->rows; i++) {
        int32_t t = s->target[i];

        if (t == ignore || t < 0 || t >= s->n)
            continue;
        counts[0] += place(s->score + i * s->n, s->n, t) < k;
        counts[1] += 1;
    }
}

void gr_metric_auc_add(double *histogram, int bins, const float *score, int64_t step,
                       const gr_metric_truth *truth, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        float at = score[i * step];
        int bin;

        if (truth->target[i] == truth->ignore || isnan(at))
            continue;
        at = at < 0 ? 0 : at > 1 ? 1 : at;
        bin = (int)((double)at * bins);
        bin = bin < bins ? bin : bins - 1;
        histogram[(truth->target[i] == truth->yes ? bins : 0) + bin] += 1;
    }
}

/* Pairs of a negative and a positive. */
static double all_pairs(const double *histogram, int bins)
{
    double no = 0, yes = 0;

    for (int b = 0; b < bins; b++) {
        no += histogram[b];
        yes += histogram[bins + b];
    }
    return no * yes;
}

double gr_metric_auc(const double *histogram, int bins)
{
    double pairs = all_pairs(histogram, bins), right = 0, below = 0;

    for (int b = 0; b < bins; b++) {
        right += histogram[bins + b] * (below + 0.5 * histogram[b]);
        below += histogram[b];
    }
    return pairs > 0 ? right / pairs : (double)NAN;
}

double gr_metric_auc_error(const double *histogram, int bins)
{
    double pairs = all_pairs(histogram, bins), together = 0;

    for (int b = 0; b < bins; b++)
        together += histogram[b] * histogram[bins + b];
    return pairs > 0 ? 0.5 * together / pairs : (double)NAN;
}
