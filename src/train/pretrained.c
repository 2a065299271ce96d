/*
 * Beginning with weights from elsewhere: --pretrained FILE. Rank 0 reads the file, of any
 * making that src/ckpt reads, and puts what fits into the step; the others get the state
 * through the group. What was taken, what was missing, what did not fit and what nobody
 * asked for is said.
 */
#include "train/pretrained.h"

#include "base/half.h"
#include "base/log.h"
#include "gradus/ckpt.h"
#include "optim/optim.h"
#include "train/checkpoint.h"
#include "train/foreign.h"

#include <string.h>

#define N_SHOWN 5 /* names in the report */

/* ---- names ---- */

static bool begins(const char *name, const char *head)
{
    return strncmp(name, head, strlen(head)) == 0;
}

/* "from=to,from=to": the first whose `from` a name begins with; NULL: none. */
static const char *rule_of(const char *name, const char *map)
{
    while (map && *map) {
        size_t n = strcspn(map, ","), from = strcspn(map, "=");

        if (from < n && strncmp(name, map, from) == 0)
            return map;
        map += n + (map[n] == ',');
    }
    return NULL;
}

/* Appends the name with its beginning replaced. */
static void map_name(const char *name, const char *map, gr_text *out)
{
    const char *rule = rule_of(name, map);

    if (rule) {
        size_t n = strcspn(rule, ","), from = strcspn(rule, "=");

        gr_text_addn(out, rule + from + 1, n - from - 1);
        name += from;
    }
    gr_text_add(out, name);
}

static gr_status check_map(const char *map)
{
    while (map && *map) {
        size_t n = strcspn(map, ",");

        if (strcspn(map, "=") >= n)
            return gr_fail(GR_ERR_ARG,
                           "--pretrained_map: '%.*s' is not FROM=TO, which replaces the beginning "
                           "FROM of a name by TO; several have ',' between them",
                           (int)n, map);
        map += n + (map[n] == ',');
    }
    return GR_OK;
}

/* ---- values ---- */

static float to_f32(const void *mem, gr_dtype t, int64_t i)
{
    if (t == GR_F64)
        return (float)((const double *)mem)[i];
    if (t == GR_BF16)
        return gr_bf16_to_f32(((const uint16_t *)mem)[i]);
    return t == GR_F16 ? gr_f16_to_f32(((const uint16_t *)mem)[i]) : ((const float *)mem)[i];
}

/* But for dimensions of 1: a convolution of 1 x 1 is a linear layer, a table may be a batch of one.
 */
static gr_shape squeezed(const gr_shape *s)
{
    gr_shape out = { 0 };

    for (int i = 0; i < s->n_dims; i++)
        if (s->dim[i] != 1)
            out.dim[out.n_dims++] = s->dim[i];
    return out;
}

/* A floating type becomes f32; others must be the same. */
static bool fits(const gr_named *from, const gr_named *to)
{
    gr_shape a = squeezed(&from->shape), b = squeezed(&to->shape);

    return gr_shape_equal(&a, &b) &&
           (from->dtype == to->dtype || (gr_dtype_is_float(from->dtype) && to->dtype == GR_F32));
}

static void copy_values(const gr_named *from, const gr_named *to)
{
    int64_t n = gr_shape_count(&to->shape);

    if (from->dtype == to->dtype)
        memcpy(to->mem, from->mem, (size_t)n * gr_dtype_bytes(to->dtype));
    else
        for (int64_t i = 0; i < n; i++)
            ((float *)to->mem)[i] = to_f32(from->mem, from->dtype, i);
}

/* ---- the report ---- */

static void add_name(gr_text *list, int *n, const char *name)
{
    if (*n < N_SHOWN)
        gr_text_addf(list, "%s%s", *n ? ", " : "", name);
    else if (*n == N_SHOWN)
        gr_text_add(list, ", ...");
    ++*n;
}

static void add_misfit(gr_pretrained *p, const gr_named *from, const gr_named *to)
{
    char a[GR_SHAPE_TEXT], b[GR_SHAPE_TEXT];
    gr_text one = GR_TEXT_INIT;

    gr_text_addf(&one, "%s (%s %s, here %s %s)", to->name, gr_dtype_name(from->dtype),
                 gr_shape_text(&from->shape, a, sizeof(a)), gr_dtype_name(to->dtype),
                 gr_shape_text(&to->shape, b, sizeof(b)));
    add_name(&p->misfits, &p->n_misfits, gr_text_str(&one));
    gr_text_fini(&one);
}

void gr_pretrained_fini(gr_pretrained *p)
{
    gr_text_fini(&p->missing);
    gr_text_fini(&p->misfits);
    gr_text_fini(&p->unexpected);
    gr_text_fini(&p->idle);
}

