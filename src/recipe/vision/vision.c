/*
 * The recipe `vision`: networks that say what is in a picture (ResNet, MLP) or where (U-Net),
 * from one YAML file. docs/recipes.md goes through it as the example of a recipe.
 */
#include "recipe/vision/vision.h"

#include "gradus/ops.h"
#include "recipe/recipes.h"
#include "recipe/shapes/draw.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what the settings leave open, from the data ---- */

const gr_vision_part *gr_vision_first_part(const gr_vision *v)
{
    for (int i = 0; i < GR_N_SPLITS; i++)
        if (v->parts[i].size > 0)
            return &v->parts[i];
    return NULL;
}

/* Broken files are for the loader to judge, and for `gradus check` to list: the first whole
 * picture says the size, if there is one among so many. */
#define MAX_LOOKS 1000

static gr_status first_picture(const gr_vision_part *p, gr_image *image)
{
    int64_t n = p->size < MAX_LOOKS ? p->size : MAX_LOOKS;

    if (p->file)
        return gr_image_read(image, p->file, NULL);
    for (int64_t i = 0; i < n; i++)
        if (gr_dataset_image(p->set, i, image) == GR_OK)
            return GR_OK;
    return gr_dataset_image(p->set, 0, image);
}

static gr_status sample_size(const gr_vision_part *p, int64_t size[3])
{
    gr_image image = GR_IMAGE_INIT;
    gr_status st;

    if (p->is_array)
        return gr_vision_array_size(p->set, size);
    st = first_picture(p, &image);
    if (st == GR_OK)
        memcpy(size, (int64_t[3]){ image.height, image.width, image.channels < 3 ? 1 : 3 },
               3 * sizeof(*size));
    gr_image_fini(&image);
    return st;
}

/* Of a model that somebody else runs: the settings of its checkpoint know all but what only its
 * data told. */
static gr_status settle_unseen(gr_vision *v)
{
    gr_vision_model *m = &v->model;

    m->channels = m->channels ? m->channels : 1;
    if (m->height)
        return GR_OK;
    return gr_fail(GR_ERR_ARG,
                   "the checkpoint does not say how large pictures are: its run took that "
                   "from the data; train it with model.config.input_sizes");
}

/* Sizes are those of the settings, else what the transforms leave, else the first whole sample's.
 */
static gr_status settle_size(gr_vision *v)
{
    const gr_vision_part *p = gr_vision_first_part(v);
    gr_vision_model *m = &v->model;
    int64_t size[3];

    if (!p && v->task != GR_TASK_MODEL)
        return gr_fail(GR_ERR_ARG, "the data hold no sample");
    for (int i = 0; i < GR_N_SPLITS; i++)
        if (v->parts[i].set && v->parts[i].size > 0)
            v->parts[i].is_array = gr_vision_is_array(v->parts[i].set);
    if (!m->height)
        GR_TRY(gr_vision_transform_size(v->s, &m->height, &m->width));
    if (!p)
        return settle_unseen(v);
    if (p->is_drawn || (m->height && m->channels))
        return GR_OK;
    GR_TRY(sample_size(p, size));
    m->height = m->height ? m->height : size[0];
    m->width = m->width ? m->width : size[1];
    v->colours_found = !m->channels && size[2] == 3 && !p->is_array;
    m->channels = m->channels ? m->channels : size[2];
    return GR_OK;
}

static gr_status check_postprocess(const gr_vision *v)
{
    const char *how = gr_settings_text(v->s, "postprocess");

    if (strcmp(how, "threshold") == 0 && v->model.n_out != 1)
        return gr_settings_fail(v->s, "postprocess", "a threshold is for one logit, not %d",
                                v->model.n_out);
    if (strcmp(how, "argmax") == 0 && v->model.n_out == 1)
        return gr_settings_fail(v->s, "postprocess", "argmax needs two classes or more");
    return GR_OK;
}

/* ---- the table's functions ---- */

static void vision_close(void *user)
{
    gr_vision *v = user;

    if (!v)
        return;
    gr_vision_transform_close(v);
    gr_vision_data_close(v);
    gr_vision_metrics_fini(&v->metrics);
    gr_vision_criterion_fini(&v->criterion);
    gr_vision_classes_close(v);
    free(v->columns);
    free(v);
}

