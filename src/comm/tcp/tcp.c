/* Making a mesh: who is where, then connections, then rings. */
#include "comm/tcp/tcp.h"

#include "base/alloc.h"
#include "base/log.h"
#include "comm/lanes.h"
#include "comm/tcp/mesh.h"
#include "net/interface.h"
#include "net/ports.h"
#include "net/silence.h"
#include "net/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#define CARD_VERSION 4u
#define BOOT_ID      "/proc/sys/kernel/random/boot_id"

static void read_text(const char *path, bool is_link, char *text, size_t n_bytes)
{
    int fd = is_link ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = is_link   ? readlink(path, text, n_bytes - 1)
                : fd >= 0 ? read(fd, text, n_bytes - 1)
                          : -1;

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

void gr_host_identity(char *id, size_t id_bytes, char *name, size_t name_bytes)
{
    const char *given = getenv("GR_HOSTID");
    char boot[48], space[48];

    if (gethostname(name, name_bytes) != 0)
        name[0] = '\0';
    name[name_bytes - 1] = '\0';
    read_text(BOOT_ID, false, boot, sizeof(boot));
    read_text("/proc/self/ns/pid", true, space, sizeof(space));
    if (given && *given)
        snprintf(id, id_bytes, "%s", given);
    else
        snprintf(id, id_bytes, "%s %s %.48s", boot, space, name);
}

static int stream_count(int n_ranks)
{
    const char *text = getenv("GR_TCP_STREAMS");
    long n = text ? strtol(text, NULL, 10) : 0;

    if (n >= 1 && n <= MESH_STREAMS)
        return (int)n;
    return n_ranks <= MESH_FEW_RANKS ? 2 : 1;
}

/* All pairs need descriptors: up to what the system allows. */
static void raise_limit(int n_ranks, int n_streams)
{
    struct rlimit r;
    bool has_lanes = n_ranks <= MESH_FEW_RANKS || getenv("GR_TCP_LANES");
    rlim_t n_lanes = has_lanes ? GR_MAX_LANES : 1;
    rlim_t need = (rlim_t)n_ranks * (rlim_t)(n_streams + 2) * n_lanes + 64;

    if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur >= need)
        return;
    r.rlim_cur = r.rlim_max < need ? r.rlim_max : need;
    GR_BUG_IF(r.rlim_cur > r.rlim_max);
    (void)setrlimit(RLIMIT_NOFILE, &r); /* if not, connecting says what is missing */
}

/* A number after the transport's name pretends that so many ranks make a host: "hosts:2". */
static int pretended(const gr_pg_config *config)
{
    const char *colon = config->transport ? strchr(config->transport, ':') : NULL;

    return colon ? (int)strtol(colon + 1, NULL, 10) : 0;
}

static gr_status fill_card(mesh *m, const gr_meet *meet, const gr_pg_config *config, int *listener,
                           mesh_card *c)
{
    gr_port_range range;
    char by_name[GR_ADDRESS_TEXT];
    int port, k = pretended(config);

    c->version = CARD_VERSION;
    c->pid = (int32_t)getpid();
    c->n_streams = m->n_streams;
    gr_host_identity(c->host_id, sizeof(c->host_id), c->host, sizeof(c->host));
    read_text(BOOT_ID, false, c->machine, sizeof(c->machine));
    if (sched_getaffinity(0, sizeof(c->cores), &c->cores) != 0)
        memset(&c->cores, 0xff, sizeof(c->cores)); /* more than 1024: enough */
    GR_TRY(mesh_read_wishes(&m->wants_sender, &c->n_lanes));
    if (k > 0)
        snprintf(c->host_id, sizeof(c->host_id), "pretended %d", meet->rank / k);
    GR_TRY(gr_interface_address(by_name));
    snprintf(m->address, sizeof(m->address), "%s",
             by_name[0]         ? by_name
             : meet->address[0] ? meet->address
                                : "127.0.0.1");
    GR_TRY(gr_port_range_from_env(&range));
    GR_TRY(gr_port_listen(listener, m->address, 0, range, &port));
    gr_socket_near(*listener); /* who comes from elsewhere is treated so when it greets */
    c->port = port;
    snprintf(c->address, sizeof(c->address), "%s", m->address);
    if (getrandom(c->nonce, sizeof(c->nonce), 0) != (ssize_t)sizeof(c->nonce))
        return gr_fail(GR_ERR_IO, "getrandom: %s", strerror(errno));
    if (m->has_rings) {
        GR_TRY(mesh_shelf_make(m));
        memcpy(((mesh_shelf *)m->shelf.mem)->token, c->nonce, MESH_TOKEN);
        c->shelf_fd = m->shelf.fd;
    }
    return GR_OK;
}

static gr_status read_cards(mesh *m, char **all, const size_t *sizes)
{
    for (int r = 0; r < m->wire.size; r++) {
        mesh_card *c = &m->peers[r].card;

        if (sizes[r] != sizeof(*c))
            return gr_fail(GR_ERR_FORMAT, "rank %d is of another version", r);
        memcpy(c, all[r], sizeof(*c));
        c->address[sizeof(c->address) - 1] = c->host[sizeof(c->host) - 1] = '\0';
        c->host_id[sizeof(c->host_id) - 1] = c->why[sizeof(c->why) - 1] = '\0';
        c->machine[sizeof(c->machine) - 1] = '\0';
        if (c->version != CARD_VERSION || c->port < 0 || c->port > 65535)
            return gr_fail(GR_ERR_FORMAT, "rank %d is of another version", r);
        if (!c->is_ok)
            return gr_fail(GR_ERR_PEER, "rank %d on '%s' could not join: %s", r, c->host, c->why);
        if (c->n_lanes != m->peers[0].card.n_lanes)
            return gr_fail(GR_ERR_ARG,
                           "GR_TCP_LANES is %d on rank 0 and %d on rank %d (0: not set)",
                           m->peers[0].card.n_lanes, c->n_lanes, r);
        if (c->n_streams != m->n_streams)
            return gr_fail(GR_ERR_ARG, "GR_TCP_STREAMS is %d on rank %d and %d on rank %d",
                           m->n_streams, m->wire.rank, c->n_streams, r);
    }
    return GR_OK;
}

