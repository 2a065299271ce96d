/* Shards of an evaluation: every sample once, for any number of ranks. Guards P36. */
#include "train/trainer.h"

#include "check.h"

int main(void)
{
    for (int n_ranks = 1; n_ranks <= 9; n_ranks++)
        for (int64_t n = 0; n < 40; n++) {
            int seen[40] = { 0 };

            for (int r = 0; r < n_ranks; r++)
                for (int64_t i = 0; i < gr_eval_count(n, r, n_ranks); i++)
                    seen[r + i * n_ranks]++;
            for (int64_t i = 0; i < n; i++)
                GR_CHECK_EQ(seen[i], 1);
        }
    return 0;
}
