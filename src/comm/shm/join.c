/*
 * How processes become a group.
 *
 *     every rank   host/<rank> = "<boot id>|<host name>|<pid namespace>|<pid>"   to the store
 *                  reads everybody's: all on one host, or all ranks say which is not
 *     rank 0       makes the control segment,  control = "ok <pid> <fd> <token>"
 *     the others   open /proc/<pid>/fd/<fd>, check the token
 *     all          meet in the segment; the store is not needed any more
 *
 * Keys begin with "gradus/<restart>/<n>/", where n counts how often this rank has joined:
 * a store that outlives a group does not mix it up with the next one.
 */
#include "comm/shm/shm.h"

#include "base/alloc.h"
#include "comm/create.h"
#include "net/store.h"
#include "net/store_server.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define KEY_TEXT  96
#define HOST_LINE 512
#define DRAIN_MS  2000

typedef struct joining {
    const gr_job *job;
    const gr_pg_config *config;
    gr_deadline deadline;
    gr_store *store;
    int64_t n; /* how often this rank has joined a group through this store */
    int *pids; /* of all ranks, owned */
} joining;

typedef struct host_line {
    char boot[64], name[256], space[64];
    int pid;
} host_line;

static void key_of(const joining *j, char *key, const char *what, int rank)
{
    if (rank < 0)
        snprintf(key, KEY_TEXT, "gradus/%d/%" PRId64 "/%s", j->job->restart, j->n, what);
    else
        snprintf(key, KEY_TEXT, "gradus/%d/%" PRId64 "/%s/%d", j->job->restart, j->n, what, rank);
}

/* ---- who is where ---- */

/* One field of a line: no separators in it, and never empty. */
static void put_field(char *field, size_t n_bytes, ssize_t len)
{
    field[len < 0 ? 0 : (size_t)len < n_bytes ? (size_t)len : n_bytes - 1] = '\0';
    field[strcspn(field, "|\n")] = '\0';
    if (!*field)
        snprintf(field, n_bytes, "?");
}

static void describe_host(host_line *h)
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    put_field(h->boot, sizeof(h->boot), fd >= 0 ? read(fd, h->boot, sizeof(h->boot) - 1) : 0);
    if (fd >= 0)
        close(fd);
    put_field(h->name, sizeof(h->name),
              gethostname(h->name, sizeof(h->name)) == 0 ? (ssize_t)strnlen(h->name, 255) : 0);
    put_field(h->space, sizeof(h->space),
              readlink("/proc/self/ns/pid", h->space, sizeof(h->space) - 1));
    h->pid = (int)getpid();
}

/* Takes the text up to the next separator, or to the end. */
static bool take_field(const char **at, char *field, size_t n_bytes)
{
    size_t len = strcspn(*at, "| ");

    if (len == 0 || len >= n_bytes)
        return false;
    memcpy(field, *at, len);
    field[len] = '\0';
    *at += len;
    *at += **at != '\0';
    return true;
}

static bool take_number(const char **at, uint64_t max, uint64_t *out)
{
    char text[32], *end;

    if (!take_field(at, text, sizeof(text)))
        return false;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' && *out <= max;
}

static gr_status parse_host(const char *text, int rank, host_line *h)
{
    const char *at = text;
    uint64_t pid;

    if (!take_field(&at, h->boot, sizeof(h->boot)) || !take_field(&at, h->name, sizeof(h->name)) ||
        !take_field(&at, h->space, sizeof(h->space)) || !take_number(&at, INT32_MAX, &pid))
        return gr_fail(GR_ERR_FORMAT, "rank %d told the store '%.80s' about itself", rank, text);
    h->pid = (int)pid;
    return GR_OK;
}

static gr_status check_host(const host_line *first, const host_line *h, int rank)
{
    if (strcmp(first->boot, h->boot) != 0 || strcmp(first->name, h->name) != 0)
        return gr_fail(
            GR_ERR_ARG,
            "rank 0 is on host '%s' and rank %d on '%s': this version joins ranks of one "
            "host only",
            first->name, rank, h->name);
    if (strcmp(first->space, h->space) != 0)
        return gr_fail(
            GR_ERR_ARG,
            "ranks 0 and %d cannot see each other's processes (%s and %s): start them in "
            "one container",
            rank, first->space, h->space);
    return GR_OK;
}

