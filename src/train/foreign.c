/*
 * Weights in the layout of another project's files: names are rewritten on the way in, and back on
 * the way out. What no rule takes is left out: optimisers, counters, parts that are not ours.
 */
#include "train/foreign.h"

#include "base/text.h"
#include "gradus/recipe.h"

#include <string.h>

static bool begins(const char *name, const char *head)
{
    return strncmp(name, head, strlen(head)) == 0;
}

/* What DistributedDataParallel and torch.compile() put before names. */
static const char *unwrapped(const char *name)
{
    static const char *const wrappers[] = { "module.", "_orig_mod." };

    for (int again = 1; again;) {
        again = 0;
        for (size_t i = 0; i < sizeof(wrappers) / sizeof(wrappers[0]); i++)
            if (begins(name, wrappers[i])) {
                name += strlen(wrappers[i]);
                again = 1;
            }
    }
    return name;
}

/* The rest of the name where the rule is for it; NULL: it is not. */
static const char *rest_of(const gr_foreign_rule *r, const char *name)
{
    if (r->key) {
        size_t n = strlen(r->key);

        if (strncmp(name, r->key, n) != 0 || name[n] != '.')
            return NULL;
        name += n + 1;
    }
    name = unwrapped(name);
    return begins(name, r->name) ? name + strlen(r->name) : NULL;
}

static const gr_foreign_rule *rule_for(const gr_foreign *f, const char *name, const char **rest)
{
    for (int i = 0; i < f->n_rules; i++)
        if ((*rest = rest_of(&f->rules[i], name)))
            return &f->rules[i];
    return NULL;
}

/* ---- reading ---- */

/* Every rule that takes something has the dictionary that it takes from. */
static bool applies(const gr_foreign *f, const gr_snapshot *file)
{
    bool takes_any = false;

    for (int i = 0; i < f->n_rules; i++) {
        const gr_foreign_rule *r = &f->rules[i];
        bool found = false;

        for (int k = 0; r->here && k < gr_snapshot_count(file) && !found; k++) {
            const char *name = gr_snapshot_at(file, k)->name;

            found = r->key ? begins(name, r->key) && name[strlen(r->key)] == '.'
                           : *r->name && rest_of(r, name);
        }
        if (r->here && r->key && !found)
            return false;
        takes_any = takes_any || found;
    }
    return takes_any;
}

static gr_status copy(gr_snapshot *out, const char *name, const gr_named *from, gr_shape shape)
{
    void *mem;

    GR_TRY(gr_snapshot_add(out, name, from->dtype, shape, &mem));
    memcpy(mem, from->mem, (size_t)gr_shape_count(&shape) * gr_dtype_bytes(from->dtype));
    return GR_OK;
}

static gr_status read_all(const gr_foreign *f, const gr_snapshot *file, gr_snapshot *out)
{
    gr_text name = GR_TEXT_INIT;
    gr_status st = GR_OK;

    for (int i = 0; i < gr_snapshot_count(file) && st == GR_OK; i++) {
        const gr_named *tensor = gr_snapshot_at(file, i);
        const char *rest = NULL;
        const gr_foreign_rule *r = rule_for(f, tensor->name, &rest);

        if (!r || !r->here)
            continue;
        name.len = 0;
        gr_text_addf(&name, "%s%s", r->here, rest);
        st = gr_text_status(&name);
        if (st == GR_OK)
            st = copy(out, name.str, tensor, tensor->shape);
    }
    gr_text_fini(&name);
    return gr_wrap(st, "layout '%s'", f->name);
}

gr_status gr_foreign_read(const gr_recipe *recipe, const gr_snapshot *file, gr_snapshot **out)
{
    gr_snapshot *own;
    gr_status st;

    *out = NULL;
    for (int i = 0; i < recipe->n_foreign; i++) {
        if (!applies(&recipe->foreign[i], file))
            continue;
        GR_TRY(gr_snapshot_create(&own));
        st = read_all(&recipe->foreign[i], file, own);
        if (st == GR_OK)
            *out = own;
        else
            gr_snapshot_destroy(own);
        return st;
    }
    return GR_OK;
}

/* ---- writing ---- */

/* By dictionaries, in the order of the rules: those of one stand together in the file. */
static bool is_same_key(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static const gr_foreign_rule *rule_back(const gr_foreign *f, const char *name)
{
    for (int i = 0; i < f->n_rules; i++)
        if (f->rules[i].here && begins(name, f->rules[i].here))
            return &f->rules[i];
    return NULL;
}

static gr_status write_one(const gr_foreign_rule *r, const gr_named *tensor, gr_snapshot *out)
{
    gr_shape shape = tensor->shape;
    gr_text name = GR_TEXT_INIT;
    gr_status st;

    for (int i = 0; i < r->ones && shape.n_dims < GR_MAX_DIMS; i++)
        shape.dim[shape.n_dims++] = 1;
    gr_text_addf(&name, "%s%s%s%s", r->key ? r->key : "", r->key ? GR_SNAPSHOT_INNER : "", r->name,
                 tensor->name + strlen(r->here));
    st = gr_text_status(&name);
    if (st == GR_OK)
        st = copy(out, name.str, tensor, shape);
    gr_text_fini(&name);
    return st;
}

static gr_status write_all(const gr_foreign *f, const gr_snapshot *model, gr_snapshot *out)
{
    for (int i = 0; i < gr_snapshot_count(model); i++)
        if (!rule_back(f, gr_snapshot_at(model, i)->name) &&
            !begins(gr_snapshot_at(model, i)->name, GR_SNAPSHOT_ASIDE))
            return gr_fail(GR_ERR_ARG, "layout '%s' has no place for '%s'", f->name,
                           gr_snapshot_at(model, i)->name);
    for (int k = 0; k < f->n_rules; k++) {
        bool was_before = false;

        for (int j = 0; j < k; j++)
            was_before =
                was_before || (f->rules[j].here && is_same_key(f->rules[j].key, f->rules[k].key));
        for (int i = 0; !was_before && f->rules[k].here && i < gr_snapshot_count(model); i++) {
            const gr_foreign_rule *r = rule_back(f, gr_snapshot_at(model, i)->name);

            if (r && is_same_key(r->key, f->rules[k].key))
                GR_TRY(write_one(r, gr_snapshot_at(model, i), out));
        }
    }
    return GR_OK;
}

gr_status gr_foreign_write(const gr_foreign *f, const gr_snapshot *model, gr_snapshot **out)
{
    gr_snapshot *theirs;
    gr_status st;

    GR_TRY(gr_snapshot_create(&theirs));
    st = write_all(f, model, theirs);
    if (st != GR_OK) {
        gr_snapshot_destroy(theirs);
        return st;
    }
    *out = theirs;
    return GR_OK;
}
