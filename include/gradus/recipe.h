/*
 * Recipes: what is trained. A recipe is its settings and three tables of functions: its data, its
 * model (traces by name), and how it is evaluated. The trainer brings the rest: ranks, order of
 * samples, loader threads, precision, checkpoints, progress. A recipe sees only the public headers.
 */
#ifndef GRADUS_RECIPE_H
#define GRADUS_RECIPE_H

#include "gradus/data.h"
#include "gradus/optim.h"
#include "gradus/step.h"
#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Goes up whenever the structs below change; the trainer refuses another number. */
#define GR_RECIPE_ABI 10

/* Parts of the data. Those of prediction need no labels. */
typedef enum gr_split { GR_SPLIT_TRAIN, GR_SPLIT_VALID, GR_SPLIT_TEST, GR_SPLIT_PREDICT } gr_split;
#define GR_N_SPLITS 4

/* What the program is about to do: a recipe opens only what that needs. */
typedef enum gr_task {
    GR_TASK_TRAIN,
    GR_TASK_TEST,
    GR_TASK_PREDICT,
    GR_TASK_MODEL /* another recipe runs the model (gr_runner_open): no data are opened, and all
                     that it needs to know is in the settings */
} gr_task;

/* What open() is handed; everything is equal on every rank. */
typedef struct gr_recipe_config {
    gr_task task;
    uint64_t seed;
    int64_t n_train, n_valid;           /* samples; 0 leaves the choice to the recipe */
    const struct gr_settings *settings; /* values of the recipe's keys (gradus/settings.h);
                                           they live as long as the recipe's user data */
    const char *input;        /* GR_TASK_PREDICT: the file or folder that the user named; NULL: the
                                 recipe's own choice. Lives as long, too */
    const gr_snapshot *state; /* what save() gave to the checkpoint that is gone on from, or used;
                                 NULL: none. Until open() returns */
} gr_recipe_config;

/* One tensor of one sample. The trainer puts the batch dimension in front. */
typedef struct gr_field {
    const char *name;
    gr_dtype dtype;
    gr_shape shape; /* a dimension may be GR_AXIS_DIM(a), the length of axis a of the view */
    double pad;     /* what a feed holds where load() writes nothing: 0, or -100 for labels that do
                       not count */
} gr_field;
#define GR_AXIS_DIM(a) (-1 - (int64_t)(a))

/* Where load() writes one feed of a sample: rows are as long as the padded shape says. The memory
 * holds the field's `pad`. */
typedef struct gr_feed_slot {
    void *mem;
    gr_shape shape;
} gr_feed_slot;

typedef struct gr_metric_info {
    const char *name; /* "accuracy", "iou/road" */
    bool is_less_better;
    bool is_share; /* between 0 and 1, shown as a percentage */
} gr_metric_info;

/* A setting of the recipe's own that was left open and that its data have settled. */
typedef struct gr_found {
    const char *key;
    const char *value; /* as a flag would write it: 3, or ["cat", "dog"] */
} gr_found;

/* One column of the table of predictions. */
typedef enum gr_column_kind { GR_COLUMN_INT, GR_COLUMN_F64, GR_COLUMN_TEXT } gr_column_kind;
typedef struct gr_column {
    const char *name;
    gr_column_kind kind;
    int digits; /* F64: significant ones; 0: six */
} gr_column;

typedef union gr_cell {
    int64_t i;
    double f;         /* no number: nan in the CSV file, null in the other */
    const char *text; /* NULL: empty, and null */
} gr_cell;

/* What the settings made of the recipe. Everything in it is the recipe's and lives as long
 * as its user data. */
