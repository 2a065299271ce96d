/* From options to a configuration, with everything that can be wrong in them. */
#include "launch/config.h"

#include "base/cpu.h"
#include "base/log.h"
#include "net/interface.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define STATIC_PORT  29500
#define DYNAMIC_PORT 29400

/* A whole number of at least `min` at the front of *at, which moves behind it. */
static bool take_int(const char **at, int min, int *out)
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

/* ---- how many ---- */

static gr_status read_hosts(gr_launch_config *c, const char *text)
{
    const char *at = text;
    bool ok = take_int(&at, 1, &c->min_hosts);

    c->max_hosts = c->min_hosts;
    if (ok && *at == ':') {
        at++;
        ok = take_int(&at, 1, &c->max_hosts);
    }
    if (!ok || *at || c->min_hosts > c->max_hosts)
        return gr_fail(GR_ERR_ARG,
                       "option '--nnodes': '%s' is neither a number of hosts nor MIN:MAX with "
                       "0 < MIN <= MAX",
                       text);
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

static gr_status read_ranks(gr_launch_config *c, const char *text)
{
    const char *at = text;
    int gpus = count_gpus(c->gpu_ids);

    if (strcmp(text, "gpu") == 0 && gpus == 0)
        return gr_fail(GR_ERR_ARG, "option '--nproc-per-node': there is no GPU here to count; "
                                   "'cpu' counts cores");
    if (strcmp(text, "gpu") == 0 || (strcmp(text, "auto") == 0 && gpus > 0)) {
        c->n_local = gpus;
    } else if (strcmp(text, "cpu") == 0 || strcmp(text, "auto") == 0) {
        c->n_local = gr_cpu_count();
    } else if (!take_int(&at, 1, &c->n_local) || *at || c->n_local > GR_MAX_RANKS) {
        return gr_fail(GR_ERR_ARG,
                       "option '--nproc-per-node': '%s' is none of auto, gpu, cpu and a number "
                       "from 1 to %d",
                       text, GR_MAX_RANKS);
    }
    return GR_OK;
}

/* ---- where hosts meet ---- */

static const char *variable(const char *name)
{
    const char *text = getenv(name);

    return text && *text ? text : NULL;
}

/* "host", "host:port", "[::1]:port"; *port stays without one. */
static gr_status read_endpoint(gr_launch_config *c, const char *text, const char *option)
{
    const char *colon = strrchr(text, ':'), *at;
    size_t len = strlen(text);

    if (colon && (strchr(text, ':') == colon || (text[0] == '[' && colon[-1] == ']'))) {
        at = colon + 1;
        if (!take_int(&at, 0, &c->port) || *at || c->port > 65535)
            return gr_fail(GR_ERR_ARG, "option '--%s': '%s' has no port from 0 to 65535", option,
                           text);
        len = (size_t)(colon - text);
    }
    if (text[0] == '[' && len > 1 && text[len - 1] == ']') {
        text++;
        len -= 2;
    }
    if (len >= sizeof(c->host))
        return gr_fail(GR_ERR_ARG, "option '--%s' is longer than %zu characters", option,
                       sizeof(c->host) - 1);
    memcpy(c->host, text, len);
    c->host[len] = '\0';
    return GR_OK;
}

static void random_id(char *out, size_t out_bytes)
{
    uint64_t bits = 0;

    if (getrandom(&bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
        bits = (uint64_t)clock();
    snprintf(out, out_bytes, "%016llx", (unsigned long long)bits);
}

/* MASTER_ADDR of the environment may belong to whoever started us: on one host it counts when
 * it is an address of this host. */
static const char *master_addr(const gr_run_options *o, bool alone)
{
    const char *text = o->master_addr ? o->master_addr : variable("MASTER_ADDR");

    if (!o->master_addr && text && alone && !gr_interface_is_local(text)) {
        gr_log(LAUNCH, WARN, "MASTER_ADDR is '%s', which is not this host: not used", text);
        return NULL;
    }
    return text;
}

static gr_status master_port(const gr_run_options *o, int *out)
{
    const char *text = variable("MASTER_PORT"), *at = text;

    *out = (int)o->master_port;
    if (o->master_port >= 0 || !text)
        return GR_OK;
    if (!take_int(&at, 0, out) || *at || *out > 65535)
        return gr_fail(GR_ERR_ARG, "MASTER_PORT is '%.40s'; it must be a number from 0 to 65535",
                       text);
    return GR_OK;
}

static gr_status meet_static(gr_launch_config *c, const gr_run_options *o)
{
    bool alone = c->max_hosts == 1;
    const char *addr = master_addr(o, alone);
    int port;

    GR_TRY(master_port(o, &port));
    c->port = alone ? 0 : STATIC_PORT;
    if (*o->rdzv_endpoint)
        return read_endpoint(c, o->rdzv_endpoint, "rdzv-endpoint");
    GR_TRY(read_endpoint(c, addr ? addr : "127.0.0.1", "master-addr"));
    if (port >= 0)
        c->port = port;
    if (c->node_rank >= c->max_hosts)
        return gr_fail(GR_ERR_ARG, "option '--node-rank': %d, but there are %d hosts (--nnodes)",
                       c->node_rank, c->max_hosts);
    if (!alone && !addr)
        return gr_fail(GR_ERR_ARG,
                       "%d hosts, but where is host 0? Give its address with "
                       "--master-addr (or MASTER_ADDR), the same on all hosts",
                       c->max_hosts);
    if (!alone && c->port == 0)
        return gr_fail(GR_ERR_ARG, "several hosts need a port that all of them know; "
                                   "--master-port 0 is for one host");
    c->is_host = c->node_rank == 0;
    return GR_OK;
}

static gr_status meet_dynamic(gr_launch_config *c, const gr_run_options *o)
{
    c->node_rank = -1;
    if (c->max_hosts == 1)
        return read_endpoint(c, "127.0.0.1", "rdzv-endpoint");
    if (!*o->rdzv_endpoint)
        return gr_fail(GR_ERR_ARG, "where do the hosts meet? Give --rdzv-endpoint HOST:PORT, the "
                                   "same on all hosts");
    c->port = DYNAMIC_PORT;
    GR_TRY(read_endpoint(c, o->rdzv_endpoint, "rdzv-endpoint"));
    if (c->port == 0)
        return gr_fail(GR_ERR_ARG,
                       "several hosts need a port that all of them know; "
                       "'%s' is for one host",
                       o->rdzv_endpoint);
    return GR_OK;
}

static gr_status conf_word(gr_launch_config *c, const char *word, size_t len)
{
    static const char *const ignored[] = {
        "timeout",    "close_timeout",       "read_timeout",
        "store_type", "keep_alive_interval", "keep_alive_max_attempt",
        "rank"
    };
    const char *eq = (const char *)memchr(word, '=', len), *at = eq ? eq + 1 : NULL;
    size_t n = eq ? (size_t)(eq - word) : 0;
    int v = 0;

    if (!eq || n == 0)
        return gr_fail(GR_ERR_ARG, "option '--rdzv-conf': '%.*s' is not KEY=VALUE", (int)len, word);
    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
        if (strlen(ignored[i]) == n && strncmp(word, ignored[i], n) == 0)
            return GR_OK;
    if (n == 7 && strncmp(word, "is_host", n) == 0) {
        c->is_host = strchr("1tTyY", *at) && *at;
        return GR_OK;
    }
    if (!take_int(&at, 0, &v))
        return gr_fail(GR_ERR_ARG, "option '--rdzv-conf': '%.*s' has no number", (int)len, word);
    if (n == 12 && strncmp(word, "join_timeout", n) == 0)
        c->join_ms = v * 1000;
    else if (n == 17 && strncmp(word, "last_call_timeout", n) == 0)
        c->last_call_ms = v * 1000;
    else if (n == 17 && strncmp(word, "heartbeat_timeout", n) == 0)
        c->silence_ms = v < 1 ? 1000 : v * 1000;
    else
        return gr_fail(GR_ERR_ARG,
                       "option '--rdzv-conf': no key '%.*s'; there are join_timeout, "
                       "last_call_timeout, heartbeat_timeout and is_host",
                       (int)n, word);
    return GR_OK;
}

static gr_status read_conf(gr_launch_config *c, const char *text)
{
    while (*text) {
        size_t len = strcspn(text, ",");

        if (len > 0)
            GR_TRY(conf_word(c, text, len));
        text += len + (text[len] == ',');
    }
    return GR_OK;
}

static gr_status read_meeting(gr_launch_config *c, const gr_run_options *o)
{
    bool dynamic = strcmp(o->rdzv_backend, "c10d") == 0;
    bool named = o->rdzv_id != NULL;

    if (o->standalone && c->max_hosts > 1)
        return gr_fail(GR_ERR_ARG, "--standalone is for one host, but --nnodes asks for %d",
                       c->max_hosts);
    if (!dynamic && strcmp(o->rdzv_backend, "static") != 0)
        return gr_fail(GR_ERR_ARG,
                       "option '--rdzv-backend': '%s' is not here; there are static "
                       "and c10d, which needs no other program",
                       o->rdzv_backend);
    c->is_host = -1;
    if (o->standalone) {
        dynamic = true;
        named = false;
    }
    GR_TRY(dynamic ? meet_dynamic(c, o) : meet_static(c, o));
    if (!o->standalone)
        GR_TRY(read_conf(c, o->rdzv_conf));
    if (named && strlen(o->rdzv_id) >= sizeof(c->run_id))
        return gr_fail(GR_ERR_ARG, "option '--rdzv-id' is longer than %d characters",
                       GR_RUN_ID - 1);
    if (named && strchr(o->rdzv_id, '/'))
        return gr_fail(GR_ERR_ARG, "option '--rdzv-id': '%s' must not have a '/'", o->rdzv_id);
    if (named || c->max_hosts > 1 || c->port != 0)
        snprintf(c->run_id, sizeof(c->run_id), "%s", named ? o->rdzv_id : "none");
    else
        random_id(c->run_id, sizeof(c->run_id)); /* as torchrun names a job of one host */
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

        if (!take_int(&spec, 0, &rank) || *spec++ != ':' || !take_int(&spec, 0, &m) || m > 3)
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

        if (!take_int(&list, 0, &n))
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
        if (!take_int(&at, 0, &n) || (*at && (*at != ',' || !at[1])))
            return gr_fail(GR_ERR_ARG, "option '--%s': '%s' is no list like 0,1,2", option, list);
        at += *at == ',';
    }
    return GR_OK;
}

static gr_status read_output(gr_launch_config *c, const gr_run_options *o)
{
    const char *from_env = variable("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");

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
    const char *text = variable("TORCH_ELASTIC_SHUTDOWN_TIMEOUT"), *at = text;
    int seconds = 30;

    if (o->shutdown_s >= 0)
        seconds = (int)o->shutdown_s;
    else if (text && (!take_int(&at, 0, &seconds) || *at))
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

/* srun with eight tasks per node and a launcher in each: eight times eight ranks. */
static void warn_of_srun(const gr_launch_config *c)
{
    const char *tasks = variable("SLURM_NTASKS_PER_NODE");

    if (tasks && strcmp(tasks, "1") != 0 && c->n_local > 1 && variable("SLURM_STEP_ID"))
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
    GR_TRY(read_hosts(c, o->nnodes));
    GR_TRY(read_ranks(c, o->nproc));
    GR_TRY(read_meeting(c, o));
    GR_TRY(read_output(c, o));
    GR_TRY(read_signals(c, o->signals));
    GR_TRY(read_shutdown(c, o));
    GR_TRY(read_devices(c, o));
    warn_of_srun(c);
    return GR_OK;
}