static gr_status read_hosts(joining *j, char **texts)
{
    host_line first = { .pid = 0 };

    for (int r = 0; r < j->job->n_ranks; r++) {
        host_line h = { .pid = 0 };

        GR_TRY(parse_host(texts[r], r, &h));
        if (r == 0)
            first = h;
        GR_TRY(check_host(&first, &h, r));
        j->pids[r] = h.pid;
    }
    return GR_OK;
}

static gr_status get_hosts(joining *j, char *names, const char **keys, char **texts)
{
    int n = j->job->n_ranks;
    gr_status st;

    for (int r = 0; r < n; r++) {
        key_of(j, names + (size_t)r * KEY_TEXT, "host", r);
        keys[r] = names + (size_t)r * KEY_TEXT;
    }
    GR_TRY(gr_wrap(gr_store_get_many(j->store, keys, n, texts, j->deadline),
                   "not all ranks have come"));
    st = read_hosts(j, texts);
    for (int r = 0; r < n; r++)
        gr_free(texts[r]);
    return st;
}

static gr_status meet_hosts(joining *j)
{
    size_t n = (size_t)j->job->n_ranks;
    char *names = (char *)gr_calloc(n, KEY_TEXT);
    const char **keys = (const char **)gr_calloc(n, sizeof(*keys));
    char **texts = (char **)gr_calloc(n, sizeof(*texts));
    char key[KEY_TEXT], line[HOST_LINE];
    host_line me = { .pid = 0 };
    gr_status st = GR_ERR_NOMEM;

    if (names && keys && texts) {
        describe_host(&me);
        snprintf(line, sizeof(line), "%s|%s|%s|%d", me.boot, me.name, me.space, me.pid);
        key_of(j, key, "host", j->job->rank);
        st = gr_store_set(j->store, key, line, strlen(line), j->deadline);
    }
    if (st == GR_OK)
        st = get_hosts(j, names, keys, texts);
    gr_free(texts);
    gr_free(keys);
    gr_free(names);
    return st;
}

/* ---- the control segment ---- */

static gr_status make_control(shm_world *w)
{
    shm_head *head;
    uint64_t token;

    GR_TRY(shm_segment_create(&w->control, shm_control_bytes(w->n_ranks)));
    if (getrandom(&token, sizeof(token), 0) != (ssize_t)sizeof(token))
        return gr_fail(GR_ERR_IO, "getrandom: %s", strerror(errno));
    head = (shm_head *)w->control.mem;
    head->magic = SHM_MAGIC;
    head->token = token;
    head->n_ranks = (uint64_t)w->n_ranks;
    return GR_OK;
}

/* Rank 0's failure goes to the store too: the others would wait for a key in vain. */
static gr_status publish_control(joining *j, shm_world *w)
{
    char key[KEY_TEXT], line[HOST_LINE];
    gr_status st = make_control(w), sent;

    key_of(j, key, "control", -1);
    if (st == GR_OK)
        snprintf(line, sizeof(line), "ok %d %d %" PRIu64, (int)getpid(), w->control.fd,
                 ((shm_head *)w->control.mem)->token);
    else
        snprintf(line, sizeof(line), "failed %s", gr_error_message());
    sent = gr_store_set(j->store, key, line, strlen(line), j->deadline);
    return st != GR_OK ? st : sent;
}

static gr_status open_control(joining *j, shm_world *w, const char *line)
{
    const shm_head *head;
    const char *at = line + 3;
    uint64_t pid, fd, token;

    if (strncmp(line, "failed ", 7) == 0)
        return gr_fail(GR_ERR_PEER, "rank 0 could not make the group: %s", line + 7);
    if (strncmp(line, "ok ", 3) != 0 || !take_number(&at, INT32_MAX, &pid) ||
        !take_number(&at, INT32_MAX, &fd) || !take_number(&at, UINT64_MAX, &token) ||
        (int)pid != j->pids[0])
        return gr_fail(GR_ERR_FORMAT, "rank 0 told the store '%.80s' about the shared memory",
                       line);
    GR_TRY(shm_segment_open(&w->control, (int)pid, (int)fd, shm_control_bytes(w->n_ranks)));
    head = (const shm_head *)w->control.mem;
    if (head->magic != SHM_MAGIC || head->token != token || head->n_ranks != (uint64_t)w->n_ranks)
        return gr_fail(GR_ERR_FORMAT,
                       "descriptor %d of process %d is not this job's shared memory: "
                       "do all ranks run the same version in one container?",
                       (int)fd, (int)pid);
    return GR_OK;
}

