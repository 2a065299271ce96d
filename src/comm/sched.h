/*
 * Schedules: what one rank does in one call, as a list of steps that an algorithm writes
 * and the engine carries out. Steps name the earlier steps they need; whatever is ready is
 * started, so pieces flow while others are still on their way, and several calls move at
 * once without threads.
 *
 * The k-th send of rank a to rank b meets the k-th receive of b from a, in the order in
 * which both wrote their schedules: an algorithm must write them alike on all ranks.
 *
 * Patient messages (wire.h) are counted apart: their order among themselves counts, not
 * that among the others.
 *
 * Long schedules must not be looked through from end to end each time something moves:
 * (1) Loose steps, the first ones, need nothing and nobody needs them. They all start at
 *     once, and only the first that is not done is looked at.
 * (2) A gate: as long as it is not ready, nothing behind it is, either.
 *
 * A schedule keeps its memory when it is written anew, so that calls which come again and
 * again allocate nothing.
 */
#ifndef GR_COMM_SCHED_H
#define GR_COMM_SCHED_H

#include "comm/reduce.h"
#include "comm/wire.h"

#define GR_NONE (-1)

typedef enum gr_step_kind { GR_STEP_SEND, GR_STEP_RECV, GR_STEP_FOLD, GR_STEP_COPY } gr_step_kind;
typedef enum gr_step_state { GR_STEP_TO_DO, GR_STEP_UNDER_WAY, GR_STEP_DONE } gr_step_state;

typedef struct gr_step {
    gr_step_kind kind;
    gr_step_state state;
    bool is_gate;
    int need;             /* a step that must be done first, or GR_NONE */
    int need_lo, need_hi; /* and all of [need_lo, need_hi) */
    gr_msg msg;           /* SEND, RECV; of a COPY its target and size */
    const char *from;     /* COPY */
    int fold;             /* FOLD: which of the folds */
} gr_step;

typedef struct gr_fold_entry {
    gr_fold f; /* its src and dst are filled in when it runs */
    int at;    /* where its addresses begin: sources, then targets */
} gr_fold_entry;

typedef struct gr_sched {
    gr_step *steps;
    int n_steps, cap_steps;
    gr_fold_entry *folds;
    int n_folds, cap_folds;
    void **addresses;
    int n_addresses, cap_addresses;
    uint32_t *n_out, *n_in; /* messages so far, by rank; behind them the patient ones */
    int n_ranks;
    char *scratch;
    size_t scratch_bytes;
    gr_fold_fn *fn;
    int n_loose, loose_open; /* loose steps; those below loose_open are done */
    int n_done, first_open;  /* other steps below it are done */
    gr_status status;        /* a failure while it was written */
} gr_sched;

gr_status gr_sched_init(gr_sched *s, int n_ranks) GR_MUST_CHECK;
void gr_sched_fini(gr_sched *s);
/* Empty again; keeps its memory. */
void gr_sched_clear(gr_sched *s);
/* Written as it is, not yet run. */
void gr_sched_rewind(gr_sched *s);

/* Room for what is on its way, once per schedule; NULL when there is none. */
char *gr_sched_scratch(gr_sched *s, size_t n_bytes);

/* Each returns the number of its (last) step, or GR_NONE when there was nothing to do or no
 * memory. Sends and receives longer than a message become several; a long send may need
 * a receive of the same length, and then follows it piece by piece. */
int gr_sched_send(gr_sched *s, int peer, const void *mem, size_t n_bytes, int need);
int gr_sched_recv(gr_sched *s, int peer, void *mem, size_t n_bytes, int need);
/* One patient message each. A receive that needs a step is a gate. */
int gr_sched_send_patient(gr_sched *s, int peer, const void *mem, size_t n_bytes);
int gr_sched_recv_patient(gr_sched *s, int peer, void *mem, size_t n_bytes, int need);
int gr_sched_copy(gr_sched *s, void *dst, const void *src, size_t n_bytes, int need);
/* Needs [lo, hi). f's arrays are copied. */
int gr_sched_fold(gr_sched *s, const gr_fold *f, int lo, int hi);
/* Everything written so far is loose: sends and receives without needs. */
void gr_sched_loosen(gr_sched *s);
/* The step needs all of [lo, hi), too. */
void gr_sched_need(gr_sched *s, int step, int lo, int hi);

/* Starts what is ready and notes what is done. */
gr_status gr_sched_move(gr_sched *s, gr_wire *w) GR_MUST_CHECK;
bool gr_sched_is_done(const gr_sched *s);
/* Names of the messages, put into every step before the first move. */
void gr_sched_name(gr_sched *s, uint64_t seq, const gr_what *what, const char *label);
/* Does a step under way depend on that rank? */
bool gr_sched_waits_for(const gr_sched *s, int rank);

#endif
