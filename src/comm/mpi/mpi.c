/*
 * Messages over MPI. Each is two of MPI's: the head, then the bytes, with one tag each. MPI
 * keeps the order between two ranks, so the k-th head belongs to the k-th bytes, and when a
 * head has come it is known where its bytes go.
 *
 * Threads: one; MPI is started with MPI_THREAD_FUNNELED.
 */
#include "comm/mpi_module.h"

#include "base/alloc.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TAG_HEAD  1
#define TAG_BYTES 2
#define NAP_NS    20000
#define DRAIN_NS  1000000000 /* for what is still going out when a group ends */

/* A send or a receive that MPI carries out. */
typedef struct transfer {
    struct transfer *next;
    MPI_Request request[2];
    int n_requests;
    gr_msg *msg;    /* of a send; NULL: own bytes */
    gr_place place; /* of a receive */
    int peer;
    uint8_t head[GR_HEAD_BYTES];
    char text[GR_HEAD_TEXT];
} transfer;

typedef struct mpi_wire {
    gr_wire wire; /* first: a gr_wire * is a mpi_wire * */
    MPI_Comm comm;
    transfer *sends, *receives, *spare;
    char text[GR_HEAD_TEXT + 1];
} mpi_wire;

static gr_status check(int rc, const char *what)
{
    char text[MPI_MAX_ERROR_STRING];
    int n;

    if (rc == MPI_SUCCESS)
        return GR_OK;
    MPI_Error_string(rc, text, &n);
    return gr_fail(GR_ERR_PEER, "%s: %s", what, text);
}

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

static gr_status post(mpi_wire *v, int peer, const gr_head *h, char *bytes, gr_msg *msg)
{
    transfer *t = take(v);

    if (!t)
        return GR_ERR_NOMEM;
    gr_head_put(t->head, h);
    t->msg = msg;
    t->peer = peer;
    if (!msg) {
        memcpy(t->text, bytes, h->n_bytes);
        bytes = t->text;
    }
    GR_TRY(check(MPI_Isend(t->head, (int)GR_HEAD_BYTES, MPI_BYTE, peer, TAG_HEAD, v->comm,
                           &t->request[t->n_requests++]),
                 "MPI_Isend"));
    if (h->n_bytes > 0)
        GR_TRY(check(MPI_Isend(bytes, (int)h->n_bytes, MPI_BYTE, peer, TAG_BYTES, v->comm,
                               &t->request[t->n_requests++]),
                     "MPI_Isend"));
    add(&v->sends, t);
    return GR_OK;
}

static void wire_send(gr_wire *w, gr_msg *m)
{
    gr_head h = { .type = GR_HEAD_MESSAGE,
                  .seq = m->seq,
                  .n_bytes = m->n_bytes,
                  .slot = m->slot,
                  .what = *m->what };

    gr_label_put(h.label, m->label);
    GR_IGNORE(post((mpi_wire *)w, m->peer, &h, m->mem, m)); /* then it is never done: late */
}

static gr_status wire_recv(gr_wire *w, gr_msg *m)
{
    return gr_inbox_post(&w->inboxes[m->peer], m);
}

static void wire_tell(gr_wire *w, int peer, const gr_head *f, const char *text)
{
    gr_head h = *f;
    char copy[GR_HEAD_TEXT];

    h.n_bytes = strnlen(text, sizeof(copy) - 1);
    memcpy(copy, text, h.n_bytes);
    GR_IGNORE(post((mpi_wire *)w, peer, &h, copy, NULL)); /* best effort */
}

/* A head is there: its bytes have a place, or are a short text. */
static gr_status take_message(mpi_wire *v, int peer)
{
    uint8_t bytes[GR_HEAD_BYTES];
    transfer *t;
    gr_head h;

    GR_TRY(check(
        MPI_Recv(bytes, (int)sizeof(bytes), MPI_BYTE, peer, TAG_HEAD, v->comm, MPI_STATUS_IGNORE),
        "MPI_Recv"));
    GR_TRY(gr_head_get(bytes, &h));
    if (h.type != GR_HEAD_MESSAGE) {
        if (h.n_bytes > 0)
            GR_TRY(check(MPI_Recv(v->text, (int)h.n_bytes, MPI_BYTE, peer, TAG_BYTES, v->comm,
                                  MPI_STATUS_IGNORE),
                         "MPI_Recv"));
        v->text[h.n_bytes] = '\0';
        return v->wire.user.frame(v->wire.user.arg, peer, &h, v->text);
    }
    GR_TRY(v->wire.user.frame(v->wire.user.arg, peer, &h, ""));
    t = take(v);
    if (!t)
        return GR_ERR_NOMEM;
    t->peer = peer;
    GR_TRY(gr_inbox_open(&v->wire.inboxes[peer], &h, NULL, &t->place));
    if (h.n_bytes > 0)
        GR_TRY(check(MPI_Irecv(t->place.mem, (int)h.n_bytes, MPI_BYTE, peer, TAG_BYTES, v->comm,
                               &t->request[t->n_requests++]),
                     "MPI_Irecv"));
    add(&v->receives, t);
    return GR_OK;
}