static gr_status map_control(joining *j, shm_world *w)
{
    char key[KEY_TEXT];
    gr_status st;
    char *line;

    w->owner_pid = j->pids[0];
    if (j->job->rank == 0)
        return publish_control(j, w);
    key_of(j, key, "control", -1);
    GR_TRY(gr_store_get(j->store, key, &line, NULL, j->deadline));
    st = open_control(j, w, line);
    gr_free(line);
    return st;
}

/* ---- all of it ---- */

static gr_status join(joining *j, gr_shm **out)
{
    gr_what what = { .kind = GR_WHAT_JOIN };
    char key[KEY_TEXT];
    shm_world *w;
    gr_status st;

    snprintf(key, sizeof(key), "gradus/%d/joined/%d", j->job->restart, j->job->rank);
    GR_TRY(gr_store_add(j->store, key, 1, &j->n, j->deadline));
    GR_TRY(meet_hosts(j));
    w = shm_world_create(j->job->n_ranks);
    if (!w)
        return GR_ERR_NOMEM;
    st = map_control(j, w);
    if (st != GR_OK) {
        shm_world_unref(w);
        return st;
    }
    GR_TRY(shm_create(out, w, j->job->rank, j->config, j->pids));
    (*out)->pg.local_rank = j->job->local_rank;
    st = shm_round(*out, &what, NULL, 0);
    if (st != GR_OK) {
        gr_error e;

        gr_error_take(&e, st);
        shm_abort(&(*out)->pg, e.text);
        shm_destroy(&(*out)->pg);
        return gr_error_raise(&e);
    }
    shm_segment_hide(&w->control); /* all have mapped it */
    return GR_OK;
}

static gr_status join_once(joining *j, gr_shm **out)
{
    gr_status st;

    GR_TRY(gr_store_connect(&j->store, j->job->store_host, j->job->store_port, j->deadline));
    st = join(j, out);
    gr_store_close(j->store);
    return st;
}

/* When rank 0 hosts the store, its port may still be held by the store of the group
 * before, which is about to end: a lost connection is then no failure but too early. */
static gr_status join_until(joining *j, gr_shm **out)
{
    const struct timespec pause = { .tv_nsec = 5000000 };
    gr_status st;

    while ((st = join_once(j, out)) == GR_ERR_IO && j->job->rank != 0 && !j->job->agent_store &&
           !gr_deadline_passed(j->deadline))
        nanosleep(&pause, NULL);
    return st;
}

gr_status gr_shm_create(gr_pg **out, const gr_job *job, const gr_pg_config *config)
{
    joining j = { .job = job, .config = config, .deadline = gr_deadline_in_ms(config->timeout_ms) };
    gr_store_server *server = NULL;
    gr_shm *s = NULL;
    gr_status st = GR_OK;

    j.pids = (int *)gr_calloc((size_t)job->n_ranks, sizeof(*j.pids));
    if (!j.pids)
        return GR_ERR_NOMEM;
    if (job->rank == 0 && !job->agent_store) {
        st = gr_store_server_create(&server, job->store_host, job->store_port);
        if (st == GR_OK)
            st = gr_store_server_start(server);
    }
    if (st == GR_OK)
        st = join_until(&j, &s);
    if (st != GR_OK && server) /* the others are still reading why */
        gr_store_server_drain(server, gr_deadline_in_ms(DRAIN_MS));
    gr_store_server_destroy(server);
    gr_free(j.pids);
    if (st == GR_OK)
        *out = &s->pg;
    return st;
}

/* ---- sub-groups ---- */

/* What the first rank of a part tells the others, through the group they come from. */
typedef struct split_card {
    uint64_t is_ok, token;
    shm_world *world; /* threads */
    int32_t pid, fd;  /* processes */
    char why[128];
} split_card;

