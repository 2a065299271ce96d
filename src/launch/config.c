/* From options to a configuration, with everything that can be wrong in them. */
#include "launch/config.h"

#include "base/cpu.h"
#include "base/log.h"
#include "launch/config_parts.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool gr_config_take(const char **at, int min, int *out)
{
    char *end;
    long v;

    errno = 0;
    v = strtol(*at, &end, 10);
    if (!isdigit((unsigned char)**at) || errno != 0 || v < min || v > 1 << 20)
        return false;
    *at = end;
    *out = (int)v;
    return true;
}

const char *gr_config_variable(const char *name)
{
    const char *text = getenv(name);

    return text && *text ? text : NULL;
}

/* ---- how many ---- */

static gr_status read_hosts(gr_launch_config *c, const gr_run_options *o)
{
    const char *text = o->nnodes, *at = text;
    bool ok = gr_config_take(&at, 1, &c->min_hosts);

    c->max_hosts = c->min_hosts;
    if (ok && *at == ':') {
        at++;
        ok = gr_config_take(&at, 1, &c->max_hosts);
    }
    if (!ok || *at || c->min_hosts > c->max_hosts)
        return gr_fail(GR_ERR_ARG,
                       "%s: '%s' is neither a number of hosts nor MIN:MAX with 0 < MIN <= MAX",
                       gr_run_options_nnodes_name(o), text);
    return GR_OK;
}

static int count_words(const char *list)
{
    int n = 0;

    while (*list) {
        size_t len = strcspn(list, ",");

        n += len > 0;
        list += len + (list[len] == ',');
    }
    return n;
}

/* GPUs that the ranks will see: the driver's folder has one entry per GPU. */
static int count_gpus(const char *gpu_ids)
{
    const char *visible = gpu_ids ? gpu_ids : getenv("CUDA_VISIBLE_DEVICES");
    DIR *d = opendir("/proc/driver/nvidia/gpus");
    struct dirent *e;
    int n = 0;

    while (d && (e = readdir(d)) != NULL)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    if (!visible)
        return n;
    return strcmp(visible, "-1") == 0 ? 0 : count_words(visible);
}

static gr_status read_ranks(gr_launch_config *c, const gr_run_options *o)
{
    const char *text = o->nproc, *at = text;
    int gpus = count_gpus(c->gpu_ids);

    if (strcmp(text, "gpu") == 0 && gpus == 0)
        return gr_fail(GR_ERR_ARG, "%s: there is no GPU here to count; 'cpu' counts cores",
                       gr_run_options_nproc_name(o));
    if (strcmp(text, "gpu") == 0 || (strcmp(text, "auto") == 0 && gpus > 0)) {
        c->n_local = gpus;
    } else if (strcmp(text, "cpu") == 0 || strcmp(text, "auto") == 0) {
        c->n_local = gr_cpu_count();
    } else if (!gr_config_take(&at, 1, &c->n_local) || *at || c->n_local > GR_MAX_RANKS) {
        return gr_fail(GR_ERR_ARG, "%s: '%s' is none of auto, gpu, cpu and a number from 1 to %d",
                       gr_run_options_nproc_name(o), text, GR_MAX_RANKS);
    }
    return GR_OK;
}

/* ---- output, signals, devices ---- */

int gr_std_mode(const char *spec, int local_rank)
{
    int mode = 0;

    if (spec[0] && !spec[1])
        return spec[0] >= '0' && spec[0] <= '3' ? spec[0] - '0' : -1;
    while (*spec) {
        int rank, m;

        if (!gr_config_take(&spec, 0, &rank) || *spec++ != ':' || !gr_config_take(&spec, 0, &m) ||
            m > 3)
            return -1;
        if (*spec && *spec++ != ',')
            return -1;
        if (rank == local_rank)
            mode = m;
    }
    return mode;
}

bool gr_list_has(const char *list, int number)
{
    bool has = !list || !*list;

    while (list && *list && !has) {
        int n;

        if (!gr_config_take(&list, 0, &n))
            return false;
        has = n == number;
        list += *list == ',';
    }
    return has;
}

static gr_status check_list(const char *list, const char *option)
{
    const char *at = list;
    int n;

    while (*at) {
        if (!gr_config_take(&at, 0, &n) || (*at && (*at != ',' || !at[1])))
            return gr_fail(GR_ERR_ARG, "option '--%s': '%s' is no list like 0,1,2", option, list);
        at += *at == ',';
    }
    return GR_OK;
}

static gr_status read_output(gr_launch_config *c, const gr_run_options *o)
{
    const char *from_env = gr_config_variable("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");

    if (gr_std_mode(o->redirects, 0) < 0)
        return gr_fail(GR_ERR_ARG, "option '--redirects': '%s' is neither 0 to 3 nor like 0:3,1:1",
                       o->redirects);
    if (gr_std_mode(o->tee, 0) < 0)
        return gr_fail(GR_ERR_ARG, "option '--tee': '%s' is neither 0 to 3 nor like 0:3,1:1",
                       o->tee);
    GR_TRY(check_list(o->ranks_filter, "local-ranks-filter"));
    c->redirects = o->redirects;
    c->tee = o->tee;
    c->ranks_filter = o->ranks_filter;
    c->log_dir = o->log_dir;
    c->out_filters = o->out_filters;
    c->err_filters = o->err_filters;
    if (o->prefix_template && *o->prefix_template)
        c->prefix = o->prefix_template;
    else if (from_env)
        c->prefix = from_env;
    if (o->prefix && !c->prefix)
        c->prefix = "[${rank}]: ";
    return GR_OK;
}

