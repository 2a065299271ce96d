/*
 * gr_step: a training step, traced once per shape, planned, and run many times. What a
 * user's own loop calls. One gr_step per rank; it belongs to one thread.
 *
 *     gr_step_config c = GR_STEP_CONFIG_INIT;
 *     c.trace = my_trace;
 *     c.pg = pg;
 *     GR_TRY(gr_step_create(&step, &c));
 *     for (...)
 *         GR_TRY(gr_step_train(step, feeds, 2, lr));
 */
#ifndef GRADUS_STEP_H
#define GRADUS_STEP_H

#include "gradus/comm.h"
#include "gradus/graph.h"
#include "gradus/optim.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_step gr_step;

/* Called for each set of input shapes, for training and for evaluation separately; several
 * times where plans are compared (memory reports, limits). The same graph every time. */
typedef gr_status gr_trace_fn(gr_graph *g, void *user);

typedef struct gr_named_trace {
    const char *name; /* "eval", "sample", "encode" */
    gr_trace_fn *trace;
} gr_named_trace;

/* What becomes of values that the backward pass reads, by blocks (gr_block_begin). */
typedef enum gr_recompute {
    GR_RECOMPUTE_NONE, /* they are kept */
    GR_RECOMPUTE_ALL,  /* they are computed anew */
    GR_RECOMPUTE_LIMIT /* anew for as many blocks, cheapest first, as memory_limit asks for */
} gr_recompute;

typedef enum gr_amp {
    GR_AMP_NONE,
    GR_AMP_BF16,
    GR_AMP_F16,
    GR_AMP_AUTO /* bf16 where the device is good at it, else fp16 */
} gr_amp;

/* What a loss that is a mean is the mean of. */
typedef enum gr_loss_reduction {
    GR_LOSS_LOCAL, /* of each rank's and micro-step's own elements; the means are averaged */
    GR_LOSS_GLOBAL /* of all elements that count (labels not ignored, places under a mask) on all
                      ranks and in all micro-steps of an update */
} gr_loss_reduction;

typedef struct gr_step_config {
    gr_trace_fn *trace;
    void *user;         /* handed to trace */
    const char *device; /* "cpu", "cuda", "cuda:1", or "auto": a GPU if there is one */
    gr_pg *pg;          /* borrowed, from gr_pg_create(); NULL is a group of one, and refused in a
                           process that a launcher started as one of several: see alone */
    const char *group;  /* on a GPU: "nccl", "ipc", or "auto" */
    gr_optim optim;
    gr_amp amp;
    int accumulate;      /* micro-steps per update; gradients are their mean */
    double clip_norm;    /* global norm; 0: no clipping */
    double clip_value;   /* each element of a gradient, after clip_norm, is cut to +-this; 0: not */
    double ema_decay;    /* averages of the parameters, "ema.<name>", for evaluation: those after
                            the first update; then times this, plus the rest of the new one,
                            after each (torch.optim.swa_utils.AveragedModel); 0: none */
    double init_scale;   /* fp16: first loss scale */
    uint64_t seed;       /* weights and randomness inside the step */
    int n_threads;       /* of this rank on the CPU; 0: GR_THREADS, else 1 */
    int max_plans;       /* plan cache; the least recently used one goes */
    size_t bucket_bytes; /* caps of gradient buckets */
    size_t first_bucket_bytes;
    const char *config_text; /* compared across ranks before step 1; may be NULL */
    const char *dump_after;  /* name of a pass, or "all": its graph goes to dump() */
    void (*dump)(void *arg, const char *pass, const char *text);
    void *dump_arg;
    const char *without;    /* optional passes to leave out, "join,hoist"; NULL: none. To find
                               which one is at fault; all ranks must agree. "common": ranks
                               of one host do not share memory for what they train; "copies":
                               amp casts parameters in every step */
    gr_recompute recompute; /* the results are the same bits in any case */
    size_t memory_limit;    /* bytes that a training step may need: gr_memory_report.total.
                               For GR_RECOMPUTE_LIMIT, which is refused without it; a plan that
                               needs more is refused */
    const char *freeze;     /* parameters that are not trained: names with * and ?, parted by
                               commas; NULL: none. As gr_freeze() in the trace. A batch norm
                               whose weights are frozen goes on tracking its batches */
    int check_every;        /* updates between two checks that parameters are the same bits on
                               all ranks; 0: never */
    bool tune;              /* kernels of products and the like, and their libraries' algorithms,
                               are chosen by measuring, by all ranks together, at the first
                               training plan, in the memory of the step; until then a plan counts
                               32 MiB of workspace for an algorithm that may want it. Results may
                               differ in last bits from one run to the next */
    const char *choices;    /* what gr_step_choices() gave for an earlier run: taken instead of
                               measuring, so that a resumed run repeats its bits; or NULL */
    int zero;     /* state is cut up between ranks (ZeRO), on the CPU. 0: every rank has all of it;
                     ranks of one host in memory that they share, and divide its update.
                     1: each has its share of moments and averages, updates the parameters that go with
                     it, and gathers the others'. 2: of gradients, too, each keeps its share only; with
                     accumulation they stay whole. The results are the same bits in any case. Saving,
                     restoring and gr_step_use_ema() are collective then */
    bool sync_bn; /* batch norm by the statistics of all ranks' batches, forward and backward, in
                     every micro-step; not in evaluation */
    gr_dtype grad_dtype; /* of gradients between ranks: GR_F32, or GR_BF16 or GR_F16 for half the
                            bytes. They are f32 on each rank and added in f32; every rank gets
                            the same bits. f16 ends at 65504: updates that are not finite are
                            skipped then */
    gr_loss_reduction loss_reduction; /* for losses of gradus/loss.h, gr_counted_mean() and means
                            over all elements, and sums of them times constants. Then the output
                            "loss" of an update is, averaged over ranks, that mean; with
                            accumulation it is the mean itself after the updating micro-step,
                            and all of the loss must be over one count */
    bool alone; /* pg is NULL on purpose: each process of the job trains a model of its own */
    const gr_named_trace *traces; /* that gr_step_eval_named() runs, over the state that `trace`
                                     lays out. One that is called "eval" is run by gr_step_eval(),
                                     too, in place of `trace`; one called "train" is `trace` where
                                     that is NULL */
    int n_traces;
    int64_t max_batch; /* where the batches of a step may differ in size from rank to rank: samples
                          of the largest there is, so that no two samples get the same random
                          numbers; 0: all are as large as this rank's */
} gr_step_config;

