/*
 * The choice of sizes (sizes.h). Samples of one rounded length are one point; where there are too
 * many points, neighbours are taken together and what they hold is their greatest length.
 */
#include "base/alloc.h"
#include "data/sizes_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MOST_POINTS 2048
#define N_SLOTS     (4 * MOST_POINTS) /* of the table that finds equal ones; a power of two */
#define MOST_ROUNDS 64                /* of improvements; each one makes the total less */
#define NONE        INT64_MAX
#define HUGE_COST   (INT64_MAX / 64) /* what would overflow is this */

typedef struct point {
    int64_t dim[GR_MAX_AXES];
    int64_t cell[GR_MAX_AXES]; /* which lengths it stands for */
    int64_t n;                 /* samples */
    int64_t key;               /* what points are sorted by */
} point;

typedef struct set {
    int n;
    int64_t dim[GR_SIZES_MOST + 1][GR_MAX_AXES];
    int64_t total;
} set;

typedef struct chooser {
    gr_sizes *s;
    int most;
    int64_t max_tokens; /* NONE: any */
    point *points;      /* owned */
    int n_points;
    int32_t *slots;                   /* owned: 1 + the number of a point; 0: free */
    int64_t *cost[GR_SIZES_MOST + 1]; /* owned: [g][j]: of the first j points in g sizes */
    int32_t *from[GR_SIZES_MOST + 1]; /* owned: where the last of them begins */
    bool is_mine[MOST_POINTS];        /* see mark() */
    int64_t behind[MOST_POINTS];      /* see best_cut(): what the marked points after i cost */
} chooser;

/* ---- points ---- */

static uint64_t hash_of(const int64_t *cell, int n)
{
    uint64_t h = 0x9e3779b97f4a7c15u;

    for (int a = 0; a < n; a++) {
        h = (h ^ (uint64_t)cell[a]) * 0xd6e8feb86659fd93u;
        h ^= h >> 32;
    }
    return h;
}

/* NULL: there are too many. */
static point *find_point(chooser *c, const int64_t *cell)
{
    size_t bytes = (size_t)c->s->n_axes * sizeof(*cell);
    uint64_t at = hash_of(cell, c->s->n_axes) & (N_SLOTS - 1);

    for (; c->slots[at]; at = (at + 1) & (N_SLOTS - 1))
        if (memcmp(c->points[c->slots[at] - 1].cell, cell, bytes) == 0)
            return &c->points[c->slots[at] - 1];
    if (c->n_points == MOST_POINTS)
        return NULL;
    c->points[c->n_points] = (point){ .n = 0 };
    memcpy(c->points[c->n_points].cell, cell, bytes);
    c->slots[at] = ++c->n_points;
    return &c->points[c->n_points - 1];
}

static bool add_sample(chooser *c, int64_t i, int64_t coarse)
{
    const gr_sizes *s = c->s;
    int64_t dim[GR_MAX_AXES], cell[GR_MAX_AXES];
    point *p;

    for (int a = 0; a < s->n_axes; a++) {
        dim[a] = gr_axis_padded(&s->axes[a], s->lengths[i * s->n_axes + a]);
        cell[a] = (dim[a] - 1) / (s->axes[a].multiple * coarse);
    }
    p = find_point(c, cell);
    if (!p)
        return false;
    for (int a = 0; a < s->n_axes; a++)
        p->dim[a] = dim[a] > p->dim[a] ? dim[a] : p->dim[a];
    p->n++;
    return true;
}

/* Twice as coarse until they are few enough. */
static void make_points(chooser *c)
{
    int64_t n = c->s->n_samples, i = 0;

    for (int64_t coarse = 1; i < n || coarse == 1; coarse *= 2) {
        c->n_points = 0;
        memset(c->slots, 0, N_SLOTS * sizeof(*c->slots));
        for (i = 0; i < n && add_sample(c, i, coarse);)
            i++;
        if (n == 0)
            return;
    }
}

static int by_key(const void *pa, const void *pb)
{
    const point *a = pa, *b = pb;

    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    for (int x = 0; x < GR_MAX_AXES; x++)
        if (a->dim[x] != b->dim[x])
            return a->dim[x] < b->dim[x] ? -1 : 1;
    return 0;
}

