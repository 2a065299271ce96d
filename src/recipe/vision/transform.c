/*
 * What happens to pictures on their way in: `transform:`, a map or list of operations in the
 * order in which they are applied, either for all splits or apart below `train` and `valid`.
 * gradus/augment.h has the operations; here the settings become its list. A mask goes through
 * the same geometry as its picture, by the same numbers (P42); what padding adds to a mask
 * is ignored. Without any `transform:` an image_size that is given means a RESIZE to it: what else
 * could be meant by pictures of another size?
 */
#include "recipe/vision/vision.h"

#include <inttypes.h>
#include <string.h>

#define MAX_LIST    32
#define MAX_NUMBERS 128

typedef struct list {
    gr_transform op[MAX_LIST];
    const gr_tree *at[MAX_LIST]; /* where each stands */
    int n;
    double numbers[MAX_NUMBERS]; /* of all of them, one after the other */
    int n_numbers;
} list;

/* All numbers of [0.5], [[0.1], [0.2]] or {mean: [..], std: [..]}. */
static gr_status add_numbers(list *l, const gr_tree *t)
{
    gr_tree_type type = gr_tree_kind(t);

    if (type == GR_TREE_NULL)
        return GR_OK;
    if (type == GR_TREE_TEXT) {
        if (l->n_numbers == MAX_NUMBERS)
            return gr_tree_fail(t, "more than %d numbers of transforms", MAX_NUMBERS);
        return gr_tree_f64(t, &l->numbers[l->n_numbers++]);
    }
    if (gr_tree_get(t, "mean") && gr_tree_get(t, "std") && gr_tree_count(t) == 2) {
        GR_TRY(add_numbers(l, gr_tree_get(t, "mean")));
        return add_numbers(l, gr_tree_get(t, "std"));
    }
    for (int i = 0; i < gr_tree_count(t); i++)
        GR_TRY(add_numbers(l, gr_tree_at(t, i)));
    return GR_OK;
}

/* t: what stands behind the name, or the name itself. */
static gr_status add_operation(list *l, const char *name, const gr_tree *t, bool has_numbers)
{
    gr_transform *op = &l->op[l->n];

    if (l->n == MAX_LIST)
        return gr_tree_fail(t, "more than %d transforms", MAX_LIST - 1);
    *op = (gr_transform){ .name = name, .numbers = l->numbers + l->n_numbers };
    l->at[l->n] = t;
    if (has_numbers)
        GR_TRY(add_numbers(l, t));
    op->n_numbers = (int)(l->numbers + l->n_numbers - op->numbers);
    l->n++;
    return GR_OK;
}

/* A map of them, a list of names and of maps, or one name. */
static gr_status add_all(list *l, const gr_tree *t)
{
    if (gr_tree_text(t))
        return add_operation(l, gr_tree_text(t), t, false);
    for (int i = 0; i < gr_tree_count(t); i++) {
        const gr_tree *entry = gr_tree_at(t, i);

        if (gr_tree_kind(t) == GR_TREE_MAP)
            GR_TRY(add_operation(l, gr_tree_key(t, i), entry, true));
        else if (gr_tree_text(entry))
            GR_TRY(add_operation(l, gr_tree_text(entry), entry, false));
        else
            GR_TRY(add_all(l, entry));
    }
    return GR_OK;
}

/* The first operation that cannot be added to those before it, with its line. */
static gr_status refuse(const gr_settings *s, const list *l, bool training)
{
    for (int n = 1; n < l->n; n++) {
        gr_augment *a;

        if (gr_augment_create(&a, l->op + 1, n, !training) == GR_OK)
            gr_augment_destroy(a);
        else if (gr_tree_line(l->at[n]) > 0)
            return gr_tree_fail(l->at[n], "'transform': %s", gr_error_message());
        else
            break;
    }
    return gr_settings_fail(s, "transform", "%s", gr_error_message());
}

static bool has_none(const gr_settings *s)
{
    const gr_tree *t = gr_settings_tree(s, "transform");

    return !t || (!gr_tree_text(t) && gr_tree_count(t) == 0);
}

