/*
 * Which data each split has.
 *
 *   training     dataset.train_path, else the training part of dataset.root_dir
 *   validation   dataset.valid_path, else shares or folds of the training data if the settings
 *                ask for them, else the validation part of the root, else a tenth of the
 *                training data
 *   test         dataset.test_path, else the third share, else the test part of the root
 *   prediction   what the user named (--input), else as test
 *
 * Only what the task needs is opened. Classes are numbered by the training data.
 */
#include "recipe/vision/vision.h"

#include "recipe/shapes/draw.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define N_DRAWN       24000
#define N_DRAWN_OTHER 4000
#define HELD_OUT      0.1 /* of the training data, when nothing else is for validation */

static bool exists(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0;
}

/* A path of the settings, below the root if it is there; from malloc. */
static gr_status resolve(const gr_vision *v, const char *path, char **out)
{
    const char *root = gr_settings_text(v->s, "dataset.root_dir");
    size_t n = strlen(path) + (root ? strlen(root) : 0) + 2;

    *out = malloc(n);
    if (!*out)
        return gr_fail(GR_ERR_NOMEM, "no memory for a path");
    snprintf(*out, n, "%s/%s", root ? root : "", path);
    if (!root || path[0] == '/' || (!exists(*out) && exists(path)))
        snprintf(*out, n, "%s", path);
    return GR_OK;
}

static gr_status find_format(const gr_vision *v, gr_format *out)
{
    const char *name = gr_settings_text(v->s, "dataset.name");

    *out = GR_FORMAT_AUTO;
    if (!name)
        return GR_OK;
    return gr_format_find(strcmp(name, "mnist") == 0 ? "idx" : name, out);
}

typedef struct source {
    const char *path_key, *labels_key; /* of the settings */
    const char *split;                 /* of the root; NULL: the path itself */
} source;

static const source sources[GR_N_SPLITS] = {
    [GR_SPLIT_TRAIN] = { "dataset.train_path", "dataset.train_labels", "train" },
    [GR_SPLIT_VALID] = { "dataset.valid_path", "dataset.valid_labels", "valid" },
    [GR_SPLIT_TEST] = { "dataset.test_path", "dataset.test_labels", "test" },
    [GR_SPLIT_PREDICT] = { NULL, NULL, NULL }, /* the task's input */
};

/* The image type that the network takes, as far as that is known yet. */
static gr_image_as image_as(const gr_vision *v)
{
    if (v->model.channels == 0)
        return GR_IMAGE_STORED;
    return v->model.channels == 1 ? GR_IMAGE_GRAY : GR_IMAGE_RGB;
}

/* At the setting that says most about the data. */
static gr_status no_path(const gr_vision *v, const source *from, gr_split split)
{
    static const char *const words[] = { "training", "validation", "test", "prediction" };
    static const char *const said[] = { "dataset.name", "dataset.train_path", "dataset.test_path" };
    const char *at = from->path_key;

    for (int i = 2; i >= 0; i--)
        if (gr_settings_given(v->s, said[i]))
            at = said[i];
    return gr_settings_fail(v->s, at,
                            "'%s', and no %s data are named: write 'dataset.root_dir: FOLDER' or "
                            "'%s: PATH', or give --dataset.root_dir or --%s",
                            gr_settings_text(v->s, at) ? gr_settings_text(v->s, at) : "",
                            words[split], from->path_key, from->path_key);
}

/* After data did not open: says the flag that would help, if there is one. */
static gr_status advise(const gr_dataset_config *c, gr_split split, gr_status st)
{
    gr_dataset_config undivided = *c;
    gr_dataset *whole;
    char why[2048];
    bool has = true;

    snprintf(why, sizeof(why), "%s", gr_error_message());
    if (split != GR_SPLIT_PREDICT && c->format == GR_FORMAT_AUTO && strstr(why, "say its format"))
        return gr_fail(st, "%s (--dataset.name)", why);
    undivided.split = NULL;
    if (split != GR_SPLIT_TRAIN || !c->split || gr_dataset_has(c, &has) != GR_OK || has ||
        gr_dataset_open(&whole, &undivided) != GR_OK)
        return gr_fail(st, "%s", why);
    gr_dataset_destroy(whole);
    return gr_fail(st, "%s; to train on what is there, with a part set aside: --data_path '%s'",
                   why, c->path);
}