/* By an axis, or (-1) by tokens. */
static void sort_points(chooser *c, point *points, int n, int axis)
{
    for (int i = 0; i < n; i++)
        points[i].key = axis < 0 ? gr_sizes_tokens(c->s, points[i].dim) : points[i].dim[axis];
    qsort(points, (size_t)n, sizeof(*points), by_key);
}

/* ---- totals ---- */

static void join(const chooser *c, int64_t *dim, const int64_t *other)
{
    for (int a = 0; a < c->s->n_axes; a++)
        dim[a] = other[a] > dim[a] ? other[a] : dim[a];
}

static bool contains(const chooser *c, const int64_t *dim, const int64_t *other)
{
    for (int a = 0; a < c->s->n_axes; a++)
        if (other[a] > dim[a])
            return false;
    return true;
}

static int64_t cost_of(int64_t n, int64_t tokens)
{
    int64_t cost;

    return __builtin_mul_overflow(n, tokens, &cost) || cost > HUGE_COST ? HUGE_COST : cost;
}

static int64_t sum_of(int64_t a, int64_t b)
{
    return a > NONE - 1 - b ? NONE - 1 : a + b;
}

/* The cheapest size that holds a point; -1: none. */
static int cheapest(const chooser *c, const set *x, const int64_t *tokens, const point *p)
{
    int best = -1;

    for (int k = 0; k < x->n; k++)
        if ((best < 0 || tokens[k] < tokens[best]) && contains(c, x->dim[k], p->dim))
            best = k;
    return best;
}

/* Points go to the cheapest sizes, and sizes shrink to their points; those without go. */
static void settle(const chooser *c, set *x)
{
    set now = { .total = 0 };
    int64_t tokens[GR_SIZES_MOST + 1], n[GR_SIZES_MOST + 1] = { 0 };
    set held = { .n = 0 };

    for (int k = 0; k < x->n; k++)
        tokens[k] = gr_sizes_tokens(c->s, x->dim[k]);
    for (int i = 0; i < c->n_points; i++) {
        int k = cheapest(c, x, tokens, &c->points[i]);

        join(c, held.dim[k], c->points[i].dim);
        n[k] += c->points[i].n;
    }
    for (int k = 0; k < x->n; k++) {
        if (n[k] == 0)
            continue;
        memcpy(now.dim[now.n++], held.dim[k], sizeof(held.dim[k]));
        now.total = sum_of(now.total, cost_of(n[k], gr_sizes_tokens(c->s, held.dim[k])));
    }
    *x = now;
}

/* ---- stretches of a sorted list ---- */

/* Stretches that end before point j, from long to short ones: cost[g][j] of all g. */
static void extend(chooser *c, int j)
{
    int64_t dim[GR_MAX_AXES] = { 0 }, n = 0;

    for (int i = j - 1; i >= 0; i--) {
        int64_t tokens, cost;

        join(c, dim, c->points[i].dim);
        n += c->points[i].n;
        tokens = gr_sizes_tokens(c->s, dim);
        if (tokens > c->max_tokens)
            return; /* longer stretches only have more */
        cost = cost_of(n, tokens);
        for (int g = 1; g <= c->most; g++) {
            int64_t before = c->cost[g - 1][i];

            if (before == NONE || sum_of(before, cost) >= c->cost[g][j])
                continue;
            c->cost[g][j] = sum_of(before, cost);
            c->from[g][j] = i;
        }
    }
}

/* The sorted points in at most `most` stretches. False: some have too many tokens in any case. */
static bool cut_points(chooser *c, set *out)
{
    int best = 0, j = c->n_points;

    for (int g = 0; g <= c->most; g++)
        for (int i = 0; i <= c->n_points; i++)
            c->cost[g][i] = NONE;
    c->cost[0][0] = 0;
    for (int i = 1; i <= c->n_points; i++)
        extend(c, i);
    for (int g = 1; g <= c->most; g++)
        if (c->cost[g][j] < c->cost[best][j])
            best = g;
    if (c->cost[best][j] == NONE)
        return false;
    *out = (set){ .n = best, .total = c->cost[best][j] };
    for (int g = best; g > 0; g--) {
        int from = c->from[g][j];

        for (int i = from; i < j; i++)
            join(c, out->dim[g - 1], c->points[i].dim);
        j = from;
    }
    return true;
}

/* ---- improvements, with several axes ---- */

