/*
 * Optimiser state cut up between processes, over shared memory and over TCP: what
 * tests/step/test_zero.c shows of threads. This program starts gradrun, which starts it again as
 * its ranks.
 */
#include "check.h"
#include "multi/job.h"
#include "multi/zero_rank.h"

#include <string.h>

static void test_over(const char *self, const char *transport, int n_ranks)
{
    char line[64];
    job j;

    GR_CHECK_EQ(setenv("GR_COMM", transport, 1), 0);
    job_gradrun(&j, self, n_ranks, "rank");
    job_finish(&j);
    if (j.exit_code != 0)
        fprintf(stderr, "%s", gr_text_str(&j.output));
    GR_CHECK_EQ(j.exit_code, 0);
    for (int r = 0; r < n_ranks; r++) {
        snprintf(line, sizeof(line), "rank %d of %d has the same bits", r, n_ranks);
        GR_CHECK(strstr(gr_text_str(&j.output), line) != NULL);
    }
    job_fini(&j);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return zero_rank();
    test_over(argv[0], "shm", 2);
    test_over(argv[0], "shm", 4);
    test_over(argv[0], "tcp", 3);
    return 0;
}
