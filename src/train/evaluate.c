/*
 * Evaluation: every sample of a split once, on all ranks together. Rank r takes samples r,
 * r + W, r + 2W, ..., or of samples that differ in length batches r, r + W, ... by rising size;
 * no sample comes twice. Counts are summed in double, in rank order, and a metric is made of the
 * sums: never a mean of batch means. So is the loss, where the trace gives its terms (parts.h).
 *
 * A validation may take longer than a launcher waits after its SIGTERM, so the ranks agree now and
 * then whether to go on. They meet after as many batches as take them about half a second, which
 * they agree on, too; ranks may differ by a batch, so they meet while all have some.
 */
#include "train/trainer.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/nan.h"
#include "step/inspect.h"

#include <inttypes.h>
#include <math.h>

#include <string.h>

/* Sums behind the recipe's counts. */
enum { SUM_LOSS, SUM_LOSSES, SUM_SAMPLES, SUM_UNITS, N_EXTRA };

#define SHORT_MS 250 /* between two meetings: batches are doubled below, and halved above */
#define LONG_MS  1000

/* When the ranks meet next; alike on all of them. */
typedef struct meeting {
    int64_t every, next; /* batches; 0: never */
    int64_t fewest;      /* batches that every rank has */
    int64_t at_ms;       /* of this rank: when the latest was */
} meeting;

int64_t gr_eval_count(int64_t n, int rank, int n_ranks)
{
    return n <= rank ? 0 : (n - rank - 1) / n_ranks + 1;
}

typedef struct room {
    gr_trainer *t;
    gr_split split;
    size_t *most; /* of each output: bytes of a batch */
} room;

static gr_status add_room(void *arg, int64_t n, int k)
{
    const room *r = arg;
    const gr_sizes *sizes;

    GR_TRY(gr_trainer_sizes(r->t, r->split, &sizes));
    for (int i = 0; i < r->t->view.n_outputs; i++) {
        size_t bytes = (size_t)n * gr_field_bytes(&r->t->view.outputs[i], gr_feed_size(sizes, k));

        r->most[i] = bytes > r->most[i] ? bytes : r->most[i];
    }
    return GR_OK;
}

/* Of the largest batch that the task evaluates. */
static gr_status make_outputs(gr_trainer *t, size_t *most)
{
    static const gr_split splits[] = { GR_SPLIT_VALID, GR_SPLIT_TEST, GR_SPLIT_PREDICT };
    room r = { t, splits[t->task], most }; /* as gr_task counts */

    GR_TRY(gr_trainer_shapes(t, r.split, add_room, &r));
    for (int i = 0; i < t->view.n_outputs; i++) {
        t->eval.outputs[i] = gr_calloc(most[i] + 1, 1);
        if (!t->eval.outputs[i])
            return GR_ERR_NOMEM;
    }
    return GR_OK;
}

gr_status gr_trainer_open_eval(gr_trainer *t)
{
    gr_eval_memory *m = &t->eval;
    size_t *most;
    gr_status st;

    m->outputs = gr_calloc((size_t)t->view.n_outputs + 1, sizeof(*m->outputs));
    m->feeds = gr_calloc((size_t)t->view.n_feeds + 1, sizeof(*m->feeds));
    t->scores.values = gr_calloc((size_t)t->view.n_metrics + 1, sizeof(*t->scores.values));
    if (!m->outputs || !m->feeds || !t->scores.values)
        return GR_ERR_NOMEM;
    most = gr_calloc((size_t)t->view.n_outputs + 1, sizeof(*most));
    if (!most)
        return GR_ERR_NOMEM;
    st = make_outputs(t, most);
    gr_free(most);
    GR_TRY(st);
    m->counts = gr_calloc((size_t)t->view.n_counts + N_EXTRA, sizeof(*m->counts));
    return m->counts ? GR_OK : GR_ERR_NOMEM;
}

void gr_trainer_close_eval(gr_trainer *t)
{
    for (int i = 0; t->eval.outputs && i < t->view.n_outputs; i++)
        gr_free(t->eval.outputs[i]);
    gr_free(t->eval.outputs);
    gr_free(t->eval.feeds);
    gr_free(t->eval.counts);
    gr_parts_fini(&t->eval.parts);
    gr_parts_fini(&t->parts);
    gr_free(t->scores.values);
    t->scores.values = NULL;
    t->eval = (gr_eval_memory){ 0 };
}

