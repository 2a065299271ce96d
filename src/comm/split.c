/* Sub-groups: who belongs together; and what a group says about itself. */
#include "base/alloc.h"
#include "comm/pg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct wish {
    int32_t color, key, rank;
} wish;

static int by_key(const void *a, const void *b)
{
    const wish *x = (const wish *)a, *y = (const wish *)b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* The ranks of this rank's colour in their new order; n 0 for a negative colour. */
static gr_status find_part(gr_pg *pg, wish mine, int *ranks, gr_part *part)
{
    wish *w = (wish *)gr_calloc((size_t)pg->size, sizeof(*w));
    char **all = NULL;
    gr_status st = w ? gr_pg_gather_bytes(pg, &mine, sizeof(mine), &all, NULL) : GR_ERR_NOMEM;

    for (int r = 0; r < pg->size && st == GR_OK && mine.color >= 0; r++) {
        wish x;

        memcpy(&x, all[r], sizeof(x));
        if (x.color == mine.color)
            w[part->n++] = x;
    }
    if (st == GR_OK && part->n > 0)
        qsort(w, (size_t)part->n, sizeof(*w), by_key);
    for (int i = 0; i < part->n; i++) {
        ranks[i] = w[i].rank;
        if (w[i].rank == pg->rank)
            part->rank = i;
    }
    free(all);
    gr_free(w);
    return st;
}

gr_status gr_pg_split(gr_pg **out, gr_pg *pg, int color, int key)
{
    wish mine = { color, key, gr_pg_rank(pg) };
    gr_part part = { .n = 0 };
    int *ranks;
    gr_status st;

    *out = NULL;
    if (!pg)
        return gr_fail(GR_ERR_ARG, "there is no process group (NULL)");
    ranks = (int *)gr_calloc((size_t)pg->size, sizeof(*ranks));
    if (!ranks)
        return GR_ERR_NOMEM;
    part.ranks = ranks;
    st = find_part(pg, mine, ranks, &part);
    if (st == GR_OK) {
        st = gr_wrap(pg->ops->split(pg, &part, out), "sub-group of %d ranks", part.n);
        if (st != GR_OK)
            gr_pg_abort(pg, gr_error_message());
    }
    gr_free(ranks);
    return st;
}

gr_status gr_pg_create_sub(gr_pg **out, gr_pg *pg, const int *ranks, int n)
{
    int key = -1;

    *out = NULL;
    if (n < 1 || n > gr_pg_size(pg))
        return gr_fail(GR_ERR_ARG, "a sub-group of %d ranks in a group of %d", n, gr_pg_size(pg));
    if (!ranks)
        return gr_fail(GR_ERR_ARG, "a sub-group of %d ranks without their list (NULL)", n);
    for (int i = 0; i < n; i++) {
        if (ranks[i] < 0 || ranks[i] >= gr_pg_size(pg))
            return gr_fail(GR_ERR_ARG, "a sub-group with rank %d of a group of %d", ranks[i],
                           gr_pg_size(pg));
        for (int k = 0; k < i; k++)
            if (ranks[k] == ranks[i])
                return gr_fail(GR_ERR_ARG, "a sub-group with rank %d twice", ranks[i]);
        key = ranks[i] == gr_pg_rank(pg) ? i : key;
    }
    return gr_pg_split(out, pg, key >= 0 ? 0 : -1, key);
}

const char *gr_pg_describe(const gr_pg *pg, char *text, size_t n_bytes)
{
    gr_text t = GR_TEXT_INIT;

    if (pg) {
        gr_text_addf(&t, "group '%s': rank %d of %d, timeout %d s\n", pg->ops->name, pg->rank,
                     pg->size, pg->timeout_ms / 1000);
        pg->ops->describe(pg, &t);
    }
    snprintf(text, n_bytes, "%s", gr_text_str(&t));
    gr_text_fini(&t);
    return text;
}
