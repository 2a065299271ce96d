/*
 * One sample, from any thread: decoded or drawn, transformed together with its mask, and
 * written as the network wants it.
 *
 * Images need memory that lives between calls: each loader thread has its own, and nothing is
 * allocated once it has seen the largest image.
 */
#include "recipe/vision/vision.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

gr_status gr_vision_scratch_open(const void *user, void **scratch)
{
    (void)user;
    *scratch = calloc(1, sizeof(gr_vision_scratch));
    return *scratch ? GR_OK : gr_fail(GR_ERR_NOMEM, "no memory for a sample");
}

void gr_vision_scratch_close(void *scratch)
{
    gr_vision_scratch *s = scratch;

    if (!s)
        return;
    gr_image_fini(&s->image);
    gr_image_fini(&s->mask);
    gr_image_fini(&s->spare);
    free(s);
}

/* Gray from colours, colours from gray, without alpha: for data that are stored otherwise than
 * the network wants them. */
static gr_status convert_channels(gr_vision_scratch *s, int channels)
{
    const gr_image *from = &s->image;
    gr_image swap;

    if (from->channels == channels)
        return GR_OK;
    GR_TRY(gr_image_reserve(&s->spare, from->height, from->width, channels));
    for (ptrdiff_t i = 0; i < (ptrdiff_t)from->height * from->width; i++) {
        const uint8_t *px = from->px + i * from->channels;
        uint8_t *to = s->spare.px + i * channels;

        if (from->channels < 3)
            memset(to, px[0], (size_t)channels);
        else if (channels == 3)
            memcpy(to, px, 3);
        else
            to[0] = (uint8_t)((299 * px[0] + 587 * px[1] + 114 * px[2] + 500) / 1000);
    }
    swap = s->image;
    s->image = s->spare;
    s->spare = swap;
    return GR_OK;
}

/* The picture, and its mask or class. */
static gr_status fetch(const gr_vision *v, const gr_sample *sample, gr_vision_scratch *s,
                       int32_t *label)
{
    const gr_vision_part *p = &v->parts[sample->split];
    bool masks = gr_vision_segments(&v->model);

    if (p->is_drawn) {
        int side = p->scene.side;

        GR_TRY(gr_image_reserve(&s->image, side, side, p->scene.channels));
        GR_TRY(gr_image_reserve(&s->mask, side, side, 1));
        *label = gr_scene_draw(&p->scene, p->key, (uint64_t)sample->index, s->image.px,
                               masks ? s->mask.px : NULL);
        return GR_OK;
    }
    *label = masks || p->file ? -1 : gr_dataset_class(p->set, sample->index);
    if (p->file)
        return gr_image_read(&s->image, p->file, NULL);
    if (gr_vision_has_masks(v, sample->split))
        return gr_dataset_pair(p->set, sample->index, &s->image, &s->mask);
    return gr_dataset_image(p->set, sample->index, &s->image);
}

/* With one logit masks become 0 and 1 before they are padded. */
static void settle_mask(const gr_vision *v, gr_image *mask)
{
    for (ptrdiff_t i = 0; v->model.n_out == 1 && i < (ptrdiff_t)mask->height * mask->width; i++) {
        int32_t value = mask->px[i];

        mask->px[i] = value == v->mask_ignore ? (uint8_t)v->criterion.ignore
                                              : (uint8_t)(value >= v->mask_threshold);
    }
}

/* What is neither a class nor ignored is an error. */
static gr_status put_mask(const gr_vision *v, const gr_image *mask, int32_t *to)
{
    for (ptrdiff_t i = 0; i < (ptrdiff_t)mask->height * mask->width; i++) {
        int32_t value = mask->px[i];

        if (value >= v->n_classes && value != v->criterion.ignore)
            return gr_fail(GR_ERR_FORMAT,
                           "its mask has the value %" PRId32 ", but there are %d classes; see "
                           "model.config.num_classes and dataset.ignore_index",
                           value, v->n_classes);
        to[i] = value;
    }
    return GR_OK;
}

/* Which values a mask has. */
static void mark_values(const gr_image *mask, bool seen[256])
{
    for (ptrdiff_t i = 0; i < (ptrdiff_t)mask->height * mask->width; i++)
        seen[mask->px[i]] = true;
}

/*
 * Masks that are black and white, with several classes: white is 255, which is ignored unless
 * the user says otherwise, and the network would learn that everything is background, with
 * metrics of 100 %. So some masks are looked at before the first step.
 */
#define MASKS_LOOKED_AT 32

gr_status gr_vision_check_masks(const gr_vision *v)
{
    const gr_vision_part *p = &v->parts[GR_SPLIT_TRAIN];
    gr_image mask = GR_IMAGE_INIT;
    bool seen[256] = { false };
    int n_classes = 0;

    if (!gr_vision_has_masks(v, GR_SPLIT_TRAIN) || p->is_drawn || v->model.n_out == 1 ||
        gr_settings_given(v->s, "dataset.ignore_index"))
        return GR_OK;
    for (int64_t i = 0; i < p->size && i < MASKS_LOOKED_AT; i++)
        if (gr_dataset_mask(p->set, i, &mask) == GR_OK) /* broken ones are the loader's */
            mark_values(&mask, seen);
    gr_image_fini(&mask);
    for (int value = 1; value < 256; value++)
        n_classes += seen[value] && value != v->mask_ignore;
    if (n_classes > 0 || v->mask_ignore < 0 || !seen[v->mask_ignore])
        return GR_OK;
    return gr_settings_fail(v->s, "model.config.num_classes",
                            "the first masks hold nothing but 0 and %" PRId32
                            ", which does not count: give 1 for yes or no, masks with the numbers "
                            "of %d classes, or dataset.ignore_index if others have them",
                            v->mask_ignore, v->n_classes);
}

