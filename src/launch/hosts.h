/* A job of several hosts, as the agent of one of them sees it. */
#ifndef GR_LAUNCH_HOSTS_H
#define GR_LAUNCH_HOSTS_H

#include "launch/agent.h"

gr_status gr_agent_run_hosts(gr_agent *a, gr_launch_result *result) GR_MUST_CHECK;

#endif
