/* Tables of taps: made and inverted. */
#include "op/taps.h"

#include "base/alloc.h"
#include "base/size.h"

gr_status gr_taps_create(gr_taps **out, int64_t n, int64_t n_taps)
{
    size_t firsts, taps, all = sizeof(gr_taps);
    gr_taps *t;

    GR_TRY(gr_size_mul(&firsts, (size_t)n + 1, sizeof(t->first[0])));
    GR_TRY(gr_size_mul(&taps, (size_t)n_taps + 1, sizeof(t->tap[0])));
    GR_TRY(gr_size_add(&all, all, firsts));
    GR_TRY(gr_size_add(&all, all, taps));
    t = gr_calloc(1, all);
    if (!t)
        return GR_ERR_NOMEM;
    t->n = n;
    t->tap = (gr_tap *)(t + 1);
    t->first = (int64_t *)(t->tap + n_taps + 1);
    *out = t;
    return GR_OK;
}

/* A counting sort by source place; result places come in rising order by themselves. */
gr_status gr_taps_invert(gr_taps **out, const gr_taps *t, int64_t n)
{
    gr_taps *inv;

    GR_TRY(gr_taps_create(&inv, n, t->first[t->n]));
    for (int64_t k = 0; k < t->first[t->n]; k++)
        inv->first[t->tap[k].at + 1]++;
    for (int64_t i = 0; i < n; i++)
        inv->first[i + 1] += inv->first[i];
    for (int64_t i = 0; i < t->n; i++)
        for (int64_t k = t->first[i]; k < t->first[i + 1]; k++) {
            gr_tap *to = &inv->tap[inv->first[t->tap[k].at]++];

            *to = t->tap[k];
            to->at = i;
        }
    for (int64_t i = n; i > 0; i--) /* the sort moved every start to its end */
        inv->first[i] = inv->first[i - 1];
    inv->first[0] = 0;
    *out = inv;
    return GR_OK;
}
