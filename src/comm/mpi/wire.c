/*
 * Messages over MPI. Each is one or two of MPI's: the head, with a short text behind it if it is
 * none of data, then the bytes, with one tag each. MPI keeps the order between two ranks, so the
 * k-th head of data belongs to the k-th bytes, and when a head has come it is known where its bytes
 * go.
 *
 * MPI tells nobody that a process has died; mpirun usually ends the job. Where it does not, ranks
 * of the same host are looked after here.
 */
#include "comm/mpi/mpi.h"

#include "base/alloc.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS 100000000 /* between two looks after processes of this host */

/* A send or a receive that MPI carries out. */
typedef struct transfer {
    struct transfer *next;
    MPI_Request request[2];
    int n_requests;
    gr_msg *msg;    /* of a send; NULL: a head with a text */
    gr_place place; /* of a receive */
    int peer;
    uint8_t head[GR_HEAD_BYTES + GR_HEAD_TEXT];
} transfer;

typedef struct mpi_peer {
    int world_rank;
    int pid_fd;      /* -1: on another host, or not to be had */
    bool left;       /* it said BYE */
    bool seems_dead; /* its last messages are still to be looked at */
} mpi_peer;

typedef struct mpi_wire {
    gr_wire wire; /* first: a gr_wire * is a mpi_wire * */
    MPI_Comm comm;
    int head_tag, bytes_tag;
    mpi_peer *peers;
    int *rank_of; /* by rank in the world; -1: not in this group */
    transfer *sends, *receives, *spare;
    gr_status failed; /* of a send: shows when the wire is moved */
    int64_t looked_ns;
    uint8_t in[GR_HEAD_BYTES + GR_HEAD_TEXT + 1];
} mpi_wire;

static transfer *take(mpi_wire *v)
{
    transfer *t = v->spare;

    if (t)
        v->spare = t->next;
    else
        t = (transfer *)gr_calloc(1, sizeof(*t));
    if (t) {
        t->n_requests = 0;
        t->msg = NULL;
    }
    return t;
}

static void add(transfer **list, transfer *t)
{
    while (*list)
        list = &(*list)->next;
    t->next = NULL;
    *list = t;
}

static gr_status send_one(mpi_wire *v, transfer *t, const void *src, size_t n_bytes, int tag)
{
    return mpi_check(MPI_Isend(src, (int)n_bytes, MPI_BYTE, v->peers[t->peer].world_rank, tag,
                               v->comm, &t->request[t->n_requests++]),
                     "MPI_Isend");
}

/* Data follows its head as a message of its own, a text right behind it. */
static gr_status post(mpi_wire *v, int peer, const gr_head *h, const char *text, gr_msg *msg)
{
    transfer *t = take(v);
    size_t text_bytes = msg ? 0 : h->n_bytes;

    if (!t)
        return GR_ERR_NOMEM;
    gr_head_put(t->head, h);
    memcpy(t->head + GR_HEAD_BYTES, text, text_bytes);
    t->msg = msg;
    t->peer = peer;
    add(&v->sends, t);
    GR_TRY(send_one(v, t, t->head, GR_HEAD_BYTES + text_bytes, v->head_tag));
    return msg && msg->n_bytes > 0 ? send_one(v, t, msg->mem, msg->n_bytes, v->bytes_tag) : GR_OK;
}

static void wire_send(gr_wire *w, gr_msg *m)
{
    mpi_wire *v = (mpi_wire *)w;
    gr_head h = { .type = GR_HEAD_MESSAGE,
                  .seq = m->seq,
                  .n_bytes = m->n_bytes,
                  .slot = m->slot,
                  .what = *m->what };
    gr_status st;

    gr_label_put(h.label, m->label);
    st = post(v, m->peer, &h, "", m);
    if (v->failed == GR_OK)
        v->failed = st;
}

static gr_status wire_recv(gr_wire *w, gr_msg *m)
{
    return gr_inbox_post(&w->inboxes[m->peer], m);
}

static void wire_tell(gr_wire *w, int peer, const gr_head *f, const char *text)
{
    gr_head h = *f;

    h.n_bytes = strnlen(text, GR_HEAD_TEXT - 1);
    if (h.type == GR_HEAD_ABORT)
        mpi_world_get()->is_broken = true;
    GR_IGNORE(post((mpi_wire *)w, peer, &h, text, NULL)); /* best effort */
}

static gr_status take_data(mpi_wire *v, int peer, const gr_head *h)
{
    transfer *t = take(v);

    if (!t)
        return GR_ERR_NOMEM;
    t->peer = peer;
    GR_TRY(gr_inbox_open(&v->wire.inboxes[peer], h, NULL, &t->place));
    add(&v->receives, t);
    if (h->n_bytes == 0)
        return GR_OK;
    return mpi_check(MPI_Irecv(t->place.mem, (int)h->n_bytes, MPI_BYTE, v->peers[peer].world_rank,
                               v->bytes_tag, v->comm, &t->request[t->n_requests++]),
                     "MPI_Irecv");
}

