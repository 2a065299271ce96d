/* RLIMIT_NOFILE. A program may count on the usual limit (select(), loops over all numbers), so
 * the ranks do not see ours. */
#include "launch/limits.h"

#include <stdbool.h>
#include <sys/resource.h>

static struct rlimit before; /* written once by the main thread, before any rank starts */
static bool is_raised;

void gr_limits_raise(void)
{
    struct rlimit r;

    if (is_raised || getrlimit(RLIMIT_NOFILE, &r) != 0)
        return;
    before = r;
    if (r.rlim_max > 65536 && r.rlim_max != RLIM_INFINITY)
        r.rlim_cur = 65536;
    else
        r.rlim_cur = r.rlim_max == RLIM_INFINITY ? 65536 : r.rlim_max;
    is_raised = r.rlim_cur > before.rlim_cur && setrlimit(RLIMIT_NOFILE, &r) == 0;
}

void gr_limits_restore(void)
{
    if (is_raised)
        (void)setrlimit(RLIMIT_NOFILE, &before);
}
