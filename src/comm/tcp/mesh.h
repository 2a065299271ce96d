/*
 * The mesh: a wire of TCP connections between all pairs of ranks, or, as the wire of group
 * `hosts`, of such connections between hosts and rings of shared memory inside one.
 *
 * Each pair has
 *   - data streams (sockets, or one pair of rings) for messages,
 *   - one control connection for what must come through at once: WAITS, ABORT, BYE, WAKE.
 *     It is idle otherwise, and the system's keep-alive watches over it: a host that does
 *     not answer for wire.silence_ms is given up, while a process that is busy or stopped is
 *     not, because its system answers for it. A killed process closes it, which is seen at
 *     once.
 *
 * (1) The end of a control connection without BYE is the death of the rank. The end of a
 *     data stream says nothing by itself: the control connection will.
 * (2) After all have joined nobody listens any more: strangers cannot reach the group.
 * (3) A rank that sleeps says so in its ring segment; who writes into a ring then wakes it
 *     through the control connection.
 * (4) Long messages over sockets are written by a thread of their own where there is a core for
 *     it (sender.c). Everything else is the group's thread's.
 */
#ifndef GR_COMM_TCP_MESH_H
#define GR_COMM_TCP_MESH_H

#include "comm/algo/algo.h"
#include "comm/meet.h"
#include "comm/shm/atom.h"
#include "comm/shm/segment.h"
#include "comm/stream.h"

#include <poll.h>
#include <sched.h>

#define MESH_STREAMS   8 /* most data streams of a pair */
#define MESH_HOST      64
#define MESH_FEW_RANKS 16 /* up to here a pair has two streams, and a group lanes */
#define MESH_TOKEN     32
#define MESH_CONTROL   4096 /* bytes that may wait to go out on a control connection */

/* A ring between two ranks of a host, and the head of a rank's segment of them. */
typedef struct mesh_ring {
    atom64 tail __attribute__((aligned(64)));
    atom64 head __attribute__((aligned(64)));
} mesh_ring;

typedef struct mesh_shelf {
    uint8_t token[MESH_TOKEN];
    atom32 asleep __attribute__((aligned(64)));
} mesh_shelf;

/* What each rank tells the others before they connect; in bytes as it lies here, between
 * equal programs. */
typedef struct mesh_card {
    uint32_t version, is_ok;
    int32_t pid, port, shelf_fd, n_streams;
    uint8_t nonce[MESH_TOKEN];
    char address[GR_HOST_TEXT];
    char host[MESH_HOST]; /* its name, for messages */
    char host_id[160];    /* equal on ranks that share memory */
    char machine[48];     /* equal on ranks under one kernel; "": not known */
    int32_t n_lanes;      /* wanted; 0: no wish */
    char why[160];        /* when it is not ok */
    cpu_set_t cores;      /* that it may run on */
} mesh_card;

typedef struct mesh_stream {
    gr_stream stream;
    int fd;       /* -1: closed, or rings */
    bool is_full; /* the last write found no room */
    struct mesh *mesh;
    int peer;
    /* The out side while the sender has it (sender.c): */
    atom32 is_lent;               /* 0 or 1 */
    atom32 out_error;             /* errno of a write that failed; else 0 */
    int out_fd;                   /* as fd was when it was lent */
    int shut_fd;                  /* ended while it was lent; -1: was not */
    gr_msg *posted, *posted_last; /* since it was lent */
    struct mesh_stream *next_lent;
} mesh_stream;

typedef struct mesh_sender mesh_sender;

typedef struct mesh_peer {
    mesh_stream streams[MESH_STREAMS];
    unsigned next_stream, next_patient;
    int control; /* -1: closed */
    uint8_t in[GR_HEAD_BYTES + GR_HEAD_TEXT];
    size_t in_at;
    uint8_t out[MESH_CONTROL];
    size_t n_out;
    bool left;
    int64_t closed_ns; /* when a data stream ended; 0: none has */
    /* Rings, for ranks of this host in group `hosts`: both NULL else. */
    shm_segment shelf; /* the peer's segment */
    mesh_ring *out_ring, *in_ring;
    char *out_mem, *in_mem;
    mesh_card card;
} mesh_peer;