/* Runs a batch and fills in what score() and predict() see of it. */
static gr_status run_batch(gr_trainer *t, const gr_loaded *b, gr_eval *e)
{
    const gr_feed *f = &t->feeds[e->split];

    e->padded = gr_feed_size(f->from.sizes, b->size);
    GR_TRY(gr_step_eval(t->step, f->feeds, t->view.n_feeds));
    for (int i = 0; i < t->view.n_outputs; i++) {
        const gr_field *field = &t->view.outputs[i];
        gr_shape shape = gr_field_shape(field, e->padded);
        gr_vec rows = { t->eval.outputs[i], (size_t)(b->n * gr_shape_count(&shape)), field->dtype };

        GR_TRY(gr_step_read(t->step, field->name, rows));
    }
    for (int i = 0; i < t->view.n_feeds; i++)
        t->eval.feeds[i] = b->mem[i];
    e->outputs = (const void *const *)t->eval.outputs;
    e->feeds = t->eval.feeds;
    e->n = b->n;
    e->index = b->index;
    return GR_OK;
}

static gr_status score_batch(gr_trainer *t, const gr_eval *e)
{
    double *extra = t->eval.counts + t->view.n_counts;
    float loss;

    if (t->recipe->evaluation->score)
        t->recipe->evaluation->score(t->user, e, t->eval.counts);
    extra[SUM_SAMPLES] += (double)e->n;
    GR_TRY(gr_parts_take_rows(&t->eval.parts, t->step, t->arena, e->n));
    if (!gr_step_has_output(t->step, "loss")) /* it is made of its parts, or there is none */
        return GR_OK;
    extra[SUM_LOSSES] += (double)e->n;
    GR_TRY(gr_step_read(t->step, "loss", (gr_vec){ &loss, 1, GR_F32 }));
    extra[SUM_LOSS] += (double)loss * (double)e->n;
    return GR_OK;
}

/* Every rank has `fewest` batches, or units, at least. */
static meeting first_meeting(const gr_trainer *t, gr_split split, int64_t fewest)
{
    bool meets = t->heeds_stops && split == GR_SPLIT_VALID;

    return (meeting){
        .every = 1, .next = meets ? 1 : 0, .fewest = fewest, .at_ms = gr_now_ns() / 1000000
    };
}

/* After n_done batches. */
static gr_status meet(gr_trainer *t, meeting *m, int64_t n_done)
{
    int64_t took_ms;

    if (n_done != m->next || n_done >= m->fewest)
        return GR_OK;
    took_ms = gr_now_ns() / 1000000 - m->at_ms;
    GR_TRY(gr_trainer_agree_on_signal(t, &t->stopped_by, &took_ms));
    if (took_ms < SHORT_MS)
        m->every *= 2;
    else if (took_ms > LONG_MS && m->every > 1)
        m->every /= 2;
    m->next += m->every;
    m->at_ms = gr_now_ns() / 1000000;
    return GR_OK;
}

/* Pictures fail no run: what cannot be written is told once, by the trackers' rule. */
static void show_batch(gr_trainer *t, const gr_eval *e)
{
    gr_results *r = NULL;
    char prefix[40];
    gr_status st;

    snprintf(prefix, sizeof(prefix), "step_%" PRId64 "_", t->at);
    st = gr_results_create(&r, &(gr_results_config){ .folder = t->folder, .prefix = prefix });
    if (st == GR_OK)
        st = t->recipe->evaluation->show(t->user, e, r);
    if (st == GR_OK)
        st = gr_results_write_own(r);
    if (st == GR_OK)
        gr_results_show(r, t->track, t->at);
    else if (!t->told_pictures)
        gr_log(TRAIN, WARN, "no pictures of the validation: %s; the run goes on without them",
               gr_error_message());
    t->told_pictures = t->told_pictures || st != GR_OK;
    gr_results_destroy(r);
}

/* Whether the first batch of this evaluation is to be shown. */
static bool shows(const gr_trainer *t, gr_split split)
{
    return split == GR_SPLIT_VALID && gr_trainer_writes(t) && t->folder && t->track &&
           t->recipe->evaluation->show;
}

static gr_status run_batches(gr_trainer *t, gr_split split, gr_results *out)
{
    gr_feed *f = &t->feeds[split];
    const gr_loaded *b;
    meeting m;

    GR_TRY(gr_trainer_open_feed(t, split));
    m = first_meeting(t, split, f->order->fewest);
    GR_TRY(gr_loader_seek(f->loader, 0, 0));
    for (int64_t n_done = 1;; n_done++) {
        gr_eval e = { .split = split };

        GR_TRY(gr_feed_next(f, &b));
        if (!b)
            return GR_OK;
        if (b->n > 0) {
            GR_TRY(run_batch(t, b, &e));
            GR_TRY(out ? t->recipe->evaluation->predict(t->user, &e, out) : score_batch(t, &e));
            if (n_done == 1 && shows(t, split))
                show_batch(t, &e);
        }
        GR_TRY(meet(t, &m, n_done));
        if (t->stopped_by != 0)
            return GR_OK;
    }
}

static gr_status run_unit(gr_trainer *t, gr_split split, int64_t unit, gr_results *out)
{
    const gr_recipe_evaluation *e = t->recipe->evaluation;

    if (out)
        return e->predict_unit(t->user, t->runner, unit, out);
    t->eval.counts[t->view.n_counts + SUM_UNITS]++;
    return e->score_unit(t->user, t->runner, split, unit, t->eval.counts);
}

