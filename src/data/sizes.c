/* Sizes: lengths, and what follows from a choice. The choice itself is in sizes_choose.c. */
#include "data/sizes.h"

#include "base/alloc.h"
#include "data/sizes_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_COST 1e6

/* ---- lengths ---- */

static gr_status check_axis(const gr_axis *a, int number)
{
    if (!a->name || !*a->name)
        return gr_fail(GR_ERR_ARG, "axis %d has no name", number);
    if (a->multiple < 0 || a->multiple > GR_SIZES_LENGTH_MAX || a->max < 0 ||
        a->max > GR_SIZES_LENGTH_MAX || !(a->cost >= 0) || a->cost > MAX_COST)
        return gr_fail(GR_ERR_ARG,
                       "axis '%s': multiple %" PRId64 ", max %" PRId64
                       ", cost %g; the first two are "
                       "0 to %d, a cost is 0 to %g",
                       a->name, a->multiple, a->max, a->cost, GR_SIZES_LENGTH_MAX, MAX_COST);
    return GR_OK;
}

static gr_status take_axes(gr_sizes *s, const gr_axis *axes, int n_axes)
{
    double sum = 0;

    for (int a = 0; a < n_axes; a++) {
        GR_TRY(check_axis(&axes[a], a));
        for (int b = 0; b < a; b++)
            if (strcmp(axes[a].name, axes[b].name) == 0)
                return gr_fail(GR_ERR_ARG, "two axes are called '%s'", axes[a].name);
        s->axes[a] = axes[a];
        if (axes[a].multiple == 0)
            s->axes[a].multiple = GR_AXIS_MULTIPLE;
        sum += axes[a].cost;
    }
    s->n_axes = n_axes;
    for (int a = 0; a < n_axes && !(sum > 0); a++)
        s->axes[a].cost = 1;
    return GR_OK;
}

gr_status gr_sizes_create(gr_sizes **out, const gr_axis *axes, int n_axes, int64_t n_samples)
{
    gr_sizes *s;
    gr_status st;

    if (n_axes < 1 || n_axes > GR_MAX_AXES)
        return gr_fail(GR_ERR_ARG, "samples have 1 to %d axes, not %d", GR_MAX_AXES, n_axes);
    if (n_samples < 0)
        return gr_fail(GR_ERR_ARG, "%" PRId64 " samples", n_samples);
    s = gr_calloc(1, sizeof(*s));
    if (!s)
        return GR_ERR_NOMEM;
    GR_TRY_GOTO(st, take_axes(s, axes, n_axes), fail);
    s->n_samples = n_samples;
    s->lengths = gr_calloc((size_t)n_samples * (size_t)n_axes + 1, sizeof(*s->lengths));
    s->kind = gr_calloc((size_t)n_samples + 1, sizeof(*s->kind));
    st = s->lengths && s->kind ? GR_OK : GR_ERR_NOMEM;
    if (st == GR_OK) {
        *out = s;
        return GR_OK;
    }

fail:
    gr_sizes_destroy(s);
    return st;
}

void gr_sizes_destroy(gr_sizes *s)
{
    if (!s)
        return;
    gr_free(s->lengths);
    gr_free(s->kind);
    gr_free(s->size);
    gr_free(s->tokens);
    gr_free(s);
}

gr_status gr_sizes_set(gr_sizes *s, int64_t i, const int64_t *lengths)
{
    GR_BUG_IF(i < 0 || i >= s->n_samples);
    for (int a = 0; a < s->n_axes; a++) {
        const gr_axis *axis = &s->axes[a];
        int64_t most = axis->max > 0 ? axis->max : GR_SIZES_LENGTH_MAX;

        if (lengths[a] < 0 || lengths[a] > most)
            return gr_fail(GR_ERR_ARG,
                           "sample %" PRId64 " has length %" PRId64 " on axis '%s', where 0 to "
                           "%" PRId64 " are allowed: leave it out or cut it",
                           i, lengths[a], axis->name, most);
        s->lengths[i * s->n_axes + a] = (int32_t)lengths[a];
    }
    return GR_OK;
}

/* ---- tokens ---- */

