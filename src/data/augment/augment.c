/*
 * Pipelines: their life, and one sample through them.
 *
 * Two images take turns: a step reads the one and writes the other. The caller's image is one of
 * the two, and they may be exchanged at the end, pixels and all. Scratch memory is lent to the
 * thread that works, from a list under a lock; there are as many as threads ever worked at once.
 */
#include "data/augment/augment_impl.h"

#include "base/alloc.h"

#include <pthread.h>
#include <string.h>

/* Behind a pointer, so that a pipeline is const for those who use it. */
typedef struct scratch_shelf {
    pthread_mutex_t lock;
    gr_augment_scratch *free;
} scratch_shelf;

struct gr_augment {
    gr_augment_list list;
    bool fixed;
    scratch_shelf *shelf; /* owned */
    float value[4][256];  /* of a pixel, for each channel */
};

/* ---- scratch ---- */

void *gr_augment_room(gr_augment_scratch *s, size_t n_bytes)
{
    if (n_bytes <= s->mem_bytes)
        return s->mem;
    gr_free(s->mem);
    s->mem_bytes = 0;
    s->mem = gr_malloc_aligned(n_bytes);
    if (s->mem)
        s->mem_bytes = n_bytes;
    return s->mem;
}

static gr_augment_scratch *take_scratch(scratch_shelf *shelf)
{
    gr_augment_scratch *s;

    pthread_mutex_lock(&shelf->lock);
    s = shelf->free;
    if (s)
        shelf->free = s->next;
    pthread_mutex_unlock(&shelf->lock);
    return s ? s : gr_calloc(1, sizeof(*s));
}

static void put_scratch(scratch_shelf *shelf, gr_augment_scratch *s)
{
    pthread_mutex_lock(&shelf->lock);
    s->next = shelf->free;
    shelf->free = s;
    pthread_mutex_unlock(&shelf->lock);
}

static void shelf_destroy(scratch_shelf *shelf)
{
    if (!shelf)
        return;
    while (shelf->free) {
        gr_augment_scratch *s = shelf->free;

        shelf->free = s->next;
        gr_image_fini(&s->image);
        gr_image_fini(&s->rows);
        gr_free(s->mem);
        gr_free(s);
    }
    pthread_mutex_destroy(&shelf->lock);
    gr_free(shelf);
}

/* ---- life ---- */

/* (x / 255 - mean) / std in single precision, as torchvision computes it. */
static void set_values(gr_augment *a)
{
    const gr_augment_list *l = &a->list;

    for (int c = 0; c < 4; c++) {
        int n = l->n_norm == 1 ? 0 : c;

        for (int i = 0; i < 256; i++) {
            float v = l->keeps_255 ? (float)i : (float)i / 255.0f;

            if (n < l->n_norm) {
                v -= (float)l->mean[n];
                v /= (float)l->std[n];
            }
            a->value[c][i] = v;
        }
    }
}

static gr_status check_given(gr_augment *const *out, const gr_transform *list, int n)
{
    if (!out || n < 0 || (!list && n > 0))
        return gr_fail(GR_ERR_ARG, "augment: out is NULL, or the list of %d transforms is", n);
    for (int i = 0; i < n; i++) {
        if (!list[i].name)
            return gr_fail(GR_ERR_ARG, "transform %d has no name (NULL)", i + 1);
        if (list[i].n_numbers < 0 || (!list[i].numbers && list[i].n_numbers > 0))
            return gr_fail(GR_ERR_ARG, "transform %d, '%s': %d numbers at NULL", i + 1,
                           list[i].name, list[i].n_numbers);
    }
    return GR_OK;
}

gr_status gr_augment_create(gr_augment **out, const gr_transform *list, int n, bool fixed)
{
    gr_augment *a;
    gr_status st;

    GR_TRY(check_given(out, list, n));
    a = gr_calloc(1, sizeof(*a));
    if (!a)
        return GR_ERR_NOMEM;
    a->fixed = fixed;
    st = gr_augment_parse(&a->list, list, n);
    if (st == GR_OK) {
        a->shelf = gr_calloc(1, sizeof(*a->shelf));
        st = a->shelf ? GR_OK : GR_ERR_NOMEM;
    }
    if (st != GR_OK) {
        gr_augment_destroy(a);
        return st;
    }
    pthread_mutex_init(&a->shelf->lock, NULL);
    set_values(a);
    *out = a;
    return GR_OK;
}

void gr_augment_destroy(gr_augment *a)
{
    if (!a)
        return;
    shelf_destroy(a->shelf);
    gr_free(a);
}

/* The last operation that sets a size decides, if it does not depend on the input. */
bool gr_augment_size(const gr_augment *a, int *height, int *width)
{
    for (int i = a->list.n_ops - 1; i >= 0; i--) {
        const gr_augment_op *op = &a->list.ops[i];

        if (op->kind == GR_AUG_SCALE && a->fixed)
            continue;
        if (op->kind == GR_AUG_SCALE || (op->kind == GR_AUG_RESIZE && op->n == 1))
            return false;
        if (op->kind <= GR_AUG_RESIZED_CROP) {
            *height = (int)op->v[0];
            *width = (int)op->v[1];
            return true;
        }
    }
    return false;
}

/* ---- one sample ---- */

static gr_part part_of(const gr_image *img, gr_area at)
{
    return (gr_part){
        .px = img->px, .at = at, .channels = img->channels, .pitch = (int64_t)at.w * img->channels
    };
}

/* A crop that lies inside is a matter of counting from elsewhere: `from` becomes the part that
 * is needed. False if it does not. */
