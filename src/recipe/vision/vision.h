/*
 * The recipe `vision` from the inside. Settings are read once, in create(), into the structs
 * below; after that nothing changes, so loader threads read them without locks.
 *
 *   keys.c       the settings it knows             criterion.c  losses and their sum
 *   model.c      networks by name                  metrics.c    counts and values by name
 *   data.c       which data each split has         transform.c  images on their way in
 *   load.c       one sample, from any thread       array.c      samples that are no pictures
 *   predict.c    rows and masks                    classes.c    how many there are, and names
 *   vision.c     the tables that tie all together
 */
#ifndef GR_RECIPE_VISION_VISION_H
#define GR_RECIPE_VISION_VISION_H

#include "gradus/augment.h"
#include "gradus/data.h"
#include "gradus/graph.h"
#include "gradus/metric.h"
#include "gradus/recipe.h"
#include "gradus/settings.h"
#include "recipe/shapes/scene.h"

/* "ResNet-18", "resnet_18" and "resnet18" are one name: small letters without - and _. */
void gr_vision_plain(const char *name, char *out, size_t n);

#define GR_VISION_N_KEYS 35
extern const gr_key gr_vision_keys[GR_VISION_N_KEYS];

/* ---- model.c ---- */

#define GR_VISION_MAX_HIDDEN 16

typedef enum gr_vision_net { GR_NET_RESNET, GR_NET_UNET, GR_NET_MLP } gr_vision_net;

typedef struct gr_vision_model {
    gr_vision_net net;
    const char *name;                /* static */
    int depth;                       /* ResNet */
    int64_t height, width, channels; /* of its input */
    int n_out;                       /* logits; 1: yes or no */
    int n_hidden;                    /* MLP */
    int64_t hidden[GR_VISION_MAX_HIDDEN];
    double dropout;
    int64_t base; /* U-Net: channels of the first level */
    bool bilinear;
} gr_vision_model;

/* What the settings say; sizes and classes that they leave open are 0. */
gr_status gr_vision_model_read(gr_vision_model *m, const gr_settings *s) GR_MUST_CHECK;
/* [n, h, w, c] -> [n, n_out], or [n, h, w, n_out] of a U-Net. */
gr_value *gr_vision_model_build(const gr_vision_model *m, gr_graph *g, gr_value *x);

static inline bool gr_vision_segments(const gr_vision_model *m)
{
    return m->net == GR_NET_UNET;
}

/* ---- criterion.c ---- */

#define GR_VISION_MAX_TERMS 8

typedef enum gr_vision_loss { GR_LOSS_CE, GR_LOSS_BCE, GR_LOSS_DICE, GR_LOSS_FOCAL } gr_vision_loss;

typedef struct gr_vision_term {
    gr_vision_loss loss;
    double weight;          /* in the sum */
    double label_smoothing; /* cross_entropy */
    double pos_weight;      /* bce */
    double alpha, gamma;    /* focal */
    double smooth;          /* dice */
    float *class_weight;    /* cross_entropy: one per class, owned; or NULL */
} gr_vision_term;

typedef struct gr_vision_criterion {
    gr_vision_term terms[GR_VISION_MAX_TERMS];
    int n_terms;
    int32_t ignore; /* this label does not count */
} gr_vision_criterion;

gr_status gr_vision_criterion_read(gr_vision_criterion *c, const gr_settings *s,
                                   const gr_vision_model *m) GR_MUST_CHECK;
void gr_vision_criterion_fini(gr_vision_criterion *c);
/* The terms of the loss; target i32: [n], or [n, h, w] of a U-Net. */
void gr_vision_criterion_build(const gr_vision_criterion *c, gr_graph *g, gr_value *logits,
                               gr_value *target);

/* ---- metrics.c ---- */

typedef struct gr_vision_metric {
    int kind;              /* metrics.c */
    gr_class_metric which; /* of a class, or a mean over classes */
    int at;                /* class, or GR_CLASS_MEAN; k of top-k */
    int64_t count;         /* place of its counts, where they are its own */
} gr_vision_metric;

typedef struct gr_vision_metrics {
    gr_vision_metric *list; /* owned */
    gr_metric_info *info;   /* owned, with the names */
    int n, cap;
    int n_matrix;    /* rows of the confusion matrix, which comes first: at least 2 */
    bool has_scores; /* a U-Net gives out probabilities, too */
    int64_t n_counts;
} gr_vision_metrics;

typedef struct gr_vision gr_vision;

gr_status gr_vision_metrics_read(gr_vision *v) GR_MUST_CHECK;
void gr_vision_metrics_fini(gr_vision_metrics *m);
void gr_vision_score(const void *user, const gr_eval *e, double *counts);
void gr_vision_measure(const void *user, const double *counts, double *values);
/* The class that a row of logits says. */
int32_t gr_vision_decide(const gr_vision *v, const float *row);

/* ---- data.c ---- */

/* Weights that draw each class as often as the others. */
gr_status gr_vision_weigh(const void *user, double *weights) GR_MUST_CHECK;

/* Where the samples of a split come from: drawn, or of a data set. */
typedef struct gr_vision_part {
    bool is_drawn;
    gr_scene scene;
    uint64_t key;      /* of drawn ones */
    gr_dataset *whole; /* owned; NULL where another part's is shared */
    gr_dataset *some;  /* owned: a part of a whole; or NULL */
    const gr_dataset *set;
    const char *file; /* borrowed: one picture, without a data set; or NULL */
    bool is_array;    /* numbers that are no pictures */
    int64_t size;
} gr_vision_part;

