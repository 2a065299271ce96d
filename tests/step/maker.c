/* What the makers of random graphs share. */
#include "step/maker.h"

#include <stdarg.h>
#include <stdlib.h>

#define MOST_ELEM  2000
#define MOST_LARGE 40000

int64_t random_graph_pick(uint64_t *state, int64_t lo, int64_t hi)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return lo + (int64_t)((*state >> 20) % (uint64_t)(hi - lo + 1));
}

int64_t maker_rnd(maker *m, int64_t lo, int64_t hi)
{
    return random_graph_pick(&m->state, lo, hi);
}

bool maker_coin(maker *m, int one_in)
{
    return maker_rnd(m, 1, one_in) == 1;
}

/* Odd sizes on purpose: ones, primes, and one off the widths of vectors. */
int64_t maker_size(maker *m)
{
    static const int64_t sizes[] = { 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 15, 16, 17, 19, 31, 33 };

    return sizes[maker_rnd(m, 0, (int64_t)(sizeof(sizes) / sizeof(sizes[0])) - 1)];
}

int64_t maker_count_of(const gr_value *v)
{
    gr_shape s = gr_value_shape(v);

    return gr_shape_count(&s);
}

void maker_note(maker *m, const char *fmt, ...)
{
    va_list args;

    if (!m->how->log)
        return;
    va_start(args, fmt);
    vfprintf(m->how->log, fmt, args);
    va_end(args);
}

gr_value *maker_leaf(maker *m, gr_shape shape)
{
    char name[16];

    snprintf(name, sizeof(name), "p%d", m->n_params++);
    return gr_cast(m->g, gr_param(m->g, name, shape, gr_init_normal(0, 1)), m->how->type);
}

gr_value *maker_constant(maker *m, gr_shape shape)
{
    int64_t n = gr_shape_count(&shape);
    float *mem = malloc((size_t)(n + 1) * sizeof(*mem));
    gr_value *v = NULL;

    for (int64_t i = 0; mem && i < n; i++)
        mem[i] = (float)maker_rnd(m, -1000, 1000) / 700.0f;
    if (mem)
        v = gr_constant(m->g, GR_F32, shape, mem);
    free(mem);
    return gr_cast(m->g, v, m->how->type);
}

gr_value *maker_indices(maker *m, gr_shape shape, int64_t below)
{
    int64_t n = gr_shape_count(&shape);
    int64_t *mem = malloc((size_t)(n + 1) * sizeof(*mem));
    gr_value *v = NULL;

    for (int64_t i = 0; mem && i < n; i++)
        mem[i] = maker_rnd(m, 0, below - 1);
    if (mem)
        v = gr_constant(m->g, GR_I64, shape, mem);
    free(mem);
    return v;
}

void maker_push(maker *m, gr_value *v)
{
    int64_t most = m->how->large ? MOST_LARGE : MOST_ELEM;

    if (!v)
        return;
    if (gr_value_dtype(v) != m->how->type)
        v = gr_cast(m->g, v, m->how->type);
    if (maker_count_of(v) > most) {
        v = gr_reshape(m->g, v, GR_SHAPE(-1));
        v = gr_slice_axis(m->g, v, 0, maker_rnd(m, 0, 3), most / 2);
    }
    m->pool[m->n < MAKER_POOL ? m->n++ : maker_rnd(m, 0, MAKER_POOL - 1)] = v;
}

gr_value *maker_any(maker *m)
{
    if (m->how->large && maker_coin(m, 2)) /* the large one */
        return m->pool[m->n > 2 ? 2 : 0];
    return m->pool[maker_coin(m, 2) ? m->n - 1 : maker_rnd(m, 0, m->n - 1)];
}

int64_t maker_divisor(maker *m, int64_t of)
{
    int64_t d = maker_rnd(m, 1, of < 40 ? of : 40);

    while (of % d)
        d--;
    return d;
}

/* A value of the pool in another shape, of n_dims dimensions. */
gr_value *maker_with_dims(maker *m, int n_dims)
{
    gr_value *v = maker_any(m);
    gr_shape s = { .n_dims = n_dims };
    int64_t rest = maker_count_of(v);

    for (int i = 0; i < n_dims - 1; i++) {
        s.dim[i] = rest ? maker_divisor(m, rest) : maker_size(m);
        rest /= s.dim[i];
    }
    s.dim[n_dims - 1] = rest;
    return gr_reshape(m->g, v, s);
}

gr_value *maker_filled(maker *m, int n_dims)
{
    gr_value *v = maker_with_dims(m, n_dims);
    gr_shape s = gr_value_shape(v);

    if (maker_count_of(v) > 0)
        return v;
    for (int i = 0; i < n_dims; i++)
        s.dim[i] = maker_rnd(m, 1, 6);
    return maker_leaf(m, s);
}

/* A shape that stretches to s. */
gr_shape maker_narrower(maker *m, gr_shape s)
{
    gr_shape t = { 0 };
    int skip = (int)maker_rnd(m, 0, s.n_dims);

    for (int i = maker_coin(m, 2) ? skip : 0; i < s.n_dims; i++)
        t.dim[t.n_dims++] = maker_coin(m, 2) ? 1 : s.dim[i];
    return t;
}

gr_value *maker_beside(maker *m, gr_value *v)
{
    gr_shape s = gr_value_shape(v);

    for (int i = m->n - 1; i >= 0; i--) {
        gr_shape t = gr_value_shape(m->pool[i]);

        if (gr_shape_equal(&s, &t) && maker_coin(m, 2))
            return m->pool[i];
    }
    return maker_leaf(m, maker_coin(m, 2) ? s : maker_narrower(m, s));
}

gr_value *maker_finish(maker *m, gr_value *y, bool bias)
{
    gr_graph *g = m->g;
    gr_shape s = gr_value_shape(y);

    if (bias)
        y = gr_add(g, y, maker_leaf(m, GR_SHAPE(s.dim[s.n_dims - 1])));
    if (maker_coin(m, 3))
        y = m->how->smooth ? gr_silu(g, y) : gr_relu(g, y);
    else if (maker_coin(m, 3))
        y = gr_gelu(g, y);
    if (m->n > 0 && maker_coin(m, 3)) /* not in the front, where shapes are the batch's */
        y = maker_coin(m, 2) ? gr_add(g, maker_beside(m, y), y)
                             : gr_mul(g, y, gr_sigmoid(g, maker_beside(m, y)));
    return y;
}
