/*
 * How many classes there are and what they are called: what the settings say, else the data.
 *
 * What the data said is handed to the trainer, which records it with the run's settings
 * (gr_recipe_view.found): a checkpoint is tested and predicted with where the training data are
 * gone, and a class folder that came or went cannot shift the numbers of the others unnoticed.
 */
#include "recipe/vision/vision.h"

#include "recipe/shapes/draw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gr_status no_memory(void)
{
    return gr_fail(GR_ERR_NOMEM, "no memory for the names of classes");
}

gr_status gr_vision_classes_open(gr_vision *v)
{
    int n = gr_settings_count(v->s, "dataset.classes");
    const char **names;
    gr_status st;

    if (n == 0 || gr_vision_segments(&v->model))
        return GR_OK;
    names = calloc((size_t)n, sizeof(*names));
    if (!names)
        return no_memory();
    for (int i = 0; i < n; i++)
        names[i] = gr_settings_text_at(v->s, "dataset.classes", i);
    st = gr_dataset_of_classes(&v->classes, names, n);
    free(names);
    return st == GR_ERR_ARG ? gr_settings_fail(v->s, "dataset.classes", "%s", gr_error_message())
                            : st;
}

/* Who knows the classes; NULL: nobody. What is predicted on may lie in folders of any names. */
static const gr_dataset *known_by(const gr_vision *v)
{
    const gr_dataset *train = v->parts[GR_SPLIT_TRAIN].whole;

    if (gr_vision_segments(&v->model))
        return NULL;
    if (train || v->classes)
        return train ? train : v->classes;
    return v->input || !gr_vision_first_part(v) ? NULL : gr_vision_first_part(v)->set;
}

static gr_status take_number(gr_vision *v, const gr_dataset *known)
{
    int n = gr_dataset_n_classes(known);

    if (n == 1)
        return gr_settings_fail(v->s, "model.config.num_classes",
                                "the data have one class only, '%s', and there is nothing to tell "
                                "apart; add another, or give this",
                                gr_dataset_class_name(known, 0) ? gr_dataset_class_name(known, 0)
                                                                : "0");
    v->model.n_out = n;
    return GR_OK;
}

static bool has_classes(const gr_dataset *set)
{
    return gr_dataset_n_classes(set) > 0 || gr_dataset_class(set, 0) >= 0;
}

/* The network is for masks and the data have classes, or the other way round, or nothing. */
static gr_status refuse_data(const gr_vision *v, gr_split split, const gr_dataset *set)
{
    const char *key = gr_vision_path_key(v, split);

    if (!gr_vision_segments(&v->model))
        return gr_settings_fail(
            v->s, "model.name", "it tells classes apart, and the data of %s have %s", key,
            gr_dataset_has_masks(set) ? "masks: take model.name unet, or data with a folder or "
                                        "label for each class"
                                      : "none: no folder or label for each");
    return gr_settings_fail(
        v->s, "model.name", "it needs a mask for each picture, and the data of %s have %s", key,
        has_classes(set) ? "classes: take another model.name (resnet18, mlp), or data with "
                           "masks, as in 'images' and 'masks' beside each other"
                         : "none: give the folder that 'images' and 'masks' are in, or a "
                           "list of pairs");
}

/* What samples have is known before one is read: not the first step has to tell. */
static gr_status check_kind(const gr_vision *v)
{
    for (int i = 0; i < GR_SPLIT_PREDICT && v->task != GR_TASK_PREDICT; i++) {
        const gr_dataset *set = v->parts[i].size > 0 ? v->parts[i].set : NULL;

        if (set && !(gr_vision_segments(&v->model) ? gr_dataset_has_masks(set) : has_classes(set)))
            return refuse_data(v, (gr_split)i, set);
    }
    return GR_OK;
}

/* Classes of masks are not known before all are read, so they are a setting. */
static gr_status settle_number(gr_vision *v)
{
    const gr_dataset *known = known_by(v);
    int n = gr_settings_count(v->s, "classes");

    GR_TRY(check_kind(v));
    if (v->model.n_out == 0 && n > 0)
        v->model.n_out = n;
    if (v->model.n_out == 0 && known)
        GR_TRY(take_number(v, known));
    if (v->model.n_out == 0)
        return gr_settings_fail(v->s, "model.config.num_classes",
                                "%s do not say how many classes there are; give this",
                                gr_vision_segments(&v->model) ? "masks" : "data without labels");
    v->n_classes = v->model.n_out == 1 ? 2 : v->model.n_out;
    if (gr_vision_segments(&v->model) && v->n_classes > 256)
        return gr_settings_fail(v->s, "model.config.num_classes", "masks hold at most 256 classes");
    if (n > 0 && n != v->n_classes && !(n == 1 && v->model.n_out == 1))
        return gr_settings_fail(v->s, "classes", "%d names for %d classes", n, v->n_classes);
    if (known && v->task != GR_TASK_PREDICT && gr_dataset_n_classes(known) > v->n_classes)
        return gr_settings_fail(v->s, "model.config.num_classes",
                                "the network tells %d classes apart, and the data have %d",
                                v->n_classes, gr_dataset_n_classes(known));
    return GR_OK;
}

