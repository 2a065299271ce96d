/*
 * The builders of batch and group normalisation: statistics, a few vectors made of them, and
 * one pass that applies them.
 */
#include "gradus/norm.h"
#include "gradus/ops.h"
#include "op/norm/norm.h"
#include "op/norm/sync.h"

#include <string.h>

typedef struct norm {
    gr_graph *g;
    const char *site;
    gr_value *x, *weight, *bias;
    double eps;
    int64_t n_groups; /* 0: batch norm */
    const char *sync; /* the layer's name: over all ranks; NULL: over this one */
} norm;

static gr_node *add_stats(const norm *k)
{
    gr_channel_attr a = { .per_sample = k->n_groups > 0 };

    return gr_graph_add(k->g, &(gr_build){ .op = &gr_op_batch_stats,
                                           .site = k->site,
                                           .src = (gr_value *[]){ k->x },
                                           .n_src = 1,
                                           .attr = &a,
                                           .attr_bytes = sizeof(a) });
}

/* 1 / sqrt(m2 / count + eps); count NULL: m2 is the variance. */
static gr_value *add_rstd(const norm *k, gr_value *m2, gr_value *count)
{
    gr_program p = { .shape = gr_value_shape(m2), .dtype = gr_value_dtype(m2) };
    int16_t r = 0;

    p.n_src = count ? 2 : 1;
    if (count)
        r = gr_program_push(&p, GR_FN_DIV, 0, 1, -1);
    r = gr_program_push(&p, GR_FN_ADD, r, gr_program_push_const(&p, k->eps), -1);
    r = gr_program_push(&p, GR_FN_SQRT, r, -1, -1);
    gr_program_push(&p, GR_FN_DIV, gr_program_push_const(&p, 1), r, -1);
    return gr_map_add(k->g, k->site, (gr_value *[]){ m2, count }, &p);
}

static gr_value *add_scale(const norm *k, gr_value *rstd)
{
    gr_program p = { .shape = gr_value_shape(rstd), .dtype = gr_value_dtype(rstd), .n_src = 2 };

    if (!k->weight)
        return rstd;
    gr_program_push(&p, GR_FN_MUL, 0, 1, -1);
    return gr_map_add(k->g, k->site, (gr_value *[]){ rstd, k->weight }, &p);
}

/* bias - mean * scale */
static gr_value *add_shift(const norm *k, gr_value *mean, gr_value *scale)
{
    gr_program p = { .shape = gr_value_shape(scale), .dtype = gr_value_dtype(scale) };
    int16_t r;

    p.n_src = k->bias ? 3 : 2;
    r = gr_program_push(&p, GR_FN_MUL, 0, 1, -1);
    if (k->bias)
        gr_program_push(&p, GR_FN_SUB, 2, r, -1);
    else
        gr_program_push(&p, GR_FN_NEG, r, -1, -1);
    return gr_map_add(k->g, k->site, (gr_value *[]){ mean, scale, k->bias }, &p);
}

static gr_value *add_norm(const norm *k, gr_value *mean, gr_value *rstd, gr_value *count)
{
    gr_batch_norm_attr a = { .has_weight = k->weight != NULL,
                             .has_bias = k->bias != NULL,
                             .n_groups = k->n_groups,
                             .sync = k->sync };
    gr_value *scale = add_scale(k, rstd);
    gr_value *src[8] = { k->x, scale, add_shift(k, mean, scale), mean, rstd, count };
    int n = GR_BN_N_FIXED, r;

    if (k->weight)
        src[n++] = k->weight;
    if (k->bias)
        src[n++] = k->bias;
    a.program = (gr_program){ .shape = gr_value_shape(k->x), .dtype = gr_value_dtype(k->x) };
    a.program.n_src = n;
    r = gr_program_push(&a.program, GR_FN_MUL, GR_BN_X, GR_BN_SCALE, -1);
    gr_program_push(&a.program, GR_FN_ADD, r, GR_BN_SHIFT, -1);
    return gr_graph_add_value(k->g, &(gr_build){ .op = &gr_op_batch_norm,
                                                 .site = k->site,
                                                 .src = src,
                                                 .n_src = n,
                                                 .attr = &a,
                                                 .attr_bytes = sizeof(a) });
}

/* ---- running statistics ---- */