#define GR_STEP_CONFIG_INIT                                                                      \
    {                                                                                            \
        NULL, NULL, "auto", NULL, "auto", GR_OPTIM_INIT, GR_AMP_NONE, 1, 0.0, 0.0, 0.0, 65536.0, \
            0, 0, 16, (size_t)25 << 20, (size_t)1 << 20, NULL, NULL, NULL, NULL, NULL,           \
            GR_RECOMPUTE_NONE, 0, NULL, 0, false, NULL, 0, false, GR_F32, GR_LOSS_LOCAL, false,  \
            NULL, 0, 0                                                                           \
    }

/* Opens the device. The trace runs at the first plan. GR_ERR_ARG names the setting that makes no
 * sense, GR_ERR_DEVICE a device that is not there. Caller owns *out; destroy accepts NULL. What
 * config points to is copied, but for pg, user and dump_arg, which must last. Several ranks on
 * GPUs: collective, because their group is made here. */
GR_API gr_status gr_step_create(gr_step **out, const gr_step_config *config) GR_MUST_CHECK;
GR_API void gr_step_destroy(gr_step *s);

/* Plans for the shapes and types of `feeds` (mem may be NULL) ahead of time. The first
 * training plan lays out and initialises the state and compares the ranks (collective);
 * a rank with another model, seed or setting is refused with key, values and ranks. */
GR_API gr_status gr_step_plan(gr_step *s, bool training, const gr_named *feeds,
                              int n_feeds) GR_MUST_CHECK;

/*
 * One micro-step: forward, backward, and on every config.accumulate-th call the
 * exchange and the update. Collective then, with sync_bn always. `lr` counts on the updating
 * call and must be the same on every rank; ranks that exchange on the CPU are compared and
 * refused.
 * A bad index or label fails the call. On the CPU nothing has changed then; on a GPU it
 * shows at the next read or sync, after the update, and training is refused until a
 * snapshot is restored.
 * Feeds are host memory; on return they may be reused. Nothing is allocated once a
 * shape has been run twice. On a GPU the call returns before the work is done.
 * With config.check_every, every so many updates the call ends with a comparison of all
 * parameters across ranks: a difference is GR_ERR_ARG on every rank and names parameter,
 * rank and step.
 */
GR_API gr_status gr_step_train(gr_step *s, const gr_named *feeds, int n_feeds,
                               double lr) GR_MUST_CHECK;
/* Forward only, on the evaluation trace. Not collective. A step that will train needs a
 * training plan first (gr_step_plan): the training trace lays out the state. */
GR_API gr_status gr_step_eval(gr_step *s, const gr_named *feeds, int n_feeds) GR_MUST_CHECK;
/* The same of a trace by name (gr_step_config.traces), and its plan ahead of time. A trace that
 * needs state which the training trace has not made is refused. */
GR_API gr_status gr_step_eval_named(gr_step *s, const char *trace, const gr_named *feeds,
                                    int n_feeds) GR_MUST_CHECK;
