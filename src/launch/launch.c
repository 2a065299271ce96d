/* The job as a whole: front and agent, one host or several. */
#include "launch/launch.h"

#include "launch/agent.h"
#include "launch/guard.h"
#include "launch/hosts.h"

#include <unistd.h>

/* What nohup made us ignore stays ignored, by us and by the ranks. (Shells make programs in the
 * background ignore SIGINT and SIGQUIT too; whoever sends us these nevertheless means it.) */
static void keep_ignored(sigset_t *set)
{
    struct sigaction now;

    if (sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler == SIG_IGN)
        sigdelset(set, SIGHUP);
}

static gr_status run_agent(const gr_launch_config *c, int front, gr_logs *logs,
                           gr_launch_result *result)
{
    gr_agent agent;
    gr_status st = gr_agent_init(&agent, c, front, logs);

    if (st == GR_OK)
        st = c->max_hosts == 1 ? gr_agent_run_alone(&agent, result)
                               : gr_agent_run_hosts(&agent, result);
    gr_guard_end_descendants(0); /* also after a failure in the middle */
    gr_agent_fini(&agent);
    return st;
}

gr_status gr_launch(const gr_launch_config *config, gr_launch_result *result)
{
    gr_launch_config c = *config;
    gr_guard guard = { .front = -1 };
    gr_logs *logs;
    sigset_t watched;
    gr_status st;

    keep_ignored(&c.endings);
    guard.endings = watched = c.endings;
    sigaddset(&watched, SIGUSR1);
    sigaddset(&watched, SIGUSR2);
    sigaddset(&watched, SIGCHLD);
    /* From here to the end of the program: who is stopped tidies up, and says so. */
    sigprocmask(SIG_BLOCK, &watched, NULL);
    /* Before the fork: whichever process is left at the end removes a temporary folder. */
    GR_TRY(gr_logs_create(&logs, &c));
    st = gr_guard_start(&guard, &watched, &result->report);
    if (st == GR_OK && guard.is_front)
        result->exit_code = guard.exit_code;
    else if (st == GR_OK)
        st = run_agent(&c, guard.front, logs, result);
    gr_logs_destroy(logs);
    return st;
}
