/* The values of event files: scalars, images, text and histograms. */
#include "base/alloc.h"
#include "track/events.pb-c.h"
#include "track/events_impl.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* The generated initialisers cast a const away. */
#pragma GCC diagnostic ignored "-Wcast-qual"

enum { DT_FLOAT = 1, DT_STRING = 7 };

gr_status gr_events_scalar(gr_events *e, const gr_event_at *at, double value)
{
    static char plugin[] = "scalars";
    GrTb__Value v = GR_TB__VALUE__INIT;
    GrTb__Tensor tensor = GR_TB__TENSOR__INIT;
    GrTb__Shape scalar = GR_TB__SHAPE__INIT;
    GrTb__Metadata metadata = GR_TB__METADATA__INIT;
    GrTb__PluginData plugin_data = GR_TB__PLUGIN_DATA__INIT;
    float number = (float)value;

    if (e->form == GR_SCALAR_SIMPLE) {
        v.value_case = GR_TB__VALUE__VALUE_SIMPLE_VALUE;
        v.simple_value = number;
        return gr_events_add_value(e, at, &v);
    }
    tensor.dtype = DT_FLOAT;
    tensor.tensor_shape = &scalar;
    tensor.n_float_val = 1;
    tensor.float_val = &number;
    plugin_data.plugin_name = plugin;
    metadata.plugin_data = &plugin_data;
    metadata.data_class = 1;
    v.value_case = GR_TB__VALUE__VALUE_TENSOR;
    v.tensor = &tensor;
    v.metadata = &metadata;
    return gr_events_add_value(e, at, &v);
}

gr_status gr_events_image(gr_events *e, const gr_event_at *at, const gr_pixels *p)
{
    GrTb__Value v = GR_TB__VALUE__INIT;
    GrTb__Image image = GR_TB__IMAGE__INIT;
    gr_text png = GR_TEXT_INIT;
    gr_status st;

    GR_TRY_GOTO(st, gr_png_encode(p, &png), out);
    image.height = p->height;
    image.width = p->width;
    image.colorspace = p->channels;
    image.encoded_image_string.data = (uint8_t *)png.str;
    image.encoded_image_string.len = png.len;
    v.value_case = GR_TB__VALUE__VALUE_IMAGE;
    v.image = &image;
    st = gr_events_add_value(e, at, &v);

out:
    gr_text_fini(&png);
    return st;
}

static gr_status add_text(gr_events *e, const gr_event_at *at, gr_text *text)
{
    static char plugin[] = "text";
    GrTb__Value v = GR_TB__VALUE__INIT;
    GrTb__Tensor tensor = GR_TB__TENSOR__INIT;
    GrTb__Shape shape = GR_TB__SHAPE__INIT;
    GrTb__Dim one = GR_TB__DIM__INIT, *dims = &one;
    GrTb__Metadata metadata = GR_TB__METADATA__INIT;
    GrTb__PluginData plugin_data = GR_TB__PLUGIN_DATA__INIT;
    ProtobufCBinaryData string = { .len = text->len, .data = (uint8_t *)text->str };

    one.size = 1;
    shape.n_dim = 1;
    shape.dim = &dims;
    tensor.dtype = DT_STRING;
    tensor.tensor_shape = &shape;
    tensor.n_string_val = 1;
    tensor.string_val = &string;
    plugin_data.plugin_name = plugin;
    metadata.plugin_data = &plugin_data;
    metadata.data_class = 2;
    v.value_case = GR_TB__VALUE__VALUE_TENSOR;
    v.tensor = &tensor;
    v.metadata = &metadata;
    return gr_events_add_value(e, at, &v);
}

gr_status gr_events_text(gr_events *e, const gr_event_at *at, const char *text)
{
    gr_text tag = GR_TEXT_INIT, clean = GR_TEXT_INIT;
    gr_event_at where = *at;
    gr_status st;

    gr_text_addf(&tag, "%s/text_summary", at->tag); /* the name that the plugin looks for */
    gr_utf8_add(&clean, text);
    st = gr_text_status(&tag);
    if (st == GR_OK)
        st = gr_text_status(&clean);
    where.tag = gr_text_str(&tag);
    if (st == GR_OK)
        st = add_text(e, &where, &clean);
    gr_text_fini(&tag);
    gr_text_fini(&clean);
    return st;
}

/*
 * Buckets: bucket N_SIDE is [-LEAST, LEAST], those above end at LEAST * GROWTH^k, those below
 * mirror them. N_SIDE steps reach beyond the greatest float.
 */
#define LEAST  1e-12
#define GROWTH 1.1
#define N_SIDE 1224
#define N_ALL  (2 * N_SIDE + 1)

static int bucket_of(double value)
{
    double size = fabs(value);
    int k = size <= LEAST ? 0 : (int)ceil(log(size / LEAST) / log(GROWTH));

    k = k > N_SIDE ? N_SIDE : k;
    return value < 0 ? N_SIDE - k : N_SIDE + k;
}

static double upper_limit(int bucket)
{
    if (bucket >= N_SIDE)
        return LEAST * pow(GROWTH, bucket - N_SIDE);
    return -LEAST * pow(GROWTH, N_SIDE - bucket - 1);
}

static void count(GrTb__Histogram *h, double *counts, const float *values, int64_t n)
{
    h->min = DBL_MAX;
    h->max = -DBL_MAX;
    for (int64_t i = 0; i < n; i++) {
        double v = (double)values[i];

        if (!isfinite(v))
            continue;
        counts[bucket_of(v)] += 1;
        h->min = fmin(h->min, v);
        h->max = fmax(h->max, v);
        h->num += 1;
        h->sum += v;
        h->sum_squares += v * v;
    }
}

/* Only the stretch between the least and the greatest value, with an empty bucket before it:
 * the first bucket of the file has no lower limit otherwise. */
static void fill_buckets(GrTb__Histogram *h, double *counts, double *limits)
{
    int first = bucket_of(h->min) - 1, last = bucket_of(h->max);

    first = first < 0 ? 0 : first;
    for (int i = first; i <= last; i++)
        limits[i - first] = upper_limit(i);
    h->n_bucket_limit = h->n_bucket = (size_t)(last - first + 1);
    h->bucket_limit = limits;
    h->bucket = counts + first;
}

gr_status gr_events_histogram(gr_events *e, const gr_event_at *at, const float *values, int64_t n)
{
    GrTb__Value v = GR_TB__VALUE__INIT;
    GrTb__Histogram h = GR_TB__HISTOGRAM__INIT;
    double *memory = gr_calloc((size_t)2 * N_ALL, sizeof(*memory));
    gr_status st = GR_OK;

    if (!memory)
        return GR_ERR_NOMEM;
    count(&h, memory, values, n);
    if (h.num > 0) {
        fill_buckets(&h, memory, memory + N_ALL);
        v.value_case = GR_TB__VALUE__VALUE_HISTO;
        v.histo = &h;
        st = gr_events_add_value(e, at, &v);
    }
    gr_free(memory);
    return st;
}
