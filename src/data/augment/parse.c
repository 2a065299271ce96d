/* The list of operations as the user wrote it: names, numbers, and what is wrong with them. */
#include "data/augment/augment_impl.h"

#include "base/option.h"
#include "base/text.h"

#include <math.h>
#include <string.h>

/* What a name takes. `usage` is shown when the numbers do not fit. */
typedef struct entry entry;
struct entry {
    const char *name, *usage;
    int min, max; /* numbers */
    gr_augment_kind kind;
    gr_status (*take)(gr_augment_op *op, const entry *e);
};

/* ---- checks ---- */

static gr_status wrong(const entry *e, const char *why)
{
    return gr_fail(GR_ERR_ARG, "%s; it takes %s", why, e->usage);
}

static bool is_size(double v)
{
    return v >= 1 && v <= 65535 && v == floor(v);
}

static bool is_share(double v)
{
    return v >= 0 && v <= 1;
}

static gr_status take_size(gr_augment_op *op, const entry *e)
{
    for (int i = 0; i < op->n && i < 2; i++)
        if (!is_size(op->v[i]))
            return wrong(e, "a side is a whole number of pixels, 1 to 65535");
    return GR_OK;
}

/* One number is both sides; a crop has its padding behind them. */
static gr_status take_crop(gr_augment_op *op, const entry *e)
{
    GR_TRY(take_size(op, e));
    if (op->n == 1)
        op->v[1] = op->v[0];
    if (op->n == 3 && !(op->v[2] >= 0 && op->v[2] <= 65535 && op->v[2] == floor(op->v[2])))
        return wrong(e, "the padding is a whole number of pixels");
    return GR_OK;
}

static gr_status take_resized_crop(gr_augment_op *op, const entry *e)
{
    static const double usual[6] = { 0, 0, 0.08, 1, 3.0 / 4, 4.0 / 3 };

    if (op->n == 3 || op->n == 5)
        return wrong(e, "ranges have two ends");
    GR_TRY(take_crop(op, e));
    for (int i = op->n < 2 ? 2 : op->n; i < 6; i++)
        op->v[i] = usual[i];
    if (!(op->v[2] > 0 && op->v[2] <= op->v[3] && op->v[3] <= 1))
        return wrong(e, "the area is a share from above 0 to 1");
    if (!(op->v[4] > 0 && op->v[4] <= op->v[5]))
        return wrong(e, "the ratio is above 0");
    return GR_OK;
}

static gr_status take_scale(gr_augment_op *op, const entry *e)
{
    if (!(op->v[0] > 0 && op->v[0] <= op->v[1] && op->v[1] <= 100))
        return wrong(e, "factors are above 0, the lower one first");
    return GR_OK;
}

static gr_status take_p(gr_augment_op *op, const entry *e)
{
    if (op->n == 0)
        op->v[0] = 0.5;
    return is_share(op->v[0]) ? GR_OK : wrong(e, "a probability is 0 to 1");
}

static gr_status take_rotation(gr_augment_op *op, const entry *e)
{
    if (op->n == 1) {
        op->v[1] = fabs(op->v[0]);
        op->v[0] = -op->v[1];
    }
    if (op->n < 3)
        op->v[2] = 1;
    if (!(op->v[0] <= op->v[1] && op->v[0] >= -360 && op->v[1] <= 360))
        return wrong(e, "angles are degrees, the lower one first");
    return is_share(op->v[2]) ? GR_OK : wrong(e, "a probability is 0 to 1");
}

static gr_status take_blur(gr_augment_op *op, const entry *e)
{
    double k = op->v[0];

    if (!is_size(k) || k > GR_AUGMENT_MAX_KERNEL || fmod(k, 2) != 1)
        return wrong(e, "a kernel is an odd number up to 99");
    if (op->n == 1)
        op->v[1] = 0.3 * ((k - 1) / 2 - 1) + 0.8;
    if (op->n < 3)
        op->v[2] = op->v[1];
    if (op->n < 4)
        op->v[3] = 1;
    if (!(op->v[1] > 0 && op->v[1] <= op->v[2]))
        return wrong(e, "sigma is above 0");
    return is_share(op->v[3]) ? GR_OK : wrong(e, "a probability is 0 to 1");
}

static gr_status take_jitter(gr_augment_op *op, const entry *e)
{
    for (int i = 0; i < 3; i++)
        if (!(op->v[i] >= 0 && op->v[i] <= 100))
            return wrong(e, "amounts are not negative");
    return op->v[3] >= 0 && op->v[3] <= 0.5 ? GR_OK : wrong(e, "hue is 0 to 0.5");
}