typedef struct gr_recipe_view {
    const gr_field *feeds; /* inputs of the traces "train" and "eval" */
    int n_feeds;
    const gr_field *outputs; /* of the trace "eval", read back for score() and predict() */
    int n_outputs;
    /* Dimensions that differ from sample to sample: batches are padded on all of them to one of at
     * most 12 sizes, chosen from the lengths of the split's samples. For each axis the traces may
     * ask for two inputs more, which nobody loads: "<axis>.mask", bool [n, padded length], true
     * where a sample is, and "<axis>.length", i32 [n]. NULL: samples are all of one size. */
    const gr_axis *axes;
    int n_axes;
    const gr_metric_info *metrics; /* the first one judges unless the user names another */
    int n_metrics;
    int64_t n_counts;         /* numbers that score() adds to */
    const gr_column *columns; /* of predictions.csv and predictions.jsonl; NULL: there are none */
    int n_columns;
    const gr_found *found; /* recorded with the settings of a run, so that its checkpoints can
                              be used where the training data are not; NULL: nothing */
    int n_found;
    const char *faster_loading; /* what the user can do about it, for the advice when loading takes
                                   long: "make the pictures smaller"; NULL: nothing */
    const char *model, *data;   /* what is trained and on what, for the first lines of a run:
                                   "resnet18, 32 x 32 x 3, 10 classes", "drawn shapes"; may be NULL */
} gr_recipe_view;

/* Which sample, and in which epoch: augmentation draws from (seed, epoch, index), so that it
 * depends on neither rank nor thread and a resumed run draws the same. */
typedef struct gr_sample {
    gr_split split;
    int64_t index, epoch;
    uint64_t seed;
} gr_sample;

/* A batch that was evaluated. Rows lie one after the other: feed i holds n samples of
 * view.feeds[i], output i of view.outputs[i]. */
typedef struct gr_eval {
    gr_split split;
    int64_t n;
    const int64_t *index; /* of each sample in its split */
    const void *const
        *feeds; /* behind the recipe's own: mask and length of axis 0, of axis 1 ... */
    const void *const *outputs;
    const int64_t *padded; /* of each axis: the length that this batch is padded to */
} gr_eval;

/*
 * Where predictions go. What is handed over is put in the order of its units (samples, or whatever
 * work is dealt to the ranks), however many ranks there are; that of one unit stays in the order in
 * which it came. One thread.
 */
typedef struct gr_results gr_results;
/* A row: a cell for each column of the view. A unit may have any number of them. */
GR_API gr_status gr_results_row(gr_results *r, int64_t unit, const gr_cell *cells) GR_MUST_CHECK;
/* A picture of 1 (grey), 3 or 4 channels, as samples/<name>.png; of a run that trains, for
 * TensorBoard and W&B, too. It is copied. */
GR_API gr_status gr_results_picture(gr_results *r, int64_t unit, const char *name,
                                    const gr_image *image) GR_MUST_CHECK;
/* The folder for files of the recipe's own; it exists. Each rank writes those of its units. */
GR_API const char *gr_results_folder(const gr_results *r);

/* ---- settings ---- */

/* A value that suits the recipe better than the default, for one of the trainer's settings or of
 * the recipe's own. What the user says, by flag, environment or file, is stronger. Of several for
 * one key the last one whose condition holds counts. */
typedef struct gr_preset {
    const char *key;   /* dotted: "train.lr" */
    const char *value; /* as a flag would write it: "1e-3", "2 epochs" */
    const char *when;  /* NULL: always. Or settings and their values, all of which must hold:
                          "form=newest", "form=newest, ranks=1"; `ranks` is how many there are. A
                          setting that presets change is looked at as the rows above left it */
} gr_preset;

/* A name that means something else with this recipe than with others: it goes before the trainer's
 * own names and aliases, as a flag and in files. Only in a file a name that is a setting's dotted
 * key keeps its meaning. */
typedef struct gr_recipe_alias {
    const char *name;  /* "save_every" */
    const char *key;   /* the setting that is meant: "checkpoint.save_epochs" */
    const char *tasks; /* with these commands alone: "test|predict"; NULL: with all */
    const char *unit;  /* put after a number that has none: "epochs", for a setting that counts
                          steps or epochs; NULL: nothing */
    const char *none;  /* the value that says that nothing is given: "None"; NULL: no such */
} gr_recipe_alias;