/* Costs are whole numbers of 1 / 1024, so that sums of them are the same everywhere. */
#define COST_UNIT 1024

int64_t gr_sizes_tokens(const gr_sizes *s, const int64_t *lengths)
{
    int64_t sum = 0;

    for (int a = 0; a < s->n_axes; a++)
        sum += (int64_t)(s->axes[a].cost * COST_UNIT + 0.5) * lengths[a];
    return (sum + COST_UNIT - 1) / COST_UNIT;
}

int64_t gr_axis_padded(const gr_axis *axis, int64_t length)
{
    int64_t to = axis->multiple > 0 ? axis->multiple : GR_AXIS_MULTIPLE;
    int64_t n = length <= 1 ? to : (length + to - 1) / to * to;

    return axis->max > 0 && n > axis->max ? axis->max : n;
}

/* ---- what follows ---- */

static bool holds(const gr_sizes *s, int k, const int32_t *lengths)
{
    for (int a = 0; a < s->n_axes; a++)
        if (lengths[a] > s->size[k * s->n_axes + a])
            return false;
    return true;
}

bool gr_sizes_holds(const gr_sizes *s, int k, int64_t i)
{
    return holds(s, k, s->lengths + i * s->n_axes);
}

static int first_that_holds(const gr_sizes *s, const int32_t *lengths)
{
    int k = 0;

    while (k < s->n_sizes && !holds(s, k, lengths))
        k++;
    GR_BUG_IF(k == s->n_sizes);
    return k;
}

int gr_sizes_of_batch(const gr_sizes *s, const int64_t *index, int64_t n)
{
    int32_t most[GR_MAX_AXES] = { 0 };

    for (int64_t i = 0; i < n; i++)
        for (int a = 0; a < s->n_axes; a++) {
            int32_t length = s->lengths[index[i] * s->n_axes + a];

            most[a] = length > most[a] ? length : most[a];
        }
    return first_that_holds(s, most);
}

int64_t gr_sizes_total(const gr_sizes *s)
{
    int64_t sum = 0;

    for (int64_t i = 0; i < s->n_samples; i++)
        sum += s->tokens[s->kind[i]];
    return sum;
}

/* With one axis sizes rise, so that the first which holds a sample is found by halving. */
static int find_size(const gr_sizes *s, int64_t length)
{
    int lo = 0, hi = s->n_sizes - 1;

    while (lo < hi) {
        int mid = (lo + hi) / 2;

        if (s->size[mid] < length)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

void gr_sizes_assign(gr_sizes *s)
{
    for (int64_t i = 0; i < s->n_samples; i++) {
        const int32_t *lengths = s->lengths + i * s->n_axes;

        s->kind[i] = s->n_axes == 1 ? find_size(s, lengths[0]) : first_that_holds(s, lengths);
    }
}

/* ---- a size for each multiple ---- */

static int by_value(const void *pa, const void *pb)
{
    int64_t a = *(const int64_t *)pa, b = *(const int64_t *)pb;

    return (a > b) - (a < b);
}

gr_status gr_sizes_by_multiples(gr_sizes *s, int64_t max_tokens)
{
    int64_t n = 0, to = s->axes[0].multiple;

    GR_BUG_IF(s->n_axes != 1 || s->size);
    s->size = gr_calloc((size_t)s->n_samples + 1, sizeof(*s->size));
    s->tokens = gr_calloc((size_t)s->n_samples + 1, sizeof(*s->tokens));
    if (!s->size || !s->tokens)
        return GR_ERR_NOMEM;
    for (int64_t i = 0; i < s->n_samples; i++) {
        int64_t below = (s->lengths[i] - 1) / to * to;

        s->size[i] = below > max_tokens - to ? max_tokens : below + to;
    }
    qsort(s->size, (size_t)s->n_samples, sizeof(*s->size), by_value);
    for (int64_t i = 0; i < s->n_samples; i++)
        if (i == 0 || s->size[i] != s->size[n - 1])
            s->size[n++] = s->size[i];
    memcpy(s->tokens, s->size, (size_t)n * sizeof(*s->size));
    s->n_sizes = (int)n;
    gr_sizes_assign(s);
    return GR_OK;
}