/* ---- matching ---- */

/* Of the state, what a file of weights can hold. */
static bool is_model(const gr_named *t)
{
    return !begins(t->name, "optimizer.") && !begins(t->name, GR_VAR_EMA) &&
           !begins(t->name, GR_SNAPSHOT_ASIDE);
}

/* Averages begin as the parameter does. */
static gr_status copy_average(const gr_snapshot *state, const gr_named *to)
{
    gr_text name = GR_TEXT_INIT;
    const gr_named *average;
    gr_status st;

    gr_text_addf(&name, GR_VAR_EMA "%s", to->name);
    st = gr_text_status(&name);
    average = st == GR_OK ? gr_snapshot_find(state, gr_text_str(&name)) : NULL;
    if (average && fits(to, average))
        copy_values(to, average);
    gr_text_fini(&name);
    return st;
}

/* The model's tensors under the names that they have here. */
static gr_status rename_all(const gr_snapshot *model, const char *map, gr_snapshot *out)
{
    gr_text name = GR_TEXT_INIT;
    gr_status st = GR_OK;

    for (int i = 0; i < gr_snapshot_count(model) && st == GR_OK; i++) {
        const gr_named *t = gr_snapshot_at(model, i);
        void *mem;

        if (!is_model(t))
            continue;
        name.len = 0;
        map_name(t->name, map, &name);
        GR_TRY_GOTO(st, gr_text_status(&name), done);
        GR_TRY_GOTO(st, gr_snapshot_add(out, gr_text_str(&name), t->dtype, t->shape, &mem), done);
        memcpy(mem, t->mem, (size_t)gr_shape_count(&t->shape) * gr_dtype_bytes(t->dtype));
    }

done:
    gr_text_fini(&name);
    return st;
}

/* Rules that changed nothing: mostly slips, or a file of another making. */
static gr_status find_idle(gr_pretrained *p, const gr_snapshot *model, const char *map)
{
    gr_status st = GR_OK;

    while (map && *map && st == GR_OK) {
        size_t n = strcspn(map, ",");
        gr_text rule = GR_TEXT_INIT;
        bool is_used = false;

        gr_text_addn(&rule, map, n);
        for (int i = 0; i < gr_snapshot_count(model) && !is_used; i++) {
            const gr_named *t = gr_snapshot_at(model, i);

            is_used = is_model(t) && rule_of(t->name, gr_text_str(&rule));
        }
        st = gr_text_status(&rule);
        if (!is_used)
            add_name(&p->idle, &p->n_idle, gr_text_str(&rule));
        gr_text_fini(&rule);
        map += n + (map[n] == ',');
    }
    return st;
}

static gr_status match(gr_pretrained *p, const gr_snapshot *from, const gr_snapshot *state)
{
    for (int i = 0; i < gr_snapshot_count(state); i++) {
        const gr_named *to = gr_snapshot_at(state, i);
        const gr_named *t = gr_snapshot_find(from, to->name);

        if (!is_model(to))
            continue;
        p->n_wanted++;
        if (!t) {
            add_name(&p->missing, &p->n_missing, to->name);
        } else if (!fits(t, to)) {
            add_misfit(p, t, to);
        } else {
            copy_values(t, to);
            GR_TRY(copy_average(state, to));
            p->n_taken++;
        }
    }
    for (int i = 0; i < gr_snapshot_count(from); i++)
        if (!gr_snapshot_find(state, gr_snapshot_at(from, i)->name))
            add_name(&p->unexpected, &p->n_unexpected, gr_snapshot_at(from, i)->name);
    return GR_OK;
}

gr_status gr_pretrained_apply(gr_pretrained *p, const gr_snapshot *file, const char *map,
                              const gr_snapshot *state)
{
    gr_snapshot *model = NULL, *renamed = NULL;
    gr_status st;

    *p = (gr_pretrained){ .missing = GR_TEXT_INIT, .misfits = GR_TEXT_INIT, .idle = GR_TEXT_INIT };
    GR_TRY_GOTO(st, check_map(map), done);
    GR_TRY_GOTO(st, gr_ckpt_strip(file, NULL, &model), done);
    GR_TRY_GOTO(st, gr_snapshot_create(&renamed), done);
    GR_TRY_GOTO(st, rename_all(model, map, renamed), done);
    GR_TRY_GOTO(st, find_idle(p, model, map), done);
    GR_TRY_GOTO(st, match(p, renamed, state), done);
    if (p->n_taken == 0)
        st = gr_fail(GR_ERR_ARG,
                     "none of its %d tensors has a name and shape of this model; it has %s, and "
                     "'%s' was expected; --pretrained_map FROM=TO replaces beginnings of names",
                     gr_snapshot_count(renamed), gr_text_str(&p->unexpected),
                     gr_text_str(&p->missing));

done:
    gr_snapshot_destroy(renamed);
    gr_snapshot_destroy(model);
    return st;
}

