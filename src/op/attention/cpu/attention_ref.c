/*
 * The references, in double: one query's row of scores at a time. Keys and values of a head,
 * and a query's row, are widened first.
 *
 * The gradient keeps sums of dk and dv for one key head, and of dbias, in double; query heads
 * and queries are added in ascending order.
 */
#include "op/attention/attention_drop.h"
#include "op/attention/cpu/attention_kernels.h"
#include "op/element.h"

#include <math.h>
#include <string.h>

/* What one launch works with. */
typedef struct task {
    const gr_launch *l;
    const gr_attention_attr *at;
    gr_attention_dims d;
    gr_attention_drop drop;
    gr_attention_stream stream; /* of this sample and head */
    int64_t b, h;
    double *k, *v;       /* [nk][d] of this sample and head */
    double *q, *o, *d_o; /* of a query */
} task;

static void task_init(task *t, const gr_launch *l)
{
    t->l = l;
    t->at = l->node->attr;
    gr_attention_get_dims(l->node, &t->d);
    t->drop = gr_attention_drop_of(l);
}

static void task_at(task *t, int64_t b, int64_t h)
{
    t->b = b;
    t->h = h;
    if (t->drop.threshold > 0)
        t->stream = gr_attention_stream_of(&t->drop, b, h);
}

static double source(const task *t, int s, int64_t i)
{
    return gr_element_f64(t->l->src[s], t->l->node->src[s]->dtype, i);
}

/* First element of a token's head. */
static int64_t q_at(const task *t, int64_t i)
{
    return (t->b * t->d.nq + i) * t->d.row_q + t->h * t->d.d;
}

static int64_t k_at(const task *t, int64_t j)
{
    return (t->b * t->d.nk + j) * t->d.row_k + t->d.at_k + t->h / (t->d.hq / t->d.hkv) * t->d.d;
}

static int64_t v_at(const task *t, int64_t j)
{
    return (t->b * t->d.nk + j) * t->d.row_v + t->d.at_v + t->h / (t->d.hq / t->d.hkv) * t->d.d;
}

static int64_t o_at(const task *t, int64_t i)
{
    return ((t->b * t->d.nq + i) * t->d.hq + t->h) * t->d.d;
}

static int64_t lse_at(const task *t, int64_t i)
{
    return (t->b * t->d.hq + t->h) * t->d.nq + i;
}

static int64_t bias_at(const task *t, int64_t i, int64_t j)
{
    const int64_t *s = t->d.bias_step;

    return t->b * s[0] + t->h * s[1] + i * s[2] + j * s[3];
}

static bool sees(const task *t, int64_t i, int64_t j)
{
    if (t->at->causal && j > i)
        return false;
    return t->d.mask < 0 || ((const uint8_t *)t->l->src[t->d.mask])[t->b * t->d.nk + j];
}

static void widen(const task *t, double *dst, int s, int64_t at)
{
    for (int64_t c = 0; c < t->d.d; c++)
        dst[c] = source(t, s, at + c);
}

static void widen_keys(const task *t)
{
    for (int64_t j = 0; j < t->d.nk; j++) {
        widen(t, t->k + j * t->d.d, 1, k_at(t, j));
        widen(t, t->v + j * t->d.d, 2, v_at(t, j));
    }
}

static double dot(const task *t, const double *a, const double *b)
{
    double sum = 0;

    for (int64_t c = 0; c < t->d.d; c++)
        sum += a[c] * b[c];
    return sum;
}

/* Of the query whose row is widened. */
static double score(const task *t, int64_t i, int64_t j)
{
    double sum;

    if (!sees(t, i, j))
        return -(double)INFINITY;
    sum = dot(t, t->q, t->k + j * t->d.d);
    sum *= t->at->scale;
    return t->d.bias < 0 ? sum : sum + source(t, t->d.bias, bias_at(t, i, j));
}

/* ---- forward ---- */

size_t gr_attention_ref_workspace(const gr_node *n, const void *data)
{
    gr_attention_dims d;

    (void)data;
    gr_attention_get_dims(n, &d);
    return (size_t)(d.nk + 2 * d.nk * d.d + d.d) * sizeof(double);
}

static void run_row(const task *t, int64_t i, double *p)
{
    const gr_dtype type_o = t->l->node->out[0].dtype, type_lse = t->l->node->out[1].dtype;
    double top = -(double)INFINITY, sum = 0;

    widen(t, t->q, 0, q_at(t, i));
    for (int64_t j = 0; j < t->d.nk; j++) {
        p[j] = score(t, i, j);
        if (!(p[j] <= top) && !isnan(top))
            top = p[j];
    }
    for (int64_t j = 0; j < t->d.nk; j++) {
        p[j] = top == -(double)INFINITY ? 0 : exp(p[j] - top);
        sum += p[j];
        p[j] *= gr_attention_kept(&t->drop, &t->stream, i, j);
    }
    gr_element_put_f64(t->l->out[1], type_lse, lse_at(t, i), top + log(sum));
    for (int64_t c = 0; c < t->d.d; c++) {
        double o = 0;

        for (int64_t j = 0; j < t->d.nk; j++)
            if (p[j] != 0)
                o += p[j] * t->v[j * t->d.d + c];
        gr_element_put_f64(t->l->out[0], type_o, o_at(t, i) + c, sum == 0 ? 0 : o / sum);
    }
}