/* Hosts in the order of their ranks; left at one host when ranks are mixed up. */
static gr_status find_hosts(mesh *m)
{
    int n = 0;

    m->host_first = (int *)gr_calloc((size_t)m->wire.size + 1, sizeof(*m->host_first));
    if (!m->host_first)
        return GR_ERR_NOMEM;
    for (int r = 0; r < m->wire.size; r++) {
        const char *id = m->peers[r].card.host_id;

        if (r == 0 || strcmp(id, m->peers[r - 1].card.host_id) != 0) {
            for (int h = 0; h < n; h++)
                if (strcmp(id, m->peers[m->host_first[h]].card.host_id) == 0) {
                    gr_log(COMM, WARN,
                           "ranks of host '%s' do not follow each other: sums cannot be made "
                           "host by host, which costs network bandwidth",
                           m->peers[r].card.host);
                    return GR_OK;
                }
            m->host_first[n++] = r;
        }
        m->hosts.here = r == m->wire.rank ? n - 1 : m->hosts.here;
    }
    m->host_first[n] = m->wire.size;
    m->hosts.n = n;
    m->hosts.first = m->host_first;
    m->wire.hosts = &m->hosts;
    return GR_OK;
}

/* Rank 0's nonce and the job's own token: who has only seen one of them stays outside. */
static void make_token(const mesh *m, const gr_meet *meet, uint8_t *token)
{
    size_t n = strlen(meet->token);

    memcpy(token, m->peers[0].card.nonce, MESH_TOKEN);
    for (size_t i = 0; i < n; i++)
        token[i % MESH_TOKEN] = (uint8_t)(token[i % MESH_TOKEN] * 31u + (uint8_t)meet->token[i]);
}

/* Exactly one gathering, whatever happened before it. */
static gr_status exchange_cards(mesh *m, gr_meet *meet, const gr_pg_config *config, int *listener)
{
    mesh_card c;
    char **all = NULL;
    size_t *sizes = (size_t *)gr_calloc((size_t)meet->size, sizeof(*sizes));
    gr_status st, met;
    gr_error e;

    memset(&c, 0, sizeof(c));
    st = sizes ? fill_card(m, meet, config, listener, &c) : GR_ERR_NOMEM;
    gr_error_take(&e, st);
    c.is_ok = st == GR_OK;
    if (st != GR_OK)
        snprintf(c.why, sizeof(c.why), "%.*s", (int)sizeof(c.why) - 1, e.text);
    met = meet->gather(meet, &c, sizeof(c), &all, sizes);
    if (met == GR_OK && st == GR_OK)
        met = read_cards(m, all, sizes);
    free(all);
    gr_free(sizes);
    return st != GR_OK ? gr_error_raise(&e) : met;
}

static gr_status join(mesh *m, gr_meet *meet, const gr_pg_config *config)
{
    uint8_t token[MESH_TOKEN];
    int listener = -1;
    gr_status st;

    raise_limit(meet->size, m->n_streams);
    st = exchange_cards(m, meet, config, &listener);
    if (st == GR_OK && m->has_rings)
        st = mesh_shelves_open(m);
    if (st != GR_OK) {
        if (listener >= 0)
            close(listener);
        return st;
    }
    mesh_share_cores(m, meet);
    make_token(m, meet, token);
    GR_TRY(mesh_connect(m, listener, token, meet->deadline));
    mesh_limit_buffers(m);
    return find_hosts(m);
}

static gr_status make(gr_wire **out, gr_meet *meet, const gr_pg_config *config, bool has_rings)
{
    mesh *m = NULL;
    gr_status st = mesh_create(&m, meet);

    if (st != GR_OK)
        return st;
    m->n_streams = stream_count(meet->size);
    m->has_rings = has_rings;
    m->wire.has_patience = !has_rings && m->n_streams > 1;
    st = gr_silence_limit(config->timeout_ms, &m->wire.silence_ms);
    if (st == GR_OK)
        st = join(m, meet, config);
    if (st != GR_OK) {
        gr_error e;

        gr_error_take(&e, st);
        mesh_destroy(&m->wire);
        return gr_error_raise(&e);
    }
    *out = &m->wire;
    return GR_OK;
}

static gr_status make_tcp(gr_wire **out, gr_meet *m, const gr_pg_config *config)
{
    return make(out, m, config, false);
}

static gr_status make_hosts(gr_wire **out, gr_meet *m, const gr_pg_config *config)
{
    return make(out, m, config, true);
}

const gr_wired_kind gr_wired_tcp = { .ops = GR_WIRED_OPS("tcp"), .make_wire = make_tcp };
const gr_wired_kind gr_wired_hosts = { .ops = GR_WIRED_OPS("hosts"), .make_wire = make_hosts };