/* What the trace reads and gives out. */
static void set_fields(gr_vision *v)
{
    gr_shape image = GR_SHAPE(v->model.height, v->model.width, v->model.channels);
    gr_shape mask = GR_SHAPE(v->model.height, v->model.width);
    bool masks = gr_vision_segments(&v->model);

    v->feeds[GR_FEED_IMAGE] = (gr_field){ "image", GR_F32, image, 0 };
    v->feeds[GR_FEED_TARGET] = (gr_field){ "target", GR_I32, masks ? mask : GR_SCALAR, 0 };
    v->feeds[GR_FEED_SIZE] = (gr_field){ "size", GR_I32, GR_SHAPE(2), 0 };
    v->n_feeds = masks ? 3 : 2;
    v->outputs[GR_OUTPUT_MAIN] = masks
                                     ? (gr_field){ "prediction", GR_I32, mask, 0 }
                                     : (gr_field){ "logits", GR_F32, GR_SHAPE(v->model.n_out), 0 };
    v->n_outputs = 1;
    v->score_at = -1;
    if (masks && v->metrics.has_scores) {
        v->score_at = v->n_outputs++;
        v->outputs[v->score_at] = (gr_field){ "probability", GR_F32, mask, 0 };
    }
}

/* Masks with one logit often have 255 for yes, so nothing in them is ignored unasked; what
 * padding adds is, as 255 once they are 0 and 1. Classes of pictures are never ignored. */
static void settle_ignored(gr_vision *v)
{
    bool one = v->model.n_out == 1;

    v->criterion.ignore = -1;
    v->mask_ignore = -1;
    if (!gr_vision_segments(&v->model))
        return;
    if (!one || gr_settings_given(v->s, "dataset.ignore_index"))
        v->mask_ignore = (int32_t)gr_settings_int(v->s, "dataset.ignore_index");
    v->criterion.ignore = one ? 255 : v->mask_ignore;
}

/* What is trained and on what, for who gave neither or a file that says both. */
static void set_texts(gr_vision *v)
{
    const gr_vision_model *m = &v->model;
    const gr_vision_part *p = &v->parts[GR_SPLIT_TRAIN];
    char resized[64] = "";

    snprintf(v->model_text, sizeof(v->model_text),
             "%s, %" PRId64 " x %" PRId64 " x %" PRId64 ", %d classes%s", m->name, m->height,
             m->width, m->channels, v->n_classes, m->n_out == 1 ? " by one logit" : "");
    if (gr_vision_resizes(v) && !p->is_array)
        snprintf(resized, sizeof(resized), " resized to %" PRId64 " x %" PRId64, m->height,
                 m->width);
    if (p->is_drawn)
        snprintf(v->data_text, sizeof(v->data_text), "drawn shapes%s",
                 gr_settings_given(v->s, "dataset.name") ? "" : " (no --data_path is given)");
    else if (p->set)
        snprintf(v->data_text, sizeof(v->data_text), "'%.*s' (%s)%s", GR_DATASET_NAME - 1,
                 gr_settings_text(v->s, gr_vision_path_key(v, GR_SPLIT_TRAIN)),
                 gr_format_name(gr_dataset_format(p->set)), resized);
}

static gr_status fill(gr_vision *v, const gr_recipe_config *config)
{
    v->s = config->settings;
    v->task = config->task;
    v->input = config->task == GR_TASK_PREDICT ? config->input : NULL;
    v->threshold = gr_settings_f64(v->s, "threshold");
    v->mask_threshold = (int32_t)gr_settings_int(v->s, "dataset.mask_threshold");
    GR_TRY(gr_vision_model_read(&v->model, v->s));
    v->size_given = v->model.height > 0;
    GR_TRY(gr_vision_classes_open(v));
    GR_TRY(gr_vision_data_open(v, config));
    GR_TRY(settle_size(v));
    GR_TRY(gr_vision_classes_settle(v));
    GR_TRY(check_postprocess(v));
    settle_ignored(v);
    GR_TRY(gr_vision_check_masks(v));
    GR_TRY(gr_vision_criterion_read(&v->criterion, v->s, &v->model));
    GR_TRY(gr_vision_metrics_read(v));
    GR_TRY(gr_vision_transform_open(v));
    GR_TRY(gr_vision_columns(v));
    GR_TRY(gr_vision_check_names(v));
    GR_TRY(gr_vision_find(v));
    set_fields(v);
    set_texts(v);
    return GR_OK;
}