gr_status gr_attention_ref_run(const gr_launch *l)
{
    task t = { 0 };
    double *p = l->work;

    task_init(&t, l);
    t.k = p + t.d.nk;
    t.v = t.k + t.d.nk * t.d.d;
    t.q = t.v + t.d.nk * t.d.d;
    for (int64_t b = 0; b < t.d.b; b++)
        for (int64_t h = 0; h < t.d.hq; h++) {
            task_at(&t, b, h);
            widen_keys(&t);
            for (int64_t i = 0; i < t.d.nq; i++)
                run_row(&t, i, p);
        }
    return GR_OK;
}

/* ---- gradient ---- */

typedef struct sums {
    double *dq;      /* one row */
    double *dk, *dv; /* of one key head */
    double *dbias;   /* all of it, or NULL */
} sums;

static size_t count_bias(const gr_node *n)
{
    return n->out[3].space == GR_SPACE_NONE ? 0 : (size_t)gr_shape_count(&n->out[3].shape);
}

size_t gr_attention_grad_ref_workspace(const gr_node *n, const void *data)
{
    gr_attention_dims d;

    (void)data;
    gr_attention_get_dims(n, &d);
    return ((size_t)(4 * d.d + 4 * d.nk * d.d) + count_bias(n)) * sizeof(double);
}

static void add_pair(const task *t, const sums *s, int64_t i, int64_t j, double delta)
{
    const double *k = t->k + j * t->d.d, *v = t->v + j * t->d.d;
    const double p = exp(score(t, i, j) - source(t, GR_ATTENTION_LSE, lse_at(t, i)));
    const double kept = gr_attention_kept(&t->drop, &t->stream, i, j);
    const double ds = p * (kept * dot(t, t->d_o, v) - delta);

    for (int64_t c = 0; c < t->d.d; c++) {
        s->dv[j * t->d.d + c] += kept * p * t->d_o[c];
        s->dk[j * t->d.d + c] += ds * t->at->scale * t->q[c];
        s->dq[c] += ds * t->at->scale * k[c];
    }
    if (s->dbias)
        s->dbias[bias_at(t, i, j)] += ds;
}

static void grad_row(const task *t, const sums *s, int64_t i)
{
    const gr_node *n = t->l->node;
    const double lse = source(t, GR_ATTENTION_LSE, lse_at(t, i));
    double delta;

    widen(t, t->q, 0, q_at(t, i));
    widen(t, t->o, 3, o_at(t, i));
    widen(t, t->d_o, 5, o_at(t, i));
    delta = dot(t, t->o, t->d_o);
    for (int64_t c = 0; c < t->d.d; c++)
        s->dq[c] = 0;
    for (int64_t j = 0; lse != -(double)INFINITY && j < t->d.nk; j++)
        if (sees(t, i, j))
            add_pair(t, s, i, j, delta);
    for (int64_t c = 0; c < t->d.d; c++)
        gr_element_put_f64(t->l->out[0], n->out[0].dtype, q_at(t, i) + c, s->dq[c]);
}

static void put_key_head(const task *t, const sums *s)
{
    const gr_attention_packing packing = t->at->packing;
    const int to_k = packing == GR_ATTENTION_QKV ? 0 : 1;
    const int to_v = packing == GR_ATTENTION_SEPARATE ? 2 : to_k;

    for (int64_t j = 0; j < t->d.nk; j++)
        for (int64_t c = 0; c < t->d.d; c++) {
            gr_element_put_f64(t->l->out[to_k], t->at->dtype, k_at(t, j) + c,
                               s->dk[j * t->d.d + c]);
            gr_element_put_f64(t->l->out[to_v], t->at->dtype, v_at(t, j) + c,
                               s->dv[j * t->d.d + c]);
        }
}

gr_status gr_attention_grad_ref_run(const gr_launch *l)
{
    const size_t n_bias = count_bias(l->node);
    task t = { 0 };
    sums s = { 0 };
    size_t n_key;

    task_init(&t, l);
    n_key = (size_t)(t.d.nk * t.d.d);
    t.q = l->work;
    t.o = t.q + t.d.d;
    t.d_o = t.o + t.d.d;
    t.k = t.d_o + t.d.d;
    t.v = t.k + n_key;
    s.dq = t.v + n_key;
    s.dk = s.dq + t.d.d;
    s.dv = s.dk + n_key;
    s.dbias = n_bias > 0 ? s.dv + n_key : NULL;
    if (n_bias > 0)
        memset(s.dbias, 0, n_bias * sizeof(double));
    for (int64_t b = 0; b < t.d.b; b++)
        for (int64_t h = 0; h < t.d.hq; h++) {
            task_at(&t, b, h);
            widen_keys(&t);
            if (h % (t.d.hq / t.d.hkv) == 0 && n_key > 0)
                memset(s.dk, 0, 2 * n_key * sizeof(double));
            for (int64_t i = 0; i < t.d.nq; i++)
                grad_row(&t, &s, i);
            if ((h + 1) % (t.d.hq / t.d.hkv) == 0)
                put_key_head(&t, &s);
        }
    for (size_t i = 0; i < n_bias; i++)
        gr_element_put_f64(l->out[3], t.at->dtype, (int64_t)i, s.dbias[i]);
    return GR_OK;
}