/* Which points are those of size k. */
static void mark(chooser *c, const set *x, int k)
{
    int64_t tokens[GR_SIZES_MOST + 1];

    for (int i = 0; i < x->n; i++)
        tokens[i] = gr_sizes_tokens(c->s, x->dim[i]);
    for (int i = 0; i < c->n_points; i++)
        c->is_mine[i] = cheapest(c, x, tokens, &c->points[i]) == k;
}

/* The marked points in two stretches: the last point of the first one; -1: there is one point. */
static int best_cut(chooser *c)
{
    int64_t head[GR_MAX_AXES] = { 0 }, tail[GR_MAX_AXES] = { 0 }, n_head = 0, n_tail = 0;
    int64_t least = NONE;
    int at = -1;

    for (int i = c->n_points - 1; i >= 0; i--) {
        c->behind[i] = n_tail > 0 ? cost_of(n_tail, gr_sizes_tokens(c->s, tail)) : NONE;
        if (c->is_mine[i])
            join(c, tail, c->points[i].dim);
        n_tail += c->is_mine[i] ? c->points[i].n : 0;
    }
    for (int i = 0; i < c->n_points && c->behind[i] != NONE; i++) {
        int64_t cost;

        if (!c->is_mine[i])
            continue;
        join(c, head, c->points[i].dim);
        n_head += c->points[i].n;
        cost = sum_of(cost_of(n_head, gr_sizes_tokens(c->s, head)), c->behind[i]);
        at = cost < least ? i : at;
        least = cost < least ? cost : least;
    }
    return at;
}

/* The points of size k, sorted by an axis, in two stretches: one size more. False: it has one
 * point. */
static bool split(chooser *c, const set *x, int k, int axis, set *out)
{
    int at;

    sort_points(c, c->points, c->n_points, axis);
    mark(c, x, k);
    at = best_cut(c);
    if (at < 0)
        return false;
    *out = *x;
    memset(out->dim[k], 0, sizeof(out->dim[k]));
    memset(out->dim[out->n], 0, sizeof(out->dim[out->n]));
    for (int i = 0; i < c->n_points; i++)
        if (c->is_mine[i])
            join(c, out->dim[i <= at ? k : out->n], c->points[i].dim);
    out->n++;
    settle(c, out);
    return true;
}

static bool best_split(chooser *c, const set *x, set *out)
{
    bool found = false;
    set one;

    for (int k = 0; k < x->n; k++)
        for (int axis = -1; axis < c->s->n_axes; axis++)
            if (split(c, x, k, axis, &one) && (!found || one.total < out->total)) {
                *out = one;
                found = true;
            }
    return found;
}

/* Two sizes become one that holds both. */
static bool best_merge(const chooser *c, const set *x, set *out)
{
    bool found = false;

    for (int k = 0; k < x->n; k++)
        for (int l = k + 1; l < x->n; l++) {
            set one = *x;

            join(c, one.dim[k], x->dim[l]);
            if (gr_sizes_tokens(c->s, one.dim[k]) > c->max_tokens)
                continue;
            memcpy(one.dim[l], one.dim[--one.n], sizeof(one.dim[l]));
            settle(c, &one);
            if (!found || one.total < out->total) {
                *out = one;
                found = true;
            }
        }
    return found;
}

static void improve(chooser *c, set *x)
{
    settle(c, x);
    for (int round = 0; round < MOST_ROUNDS; round++) {
        set more, now;

        if (!best_split(c, x, &more))
            return;
        now = more;
        if (more.n > c->most && !best_merge(c, &more, &now))
            return;
        if (now.total >= x->total)
            return;
        *x = now;
    }
}

/* ---- the choice ---- */

static gr_status open_chooser(chooser *c)
{
    size_t n = MOST_POINTS + 1;

    c->points = gr_calloc(n, sizeof(*c->points));
    c->slots = gr_calloc(N_SLOTS, sizeof(*c->slots));
    if (!c->points || !c->slots)
        return GR_ERR_NOMEM;
    for (int g = 0; g <= c->most; g++) {
        c->cost[g] = gr_calloc(n, sizeof(*c->cost[g]));
        c->from[g] = gr_calloc(n, sizeof(*c->from[g]));
        if (!c->cost[g] || !c->from[g])
            return GR_ERR_NOMEM;
    }
    return GR_OK;
}

static void close_chooser(chooser *c)
{
    for (int g = 0; g <= GR_SIZES_MOST; g++) {
        gr_free(c->cost[g]);
        gr_free(c->from[g]);
    }
    gr_free(c->points);
    gr_free(c->slots);
    gr_free(c);
}

