/*
 * batch_stats and batch_norm_sums on the CPU by vectors and threads, and their lists of
 * kernels.
 *
 * A sample's rows are cut into chunks that depend on the shape alone, and a chunk into
 * stretches that stay in the cache. A slice takes chunks; each has results of its own, which
 * are joined in order. So bits do not depend on the number of threads. x is read from memory
 * once.
 *
 * Statistics of parts are joined from their means and squared distances (Chan), never from
 * sums of squares, which cancel.
 */
#include "base/cpu.h"
#include "op/norm/cpu/norm_kernels.h"

#include <string.h>

#define CHUNK_BYTES   ((int64_t)64 << 10) /* of x, at least, where rows are cut */
#define MAX_CHUNKS    16
#define STRETCH_BYTES ((int64_t)16 << 10)
#define STRETCH_ROWS  16 /* at least */

typedef struct job {
    const gr_norm_columns_isa *isa;
    gr_channels k;
    gr_norm_columns columns;  /* of the whole */
    size_t x_bytes, dy_bytes; /* of an element */
    int64_t n_chunks, chunk_rows, stretch_rows;
    float *part; /* of each chunk of each sample: two vectors */
} job;

static int64_t at_least(int64_t x, int64_t least)
{
    return x > least ? x : least;
}

static int64_t chunks_of(const gr_channels *k, size_t x_bytes)
{
    int64_t n = k->n_rows * k->n_channels * (int64_t)x_bytes / CHUNK_BYTES;

    return n < 1 ? 1 : n > MAX_CHUNKS ? MAX_CHUNKS : n;
}

static size_t workspace(const gr_node *n, const void *data)
{
    gr_channels k = gr_channels_of(n);
    int64_t chunks = chunks_of(&k, gr_dtype_bytes(n->src[0]->dtype));

    (void)data;
    return (size_t)(k.n_samples * chunks * 2 * k.n_channels) * sizeof(float);
}

static void job_init(job *j, const gr_launch *l, const gr_norm_columns_isa *isa)
{
    *j = (job){ .isa = isa, .k = gr_channels_of(l->node), .part = l->work };
    j->x_bytes = gr_dtype_bytes(l->node->src[0]->dtype);
    j->n_chunks = chunks_of(&j->k, j->x_bytes);
    j->chunk_rows = (j->k.n_rows + j->n_chunks - 1) / j->n_chunks;
    j->stretch_rows =
        at_least(STRETCH_BYTES / at_least(j->k.n_channels * (int64_t)j->x_bytes, 1), STRETCH_ROWS);
    j->columns = (gr_norm_columns){ .x = l->src[0],
                                    .x_type = l->node->src[0]->dtype,
                                    .n_channels = j->k.n_channels };
}

/* Rows [*row, *row + result.n_rows) of a sample; the next stretch begins at *row then. */
static gr_norm_columns next_stretch(const job *j, int64_t sample, int64_t *row, int64_t end)
{
    gr_norm_columns s = j->columns;
    int64_t at = (sample * j->k.n_rows + *row) * j->k.n_channels;

    s.n_rows = end - *row < j->stretch_rows ? end - *row : j->stretch_rows;
    s.x += (size_t)at * j->x_bytes;
    if (s.dy)
        s.dy += (size_t)at * j->dy_bytes;
    *row += s.n_rows;
    return s;
}

static int64_t chunk_end(const job *j, int64_t chunk)
{
    int64_t end = (chunk + 1) * j->chunk_rows;

    return end < j->k.n_rows ? end : j->k.n_rows;
}

static void run_chunks(const gr_launch *l, gr_pool_fn *fn, job *j)
{
    int64_t n = j->k.n_samples * j->n_chunks;
    int slices = gr_pool_size(l->pool);

    gr_pool_run(l->pool, fn, j, n < slices ? 1 : slices);
}

/* ---- statistics ---- */

static void stats_slice(void *arg, int slice, int n_slices)
{
    const job *j = arg;
    int64_t lo, hi;

    gr_pool_cut(j->k.n_samples * j->n_chunks, 1, slice, n_slices, &lo, &hi);
    for (int64_t u = lo; u < hi; u++) {
        float *mean = j->part + 2 * u * j->k.n_channels;
        int64_t row = u % j->n_chunks * j->chunk_rows, end = chunk_end(j, u % j->n_chunks);
        gr_norm_moments to = { .mean = mean, .m2 = mean + j->k.n_channels };

        while (row < end) {
            gr_norm_columns s = next_stretch(j, u / j->n_chunks, &row, end);

            j->isa->stats(&s, &to);
        }
    }
}

/* The chunks of a sample, in order. */
static void join_chunks(const job *j, int64_t sample, float *mean, float *m2)
{
    int64_t c_all = j->k.n_channels, n = 0;

    memset(mean, 0, (size_t)c_all * sizeof(float));
    memset(m2, 0, (size_t)c_all * sizeof(float));
    for (int64_t i = 0; i < j->n_chunks; i++) {
        const float *part = j->part + 2 * (sample * j->n_chunks + i) * c_all;
        int64_t more = chunk_end(j, i) - i * j->chunk_rows;
        double all = (double)(n + more);
        float share = (float)((double)more / all);
        float weight = (float)((double)n * (double)more / all);

        if (more <= 0)
            break;
        for (int64_t c = 0; c < c_all; c++) {
            float apart = part[c] - mean[c];

            mean[c] = n == 0 ? part[c] : mean[c] + apart * share;
            m2[c] += n == 0 ? part[c_all + c] : part[c_all + c] + apart * apart * weight;
        }
        n += more;
    }
}

