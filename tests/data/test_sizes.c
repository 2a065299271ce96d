/*
 * Sizes: with one axis the choice is the best there is, and with several close to it, by
 * comparison with every choice; limits are kept; the same lengths give the same sizes in any
 * order of the samples; and what is refused.
 */
#include "data/sizes.h"

#include "alloc_fail.h"
#include "base/random.h"
#include "check.h"

#define N_SMALL 9

static gr_sizes *make(const gr_axis *axes, int n_axes, const int64_t *lengths, int64_t n)
{
    gr_sizes *s;

    GR_CHECK_OK(gr_sizes_create(&s, axes, n_axes, n));
    for (int64_t i = 0; i < n; i++)
        GR_CHECK_OK(gr_sizes_set(s, i, lengths + i * n_axes));
    return s;
}

static gr_sizes *chosen(const gr_axis *axes, int n_axes, const int64_t *lengths, int64_t n,
                        const gr_sizes_limits *limits)
{
    gr_sizes *s = make(axes, n_axes, lengths, n);

    GR_CHECK_OK(gr_sizes_choose(s, limits));
    return s;
}

/* What must hold of any choice. */
static void check(const gr_sizes *s, const gr_sizes_limits *limits)
{
    GR_CHECK(s->n_sizes <= (limits->most > 0 ? limits->most : GR_SIZES_MOST));
    for (int k = 0; k < s->n_sizes; k++) {
        GR_CHECK_EQ(s->tokens[k], gr_sizes_tokens(s, s->size + k * s->n_axes));
        GR_CHECK(limits->max_tokens == 0 || s->tokens[k] <= limits->max_tokens);
        GR_CHECK(k == 0 || s->tokens[k] >= s->tokens[k - 1]);
        for (int a = 0; a < s->n_axes; a++) {
            int64_t length = s->size[k * s->n_axes + a], most = s->axes[a].max;

            GR_CHECK(length > 0 && (length % s->axes[a].multiple == 0 || length == most));
            GR_CHECK(most == 0 || length <= most);
        }
    }
    for (int64_t i = 0; i < s->n_samples; i++) {
        GR_CHECK(gr_sizes_holds(s, s->kind[i], i));
        for (int k = 0; k < s->kind[i]; k++)
            GR_CHECK(!gr_sizes_holds(s, k, i)); /* none is cheaper */
    }
}

/* ---- the best there is ---- */

typedef struct search {
    const gr_sizes *s;
    int group[N_SMALL], most;
    int64_t best;
} search;

static int64_t total_of(const search *x)
{
    int64_t sum = 0, dim[N_SMALL][GR_MAX_AXES] = { { 0 } };
    int n_axes = x->s->n_axes;

    for (int i = 0; i < x->s->n_samples; i++)
        for (int a = 0; a < n_axes; a++) {
            int64_t to = x->s->axes[a].multiple, length = x->s->lengths[i * n_axes + a];
            int64_t padded = length < 1 ? to : (length + to - 1) / to * to;

            dim[x->group[i]][a] = padded > dim[x->group[i]][a] ? padded : dim[x->group[i]][a];
        }
    for (int i = 0; i < x->s->n_samples; i++)
        sum += gr_sizes_tokens(x->s, dim[x->group[i]]);
    return sum;
}

/* Every way to put samples i and after it into groups. */
static void search_from(search *x, int i, int n_groups)
{
    if (i == x->s->n_samples) {
        int64_t total = total_of(x);

        x->best = total < x->best ? total : x->best;
        return;
    }
    for (int g = 0; g <= n_groups && g < x->most; g++) {
        x->group[i] = g;
        search_from(x, i + 1, g == n_groups ? n_groups + 1 : n_groups);
    }
}

static int64_t best_total(const gr_sizes *s, int most)
{
    search x = { .s = s, .most = most, .best = INT64_MAX };

    search_from(&x, 0, 0);
    return x.best;
}

