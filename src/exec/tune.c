/*
 * Timing single nodes. Sources get numbers that are neither zero nor denormal: some kernels
 * are faster on zeros.
 */
#include "exec/tune.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/size.h"

#include <math.h>
#include <string.h>

#define RUNS     4    /* the first one warms up */
#define ENOUGH   5e-3 /* seconds; a node that takes longer is measured once */
#define ALIGN    64
#define MAX_ENDS 32 /* sources and results of a node that is measured */

/* A narrower instruction set is not tried beside the wide one. */
static bool is_wasted(const gr_kernel *k, const gr_kernel *const *before, int count)
{
    if (strcmp(k->name, "reference") == 0)
        return true;
    for (int i = 0; i < count; i++)
        if (strcmp(before[i]->name, "avx512") == 0 && strcmp(k->name, "avx2") == 0)
            return true;
    return false;
}

int gr_tune_candidates(const gr_node *n, const gr_kernel *out[GR_TUNE_CANDIDATES])
{
    int count = 0;

    if (!n->op->tunes || !n->op->kernels || n->n_src + n->n_out > MAX_ENDS)
        return 0;
    for (const gr_kernel *k = n->op->kernels; k->name && count < GR_TUNE_CANDIDATES; k++)
        if (!is_wasted(k, out, count) && (!k->reject || !k->reject(n)))
            out[count++] = k;
    return count;
}

/* One half in every element of a float type; zero in the others, which are indices. */
static void fill(char *mem, const gr_value *v)
{
    static const float half = 0.5F;
    uint16_t pattern = v->dtype == GR_BF16 ? 0x3f00 : 0x3800;
    size_t n_bytes = gr_value_bytes(v);

    if (v->dtype == GR_F32)
        for (size_t i = 0; i + sizeof(half) <= n_bytes; i += sizeof(half))
            memcpy(mem + i, &half, sizeof(half));
    else if (v->dtype == GR_BF16 || v->dtype == GR_F16)
        for (size_t i = 0; i + sizeof(pattern) <= n_bytes; i += sizeof(pattern))
            memcpy(mem + i, &pattern, sizeof(pattern));
    else
        memset(mem, 0, n_bytes);
}

static size_t room_for(const gr_value *v)
{
    return gr_round_up(gr_value_bytes(v) + 1, ALIGN);
}

/* Addresses of all sources and results in `mem`; returns what comes behind them. */
static char *place(const gr_node *n, char *mem, void **ends)
{
    for (int i = 0; i < n->n_src + n->n_out; i++) {
        const gr_value *v = i < n->n_src ? n->src[i] : &n->out[i - n->n_src];

        ends[i] = gr_value_root(v)->space == GR_SPACE_NONE ? NULL : mem;
        fill(mem, v);
        mem += room_for(v);
    }
    return mem;
}

static gr_status time_runs(const gr_kernel *k, const gr_launch *l, double *seconds)
{
    *seconds = (double)INFINITY;
    for (int i = 0; i < RUNS; i++) {
        int64_t begin = gr_now_ns();
        double took;

        GR_TRY(k->run(l));
        took = (double)(gr_now_ns() - begin) * 1e-9;
        if (took < *seconds)
            *seconds = took;
        if (took > ENOUGH)
            break;
    }
    return GR_OK;
}

static gr_status time_prepared(const gr_tune *t, const gr_node *n, const gr_kernel *k, void *data,
                               double *seconds)
{
    size_t n_work = k->workspace ? k->workspace(n, data) : 0, n_bytes = gr_round_up(n_work, ALIGN);
    void *ends[MAX_ENDS];
    gr_scalars scalars = { 0 };
    gr_fault fault = { 0 };
    gr_launch l = { .node = n,
                    .src = ends,
                    .out = ends + n->n_src,
                    .data = data,
                    .pool = t->pool,
                    .scalars = &scalars,
                    .fault = &fault };
    gr_status st;
    char *mem;

    for (int i = 0; i < n->n_src + n->n_out; i++)
        n_bytes += room_for(i < n->n_src ? n->src[i] : &n->out[i - n->n_src]);
    mem = gr_malloc_aligned(n_bytes + ALIGN);
    if (!mem)
        return GR_ERR_NOMEM;
    l.work = place(n, mem, ends);
    memset(l.work, 0, n_work);
    st = time_runs(k, &l, seconds);
    gr_free(mem);
    return st;
}

gr_status gr_tune_time(const gr_tune *t, const gr_node *n, const gr_kernel *k, double *seconds)
{
    gr_prepare prep = { .node = n, .n_threads = t->n_threads, .device = t->device };
    gr_status st;

    if (k->prepare)
        GR_TRY(k->prepare(&prep));
    st = time_prepared(t, n, k, prep.data, seconds);
    if (k->prepare && k->release)
        k->release(prep.data);
    return st;
}
