/* The references, in double; variances in two passes. */
#include "op/element.h"
#include "op/norm/cpu/norm_kernels.h"

#include <math.h>

/* ---- along rows ---- */

typedef struct rows {
    int64_t n, c;
    bool centred; /* layer_norm */
} rows;

static rows rows_of(const gr_node *n)
{
    const gr_shape *s = &n->src[0]->shape;
    int64_t c = s->dim[s->n_dims - 1];
    bool centred = n->op == &gr_op_layer_norm || n->op == &gr_op_layer_norm_grad;
    int64_t n_rows = 1;

    for (int i = 0; i < s->n_dims - 1; i++)
        n_rows *= s->dim[i];
    return (rows){ n_rows, c, centred };
}

static double element(const gr_launch *l, int s, int64_t i)
{
    return gr_element_f64(l->src[s], l->node->src[s]->dtype, i);
}

static void put(const gr_launch *l, int o, int64_t i, double x)
{
    gr_element_put_f64(l->out[o], l->node->out[o].dtype, i, x);
}

static void statistics(const gr_launch *l, const rows *k, int64_t row, double *mean, double *rstd)
{
    const gr_row_norm_attr *a = l->node->attr;
    double sum = 0, squares = 0, count = k->c > 0 ? (double)k->c : 1;

    for (int64_t c = 0; k->centred && c < k->c; c++)
        sum += element(l, 0, row * k->c + c);
    *mean = k->centred ? sum / count : 0;
    for (int64_t c = 0; c < k->c; c++) {
        double d = element(l, 0, row * k->c + c) - *mean;

        squares += d * d;
    }
    if (a->clamped)
        *rstd = 1 / fmax(sqrt(squares / count), a->eps);
    else
        *rstd = 1 / sqrt(squares / count + a->eps);
    if (isnan(squares))
        *rstd = squares; /* fmax would drop it */
}

gr_status gr_row_norm_ref_run(const gr_launch *l)
{
    const gr_row_norm_attr *a = l->node->attr;
    rows k = rows_of(l->node);

    for (int64_t r = 0; r < k.n; r++) {
        double mean, rstd;

        statistics(l, &k, r, &mean, &rstd);
        if (k.centred)
            put(l, 1, r, mean);
        put(l, k.centred ? 2 : 1, r, rstd);
        for (int64_t c = 0; c < k.c; c++) {
            double y = (element(l, 0, r * k.c + c) - mean) * rstd;

            y *= a->has_weight ? element(l, 1, c) : 1;
            y += a->has_bias ? element(l, 1 + a->has_weight, c) : 0;
            put(l, 0, r * k.c + c, y);
        }
    }
    return GR_OK;
}

typedef struct grad_row {
    double mean, rstd;
    bool held; /* by the clamp: rstd is a constant */
} grad_row;

static grad_row grad_row_of(const gr_launch *l, const rows *k, int64_t r)
{
    const gr_row_norm_attr *a = l->node->attr;
    grad_row w = { .mean = k->centred ? element(l, 2, r) : 0 };

    w.rstd = element(l, k->centred ? 3 : 2, r);
    /* As it was stored: 1 / eps rounded to the type of statistics. */
    w.held =
        a->clamped &&
        w.rstd >= (l->node->src[0]->dtype == GR_F64 ? 1 / a->eps : (double)(float)(1 / a->eps));
    return w;
}

static void grad_of_row(const gr_launch *l, const rows *k, int64_t r)
{
    const gr_row_norm_attr *a = l->node->attr;
    grad_row w = grad_row_of(l, k, r);
    double sum = 0, dot = 0;
    int at = k->centred ? 4 : 3;

    for (int64_t c = 0; c < k->c; c++) {
        double q = element(l, 1, r * k->c + c) * (a->has_weight ? element(l, at, c) : 1);

        sum += q;
        dot += q * (element(l, 0, r * k->c + c) - w.mean) * w.rstd;
    }
    sum = k->centred ? sum / (double)k->c : 0;
    dot = w.held ? 0 : dot / (double)k->c;
    for (int64_t c = 0; c < k->c; c++) {
        double q = element(l, 1, r * k->c + c) * (a->has_weight ? element(l, at, c) : 1);
        double xhat = (element(l, 0, r * k->c + c) - w.mean) * w.rstd;

        put(l, 0, r * k->c + c, w.rstd * (q - sum - xhat * dot));
    }
}