/* ---- in a run ---- */

static void report(gr_trainer *t, const gr_pretrained *p)
{
    gr_trainer_note(t, "  Pretrained: %d of %d tensors from %s", p->n_taken, p->n_wanted,
                    t->o.pretrained);
    if (p->n_missing > 0)
        gr_trainer_note(t, "    not in the file, so as drawn (%d): %s", p->n_missing,
                        gr_text_str(&p->missing));
    if (p->n_misfits > 0)
        gr_trainer_note(t, "    of another shape or type, so as drawn (%d): %s", p->n_misfits,
                        gr_text_str(&p->misfits));
    if (p->n_idle > 0)
        gr_trainer_note(t, "    of --pretrained_map, no name in the file begins so (%d): %s",
                        p->n_idle, gr_text_str(&p->idle));
    if (p->n_unexpected > 0)
        gr_trainer_note(t, "    in the file and not in the model (%d): %s", p->n_unexpected,
                        gr_text_str(&p->unexpected));
}

/* A file in a layout that the recipe knows has the model's names after that. */
static gr_status apply(gr_trainer *t, gr_pretrained *p, const gr_snapshot *file, const char *map,
                       const gr_snapshot *state)
{
    gr_snapshot *own;
    gr_status st;

    GR_TRY(gr_foreign_read(t->recipe, file, &own));
    st = gr_pretrained_apply(p, own ? own : file, map, state);
    gr_snapshot_destroy(own);
    return st;
}

/* Rank 0. */
static gr_status take_file(gr_trainer *t, const gr_snapshot *state)
{
    gr_snapshot *file = NULL;
    gr_pretrained p = { 0 };
    gr_status st;

    GR_TRY_GOTO(st, gr_ckpt_read(t->o.pretrained, &file), done);
    st = gr_wrap(apply(t, &p, file, t->o.pretrained_map, state), "'%s'", t->o.pretrained);
    if (st == GR_OK)
        report(t, &p);

done:
    gr_pretrained_fini(&p);
    gr_snapshot_destroy(file);
    return st;
}

/* A checkpoint that holds everything needs no weights beside it. */
static bool is_complete(const gr_snapshot *resumed)
{
    const char *part = resumed ? gr_snapshot_get(resumed, GR_KEY_PART) : "";

    return part && strcmp(part, "all") == 0;
}

/* Rank 0 puts weights into a copy of the state, and all take it. */
static gr_status take(gr_trainer *t, gr_status (*fill)(gr_trainer *, const gr_snapshot *))
{
    bool takes_part = gr_trainer_writes(t) || t->o.zero > 0; /* of state cut up, all do */
    gr_snapshot *state = NULL;
    gr_status st = GR_OK;

    if (takes_part)
        st = gr_step_save(t->step, &state);
    if (st == GR_OK && gr_trainer_writes(t))
        st = fill(t, state);
    if (st == GR_OK && takes_part)
        st = gr_step_restore(t->step, state);
    if (st == GR_OK)
        st = gr_step_broadcast(t->step, 0);
    gr_snapshot_destroy(state);
    return st;
}

gr_status gr_trainer_take_pretrained(gr_trainer *t)
{
    if (!t->o.pretrained || !*t->o.pretrained || is_complete(t->resumed))
        return GR_OK;
    return gr_wrap(take(t, take_file), "pretrained");
}

/* Rank 0. Names of our own files are the model's; those of others may need the map. */
static gr_status take_whole(gr_trainer *t, const gr_snapshot *state)
{
    bool is_own = gr_snapshot_get(t->resumed, GR_KEY_CONFIG) != NULL;
    gr_pretrained p = { 0 };
    gr_status st = apply(t, &p, t->resumed, is_own ? NULL : t->o.pretrained_map, state);

    if (st == GR_OK && p.n_taken < p.n_wanted)
        st = gr_fail(GR_ERR_ARG,
                     "it gives %d of the model's %d tensors; missing (%d): %s; of another shape or "
                     "type (%d): %s; use the run's checkpoint, or a file with all weights",
                     p.n_taken, p.n_wanted, p.n_missing, gr_text_str(&p.missing), p.n_misfits,
                     gr_text_str(&p.misfits));
    gr_pretrained_fini(&p);
    return gr_wrap(st, "'%s'", t->resumed_from);
}

gr_status gr_trainer_take_weights(gr_trainer *t)
{
    gr_status st = take(t, take_whole);

    gr_snapshot_destroy(t->resumed);
    t->resumed = NULL;
    return st;
}
