/*
 * A step from the inside. One per rank, one thread.
 *
 * (1) The first plan seals the state: variables are laid out, filled and compared
 *     across ranks; buckets are made from the same table. Nothing moves afterwards.
 * (2) An entry is one traced graph and its plan, for one role, trace and set of feeds.
 *     All entries share state, exchange and one arena as large as the largest needs.
 * (3) Two staging slots hold scalars and inputs on their way to a device that needs
 *     copies; a slot is written again only when its copies are done.
 */
#ifndef GR_STEP_PRIVATE_H
#define GR_STEP_PRIVATE_H

#include "base/pool.h"
#include "exec/plan.h"
#include "gradus/step.h"
#include "op/module.h"
#include "optim/optim.h"
#include "pass/pass.h"
#include "pass/shard.h"

typedef enum gr_role {
    GR_ROLE_EVAL,
    GR_ROLE_AVERAGE, /* evaluation with averaged parameters */
    GR_ROLE_WHOLE,   /* forward, backward, exchange, update */
    GR_ROLE_MICRO,   /* forward, backward into the slots */
    GR_ROLE_LAST     /* the micro-step that also exchanges and updates */
} gr_role;

/* What a plan is for. */
typedef struct gr_purpose {
    gr_role role;
    int trace; /* of the config's named ones; -1: its `trace` */
} gr_purpose;

typedef struct gr_entry {
    gr_purpose purpose;
    bool is_checked; /* without optional passes, for looking at each node */
    gr_named *feeds; /* names, types, shapes; mem is NULL. Owned with the names */
    int n_feeds;
    gr_graph *graph;
    gr_plan *plan;
    int *feed_of;    /* plan input -> feed */
    void **inputs;   /* device address of each plan input */
    void *input_mem; /* device memory of all inputs; NULL where none are copied */
    size_t input_bytes;
    uint64_t used_at; /* of the step's clock of uses */
} gr_entry;

/* Scalars and inputs on their way to the device; see send.c. */
typedef struct gr_staging {
    void *pinned[2], *ahead[2]; /* host memory; device memory, where it has streams */
    void *was_read[2], *is_up;  /* events */
    bool has_events;
    size_t n_bytes; /* of each; 0: none are there */
    int next;
} gr_staging;

/* Records of updates on their way to the host (vote.c). */
typedef struct gr_records {
    int32_t *mem;            /* pinned: GR_AHEAD + 1 records; NULL: not made yet */
    int64_t n_made, n_taken; /* since the step was watched or restored */
    int32_t stop;            /* what this rank asks for from the next update on */
} gr_records;

struct gr_step {
    gr_step_config c;        /* strings borrowed from the caller until create returns: copied */
    gr_arena *arena;         /* strings, buckets */
    int eval_trace;          /* of gr_step_eval(): as gr_purpose.trace */
    const gr_module *module; /* NULL on the CPU */
    gr_device *device;
    gr_pg *group; /* of the device; equals c.pg on the CPU; owned otherwise */
    gr_pool *pool;
    int n_threads;

    gr_update_config update;
    gr_vars *vars;
    gr_buckets buckets;
    gr_shard shard;       /* with has_buckets, when gr_step_has_shares() */
    gr_meetings meetings; /* exchanges besides the buckets' */
    bool has_buckets, sealed, can_train;
    int n_frozen;   /* frozen parts of the training trace */
    bool is_common; /* trained parameters, their moments and averages lie once, in memory that all
                     * ranks see: they divide the update (pass/shard.h) */
    size_t common_from; /* it pays from so many bytes on that would be handed around: each
                           rank's sums to all the others. Below it the caches take them, and
                           the meeting at the end of a step costs more */

    gr_entry **entries;
    int n_entries, cap_entries;
    gr_entry *last; /* of the latest run; NULL before */
    uint64_t clock;
    int64_t n_plans_made, n_plan_hits, n_plans_dropped;