static gr_status check_samples(const chooser *c)
{
    const gr_sizes *s = c->s;

    for (int64_t i = 0; i < s->n_samples; i++) {
        int64_t dim[GR_MAX_AXES], tokens;

        for (int a = 0; a < s->n_axes; a++)
            dim[a] = gr_axis_padded(&s->axes[a], s->lengths[i * s->n_axes + a]);
        tokens = gr_sizes_tokens(s, dim);
        if (tokens > c->max_tokens)
            return gr_fail(GR_ERR_ARG,
                           "sample %" PRId64 " is padded to %" PRId64 " tokens, and a batch holds "
                           "%" PRId64 ": raise the token budget or leave the sample out",
                           i, tokens, c->max_tokens);
    }
    return GR_OK;
}

static gr_status choose(chooser *c, set *best)
{
    bool found = false;
    set one;

    for (int axis = -1; axis < (c->s->n_axes > 1 ? c->s->n_axes : 0); axis++) {
        sort_points(c, c->points, c->n_points, axis);
        if (!cut_points(c, &one))
            continue;
        if (c->s->n_axes > 1)
            improve(c, &one);
        if (!found || one.total < best->total)
            *best = one;
        found = true;
    }
    if (!found)
        return gr_fail(GR_ERR_ARG,
                       "the samples do not fit into %d sizes of at most %" PRId64
                       " tokens: raise the token budget",
                       c->most, c->max_tokens);
    return GR_OK;
}

static bool holds_all(const chooser *c, const set *x, int64_t *all)
{
    for (int i = 0; i < c->n_points; i++)
        join(c, all, c->points[i].dim);
    for (int k = 0; k < x->n; k++)
        if (contains(c, x->dim[k], all))
            return true;
    return false;
}

/* One of them holds all samples: the last of as many as there may be, if no other one does. */
static gr_status choose_whole(chooser *c, set *best)
{
    int64_t all[GR_MAX_AXES] = { 0 };

    GR_TRY(choose(c, best));
    if (holds_all(c, best, all))
        return GR_OK;
    if (best->n == c->most) {
        c->most--;
        GR_TRY(choose(c, best));
    }
    if (!holds_all(c, best, all))
        memcpy(best->dim[best->n++], all, sizeof(all));
    return GR_OK;
}

static gr_status take(const chooser *c, const set *best)
{
    gr_sizes *s = c->s;
    point sorted[GR_SIZES_MOST + 1] = { { .n = 0 } };

    s->size = gr_calloc((size_t)best->n * (size_t)s->n_axes + 1, sizeof(*s->size));
    s->tokens = gr_calloc((size_t)best->n + 1, sizeof(*s->tokens));
    if (!s->size || !s->tokens)
        return GR_ERR_NOMEM;
    for (int k = 0; k < best->n; k++)
        memcpy(sorted[k].dim, best->dim[k], sizeof(best->dim[k]));
    for (int k = 0; k < best->n; k++)
        sorted[k].key = gr_sizes_tokens(s, sorted[k].dim);
    qsort(sorted, (size_t)best->n, sizeof(*sorted), by_key);
    for (int k = 0; k < best->n; k++) {
        memcpy(s->size + k * s->n_axes, sorted[k].dim, (size_t)s->n_axes * sizeof(*s->size));
        s->tokens[k] = sorted[k].key;
    }
    s->n_sizes = best->n;
    gr_sizes_assign(s);
    return GR_OK;
}

gr_status gr_sizes_choose(gr_sizes *s, const gr_sizes_limits *limits)
{
    chooser *c = gr_calloc(1, sizeof(*c));
    set best = { .n = 0 };
    gr_status st;

    if (!c)
        return GR_ERR_NOMEM;
    GR_BUG_IF(s->size || limits->most < 0 || limits->most > GR_SIZES_MOST);
    c->s = s;
    c->most = limits->most > 0 ? limits->most : GR_SIZES_MOST;
    c->max_tokens = limits->max_tokens > 0 ? limits->max_tokens : NONE;
    GR_TRY_GOTO(st, open_chooser(c), done);
    GR_TRY_GOTO(st, check_samples(c), done);
    make_points(c);
    if (s->n_samples > 0)
        GR_TRY_GOTO(st, limits->whole ? choose_whole(c, &best) : choose(c, &best), done);
    st = take(c, &best);

done:
    close_chooser(c);
    return st;
}
