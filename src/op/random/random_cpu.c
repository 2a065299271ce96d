/*
 * Random numbers and dropout on the CPU, by vectors and threads. Work is cut into tiles: a
 * tile lies within one sample and starts at a multiple of the group, so that its numbers are
 * whole groups. Numbers depend on places alone, so bits do not depend on the thread count.
 */
#include "base/cpu.h"
#include "op/element.h"
#include "op/map/map_impl.h"
#include "op/random/random_kernels.h"

#include <string.h>

#define TILE      GR_RANDOM_TILE
#define MIN_TILES 16 /* that are worth a thread */

typedef struct job {
    const gr_launch *launch;
    const gr_random_isa *isa;
    const gr_map_isa *convert;
    gr_draw draw;
    gr_random_cut cut;
    gr_random_span span; /* of uniform numbers */
    int64_t tiles_each;  /* per sample */
} job;

/* One tile: elements [e, e + n) of a sample, at place `at` of the value. */
typedef struct tile {
    gr_draw draw;
    uint32_t sample;
    int64_t e, at, n;
} tile;

static tile tile_of(const job *j, int64_t i)
{
    int64_t s = i / j->tiles_each, e = i % j->tiles_each * TILE;
    int64_t left = j->cut.n_elem - e;
    tile t = { .e = e, .at = s * j->cut.n_elem + e, .n = left < TILE ? left : TILE };

    t.draw = gr_random_draw_of(j->launch, &j->draw, &j->cut, s, &t.sample);
    return t;
}

static void draw_tile(const job *j, const tile *t, uint32_t *number)
{
    j->isa->fill(number, &t->draw, t->sample, t->e / GR_DRAW_GROUP,
                 (t->n + GR_DRAW_GROUP - 1) / GR_DRAW_GROUP);
}

static void run_tiles(job *j, gr_pool_fn *fn)
{
    int64_t n_tiles, n_slices;

    j->tiles_each = (j->cut.n_elem + TILE - 1) / TILE;
    n_tiles = j->tiles_each * j->cut.n_samples;
    n_slices = n_tiles / MIN_TILES;
    if (n_slices > gr_pool_size(j->launch->pool))
        n_slices = gr_pool_size(j->launch->pool);
    if (n_tiles > 0)
        gr_pool_run(j->launch->pool, fn, j, n_slices < 1 ? 1 : (int)n_slices);
}

/* ---- random ---- */

static void put_floats(const job *j, const tile *t, const uint32_t *number)
{
    const gr_random_attr *at = (const gr_random_attr *)j->launch->node->attr;
    gr_map_convert *store = j->convert->store[GR_MAP_F32][at->dtype];
    char *out = (char *)j->launch->out[0] + (size_t)t->at * gr_dtype_bytes(at->dtype);
    float y[TILE];

    if (at->kind == GR_RANDOM_NORMAL)
        j->isa->normal(y, number, (float)at->a, (float)at->b, (t->n + 31) / 32 * 32);
    else
        j->isa->uniform(y, number, 32 - gr_random_bits(at->dtype), &j->span, t->n);
    if (store)
        store(out, y, t->n);
    else
        memcpy(out, y, (size_t)t->n * sizeof(float));
}

static void put_whole(const job *j, const tile *t, const uint32_t *number)
{
    const gr_random_attr *at = (const gr_random_attr *)j->launch->node->attr;
    void *out = j->launch->out[0];

    for (int64_t i = 0; i < t->n; i++) {
        if (at->kind == GR_RANDOM_INT)
            gr_element_put_i64(out, at->dtype, t->at + i,
                               (int64_t)((uint64_t)at->from + (number[i] * at->range >> 32)));
        else
            gr_element_put_f64(out, at->dtype, t->at + i, number[i] < at->range);
    }
}

static void random_slice(void *arg, int slice, int n_slices)
{
    const job *j = (const job *)arg;
    const gr_random_attr *at = (const gr_random_attr *)j->launch->node->attr;
    bool floats = at->kind == GR_RANDOM_UNIFORM || at->kind == GR_RANDOM_NORMAL;
    uint32_t number[TILE];
    int64_t lo, hi;

    gr_pool_cut(j->tiles_each * j->cut.n_samples, 1, slice, n_slices, &lo, &hi);
    for (; lo < hi; lo++) {
        tile t = tile_of(j, lo);

        draw_tile(j, &t, number);
        if (floats)
            put_floats(j, &t, number);
        else
            put_whole(j, &t, number);
    }
}

static gr_random_span span_of(const gr_random_attr *at)
{
    float n = (float)((uint32_t)1 << gr_random_bits(at->dtype));

    if (at->kind != GR_RANDOM_UNIFORM)
        return (gr_random_span){ 0 };
    return (gr_random_span){ (float)(at->b - at->a) / n, (float)at->a, (float)gr_random_most(at) };
}

static gr_status random_run(const gr_launch *l, const gr_random_isa *isa, const gr_map_isa *convert)
{
    const gr_random_attr *at = (const gr_random_attr *)l->node->attr;
    job j = { .launch = l,
              .isa = isa,
              .convert = convert,
              .draw = gr_draw_of(l->scalars, at->stream),
              .cut = gr_random_cut_of(l, &at->shape, at->n_samples),
              .span = span_of(at) };

    run_tiles(&j, random_slice);
    return GR_OK;
}

