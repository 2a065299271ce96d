/*
 * Listing a folder of checkpoints. A name counts only if it is exactly what the writer would
 * give, so that no file of the user's is ever taken, counted or removed.
 *
 * Epoch 3 and step 500 cannot be compared by their names: the order is that of the step in
 * each header, which only ever grows in a run.
 */
#include "ckpt/listing.h"

#include "base/alloc.h"
#include "base/text.h"
#include "gradus/ckpt.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_suffix(const char *s)
{
    return strcmp(s, ".safetensors") == 0 || strcmp(s, ".pt") == 0;
}

/* Takes `word` off the front of *name. */
static bool take_word(const char **name, const char *word)
{
    size_t n = strlen(word);

    if (strncmp(*name, word, n) != 0)
        return false;
    *name += n;
    return true;
}

/* Takes a number as the writer would spell it: no sign, no leading zeros. */
static bool take_number(const char **name, int64_t *out)
{
    char own[32];
    long long n;

    if ((*name)[0] < '0' || (*name)[0] > '9')
        return false;
    errno = 0;
    n = strtoll(*name, NULL, 10);
    if (errno != 0)
        return false;
    snprintf(own, sizeof(own), "%lld", n);
    *out = n;
    return take_word(name, own);
}

static bool parse_name(const char *file, gr_ckpt_entry *e)
{
    const char *rest = file;
    char base[GR_CKPT_NAME_BYTES];
    size_t len = strlen(file), n_aside = strlen(GR_CKPT_ASIDE);

    *e = (gr_ckpt_entry){ .step = -1 };
    if (len >= sizeof(base))
        return false;
    if (take_word(&rest, "last"))
        e->kind = GR_CKPT_IS_LAST;
    else if (take_word(&rest, "best_model"))
        e->kind = GR_CKPT_IS_BEST;
    else if ((take_word(&rest, "checkpoint_epoch_") || take_word(&rest, "checkpoint_step_")) &&
             take_number(&rest, &e->step))
        e->kind = GR_CKPT_IS_NUMBERED;
    else
        return false;
    snprintf(base, sizeof(base), "%s", rest);
    len = strlen(base);
    e->is_aside = len > n_aside && strcmp(base + len - n_aside, GR_CKPT_ASIDE) == 0;
    if (e->is_aside)
        base[len - n_aside] = '\0';
    snprintf(e->name, sizeof(e->name), "%s", file);
    return is_suffix(base);
}

/* What the header says wins over the name; a header that cannot be read is a damaged file. */
static gr_status find_step(const char *folder, gr_ckpt_entry *e)
{
    gr_text path = GR_TEXT_INIT;
    gr_snapshot *texts = NULL;
    const char *step;
    gr_status st;

    gr_text_addf(&path, "%s/%s", folder, e->name);
    GR_TRY_GOTO(st, gr_text_status(&path), done);
    st = gr_ckpt_peek(gr_text_str(&path), &texts);
    step = st == GR_OK ? gr_snapshot_get(texts, GR_CKPT_KEY_STEP) : NULL;
    if (step)
        e->step = strtoll(step, NULL, 10);
    else if (st == GR_ERR_FORMAT || st == GR_ERR_IO)
        e->step = -1;
    if (st == GR_ERR_FORMAT || st == GR_ERR_IO)
        st = GR_OK;

done:
    gr_snapshot_destroy(texts);
    gr_text_fini(&path);
    return st;
}

static gr_status add_entry(gr_ckpt_listing *l, const gr_ckpt_entry *e)
{
    void *items = l->entries;
    gr_status st = gr_grow(&items, &l->cap, l->n + 1, sizeof(*l->entries));

    l->entries = items;
    if (st == GR_OK)
        l->entries[l->n++] = *e;
    return st;
}

static gr_status list_open(gr_ckpt_listing *l, DIR *dir)
{
    for (;;) {
        struct dirent *d;
        gr_ckpt_entry e;

        errno = 0;
        d = readdir(dir);
        if (!d)
            return errno == 0 ? GR_OK : gr_fail(GR_ERR_IO, "cannot list it: %s", strerror(errno));
        if (parse_name(d->d_name, &e))
            GR_TRY(add_entry(l, &e));
    }
}

gr_status gr_ckpt_list(gr_ckpt_listing *l, const char *folder, bool with_steps)
{
    DIR *dir = opendir(folder);
    gr_status st;

    *l = (gr_ckpt_listing){ 0 };
    if (!dir)
        return gr_fail(GR_ERR_IO, "cannot open it: %s", strerror(errno));
    st = list_open(l, dir);
    closedir(dir);
    for (int i = 0; i < l->n && st == GR_OK && with_steps; i++)
        if (!l->entries[i].is_aside)
            st = find_step(folder, &l->entries[i]);
    return st;
}

void gr_ckpt_listing_fini(gr_ckpt_listing *l)
{
    gr_free(l->entries);
    *l = (gr_ckpt_listing){ 0 };
}

static int in_order(const void *a, const void *b)
{
    const gr_ckpt_entry *x = a, *y = b;
    bool x_last = x->kind == GR_CKPT_IS_LAST, y_last = y->kind == GR_CKPT_IS_LAST;

    if (x_last != y_last)
        return x_last ? -1 : 1;
    if (x->step != y->step) {
        if (x->step < 0 || y->step < 0)
            return x->step < 0 ? -1 : 1;
        return x->step > y->step ? -1 : 1;
    }
    if (x->kind != y->kind)
        return x->kind == GR_CKPT_IS_BEST ? 1 : -1;
    return strcmp(y->name, x->name); /* .safetensors, which has one checksum, before .pt */
}

void gr_ckpt_listing_sort(gr_ckpt_listing *l)
{
    if (l->n > 0)
        qsort(l->entries, (size_t)l->n, sizeof(*l->entries), in_order);
}
