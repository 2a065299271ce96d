/*
 * State of a recipe's own, kept with checkpoints: what its data have made of the training data.
 * Tensors stand beside the step's, and texts beside the trainer's, with GR_SNAPSHOT_ASIDE before
 * their names.
 */
#include "train/trainer.h"

#include "base/outfile.h"
#include "comm/pg.h"

#include <inttypes.h>
#include <string.h>

static bool is_aside(const char *name)
{
    return strncmp(name, GR_SNAPSHOT_ASIDE, strlen(GR_SNAPSHOT_ASIDE)) == 0;
}

static size_t bytes_of(const gr_named *n)
{
    return (size_t)gr_shape_count(&n->shape) * gr_dtype_bytes(n->dtype);
}

/* To a place that may be there already, from the save before. */
static gr_status put_tensor(gr_snapshot *into, const char *name, const gr_named *from)
{
    const gr_named *there = gr_snapshot_find(into, name);
    void *mem = there ? there->mem : NULL;

    if (!there)
        GR_TRY(gr_snapshot_add(into, name, from->dtype, from->shape, &mem));
    memcpy(mem, from->mem, bytes_of(from));
    return GR_OK;
}

/* ---- out of a checkpoint ---- */

static gr_status take_out(const gr_snapshot *from, gr_snapshot *out)
{
    size_t n = strlen(GR_SNAPSHOT_ASIDE);

    for (int i = 0; i < gr_snapshot_count(from); i++) {
        const gr_named *tensor = gr_snapshot_at(from, i);

        if (is_aside(tensor->name))
            GR_TRY(put_tensor(out, tensor->name + n, tensor));
    }
    for (int i = 0; i < gr_snapshot_n_texts(from); i++) {
        const char *key, *text;

        gr_snapshot_text_at(from, i, &key, &text);
        if (is_aside(key))
            GR_TRY(gr_snapshot_set(out, key + n, text));
    }
    return GR_OK;
}

gr_status gr_trainer_find_state(const gr_trainer *t, gr_snapshot **out)
{
    gr_snapshot *state;
    gr_status st;

    *out = NULL;
    if (!t->resumed)
        return GR_OK;
    GR_TRY(gr_snapshot_create(&state));
    st = take_out(t->resumed, state);
    if (st != GR_OK || (gr_snapshot_count(state) == 0 && gr_snapshot_n_texts(state) == 0)) {
        gr_snapshot_destroy(state);
        return st;
    }
    *out = state;
    return GR_OK;
}

gr_status gr_trainer_copy_state_tensors(const gr_snapshot *from, gr_snapshot *to)
{
    for (int i = 0; i < gr_snapshot_count(from); i++)
        if (is_aside(gr_snapshot_at(from, i)->name))
            GR_TRY(put_tensor(to, gr_snapshot_at(from, i)->name, gr_snapshot_at(from, i)));
    return GR_OK;
}

/* ---- equal on all ranks ---- */

static void describe(const gr_snapshot *s, gr_text *out)
{
    char shape[GR_SHAPE_TEXT];

    for (int i = 0; i < gr_snapshot_count(s); i++) {
        const gr_named *n = gr_snapshot_at(s, i);

        gr_text_addf(out, "state %s = %s %s, checksum %08" PRIx32 "\n", n->name,
                     gr_dtype_name(n->dtype), gr_shape_text(&n->shape, shape, sizeof(shape)),
                     gr_crc32c(0, n->mem, bytes_of(n)));
    }
    for (int i = 0; i < gr_snapshot_n_texts(s); i++) {
        const char *key, *text;

        gr_snapshot_text_at(s, i, &key, &text);
        gr_text_addf(out, "state %s = %zu characters, checksum %08" PRIx32 "\n", key, strlen(text),
                     gr_crc32c(0, text, strlen(text)));
    }
}

static gr_status compare(gr_trainer *t)
{
    gr_text text = GR_TEXT_INIT;
    gr_status st;

    describe(t->kept, &text);
    st = gr_text_status(&text);
    if (st == GR_OK && t->n_ranks > 1) {
        st = gr_pg_compare(t->pg, gr_text_str(&text));
        t->told_all = st == GR_ERR_ARG;
    }
    gr_text_fini(&text);
    return st;
}

gr_status gr_trainer_keep_state(gr_trainer *t)
{
    if (!t->recipe->data->save || t->task != GR_TASK_TRAIN)
        return GR_OK;
    GR_TRY(gr_snapshot_create(&t->kept));
    GR_TRY(t->recipe->data->save(t->user, t->kept));
    return compare(t);
}

/* ---- into a checkpoint ---- */

gr_status gr_trainer_add_state(const gr_trainer *t, gr_snapshot *into)
{
    gr_text name = GR_TEXT_INIT;
    gr_status st = GR_OK;

    for (int i = 0; t->kept && i < gr_snapshot_count(t->kept) && st == GR_OK; i++) {
        const gr_named *n = gr_snapshot_at(t->kept, i);

        name.len = 0;
        gr_text_addf(&name, GR_SNAPSHOT_ASIDE "%s", n->name);
        st = gr_text_status(&name);
        if (st == GR_OK)
            st = put_tensor(into, name.str, n);
    }
    for (int i = 0; t->kept && i < gr_snapshot_n_texts(t->kept) && st == GR_OK; i++) {
        const char *key, *text;

        gr_snapshot_text_at(t->kept, i, &key, &text);
        name.len = 0;
        gr_text_addf(&name, GR_SNAPSHOT_ASIDE "%s", key);
        st = gr_text_status(&name);
        if (st == GR_OK)
            st = gr_snapshot_set(into, name.str, text);
    }
    gr_text_fini(&name);
    return st;
}