static const char *random_reject(const gr_node *n)
{
    const gr_random_attr *at = (const gr_random_attr *)n->attr;

    if (at->kind == GR_RANDOM_PERM)
        return "permutations are drawn one number after the other";
    return at->dtype == GR_F64 ? "f64 is left to the reference" : NULL;
}

/* ---- dropout ---- */

/* The numbers of a tile, of 32 bits or of 16. */
typedef union numbers {
    uint32_t word[TILE];
    uint16_t half[2 * TILE];
} numbers;

static void drop_tile(const job *j, const tile *t, numbers *number)
{
    const gr_dropout_attr *at = (const gr_dropout_attr *)j->launch->node->attr;
    gr_dtype type = j->launch->node->src[0]->dtype;
    size_t offset = (size_t)t->at * gr_dtype_bytes(type);
    const void *in = (const char *)j->launch->src[0] + offset;
    void *out = (char *)j->launch->out[0] + offset;
    float x[TILE], y[TILE], scale = (float)(1 / (1 - at->p));
    uint32_t below = at->drop_below;

    if (at->by_sample) {
        if (gr_draw16_at(&j->draw, t->sample, 0) < below) {
            memset(out, 0, (size_t)t->n * gr_dtype_bytes(type));
            return;
        }
        below = 0;
    } else {
        j->isa->fill(number->word, &j->draw, t->sample, t->e / (2 * GR_DRAW_GROUP),
                     (t->n + 2 * GR_DRAW_GROUP - 1) / (2 * GR_DRAW_GROUP));
    }
    if (type == GR_F32) {
        j->isa->drop((float *)out, (const float *)in, number->half, below, scale, t->n);
        return;
    }
    j->convert->load[GR_MAP_F32][type](x, in, t->n);
    j->isa->drop(y, x, number->half, below, scale, t->n);
    j->convert->store[GR_MAP_F32][type](out, y, t->n);
}

static void dropout_slice(void *arg, int slice, int n_slices)
{
    const job *j = (const job *)arg;
    numbers number = { .word = { 0 } };
    int64_t lo, hi;

    gr_pool_cut(j->tiles_each * j->cut.n_samples, 1, slice, n_slices, &lo, &hi);
    for (; lo < hi; lo++) {
        tile t = tile_of(j, lo);

        drop_tile(j, &t, &number);
    }
}

static gr_status dropout_run(const gr_launch *l, const gr_random_isa *isa,
                             const gr_map_isa *convert)
{
    const gr_dropout_attr *at = (const gr_dropout_attr *)l->node->attr;
    job j = { .launch = l,
              .isa = isa,
              .convert = convert,
              .draw = gr_draw_of(l->scalars, at->stream),
              .cut = gr_random_cut_of(l, &l->node->src[0]->shape, at->n_samples) };

    run_tiles(&j, dropout_slice);
    return GR_OK;
}

static const char *dropout_reject(const gr_node *n)
{
    return n->src[0]->dtype == GR_F64 ? "f64 is left to the reference" : NULL;
}

/* ---- the lists ---- */

static const char *avx512_reject(const gr_node *n)
{
    return gr_cpu_has_avx512() ? random_reject(n) : "needs AVX-512";
}

static const char *avx2_reject(const gr_node *n)
{
    return gr_cpu_has_avx2() ? random_reject(n) : "needs AVX2";
}

static const char *avx512_dropout_reject(const gr_node *n)
{
    return gr_cpu_has_avx512() ? dropout_reject(n) : "needs AVX-512";
}

static const char *avx2_dropout_reject(const gr_node *n)
{
    return gr_cpu_has_avx2() ? dropout_reject(n) : "needs AVX2";
}

static gr_status avx512_run(const gr_launch *l)
{
    return random_run(l, &gr_random_avx512, &gr_map_avx512);
}

static gr_status avx2_run(const gr_launch *l)
{
    return random_run(l, &gr_random_avx2, &gr_map_avx2);
}

static gr_status avx512_dropout_run(const gr_launch *l)
{
    return dropout_run(l, &gr_random_avx512, &gr_map_avx512);
}

static gr_status avx2_dropout_run(const gr_launch *l)
{
    return dropout_run(l, &gr_random_avx2, &gr_map_avx2);
}

const gr_kernel gr_random_cpu[] = {
    { .name = "avx512", .reject = avx512_reject, .run = avx512_run },
    { .name = "avx2", .reject = avx2_reject, .run = avx2_run },
    { .name = "reference", .run = gr_random_ref_run },
    { .name = NULL },
};

const gr_kernel gr_dropout_cpu[] = {
    { .name = "avx512", .reject = avx512_dropout_reject, .run = avx512_dropout_run },
    { .name = "avx2", .reject = avx2_dropout_reject, .run = avx2_dropout_run },
    { .name = "reference", .run = gr_dropout_ref_run },
    { .name = NULL },
};