/* (1 - momentum) running + momentum new; new is m2 / (count - 1) where they are given. */
static void track(const norm *k, gr_value *running, gr_value *now, gr_value *count, double momentum)
{
    gr_program p = { .shape = running->shape, .dtype = GR_F32, .n_src = count ? 3 : 2 };
    int16_t old = gr_program_push(&p, GR_FN_MUL, 0, gr_program_push_const(&p, 1 - momentum), -1);
    int16_t r = 1;

    if (count) {
        r = gr_program_push(&p, GR_FN_SUB, 2, gr_program_push_const(&p, 1), -1);
        r = gr_program_push(&p, GR_FN_DIV, 1, r, -1);
    }
    r = gr_program_push(&p, GR_FN_MUL, r, gr_program_push_const(&p, momentum), -1);
    gr_program_push(&p, GR_FN_ADD, old, r, -1);
    gr_assign_at(k->site, k->g, running,
                 gr_map_add(k->g, k->site, (gr_value *[]){ running, now, count }, &p));
}

static gr_value *by_batch(const norm *k, const gr_batch_norm_args *a)
{
    gr_node *stats = add_stats(k);
    gr_value *mean, *m2, *count;

    if (stats && k->sync)
        stats = gr_sync_stats_add(k->g, k->site, stats, k->sync);
    if (!stats)
        return NULL;
    mean = &stats->out[0];
    m2 = &stats->out[1];
    count = &stats->out[2];
    if (gr_is_training(k->g) && a->running_mean) {
        track(k, a->running_mean, mean, NULL, a->momentum);
        track(k, a->running_var, m2, count, a->momentum);
    }
    if (gr_is_training(k->g) && a->num_batches_tracked)
        gr_assign_at(k->site, k->g, a->num_batches_tracked,
                     gr_mapk_at(k->site, k->g, "add", a->num_batches_tracked, 1));
    return add_norm(k, mean, add_rstd(k, m2, count), count);
}

static gr_value *by_running(const norm *k, const gr_batch_norm_args *a)
{
    gr_value *scale = add_scale(k, add_rstd(k, a->running_var, NULL));
    gr_value *shift = add_shift(k, a->running_mean, scale);
    gr_program p = { .shape = k->x->shape, .dtype = k->x->dtype, .n_src = 3 };

    gr_program_push(&p, GR_FN_ADD, gr_program_push(&p, GR_FN_MUL, 0, 1, -1), 2, -1);
    return gr_channel_map_add(k->g, k->site, (gr_value *[]){ k->x, scale, shift }, &p);
}

/* ---- checks ---- */

static bool is_vector(const gr_value *v, int64_t c)
{
    return !v || (v->shape.n_dims == 1 && v->shape.dim[0] == c && gr_dtype_is_float(v->dtype));
}

/* GR_OK, or what is wrong with x and the vectors that go with it. */
static gr_status check_vectors(const norm *k)
{
    char text[GR_SHAPE_TEXT];
    const gr_value *x = k->x;
    int64_t c;

    if (x->shape.n_dims < 2 || !gr_dtype_is_float(x->dtype))
        return gr_fail(GR_ERR_ARG, "x must be [n, .., c] of a floating type, not %s %s",
                       gr_dtype_name(x->dtype), gr_shape_text(&x->shape, text, sizeof(text)));
    c = x->shape.dim[x->shape.n_dims - 1];
    if (!is_vector(k->weight, c) || !is_vector(k->bias, c))
        return gr_fail(GR_ERR_ARG,
                       "weight and bias must be [%lld], one floating number per channel of %s",
                       (long long)c, gr_shape_text(&x->shape, text, sizeof(text)));
    if (!(k->eps > 0))
        return gr_fail(GR_ERR_ARG, "eps is %g, must be more than 0", k->eps);
    return GR_OK;
}

static gr_status check_batch(const norm *k, const gr_batch_norm_args *a, bool use_batch)
{
    char text[GR_SHAPE_TEXT];
    int64_t c;

    GR_TRY(check_vectors(k));
    c = k->x->shape.dim[k->x->shape.n_dims - 1];
    if (!a->running_mean != !a->running_var)
        return gr_fail(GR_ERR_ARG, "running mean and variance go together");
    if (a->frozen && !a->running_mean)
        return gr_fail(GR_ERR_ARG, "frozen statistics are running ones: there are none");
    if (!is_vector(a->running_mean, c) || !is_vector(a->running_var, c))
        return gr_fail(GR_ERR_ARG, "running statistics must be [%lld], one per channel of %s",
                       (long long)c, gr_shape_text(&k->x->shape, text, sizeof(text)));
    if (!(a->momentum >= 0 && a->momentum <= 1))
        return gr_fail(GR_ERR_ARG, "momentum is %g, must be in [0, 1]", a->momentum);
    if (use_batch && !k->sync && c > 0 && gr_shape_count(&k->x->shape) / c < 2)
        return gr_fail(GR_ERR_ARG,
                       "statistics of a batch need more than one value per channel, %s "
                       "has not",
                       gr_shape_text(&k->x->shape, text, sizeof(text)));
    return GR_OK;
}

