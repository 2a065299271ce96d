/* The job as a whole: front and agent, one host or several. */
#include "launch/launch.h"

#include "launch/agent.h"
#include "launch/guard.h"

#include <unistd.h>

/* What nohup made us ignore stays ignored, by us and by the ranks. */
static void keep_ignored(sigset_t *set)
{
    for (int s = 1; s < NSIG; s++) {
        struct sigaction now;

        if (sigismember(set, s) == 1 && sigaction(s, NULL, &now) == 0 && now.sa_handler == SIG_IGN)
            sigdelset(set, s);
    }
}

gr_status gr_launch(const gr_launch_config *config, gr_launch_result *result)
{
    gr_launch_config c = *config;
    gr_guard guard = { .front = -1 };
    sigset_t watched;
    gr_agent agent;
    gr_status st;

    keep_ignored(&c.endings);
    watched = c.endings;
    sigaddset(&watched, SIGUSR1);
    sigaddset(&watched, SIGUSR2);
    keep_ignored(&watched);
    GR_TRY(gr_guard_start(&guard, &watched, &result->report));
    if (guard.is_front) {
        result->exit_code = guard.exit_code;
        return GR_OK;
    }
    st = gr_agent_init(&agent, &c, guard.front);
    if (st == GR_OK)
        st = gr_agent_run_alone(&agent, result);
    gr_guard_end_descendants(0); /* also after a failure in the middle */
    gr_agent_fini(&agent);
    return st;
}
