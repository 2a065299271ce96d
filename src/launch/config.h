/* What to launch: options that were checked and made sense of. */
#ifndef GR_LAUNCH_CONFIG_H
#define GR_LAUNCH_CONFIG_H

#include "launch/options.h"
#include "net/env.h"
#include "net/ports.h"

#include <signal.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GR_MAX_RANKS 4096 /* of one host */
#define GR_RUN_ID    64

/* What happens to stdout (1) and stderr (2) of a rank. */
enum { GR_STD_OUT = 1, GR_STD_ERR = 2 };

typedef struct gr_launch_config {
    int n_local;              /* ranks of this host */
    int min_hosts, max_hosts; /* 1 and 1: this host alone */
    int node_rank;            /* -1: hosts are numbered as they come */
    char host[GR_HOST_TEXT];  /* where the store and the meeting of hosts are */
    int port;                 /* 0: a free one */
    int is_host;              /* the meeting is on this host: 1 yes, 0 no, -1 find out */
    char run_id[GR_RUN_ID];
    const char *local_addr; /* NULL: the one that reaches the meeting */
    gr_port_range ports;
    int join_ms, last_call_ms, silence_ms; /* of the meeting */

    int max_restarts, restart_ms;
    int shutdown_ms;  /* from SIGTERM to SIGKILL */
    sigset_t endings; /* signals that end the job */
    const char *signals_text;

    const char *role;
    bool no_python, module, run_path;
    bool passes_local_rank; /* gradrun-launch without --use-env */
    char *const *argv;      /* the program and its arguments, ended by NULL */

    const char *log_dir; /* NULL: a folder that is removed at the end */
    const char *redirects, *tee, *ranks_filter;
    const char *prefix; /* template before each line of the terminal, or NULL */
    const char *out_filters, *err_filters;

    const char *gpu_ids;
    bool virtual_local_rank;
    int bind; /* GR_BIND_* */
} gr_launch_config;

/* Borrows the options and the words of the program. */
gr_status gr_launch_config_make(gr_launch_config *c, const gr_run_options *o, bool legacy,
                                char *const *argv) GR_MUST_CHECK;

/* "3" or "0:3,1:1": what a rank's streams are to do, GR_STD_*; -1 when it is neither. */
int gr_std_mode(const char *spec, int local_rank);
/* Whether "0,2" has the number; an empty list has all. */
bool gr_list_has(const char *list, int number);

#ifdef __cplusplus
}
#endif

#endif