static bool crop_in_place(const gr_augment_step *t, gr_part *from)
{
    gr_area a = { t->need.y + t->off_y, t->need.x + t->off_x, t->need.h, t->need.w };

    if (a.y < 0 || a.x < 0 || a.y > t->in_h - a.h || a.x > t->in_w - a.w)
        return false;
    from->px = gr_part_at(from, a.y, a.x);
    from->at = t->need;
    return true;
}

/* Steps that write elsewhere. */
static gr_status run_across(const gr_augment_step *t, const gr_part *from, const gr_part *to,
                            bool is_mask, gr_augment_scratch *s)
{
    uint8_t mask_fill[4];

    memset(mask_fill, t->op->mask_fill, sizeof(mask_fill));
    if (t->kind == GR_AUG_RESIZE && !is_mask)
        return gr_augment_resize(t, from, to, s);
    if (t->kind == GR_AUG_RESIZE)
        return gr_augment_resize_nearest(t, from, to, s);
    if (t->kind == GR_AUG_BLUR)
        return gr_augment_blur(t, from, to, s);
    if (t->kind == GR_AUG_ROTATE && is_mask)
        gr_augment_rotate_nearest(t, from, to);
    else if (t->kind == GR_AUG_ROTATE)
        gr_augment_rotate(t, from, to);
    else if (t->kind == GR_AUG_CROP)
        gr_augment_pad(t, from, to, is_mask ? mask_fill : t->op->fill);
    else
        gr_augment_flip(t, from, to);
    return GR_OK;
}

static bool is_colour(const gr_augment_step *t)
{
    return t->kind == GR_AUG_JITTER || t->kind == GR_AUG_INVERT;
}

/* Turns of two images; `now` holds the pixels. */
typedef struct turns {
    gr_image *now, *other;
    gr_part part;
} turns;

static gr_status run_step(const gr_augment_step *t, turns *w, bool is_mask, gr_augment_scratch *s)
{
    gr_image *written = w->other;
    gr_part to;

    if (is_mask && (t->kind == GR_AUG_BLUR || is_colour(t)))
        return GR_OK; /* areas for a mask may be larger than needed, which does no harm */
    if (is_colour(t)) {
        gr_augment_colour(t, &w->part);
        return GR_OK;
    }
    if (t->kind == GR_AUG_CROP && crop_in_place(t, &w->part))
        return GR_OK;
    GR_TRY(gr_image_reserve(written, t->need.h, t->need.w, w->part.channels));
    to = part_of(written, t->need);
    GR_TRY(run_across(t, &w->part, &to, is_mask, s));
    w->part = to;
    w->other = w->now;
    w->now = written;
    return GR_OK;
}

/* A part that is not all of its image is moved to its front, row by row. */
static void close_up(turns *w)
{
    const gr_part *p = &w->part;
    size_t row = (size_t)p->at.w * (size_t)p->channels;

    if (p->px != w->now->px || p->pitch != (int64_t)row)
        for (int y = 0; y < p->at.h; y++)
            memmove(w->now->px + (size_t)y * row, p->px + y * p->pitch, row);
    w->now->height = p->at.h;
    w->now->width = p->at.w;
}

static gr_status run(const gr_augment_plan *plan, gr_image *img, bool is_mask,
                     gr_augment_scratch *s)
{
    turns w = { .now = img, .other = &s->image };

    w.part = part_of(img, (gr_area){ 0, 0, img->height, img->width });
    for (int i = 0; i < plan->n_steps; i++)
        GR_TRY(run_step(&plan->steps[i], &w, is_mask, s));
    close_up(&w);
    if (w.now != img) {
        gr_image swapped = *img;

        *img = s->image;
        s->image = swapped;
    }
    return GR_OK;
}

static gr_status check_masks(const gr_image *img, gr_image *const *masks, int n_masks)
{
    if (!img->px || img->height < 1 || img->width < 1)
        return gr_fail(GR_ERR_ARG, "the image is empty");
    for (int i = 0; i < n_masks; i++)
        if (masks[i]->height != img->height || masks[i]->width != img->width)
            return gr_fail(GR_ERR_ARG,
                           "mask %d has %d x %d pixels (height x width), its image %d x %d", i + 1,
                           masks[i]->height, masks[i]->width, img->height, img->width);
    return GR_OK;
}

gr_status gr_augment_apply(const gr_augment *a, gr_augment_key key, gr_image *img,
                           gr_image *const *masks, int n_masks)
{
    gr_augment_scratch *s;
    gr_status st;

    GR_TRY(check_masks(img, masks, n_masks));
    s = take_scratch(a->shelf);
    if (!s)
        return GR_ERR_NOMEM;
    st = gr_augment_draw(&s->plan, &a->list, &key, a->fixed, img->height, img->width);
    if (st == GR_OK)
        st = run(&s->plan, img, false, s);
    for (int i = 0; i < n_masks && st == GR_OK; i++)
        st = run(&s->plan, masks[i], true, s);
    put_scratch(a->shelf, s);
    return st;
}

/* ---- numbers ---- */

gr_status gr_augment_to_f32(const gr_augment *a, const gr_image *img, float *out)
{
    int64_t n = (int64_t)img->height * img->width;
    const uint8_t *p = img->px;

    if (a->list.n_norm > 1 && a->list.n_norm != img->channels)
        return gr_fail(GR_ERR_ARG, "NORMALIZE has means for %d channels, the image has %d",
                       a->list.n_norm, img->channels);
    if (img->channels == 3) {
        for (int64_t i = 0; i < n; i++, p += 3, out += 3) {
            out[0] = a->value[0][p[0]];
            out[1] = a->value[1][p[1]];
            out[2] = a->value[2][p[2]];
        }
        return GR_OK;
    }
    for (int64_t i = 0; i < n; i++)
        for (int c = 0; c < img->channels; c++)
            *out++ = a->value[c][*p++];
    return GR_OK;
}