static gr_status run_stats(const gr_launch *l, const gr_norm_columns_isa *isa)
{
    float *mean = l->out[0], *m2 = l->out[1];
    job j;

    *(float *)l->out[2] = (float)gr_channels_of(l->node).n_rows;
    if (!l->work)
        return GR_OK; /* no channel, or no sample */
    job_init(&j, l, isa);
    run_chunks(l, stats_slice, &j);
    for (int64_t s = 0; s < j.k.n_samples; s++)
        join_chunks(&j, s, mean + s * j.k.n_channels, m2 + s * j.k.n_channels);
    return GR_OK;
}

/* ---- sums ---- */

static void sums_slice(void *arg, int slice, int n_slices)
{
    const job *j = arg;
    int64_t lo, hi;

    gr_pool_cut(j->k.n_samples * j->n_chunks, 1, slice, n_slices, &lo, &hi);
    for (int64_t u = lo; u < hi; u++) {
        float *sum = j->part + 2 * u * j->k.n_channels;
        int64_t row = u % j->n_chunks * j->chunk_rows, end = chunk_end(j, u % j->n_chunks);
        int64_t vector = u / j->n_chunks * j->k.n_channels;
        gr_norm_sums to = { .sum = sum, .dot = sum + j->k.n_channels };

        memset(sum, 0, 2 * (size_t)j->k.n_channels * sizeof(float));
        while (row < end) {
            gr_norm_columns s = next_stretch(j, u / j->n_chunks, &row, end);

            s.mean += vector;
            s.scale = s.scale ? s.scale + vector : NULL;
            s.shift = s.scale ? s.shift + vector : NULL;
            j->isa->sums(&s, &to);
        }
    }
}

static void add_chunks(const job *j, int64_t sample, int64_t from, float *out)
{
    memset(out, 0, (size_t)j->k.n_channels * sizeof(float));
    for (int64_t i = 0; i < j->n_chunks; i++) {
        const float *part = j->part + 2 * (sample * j->n_chunks + i) * j->k.n_channels + from;

        for (int64_t c = 0; c < j->k.n_channels; c++)
            out[c] += part[c];
    }
}

static gr_status run_sums(const gr_launch *l, const gr_norm_columns_isa *isa)
{
    const gr_channel_attr *a = l->node->attr;
    const float *rstd = l->src[3];
    float *sum = l->out[0], *dot = l->out[1];
    job j;

    if (!l->work)
        return GR_OK; /* no channel, or no sample */
    job_init(&j, l, isa);
    j.columns.dy = l->src[1];
    j.columns.dy_type = l->node->src[1]->dtype;
    j.dy_bytes = gr_dtype_bytes(j.columns.dy_type);
    j.columns.mean = l->src[2];
    if (a->gated) {
        j.columns.scale = l->src[4];
        j.columns.shift = l->src[5];
    }
    run_chunks(l, sums_slice, &j);
    for (int64_t s = 0; s < j.k.n_samples; s++) {
        add_chunks(&j, s, 0, sum + s * j.k.n_channels);
        add_chunks(&j, s, j.k.n_channels, dot + s * j.k.n_channels);
    }
    for (int64_t i = 0; i < j.k.n_samples * j.k.n_channels; i++)
        dot[i] *= rstd[i];
    return GR_OK;
}

/* ---- the lists ---- */

static const char *reject_types(const gr_node *n)
{
    if (n->src[0]->dtype == GR_F64 || (n->n_src > 1 && n->src[1]->dtype == GR_F64))
        return "f64 is left to the reference";
    return NULL;
}

static const char *avx512_reject(const gr_node *n)
{
    return gr_cpu_has_avx512() ? reject_types(n) : "needs AVX-512";
}

static const char *avx2_reject(const gr_node *n)
{
    return gr_cpu_has_avx2() ? reject_types(n) : "needs AVX2 and F16C";
}

static gr_status avx512_stats(const gr_launch *l)
{
    return run_stats(l, &gr_norm_columns_avx512);
}

static gr_status avx2_stats(const gr_launch *l)
{
    return run_stats(l, &gr_norm_columns_avx2);
}

static gr_status avx512_sums(const gr_launch *l)
{
    return run_sums(l, &gr_norm_columns_avx512);
}

static gr_status avx2_sums(const gr_launch *l)
{
    return run_sums(l, &gr_norm_columns_avx2);
}

const gr_kernel gr_batch_stats_cpu[] = {
    { .name = "avx512", .reject = avx512_reject, .workspace = workspace, .run = avx512_stats },
    { .name = "avx2", .reject = avx2_reject, .workspace = workspace, .run = avx2_stats },
    { .name = "reference", .run = gr_batch_stats_ref_run },
    { .name = NULL },
};

const gr_kernel gr_batch_norm_sums_cpu[] = {
    { .name = "avx512", .reject = avx512_reject, .workspace = workspace, .run = avx512_sums },
    { .name = "avx2", .reject = avx2_reject, .workspace = workspace, .run = avx2_sums },
    { .name = "reference", .run = gr_batch_norm_sums_ref_run },
    { .name = NULL },
};
