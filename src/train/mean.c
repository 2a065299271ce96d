/* The training loss of an epoch: exact sums, their text, and what a trainer does with them. */
#include "train/mean.h"

#include "backend/backend.h"
#include "base/half.h"
#include "base/nan.h"
#include "step/inspect.h"
#include "train/checkpoint.h"
#include "train/numbers.h"
#include "train/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define PART_BITS 52
#define PART_ONE  (INT64_C(1) << PART_BITS)
#define MOST      0x1p56 /* of a loss times its samples: no sum of any epoch reaches 2^63 */

/* ---- sums ---- */

void gr_mean_join(gr_mean_sum *s, const gr_mean_sum *more)
{
    s->part += more->part;
    s->whole += more->whole + (s->part >> PART_BITS);
    s->part &= PART_ONE - 1;
    s->n += more->n;
}

void gr_mean_add(gr_mean_sum *s, double loss, int64_t n)
{
    double x = loss * (double)n, whole = floor(x);
    gr_mean_sum more = { .n = n };

    if (!(fabs(x) < MOST))
        return;
    more.whole = (int64_t)whole;
    more.part = (int64_t)nearbyint((x - whole) * (double)PART_ONE);
    gr_mean_join(s, &more);
}

double gr_mean_of(const gr_mean_sum *s)
{
    if (s->n < 1)
        return (double)NAN;
    return ((double)s->whole + (double)s->part / (double)PART_ONE) / (double)s->n;
}

/* ---- memory ---- */

#define FORM "%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %d %a %" PRId64

void gr_mean_print(const gr_epoch_mean *m, gr_text *out)
{
    gr_text_addf(out, FORM, m->epoch, m->all.whole, m->all.part, m->all.n, m->has_best, m->best,
                 m->best_epoch);
}

static bool take(gr_epoch_mean *m, const char *text)
{
    gr_mean_sum *s = &m->all;
    int64_t has_best;

    if (!gr_take_i64(&text, &m->epoch) || !gr_take_i64(&text, &s->whole) ||
        !gr_take_i64(&text, &s->part) || !gr_take_i64(&text, &s->n) ||
        !gr_take_i64(&text, &has_best) || !gr_take_f64(&text, &m->best) ||
        !gr_take_i64(&text, &m->best_epoch))
        return false;
    m->has_best = has_best != 0;
    return *text == '\0' && m->epoch >= -1 && s->part >= 0 && s->part < PART_ONE && s->n >= 0 &&
           s->n < INT64_MAX / 2 && s->whole < INT64_MAX / 2 && s->whole > INT64_MIN / 2;
}

gr_status gr_mean_parse(gr_epoch_mean *m, const char *text)
{
    gr_epoch_mean got = *m;

    if (!take(&got, text))
        return gr_fail(GR_ERR_FORMAT, "'%.100s' is no record of an epoch's loss", text);
    got.before = got.all;
    got.value = gr_plain_nan(gr_mean_of(&got.all));
    *m = got;
    return GR_OK;
}

/* ---- losses of steps ---- */

void gr_trainer_begin_mean(gr_trainer *t, int64_t epoch)
{
    gr_epoch_mean *m = &t->mean;

    if (m->epoch == epoch)
        return;
    m->epoch = epoch;
    m->own = m->before = (gr_mean_sum){ 0 };
    m->n_queued = 0; /* nobody asked for them */
    m->n_untold = 0;
}

static double queued_loss(const gr_epoch_mean *m, int i)
{
    const char *at = (const char *)m->queue + (size_t)i * sizeof(float);
    uint16_t half;
    float f;

    memcpy(&half, at, sizeof(half));
    memcpy(&f, at, sizeof(f));
    if (m->dtype == (int)GR_F32)
        return (double)f;
    return (double)(m->dtype == (int)GR_BF16 ? gr_bf16_to_f32(half) : gr_f16_to_f32(half));
}

/* Waits for the device. */
static gr_status take_queue(gr_trainer *t)
{
    gr_epoch_mean *m = &t->mean;

    if (m->n_queued == 0)
        return GR_OK;
    GR_TRY(gr_step_sync(t->step));
    for (int i = 0; i < m->n_queued; i++)
        gr_mean_add(&m->own, queued_loss(m, i) * m->scale[i], m->n_samples[i]);
    m->n_queued = 0;
    return GR_OK;
}

static gr_status queue_loss(gr_trainer *t, int64_t n, double scale)
{
    gr_epoch_mean *m = &t->mean;
    gr_device *d = gr_step_device(t->step);
    gr_dtype dtype;

    if (!m->queue)
        GR_TRY(d->ops->host_alloc(d, GR_MEAN_QUEUE * sizeof(float), &m->queue));
    if (m->n_queued == GR_MEAN_QUEUE)
        GR_TRY(take_queue(t));
    GR_TRY(gr_step_read_later(t->step, "loss",
                              (char *)m->queue + (size_t)m->n_queued * sizeof(float), sizeof(float),
                              &dtype));
    m->dtype = (int)dtype;
    m->scale[m->n_queued] = scale;
    m->n_samples[m->n_queued++] = n;
    return GR_OK;
}

/* With loss_reduction global it is the plain mean of the ranks' values that is the loss of a step,
 * also where ranks have different numbers of samples. Exactly 1 where they have as many. */