/* Opens the part's own path, or its part of the root. */
static gr_status open_whole(gr_vision *v, gr_split split, const gr_dataset *classes_of)
{
    const source *from = &sources[split];
    const char *path = from->path_key ? gr_settings_text(v->s, from->path_key) : v->input;
    const char *labels = from->labels_key ? gr_settings_text(v->s, from->labels_key) : NULL;
    gr_dataset_config c = GR_DATASET_CONFIG_INIT;
    char *at = NULL, *labels_at = NULL;
    gr_status st = GR_OK;

    if (split != GR_SPLIT_PREDICT)
        GR_TRY(find_format(v, &c.format));
    c.split = path ? NULL : from->split;
    path = path ? path : gr_settings_text(v->s, "dataset.root_dir");
    if (!path)
        return no_path(v, from, split);
    if (!c.split && split != GR_SPLIT_PREDICT)
        GR_TRY_GOTO(st, resolve(v, path, &at), done);
    GR_TRY_GOTO(st, labels ? resolve(v, labels, &labels_at) : GR_OK, done);
    c.path = at ? at : path;
    c.labels = labels_at;
    c.image_pattern = gr_settings_text(v->s, "dataset.image_pattern");
    c.mask_pattern = gr_settings_text(v->s, "dataset.mask_pattern");
    c.decode.as = image_as(v);
    /* Training data of another kind have none to number by; they are refused later, by name. */
    if (classes_of && !gr_vision_segments(&v->model) && gr_dataset_n_classes(classes_of) > 0)
        c.classes_of = classes_of;
    st = gr_dataset_open(&v->parts[split].whole, &c);
    if (st == GR_ERR_IO || st == GR_ERR_FORMAT)
        st = advise(&c, split, st);

done:
    free(at);
    free(labels_at);
    return st;
}

static bool has_class(const gr_dataset *set, const char *name)
{
    for (int c = 0; c < gr_dataset_n_classes(set); c++)
        if (strcmp(gr_dataset_class_name(set, c), name) == 0)
            return true;
    return false;
}

/* The same, numbered by dataset.classes if that is given. It may be that of other data, in a file
 * that is used again: then it is the setting that is wrong, and not the data. */
static gr_status open_listed(gr_vision *v, gr_split split)
{
    gr_dataset **out = &v->parts[split].whole;
    gr_status st = open_whole(v, split, v->classes);
    char why[1024], other[256] = "";

    if (st != GR_ERR_FORMAT || !v->classes)
        return st;
    snprintf(why, sizeof(why), "%s", gr_error_message());
    if (open_whole(v, split, NULL) == GR_OK) {
        for (int c = 0; c < gr_dataset_n_classes(*out) && !*other; c++) {
            const char *name = gr_dataset_class_name(*out, c);

            if (name && !has_class(v->classes, name))
                snprintf(other, sizeof(other), "%s", name);
        }
        gr_dataset_destroy(*out);
    }
    *out = NULL;
    if (!*other)
        return gr_fail(st, "%s", why);
    return gr_settings_fail(v->s, "dataset.classes",
                            "the data have a class '%s', which is none of these %d; leave this "
                            "setting out to train anew on other data",
                            other, gr_dataset_n_classes(v->classes));
}

static void use_whole(gr_vision_part *p)
{
    p->set = p->whole;
    p->size = gr_dataset_size(p->whole);
}

/* n of the samples that index names. */
static gr_status use_some(gr_vision_part *p, const gr_dataset *of, const int64_t *index, int64_t n)
{
    GR_TRY(gr_dataset_subset(&p->some, of, index, n));
    p->set = p->some;
    p->size = n;
    return GR_OK;
}

/* ---- shares and folds ---- */

static bool is_divided(const gr_vision *v)
{
    return gr_settings_count(v->s, "dataset.split") > 0 || gr_settings_given(v->s, "dataset.folds");
}