/* ---- commands ---- */

/* What a command is handed. Words without flags come in their order. */
typedef struct gr_recipe_call {
    const struct gr_settings *settings; /* of the command's own keys */
    const char *const *words;
    int n_words;
    void *out; /* for gr_say() */
} gr_recipe_call;

/* A command of the recipe's beside train and test: `gradus sample-data seg DIR`. One process. */
typedef struct gr_recipe_command {
    const char *name, *help; /* "sample-data"; one line */
    const struct gr_key *keys;
    int n_keys;
    const char *words; /* "DIR", as help and errors have it; NULL: none */
    int n_words;       /* all must be there */
    gr_status (*run)(const gr_recipe_call *call);
} gr_recipe_command;

/* A line for people. */
GR_API void gr_say(const gr_recipe_call *call, const char *fmt, ...) GR_PRINTF(2, 3);

/* ---- files of another project ---- */

/* Names of tensors: those in the dictionary `key` that begin with `name` begin with `here`, here.
 * The first rule that is for a name counts; what none is for is left out. Prefixes that wrappers
 * put there ("module.") are passed over. Shapes may differ in dimensions of 1. */
typedef struct gr_foreign_rule {
    const char *key;  /* "encoder_state_dict"; NULL: at the top of the file */
    const char *name; /* "net."; "": any */
    const char *here; /* "encoder."; NULL: left out */
    int ones;         /* dimensions of 1 that are put after the others when one is written */
} gr_foreign_rule;

/* A layout. Files that have all dictionaries of rules that take something are read by it, as
 * weights to begin with or to use; `gradus export --layout NAME` writes it. */
typedef struct gr_foreign {
    const char *name; /* "original" */
    const gr_foreign_rule *rules;
    int n_rules;
} gr_foreign;

/* ---- data ---- */

/* A cache that is built before open(), in parts that all ranks share out among them. */
typedef struct gr_prepared {
    const char *folder;       /* made if need be */
    const char *const *names; /* of the parts' files in it; may lead into folders that are there */
    int64_t n_parts;
    int64_t n_last; /* of them, at the end: those that are built once all others are there, such as
                       an index of them */
} gr_prepared;

/*
 * A part is built once, by one rank, and the others wait for it as long as it takes. build() writes
 * a file under a name that it is given, which is renamed when it is whole: a process that is killed
 * leaves no half part, and the next run goes on with those that are there. Ranks of hosts that
 * share the folder share the work; a host with a folder of its own builds all of it there, once.
 */
typedef struct gr_preparation {
    /* What there is to build; equal on every rank. The caller ends *job with end() after GR_OK. */
    gr_status (*begin)(void **job, const gr_recipe_config *config, gr_prepared *out);
    void (*end)(void *job);
    /* Writes part `part` to `path`. On a thread of the trainer's, one part at a time in a process.
     */
    gr_status (*build)(void *job, int64_t part, const char *path);
    /* Whether the part that is there will do: of this version, from an unchanged source. The same
     * thread. NULL: it will. */
    bool (*is_current)(const void *job, int64_t part, const char *path);
} gr_preparation;

