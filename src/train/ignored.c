/*
 * Settings that were given and act on nothing in this run: each gets a line of the banner, so
 * that nobody waits for what will not come. Values that a checkpoint or a default brought are
 * nobody's wish, and are passed over.
 */
#include "train/trainer.h"

#include "graph/vars.h"
#include "optim/optim.h"
#include "step/inspect.h"
#include "train/config/settings.h"

#include <inttypes.h>
#include <string.h>

static bool is_given(const gr_trainer *t, const char *key)
{
    return gr_settings_slot(t->o.settings, key)->origin.kind > GR_FROM_SAVED;
}

/* A line for `key` when it was given and `is_idle`. */
static void tell(gr_trainer *t, const char *key, bool is_idle, const char *why)
{
    gr_text from = GR_TEXT_INIT;

    if (!is_idle || !is_given(t, key))
        return;
    gr_origin_print(&gr_settings_slot(t->o.settings, key)->origin, &from);
    gr_trainer_note(t, "  Not used: %s: %s (%s)", key, why, gr_text_str(&from));
    gr_text_fini(&from);
}

static bool has_batch_norm(const gr_trainer *t)
{
    static const char name[] = "running_mean";
    const gr_vars *vars = gr_step_vars(t->step);

    for (int i = 0; i < vars->n; i++) {
        size_t n = strlen(vars->list[i]->name);

        if (n >= sizeof(name) - 1 &&
            strcmp(vars->list[i]->name + n - (sizeof(name) - 1), name) == 0)
            return true;
    }
    return false;
}

static void tell_batch(gr_trainer *t)
{
    const gr_setting *v = &gr_settings_slot(t->o.settings, "train.batch_size")->value;

    if (t->o.effective_batch > 0 && is_given(t, "train.batch_size") && v->n > 0 &&
        v->ints[0] != t->o.batch_size)
        gr_trainer_note(t,
                        "  Not used: train.batch_size %" PRId64 ": effective_batch %" PRId64
                        " makes it %" PRId64 "; leave one of them out",
                        v->ints[0], t->o.effective_batch, t->o.batch_size);
}

/* A key of the optimisers that this run does not use. The config.yaml of a run has all keys, so
 * one in a file says something only if it is not the default. */
static void tell_of_other(gr_trainer *t, const char *key, bool is_default, const char *why)
{
    bool in_file = gr_settings_slot(t->o.settings, key)->origin.kind == GR_FROM_FILE;

    tell(t, key, !in_file || !is_default, why);
}

static void tell_optimizer(gr_trainer *t, const gr_train_options *d)
{
    static const char of_adam[] = "it is for adam and adamw, and the optimiser is sgd";
    const gr_train_options *o = &t->o;

    if (o->optimizer != (int)GR_OPTIM_SGD) {
        tell_of_other(t, "train.optimizer.momentum", o->momentum == d->momentum,
                      o->optimizer == (int)GR_OPTIM_ADAM
                          ? "it is for sgd, and the optimiser is adam"
                          : "it is for sgd, and the optimiser is adamw");
        return;
    }
    tell_of_other(t, "train.optimizer.beta1", o->beta1 == d->beta1, of_adam);
    tell_of_other(t, "train.optimizer.beta2", o->beta2 == d->beta2, of_adam);
    tell_of_other(t, "train.optimizer.betas", o->beta1 == d->beta1 && o->beta2 == d->beta2,
                  of_adam);
    tell_of_other(t, "train.optimizer.eps", o->eps == d->eps, of_adam);
}

static void tell_update(gr_trainer *t)
{
    gr_train_options usual;

    if (gr_train_options_init(&usual, t->recipe) == GR_OK)
        tell_optimizer(t, &usual);
    gr_train_options_fini(&usual);
}

static void tell_stopping(gr_trainer *t)
{
    const gr_train_options *o = &t->o;
    bool has_valid = t->size[GR_SPLIT_VALID] > 0;

    tell(t, "train.early_stopping.patience",
         o->patience > 0 && (o->val_interval.n == 0 || !has_valid),
         has_valid ? "val_interval is 0, so nothing is evaluated before the end"
                   : "there are no samples to evaluate on");
    tell(t, "train.early_stopping.min_delta", o->min_delta > 0 && o->patience == 0,
         "patience is 0, so the run does not stop early");
}

static void tell_data(gr_trainer *t)
{
    if (t->o.n_train > t->size[GR_SPLIT_TRAIN] && is_given(t, "data.n_train"))
        gr_trainer_note(t, "  n_train is %" PRId64 ", and there are %" PRId64 " training samples",
                        t->o.n_train, t->size[GR_SPLIT_TRAIN]);
}

void gr_trainer_note_ignored(gr_trainer *t)
{
    const gr_train_options *o = &t->o;

    tell(t, "dataloader.drop_last", o->drop_last && o->sampler == GR_ORDER_BUCKETED,
         "batches of samples of like length leave none over");
    tell_batch(t);
    tell_update(t);
    tell_stopping(t);
    tell_data(t);
    tell(t, "train.lr_scheduler.milestones",
         o->lr_milestones && o->schedule != (int)GR_SCHEDULE_MULTISTEP,
         "they are for --lr_schedule multistep");
    tell(t, "model.pretrained_map", o->pretrained_map && !o->pretrained,
         "it renames what --pretrained reads, and that is not given");
    tell(t, "model.pretrained", o->pretrained && t->resumed_from && !o->trainable_only,
         "the run goes on with the weights of its checkpoint");
    tell(t, "train.init_scale", o->init_scale != 65536 && t->amp != GR_AMP_F16,
         "the loss is scaled with fp16 only (--amp fp16)");
    tell(t, "ddp.zero", o->zero > 0 && t->n_ranks == 1, "one rank has nobody to share with");
    tell(t, "ddp.sync_bn", o->sync_bn && (t->n_ranks == 1 || !has_batch_norm(t)),
         t->n_ranks == 1 ? "there is one rank" : "the model has no batch norm");
}