static gr_status divide(const gr_vision *v, int64_t n, gr_division *out)
{
    uint64_t seed = (uint64_t)gr_settings_int(v->s, "dataset.split_seed");
    int n_shares = gr_settings_count(v->s, "dataset.split");
    double share[3] = { 0, HELD_OUT, 0 }, sum = 0;

    if (gr_settings_given(v->s, "dataset.folds"))
        return gr_divide_folds(out, n, (int)gr_settings_int(v->s, "dataset.folds"),
                               (int)gr_settings_int(v->s, "dataset.fold"), seed);
    if (n_shares > 3 || n_shares == 1)
        return gr_settings_fail(v->s, "dataset.split", "two or three shares, not %d", n_shares);
    if (n > 1 && (double)n * HELD_OUT < 1)
        share[1] = 1.01 / (double)n; /* one sample at least */
    for (int i = 0; i < n_shares; i++)
        sum += share[i] = gr_settings_f64_at(v->s, "dataset.split", i);
    if (n_shares && (sum < 0.999 || sum > 1.001))
        return gr_settings_fail(v->s, "dataset.split", "the shares add up to %g, not 1", sum);
    return gr_divide_ratio(out, n, share[1], share[2], seed);
}

static int64_t at_most(int64_t n, int64_t limit)
{
    return limit && limit < n ? limit : n;
}

/* Divides the training data; the parts that the task needs are made of it. */
static gr_status open_divided(gr_vision *v, const gr_recipe_config *config)
{
    gr_vision_part *train = &v->parts[GR_SPLIT_TRAIN], *valid = &v->parts[GR_SPLIT_VALID];
    gr_vision_part *test = &v->parts[GR_SPLIT_TEST];
    gr_division d = { 0 };
    gr_status st;

    GR_TRY_GOTO(st, divide(v, gr_dataset_size(train->whole), &d), done);
    if (config->task == GR_TASK_TRAIN) {
        int64_t n_train = at_most(d.n_train, config->n_train);
        int64_t n_valid = at_most(d.n_valid, config->n_valid);

        GR_TRY_GOTO(st, use_some(train, train->whole, d.train, n_train), done);
        GR_TRY_GOTO(st, use_some(valid, train->whole, d.valid, n_valid), done);
    } else if (d.n_test > 0) {
        st = use_some(test, train->whole, d.test, d.n_test);
    }

done:
    gr_division_fini(&d);
    return st;
}

/* The first n in a random order: a smaller data set of the same kind. Parts of a division are
 * limited already. */
static gr_status limit(const gr_vision *v, gr_vision_part *p, int64_t n)
{
    gr_division d = { 0 };
    gr_status st;

    if (p->some || at_most(p->size, n) == p->size)
        return GR_OK;
    GR_TRY(
        gr_divide_ratio(&d, p->size, 0, 0, (uint64_t)gr_settings_int(v->s, "dataset.split_seed")));
    st = use_some(p, p->whole, d.train, n);
    gr_division_fini(&d);
    return st;
}

/* ---- drawn data ---- */

static gr_status open_drawn(gr_vision *v, const gr_recipe_config *config)
{
    bool masks = gr_vision_segments(&v->model);
    gr_vision_model *m = &v->model;
    int most = masks ? GR_SHAPES_CLASSES + 1 : GR_SHAPES_CLASSES;
    int64_t side = m->height ? m->height : masks ? 64 : GR_SHAPES_SIDE;
    int64_t width = m->width ? m->width : side;

    if (!m->height) /* transforms may make them another size */
        GR_TRY(gr_vision_transform_size(v->s, &m->height, &m->width));
    m->height = m->height ? m->height : side;
    m->width = m->width ? m->width : m->height;
    m->channels = m->channels ? m->channels : 1;
    m->n_out = m->n_out ? m->n_out : most;
    if (m->n_out > most || side != width || side > GR_SCENE_MAX_SIDE)
        return gr_settings_fail(v->s, "dataset.name",
                                "drawn shapes have at most %d classes and are square, at most %d "
                                "pixels a side; not %d classes, %" PRId64 " x %" PRId64,
                                most, GR_SCENE_MAX_SIDE, m->n_out, side, width);
    for (int i = 0; i < GR_N_SPLITS; i++) {
        gr_vision_part *p = &v->parts[i];
        int n_kinds = masks ? m->n_out - 1 : m->n_out;

        p->is_drawn = true;
        p->key = config->seed * GR_N_SPLITS + (uint64_t)i;
        p->size = i == GR_SPLIT_TRAIN ? N_DRAWN : N_DRAWN_OTHER;
        if (i == GR_SPLIT_TRAIN && config->n_train)
            p->size = config->n_train;
        else if (i != GR_SPLIT_TRAIN && config->n_valid)
            p->size = config->n_valid;
        if (m->n_out == 1)
            n_kinds = masks ? GR_SHAPES_CLASSES : 2;
        p->scene =
            (gr_scene){ .side = (int)side,
                        .channels = (int)m->channels,
                        .n_kinds = n_kinds,
                        .n_shapes = masks ? (int)gr_settings_int(v->s, "dataset.n_shapes") : 1 };
    }
    return GR_OK;
}