/* size: height and width to resize to, where there is no transform; NULL: none. */
static gr_status make(gr_augment **out, const gr_settings *s, bool training, int32_t mask_fill,
                      const double *size)
{
    const gr_tree *t = gr_settings_tree(s, "transform");
    const gr_tree *train = gr_tree_get(t, "train"), *valid = gr_tree_get(t, "valid");
    list l = { .n = 1, .numbers = { (double)mask_fill }, .n_numbers = 1 };

    l.op[0] = (gr_transform){ "MASK_FILL", l.numbers, 1 };
    if (train || valid)
        t = training ? train : valid;
    if (size) {
        l.op[l.n] = (gr_transform){ "RESIZE", size, 2 };
        l.at[l.n++] = t;
    } else if (t) {
        GR_TRY(add_all(&l, t));
    }
    /* First without the filling, so that messages count as the file does. */
    if (gr_augment_create(out, l.op + 1, l.n - 1, !training) != GR_OK)
        return refuse(s, &l, training);
    gr_augment_destroy(*out);
    if (gr_augment_create(out, l.op, l.n, !training) != GR_OK)
        return gr_settings_fail(s, "transform", "%s", gr_error_message());
    return GR_OK;
}

gr_status gr_vision_transform_size(const gr_settings *s, int64_t *height, int64_t *width)
{
    gr_augment *a;
    int h = 0, w = 0;

    GR_TRY(make(&a, s, false, 0, NULL));
    if (!gr_augment_size(a, &h, &w))
        h = w = 0;
    gr_augment_destroy(a);
    *height = h;
    *width = w;
    return GR_OK;
}

bool gr_vision_resizes(const gr_vision *v)
{
    return v->size_given && has_none(v->s);
}

gr_status gr_vision_transform_open(gr_vision *v)
{
    int32_t fill = v->criterion.ignore < 0 ? 0 : v->criterion.ignore;
    double given[2] = { (double)v->model.height, (double)v->model.width };
    const double *size = gr_vision_resizes(v) ? given : NULL;

    GR_TRY(make(&v->augment[0], v->s, true, fill, size));
    return make(&v->augment[1], v->s, false, fill, size);
}

void gr_vision_transform_close(gr_vision *v)
{
    gr_augment_destroy(v->augment[0]);
    gr_augment_destroy(v->augment[1]);
}

/* Without transforms it is the first picture that says the size. */
static gr_status wrong_size(const gr_vision *v, const gr_image *is)
{
    int64_t height = v->model.height, width = v->model.width;

    if (has_none(v->s))
        return gr_fail(GR_ERR_FORMAT,
                       "it is %d x %d, but the network takes %" PRId64 " x %" PRId64
                       ", the size of the first picture; give all pictures one size with "
                       "--image_size %" PRId64 " or --transform '{RESIZE: [%" PRId64 ", %" PRId64
                       "]}'",
                       is->height, is->width, height, width, height, height, width);
    return gr_fail(GR_ERR_FORMAT,
                   "it is %d x %d after the transforms, but the network takes %" PRId64
                   " x %" PRId64 "; give a RESIZE or CROP that leaves that, as --transform "
                   "'{RESIZE: [%" PRId64 ", %" PRId64 "]}' does, or another image_size",
                   is->height, is->width, height, width, height, width);
}

gr_status gr_vision_transform(const gr_vision *v, const gr_sample *sample, gr_vision_scratch *s,
                              bool has_mask, float *to)
{
    const gr_augment *a = v->augment[sample->split != GR_SPLIT_TRAIN];
    gr_augment_key key = { sample->seed, sample->epoch, sample->index };
    int64_t height = v->model.height, width = v->model.width;
    gr_image *masks[1] = { &s->mask };

    GR_TRY(gr_augment_apply(a, key, &s->image, masks, has_mask));
    if (s->image.height != height || s->image.width != width)
        return wrong_size(v, &s->image);
    return gr_augment_to_f32(a, &s->image, to);
}
