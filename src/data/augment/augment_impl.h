/*
 * What the files of augmentation share.
 *
 * An operation of the list becomes, for one sample, a step with nothing left to chance. Sizes
 * are known for all steps before a pixel is touched, so the areas that are needed are worked
 * out from the last step back to the first, and each step computes its area and no more. That
 * changes no result, and a crop behind a scale saves most of the scale.
 *
 *     list ──draw──► steps with sizes ──back──► areas ──run──► image, and each mask alike
 */
#ifndef GR_DATA_AUGMENT_IMPL_H
#define GR_DATA_AUGMENT_IMPL_H

#include "gradus/augment.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GR_AUGMENT_MAX_OPS     64
#define GR_AUGMENT_MAX_NUMBERS 8
#define GR_AUGMENT_MAX_KERNEL  99 /* pixels a side, of a blur */

typedef enum gr_augment_kind {
    GR_AUG_RESIZE,
    GR_AUG_SCALE,
    GR_AUG_CROP, /* v: h, w, pad */
    GR_AUG_CENTER_CROP,
    GR_AUG_RESIZED_CROP, /* v: h, w, area lo, hi, ratio lo, hi */
    GR_AUG_HFLIP,
    GR_AUG_VFLIP,
    GR_AUG_ROTATE, /* v: lo, hi, p */
    GR_AUG_BLUR,   /* v: k, lo, hi, p */
    GR_AUG_JITTER,
    GR_AUG_INVERT,
} gr_augment_kind;

typedef struct gr_augment_op {
    gr_augment_kind kind;
    int n;
    double v[GR_AUGMENT_MAX_NUMBERS]; /* complete: what was not given is filled in */
    uint8_t fill[4];
    uint8_t mask_fill;
} gr_augment_op;

/* What a list says: operations, and how pixels become floats. */
typedef struct gr_augment_list {
    gr_augment_op ops[GR_AUGMENT_MAX_OPS];
    int n_ops;
    bool keeps_255; /* f32 values are 0 to 255 */
    int n_norm;     /* channels that NORMALIZE has numbers for; 1: all alike; 0: there is none */
    double mean[4], std[4];
} gr_augment_list;

gr_status gr_augment_parse(gr_augment_list *out, const gr_transform *list, int n) GR_MUST_CHECK;

/* A rectangle of an image. */
typedef struct gr_area {
    int y, x, h, w;
} gr_area;

typedef struct gr_augment_step {
    const gr_augment_op *op;
    gr_augment_kind kind; /* of op, or CROP and RESIZE of a resized crop */
    int in_h, in_w, out_h, out_w;
    gr_area need;     /* of its result */
    int off_y, off_x; /* CROP: place (0, 0) of the result in the input */
    double v[4];      /* ROTATE: angle; BLUR: sigma; JITTER: four amounts */
    int order[4];     /* JITTER */
} gr_augment_step;

/* A resized crop is two steps. */
#define GR_AUGMENT_MAX_STEPS (2 * GR_AUGMENT_MAX_OPS)

typedef struct gr_augment_plan {
    gr_augment_step steps[GR_AUGMENT_MAX_STEPS];
    int n_steps;
    gr_area need; /* of the image that comes in */
} gr_augment_plan;

gr_status gr_augment_draw(gr_augment_plan *p, const gr_augment_list *l, const gr_augment_key *key,
                          bool fixed, int height, int width) GR_MUST_CHECK;

/* Pixels of a part of an image; never more than the image. */
typedef struct gr_part {
    uint8_t *px; /* of its first pixel */
    gr_area at;
    int channels;
    int64_t pitch; /* bytes from row to row */
} gr_part;

static inline uint8_t *gr_part_at(const gr_part *p, int y, int x)
{
    return p->px + (y - p->at.y) * p->pitch + (int64_t)(x - p->at.x) * p->channels;
}

/* Memory of one thread at a time. */
typedef struct gr_augment_scratch {
    struct gr_augment_scratch *next;
    gr_image image, rows; /* the other image; what lies between two passes */
    gr_augment_plan plan;
    void *mem; /* owned: tables and rows */
    size_t mem_bytes;
} gr_augment_scratch;

/* Room for n_bytes, 64-byte aligned; the contents are lost. NULL: no memory. */
void *gr_augment_room(gr_augment_scratch *s, size_t n_bytes);

/* The steps: from `src`, which holds what is needed, to `dst`, which has the step's area. */
gr_status gr_augment_resize(const gr_augment_step *t, const gr_part *src, const gr_part *dst,
                            gr_augment_scratch *s) GR_MUST_CHECK;
gr_status gr_augment_resize_nearest(const gr_augment_step *t, const gr_part *src,
                                    const gr_part *dst, gr_augment_scratch *s) GR_MUST_CHECK;
void gr_augment_rotate(const gr_augment_step *t, const gr_part *src, const gr_part *dst);
void gr_augment_rotate_nearest(const gr_augment_step *t, const gr_part *src, const gr_part *dst);
gr_status gr_augment_blur(const gr_augment_step *t, const gr_part *src, const gr_part *dst,
                          gr_augment_scratch *s) GR_MUST_CHECK;
void gr_augment_pad(const gr_augment_step *t, const gr_part *src, const gr_part *dst,
                    const uint8_t *fill); /* a CROP that reaches out of its input */
void gr_augment_flip(const gr_augment_step *t, const gr_part *src, const gr_part *dst);
void gr_augment_colour(const gr_augment_step *t, gr_part *img); /* in place */

/* Areas of the input that a step needs for an area of its result. */
gr_area gr_augment_resize_need(const gr_augment_step *t, gr_area out);
gr_area gr_augment_rotate_need(const gr_augment_step *t, gr_area out);

/* [a, b) cut to [0, n), but never empty. */
static inline void gr_area_clip(int *first, int *count, int64_t a, int64_t b, int n)
{
    a = a < 0 ? 0 : a > n - 1 ? n - 1 : a;
    b = b > n ? n : b <= a ? a + 1 : b;
    *first = (int)a;
    *count = (int)(b - a);
}

#ifdef __cplusplus
}
#endif

#endif