/* ---- what the task needs ---- */

static bool root_has_valid(const gr_vision *v)
{
    static const char *const names[] = { "valid", "val", "validation" };
    const char *root = gr_settings_text(v->s, "dataset.root_dir");
    char path[4096];

    for (size_t i = 0; root && i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", root, names[i]);
        if (exists(path))
            return true;
    }
    return false;
}

static gr_status open_for_training(gr_vision *v, const gr_recipe_config *config)
{
    gr_vision_part *train = &v->parts[GR_SPLIT_TRAIN], *valid = &v->parts[GR_SPLIT_VALID];
    bool own_valid = gr_settings_text(v->s, "dataset.valid_path") != NULL;

    GR_TRY(open_listed(v, GR_SPLIT_TRAIN));
    use_whole(train);
    if (own_valid && is_divided(v))
        return gr_settings_fail(v->s, "dataset.valid_path",
                                "there is also dataset.split or dataset.folds; take one of them");
    if (is_divided(v) || (!own_valid && !root_has_valid(v))) {
        GR_TRY(open_divided(v, config));
    } else {
        GR_TRY(open_whole(v, GR_SPLIT_VALID, train->whole));
        use_whole(valid);
    }
    GR_TRY(limit(v, train, config->n_train));
    return limit(v, valid, config->n_valid);
}

static bool can_train(const gr_vision *v)
{
    return gr_settings_text(v->s, "dataset.train_path") != NULL ||
           gr_settings_text(v->s, "dataset.root_dir") != NULL;
}

/* Opens the training data where they number the classes or hold the test share. */
static gr_status open_for_test(gr_vision *v, const gr_recipe_config *config)
{
    bool own = gr_settings_text(v->s, "dataset.test_path") != NULL;
    bool divided = !own && gr_settings_count(v->s, "dataset.split") == 3;
    const gr_dataset *classes = v->classes;

    if (can_train(v) && (divided || !classes)) {
        GR_TRY(open_listed(v, GR_SPLIT_TRAIN));
        classes = v->parts[GR_SPLIT_TRAIN].whole;
        if (divided)
            return open_divided(v, config);
    }
    if (classes == v->classes)
        GR_TRY(open_listed(v, GR_SPLIT_TEST));
    else
        GR_TRY(open_whole(v, GR_SPLIT_TEST, classes));
    use_whole(&v->parts[GR_SPLIT_TEST]);
    return GR_OK;
}