/* A few samples: all choices are tried. */
static void test_best(void)
{
    static const gr_axis axes[3] = { { .name = "residues", .multiple = 4, .cost = 1 },
                                     { .name = "fragments", .multiple = 2, .cost = 2 },
                                     { .name = "torsions", .multiple = 1, .cost = 0.25 } };
    int64_t lengths[N_SMALL * 3];
    double worst = 1, sum = 0;
    gr_mt19937 r;
    int n_cases = 0;

    gr_mt_seed(&r, 4);
    for (int n_axes = 1; n_axes <= 3; n_axes++)
        for (int round = 0; round < 60; round++) {
            gr_sizes_limits limits = { .most = 1 + round % 4 };
            gr_sizes *s;
            double ratio;

            for (int i = 0; i < N_SMALL * n_axes; i++)
                lengths[i] = (int64_t)(gr_mt_u32(&r) % 60);
            s = chosen(axes, n_axes, lengths, N_SMALL, &limits);
            check(s, &limits);
            ratio = (double)gr_sizes_total(s) / (double)best_total(s, limits.most);
            GR_CHECK(ratio >= 1 && (n_axes > 1 || ratio <= 1));
            worst = ratio > worst ? ratio : worst;
            sum += ratio;
            n_cases++;
            gr_sizes_destroy(s);
        }
    GR_CHECK(worst < 1.02 && sum / n_cases < 1.001);
}

/* ---- many samples ---- */

/* Lengths as structures have them: fragments and torsions go with residues. */
static void draw(int64_t *lengths, int64_t n, uint64_t seed)
{
    gr_mt19937 r;

    gr_mt_seed(&r, seed);
    for (int64_t i = 0; i < n; i++) {
        int64_t residues =
            40 + (int64_t)(gr_mt_u32(&r) % 700) * (int64_t)(gr_mt_u32(&r) % 700) / 700;

        lengths[3 * i] = residues;
        lengths[3 * i + 1] = residues * (20 + (int64_t)(gr_mt_u32(&r) % 10)) / 10;
        lengths[3 * i + 2] = residues * (12 + (int64_t)(gr_mt_u32(&r) % 8)) / 10;
    }
}

static const gr_axis three[3] = { { .name = "residues", .cost = 1, .max = 740 },
                                  { .name = "fragments", .cost = 1 },
                                  { .name = "torsions" } };

/* Real tokens: without any padding. */
static int64_t real_tokens(const gr_sizes *s)
{
    int64_t sum = 0;

    for (int64_t i = 0; i < s->n_samples; i++) {
        int64_t length[GR_MAX_AXES];

        for (int a = 0; a < s->n_axes; a++)
            length[a] = s->lengths[i * s->n_axes + a];
        sum += gr_sizes_tokens(s, length);
    }
    return sum;
}

static void test_many(void)
{
    enum { N = 5000 };
    static int64_t lengths[3 * N], turned[3 * N];
    gr_sizes_limits limits = { .max_tokens = 2900 };
    gr_sizes *s, *other;

    draw(lengths, N, 11);
    for (int64_t i = 0; i < 3 * N; i++)
        turned[i] = lengths[3 * (N - 1 - i / 3) + i % 3];
    s = chosen(three, 3, lengths, N, &limits);
    other = chosen(three, 3, turned, N, &limits);
    check(s, &limits);
    GR_CHECK_EQ(s->n_sizes, GR_SIZES_MOST);
    GR_CHECK(gr_sizes_total(s) * 100 < real_tokens(s) * 120);
    GR_CHECK_EQ(gr_sizes_total(s), gr_sizes_total(other));
    for (int i = 0; i < 3 * s->n_sizes; i++)
        GR_CHECK_EQ(s->size[i], other->size[i]);
    gr_sizes_destroy(s);
    gr_sizes_destroy(other);
}