typedef struct gr_recipe_data {
    /* Equal configs give equal data on every rank. The caller owns *user. */
    gr_status (*open)(void **user, const gr_recipe_config *config);
    void (*close)(void *user); /* accepts NULL */

    /* What checkpoints keep of the data, as tensors and texts: what open() has made of the training
     * data and test and prediction need, too (means, a list of words). Called once, after open() of
     * a training; must be equal on every rank. open() is handed it back. NULL: nothing. */
    gr_status (*save)(const void *user, gr_snapshot *into);
    const gr_preparation *preparation; /* before open(); NULL: none */

    gr_status (*describe)(const void *user, gr_recipe_view *out);
    int64_t (*size)(const void *user, gr_split split); /* 0: there are none */

    /* With axes: the length of a sample on each. Asked for once for each sample that is used. */
    gr_status (*lengths)(const void *user, gr_split split, int64_t index, int64_t *lengths);

    /* Memory that load() may use as it likes; one for each thread that loads. NULL: load() is
     * handed NULL. */
    gr_status (*scratch_open)(const void *user, void **scratch);
    void (*scratch_close)(void *scratch);

    /* Writes a sample to feeds[i] of each feed i, which holds its `pad` (0) where nothing is
     * written: a split without labels leaves theirs alone. What it writes depends on `user`,
     * sample and the slots' shapes alone. May be called by several threads at once. */
    gr_status (*load)(const void *user, const gr_sample *sample, void *scratch,
                      const gr_feed_slot *feeds);

    /* Whether load() would do, as cheaply as that can be told (heads of files, sizes, classes):
     * `gradus check` asks for every sample. The message names the file. Any thread. NULL: check
     * loads some samples instead. */
    gr_status (*check)(const void *user, const gr_sample *sample);

    /* How often each training sample is drawn, as numbers above 0 that need not add up to
     * anything, for `sampler: weighted`: weights[i] of sample i. NULL: the recipe has none. */
    gr_status (*weights)(const void *user, double *weights);

    /* An order of its own in place of the shuffled one: writes as many indices as there are
     * training samples; ranks take them in turn. What it writes depends on its arguments alone.
     * One thread at a time. Not for the samplers weighted and bucketed. NULL: shuffled. */
    gr_status (*order)(const void *user, uint64_t seed, int64_t epoch, int64_t *index);
} gr_recipe_data;

/* ---- model ---- */

/* The trainer runs "train" and "eval", which a recipe must have; others are its own. All are handed
 * `user` and share one state, which "train" lays out. */
typedef struct gr_recipe_model {
    const gr_named_trace *traces;
    int n_traces;
} gr_recipe_model;

/* ---- evaluation ---- */

/*
 * Runs evaluation traces on feeds of the recipe's own, as often as it wants: windows that slide
 * over a picture, the steps of a sampler, tokens that are filled in one after the other. Plans are
 * kept by trace and shapes, so few different shapes are best. One thread; nothing here is
 * collective.
 */
typedef struct gr_runner gr_runner;
/* Feeds are host memory and may be reused on return. */
GR_API gr_status gr_runner_run(gr_runner *r, const char *trace, const gr_named *feeds,
                               int n_feeds) GR_MUST_CHECK;
/* An output of the latest run, and its shape. */
GR_API gr_status gr_runner_read(gr_runner *r, const char *output, gr_vec dst) GR_MUST_CHECK;
GR_API gr_status gr_runner_shape(const gr_runner *r, const char *output,
                                 gr_shape *out) GR_MUST_CHECK;
/* Whether runs read the averages of the parameters (train.ema_decay) or the parameters; at first
 * the averages where there are some. */
GR_API bool gr_runner_has_averages(const gr_runner *r);
GR_API gr_status gr_runner_use_averages(gr_runner *r, bool on) GR_MUST_CHECK;
/* This rank, how many there are, and the seed of the command: with a unit's number they make keys
 * for draws that depend on neither rank nor batch (gr_random_normal_keyed). */
GR_API int gr_runner_rank(const gr_runner *r);
GR_API int gr_runner_n_ranks(const gr_runner *r);
GR_API uint64_t gr_runner_seed(const gr_runner *r);

/* In prepare(): the largest feeds of a trace (mem NULL), so that it is planned and its memory
 * known before step 1. A run that nobody announced is planned when it comes. */
GR_API gr_status gr_runner_expect(gr_runner *r, const char *trace, const gr_named *feeds,
                                  int n_feeds) GR_MUST_CHECK;
