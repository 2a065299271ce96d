/* Mean absolute and mean squared difference. */
#include "gradus/metric.h"

#include <math.h>

void gr_metric_error_add(double counts[3], const float *a, const float *b, int64_t count)
{
    double sum = 0, square = 0;

    for (int64_t i = 0; i < count; i++) {
        double d = (double)a[i] - (double)b[i];

        sum += fabs(d);
        square += d * d;
    }
    counts[0] += sum;
    counts[1] += square;
    counts[2] += (double)count;
}

double gr_metric_mae(const double counts[3])
{
    return counts[2] > 0 ? counts[0] / counts[2] : (double)NAN;
}

double gr_metric_mse(const double counts[3])
{
    return counts[2] > 0 ? counts[1] / counts[2] : (double)NAN;
}