/* Takes what is done out of a list. */
static gr_status collect(mpi_wire *v, transfer **at, bool *moved)
{
    while (*at) {
        transfer *t = *at;
        int is_done = 1;

        GR_TRY(check(MPI_Testall(t->n_requests, t->request, &is_done, MPI_STATUSES_IGNORE),
                     "MPI_Testall"));
        if (!is_done) {
            at = &t->next;
            continue;
        }
        *moved = true;
        if (t->msg)
            t->msg->is_done = true;
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

    GR_TRY(collect(v, &v->sends, moved));
    while (is_there) {
        GR_TRY(
            check(MPI_Iprobe(MPI_ANY_SOURCE, TAG_HEAD, v->comm, &is_there, &status), "MPI_Iprobe"));
        if (!is_there)
            break;
        GR_TRY(take_message(v, status.MPI_SOURCE));
        *moved = true;
    }
    return collect(v, &v->receives, moved);
}

/* MPI has no sleep that a message ends. */
static gr_status wire_sleep(gr_wire *w, int ms)
{
    struct timespec nap = { .tv_nsec = NAP_NS };

    (void)w;
    (void)ms;
    nanosleep(&nap, NULL);
    return GR_OK;
}

/* What is still going out, the farewells too. */
static void wire_settle(gr_wire *w, int ms)
{
    mpi_wire *v = (mpi_wire *)w;
    gr_deadline d = gr_deadline_in_ms(ms);
    bool moved = false;

    while (v->sends && !gr_deadline_passed(d) && wire_move(w, &moved) == GR_OK)
        GR_IGNORE(wire_sleep(w, 0));
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
    (void)w;
    snprintf(text, n_bytes, "MPI rank %d", peer);
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

/* What is still going out (the farewells) gets a moment. Communicators are freed together
 * or not at all: they are left to MPI_Finalize. */
static void wire_destroy(gr_wire *w)
{
    mpi_wire *v = (mpi_wire *)w;
    gr_deadline d = gr_deadline_in_ms(DRAIN_NS / 1000000);
    bool moved = false;

    while (v->sends && !gr_deadline_passed(d) && collect(v, &v->sends, &moved) == GR_OK)
        ;
    free_list(v->sends);
    free_list(v->receives);
    free_list(v->spare);
    gr_inboxes_destroy(w->inboxes, w->size);
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

static void end_mpi(void)
{
    int is_over = 0;

    MPI_Finalized(&is_over);
    if (!is_over)
        MPI_Finalize();
}

static gr_status world(int *rank, int *size, int *local_rank)
{
    int is_running = 0, level;
    MPI_Comm local;

    MPI_Initialized(&is_running);
    if (!is_running) {
        GR_TRY(check(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level), "MPI_Init"));
        atexit(end_mpi);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, rank);
    MPI_Comm_size(MPI_COMM_WORLD, size);
    GR_TRY(check(
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, *rank, MPI_INFO_NULL, &local),
        "MPI_Comm_split_type"));
    MPI_Comm_rank(local, local_rank);
    MPI_Comm_free(&local);
    return GR_OK;
}

/* Some ranks of the world: they tell each other their numbers there, once. */
static gr_status make_part(gr_meet *m, MPI_Comm *comm)
{
    int32_t mine;
    int me, *ranks = (int *)gr_calloc((size_t)m->size, sizeof(*ranks));
    MPI_Group all, some;
    char **cards = NULL;
    gr_status st;

    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    mine = me;
    st = m->gather(m, &mine, sizeof(mine), &cards, NULL);
    for (int r = 0; r < m->size && st == GR_OK && ranks; r++) {
        int32_t one;

        memcpy(&one, cards[r], sizeof(one));
        ranks[r] = one;
    }
    free(cards);
    if (st != GR_OK || !ranks) {
        gr_free(ranks);
        return st != GR_OK ? st : GR_ERR_NOMEM;
    }
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, m->size, ranks, &some);
    st = check(MPI_Comm_create_group(MPI_COMM_WORLD, some, 0, comm), "MPI_Comm_create_group");
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    gr_free(ranks);
    return st;
}

static gr_status make_wire(gr_wire **out, gr_meet *m, const gr_pg_config *config)
{
    mpi_wire *v = (mpi_wire *)gr_calloc(1, sizeof(*v));
    gr_status st;

    (void)config;
    if (!v)
        return GR_ERR_NOMEM;
    v->wire = (gr_wire){ .ops = &mpi_ops, .rank = m->rank, .size = m->size, .may_spin = true };
    st = gr_inboxes_create(&v->wire.inboxes, m->size);
    if (st == GR_OK)
        st = m->gather ? make_part(m, &v->comm)
                       : check(MPI_Comm_dup(MPI_COMM_WORLD, &v->comm), "MPI_Comm_dup");
    if (st != GR_OK) {
        gr_inboxes_destroy(v->wire.inboxes, m->size);
        gr_free(v);
        return st;
    }
    *out = &v->wire;
    return GR_OK;
}

static const char *version(void)
{
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int n = 0;

    if (MPI_Get_library_version(text, &n) != MPI_SUCCESS)
        text[0] = '\0';
    return text;
}

static const gr_mpi_module module = {
    .abi = GR_MPI_ABI, .world = world, .make_wire = make_wire, .version = version
};

GR_API gr_mpi_module_get_fn gr_mpi_module_get;

const gr_mpi_module *gr_mpi_module_get(void)
{
    return &module;
}