gr_status gr_vision_data_open(gr_vision *v, const gr_recipe_config *config) GR_MUST_CHECK;
void gr_vision_data_close(gr_vision *v);
/* The first part that has samples; NULL: none. */
const gr_vision_part *gr_vision_first_part(const gr_vision *v);
/* What makes training data load faster; NULL: nothing. */
const char *gr_vision_faster(const gr_vision *v);
bool gr_vision_has_masks(const gr_vision *v, gr_split split);
/* The setting that says where the split's data are; not for predictions. */
const char *gr_vision_path_key(const gr_vision *v, gr_split split);
/* What a sample is called in messages and results; returns `text`. */
const char *gr_vision_name(const gr_vision *v, gr_split split, int64_t index,
                           char text[GR_DATASET_NAME]);

/* ---- classes.c ---- */

/* dataset.classes, before the data are opened. */
gr_status gr_vision_classes_open(gr_vision *v) GR_MUST_CHECK;
/* After the data were opened: number and names, from the settings or the data. */
gr_status gr_vision_classes_settle(gr_vision *v) GR_MUST_CHECK;
/* What the data have said and a checkpoint has to remember. */
gr_status gr_vision_find(gr_vision *v) GR_MUST_CHECK;
void gr_vision_classes_close(gr_vision *v);

/* ---- load.c ---- */

typedef struct gr_vision_scratch {
    gr_image image, mask, spare; /* spare: while one is converted */
} gr_vision_scratch;

gr_status gr_vision_scratch_open(const void *user, void **scratch);
void gr_vision_scratch_close(void *scratch);
gr_status gr_vision_load(const void *user, const gr_sample *sample, void *scratch,
                         const gr_feed_slot *feeds);
/* Without decoding: heads, sizes of picture and mask, class. */
gr_status gr_vision_inspect(const void *user, const gr_sample *sample);
/* GR_ERR_ARG: all that the training masks show would be ignored. */
gr_status gr_vision_check_masks(const gr_vision *v) GR_MUST_CHECK;

/* ---- array.c ---- */

bool gr_vision_is_array(const gr_dataset *set);
/* Height, width and channels. */
gr_status gr_vision_array_size(const gr_dataset *set, int64_t size[3]) GR_MUST_CHECK;
gr_status gr_vision_load_array(const gr_vision *v, const gr_sample *sample,
                               float *to) GR_MUST_CHECK;

/* ---- transform.c ---- */

/* The height and width that `transform:` leaves; 0 and 0 when it does not say. */
gr_status gr_vision_transform_size(const gr_settings *s, int64_t *height,
                                   int64_t *width) GR_MUST_CHECK;
/* Pictures of another size are resized: image_size is given, and no transform. */
bool gr_vision_resizes(const gr_vision *v);
gr_status gr_vision_transform_open(gr_vision *v) GR_MUST_CHECK;
void gr_vision_transform_close(gr_vision *v);
/* The picture of the scratch as f32 [height, width, channels], its mask (if any) alike. */
gr_status gr_vision_transform(const gr_vision *v, const gr_sample *sample, gr_vision_scratch *s,
                              bool has_mask, float *to) GR_MUST_CHECK;

/* ---- predict.c ---- */

gr_status gr_vision_predict(const void *user, const gr_eval *e, gr_results *out);
/* Of predictions.csv. */
gr_status gr_vision_columns(gr_vision *v) GR_MUST_CHECK;
/* Whether two masks would have the same name. */
gr_status gr_vision_check_names(gr_vision *v) GR_MUST_CHECK;

struct gr_vision {
    const gr_settings *s; /* borrowed */
    const char *input;    /* borrowed: what to predict on; or NULL */
    gr_vision_model model;
    bool size_given; /* its height and width are those of the settings */
    gr_vision_criterion criterion;
    gr_vision_metrics metrics;
    gr_vision_part parts[GR_N_SPLITS];
    gr_augment *augment[2]; /* of training, of everything else */
    gr_task task;
    double threshold;       /* of probabilities, when there is one logit */
    int32_t mask_threshold; /* one logit: the least value of a mask that is yes */
    int32_t mask_ignore;    /* value of masks that does not count; -1: none */
    gr_dataset *classes;    /* owned: dataset.classes; NULL: not given */
    char **class_names;     /* owned; one per class, two when there is one logit */
    int n_classes;          /* n_out, or 2 when there is one logit */
    bool colours_found;     /* three channels, because the data have as many */
    gr_found found[3];
    char *found_text[3]; /* owned: their values */
    int n_found;
    char model_text[96], data_text[GR_DATASET_NAME + 128]; /* for the first lines of a run */
    gr_column *columns;                                    /* owned: of predictions.csv */
    int n_columns;
    bool is_numbered; /* names of masks begin with the sample's number */
    gr_field feeds[3], outputs[3];
    int n_feeds, n_outputs;
    int score_at; /* among the outputs; -1: not there */
};

enum { GR_FEED_IMAGE, GR_FEED_TARGET, GR_FEED_SIZE };
#define GR_OUTPUT_MAIN 0 /* the first output */

#endif