static gr_status make_world(gr_shm *parent, const gr_part *part, shm_world **out)
{
    shm_world *w = shm_world_create(part->n);
    gr_status st;

    if (!w)
        return GR_ERR_NOMEM;
    w->is_threads = parent->world->is_threads;
    w->owner_pid = (int)getpid();
    if (w->is_threads)
        st = shm_segment_anonymous(&w->control, shm_control_bytes(part->n));
    else
        st = make_control(w);
    if (st != GR_OK) {
        shm_world_unref(w);
        return st;
    }
    /* Threads share the world: one reference each, taken before anybody can drop one. */
    for (int i = 1; i < part->n && w->is_threads; i++)
        atom32_add(&w->n_refs, 1);
    *out = w;
    return GR_OK;
}

/* The others' way to the world. */
static gr_status open_world(const split_card *c, const gr_part *part, shm_world **out)
{
    const shm_head *head;
    shm_world *w = c->world;
    gr_status st;

    if (!c->is_ok)
        return gr_fail(GR_ERR_PEER, "the first rank could not make it: %.*s",
                       (int)sizeof(c->why) - 1, c->why);
    *out = w;
    if (w)
        return GR_OK;
    w = shm_world_create(part->n);
    if (!w)
        return GR_ERR_NOMEM;
    w->owner_pid = c->pid;
    st = shm_segment_open(&w->control, c->pid, c->fd, shm_control_bytes(part->n));
    head = (const shm_head *)w->control.mem;
    if (st == GR_OK && (head->magic != SHM_MAGIC || head->token != c->token))
        st = gr_fail(GR_ERR_FORMAT, "descriptor %d of process %d is not this group's memory", c->fd,
                     c->pid);
    if (st != GR_OK) {
        shm_world_unref(w);
        return st;
    }
    *out = w;
    return GR_OK;
}

/* Meets the others of the part once, with or without something to show. */
static gr_status meet_part(gr_shm *s, const gr_part *part, split_card *card)
{
    char **all = NULL;

    GR_TRY(shm_gather_bytes(&s->pg, card, part->n > 0 && part->rank == 0 ? sizeof(*card) : 0, &all,
                            NULL));
    if (part->n > 0)
        memcpy(card, all[part->ranks[0]], sizeof(*card));
    free(all);
    return GR_OK;
}

static gr_status join_world(gr_shm *s, const gr_part *part, shm_world *w, gr_shm **out)
{
    gr_pg_config config = { .timeout_ms = s->pg.timeout_ms };
    gr_what what = { .kind = GR_WHAT_JOIN };
    int *pids = NULL;
    gr_status st;

    if (s->pids) {
        pids = (int *)gr_calloc((size_t)part->n, sizeof(*pids));
        if (!pids) {
            shm_world_unref(w);
            return GR_ERR_NOMEM;
        }
        for (int i = 0; i < part->n; i++)
            pids[i] = s->pids[part->ranks[i]];
    }
    st = shm_create(out, w, part->rank, &config, pids);
    gr_free(pids);
    if (st != GR_OK)
        return st;
    (*out)->pg.local_rank = s->pg.local_rank;
    st = shm_round(*out, &what, "sub-group", 0);
    if (st == GR_OK && !w->is_threads)
        shm_segment_hide(&w->control); /* all have mapped it */
    return st;
}

gr_status shm_split(gr_pg *pg, const gr_part *part, gr_pg **out)
{
    gr_shm *s = (gr_shm *)pg, *made = NULL;
    split_card card;
    shm_world *w = NULL;
    gr_status st = GR_OK, met;

    memset(&card, 0, sizeof(card));
    if (part->n > 0 && part->rank == 0) {
        st = make_world(s, part, &w);
        card.is_ok = st == GR_OK;
        if (w && !w->is_threads)
            card.token = ((shm_head *)w->control.mem)->token;
        card.world = w && w->is_threads ? w : NULL;
        card.pid = (int32_t)getpid();
        card.fd = w ? w->control.fd : -1;
        snprintf(card.why, sizeof(card.why), "%s", st == GR_OK ? "" : gr_error_message());
    }
    met = meet_part(s, part, &card);
    if (met != GR_OK || part->n == 0 || st != GR_OK)
        return met != GR_OK ? met : st;
    if (part->rank != 0)
        GR_TRY(open_world(&card, part, &w));
    st = join_world(s, part, w, &made);
    if (st != GR_OK && made) {
        gr_error e;

        gr_error_take(&e, st);
        shm_abort(&made->pg, e.text);
        shm_destroy(&made->pg);
        return gr_error_raise(&e);
    }
    *out = st == GR_OK ? &made->pg : NULL;
    return st;
}