static bool is_drawn(const gr_vision *v)
{
    const gr_vision_part *p = gr_vision_first_part(v);

    return p && p->is_drawn;
}

/* The name of a class when the settings give none. */
static const char *usual_name(const gr_vision *v, int c, char *number, size_t n)
{
    const gr_dataset *known = known_by(v);
    bool masks = gr_vision_segments(&v->model);
    const char *name;

    if (masks && c == 0)
        return "background";
    if (v->model.n_out == 1)
        return c == 0 ? "no" : masks ? "foreground" : "yes";
    if (is_drawn(v))
        return gr_shapes_name(masks ? c - 1 : c);
    name = known ? gr_dataset_class_name(known, c) : NULL;
    snprintf(number, n, "%d", c);
    return name ? name : number;
}

static gr_status name_classes(gr_vision *v)
{
    int n = gr_settings_count(v->s, "classes");

    v->class_names = calloc((size_t)v->n_classes, sizeof(*v->class_names));
    for (int c = 0; v->class_names && c < v->n_classes; c++) {
        int at = c - (v->n_classes - n); /* one name is that of yes */
        char number[16];
        const char *name = n > 0 && at >= 0 ? gr_settings_text_at(v->s, "classes", at)
                                            : usual_name(v, c, number, sizeof(number));

        v->class_names[c] = strdup(name);
        if (!v->class_names[c])
            return no_memory();
    }
    return v->class_names ? GR_OK : no_memory();
}

gr_status gr_vision_classes_settle(gr_vision *v)
{
    GR_TRY(settle_number(v));
    return name_classes(v);
}

/* ---- what a checkpoint has to remember ---- */

/* Takes `text`, from malloc; NULL: there was no memory. */
static gr_status add_found(gr_vision *v, const char *key, char *text)
{
    if (!text)
        return no_memory();
    v->found_text[v->n_found] = text;
    v->found[v->n_found++] = (gr_found){ .key = key, .value = text };
    return GR_OK;
}

/* Bytes of the character at s: 1 to 4; 0: none that a setting can hold. */
static int n_bytes_of(const unsigned char *s)
{
    int n = s[0] < 0x80 ? 1 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;

    if (s[0] < ' ' || s[0] == 127 || (s[0] >= 0x80 && s[0] < 0xc2) || s[0] > 0xf4)
        return 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

/* Folders may be called anything; settings are UTF-8 without control characters. */
static bool can_list(const gr_dataset *known)
{
    for (int c = 0; c < gr_dataset_n_classes(known); c++) {
        const unsigned char *s = (const unsigned char *)gr_dataset_class_name(known, c);
        int n = 1;

        for (; s && *s && n > 0; s += n)
            n = n_bytes_of(s);
        if (!s || n == 0)
            return false;
    }
    return gr_dataset_n_classes(known) > 0;
}

/* ["cat", "dog"] */
static char *list_of(const gr_dataset *known)
{
    int n = gr_dataset_n_classes(known);
    size_t n_bytes = 3;
    char *text, *to;

    for (int c = 0; c < n; c++)
        n_bytes += 2 * strlen(gr_dataset_class_name(known, c)) + 4;
    text = to = malloc(n_bytes);
    for (int c = 0; text && c < n; c++) {
        to = stpcpy(to, c ? ", \"" : "[\"");
        for (const char *s = gr_dataset_class_name(known, c); *s; s++) {
            if (*s == '"' || *s == '\\')
                *to++ = '\\';
            *to++ = *s;
        }
        *to++ = '"';
    }
    if (text)
        memcpy(to, "]", 2);
    return text;
}

gr_status gr_vision_find(gr_vision *v)
{
    const gr_dataset *known = known_by(v);
    char number[16];

    if (is_drawn(v) || v->task == GR_TASK_MODEL)
        return GR_OK;
    snprintf(number, sizeof(number), "%d", v->model.n_out);
    GR_TRY(add_found(v, "model.config.num_classes", strdup(number)));
    if (v->colours_found)
        GR_TRY(add_found(v, "model.config.n_channels", strdup("3")));
    if (known && can_list(known))
        GR_TRY(add_found(v, "dataset.classes", list_of(known)));
    return GR_OK;
}

void gr_vision_classes_close(gr_vision *v)
{
    for (int i = 0; i < v->n_found; i++)
        free(v->found_text[i]);
    for (int c = 0; v->class_names && c < v->n_classes; c++)
        free(v->class_names[c]);
    free(v->class_names);
    gr_dataset_destroy(v->classes);
}