/* In prepare(): the model of another checkpoint (a file or a run, of any recipe, whose model
 * fits into memory beside this one). *out ends with `r`. Its own traces are run, "eval" among them,
 * whose feeds and outputs its view names. Every rank reads the file. */
GR_API gr_status gr_runner_open(gr_runner *r, const char *checkpoint,
                                gr_runner **out) GR_MUST_CHECK;
GR_API const gr_recipe_view *gr_runner_view(const gr_runner *r);

/* How a split is gone through: its samples in batches, units of work that are dealt to the ranks
 * (a picture, an episode, a picture to be drawn), or first the one and then the other. */
typedef struct gr_eval_work {
    bool has_batches;
    int64_t n_units;
} gr_eval_work;

typedef struct gr_recipe_evaluation {
    /* *out says batches and no units. NULL: so be it. */
    void (*work)(const void *user, gr_task task, gr_split split, gr_eval_work *out);
    /* Before the first run, on every rank: what it will be fed, other models. May be NULL. */
    gr_status (*prepare)(void *user, gr_task task, gr_runner *r);
    /* A unit's counts, and its rows, pictures and files. Its results must depend on its number, and
     * on nothing that ran before it. */
    gr_status (*score_unit)(void *user, gr_runner *r, gr_split split, int64_t unit, double *counts);
    gr_status (*predict_unit)(void *user, gr_runner *r, int64_t unit, gr_results *out);

    /* Adds a batch to the counts. They are summed over batches and ranks, and must be exact
     * sums (whole numbers below 2^53, or numbers whose order does not matter to you). NULL: nothing
     * is counted. The loss needs no counting: it is what the trace "eval" calls gr_loss_add() for
     * (gradus/loss.h), over all samples; or else the mean of gr_loss() of the batches, each as
     * often as it has samples. */
    void (*score)(const void *user, const gr_eval *e, double *counts);
    /* The values of view.metrics from all counts. NaN where one is not defined. */
    void (*measure)(const void *user, const double *counts, double *values);
    /* Pictures of a validation, on rank 0: handed its first batch. They lie in samples/ of the
     * run's folder as step_<N>_<name>.png. NULL: none. */
    gr_status (*show)(const void *user, const gr_eval *e, gr_results *out);
    /* Rows and files of a batch; NULL: the recipe predicts nothing. */
    gr_status (*predict)(const void *user, const gr_eval *e, gr_results *out);
} gr_recipe_evaluation;

/* What is done now and then while a run trains: pictures that a sampler draws after each epoch.
 * Units are dealt to the ranks, with the averages of the weights where there are some; pictures go
 * to samples/ of the run's folder and to the trackers, files to the folder of the results. Not at a
 * step that ends the run by a stop. A failure ends the run. */
typedef struct gr_action {
    const char *name, *help;
    const char
        *key; /* the setting that says how often, which is made of this row: "sample_every" */
    const char *every; /* its preset: "1 epoch", "500 steps", "0" for never */
    int64_t (*n_units)(const void *user);
    /* Its results must depend on its number and the model, and on nothing that ran before it. */
    gr_status (*run_unit)(void *user, gr_runner *r, int64_t unit, gr_results *out);
} gr_action;

typedef struct gr_recipe {
    uint32_t abi; /* GR_RECIPE_ABI; read before anything else */
    const char *name, *help;
    const struct gr_key *keys; /* settings of its own; NULL: none */
    int n_keys;
    const gr_preset *presets; /* NULL: the trainer's defaults suit it */
    int n_presets;
    const gr_recipe_alias *aliases; /* NULL: none */
    int n_aliases;
    const gr_action *actions; /* NULL: none */
    int n_actions;
    const gr_recipe_command *commands; /* NULL: none */
    int n_commands;
    const gr_foreign *foreign; /* NULL: none but this program's own */
    int n_foreign;
    const gr_recipe_data *data;
    const gr_recipe_model *model;
    const gr_recipe_evaluation *evaluation;
} gr_recipe;

#ifdef __cplusplus
}
#endif

#endif