/* A head is there, and whole: MPI has announced its length. */
static gr_status take_message(mpi_wire *v, const MPI_Status *status)
{
    int n = 0, peer = v->rank_of[status->MPI_SOURCE];
    size_t want = GR_HEAD_BYTES;
    gr_head h;

    MPI_Get_count(status, MPI_BYTE, &n);
    if (peer < 0 || n < (int)GR_HEAD_BYTES || n >= (int)sizeof(v->in))
        return gr_fail(GR_ERR_FORMAT, "MPI rank %d sent %d bytes that are no head of a message",
                       status->MPI_SOURCE, n);
    GR_TRY(mpi_check(
        MPI_Recv(v->in, n, MPI_BYTE, status->MPI_SOURCE, v->head_tag, v->comm, MPI_STATUS_IGNORE),
        "MPI_Recv"));
    GR_TRY(gr_head_get(v->in, &h));
    want += h.type == GR_HEAD_MESSAGE ? 0 : h.n_bytes;
    if ((size_t)n != want)
        return gr_fail(GR_ERR_FORMAT, "rank %d sent %d bytes instead of %zu", peer, n, want);
    v->in[n] = '\0';
    v->peers[peer].left = v->peers[peer].left || h.type == GR_HEAD_BYE;
    if (h.type == GR_HEAD_ABORT)
        mpi_world_get()->is_broken = true;
    GR_TRY(v->wire.user.frame(v->wire.user.arg, peer, &h, (char *)v->in + GR_HEAD_BYTES));
    return h.type == GR_HEAD_MESSAGE ? take_data(v, peer, &h) : GR_OK;
}

/* Takes what is done out of a list. */
static gr_status collect(mpi_wire *v, transfer **at, bool *moved)
{
    while (*at) {
        transfer *t = *at;
        int is_done = 1;

        GR_TRY(mpi_check(MPI_Testall(t->n_requests, t->request, &is_done, MPI_STATUSES_IGNORE),
                         "MPI_Testall"));
        if (!is_done) {
            at = &t->next;
            continue;
        }
        *moved = true;
        if (t->msg)
            gr_msg_end(t->msg);
        if (t->place.mem)
            gr_inbox_close(&v->wire.inboxes[t->peer], &t->place);
        t->place = (gr_place){ .mem = NULL };
        *at = t->next;
        t->next = v->spare;
        v->spare = t;
    }
    return GR_OK;
}

static gr_status wire_move(gr_wire *w, bool *moved)
{
    mpi_wire *v = (mpi_wire *)w;
    MPI_Status status;
    int is_there = 1;

    if (v->failed != GR_OK)
        return gr_fail(v->failed, "MPI did not take a message");
    GR_TRY(collect(v, &v->sends, moved));
    while (is_there) {
        GR_TRY(mpi_check(MPI_Iprobe(MPI_ANY_SOURCE, v->head_tag, v->comm, &is_there, &status),
                         "MPI_Iprobe"));
        if (!is_there)
            break;
        GR_TRY(take_message(v, &status));
        *moved = true;
    }
    return collect(v, &v->receives, moved);
}

/* Nothing has come before this look. A process that is gone may have sent something between the
 * two: it is dead when it still is at the next one. */
static gr_status look_for_dead(mpi_wire *v)
{
    if (gr_now_ns() - v->looked_ns < LOOK_NS)
        return GR_OK;
    v->looked_ns = gr_now_ns();
    for (int r = 0; r < v->wire.size; r++) {
        mpi_peer *p = &v->peers[r];
        const mpi_card *c = &mpi_world_get()->cards[p->world_rank];
        struct pollfd f = { .fd = p->pid_fd, .events = POLLIN };

        if (p->pid_fd < 0 || p->left || poll(&f, 1, 0) != 1)
            continue;
        if (p->seems_dead)
            return gr_fail(GR_ERR_PEER, "rank %d (process %d on '%s') died", r, (int)c->pid,
                           c->host);
        p->seems_dead = true;
    }
    return GR_OK;
}

/* MPI has no sleep that a message ends. */
static gr_status wire_sleep(gr_wire *w, int ms)
{
    struct timespec nap = { .tv_nsec = MPI_NAP_NS };

    (void)ms;
    nanosleep(&nap, NULL);
    return look_for_dead((mpi_wire *)w);
}

/* What is still going out, the farewells too. */
static void wire_settle(gr_wire *w, int ms)
{
    mpi_wire *v = (mpi_wire *)w;
    gr_deadline d = gr_deadline_in_ms(ms);
    bool moved = false;

    while (v->sends && !gr_deadline_passed(d) && wire_move(w, &moved) == GR_OK &&
           wire_sleep(w, 0) == GR_OK)
        ;
}

static bool wire_is_over(const gr_wire *w, int peer)
{
    for (const transfer *t = ((const mpi_wire *)w)->receives; t; t = t->next)
        if (t->peer == peer)
            return false;
    return true;
}