GR_API gr_status gr_step_plan_named(gr_step *s, const char *trace, const gr_named *feeds,
                                    int n_feeds) GR_MUST_CHECK;

/* Whether evaluations from now on read the averages in place of the parameters (default:
 * no). Needs ema_decay and a training plan. With config.zero it is collective, and averages are
 * those of the call: after training, saving or restoring it is to be called again before the
 * next evaluation, which is refused otherwise. */
GR_API gr_status gr_step_use_ema(gr_step *s, bool on) GR_MUST_CHECK;

/* Copies an output of the last run to `dst` (count and type must match). Waits for it. */
GR_API gr_status gr_step_read(gr_step *s, const char *output, gr_vec dst) GR_MUST_CHECK;

/* The shape of an output of the last run. */
GR_API gr_status gr_step_output_shape(const gr_step *s, const char *output,
                                      gr_shape *out) GR_MUST_CHECK;

/* Numbers of the last update, read back on request. */
typedef struct gr_step_stats {
    int64_t n_steps;   /* updates run, skipped ones included */
    int64_t n_skipped; /* of them without effect: gradients were not finite */
    double grad_norm;  /* before clipping; NaN unless clip_norm or fp16 is on */
    double loss_scale; /* 1 unless fp16 */
    /* Of what ranks share, this one's part. */
    size_t arena_bytes, state_bytes, exchange_bytes;
    int64_t n_params;        /* trainable elements */
    int n_plans;             /* in the cache */
    int64_t n_plans_made;    /* since creation: calls that found none */
    int64_t n_plan_hits;     /* calls that found theirs */
    int64_t n_plans_dropped; /* to make room for others; more than a few: raise max_plans */
} gr_step_stats;
GR_API gr_status gr_step_get_stats(gr_step *s, gr_step_stats *out) GR_MUST_CHECK;

/* The whole state (parameters, optimiser, loss scale, counters) as a snapshot in host
 * memory, and back. Restoring needs a training plan; names, shapes and types must
 * match, and a difference is named. Only between updates (micro-step 0). What a snapshot of
 * GR_SAVE_TRAINABLE leaves out keeps its values.
 * Ranks of one host share trained parameters, moments and averages (unless config.without says
 * otherwise): what one restores, all have, so restore while no other rank saves or evaluates.
 * With config.zero both are collective: rank 0 gets the snapshot, with the names, shapes and
 * bits of one without zero, and the others an empty one; rank 0's is restored, whatever the
 * others hand over (NULL, too). */
GR_API gr_status gr_step_save(gr_step *s, gr_snapshot **out) GR_MUST_CHECK;

typedef enum gr_save_part {
    GR_SAVE_ALL,
    GR_SAVE_TRAINABLE /* without frozen parameters: a small file of a large frozen model */
} gr_save_part;
/* The same into a snapshot of the caller. Tensors that it holds already, from the save
 * before, are overwritten in place: a second save takes no memory and is as fast as memory
 * is, with all threads of the step. GR_ERR_ARG when one has another shape or type. */
GR_API gr_status gr_step_save_into(gr_step *s, gr_snapshot *snap, gr_save_part part) GR_MUST_CHECK;
/* Tensors whose names begin with GR_SNAPSHOT_ASIDE may stand in it beside the step's own. */
#define GR_SNAPSHOT_ASIDE "recipe."
GR_API gr_status gr_step_restore(gr_step *s, const gr_snapshot *snap) GR_MUST_CHECK;

/*
 * Collective, between updates, after a training plan: the whole state of rank `root`
 * (parameters, buffers, optimiser, counters, seed) becomes that of every rank. So only one
 * rank reads checkpoints: it restores, then all call this. With config.zero moments and
 * averages are left as they are: restoring hands them out by itself.
 */
GR_API gr_status gr_step_broadcast(gr_step *s, int root) GR_MUST_CHECK;

/*
 * Collective, between updates: buffers (running statistics) of rank 0 become those of every
 * rank. Without sync_bn each rank tracks its own batches; call this before an evaluation or a
 * checkpoint whose result must not depend on the rank. Parameters are the same on all ranks
 * in any case.
 */
GR_API gr_status gr_step_sync_buffers(gr_step *s) GR_MUST_CHECK;

/* Waits until the device has finished all that was started. */
GR_API gr_status gr_step_sync(gr_step *s) GR_MUST_CHECK;

/* The kernels that were chosen by measuring, a line each, "<node> = <kernel>" or, where a
 * library has several algorithms, "<node> = <kernel>:<its name for one>"; empty without
 * config.tune. From malloc; free() it. */
GR_API gr_status gr_step_choices(gr_step *s, char **out) GR_MUST_CHECK;

/* Text: device, plan, memory, kernels. From malloc; free() it. */
GR_API gr_status gr_step_describe(gr_step *s, char **out) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