static double scale_of(const gr_trainer *t)
{
    const gr_epoch_mean *m = &t->mean;

    if (t->o.loss_reduction != GR_LOSS_GLOBAL || m->n_untold == 0)
        return 1;
    return (double)m->n_all_untold / (double)(m->n_untold * t->n_ranks);
}

gr_status gr_trainer_take_loss(gr_trainer *t, double *loss)
{
    int64_t n = t->mean.n_untold;
    double scale = scale_of(t);
    float value;

    t->mean.n_untold = t->mean.n_all_untold = 0;
    if (!loss)
        return queue_loss(t, n, scale);
    GR_TRY(gr_step_read(t->step, "loss", (gr_vec){ &value, 1, GR_F32 }));
    *loss += (double)value;
    gr_mean_add(&t->mean.own, (double)value * scale, n);
    return GR_OK;
}

void gr_trainer_close_mean(gr_trainer *t)
{
    if (t->mean.queue) {
        gr_device *d = gr_step_device(t->step);

        d->ops->host_free(d, t->mean.queue);
    }
    t->mean.queue = NULL;
}

/* ---- the mean ---- */

bool gr_trainer_ends_epoch(const gr_trainer *t, int64_t step)
{
    return gr_trainer_place(t, step) % t->steps_per_epoch == 0;
}

static void judge_epoch(gr_trainer *t)
{
    gr_epoch_mean *m = &t->mean;

    if (!gr_trainer_ends_epoch(t, t->at) || isnan(m->value) || (m->has_best && m->value >= m->best))
        return;
    m->has_best = true;
    m->best = m->value;
    m->best_epoch = m->epoch + 1;
}

gr_status gr_trainer_share_mean(gr_trainer *t)
{
    gr_epoch_mean *m = &t->mean;
    gr_mean_sum all;
    int64_t sums[3];

    if (m->at == t->at)
        return GR_OK;
    GR_TRY(take_queue(t));
    all = m->own;
    if (gr_trainer_writes(t))
        gr_mean_join(&all, &m->before);
    sums[0] = all.whole;
    sums[1] = all.part;
    sums[2] = all.n;
    GR_TRY(gr_pg_allreduce(t->pg, (gr_vec){ sums, 3, GR_I64 }, GR_REDUCE_SUM));
    m->all = (gr_mean_sum){ 0 };
    gr_mean_join(&m->all, &(gr_mean_sum){ sums[0], sums[1], sums[2] });
    m->value = gr_plain_nan(gr_mean_of(&m->all));
    m->at = t->at;
    judge_epoch(t);
    return GR_OK;
}

gr_status gr_trainer_restore_mean(gr_trainer *t)
{
    const char *text = gr_snapshot_get(t->resumed, GR_KEY_MEAN); /* older ones have none */

    if (text)
        GR_TRY(gr_mean_parse(&t->mean, text));
    t->mean.at = t->at;
    return GR_OK;
}

void gr_trainer_add_mean(const gr_trainer *t, gr_track_record *r)
{
    if (t->mean.at == t->at && !isnan(t->mean.value))
        gr_track_f64(r, "train_loss", t->mean.value);
}

void gr_trainer_tell_epoch(gr_trainer *t, bool is_recorded)
{
    gr_track_record r;

    if (!gr_trainer_writes(t) || isnan(t->mean.value))
        return;
    gr_trainer_say(t, "epoch %" PRId64 "/%" PRId64 ": train loss %.4f", t->mean.epoch + 1,
                   t->o.epochs, t->mean.value);
    if (is_recorded)
        return;
    gr_track_begin(&r, t->at);
    gr_track_i64(&r, "epoch", t->mean.epoch + 1);
    gr_trainer_add_mean(t, &r);
    gr_track_submit(t->track, &r);
}

/* ---- words ---- */

static void add_best_score(const gr_trainer *t, gr_text *out)
{
    const gr_judge *j = &t->judge;
    bool is_share = j->metric >= 0 && t->view.metrics[j->metric].is_share;
    double last;

    if (!j->has_best || t->size[GR_SPLIT_VALID] < 1)
        return;
    last = j->metric >= 0 ? t->scores.values[j->metric] : t->scores.loss;
    gr_text_addf(out, "; %s last ", j->metric >= 0 ? j->name : "validation loss");
    gr_text_addf(out, is_share ? "%.2f%%" : "%.4g", gr_plain_nan(is_share ? 100 * last : last));
    gr_text_add(out, ", best ");
    gr_text_addf(out, is_share ? "%.2f%%" : "%.4g", is_share ? 100 * j->best : j->best);
    gr_text_addf(out, " at step %" PRId64, j->best_step);
}

void gr_trainer_say_best_and_last(gr_trainer *t)
{
    const gr_epoch_mean *m = &t->mean;
    gr_text text = GR_TEXT_INIT;

    if (isnan(m->value))
        return;
    gr_text_addf(&text, "Train loss of the last epoch %.4f", m->value);
    if (!gr_trainer_ends_epoch(t, t->at))
        gr_text_addf(&text, " (%" PRId64 " of its %" PRId64 " steps)",
                     gr_trainer_place(t, t->at) % t->steps_per_epoch, t->steps_per_epoch);
    if (m->has_best)
        gr_text_addf(&text, ", best %.4f in epoch %" PRId64, m->best, m->best_epoch);
    add_best_score(t, &text);
    gr_trainer_say(t, "%s.", gr_text_str(&text));
    gr_text_fini(&text);
}
