/*
 * From settings to the typed struct: where values come from, what fits together, and what a
 * resumed run takes over.
 *
 * Slots of the table come first and in its order, so row i has slot i; the recipe's follow.
 */
#include "train/options.h"

#include "optim/optim.h"
#include "train/config/saved.h"
#include "train/config/table.h"
#include "train/own.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- the struct ---- */

static gr_status join_list(gr_settings *s, const gr_row *r, const gr_setting *v, const char **out)
{
    const char *mark = strcmp(r->flag, "no_decay") == 0 ? "|" : ",";
    gr_text t = GR_TEXT_INIT;
    gr_status st;

    *out = NULL;
    for (int i = 0; i < v->n; i++) {
        gr_text_add(&t, i ? mark : "");
        if (r->key.kind == GR_KEY_INTS)
            gr_text_addf(&t, "%" PRId64, v->ints[i]);
        else
            gr_text_add(&t, v->texts[i]);
    }
    st = gr_text_status(&t);
    if (st == GR_OK && v->n > 0) {
        *out = gr_arena_strdup(s->arena, gr_text_str(&t));
        st = *out ? GR_OK : GR_ERR_NOMEM;
    }
    gr_text_fini(&t);
    return st;
}

static gr_status fill_text(gr_settings *s, const gr_row *r, const gr_setting *v, const char **out)
{
    *out = v->n ? v->texts[0] : NULL;
    if (!*out || **out)
        return GR_OK;
    *out = NULL;
    if (r->use & GR_USE_EMPTY)
        return GR_OK;
    return gr_settings_fail(s, r->key.name, "is empty; give %s, or leave it out",
                            r->arg && strcmp(r->arg, "FOLDER") == 0 ? "the name of a folder"
                                                                    : "a value");
}

static gr_status fill_field(gr_train_options *o, const gr_row *r, const gr_setting *v)
{
    void *field = (char *)o + r->offset;

    switch ((int)r->key.kind) {
    case GR_KEY_INT:
    case GR_KEY_BYTES: *(int64_t *)field = v->n ? v->ints[0] : 0; return GR_OK;
    case GR_KEY_F64: *(double *)field = v->n ? v->f64s[0] : 0; return GR_OK;
    case GR_KEY_BOOL: *(bool *)field = v->n && v->ints[0]; return GR_OK;
    case GR_KEY_CHOICE: *(int *)field = v->n ? (int)v->ints[0] : 0; return GR_OK;
    case GR_KEY_TEXT: return fill_text(o->settings, r, v, field);
    case GR_KEY_SPAN:
        *(gr_span *)field =
            v->n ? (gr_span){ .n = v->ints[0], .epochs = v->ints[1] } : (gr_span){ 0 };
        return GR_OK;
    default: return join_list(o->settings, r, v, field);
    }
}

/* ---- what fits together ---- */

static bool given(const gr_train_options *o, const char *key)
{
    return gr_settings_slot(o->settings, key)->origin.kind > GR_FROM_SAVED;
}

static gr_status finish_betas(gr_train_options *o)
{
    static const char key[] = "train.optimizer.betas";
    const gr_setting *v = &gr_settings_slot(o->settings, key)->value;

    if (v->n == 0)
        return GR_OK;
    if (v->n != 2)
        return gr_settings_fail(o->settings, key, "has %d numbers and needs two, beta1 and beta2",
                                v->n);
    if (given(o, "train.optimizer.beta1") || given(o, "train.optimizer.beta2"))
        return gr_settings_fail(o->settings, key, "stands beside beta1 or beta2; give one of them");
    o->beta1 = v->f64s[0];
    o->beta2 = v->f64s[1];
    return GR_OK;
}

static gr_status finish_warmup(gr_train_options *o)
{
    static const char key[] = "train.lr_scheduler.warmup_epochs";
    bool steps = given(o, "train.lr_scheduler.warmup_steps");

    if (given(o, key) && o->warmup_epochs > 0 && steps)
        return gr_settings_fail(o->settings, key, "stands beside warmup_steps; give one of them");
    if (steps)
        o->warmup_epochs = 0; /* that of the checkpoint */
    return GR_OK;
}

