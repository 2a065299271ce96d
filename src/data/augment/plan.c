/*
 * From a list of operations to the steps of one sample: chance, sizes, areas.
 *
 * Draw k of operation i is a function of the key, i and k alone (Philox): an operation that
 * needs more or fewer draws changes nothing for those behind it.
 */
#include "data/augment/augment_impl.h"

#include "base/random.h"

#include <math.h>

#define MAX_TRIES 10 /* for the box of a resized crop, as in torchvision */

/* ---- chance ---- */

typedef struct dice {
    const gr_augment_key *key;
    uint32_t op, n;
    uint32_t drawn[4];
} dice;

/* In [0, 1). Four numbers come from one call. */
static double draw(dice *d)
{
    if (d->n % 4 == 0) {
        uint32_t key[2] = { (uint32_t)d->key->seed, (uint32_t)(d->key->seed >> 32) };
        uint32_t counter[4] = { (uint32_t)d->key->index, (uint32_t)((uint64_t)d->key->index >> 32),
                                (uint32_t)d->key->epoch, d->op << 16 | d->n / 4 };

        gr_philox(d->drawn, counter, key);
    }
    return (double)d->drawn[d->n++ % 4] * 0x1p-32;
}

static double draw_range(dice *d, double lo, double hi)
{
    return lo + (hi - lo) * draw(d);
}

/* 0 .. n - 1 */
static int draw_int(dice *d, int n)
{
    return (int)(draw(d) * n);
}

/* ---- steps ---- */

typedef struct drawing {
    gr_augment_plan *plan;
    dice dice;
    bool fixed;
    int h, w; /* so far */
} drawing;

static gr_augment_step *add_step(drawing *d, const gr_augment_op *op, gr_augment_kind kind, int h,
                                 int w)
{
    gr_augment_step *t = &d->plan->steps[d->plan->n_steps++];

    *t = (gr_augment_step){
        .op = op, .kind = kind, .in_h = d->h, .in_w = d->w, .out_h = h, .out_w = w
    };
    d->h = h;
    d->w = w;
    return t;
}

static gr_status add_resize(drawing *d, const gr_augment_op *op, double h, double w)
{
    h = h < 1 ? 1 : h;
    w = w < 1 ? 1 : w;
    if (h * w > (double)GR_IMAGE_MAX_PIXELS)
        return gr_fail(GR_ERR_ARG, "%d x %d pixels would become %.0f x %.0f", d->h, d->w, h, w);
    if ((int)h != d->h || (int)w != d->w)
        add_step(d, op, GR_AUG_RESIZE, (int)h, (int)w);
    return GR_OK;
}

/* One number: the shorter side, the other one by the same factor, rounded down. */
static gr_status draw_resize(drawing *d, const gr_augment_op *op)
{
    double side = op->v[0];

    if (op->n == 2)
        return add_resize(d, op, op->v[0], op->v[1]);
    if (d->h <= d->w)
        return add_resize(d, op, side, floor(side * d->w / d->h));
    return add_resize(d, op, floor(side * d->h / d->w), side);
}

static gr_status draw_scale(drawing *d, const gr_augment_op *op)
{
    double f = draw_range(&d->dice, op->v[0], op->v[1]);

    return add_resize(d, op, floor(d->h * f + 0.5), floor(d->w * f + 0.5));
}

/* Where a crop begins; the middle, also where the image is smaller than the crop. */
static int crop_offset(drawing *d, int size, int crop, int pad, bool centred)
{
    int room = size + 2 * pad - crop;

    if (centred || room < 0) /* the odd pixel of a crop is above, that of padding below */
        return size >= crop ? (int)lrint((size - crop) / 2.0) : -((crop - size) / 2);
    return draw_int(&d->dice, room + 1) - pad;
}

static void draw_crop(drawing *d, const gr_augment_op *op)
{
    int h = (int)op->v[0], w = (int)op->v[1], pad = (int)op->v[2];
    bool centred = d->fixed || op->kind == GR_AUG_CENTER_CROP;
    int y = crop_offset(d, d->h, h, pad, centred), x = crop_offset(d, d->w, w, pad, centred);
    gr_augment_step *t = add_step(d, op, GR_AUG_CROP, h, w);

    t->off_y = y;
    t->off_x = x;
}

static void add_box(drawing *d, const gr_augment_op *op, gr_area box)
{
    gr_augment_step *t = add_step(d, op, GR_AUG_CROP, box.h, box.w);

    t->off_y = box.y;
    t->off_x = box.x;
}

/* The largest centred box with a width / height in [lo, hi]. */
static gr_area middle_box(const drawing *d, double lo, double hi)
{
    double ratio = (double)d->w / d->h;
    gr_area b = { .h = d->h, .w = d->w };

    if (ratio < lo)
        b.h = (int)floor(d->w / lo + 0.5);
    else if (ratio > hi)
        b.w = (int)floor(d->h * hi + 0.5);
    b.h = b.h < 1 ? 1 : b.h > d->h ? d->h : b.h;
    b.w = b.w < 1 ? 1 : b.w > d->w ? d->w : b.w;
    b.y = (d->h - b.h) / 2;
    b.x = (d->w - b.w) / 2;
    return b;
}

static gr_area random_box(drawing *d, const gr_augment_op *op)
{
    double all = (double)d->h * d->w;

    for (int i = 0; i < MAX_TRIES; i++) {
        double area = all * draw_range(&d->dice, op->v[2], op->v[3]);
        double ratio = exp(draw_range(&d->dice, log(op->v[4]), log(op->v[5])));
        gr_area b = { .h = (int)lrint(sqrt(area / ratio)), .w = (int)lrint(sqrt(area * ratio)) };

        if (b.h < 1 || b.w < 1 || b.h > d->h || b.w > d->w)
            continue;
        b.y = draw_int(&d->dice, d->h - b.h + 1);
        b.x = draw_int(&d->dice, d->w - b.w + 1);
        return b;
    }
    return middle_box(d, op->v[4], op->v[5]);
}

