/* See run.h. Samples come in the order of a permutation by a prime step: enough for a test. */
#include "run.h"

#include "recipe/recipes.h"

#include "check.h"

#define PI 3.14159265358979323846

const gr_recipe *recipe_find(const char *name)
{
    for (int i = 0; gr_recipes[i]; i++)
        if (strcmp(gr_recipes[i]->name, name) == 0)
            return gr_recipes[i];
    return NULL;
}

gr_status recipe_try(recipe_run *r, const char *name, const char *yaml, const recipe_options *o)
{
    gr_recipe_config config = {
        .task = o->task, .seed = 1, .n_train = o->n_train, .n_valid = o->n_valid
    };

    *r = (recipe_run){ .recipe = recipe_find(name), .batch = o->batch ? o->batch : 1 };
    GR_CHECK(r->recipe != NULL);
    GR_TRY(gr_settings_create(&r->settings, r->recipe->keys, r->recipe->n_keys));
    GR_TRY(gr_settings_read_text(r->settings, "test.yaml", yaml, strlen(yaml)));
    config.settings = r->settings;
    return r->recipe->data->open(&r->user, &config);
}

void recipe_open(recipe_run *r, const char *name, const char *yaml, const recipe_options *o)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;

    GR_CHECK_OK(recipe_try(r, name, yaml, o));
    GR_CHECK_OK(r->recipe->data->describe(r->user, &r->view));
    if (r->recipe->data->scratch_open)
        GR_CHECK_OK(r->recipe->data->scratch_open(r->user, &r->scratch));
    GR_CHECK(r->view.n_feeds <= RECIPE_FIELDS && r->view.n_outputs <= RECIPE_FIELDS);
    GR_CHECK(r->view.n_metrics <= RECIPE_METRICS);
    for (int i = 0; i < r->view.n_feeds; i++)
        r->mem[i] = calloc((size_t)(r->batch * gr_shape_count(&r->view.feeds[i].shape)),
                           gr_dtype_bytes(r->view.feeds[i].dtype));
    for (int i = 0; i < r->view.n_outputs; i++)
        r->outputs[i] = calloc((size_t)(r->batch * gr_shape_count(&r->view.outputs[i].shape)),
                               gr_dtype_bytes(r->view.outputs[i].dtype));
    r->index = calloc((size_t)r->batch, sizeof(*r->index));
    r->counts = calloc((size_t)r->view.n_counts, sizeof(*r->counts));
    c.traces = r->recipe->model->traces;
    c.n_traces = r->recipe->model->n_traces;
    c.user = r->user;
    c.device = "cpu";
    c.optim = o->optim;
    c.seed = 1;
    GR_CHECK_OK(gr_step_create(&r->step, &c));
}

void recipe_close(recipe_run *r)
{
    gr_step_destroy(r->step);
    if (r->scratch)
        r->recipe->data->scratch_close(r->scratch);
    if (r->user)
        r->recipe->data->close(r->user);
    gr_settings_destroy(r->settings);
    for (int i = 0; i < RECIPE_FIELDS; i++)
        free(r->mem[i]);
    for (int i = 0; i < RECIPE_FIELDS; i++)
        free(r->outputs[i]);
    free(r->index);
    free(r->counts);
    *r = (recipe_run){ 0 };
}

void recipe_feeds(recipe_run *r, const gr_sample *first, int64_t n, gr_named *feeds)
{
    int64_t size = r->recipe->data->size(r->user, first->split);

    for (int i = 0; i < r->view.n_feeds; i++) {
        const gr_field *f = &r->view.feeds[i];
        size_t bytes = (size_t)gr_shape_count(&f->shape) * gr_dtype_bytes(f->dtype);

        feeds[i] = (gr_named){ f->name, f->dtype, f->shape, r->mem[i] };
        memmove(feeds[i].shape.dim + 1, f->shape.dim, (size_t)f->shape.n_dims * sizeof(int64_t));
        feeds[i].shape.dim[0] = n;
        feeds[i].shape.n_dims++;
        memset(r->mem[i], 0, (size_t)n * bytes);
    }
    for (int64_t k = 0; k < n; k++) {
        gr_feed_slot slots[RECIPE_FIELDS] = { 0 };
        gr_sample s = *first;

        s.index = (first->index + k) % size;
        r->index[k] = s.index;
        for (int i = 0; i < r->view.n_feeds; i++) {
            const gr_field *f = &r->view.feeds[i];
            size_t bytes = (size_t)gr_shape_count(&f->shape) * gr_dtype_bytes(f->dtype);

            slots[i] = (gr_feed_slot){ (char *)r->mem[i] + (size_t)k * bytes, f->shape };
        }
        GR_CHECK_OK(r->recipe->data->load(r->user, &s, r->scratch, slots));
    }
}

double recipe_train(recipe_run *r, int64_t n_steps, double lr)
{
    gr_named feeds[RECIPE_FIELDS];
    int64_t size = r->recipe->data->size(r->user, GR_SPLIT_TRAIN);
    float loss = 0;

    for (int64_t i = 0; i < n_steps; i++) {
        double part = 0.5 * (1 + cos(PI * (double)i / (double)n_steps));
        double warm = i < 10 ? (double)(i + 1) / 10 : 1;
        gr_sample s = { .index = i * r->batch, .epoch = i * r->batch / size, .seed = 1 };

        recipe_feeds(r, &s, r->batch, feeds);
        GR_CHECK_OK(gr_step_train(r->step, feeds, r->view.n_feeds, lr * part * warm));
    }
    GR_CHECK_OK(gr_step_read(r->step, "loss", (gr_vec){ &loss, 1, GR_F32 }));
    return (double)loss;
}

void recipe_evaluate(recipe_run *r, gr_split split, double *values)
{
    int64_t size = r->recipe->data->size(r->user, split);
    gr_named feeds[RECIPE_FIELDS];

    memset(r->counts, 0, (size_t)r->view.n_counts * sizeof(*r->counts));
    for (int64_t at = 0; at < size; at += r->batch) {
        gr_eval e = { .split = split, .n = size - at < r->batch ? size - at : r->batch };

        recipe_feeds(r, &(gr_sample){ .split = split, .index = at, .seed = 1 }, e.n, feeds);
        GR_CHECK_OK(gr_step_eval(r->step, feeds, r->view.n_feeds));
        for (int i = 0; i < r->view.n_outputs; i++) {
            const gr_field *f = &r->view.outputs[i];

            GR_CHECK_OK(gr_step_read(
                r->step, f->name,
                (gr_vec){ r->outputs[i], (size_t)(e.n * gr_shape_count(&f->shape)), f->dtype }));
        }
        e.outputs = (const void *const *)r->outputs;
        e.feeds = (const void *const *)r->mem;
        e.index = r->index;
        r->recipe->evaluation->score(r->user, &e, r->counts);
    }
    r->recipe->evaluation->measure(r->user, r->counts, values);
}

bool recipe_has_columns(const recipe_run *r, const char *names)
{
    for (int i = 0; i < r->view.n_columns; i++) {
        size_t n = strlen(r->view.columns[i].name);

        if (strncmp(names, r->view.columns[i].name, n) != 0 ||
            names[n] != (i + 1 < r->view.n_columns ? ',' : '\0'))
            return false;
        names += n + 1;
    }
    return r->view.n_columns > 0;
}

double recipe_value(const recipe_run *r, const double *values, const char *name)
{
    for (int i = 0; i < r->view.n_metrics; i++)
        if (strcmp(r->view.metrics[i].name, name) == 0)
            return values[i];
    fprintf(stderr, "there is no metric '%s'\n", name);
    exit(1);
}
