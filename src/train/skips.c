/*
 * How many samples did not load, on all ranks together (P42). A sample goes to another rank in
 * every epoch, so the ranks' own counts do not add up: their bits are put together.
 */
#include "train/trainer.h"

#include <inttypes.h>
#include <stdlib.h>

static int64_t count_bits(const gr_trainer *t, char *const *bits, size_t n_bytes)
{
    int64_t n = 0;

    for (size_t i = 0; i < n_bytes; i++) {
        unsigned any = 0;

        for (int r = 0; r < t->n_ranks; r++)
            any |= (unsigned char)bits[r][i];
        n += __builtin_popcount(any);
    }
    return n;
}

/* Collective. *grew: there are more than at the last call. */
static gr_status put_together(gr_trainer *t, gr_split split, bool *grew)
{
    gr_feed *f = &t->feeds[split];
    int64_t n_new = f->n_bad - f->n_bad_shared;
    size_t n_bytes = (size_t)(t->size[split] / 8) + 1;
    char **bits = NULL;

    *grew = false;
    if (!f->bad) /* on every rank alike: not opened, or such samples are errors */
        return GR_OK;
    GR_TRY(gr_pg_allreduce(t->pg, (gr_vec){ &n_new, 1, GR_I64 }, GR_REDUCE_SUM));
    if (n_new == 0)
        return GR_OK;
    GR_TRY(gr_pg_gather_bytes(t->pg, f->bad, n_bytes, &bits, NULL));
    f->n_bad_shared = f->n_bad;
    n_new = f->n_bad_all;
    f->n_bad_all = count_bits(t, bits, n_bytes);
    *grew = f->n_bad_all > n_new; /* else it had been met on another rank */
    free(bits);
    return GR_OK;
}

static void say(gr_trainer *t, gr_split split, const char *when)
{
    gr_trainer_say(t, "%" PRId64 " of %" PRId64 " %s samples did not load%s: %s.",
                   t->feeds[split].n_bad_all, t->size[split], gr_split_name(split), when,
                   split == GR_SPLIT_TRAIN ? "others took their place" : "left out");
}

gr_status gr_trainer_count_skips(gr_trainer *t, gr_split split)
{
    bool grew;

    GR_TRY(put_together(t, split, &grew));
    if (grew)
        say(t, split, split == GR_SPLIT_TRAIN ? " so far" : "");
    return GR_OK;
}

gr_status gr_trainer_sum_up_skips(gr_trainer *t)
{
    for (int split = 0; split < GR_N_SPLITS; split++) {
        bool grew;

        GR_TRY(put_together(t, (gr_split)split, &grew));
        if (t->feeds[split].n_bad_all > 0)
            say(t, (gr_split)split, "");
    }
    return GR_OK;
}