static void wire_peer_text(gr_wire *w, int peer, char *text, size_t n_bytes)
{
    const mpi_wire *v = (const mpi_wire *)w;
    const mpi_card *c = &mpi_world_get()->cards[v->peers[peer].world_rank];

    snprintf(text, n_bytes, "process %d on '%s'", (int)c->pid, c->host);
}

static void wire_describe(const gr_wire *w, gr_text *text)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int n;

    (void)w;
    MPI_Get_library_version(version, &n);
    version[strcspn(version, "\n,")] = '\0';
    gr_text_addf(text, "messages over %s\n", version);
}

static void free_list(transfer *t)
{
    while (t) {
        transfer *next = t->next;

        gr_free(t);
        t = next;
    }
}

/* MPI may still read what has not gone out: that memory is left to it. Of receives it is asked
 * to let go. */
static void give_up(mpi_wire *v)
{
    for (transfer *t = v->receives; t; t = t->next)
        for (int i = 0; i < t->n_requests; i++)
            if (t->request[i] != MPI_REQUEST_NULL && MPI_Cancel(&t->request[i]) == MPI_SUCCESS)
                MPI_Request_free(&t->request[i]);
    if (v->sends || v->receives)
        mpi_world_get()->is_broken = true;
    free_list(v->receives);
}

static void wire_destroy(gr_wire *w)
{
    mpi_wire *v = (mpi_wire *)w;

    give_up(v);
    free_list(v->spare);
    for (int r = 0; r < w->size && v->peers; r++)
        if (v->peers[r].pid_fd >= 0)
            close(v->peers[r].pid_fd);
    gr_inboxes_destroy(w->inboxes, w->size);
    gr_free(v->peers);
    gr_free(v->rank_of);
    gr_free(v);
}

static const gr_wire_ops mpi_ops = {
    .name = "mpi",
    .send = wire_send,
    .recv = wire_recv,
    .move = wire_move,
    .sleep = wire_sleep,
    .tell = wire_tell,
    .settle = wire_settle,
    .is_over = wire_is_over,
    .peer_text = wire_peer_text,
    .describe = wire_describe,
    .destroy = wire_destroy,
};

/* Ranks, tags and processes of the group. */
static gr_status find_peers(mpi_wire *v, const int *ranks, int group)
{
    const mpi_world *all = mpi_world_get();
    int *most = NULL, has_most = 0;

    MPI_Comm_get_attr(all->comm, MPI_TAG_UB, &most, &has_most);
    if (group > ((has_most ? *most : 32767) - 2) / 2)
        return gr_fail(GR_ERR_ARG, "%d groups have been made, and MPI has no tags for more", group);
    v->comm = all->comm;
    v->head_tag = 2 * group + 1;
    v->bytes_tag = 2 * group + 2;
    for (int r = 0; r < all->size; r++)
        v->rank_of[r] = -1;
    for (int r = 0; r < v->wire.size; r++) {
        const mpi_card *c = &all->cards[ranks ? ranks[r] : r];

        v->peers[r] = (mpi_peer){ .world_rank = ranks ? ranks[r] : r, .pid_fd = -1 };
        v->rank_of[v->peers[r].world_rank] = r;
        if (r != v->wire.rank && strcmp(c->host_id, all->cards[all->rank].host_id) == 0)
            v->peers[r].pid_fd = (int)syscall(SYS_pidfd_open, (pid_t)c->pid, 0);
    }
    return GR_OK;
}

gr_status mpi_make_wire(gr_wire **out, gr_meet *m, const gr_pg_config *config)
{
    const mpi_world *all = mpi_world_get();
    mpi_wire *v = (mpi_wire *)gr_calloc(1, sizeof(*v));
    int *ranks = m->gather ? (int *)gr_calloc((size_t)m->size, sizeof(*ranks)) : NULL;
    int group = all->group;
    gr_status st = m->gather ? mpi_group_meet(m, ranks, &group) : GR_OK;

    (void)config;
    if (st == GR_OK && (!v || (m->gather && !ranks)))
        st = GR_ERR_NOMEM;
    if (st == GR_OK) {
        v->wire = (gr_wire){ .ops = &mpi_ops, .rank = m->rank, .size = m->size, .may_spin = true };
        v->peers = (mpi_peer *)gr_calloc((size_t)m->size, sizeof(*v->peers));
        v->rank_of = (int *)gr_calloc((size_t)all->size, sizeof(*v->rank_of));
        st = gr_inboxes_create(&v->wire.inboxes, m->size);
        if (st == GR_OK)
            st = v->peers && v->rank_of ? find_peers(v, ranks, group) : GR_ERR_NOMEM;
        if (st != GR_OK)
            wire_destroy(&v->wire);
    } else {
        gr_free(v);
    }
    gr_free(ranks);
    if (st == GR_OK)
        *out = &v->wire;
    return st;
}