static bool is_picture(const char *path)
{
    static const char *const suffixes[] = { ".png", ".jpg", ".jpeg" };
    const char *dot = strrchr(path, '.');
    struct stat st;

    for (size_t i = 0; dot && i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
        if (strcasecmp(dot, suffixes[i]) == 0)
            return stat(path, &st) == 0 && S_ISREG(st.st_mode);
    return false;
}

static gr_status open_input(gr_vision *v)
{
    v->parts[GR_SPLIT_PREDICT] = (gr_vision_part){ 0 };
    if (is_picture(v->input)) {
        v->parts[GR_SPLIT_PREDICT] = (gr_vision_part){ .file = v->input, .size = 1 };
        return GR_OK;
    }
    GR_TRY(open_whole(v, GR_SPLIT_PREDICT, NULL));
    use_whole(&v->parts[GR_SPLIT_PREDICT]);
    return GR_OK;
}

static gr_status open_for_prediction(gr_vision *v, const gr_recipe_config *config)
{
    gr_vision_part *to = &v->parts[GR_SPLIT_PREDICT], *test = &v->parts[GR_SPLIT_TEST];

    if (v->input) {
        /* for the names of classes, which predictions can do without */
        if (can_train(v) && !v->classes && open_whole(v, GR_SPLIT_TRAIN, NULL) != GR_OK)
            v->parts[GR_SPLIT_TRAIN].whole = NULL;
        return open_input(v);
    }
    GR_TRY(open_for_test(v, config));
    to->set = test->set;
    to->size = test->size;
    return GR_OK;
}

gr_status gr_vision_data_open(gr_vision *v, const gr_recipe_config *config)
{
    const char *name = gr_settings_text(v->s, "dataset.name");
    bool has_path = gr_settings_text(v->s, "dataset.root_dir") ||
                    gr_settings_text(v->s, "dataset.train_path") ||
                    gr_settings_text(v->s, "dataset.test_path") || v->input;

    if (name ? strcmp(name, "shapes") == 0 : !has_path) {
        GR_TRY(open_drawn(v, config));
        return v->input ? open_input(v) : GR_OK;
    }
    switch (config->task) {
    case GR_TASK_TRAIN: return open_for_training(v, config);
    case GR_TASK_TEST: return open_for_test(v, config);
    case GR_TASK_MODEL: return GR_OK;
    case GR_TASK_PREDICT: break;
    }
    return open_for_prediction(v, config);
}

void gr_vision_data_close(gr_vision *v)
{
    for (int i = 0; i < GR_N_SPLITS; i++)
        gr_dataset_destroy(v->parts[i].some);
    for (int i = 0; i < GR_N_SPLITS; i++)
        gr_dataset_destroy(v->parts[i].whole);
}

const char *gr_vision_path_key(const gr_vision *v, gr_split split)
{
    const gr_vision_part *p = &v->parts[split];
    const char *own = sources[p->whole ? split : GR_SPLIT_TRAIN].path_key; /* or a share of those */

    return gr_settings_text(v->s, own) ? own : "dataset.root_dir";
}

const char *gr_vision_faster(const gr_vision *v)
{
    const gr_dataset *set = v->parts[GR_SPLIT_TRAIN].set;

    if (!set)
        return NULL; /* drawn */
    switch (gr_dataset_format(set)) {
    case GR_FORMAT_FOLDER:
    case GR_FORMAT_IMAGES:
    case GR_FORMAT_PAIRS:
    case GR_FORMAT_DRIVE:
    case GR_FORMAT_LIST:
    case GR_FORMAT_CSV: return "pack the data (gradus pack), make the pictures smaller";
    case GR_FORMAT_AUTO:
    case GR_FORMAT_IDX:
    case GR_FORMAT_CIFAR10:
    case GR_FORMAT_CIFAR100:
    case GR_FORMAT_NPY:
    case GR_FORMAT_SHARDS:
    case GR_FORMAT_COUNT: break; /* pixels already, in one file or few */
    }
    return "make the pictures smaller";
}

bool gr_vision_has_masks(const gr_vision *v, gr_split split)
{
    const gr_vision_part *p = &v->parts[split];

    if (!gr_vision_segments(&v->model))
        return false;
    return p->is_drawn || (p->set && gr_dataset_has_masks(p->set));
}

const char *gr_vision_name(const gr_vision *v, gr_split split, int64_t index,
                           char text[GR_DATASET_NAME])
{
    const gr_vision_part *p = &v->parts[split];

    if (p->set)
        return gr_dataset_name(p->set, index, text, GR_DATASET_NAME);
    if (p->file)
        snprintf(text, GR_DATASET_NAME, "%s", p->file);
    else
        snprintf(text, GR_DATASET_NAME, "drawn-%" PRId64, index);
    return text;
}

gr_status gr_vision_weigh(const void *user, double *weights)
{
    const gr_vision *v = user;
    const gr_vision_part *p = &v->parts[GR_SPLIT_TRAIN];
    int64_t n = p->size;
    int n_classes = p->set ? gr_dataset_n_classes(p->set) : 0;
    int64_t *count;

    if (n_classes < 1)
        return gr_fail(GR_ERR_ARG,
                       "these data have no classes to weigh samples by: they are drawn, "
                       "or have masks");
    count = calloc((size_t)n_classes, sizeof(*count));
    if (!count)
        return gr_fail(GR_ERR_NOMEM, "no memory for %d classes", n_classes);
    for (int64_t i = 0; i < n; i++)
        count[gr_dataset_class(p->set, i)]++;
    for (int64_t i = 0; i < n; i++)
        weights[i] = 1.0 / (double)count[gr_dataset_class(p->set, i)];
    free(count);
    return GR_OK;
}
