/* The loops of swiglu; the including file brings op/map/vf_*_body.h. What is left over at the
 * end of a row is done as a vector filled up with zeros. */

static inline vf load_some(const float *p, int64_t n)
{
    vf x = splat(0);

    memcpy(&x, p, n >= WIDTH ? sizeof(x) : (size_t)n * sizeof(float));
    return x;
}

static inline void store_some(float *p, vf x, int64_t n)
{
    memcpy(p, &x, n >= WIDTH ? sizeof(x) : (size_t)n * sizeof(float));
}

static inline __attribute__((always_inline)) void gate_at(float *y, const float *a, const float *b,
                                                          int64_t n)
{
    store_some(y, vec_silu(load_some(a, n)) * load_some(b, n), n);
}

static void gate(float *y, const float *a, const float *b, int64_t n)
{
    int64_t i = 0;

    for (; i + WIDTH <= n; i += WIDTH)
        gate_at(y + i, a + i, b + i, WIDTH);
    if (i < n)
        gate_at(y + i, a + i, b + i, n - i);
}

static inline __attribute__((always_inline)) void grad_at(float *da, float *db, const float *dy,
                                                          const float *a, const float *b, int64_t n)
{
    vf va = load_some(a, n), d = load_some(dy, n);
    halves h = sigmoid_halves(va);

    store_some(da, d * load_some(b, n) * (h.s * FMA(va, h.rest, splat(1))), n);
    store_some(db, d * (va * h.s), n);
}

static void grad(float *da, float *db, const float *dy, const float *a, const float *b, int64_t n)
{
    int64_t i = 0;

    for (; i + WIDTH <= n; i += WIDTH)
        grad_at(da + i, db + i, dy + i, a + i, b + i, WIDTH);
    if (i < n)
        grad_at(da + i, db + i, dy + i, a + i, b + i, n - i);
}
