/*
 * The model out of a checkpoint of any making: trainers store it under a key of their own
 * beside optimiser and counters, and wrappers put their name before each parameter's.
 *
 * After reading, {"model": {"a": t}} and {"model.a": t} are alike, so "model" is taken for
 * a key only when what lies beside it is no model. Any thread.
 */
#include "gradus/ckpt.h"

#include "base/status.h"

#include <string.h>

/* Keys for the model, the surest first. */
static const char *const parts[] = { "model_state_dict.", "state_dict.", "model." };

/* What begins so, beside "model.", is state of the trainer. */
static const char *const trainer_words[] = { "optim",  "ema",    "lr_",       "sched",
                                             "scaler", "rng",    "random",    "cuda_",
                                             "torch_", "numpy_", "model_ema", "gradus" };

/* What DistributedDataParallel and torch.compile() put before each name. */
static const char *const wrappers[] = { "module.", "_orig_mod." };

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static bool begins(const char *name, const char *head)
{
    return strncmp(name, head, strlen(head)) == 0;
}

static bool is_trainer_state(const char *name)
{
    for (size_t i = 0; i < COUNT(trainer_words); i++)
        if (begins(name, trainer_words[i]))
            return true;
    return false;
}

/* Does any tensor lie in the part, and are all others the trainer's? */
static bool is_model_part(const gr_snapshot *s, const char *part)
{
    int n_inside = 0;

    for (int i = 0; i < gr_snapshot_count(s); i++) {
        const char *name = gr_snapshot_at(s, i)->name;

        if (begins(name, part))
            n_inside++;
        else if (!is_trainer_state(name))
            return false;
    }
    return n_inside > 0;
}

static const char *find_part(const gr_snapshot *s)
{
    for (size_t i = 0; i < COUNT(parts); i++)
        if (is_model_part(s, parts[i]))
            return parts[i];
    return "";
}

static const char *unwrapped(const char *name)
{
    for (size_t i = 0; i < COUNT(wrappers);)
        if (begins(name, wrappers[i])) {
            name += strlen(wrappers[i]);
            i = 0; /* one wrapper may lie in the other */
        } else {
            i++;
        }
    return name;
}

static gr_status copy_part(const gr_snapshot *s, const char *part, gr_snapshot *to)
{
    for (int i = 0; i < gr_snapshot_count(s); i++) {
        const gr_named *t = gr_snapshot_at(s, i);
        void *mem;

        if (!begins(t->name, part))
            continue;
        GR_TRY(gr_snapshot_add(to, unwrapped(t->name + strlen(part)), t->dtype, t->shape, &mem));
        memcpy(mem, t->mem, (size_t)gr_shape_count(&t->shape) * gr_dtype_bytes(t->dtype));
    }
    for (int i = 0; i < gr_snapshot_n_texts(s); i++) {
        const char *key, *text;

        gr_snapshot_text_at(s, i, &key, &text);
        if (begins(key, part))
            GR_TRY(gr_snapshot_set(to, unwrapped(key + strlen(part)), text));
    }
    return GR_OK;
}

gr_status gr_ckpt_strip(const gr_snapshot *snap, const char *part, gr_snapshot **out)
{
    gr_snapshot *s = NULL;
    gr_status st;

    if (!snap || !out)
        return gr_fail(GR_ERR_ARG, "the model of a checkpoint: snapshot or out is NULL");
    *out = NULL;
    part = part ? part : find_part(snap);
    GR_TRY_GOTO(st, gr_snapshot_create(&s), fail);
    GR_TRY_GOTO(st, copy_part(snap, part, s), fail);
    if (gr_snapshot_count(s) == 0) {
        st = gr_fail(GR_ERR_ARG, "no tensor begins with '%s'", part);
        goto fail;
    }
    *out = s;
    return GR_OK;

fail:
    gr_snapshot_destroy(s);
    return gr_wrap(st, "the model of a checkpoint");
}