    gr_bases bases;
    size_t arena_bytes, exchange_bytes;
    size_t common_bytes; /* of the state's mapping, when it begins with what is common; else 0 */
    gr_scalars *scalars; /* where nothing is copied; else each entry has its own */
    gr_staging staging;

    struct gr_choice *choices; /* kernels that were measured */
    int n_choices, cap_choices;
    bool is_tuned;

    bool use_ema; /* evaluations read averages */
    void *params; /* with shards, while use_ema: the parameters, whose place averages take */
    bool checks;  /* plans made now are for gr_step_run_checked() */
    int micro;
    int64_t n_updates;
    gr_records records; /* with update.watches */
    bool saw_bad_data;  /* a fault on a device came to light after its update: see step.h */
};

static inline bool gr_role_trains(gr_role role)
{
    return role != GR_ROLE_EVAL && role != GR_ROLE_AVERAGE;
}

/* Of the training trace. */
static inline gr_purpose gr_training(gr_role role)
{
    gr_purpose p = { role, -1 };

    return p;
}

/* Whether optimiser state is cut up between ranks. */
static inline bool gr_step_shards(const gr_step *s)
{
    return s->c.zero > 0 && gr_pg_size(s->c.pg) > 1;
}

/* Whether each rank updates its share only. */
static inline bool gr_step_has_shares(const gr_step *s)
{
    return s->is_common || gr_step_shards(s);
}

/* device.c: opens device, module, group and pool as the config says. */
gr_status gr_step_open_device(gr_step *s) GR_MUST_CHECK;
void gr_step_close_device(gr_step *s);

/* buckets.c: slots for the gradients of a traced graph, unless there are some. A later graph may
 * leave a parameter out (its slot is zero then), not bring a new one: GR_ERR_ARG names it. */
gr_status gr_step_make_buckets(gr_step *s, const gr_graph *g) GR_MUST_CHECK;
gr_status gr_step_check_slots(const gr_step *s, const gr_graph *g) GR_MUST_CHECK;

/* pipeline.c: traces and runs the passes of the role; *out is verified. */
gr_status gr_step_build(gr_step *s, gr_purpose purpose, const gr_named *feeds, int n_feeds,
                        gr_graph **out) GR_MUST_CHECK;
gr_status gr_step_check_pass_name(const char *name) GR_MUST_CHECK;
/* Every name in the list, parted by commas, is that of a pass that may be left out. */
gr_status gr_step_check_without(const char *list) GR_MUST_CHECK;
bool gr_step_leaves_out(const gr_step *s, const char *pass);

/* cache.c: a plan of the entry's graph; control lies behind the state. */
gr_status gr_step_make_plan(gr_step *s, gr_graph *g, gr_plan **out) GR_MUST_CHECK;
/* memory.c: state, exchange, inputs and arena of a step with this plan. */
size_t gr_step_total_bytes(const gr_step *s, const gr_plan *plan, bool training);
/* cache.c: takes back what a trace left that was not sealed. */
void gr_step_forget_trace(gr_step *s);
/* cache.c: names, types and shapes are sound. */
gr_status gr_step_check_feeds(const gr_named *feeds, int n_feeds) GR_MUST_CHECK;
/* cache.c: the entry for these feeds, made when there is none. */
gr_status gr_step_entry(gr_step *s, gr_purpose purpose, const gr_named *feeds, int n_feeds,
                        gr_entry **out) GR_MUST_CHECK;
void gr_entry_destroy(gr_step *s, gr_entry *e);

/* send.c: room for so many bytes of scalars and inputs, where they are copied; their way up. */
gr_status gr_step_grow_staging(gr_step *s, size_t n_bytes) GR_MUST_CHECK;
void gr_step_free_staging(gr_step *s);
gr_status gr_step_send_copies(gr_step *s, gr_entry *e, const gr_named *feeds,
                              const gr_scalars *v) GR_MUST_CHECK;

/* run.c: the named trace that is called so, as gr_purpose.trace. GR_ERR_ARG: there is none. */
gr_status gr_step_find_trace(const gr_step *s, const char *name, int *out) GR_MUST_CHECK;

