/*
 * Hyperparameters in event files. The plugin keeps its data in the metadata of three values
 * whose tags it knows: what there is to vary, what this run was given, and how it ended. Their
 * tensor, one zero, says nothing; TensorBoard's own writer puts it there too.
 */
#include "base/alloc.h"
#include "base/arena.h"
#include "track/events.pb-c.h"
#include "track/events_impl.h"

#include <string.h>

/* The generated initialisers cast a const away. */
#pragma GCC diagnostic ignored "-Wcast-qual"

static gr_status add_packed(gr_events *e, const gr_event_at *at, uint8_t *bytes, size_t n)
{
    static char plugin[] = "hparams";
    GrTb__Value v = GR_TB__VALUE__INIT;
    GrTb__Tensor tensor = GR_TB__TENSOR__INIT;
    GrTb__Shape shape = GR_TB__SHAPE__INIT;
    GrTb__Dim one = GR_TB__DIM__INIT, *dims = &one;
    GrTb__Metadata metadata = GR_TB__METADATA__INIT;
    GrTb__PluginData plugin_data = GR_TB__PLUGIN_DATA__INIT;
    float zero = 0;

    one.size = 1;
    shape.n_dim = 1;
    shape.dim = &dims;
    tensor.dtype = 1; /* float */
    tensor.tensor_shape = &shape;
    tensor.n_float_val = 1;
    tensor.float_val = &zero;
    plugin_data.plugin_name = plugin;
    plugin_data.content.data = bytes;
    plugin_data.content.len = n;
    metadata.plugin_data = &plugin_data;
    v.value_case = GR_TB__VALUE__VALUE_TENSOR;
    v.tensor = &tensor;
    v.metadata = &metadata;
    return gr_events_add_value(e, at, &v);
}

static gr_status add_hparams(gr_events *e, const char *tag, double wall_time,
                             const GrTb__HParams *data)
{
    gr_event_at at = { .tag = tag, .wall_time = wall_time };
    size_t n = gr_tb__hparams__get_packed_size(data);
    uint8_t *bytes = gr_malloc(n);
    gr_status st;

    if (!bytes)
        return GR_ERR_NOMEM;
    gr_tb__hparams__pack(data, bytes);
    st = add_packed(e, &at, bytes, n);
    gr_free(bytes);
    return st;
}

/* A copy of `s` that is UTF-8; NULL without memory. */
static char *clean(gr_arena *a, const char *s)
{
    gr_text t = GR_TEXT_INIT;
    char *copy;

    gr_utf8_add(&t, s ? s : "");
    copy = gr_text_status(&t) == GR_OK ? gr_arena_strdup(a, gr_text_str(&t)) : NULL;
    gr_text_fini(&t);
    return copy;
}

static gr_status fill_info(gr_arena *a, GrTb__ParamInfo **out, const gr_param *p)
{
    GrTb__ParamInfo *info = gr_arena_new(a, GrTb__ParamInfo);

    if (!info)
        return GR_ERR_NOMEM;
    gr_tb__param_info__init(info);
    info->name = clean(a, p->name);
    info->type = p->kind == GR_PARAM_TEXT ? 1 : p->kind == GR_PARAM_BOOL ? 2 : 3;
    *out = info;
    return info->name ? GR_OK : GR_ERR_NOMEM;
}

static gr_status fill_metric(gr_arena *a, GrTb__MetricInfo **out, const char *tag)
{
    GrTb__MetricInfo *info = gr_arena_new(a, GrTb__MetricInfo);
    GrTb__MetricName *name = gr_arena_new(a, GrTb__MetricName);

    if (!info || !name)
        return GR_ERR_NOMEM;
    gr_tb__metric_info__init(info);
    gr_tb__metric_name__init(name);
    name->tag = clean(a, tag);
    info->name = name;
    *out = info;
    return name->tag ? GR_OK : GR_ERR_NOMEM;
}