static gr_status draw_resized_crop(drawing *d, const gr_augment_op *op)
{
    double ratio = op->v[1] / op->v[0];

    add_box(d, op, d->fixed ? middle_box(d, ratio, ratio) : random_box(d, op));
    return add_resize(d, op, op->v[0], op->v[1]);
}

static void draw_rotate(drawing *d, const gr_augment_op *op)
{
    bool done = draw(&d->dice) < op->v[2];
    double angle = draw_range(&d->dice, op->v[0], op->v[1]);

    if (done && angle != 0)
        add_step(d, op, GR_AUG_ROTATE, d->h, d->w)->v[0] = angle;
}

static void draw_blur(drawing *d, const gr_augment_op *op)
{
    bool done = draw(&d->dice) < op->v[3];
    double sigma = draw_range(&d->dice, op->v[1], op->v[2]);

    if (done)
        add_step(d, op, GR_AUG_BLUR, d->h, d->w)->v[0] = sigma;
}

/* Amounts and their order, as torchvision's ColorJitter draws them. */
static void draw_jitter(drawing *d, const gr_augment_op *op)
{
    gr_augment_step *t = add_step(d, op, GR_AUG_JITTER, d->h, d->w);

    for (int i = 0; i < 4; i++)
        t->order[i] = i;
    for (int i = 3; i > 0; i--) {
        int j = draw_int(&d->dice, i + 1), other = t->order[j];

        t->order[j] = t->order[i];
        t->order[i] = other;
    }
    for (int i = 0; i < 3; i++)
        t->v[i] = draw_range(&d->dice, op->v[i] < 1 ? 1 - op->v[i] : 0, 1 + op->v[i]);
    t->v[3] = draw_range(&d->dice, -op->v[3], op->v[3]);
}

static void draw_maybe(drawing *d, const gr_augment_op *op)
{
    if (draw(&d->dice) < op->v[0])
        add_step(d, op, op->kind, d->h, d->w);
}

/* Operations that are only random. */
static gr_status draw_random(drawing *d, const gr_augment_op *op)
{
    if (op->kind == GR_AUG_SCALE)
        return draw_scale(d, op);
    if (op->kind == GR_AUG_ROTATE)
        draw_rotate(d, op);
    else if (op->kind == GR_AUG_BLUR)
        draw_blur(d, op);
    else if (op->kind == GR_AUG_JITTER)
        draw_jitter(d, op);
    else
        draw_maybe(d, op);
    return GR_OK;
}

static gr_status draw_op(drawing *d, const gr_augment_op *op)
{
    if (op->kind == GR_AUG_RESIZE)
        return draw_resize(d, op);
    if (op->kind == GR_AUG_RESIZED_CROP)
        return draw_resized_crop(d, op);
    if (op->kind == GR_AUG_CROP || op->kind == GR_AUG_CENTER_CROP)
        draw_crop(d, op);
    else if (!d->fixed)
        return draw_random(d, op);
    return GR_OK;
}

/* ---- areas ---- */

/* What a crop needs of its input: the part of it that exists. */
static gr_area crop_need(const gr_augment_step *t, gr_area out)
{
    gr_area a;

    gr_area_clip(&a.y, &a.h, (int64_t)out.y + t->off_y, (int64_t)out.y + t->off_y + out.h, t->in_h);
    gr_area_clip(&a.x, &a.w, (int64_t)out.x + t->off_x, (int64_t)out.x + t->off_x + out.w, t->in_w);
    return a;
}

static gr_area blur_need(const gr_augment_step *t, gr_area out)
{
    int r = (int)t->op->v[0] / 2;
    gr_area a;

    gr_area_clip(&a.y, &a.h, (int64_t)out.y - r, (int64_t)out.y + out.h + r, t->in_h);
    gr_area_clip(&a.x, &a.w, (int64_t)out.x - r, (int64_t)out.x + out.w + r, t->in_w);
    return a;
}

static gr_area need_of(const gr_augment_step *t)
{
    gr_area a = t->need;

    if (t->kind == GR_AUG_RESIZE)
        return gr_augment_resize_need(t, a);
    if (t->kind == GR_AUG_CROP)
        return crop_need(t, a);
    if (t->kind == GR_AUG_ROTATE)
        return gr_augment_rotate_need(t, a);
    if (t->kind == GR_AUG_BLUR)
        return blur_need(t, a);
    if (t->kind == GR_AUG_HFLIP)
        a.x = t->in_w - a.x - a.w;
    else if (t->kind == GR_AUG_VFLIP)
        a.y = t->in_h - a.y - a.h;
    else if (t->kind == GR_AUG_JITTER && t->op->v[1] > 0) /* contrast: the mean of it all */
        a = (gr_area){ 0, 0, t->in_h, t->in_w };
    return a;
}

gr_status gr_augment_draw(gr_augment_plan *p, const gr_augment_list *l, const gr_augment_key *key,
                          bool fixed, int height, int width)
{
    drawing d = { .plan = p, .dice = { .key = key }, .fixed = fixed, .h = height, .w = width };

    p->n_steps = 0;
    for (int i = 0; i < l->n_ops; i++) {
        d.dice.op = (uint32_t)i;
        d.dice.n = 0;
        GR_TRY(draw_op(&d, &l->ops[i]));
    }
    p->need = (gr_area){ 0, 0, d.h, d.w };
    for (int i = p->n_steps - 1; i >= 0; i--) {
        p->steps[i].need = p->need;
        p->need = need_of(&p->steps[i]);
    }
    return GR_OK;
}