/* ---- the table ---- */

#define USAGE_SIZE  "[h, w] or [side]"
#define USAGE_P     "[p], 0 to 1"
#define USAGE_CROP  "[h, w], [side] or [h, w, pad]"
#define USAGE_BLUR  "[kernel], [kernel, sigma], [kernel, lo, hi] or [kernel, lo, hi, p]"
#define USAGE_BOX   "[h, w] or [side], then [.., area lo, hi], then [.., ratio lo, hi]"
#define USAGE_COLOR "[brightness, contrast, saturation, hue]"

static const entry entries[] = {
    { "RESIZE", USAGE_SIZE, 1, 2, GR_AUG_RESIZE, take_size },
    { "RANDOM_SCALE", "[lo, hi]", 2, 2, GR_AUG_SCALE, take_scale },
    { "CROP", USAGE_CROP, 1, 3, GR_AUG_CROP, take_crop },
    { "RANDOM_CROP", USAGE_CROP, 1, 3, GR_AUG_CROP, take_crop },
    { "CENTER_CROP", USAGE_SIZE, 1, 2, GR_AUG_CENTER_CROP, take_crop },
    { "RANDOM_RESIZED_CROP", USAGE_BOX, 1, 6, GR_AUG_RESIZED_CROP, take_resized_crop },
    { "HFLIP", USAGE_P, 0, 1, GR_AUG_HFLIP, take_p },
    { "RANDOM_HORIZONTAL_FLIP", USAGE_P, 0, 1, GR_AUG_HFLIP, take_p },
    { "VFLIP", USAGE_P, 0, 1, GR_AUG_VFLIP, take_p },
    { "RANDOM_VERTICAL_FLIP", USAGE_P, 0, 1, GR_AUG_VFLIP, take_p },
    { "ROTATION", "[deg], [lo, hi] or [lo, hi, p]", 1, 3, GR_AUG_ROTATE, take_rotation },
    { "RANDOM_ROTATION", "[deg], [lo, hi] or [lo, hi, p]", 1, 3, GR_AUG_ROTATE, take_rotation },
    { "GAUSSIAN_BLUR", USAGE_BLUR, 1, 4, GR_AUG_BLUR, take_blur },
    { "COLOR_JITTER", USAGE_COLOR, 1, 4, GR_AUG_JITTER, take_jitter },
    { "INVERT", USAGE_P, 0, 1, GR_AUG_INVERT, take_p },
    { "RANDOM_INVERT", USAGE_P, 0, 1, GR_AUG_INVERT, take_p },
};
#define N_ENTRIES (int)(sizeof(entries) / sizeof(entries[0]))

static char folded(char c)
{
    if (c >= 'a' && c <= 'z')
        return (char)(c - 'a' + 'A');
    return c == '-' ? '_' : c;
}

static bool is_called(const char *name, const char *what)
{
    while (*name && folded(*name) == *what) {
        name++;
        what++;
    }
    return *name == '\0' && *what == '\0';
}

/* ---- what is not an operation on pixels ---- */

typedef struct fills {
    uint8_t image[4], mask;
} fills;

static gr_status need_count(const gr_transform *t, int a, int b, int c, const char *usage)
{
    if (t->n_numbers == a || t->n_numbers == b || t->n_numbers == c)
        return GR_OK;
    return gr_fail(GR_ERR_ARG, "%d numbers; it takes %s", t->n_numbers, usage);
}

static gr_status take_fill(const gr_transform *t, uint8_t *fill, int n)
{
    GR_TRY(need_count(t, 1, n == 4 ? 3 : 1, n == 4 ? 4 : 1, n == 4 ? "[v] or [r, g, b]" : "[v]"));
    for (int i = 0; i < n; i++) {
        double v = t->numbers[t->n_numbers == 1 ? 0 : i < t->n_numbers ? i : 0];

        if (!(v >= 0 && v <= 255))
            return gr_fail(GR_ERR_ARG, "a pixel value of %g; it is 0 to 255", v);
        fill[i] = (uint8_t)(v + 0.5);
    }
    return GR_OK;
}

static gr_status take_normalize(const gr_transform *t, gr_augment_list *out)
{
    int n = t->n_numbers / 2;

    if (t->n_numbers == 4)
        n = 2;
    else
        GR_TRY(need_count(t, 2, 6, 8, "[mean, std], or a mean for each channel and then the stds"));
    for (int c = 0; c < n; c++) {
        out->mean[c] = t->numbers[c];
        out->std[c] = t->numbers[n + c];
        if (!isfinite(out->mean[c]) || !(out->std[c] > 0) || !isfinite(out->std[c]))
            return gr_fail(GR_ERR_ARG, "mean %g, std %g; a std is above 0", out->mean[c],
                           out->std[c]);
    }
    out->n_norm = n;
    return GR_OK;
}

