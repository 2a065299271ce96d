/*
 * Making a checkpoint of a trainable_only run whole. Its frozen weights are where the run had
 * them from: in the file that it began with, and for the rest drawn from its seed. How they are
 * drawn, and which of the file's tensors fit, only the model knows; so the step is made as the
 * run made it, from the recorded settings, and its whole state is read back.
 */
#include "train/export.h"

#include "train/checkpoint.h"
#include "train/rate.h"

#include <string.h>

static gr_status restore(gr_trainer *t)
{
    GR_TRY(gr_trainer_open_data(t));
    GR_TRY(gr_trainer_create_step(t));
    GR_TRY(gr_trainer_plan_small(t));
    GR_TRY(gr_trainer_take_pretrained(t));
    return gr_trainer_restore_state(t);
}

static gr_status read_whole(gr_trainer *t, const char *path, gr_snapshot *out)
{
    t->source.file = path;
    GR_TRY(gr_trainer_load(t));
    GR_TRY(gr_rate_batch(&t->o, t->n_ranks));
    GR_TRY(restore(t));
    GR_TRY(gr_step_save_into(t->step, out, GR_SAVE_ALL));
    return gr_trainer_add_state(t, out);
}

static gr_status copy_texts(const gr_snapshot *from, gr_snapshot *to)
{
    for (int i = 0; i < gr_snapshot_n_texts(from); i++) {
        const char *key, *text;

        gr_snapshot_text_at(from, i, &key, &text);
        if (strncmp(key, "train.", 6) == 0)
            GR_TRY(gr_snapshot_set(to, key, text));
    }
    return GR_OK;
}

/* The recorded file is named in the reason, as often as it is missing. */
static gr_status refuse(gr_status st, int n_absent)
{
    gr_error why;

    gr_error_take(&why, st);
    if (st == GR_ERR_NOMEM)
        return gr_error_raise(&why);
    return gr_fail(st,
                   "%d frozen tensors are not in the checkpoint (the run had trainable_only), and "
                   "the model cannot be made again from its settings to get them: %s; put right "
                   "what is missing, name the file that the run began with by --pretrained FILE, "
                   "or export --trainable_only, without them",
                   n_absent, why.text);
}

gr_status gr_export_complete(const gr_complete *c, const gr_snapshot *snap, gr_snapshot **out)
{
    char device[] = "--device", cpu[] = "cpu", pretrained[] = "--pretrained";
    char *words[] = { (char *)(uintptr_t)gr_snapshot_get(snap, GR_KEY_RECIPE), device, cpu,
                      pretrained, (char *)(uintptr_t)c->pretrained };
    gr_command command = *c->command;
    gr_trainer t = { 0 };
    gr_snapshot *whole = NULL;
    gr_status st;

    if (!words[0])
        return refuse(gr_fail(GR_ERR_FORMAT, "it does not tell its recipe"), c->n_absent);
    command.argc = c->pretrained ? 5 : 3;
    command.argv = words;
    GR_TRY(gr_snapshot_create(&whole));
    st = gr_trainer_begin(&t, &command, GR_TASK_TRAIN);
    if (st == GR_OK)
        st = read_whole(&t, c->path, whole);
    st = gr_trainer_end(&t, st);
    if (st == GR_OK)
        st = copy_texts(snap, whole);
    if (st != GR_OK) {
        gr_snapshot_destroy(whole);
        return refuse(st, c->n_absent);
    }
    *out = whole;
    return GR_OK;
}