static gr_status finish_map(const gr_train_options *o)
{
    static const char key[] = "model.pretrained_map";
    const gr_setting *v = &gr_settings_slot(o->settings, key)->value;

    for (int i = 0; i < v->n; i++)
        if (!strchr(v->texts[i], '='))
            return gr_settings_fail(o->settings, key,
                                    "'%s' has no '=': write old prefix=new prefix", v->texts[i]);
    return GR_OK;
}

static gr_status finish_budget(const gr_train_options *o)
{
    static const char key[] = "dataloader.token_budget";

    if (o->token_budget > 0 && o->sampler != GR_ORDER_BUCKETED)
        return gr_settings_fail(o->settings, key, "is for the sampler 'bucketed' only");
    return GR_OK;
}

static gr_status finish_recompute(const gr_train_options *o)
{
    if (o->recompute == GR_RECOMPUTE_LIMIT && o->memory_limit == 0)
        return gr_settings_fail(o->settings, "train.recompute",
                                "'limit' needs memory_limit, what a step may take: 20GiB");
    return GR_OK;
}

static void finish_stopping(gr_train_options *o)
{
    const gr_setting *v = &gr_settings_slot(o->settings, "train.early_stopping.enabled")->value;

    if (v->n && !v->ints[0])
        o->patience = 0;
    else if (v->n && o->patience == 0)
        o->patience = 10;
}

static gr_status fill(gr_train_options *o)
{
    gr_settings *s = o->settings;
    gr_optim optim;

    GR_TRY(gr_settings_settle(s));
    for (int i = 0; i < gr_n_rows; i++)
        if (gr_rows[i].offset != GR_NO_FIELD)
            GR_TRY(fill_field(o, &gr_rows[i], &s->slots[i].value));
    o->ddp_given = given(o, "ddp.enabled");
    if (o->best_by && strcmp(o->best_by, "main_metric") == 0)
        o->best_by = NULL;
    finish_stopping(o);
    GR_TRY(finish_betas(o));
    GR_TRY(finish_warmup(o));
    GR_TRY(finish_map(o));
    GR_TRY(finish_budget(o));
    GR_TRY(finish_recompute(o));
    optim = gr_train_options_optim(o);
    return gr_optim_check(&optim);
}

gr_optim gr_train_options_optim(const gr_train_options *o)
{
    return (gr_optim){ .kind = (gr_optim_kind)o->optimizer,
                       .momentum = o->momentum,
                       .beta1 = o->beta1,
                       .beta2 = o->beta2,
                       .eps = o->eps,
                       .weight_decay = o->weight_decay,
                       .nesterov = o->nesterov,
                       .decay_all = o->decay_all };
}

/* ---- defaults ---- */

/* How often: a row like valid.interval. */
static gr_status add_action(gr_settings *s, const gr_action *a)
{
    gr_key *key = gr_arena_new(s->arena, gr_key);

    if (!key)
        return GR_ERR_NOMEM;
    *key = (gr_key){
        .name = a->key, .kind = (gr_key_kind)GR_KEY_SPAN, .preset = a->every, .help = a->help
    };
    return gr_settings_add(s, key, NULL);
}

static gr_status add_slots(gr_settings *s, const gr_recipe *recipe)
{
    for (int i = 0; i < gr_n_rows; i++) {
        GR_TRY(gr_settings_add(s, &gr_rows[i].key, gr_rows[i].flag));
        s->slots[i].is_saved = gr_rows[i].use & GR_USE_SAVED;
        s->slots[i].reach = (gr_rows[i].use & GR_USE_WRITES ? GR_KEY_WRITES : 0) |
                            (gr_rows[i].use & GR_USE_AWAY ? GR_KEY_AWAY : 0);
    }
    for (int i = 0; recipe && i < recipe->n_keys; i++)
        GR_TRY(gr_wrap(gr_settings_add(s, &recipe->keys[i], NULL), "recipe '%s'", recipe->name));
    for (int i = 0; recipe && i < recipe->n_actions; i++)
        GR_TRY(gr_wrap(add_action(s, &recipe->actions[i]), "recipe '%s'", recipe->name));
    s->recipe = recipe;
    GR_TRY(gr_settings_link(s));
    return gr_settings_link_own(s);
}