/* "SIGTERM" or "TERM". */
static int signal_number(const char *name, size_t len)
{
    if (len > 3 && strncmp(name, "SIG", 3) == 0) {
        name += 3;
        len -= 3;
    }
    for (int s = 1; s < NSIG; s++) {
        const char *known = sigabbrev_np(s);

        if (known && strlen(known) == len && strncmp(known, name, len) == 0)
            return s;
    }
    return 0;
}

static gr_status read_signals(gr_launch_config *c, const char *text)
{
    c->signals_text = text;
    sigemptyset(&c->endings);
    while (*text) {
        size_t len = strcspn(text, ",");
        int s = signal_number(text, len);

        if (s == 0 || s == SIGKILL || s == SIGSTOP || s == SIGCHLD)
            return gr_fail(GR_ERR_ARG,
                           "option '--signals-to-handle': '%.*s' is no signal that can "
                           "be handled",
                           (int)len, text);
        sigaddset(&c->endings, s);
        text += len + (text[len] == ',');
    }
    return GR_OK;
}

static gr_status read_shutdown(gr_launch_config *c, const gr_run_options *o)
{
    const char *text = gr_config_variable("TORCH_ELASTIC_SHUTDOWN_TIMEOUT"), *at = text;
    int seconds = 30;

    if (o->shutdown_s >= 0)
        seconds = (int)o->shutdown_s;
    else if (text && (!gr_config_take(&at, 0, &seconds) || *at))
        return gr_fail(GR_ERR_ARG,
                       "TORCH_ELASTIC_SHUTDOWN_TIMEOUT is '%.40s', which is no number "
                       "of seconds",
                       text);
    c->shutdown_ms = seconds * 1000;
    return GR_OK;
}

static gr_status read_devices(gr_launch_config *c, const gr_run_options *o)
{
    static const struct {
        const char *name;
        int bind;
    } modes[] = { { "node", GR_BIND_NUMA },
                  { "socket", GR_BIND_NUMA },
                  { "exclusive", GR_BIND_CORES },
                  { "core-complex", GR_BIND_CORES } };

    c->virtual_local_rank = o->virtual_local_rank;
    c->bind = o->bind;
    if (o->gpu_ids && count_words(o->gpu_ids) < c->n_local)
        return gr_fail(GR_ERR_ARG, "option '--gpu-ids': '%s' are fewer than the %d ranks",
                       o->gpu_ids, c->n_local);
    if (!o->numa_binding)
        return GR_OK;
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
        if (strcmp(o->numa_binding, modes[i].name) == 0) {
            c->bind = modes[i].bind;
            return GR_OK;
        }
    return gr_fail(GR_ERR_ARG,
                   "option '--numa-binding': '%s' is none of node, socket, exclusive "
                   "and core-complex",
                   o->numa_binding);
}

static void say_python_only(const gr_run_options *o)
{
    const char *handler = o->event_log_handler;
    const struct {
        const char *name;
        bool is_given;
    } options[] = { { "--run-path", o->run_path },
                    { "--start-method", o->start_method != 0 },
                    { "--event-log-handler", handler && strcmp(handler, "null") != 0 },
                    { "--logs-specs", o->logs_specs != NULL } };

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        if (options[i].is_given)
            gr_log(LAUNCH, INFO, "%s means something inside Python only: %s", options[i].name,
                   i == 0 ? "the program is run with python3" : "left alone");
}

/* srun with eight tasks per node and a launcher in each: eight times eight ranks. */
static void warn_of_srun(const gr_launch_config *c)
{
    const char *tasks = gr_config_variable("SLURM_NTASKS_PER_NODE");

    if (tasks && strcmp(tasks, "1") != 0 && c->n_local > 1 && gr_config_variable("SLURM_STEP_ID"))
        gr_log(LAUNCH, WARN,
               "Slurm starts %s launchers on each node, and each starts %d ranks; use "
               "--ntasks-per-node=1",
               tasks, c->n_local);
}

gr_status gr_launch_config_make(gr_launch_config *c, const gr_run_options *o, bool legacy,
                                char *const *argv)
{
    *c = (gr_launch_config){ .argv = argv,
                             .node_rank = (int)o->node_rank,
                             .role = o->role,
                             .no_python = o->no_python,
                             .module = o->module,
                             .run_path = o->run_path,
                             .passes_local_rank = legacy && !o->use_env,
                             .local_addr = o->local_addr,
                             .gpu_ids = o->gpu_ids,
                             .max_restarts = (int)o->max_restarts,
                             .restart_ms = (int)(o->restart_delay * 1000),
                             .join_ms = 600000,
                             .last_call_ms = 30000,
                             .silence_ms = 8000 };

    GR_TRY(gr_run_options_check_counts(o)); /* first: the program may have become a count */
    if (!argv[0])
        return gr_fail(GR_ERR_ARG, "no program to start; try gradrun --help");
    if (o->no_python && o->module)
        return gr_fail(GR_ERR_ARG, "--no-python and --module contradict each other");
    if (o->no_python && legacy && !o->use_env)
        return gr_fail(GR_ERR_ARG,
                       "--no-python needs --use-env: a program that is no Python script "
                       "is not expected to take --local-rank");
    if (o->port_range)
        GR_TRY(gr_wrap(gr_port_range_parse(&c->ports, o->port_range), "option '--port-range'"));
    else
        GR_TRY(gr_port_range_from_env(&c->ports));
    GR_TRY(read_hosts(c, o));
    GR_TRY(read_ranks(c, o));
    GR_TRY(gr_config_read_meeting(c, o));
    GR_TRY(read_output(c, o));
    GR_TRY(read_signals(c, o->signals));
    GR_TRY(read_shutdown(c, o));
    GR_TRY(read_devices(c, o));
    warn_of_srun(c);
    say_python_only(o);
    return GR_OK;
}
