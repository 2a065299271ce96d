/*
 * The model of another checkpoint, for a recipe that judges its own results by it. It is of
 * whatever recipe it says, which opens no data (GR_TASK_MODEL), and has a step of its own: each
 * rank reads the file and runs it alone.
 */
#include "train/trainer.h"

#include "base/alloc.h"
#include "comm/pg.h"
#include "comm/solo.h"
#include "train/checkpoint.h"
#include "train/config/settings.h"
#include "train/runner.h"

#include <math.h>
#include <string.h>

static gr_status find_recipe(gr_trainer *o)
{
    const char *name = gr_snapshot_get(o->resumed, GR_KEY_RECIPE);

    if (!name)
        return gr_fail(GR_ERR_FORMAT,
                       "the file does not say of which recipe it is (it has no "
                       "entry '%s')",
                       GR_KEY_RECIPE);
    for (int i = 0; o->command->recipes[i] && !o->recipe; i++)
        if (strcmp(o->command->recipes[i]->name, name) == 0)
            o->recipe = o->command->recipes[i];
    return o->recipe ? GR_OK : gr_fail(GR_ERR_ARG, "there is no recipe '%s'", name);
}

/* What concerns the machine is as in this run; what concerns training does not matter. */
static void take_machine(gr_trainer *o, const gr_trainer *t)
{
    o->o.device = t->o.device;
    o->o.threads = t->o.threads;
    o->o.zero = 0;
    o->o.accumulate = 1;
    o->o.sync_bn = false;
    o->o.check_every = 0;
    o->o.loss_reduction = 0;
    o->o.recompute = 0;
    o->o.memory_limit = 0;
    o->o.dump_after = NULL;
}

/* With what the checkpoint keeps for the recipe. */
static gr_status open_user(gr_trainer *o, gr_recipe_config *config)
{
    gr_snapshot *state = NULL;
    gr_status st;

    GR_TRY(gr_trainer_find_state(o, &state));
    config->state = state;
    st = gr_wrap(o->recipe->data->open(&o->user, config), "recipe '%s'", o->recipe->name);
    gr_snapshot_destroy(state);
    return st;
}

static gr_status open_model(gr_trainer *o)
{
    gr_recipe_config rc = { .task = GR_TASK_MODEL,
                            .seed = (uint64_t)o->o.seed,
                            .settings = o->o.settings };

    GR_TRY(open_user(o, &rc));
    GR_TRY(gr_trainer_describe(o));
    GR_TRY(gr_trainer_create_step(o));
    GR_TRY(gr_trainer_plan_small(o));
    GR_TRY(gr_trainer_restore_model(o));
    return o->o.ema_decay > 0 ? gr_step_use_ema(o->step, true) : GR_OK;
}

static gr_status open(gr_trainer *o, const gr_trainer *t, const char *path)
{
    gr_pg_config config = GR_PG_CONFIG_INIT;

    GR_TRY(gr_arena_create(&o->arena));
    GR_TRY(gr_solo_create(&o->pg, &config));
    GR_TRY(gr_trainer_choose_model(o, path));
    GR_TRY(gr_trainer_read(o));
    GR_TRY(find_recipe(o));
    GR_TRY(gr_train_options_init(&o->o, o->recipe));
    o->o.settings->recipes = o->command->recipes;
    GR_TRY(gr_trainer_take_settings(o));
    take_machine(o, t);
    return open_model(o);
}

gr_status gr_trainer_open_other(const gr_trainer *t, const char *path, gr_trainer **out)
{
    static char *none[] = { NULL };
    gr_trainer *o = gr_calloc(1, sizeof(*o));
    gr_status st;

    if (!o)
        return GR_ERR_NOMEM;
    *o = (gr_trainer){ .command = t->command,
                       .task = GR_TASK_PREDICT,
                       .argv = none,
                       .n_ranks = 1,
                       .saved_at = -1,
                       .lock = -1,
                       .is_quiet = true,
                       .loss = (double)NAN,
                       .mean = GR_EPOCH_MEAN_INIT,
                       .notes = GR_TEXT_INIT };
    st = open(o, t, path);
    if (st != GR_OK) {
        gr_trainer_close_other(o);
        return st;
    }
    *out = o;
    return GR_OK;
}

void gr_trainer_close_other(gr_trainer *o)
{
    gr_snapshot_destroy(o->resumed);
    gr_text_fini(&o->notes);
    gr_step_destroy(o->step);
    if (o->user)
        o->recipe->data->close(o->user);
    gr_pg_destroy(o->pg);
    if (o->recipe)
        gr_train_options_fini(&o->o);
    gr_arena_destroy(o->arena);
    gr_free(o);
}