/* Rank r takes units r, r + W, ... */
static gr_status run_units(gr_trainer *t, gr_split split, int64_t n_units, gr_results *out)
{
    meeting m = first_meeting(t, split, n_units / t->n_ranks);
    int64_t n_done = 0;

    if (n_units == 0)
        return GR_OK;
    if (out ? !t->recipe->evaluation->predict_unit : !t->recipe->evaluation->score_unit)
        return gr_fail(GR_ERR_ARG, "recipe '%s' has units and no function for them",
                       t->recipe->name);
    for (int64_t u = t->rank; u < n_units; u += t->n_ranks) {
        gr_status st = run_unit(t, split, u, out);

        if (st != GR_OK)
            return gr_wrap(st, "unit %" PRId64, u);
        GR_TRY(meet(t, &m, ++n_done));
        if (t->stopped_by != 0)
            return GR_OK;
    }
    /* Whatever the units wanted: what comes next is as it was. */
    return t->o.zero > 0 ? GR_OK : gr_step_use_ema(t->step, t->o.ema_decay > 0);
}

static gr_status run_split(gr_trainer *t, gr_split split, gr_results *out)
{
    gr_eval_work w = gr_trainer_work(t, split);

    if (w.has_batches && t->size[split] > 0 && (!out || t->recipe->evaluation->predict))
        GR_TRY(run_batches(t, split, out));
    return t->stopped_by != 0 ? GR_OK : run_units(t, split, w.n_units, out);
}

gr_status gr_trainer_predict_split(gr_trainer *t, gr_split split, gr_results *out,
                                   int64_t *n_samples)
{
    double n;

    GR_TRY(gr_wrap(run_split(t, split, out), "prediction"));
    if (gr_trainer_work(t, split).n_units > 0) {
        *n_samples = gr_trainer_work(t, split).n_units;
        return GR_OK;
    }
    n = (double)(t->feeds[split].order->n_samples - t->feeds[split].n_bad);
    GR_TRY(gr_pg_allreduce(t->pg, (gr_vec){ &n, 1, GR_F64 }, GR_REDUCE_SUM));
    *n_samples = (int64_t)n;
    return GR_OK;
}

gr_status gr_trainer_evaluate(gr_trainer *t, gr_split split, gr_scores *out)
{
    size_t n_sums = (size_t)t->view.n_counts + N_EXTRA;
    double *sums = t->eval.counts, *extra = sums + t->view.n_counts;
    gr_parts *parts = &t->eval.parts;

    gr_parts_clear(parts);
    memset(sums, 0, n_sums * sizeof(*sums));
    if (split == GR_SPLIT_VALID) /* ranks that train have each their own running statistics */
        GR_TRY(gr_step_sync_buffers(t->step));
    if (t->o.zero > 0 && t->o.ema_decay > 0) /* averages are put together for each evaluation */
        GR_TRY(gr_step_use_ema(t->step, true));
    GR_TRY(gr_wrap(run_split(t, split, NULL), "evaluation"));
    if (t->stopped_by != 0)
        return GR_OK;
    GR_TRY(gr_pg_allreduce(t->pg, (gr_vec){ sums, n_sums, GR_F64 }, GR_REDUCE_SUM));
    if (t->recipe->evaluation->measure)
        t->recipe->evaluation->measure(t->user, sums, out->values);
    out->n_samples = (int64_t)extra[extra[SUM_SAMPLES] > 0 ? SUM_SAMPLES : SUM_UNITS];
    GR_TRY(gr_parts_share_rows(parts, t->pg, out->n_samples, t->arena));
    out->has_no_loss = !parts->has_loss && extra[SUM_LOSSES] == 0;
    out->loss = parts->has_loss ? parts->loss : extra[SUM_LOSS] / extra[SUM_LOSSES];
    out->parts = parts->list;
    out->n_parts = parts->n;
    return GR_OK;
}

#define SHOWN 4 /* metrics in a line for people; the files have all */

void gr_scores_text(const gr_trainer *t, const gr_scores *s, gr_text *out)
{
    const char *comma = "";

    for (int i = 0; i < t->view.n_metrics && i < SHOWN; i++) {
        const gr_metric_info *m = &t->view.metrics[i];

        if (m->is_share)
            gr_text_addf(out, "%s%s %.2f%%", comma, m->name, gr_plain_nan(100 * s->values[i]));
        else
            gr_text_addf(out, "%s%s %.4g", comma, m->name, gr_plain_nan(s->values[i]));
        comma = ", ";
    }
    if (!s->has_no_loss)
        gr_text_addf(out, "%svalidation loss %.4f", comma, gr_plain_nan(s->loss));
}