/* Batches by chance: some size holds them all. */
static void test_whole(void)
{
    static const int64_t lengths[6] = { 10, 500, 500, 10, 20, 20 };
    static const gr_axis axes[2] = { { .name = "x", .multiple = 10 },
                                     { .name = "y", .multiple = 10 } };

    for (int most = 1; most <= 3; most++) {
        gr_sizes_limits limits = { .most = most, .whole = true };
        gr_sizes *s = chosen(axes, 2, lengths, 3, &limits);
        int k = gr_sizes_of_batch(s, (const int64_t[]){ 0, 1, 2 }, 3);

        check(s, &limits);
        GR_CHECK_EQ(k, s->n_sizes - 1);
        GR_CHECK_EQ(s->tokens[k], 1000);
        gr_sizes_destroy(s);
    }
}

/* ---- what is refused ---- */

static void test_refused(void)
{
    gr_axis axes[2] = { { .name = "x", .max = 50 }, { .name = "x" } };
    int64_t lengths[4] = { 50, 8, 8, 400 };
    gr_sizes *s;

    GR_CHECK_FAILS(gr_sizes_create(&s, axes, 2, 2), GR_ERR_ARG, "two axes are called 'x'");
    GR_CHECK_FAILS(gr_sizes_create(&s, axes, 0, 2), GR_ERR_ARG, "1 to 8 axes, not 0");
    axes[1] = (gr_axis){ .name = "y", .cost = -1 };
    GR_CHECK_FAILS(gr_sizes_create(&s, axes, 2, 2), GR_ERR_ARG, "axis 'y': multiple 0");
    axes[1] = (gr_axis){ .name = "" };
    GR_CHECK_FAILS(gr_sizes_create(&s, axes, 2, 2), GR_ERR_ARG, "axis 1 has no name");
    axes[1] = (gr_axis){ .name = "y" };
    s = make(axes, 2, lengths, 2);
    lengths[0] = 51;
    GR_CHECK_FAILS(gr_sizes_set(s, 1, lengths), GR_ERR_ARG,
                   "sample 1 has length 51 on axis 'x', where 0 to 50 are allowed");
    lengths[0] = -1;
    GR_CHECK_FAILS(gr_sizes_set(s, 1, lengths), GR_ERR_ARG, "length -1 on axis 'x'");
    GR_CHECK_FAILS(gr_sizes_choose(s, &(gr_sizes_limits){ .max_tokens = 100 }), GR_ERR_ARG,
                   "sample 1 is padded to 408 tokens, and a batch holds 100");
    /* Each fits, but not both in one size. */
    GR_CHECK_FAILS(gr_sizes_choose(s, &(gr_sizes_limits){ .most = 1, .max_tokens = 420 }),
                   GR_ERR_ARG, "do not fit into 1 sizes of at most 420 tokens");
    GR_CHECK_OK(gr_sizes_choose(s, &(gr_sizes_limits){ .most = 2, .max_tokens = 420 }));
    GR_CHECK_EQ(s->n_sizes, 2);
    GR_CHECK_EQ(s->size[0], 50); /* not 56: the axis ends there */
    gr_sizes_destroy(s);
}

static void test_none(void)
{
    gr_sizes *s = chosen(three, 3, NULL, 0, &(gr_sizes_limits){ .whole = true });

    GR_CHECK_EQ(s->n_sizes, 0);
    gr_sizes_destroy(s);
}

static gr_status whole_life(void *arg)
{
    static const int64_t lengths[6] = { 10, 20, 30, 40, 50, 60 };
    gr_sizes *s;
    gr_status st = GR_OK;

    (void)arg;
    GR_TRY(gr_sizes_create(&s, three, 3, 2));
    for (int64_t i = 0; i < 2 && st == GR_OK; i++)
        st = gr_sizes_set(s, i, lengths + 3 * i);
    if (st == GR_OK)
        st = gr_sizes_choose(s, &(gr_sizes_limits){ .most = 2 });
    gr_sizes_destroy(s);
    return st;
}

int main(void)
{
    test_best();
    test_many();
    test_whole();
    test_refused();
    test_none();
    GR_CHECK(gr_alloc_fail_each(whole_life, NULL) > 4);
    return 0;
}