static void grad_of_vectors(const gr_launch *l, const rows *k, int64_t c)
{
    const gr_row_norm_attr *a = l->node->attr;
    double dw = 0, db = 0;

    for (int64_t r = 0; r < k->n; r++) {
        grad_row w = grad_row_of(l, k, r);
        double dy = element(l, 1, r * k->c + c);

        dw += dy * (element(l, 0, r * k->c + c) - w.mean) * w.rstd;
        db += dy;
    }
    if (a->has_weight)
        put(l, 1, c, dw);
    if (a->has_bias)
        put(l, 2, c, db);
}

gr_status gr_row_norm_grad_ref_run(const gr_launch *l)
{
    const gr_row_norm_attr *a = l->node->attr;
    rows k = rows_of(l->node);

    for (int64_t r = 0; r < k.n; r++)
        grad_of_row(l, &k, r);
    for (int64_t c = 0; c < k.c && (a->has_weight || a->has_bias); c++)
        grad_of_vectors(l, &k, c);
    return GR_OK;
}

/* ---- down channels ---- */

gr_channels gr_channels_of(const gr_node *n)
{
    const gr_channel_attr *a = n->attr;
    const gr_shape *s = &n->src[0]->shape;
    gr_channels k = { .n_samples = 1, .n_rows = 1, .n_channels = s->dim[s->n_dims - 1] };

    for (int i = 0; i < s->n_dims - 1; i++) {
        if (i == 0 && a->per_sample)
            k.n_samples = s->dim[i];
        else
            k.n_rows *= s->dim[i];
    }
    return k;
}

static void stats_of(const gr_launch *l, const gr_channels *k, int64_t sample, int64_t c)
{
    int64_t at = sample * k->n_rows * k->n_channels + c;
    double sum = 0, squares = 0, mean;

    for (int64_t r = 0; r < k->n_rows; r++)
        sum += element(l, 0, at + r * k->n_channels);
    mean = k->n_rows > 0 ? sum / (double)k->n_rows : 0;
    for (int64_t r = 0; r < k->n_rows; r++) {
        double d = element(l, 0, at + r * k->n_channels) - mean;

        squares += d * d;
    }
    put(l, 0, sample * k->n_channels + c, mean);
    put(l, 1, sample * k->n_channels + c, squares);
}

gr_status gr_batch_stats_ref_run(const gr_launch *l)
{
    gr_channels k = gr_channels_of(l->node);

    for (int64_t s = 0; s < k.n_samples; s++)
        for (int64_t c = 0; c < k.n_channels; c++)
            stats_of(l, &k, s, c);
    put(l, 2, 0, (double)k.n_rows);
    return GR_OK;
}

static void sums_of(const gr_launch *l, const gr_channels *k, int64_t sample, int64_t c)
{
    const gr_channel_attr *a = l->node->attr;
    int64_t vector = sample * k->n_channels + c;
    int64_t at = sample * k->n_rows * k->n_channels + c;
    double mean = element(l, 2, vector), rstd = element(l, 3, vector), sum = 0, dot = 0;

    for (int64_t r = 0; r < k->n_rows; r++) {
        double x = element(l, 0, at + r * k->n_channels);
        double dy = element(l, 1, at + r * k->n_channels);

        if (a->gated && x * element(l, 4, vector) + element(l, 5, vector) <= 0)
            continue;
        sum += dy;
        dot += dy * (x - mean) * rstd;
    }
    put(l, 0, vector, sum);
    put(l, 1, vector, dot);
}

gr_status gr_batch_norm_sums_ref_run(const gr_launch *l)
{
    gr_channels k = gr_channels_of(l->node);

    for (int64_t s = 0; s < k.n_samples; s++)
        for (int64_t c = 0; c < k.n_channels; c++)
            sums_of(l, &k, s, c);
    return GR_OK;
}