static const char *const others[] = { "FILL",      "MASK_FILL",     "NORMALIZE",
                                      "TO_TENSOR", "PIL_TO_TENSOR", "CONVERT_IMAGE_DTYPE" };
#define N_OTHERS (int)(sizeof(others) / sizeof(others[0]))

static gr_status no_such(const char *name)
{
    const char *names[N_ENTRIES + N_OTHERS + 1] = { NULL };
    char upper[64] = "";
    gr_text list = GR_TEXT_INIT;
    const char *near;
    gr_status st;

    for (int i = 0; i < N_ENTRIES; i++)
        names[i] = entries[i].name;
    for (int i = 0; i < N_OTHERS; i++)
        names[N_ENTRIES + i] = others[i];
    for (int i = 0; names[i]; i++)
        gr_text_addf(&list, "%s%s", i ? ", " : "", names[i]);
    for (int i = 0; name[i] && i < (int)sizeof(upper) - 1; i++)
        upper[i] = folded(name[i]);
    near = gr_nearest(upper, names);
    st = gr_fail(GR_ERR_ARG, "there is no such operation%s%s%s; there are %s",
                 near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "",
                 gr_text_str(&list));
    gr_text_fini(&list);
    return st;
}

/* What becomes of the numbers at the end. */
typedef struct ending {
    bool to_tensor, pil_to_tensor;
} ending;

static gr_status take_other(const gr_transform *t, gr_augment_list *out, fills *f, ending *e)
{
    if (is_called(t->name, "FILL"))
        return take_fill(t, f->image, 4);
    if (is_called(t->name, "MASK_FILL"))
        return take_fill(t, &f->mask, 1);
    if (is_called(t->name, "NORMALIZE") || is_called(t->name, "NORMALISE"))
        return take_normalize(t, out);
    if (is_called(t->name, "TO_TENSOR") || is_called(t->name, "CONVERT_IMAGE_DTYPE"))
        e->to_tensor = true;
    else if (is_called(t->name, "PIL_TO_TENSOR"))
        e->pil_to_tensor = true;
    else
        return no_such(t->name);
    return GR_OK; /* numbers of these mean nothing: [true], [float32] */
}

/* ---- the list ---- */

static gr_status take_entry(const entry *e, const gr_transform *t, gr_augment_list *out,
                            const fills *f)
{
    gr_augment_op *op = &out->ops[out->n_ops];

    if (out->n_norm > 0)
        return gr_fail(GR_ERR_ARG, "it stands behind NORMALIZE, which must be the last");
    if (out->n_ops == GR_AUGMENT_MAX_OPS)
        return gr_fail(GR_ERR_ARG, "more than %d operations", GR_AUGMENT_MAX_OPS);
    if (t->n_numbers < e->min || t->n_numbers > e->max)
        return gr_fail(GR_ERR_ARG, "%d numbers; it takes %s", t->n_numbers, e->usage);
    *op = (gr_augment_op){ .kind = e->kind, .n = t->n_numbers, .mask_fill = f->mask };
    memcpy(op->fill, f->image, sizeof(op->fill));
    for (int i = 0; i < t->n_numbers; i++) {
        if (!isfinite(t->numbers[i]))
            return gr_fail(GR_ERR_ARG, "number %d is %g", i + 1, t->numbers[i]);
        op->v[i] = t->numbers[i];
    }
    GR_TRY(e->take(op, e));
    out->n_ops++;
    return GR_OK;
}

static gr_status take_one(const gr_transform *t, gr_augment_list *out, fills *f, ending *e)
{
    for (int i = 0; i < N_ENTRIES; i++)
        if (is_called(t->name, entries[i].name))
            return take_entry(&entries[i], t, out, f);
    return take_other(t, out, f, e);
}

gr_status gr_augment_parse(gr_augment_list *out, const gr_transform *list, int n)
{
    fills f = { .mask = 255 };
    ending e = { 0 };

    *out = (gr_augment_list){ 0 };
    for (int i = 0; i < n; i++)
        GR_TRY(gr_wrap(take_one(&list[i], out, &f, &e), "transform %d, '%s'", i + 1, list[i].name));
    out->keeps_255 = e.pil_to_tensor && !e.to_tensor;
    return GR_OK;
}