static gr_status vision_open(void **user, const gr_recipe_config *config)
{
    gr_vision *v = calloc(1, sizeof(*v));
    gr_status st;

    if (!v)
        return gr_fail(GR_ERR_NOMEM, "no memory for the recipe");
    st = fill(v, config);
    if (st != GR_OK) {
        vision_close(v);
        return st;
    }
    *user = v;
    return GR_OK;
}

static gr_status vision_describe(const void *user, gr_recipe_view *out)
{
    const gr_vision *v = user;

    *out = (gr_recipe_view){ .feeds = v->feeds,
                             .n_feeds = v->n_feeds,
                             .outputs = v->outputs,
                             .n_outputs = v->n_outputs,
                             .metrics = v->metrics.info,
                             .n_metrics = v->metrics.n,
                             .n_counts = v->metrics.n_counts,
                             .columns = v->columns,
                             .n_columns = v->n_columns,
                             .found = v->found,
                             .n_found = v->n_found,
                             .faster_loading = gr_vision_faster(v),
                             .model = v->model_text,
                             .data = *v->data_text ? v->data_text : NULL };
    return GR_OK;
}

static int64_t vision_size(const void *user, gr_split split)
{
    return ((const gr_vision *)user)->parts[split].size;
}

/* The class of each pixel; with one logit, yes from the threshold on. */
static void give_masks(const gr_vision *v, gr_graph *g, gr_value *logits)
{
    gr_value *mask;

    if (v->model.n_out == 1) {
        logits = gr_squeeze(g, logits, 3);
        mask = gr_ge_k(g, logits, log(v->threshold / (1 - v->threshold)));
    } else {
        mask = gr_argmax(g, logits, 3, false);
    }
    gr_output(g, "prediction", gr_cast(g, mask, GR_I32));
    if (v->score_at >= 0)
        gr_output(g, "probability", gr_sigmoid(g, logits));
}

static gr_status vision_train(gr_graph *g, void *user)
{
    const gr_vision *v = user;
    gr_value *target = gr_input(g, "target");
    gr_value *logits = gr_vision_model_build(&v->model, g, gr_input(g, "image"));

    gr_vision_criterion_build(&v->criterion, g, logits, target);
    return gr_graph_status(g);
}

static gr_status vision_eval(gr_graph *g, void *user)
{
    const gr_vision *v = user;
    gr_value *target = gr_input(g, "target");
    gr_value *logits = gr_vision_model_build(&v->model, g, gr_input(g, "image"));

    if (gr_vision_segments(&v->model))
        give_masks(v, g, logits);
    else
        gr_output(g, "logits", gr_cast(g, logits, GR_F32));
    if (v->task != GR_TASK_PREDICT) /* where there is nothing to compare with */
        gr_vision_criterion_build(&v->criterion, g, gr_cast(g, logits, GR_F32), target);
    return gr_graph_status(g);
}

static const gr_recipe_data data = {
    .open = vision_open,
    .close = vision_close,
    .describe = vision_describe,
    .size = vision_size,
    .scratch_open = gr_vision_scratch_open,
    .scratch_close = gr_vision_scratch_close,
    .load = gr_vision_load,
    .check = gr_vision_inspect,
    .weights = gr_vision_weigh,
};

static const gr_named_trace traces[] = { { "train", vision_train }, { "eval", vision_eval } };
static const gr_recipe_model model = { traces, 2 };

static const gr_recipe_evaluation evaluation = {
    .score = gr_vision_score,
    .measure = gr_vision_measure,
    .predict = gr_vision_predict,
};

static const gr_preset presets[] = {
    { "train.epochs", "20", NULL },
    { "train.batch_size", "32", NULL },
    { "train.lr", "1e-3", NULL },
    { "train.optimizer.weight_decay", "0.01", NULL },
};

const gr_recipe gr_recipe_vision = {
    .abi = GR_RECIPE_ABI,
    .name = "vision",
    .help = "classification and segmentation of pictures: ResNet, U-Net, MLP",
    .presets = presets,
    .n_presets = sizeof(presets) / sizeof(presets[0]),
    .keys = gr_vision_keys,
    .n_keys = GR_VISION_N_KEYS,
    .data = &data,
    .model = &model,
    .evaluation = &evaluation,
};