static gr_value *refuse(const norm *k, const char *what, gr_status st)
{
    gr_graph_stick(k->g, gr_wrap(st, "%s: %s", k->site, what));
    return NULL;
}

/* "layer1.bn" of its buffer "layer1.bn.running_mean" or its weight, else where it was traced:
 * what messages call its exchanges. */
static const char *layer_name(const norm *k, const gr_batch_norm_args *a)
{
    const gr_value *own = a->running_mean ? a->running_mean : a->weight;
    const char *name = own && own->name ? own->name : k->site;
    const char *dot = own && own->name ? strrchr(name, '.') : NULL;
    char *copy = gr_arena_strdup(k->g->arena, name);

    if (!copy)
        gr_graph_stick(k->g, GR_ERR_NOMEM);
    else if (dot)
        copy[dot - name] = '\0';
    return copy;
}

gr_value *gr_batch_norm_at(const char *site, gr_graph *g, gr_value *x, const gr_batch_norm_args *a)
{
    norm k = { .g = g, .site = site, .x = x };
    bool use_batch;
    gr_status st;

    if (!gr_graph_given(g, site, "batch_norm", x))
        return NULL;
    if (!a) {
        gr_graph_fail(g, site, "batch_norm: its arguments are NULL");
        return NULL;
    }
    k.weight = a->weight;
    k.bias = a->bias;
    k.eps = a->eps;
    use_batch = !a->running_mean || (gr_is_training(g) && !a->frozen);
    if (use_batch && gr_is_training(g) && g->sync_norm)
        k.sync = layer_name(&k, a);
    st = check_batch(&k, a, use_batch);
    if (st != GR_OK)
        return refuse(&k, "batch_norm", st);
    return use_batch ? by_batch(&k, a) : by_running(&k, a);
}

/* ---- groups ---- */

/* A value per sample and group [n, groups, 1] for each channel, to go with x. */
static gr_value *to_channels(const norm *k, gr_value *v, const gr_shape *split)
{
    gr_shape s = k->x->shape;

    for (int i = 1; i < s.n_dims - 1; i++)
        s.dim[i] = 1;
    return gr_reshape_at(k->site, k->g, gr_broadcast_at(k->site, k->g, v, *split), s);
}

/* Statistics of channels joined to those of groups: m2 = sum of m2 + rows (mean - group's)^2. */
static gr_value *by_groups(const norm *k)
{
    gr_node *stats = add_stats(k);
    const gr_shape *xs = &k->x->shape;
    int64_t c = xs->dim[xs->n_dims - 1];
    gr_shape split = GR_SHAPE(xs->dim[0], k->n_groups, c / k->n_groups);
    gr_program p = { .shape = split, .n_src = 4 };
    gr_value *mean, *m2, *all, *count;
    int16_t r;

    if (!stats)
        return NULL;
    p.dtype = stats->out[0].dtype;
    mean = gr_reshape_at(k->site, k->g, &stats->out[0], split);
    m2 = gr_reshape_at(k->site, k->g, &stats->out[1], split);
    all = gr_reduce_at(k->site, k->g, "mean", mean, GR_AXIS(2), true);
    r = gr_program_push(&p, GR_FN_SUB, 0, 2, -1);
    r = gr_program_push(&p, GR_FN_SQUARE, r, -1, -1);
    r = gr_program_push(&p, GR_FN_MUL, r, 3, -1);
    gr_program_push(&p, GR_FN_ADD, r, 1, -1);
    m2 = gr_map_add(k->g, k->site, (gr_value *[]){ mean, m2, all, &stats->out[2] }, &p);
    m2 = gr_reduce_at(k->site, k->g, "sum", m2, GR_AXIS(2), true);
    count = gr_mapk_at(k->site, k->g, "mul", &stats->out[2], (double)(c / k->n_groups));
    return add_norm(k, to_channels(k, all, &split), to_channels(k, add_rstd(k, m2, count), &split),
                    count);
}

gr_value *gr_group_norm_at(const char *site, gr_graph *g, gr_value *x, int64_t n_groups,
                           gr_value *weight, gr_value *bias, double eps)
{
    norm k = { .g = g, .site = site, .x = x, .weight = weight, .bias = bias, .eps = eps };
    gr_status st;

    if (!gr_graph_given(g, site, "group_norm", x))
        return NULL;
    k.n_groups = n_groups;
    st = check_vectors(&k);
    if (st == GR_OK && (n_groups < 1 || x->shape.dim[x->shape.n_dims - 1] % n_groups != 0))
        st = gr_fail(GR_ERR_ARG, "%lld groups do not divide %lld channels", (long long)n_groups,
                     (long long)x->shape.dim[x->shape.n_dims - 1]);
    if (st != GR_OK)
        return refuse(&k, "group_norm", st);
    return by_groups(&k);
}