typedef struct mesh {
    gr_wire wire; /* first: a gr_wire * is a mesh * */
    mesh_peer *peers;
    struct pollfd *polls;
    int n_streams;
    shm_segment shelf; /* this rank's rings, into which its neighbours write */
    bool has_rings;
    gr_hosts hosts;
    int *host_first;
    char address[GR_HOST_TEXT];
    bool is_halted;       /* no message is touched any more: its memory is the caller's again */
    int wants_sender;     /* 1: one is started with the first long message; -1: not decided */
    mesh_sender *sender;  /* NULL: none */
    atom32 n_news;        /* grows with what other threads have done */
    uint32_t n_news_seen; /* by the group's thread */
    atom32 is_asleep;     /* the group's thread: wake_fd wakes it */
    int wake_fd;
} mesh;

/* mesh.c */
gr_status mesh_create(mesh **out, const gr_meet *m) GR_MUST_CHECK;
void mesh_destroy(gr_wire *w);
/* "rank 2 (process 17 on 'b')" */
#define MESH_NAME 120
const char *mesh_name(const mesh *m, int rank, char *text, size_t n_bytes);

/* What went, 0 for nothing now, -errno. */
ssize_t mesh_socket_write(int fd, const struct iovec *parts, int n_parts, bool *is_full);

/* Both under one kernel: between them is no network. */
bool mesh_is_near(const mesh *m, int rank);

/* connect.c: connects all pairs. `listener` is closed in any case. */
gr_status mesh_connect(mesh *m, int listener, const uint8_t *token, gr_deadline d) GR_MUST_CHECK;

/* control.c */
void mesh_tell(gr_wire *w, int peer, const gr_head *f, const char *text);
/* mesh.c: what a lost rank has sent and nobody has read yet. GR_ERR_ARG when that was another call
 * than this rank's: then this is why it is lost, or the others wait. */
gr_status mesh_read_rest(mesh *m, int peer) GR_MUST_CHECK;
/* Reads and writes what can be; GR_ERR_PEER when the rank is lost. */
gr_status mesh_control_move(mesh *m, int peer, bool *moved) GR_MUST_CHECK;
/* All connections of a pair that is connected: how long its host may be silent. */
void mesh_endure(const mesh *m, const mesh_peer *p);
int mesh_silent_ms(const gr_wire *w, int peer);
/* Bytes that its host has not acknowledged; what stays on this host is there at once. */
bool mesh_has_unsent(const mesh_peer *p);

void mesh_wake(gr_wire *w);
/* Who is about to sleep says so and then looks a last time; who has something new says so and
 * then calls this. */
void mesh_wake_by(atom32 *is_asleep, int fd);
void mesh_drain(int fd);

/* cores.c: threads and buffers, as many as there is room for. The wishes of the environment: -1
 * for a sender and 0 lanes where there are none. */
gr_status mesh_read_wishes(int *wants_sender, int32_t *n_lanes) GR_MUST_CHECK;
/* When all cards are there. */
void mesh_share_cores(mesh *m, const gr_meet *meet);
void mesh_limit_buffers(mesh *m);

/* sender.c: the thread that writes */
void mesh_sender_start(mesh *m);
/* A message for a stream over a socket, in place of gr_stream_send(). */
void mesh_sender_send(mesh *m, mesh_stream *s, gr_msg *msg, bool is_long);
void mesh_sender_halt(mesh *m);
void mesh_sender_end(mesh *m);

/* near.c: rings between ranks of a host */
gr_status mesh_shelf_make(mesh *m) GR_MUST_CHECK;
gr_status mesh_shelves_open(mesh *m) GR_MUST_CHECK;
ssize_t mesh_ring_write(void *arg, const struct iovec *parts, int n_parts);
ssize_t mesh_ring_read(void *arg, const struct iovec *parts, int n_parts);
/* There is something to read, or room for what is to be written. */
bool mesh_ring_is_ready(const mesh_peer *p);
void mesh_sleeps(mesh *m, bool asleep);

/* hello.c: the first bytes of a connection */
#define MESH_HELLO ((size_t)64)
typedef struct mesh_hello {
    int rank, size;
    int stream; /* -1: control */
    uint8_t token[MESH_TOKEN];
} mesh_hello;
void mesh_hello_put(uint8_t bytes[MESH_HELLO], const mesh_hello *h);
gr_status mesh_hello_get(const uint8_t bytes[MESH_HELLO], mesh_hello *h) GR_MUST_CHECK;
/* GR_ERR_ARG: a wrong token, or a rank that cannot be. Takes as long for every token. */
gr_status mesh_hello_check(const mesh_hello *h, const mesh_hello *expected,
                           int n_streams) GR_MUST_CHECK;

#endif