static gr_status fill_param(gr_arena *a, GrTb__Param **out, const gr_param *p)
{
    GrTb__Param *param = gr_arena_new(a, GrTb__Param);
    GrTb__Any *value = gr_arena_new(a, GrTb__Any);

    if (!param || !value)
        return GR_ERR_NOMEM;
    gr_tb__param__init(param);
    gr_tb__any__init(value);
    param->key = clean(a, p->name);
    param->value = value;
    *out = param;
    if (p->kind == GR_PARAM_TEXT) {
        value->kind_case = GR_TB__ANY__KIND_STRING_VALUE;
        value->string_value = clean(a, p->text);
        if (!value->string_value)
            return GR_ERR_NOMEM;
    } else if (p->kind == GR_PARAM_BOOL) {
        value->kind_case = GR_TB__ANY__KIND_BOOL_VALUE;
        value->bool_value = p->number != 0;
    } else {
        value->kind_case = GR_TB__ANY__KIND_NUMBER_VALUE;
        value->number_value = p->number;
    }
    return param->key ? GR_OK : GR_ERR_NOMEM;
}

typedef struct given {
    double wall_time;
    const gr_param *params;
    int n_params;
    const char *const *metrics;
    int n_metrics;
} given;

static gr_status add_experiment(gr_events *e, gr_arena *a, const given *g)
{
    GrTb__HParams data = GR_TB__HPARAMS__INIT;
    GrTb__Experiment x = GR_TB__EXPERIMENT__INIT;

    x.time_created_secs = g->wall_time;
    x.n_hparam_infos = (size_t)g->n_params;
    x.hparam_infos = gr_arena_array(a, (size_t)g->n_params, sizeof(*x.hparam_infos));
    x.n_metric_infos = (size_t)g->n_metrics;
    x.metric_infos = gr_arena_array(a, (size_t)g->n_metrics, sizeof(*x.metric_infos));
    if (!x.hparam_infos || !x.metric_infos)
        return GR_ERR_NOMEM;
    for (int i = 0; i < g->n_params; i++)
        GR_TRY(fill_info(a, &x.hparam_infos[i], &g->params[i]));
    for (int i = 0; i < g->n_metrics; i++)
        GR_TRY(fill_metric(a, &x.metric_infos[i], g->metrics[i]));
    data.data_case = GR_TB__HPARAMS__DATA_EXPERIMENT;
    data.experiment = &x;
    return add_hparams(e, "_hparams_/experiment", g->wall_time, &data);
}

static gr_status add_start(gr_events *e, gr_arena *a, const given *g)
{
    GrTb__HParams data = GR_TB__HPARAMS__INIT;
    GrTb__SessionStart start = GR_TB__SESSION_START__INIT;

    start.start_time_secs = g->wall_time;
    start.n_hparams = (size_t)g->n_params;
    start.hparams = gr_arena_array(a, (size_t)g->n_params, sizeof(*start.hparams));
    if (!start.hparams)
        return GR_ERR_NOMEM;
    for (int i = 0; i < g->n_params; i++)
        GR_TRY(fill_param(a, &start.hparams[i], &g->params[i]));
    data.data_case = GR_TB__HPARAMS__DATA_SESSION_START_INFO;
    data.session_start_info = &start;
    return add_hparams(e, "_hparams_/session_start_info", g->wall_time, &data);
}

gr_status gr_events_hparams(gr_events *e, double wall_time, const gr_param *params, int n_params,
                            const char *const *metrics, int n_metrics)
{
    given g = { wall_time, params, n_params, metrics, n_metrics };
    gr_arena *a;
    gr_status st;

    GR_TRY(gr_arena_create(&a));
    st = add_experiment(e, a, &g);
    if (st == GR_OK)
        st = add_start(e, a, &g);
    gr_arena_destroy(a);
    return st;
}

gr_status gr_events_ended(gr_events *e, double wall_time, bool success)
{
    GrTb__HParams data = GR_TB__HPARAMS__INIT;
    GrTb__SessionEnd end = GR_TB__SESSION_END__INIT;

    end.status = success ? 1 : 2;
    end.end_time_secs = wall_time;
    data.data_case = GR_TB__HPARAMS__DATA_SESSION_END_INFO;
    data.session_end_info = &end;
    return add_hparams(e, "_hparams_/session_end_info", wall_time, &data);
}
