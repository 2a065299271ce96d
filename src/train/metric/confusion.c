/* The confusion matrix and what follows from it: all of a class is in its row and column. */
#include "gradus/metric.h"

#include <math.h>
#include <stddef.h>

void gr_metric_confusion_add(double *matrix, int n, const int32_t *target, const int32_t *predicted,
                             int64_t count, int32_t ignore)
{
    for (int64_t i = 0; i < count; i++) {
        int32_t t = target[i], p = predicted[i];

        if (t != ignore && t >= 0 && t < n && p >= 0 && p < n)
            matrix[(ptrdiff_t)t * n + p] += 1;
    }
}

double gr_metric_count(const double *matrix, int n)
{
    double sum = 0;

    for (ptrdiff_t i = 0; i < (ptrdiff_t)n * n; i++)
        sum += matrix[i];
    return sum;
}

double gr_metric_accuracy(const double *matrix, int n)
{
    double counts[2] = { 0, gr_metric_count(matrix, n) };

    for (int c = 0; c < n; c++)
        counts[0] += matrix[(ptrdiff_t)c * n + c];
    return gr_metric_share(counts);
}

double gr_metric_of_class(const double *matrix, int n, int c, gr_class_metric metric)
{
    double row = 0, column = 0, both = matrix[(ptrdiff_t)c * n + c];
    double above = both, below = 0;

    for (int i = 0; i < n; i++) {
        row += matrix[(ptrdiff_t)c * n + i];
        column += matrix[(ptrdiff_t)i * n + c];
    }
    if (row + column == 0)
        return (double)NAN;
    switch (metric) {
    case GR_METRIC_PRECISION: below = column; break;
    case GR_METRIC_RECALL: below = row; break;
    case GR_METRIC_IOU: below = row + column - both; break;
    case GR_METRIC_F1:
    case GR_METRIC_DICE:
        above = 2 * both;
        below = row + column;
        break;
    }
    return below > 0 ? above / below : 0;
}

double gr_metric_mean(const double *matrix, int n, gr_class_metric metric)
{
    double sum = 0;
    int n_there = 0;

    for (int c = 0; c < n; c++) {
        double value = gr_metric_of_class(matrix, n, c, metric);

        if (isnan(value))
            continue;
        sum += value;
        n_there++;
    }
    return n_there ? sum / n_there : (double)NAN;
}
