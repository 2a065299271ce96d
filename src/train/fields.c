/* Fields: shapes of samples whose axes have a size. */
#include "train/fields.h"

#include "op/element.h"

#include <inttypes.h>
#include <string.h>

#define FEEDS_PER_AXIS 2 /* mask and length */

/* ---- axes ---- */

static int axis_of(int64_t dim)
{
    return (int)(-1 - dim);
}

/* Whole numbers that a type holds are few: the others hold what rounding makes of it. */
static gr_status check_pad(const gr_field *f)
{
    double least = f->dtype == GR_I32 ? -0x1p31 : f->dtype == GR_I64 ? -0x1p63 : 0;
    double most = f->dtype == GR_I32   ? 0x1p31 - 1
                  : f->dtype == GR_I64 ? 0x1p62
                  : f->dtype == GR_U8  ? 255
                                       : 1;

    if (gr_dtype_is_float(f->dtype) || (f->pad >= least && f->pad <= most))
        return GR_OK;
    return gr_fail(GR_ERR_ARG, "field '%s' of type %s cannot hold its pad %g", f->name,
                   gr_dtype_name(f->dtype), f->pad);
}

static gr_status check_field(const gr_recipe_view *view, const gr_field *f)
{
    GR_TRY(check_pad(f));
    for (int d = 0; d < f->shape.n_dims && f->shape.n_dims <= GR_MAX_DIMS; d++)
        if (f->shape.dim[d] < -view->n_axes)
            return gr_fail(GR_ERR_ARG,
                           "dimension %d of field '%s' is %" PRId64 ": neither a length nor one of "
                           "%d axes (GR_AXIS_DIM)",
                           d, f->name, f->shape.dim[d], view->n_axes);
    return GR_OK;
}

static gr_status add_feeds(const gr_axis *axis, int number, gr_arena *arena, gr_field *out)
{
    char *mask = gr_arena_printf(arena, "%s.mask", axis->name);
    char *length = gr_arena_printf(arena, "%s.length", axis->name);

    if (!mask || !length)
        return GR_ERR_NOMEM;
    out[0] = (gr_field){ .name = mask,
                         .dtype = GR_BOOL,
                         .shape = { .n_dims = 1, .dim = { GR_AXIS_DIM(number) } } };
    out[1] = (gr_field){ .name = length, .dtype = GR_I32 };
    return GR_OK;
}

gr_status gr_fields_add_axes(gr_recipe_view *view, gr_arena *arena)
{
    size_t n = (size_t)view->n_feeds + (size_t)(FEEDS_PER_AXIS * view->n_axes);
    gr_field *feeds;

    if (view->n_axes < 0 || view->n_axes > GR_MAX_AXES)
        return gr_fail(GR_ERR_ARG, "%d axes; a recipe may have %d", view->n_axes, GR_MAX_AXES);
    for (int i = 0; i < view->n_feeds; i++)
        GR_TRY(check_field(view, &view->feeds[i]));
    for (int i = 0; i < view->n_outputs; i++)
        GR_TRY(check_field(view, &view->outputs[i]));
    if (view->n_axes == 0)
        return GR_OK;
    feeds = gr_arena_array(arena, n, sizeof(*feeds));
    if (!feeds)
        return GR_ERR_NOMEM;
    if (view->n_feeds > 0)
        memcpy(feeds, view->feeds, (size_t)view->n_feeds * sizeof(*feeds));
    for (int a = 0; a < view->n_axes; a++)
        GR_TRY(add_feeds(&view->axes[a], a, arena, &feeds[view->n_feeds + FEEDS_PER_AXIS * a]));
    view->feeds = feeds;
    view->n_feeds = (int)n;
    return GR_OK;
}

int gr_fields_n_own(const gr_recipe_view *view)
{
    return view->n_feeds - FEEDS_PER_AXIS * view->n_axes;
}

/* ---- a sample ---- */

gr_shape gr_field_shape(const gr_field *f, const int64_t *size)
{
    gr_shape shape = f->shape;

    for (int d = 0; d < shape.n_dims; d++)
        if (shape.dim[d] < 0)
            shape.dim[d] = size[axis_of(shape.dim[d])];
    return shape;
}

size_t gr_field_bytes(const gr_field *f, const int64_t *size)
{
    gr_shape shape = gr_field_shape(f, size);

    return (size_t)gr_shape_count(&shape) * gr_dtype_bytes(f->dtype);
}

void gr_field_fill(const gr_field *f, void *mem, size_t n_bytes)
{
    size_t elem = gr_dtype_bytes(f->dtype), done = elem;

    if (n_bytes == 0)
        return;
    if (!(f->pad > 0) && !(f->pad < 0)) {
        memset(mem, 0, n_bytes);
        return;
    }
    gr_element_put_f64(mem, f->dtype, 0, f->pad);
    for (; done < n_bytes; done *= 2) /* what is there already, over and over */
        memcpy((char *)mem + done, mem, done < n_bytes - done ? done : n_bytes - done);
}

/* ---- batches ---- */

gr_status gr_feed_shapes(const gr_recipe_view *view, const int64_t *size, int64_t n,
                         gr_named *feeds)
{
    for (int i = 0; i < view->n_feeds; i++) {
        const gr_field *f = &view->feeds[i];
        gr_shape *shape = &feeds[i].shape, sample;

        if (f->shape.n_dims >= GR_MAX_DIMS)
            return gr_fail(GR_ERR_ARG, "feed '%s' has %d dimensions, and the batch makes one more",
                           f->name, f->shape.n_dims);
        feeds[i] = (gr_named){ .name = f->name, .dtype = f->dtype };
        sample = gr_field_shape(f, size);
        shape->n_dims = sample.n_dims + 1;
        shape->dim[0] = n;
        for (int d = 0; d < sample.n_dims; d++)
            shape->dim[d + 1] = sample.dim[d];
        GR_TRY(gr_wrap(gr_shape_check(shape, f->dtype), "batch of %" PRId64 " samples", n));
    }
    return GR_OK;
}

size_t gr_feed_sample_bytes(const gr_recipe_view *view, const int64_t *size)
{
    size_t n_bytes = 0;

    for (int i = 0; i < view->n_feeds; i++)
        n_bytes += gr_field_bytes(&view->feeds[i], size);
    return n_bytes;
}

void gr_fields_size_text(const gr_recipe_view *view, const int64_t *size, gr_text *out)
{
    for (int a = 0; a < view->n_axes; a++)
        gr_text_addf(out, "%s%s %" PRId64, a > 0 ? ", " : "", view->axes[a].name, size[a]);
}

void gr_fields_shape_text(const gr_recipe_view *view, const gr_field *f, gr_text *out)
{
    gr_text_add(out, "[");
    for (int d = 0; d < f->shape.n_dims; d++) {
        gr_text_add(out, d > 0 ? ", " : "");
        if (f->shape.dim[d] < 0)
            gr_text_add(out, view->axes[axis_of(f->shape.dim[d])].name);
        else
            gr_text_addf(out, "%" PRId64, f->shape.dim[d]);
    }
    gr_text_add(out, "]");
}
