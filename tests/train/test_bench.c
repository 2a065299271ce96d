/* What benchmarks are counted with: the median and the peak. */
#include "train/bench.h"
#include "train/peak.h"

#include "check.h"

int main(void)
{
    double odd[] = { 5, 1, 3 }, even[] = { 4, 1, 3, 2 }, one[] = { 7 };
    double peak = gr_peak_flops();

    GR_CHECK_NEAR(gr_median(odd, 3), 3, 0);
    GR_CHECK_NEAR(gr_median(even, 4), 2.5, 0);
    GR_CHECK_NEAR(gr_median(one, 1), 7, 0);
    /* Chains of x/2 + 1 end at 2. */
    GR_CHECK_NEAR(gr_peak_scalar(100), 2 * GR_PEAK_CHAINS, 0);
    GR_CHECK(peak > 1e8 && peak < 1e13);
    GR_CHECK_EQ(gr_start_born_ns(), 0);
    return 0;
}
