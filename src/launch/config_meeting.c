/* Where the hosts of a job meet: this host alone, numbered hosts, or hosts as they come. */
#include "launch/config_parts.h"

#include "base/log.h"
#include "net/interface.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define STATIC_PORT  29500
#define DYNAMIC_PORT 29400

/* "host", "host:port", "[::1]:port"; *port stays without one. */
static gr_status read_endpoint(gr_launch_config *c, const char *text, const char *option)
{
    const char *colon = strrchr(text, ':'), *at;
    size_t len = strlen(text);

    if (colon && (strchr(text, ':') == colon || (text[0] == '[' && colon[-1] == ']'))) {
        at = colon + 1;
        if (!gr_config_take(&at, 0, &c->port) || *at || c->port > 65535)
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
    const char *text = o->master_addr ? o->master_addr : gr_config_variable("MASTER_ADDR");

    if (!o->master_addr && text && alone && !gr_interface_is_local(text)) {
        gr_log(LAUNCH, WARN, "MASTER_ADDR is '%s', which is not this host: not used", text);
        return NULL;
    }
    return text;
}

static gr_status master_port(const gr_run_options *o, int *out)
{
    const char *text = gr_config_variable("MASTER_PORT"), *at = text;

    *out = (int)o->master_port;
    if (o->master_port >= 0 || !text)
        return GR_OK;
    if (!gr_config_take(&at, 0, out) || *at || *out > 65535)
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
        gr_log(
            LAUNCH, WARN,
            "no --master-addr (or MASTER_ADDR) is given: hosts meet at 127.0.0.1, so all %d must "
            "be this machine",
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
        "close_timeout",       "read_timeout",           "store_type",
        "keep_alive_interval", "keep_alive_max_attempt", "rank"
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
    if (!gr_config_take(&at, 0, &v))
        return gr_fail(GR_ERR_ARG, "option '--rdzv-conf': '%.*s' has no number", (int)len, word);
    /* torchrun's `timeout` is how long numbered hosts wait for each other. */
    if ((n == 12 && strncmp(word, "join_timeout", n) == 0) ||
        (n == 7 && strncmp(word, "timeout", n) == 0))
        c->join_ms = v * 1000;
    else if (n == 17 && strncmp(word, "last_call_timeout", n) == 0)
        c->last_call_ms = v * 1000;
    else if (n == 17 && strncmp(word, "heartbeat_timeout", n) == 0)
        c->silence_ms = v < 1 ? 1000 : v * 1000;
    else
        return gr_fail(GR_ERR_ARG,
                       "option '--rdzv-conf': no key '%.*s'; there are join_timeout (or timeout), "
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

gr_status gr_config_read_meeting(gr_launch_config *c, const gr_run_options *o)
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