static gr_status put_label(const gr_vision *v, gr_split split, int32_t label, int32_t *to)
{
    int n = v->n_classes;

    if (label < 0 && split == GR_SPLIT_PREDICT)
        return GR_OK;
    if (label < 0)
        return gr_fail(GR_ERR_FORMAT, "it has no class");
    if (label >= n)
        return gr_fail(GR_ERR_FORMAT,
                       "its class is %" PRId32 ", but there are %d; see model.config.num_classes",
                       label, n);
    *to = label;
    return GR_OK;
}

/* Samples of a prediction may do without a mask, and then without a class. */
static gr_status put_target(const gr_vision *v, const gr_sample *sample, const gr_image *mask,
                            int32_t label, const gr_feed_slot *feeds)
{
    if (mask)
        return put_mask(v, mask, feeds[GR_FEED_TARGET].mem);
    if (gr_vision_segments(&v->model))
        return sample->split == GR_SPLIT_PREDICT ? GR_OK : gr_fail(GR_ERR_FORMAT, "it has no mask");
    return put_label(v, sample->split, label, feeds[GR_FEED_TARGET].mem);
}

static void put_size(const gr_vision *v, int height, int width, const gr_feed_slot *feeds)
{
    int32_t *size = feeds[GR_FEED_SIZE].mem;

    if (!gr_vision_segments(&v->model))
        return;
    size[0] = height;
    size[1] = width;
}

static gr_status put_array(const gr_vision *v, const gr_sample *sample, gr_vision_scratch *s,
                           const gr_feed_slot *feeds)
{
    const gr_dataset *set = v->parts[sample->split].set;
    bool has_mask = gr_vision_has_masks(v, sample->split);

    GR_TRY(gr_vision_load_array(v, sample, feeds[GR_FEED_IMAGE].mem));
    put_size(v, (int)v->model.height, (int)v->model.width, feeds);
    if (has_mask) {
        GR_TRY(gr_dataset_mask(set, sample->index, &s->mask));
        if (s->mask.height != v->model.height || s->mask.width != v->model.width)
            return gr_fail(GR_ERR_FORMAT, "its mask is %d x %d, the sample %" PRId64 " x %" PRId64,
                           s->mask.height, s->mask.width, v->model.height, v->model.width);
        settle_mask(v, &s->mask);
    }
    return put_target(v, sample, has_mask ? &s->mask : NULL, gr_dataset_class(set, sample->index),
                      feeds);
}

static gr_status put_picture(const gr_vision *v, const gr_sample *sample, gr_vision_scratch *s,
                             const gr_feed_slot *feeds)
{
    bool has_mask = gr_vision_has_masks(v, sample->split);
    int32_t label;

    GR_TRY(fetch(v, sample, s, &label));
    GR_TRY(convert_channels(s, (int)v->model.channels));
    put_size(v, s->image.height, s->image.width, feeds);
    if (has_mask)
        settle_mask(v, &s->mask);
    GR_TRY(gr_vision_transform(v, sample, s, has_mask, feeds[GR_FEED_IMAGE].mem));
    return put_target(v, sample, has_mask ? &s->mask : NULL, label, feeds);
}

/* Files are named in most messages already. */
static gr_status name_sample(gr_status st, const gr_vision *v, const gr_sample *sample)
{
    char name[GR_DATASET_NAME];

    if (st == GR_OK ||
        strstr(gr_error_message(), gr_vision_name(v, sample->split, sample->index, name)))
        return st;
    return gr_wrap(st, "'%s'", name);
}

gr_status gr_vision_load(const void *user, const gr_sample *sample, void *scratch,
                         const gr_feed_slot *feeds)
{
    const gr_vision *v = user;
    const gr_vision_part *p = &v->parts[sample->split];
    gr_status st =
        p->is_array ? put_array(v, sample, scratch, feeds) : put_picture(v, sample, scratch, feeds);

    return name_sample(st, v, sample);
}

gr_status gr_vision_inspect(const void *user, const gr_sample *sample)
{
    const gr_vision *v = user;
    const gr_vision_part *p = &v->parts[sample->split];
    bool masks = gr_vision_segments(&v->model);
    gr_image image = GR_IMAGE_INIT; /* takes memory only where the head does not settle it */
    int32_t label;
    gr_status st;

    if (p->is_drawn)
        return GR_OK;
    st = p->file ? gr_image_probe_file(&image, p->file, NULL)
                 : gr_dataset_probe(p->set, sample->index, &image);
    gr_image_fini(&image);
    if (st == GR_OK && p->set && !masks)
        st = put_label(v, sample->split, gr_dataset_class(p->set, sample->index), &label);
    return name_sample(st, v, sample);
}