/* run.c: scalars and inputs up to the device. */
gr_status gr_step_send(gr_step *s, gr_entry *e, const gr_named *feeds, int n_feeds,
                       double lr) GR_MUST_CHECK;

/* run.c: what is the same for every way to run a training step: senseless calls refused, the
 * entry of this micro-step, scalars and inputs up and *r made ready, faults taken after it,
 * and the micro-step counted. */
gr_status gr_step_check_training(const gr_step *s, const gr_named *feeds, int n_feeds,
                                 double lr) GR_MUST_CHECK;
gr_status gr_step_train_entry(gr_step *s, const gr_named *feeds, int n_feeds,
                              gr_entry **out) GR_MUST_CHECK;
gr_status gr_step_begin_run(gr_step *s, gr_entry *e, const gr_named *feeds, int n_feeds, double lr,
                            gr_run *r) GR_MUST_CHECK;
gr_status gr_step_end_run(gr_step *s, gr_status st) GR_MUST_CHECK;
void gr_step_count(gr_step *s);

#define GR_SLOT_ALIGN 256 /* of scalars and each input within a slot */

/* vote.c, of a step that is watched: before an update, whether its record has a place; after it,
 * the record's way to the host; where the host sets the state anew, a record as at the start.
 * Nothing for another step. */
gr_status gr_step_check_records(const gr_step *s) GR_MUST_CHECK;
gr_status gr_step_send_record(gr_step *s) GR_MUST_CHECK;
gr_status gr_step_clear_record(gr_step *s) GR_MUST_CHECK;

/* state.c */
gr_status gr_step_bind(gr_step *s, gr_entry *e) GR_MUST_CHECK;
gr_status gr_step_seal(gr_step *s) GR_MUST_CHECK;
void gr_step_free_state(gr_step *s);
gr_status gr_step_grow_arena(gr_step *s, size_t n_bytes) GR_MUST_CHECK;

/* step.c: GR_ERR_ARG for a step that is NULL; first in what users call. */
gr_status gr_step_check_given(const gr_step *s) GR_MUST_CHECK;

/* state.c: there is a state, and no micro-step is under way. */
gr_status gr_step_check_idle(const gr_step *s, const char *what) GR_MUST_CHECK;
size_t gr_step_state_bytes(const gr_step *s);
/* Of one rank: gradients, and what is exchanged besides them. */
size_t gr_step_exchange_bytes(const gr_step *s);

/* together.c: collective when the number of updates says so; see gr_step_train(). */
gr_status gr_step_check_drift(gr_step *s) GR_MUST_CHECK;

/* tune.c: measures kernels for the first graph that trains, if that is asked for. Collective
 * then. Names the choice for a node, NULL: none. Reads what gr_step_choices() gave. */
gr_status gr_step_tune(gr_step *s, gr_graph *g) GR_MUST_CHECK;
const char *gr_step_choose(void *step, const gr_node *n);
gr_status gr_step_parse_choices(gr_step *s, const char *text) GR_MUST_CHECK;

/* shard.c, collective with shards. A part of a variable from every rank into `whole`, which is
 * looked at on rank 0 only; and back from there to `part`. */
gr_status gr_step_gather_part(gr_step *s, const gr_var *v, void *whole) GR_MUST_CHECK;
gr_status gr_step_scatter_part(gr_step *s, const gr_var *v, void *whole, void *part) GR_MUST_CHECK;
/* What rank 0 has found, told to all: its status with message, and n_bytes at `mem`. */
gr_status gr_step_tell(gr_step *s, gr_status st, void *mem, size_t n_bytes) GR_MUST_CHECK;
/* Averages into the place of the parameters, which are put aside. Collective. */
gr_status gr_step_place_averages(gr_step *s) GR_MUST_CHECK;
/* Undoes that, if it was done; on this rank alone. */
void gr_step_put_back_params(gr_step *s);

/* fingerprint.c: what all ranks must agree on, lines "key = value". */
gr_status gr_step_compare(gr_step *s) GR_MUST_CHECK;

#endif