gr_status gr_train_options_init(gr_train_options *o, const gr_recipe *recipe)
{
    gr_status st;

    *o = (gr_train_options){ 0 };
    GR_TRY(gr_settings_make(&o->settings, &gr_trainer_names));
    st = add_slots(o->settings, recipe);
    if (st == GR_OK && recipe)
        st = gr_settings_put_key(o->settings, "recipe", recipe->name, GR_FROM_FLAG);
    if (st == GR_OK)
        st = fill(o);
    if (st != GR_OK)
        gr_train_options_fini(o);
    return st;
}

gr_status gr_train_options_of_ranks(gr_train_options *o, int n_ranks)
{
    o->settings->n_ranks = n_ranks;
    return fill(o);
}

void gr_train_options_fini(gr_train_options *o)
{
    gr_settings_destroy(o->settings);
    *o = (gr_train_options){ 0 };
}

/* ---- environment, file, words ---- */

/* The first of the variables "A|B" that is set and not empty; NULL: none. */
static const char *find_env(gr_arena *a, const char *names, const char **name)
{
    while (names && *names) {
        size_t n = strcspn(names, "|");
        const char *word;

        *name = gr_arena_printf(a, "%.*s", (int)n, names);
        word = *name ? getenv(*name) : NULL;
        if (word && *word)
            return word;
        names += n + (names[n] == '|');
    }
    return NULL;
}

static gr_status put_env(gr_settings *s)
{
    for (int i = 0; i < gr_n_rows; i++) {
        gr_origin from = { .kind = GR_FROM_ENV };
        const char *word = find_env(s->arena, gr_rows[i].env, &from.name);

        if (word)
            GR_TRY(gr_settings_put_word(s, &(gr_way){ .slot = i }, word, &from));
    }
    return GR_OK;
}

gr_status gr_train_options_look(gr_train_options *o, int argc, char **argv, const gr_words *w)
{
    gr_settings *s = o->settings;
    const char *config;

    GR_TRY(gr_settings_take_words(s, argc, argv, w));
    GR_TRY(put_env(s));
    config = gr_settings_text(s, "config");
    s->is_foreign = config && gr_config_is_foreign(config);
    if (config)
        GR_TRY(gr_settings_read(s, config));
    return fill(o);
}

gr_status gr_train_options_parse(gr_train_options *o, int argc, char **argv)
{
    return gr_train_options_look(o, argc, argv, &(gr_words){ 0 });
}

void gr_train_options_origin(const gr_train_options *o, const char *name, gr_text *out)
{
    const gr_way *way = gr_settings_way(o->settings, name, strlen(name));

    GR_BUG_IF(!way);
    gr_origin_print(&o->settings->slots[way->slot].origin, out);
}

/* ---- resuming ---- */

static gr_status init_saved(gr_train_options *o, const gr_recipe *recipe, const gr_saved *saved,
                            const gr_settings *before)
{
    GR_TRY(gr_train_options_init(o, recipe));
    o->settings->task = before->task;
    o->settings->n_ranks = before->n_ranks;
    o->settings->recipes = before->recipes;
    o->settings->is_own = saved->is_own;
    GR_TRY(gr_settings_put_saved(o->settings, saved->lines));
    return fill(o);
}

gr_status gr_train_options_resume(gr_train_options *o, const gr_recipe *recipe,
                                  const gr_saved *saved, int argc, char **argv)
{
    gr_train_options was = { 0 }, now = { 0 };
    gr_status st;

    GR_TRY_GOTO(st, init_saved(&was, recipe, saved, o->settings), done);
    GR_TRY_GOTO(st, init_saved(&now, recipe, saved, o->settings), done);
    GR_TRY_GOTO(st, gr_train_options_parse(&now, argc, argv), done);
    if (saved->trains)
        GR_TRY_GOTO(st, gr_train_options_check_fixed(&was, &now), done);
    GR_TRY_GOTO(st, gr_train_options_check_away(&now, saved->lines), done);
    now.lr_before = was.lr;
    now.epochs_before = was.epochs;
    now.settings->before = o->settings;
    *o = now;
    now = (gr_train_options){ 0 };

done:
    gr_train_options_fini(&was);
    gr_train_options_fini(&now);
    return st;
}
