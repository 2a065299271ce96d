/* Parts of a data set by chance: shares as torch.utils.data.random_split cuts them, and folds. */
#include "gradus/data.h"

#include "base/alloc.h"
#include "base/random.h"

#include <math.h>

void gr_division_fini(gr_division *d)
{
    if (!d)
        return;
    gr_free(d->train);
    gr_free(d->valid);
    gr_free(d->test);
    *d = (gr_division){ 0 };
}

static gr_status take(int64_t **dst, const int64_t *order, int64_t n)
{
    *dst = gr_calloc((size_t)n + 1, sizeof(**dst));
    if (!*dst)
        return GR_ERR_NOMEM;
    for (int64_t i = 0; i < n; i++)
        (*dst)[i] = order[i];
    return GR_OK;
}

/* NULL: no memory. */
static int64_t *draw(int64_t n, uint64_t seed)
{
    int64_t *order = gr_calloc((size_t)n, sizeof(*order));
    gr_mt19937 r;

    if (!order)
        return NULL;
    gr_mt_seed(&r, seed);
    gr_mt_randperm(&r, order, n);
    return order;
}

/* Each part gets its share rounded down; what is left goes one by one to the parts in turn. */
static void share_out(int64_t n, const double share[3], int64_t count[3])
{
    int64_t left = n;

    for (int i = 0; i < 3; i++) {
        count[i] = (int64_t)floor((double)n * share[i]);
        left -= count[i];
    }
    for (int i = 0; left > 0; i = (i + 1) % 3)
        if (share[i] > 0) {
            count[i]++;
            left--;
        }
}

gr_status gr_divide_ratio(gr_division *out, int64_t n, double valid, double test, uint64_t seed)
{
    const double share[3] = { 1 - valid - test, valid, test };
    int64_t count[3], *order;
    gr_status st;

    *out = (gr_division){ 0 };
    if (!(valid >= 0 && valid < 1 && test >= 0 && test < 1 && share[0] > 0))
        return gr_fail(GR_ERR_ARG,
                       "shares of %g for validation and %g for testing: each is from 0 to below 1, "
                       "and something must be left to train on",
                       valid, test);
    if (n < 1)
        return gr_fail(GR_ERR_ARG, "%lld samples cannot be divided", (long long)n);
    share_out(n, share, count);
    if (count[0] < 1 || (valid > 0 && count[1] < 1) || (test > 0 && count[2] < 1))
        return gr_fail(GR_ERR_ARG,
                       "%lld samples divide into %lld, %lld and %lld: too few for %g and %g",
                       (long long)n, (long long)count[0], (long long)count[1], (long long)count[2],
                       valid, test);
    order = draw(n, seed);
    if (!order)
        return GR_ERR_NOMEM;
    out->n_train = count[0];
    out->n_valid = count[1];
    out->n_test = count[2];
    GR_TRY_GOTO(st, take(&out->train, order, count[0]), end);
    GR_TRY_GOTO(st, take(&out->valid, order + count[0], count[1]), end);
    st = take(&out->test, order + count[0] + count[1], count[2]);
end:
    gr_free(order);
    if (st != GR_OK)
        gr_division_fini(out);
    return st;
}

gr_status gr_divide_folds(gr_division *out, int64_t n, int k, int fold, uint64_t seed)
{
    int64_t *order, first, n_valid;
    gr_status st;

    *out = (gr_division){ 0 };
    if (k < 2 || fold < 0 || fold >= k || n < k)
        return gr_fail(GR_ERR_ARG,
                       "fold %d of %d of %lld samples: folds count from 0, there are at "
                       "least 2, and each has a sample",
                       fold, k, (long long)n);
    order = draw(n, seed);
    if (!order)
        return GR_ERR_NOMEM;
    first = fold * (n / k) + (fold < n % k ? fold : n % k);
    n_valid = n / k + (fold < n % k);
    GR_TRY_GOTO(st, take(&out->valid, order + first, n_valid), end);
    for (int64_t i = first; i + n_valid < n; i++)
        order[i] = order[i + n_valid];
    GR_TRY_GOTO(st, take(&out->train, order, n - n_valid), end);
    out->n_train = n - n_valid;
    out->n_valid = n_valid;
end:
    gr_free(order);
    if (st != GR_OK)
        gr_division_fini(out);
    return st;
}
