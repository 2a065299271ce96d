/*
 * Timing single nodes. Sources get numbers that are neither zero nor denormal: some kernels
 * are faster on zeros. On a device that works beside the host, short kernels are queued
 * several at a time, so that what is measured is their work and not the launch.
 */
#include "exec/tune.h"

#include "base/log.h"
#include "base/size.h"
#include "graph/fusion.h"

#include <math.h>
#include <string.h>

#define RUNS        4    /* the first one warms up */
#define ENOUGH      5e-3 /* seconds; a node that takes longer is measured once */
#define QUEUE       1e-3 /* seconds of work to queue at a time, beside the host */
#define MOST_QUEUED 64
#define ALIGN       256
#define MAX_ENDS    32 /* sources and results of a node that is measured */
#define CHUNK       ((size_t)1 << 20)

/* In front of the node's values. */
typedef struct head {
    gr_scalars scalars;
    gr_fault fault;
} head;

/* ---- candidates ---- */

static bool is_apart(const gr_node *n, const gr_kernel *k)
{
    return n->fusion && k == n->fusion->rules->apart;
}

/* Kernel i if it is worth measuring. On the host pieces of a fusion are not: what is between
 * them is in the cache here, and would not be in a step. Nor is a narrower instruction set
 * beside the wide one. */
static bool is_worth(const gr_tune *t, const gr_node *n, int i)
{
    const gr_kernel *k = gr_kernel_at(t->kernels, n, i), *before;

    if (strcmp(k->name, "reference") == 0 || gr_kernel_refusal(k, n))
        return false;
    if (is_apart(n, k))
        return !t->device->ops->runs_at_once;
    for (int b = 0; strcmp(k->name, "avx2") == 0 && b < i; b++) {
        before = gr_kernel_at(t->kernels, n, b);
        if (strcmp(before->name, "avx512") == 0 && !gr_kernel_refusal(before, n))
            return false;
    }
    return true;
}

/* Indices of the kernels to measure. */
static int find_kernels(const gr_tune *t, const gr_node *n, int which[GR_TUNE_KERNELS + 1])
{
    int count = 0;

    if (!n->op->tunes || n->n_src + n->n_out > MAX_ENDS)
        return 0;
    for (int i = 0; gr_kernel_at(t->kernels, n, i); i++)
        if (is_worth(t, n, i) &&
            (count < GR_TUNE_KERNELS || is_apart(n, gr_kernel_at(t->kernels, n, i))))
            which[count++] = i;
    return count;
}

static gr_prepare prepare_of(const gr_tune *t, const gr_node *n)
{
    return (gr_prepare){ .node = n,
                         .n_threads = t->n_threads > 0 ? t->n_threads : 1,
                         .device = t->device,
                         .stream = t->device->ops->stream(t->device, GR_STREAM_COMPUTE),
                         .sets = t->kernels,
                         .work_limit = t->work_limit ? t->work_limit : GR_WORK_LIMIT };
}

static gr_status add_kernel(const gr_prepare *p, const gr_kernel *k, gr_text *out, int *count)
{
    gr_text own = GR_TEXT_INIT;
    gr_status st = GR_OK;
    int n = 0;

    if (!k->variants) {
        gr_text_addf(out, "%s\n", k->name);
        ++*count;
        return gr_text_status(out);
    }
    st = k->variants(p, &own);
    for (const char *at = gr_text_str(&own); st == GR_OK && *at && n < GR_TUNE_VARIANTS; n++) {
        size_t len = strcspn(at, "\n");

        gr_text_addf(out, "%s:%.*s\n", k->name, (int)len, at);
        at += len + (at[len] == '\n');
    }
    gr_text_fini(&own);
    *count += n;
    return st == GR_OK ? gr_text_status(out) : gr_wrap(st, "variants of kernel '%s'", k->name);
}

gr_status gr_tune_candidates(const gr_tune *t, const gr_node *n, gr_text *out, int *count)
{
    int which[GR_TUNE_KERNELS + 1], n_kernels = find_kernels(t, n, which);
    gr_prepare p = prepare_of(t, n);

    *count = 0;
    for (int i = 0; i < n_kernels; i++)
        GR_TRY(add_kernel(&p, gr_kernel_at(t->kernels, n, which[i]), out, count));
    return GR_OK;
}

/* ---- memory ---- */

gr_status gr_tune_reserve(const gr_tune *t, const gr_node *n, size_t *work_bytes)
{
    int which[GR_TUNE_KERNELS + 1], n_kernels = find_kernels(t, n, which);
    gr_prepare p = prepare_of(t, n);

    *work_bytes = 0;
    for (int i = 0; i < n_kernels; i++) {
        const gr_kernel *k = gr_kernel_at(t->kernels, n, which[i]);
        bool declined;
        gr_ready r;
        gr_status st = gr_kernel_ready_one(&r, &p, k, NULL, &declined);
        size_t need;

        if (declined)
            continue;
        GR_TRY(st);
        need = is_apart(n, k) ? r.work_bytes + p.work_limit : r.work_bytes;
        if (k->variants && need < p.work_limit)
            need = p.work_limit;
        if (need > *work_bytes)
            *work_bytes = need;
        gr_kernel_end(&r);
    }
    return GR_OK;
}

static const gr_value *end_of(const gr_node *n, int i)
{
    return i < n->n_src ? n->src[i] : &n->out[i - n->n_src];
}

static size_t room_for(const gr_value *v)
{
    return gr_round_up(gr_value_bytes(v) + 1, ALIGN);
}

size_t gr_tune_bytes(const gr_node *n, size_t work_bytes)
{
    size_t n_bytes = gr_round_up(sizeof(head), ALIGN) + gr_round_up(work_bytes, ALIGN);

    for (int i = 0; i < n->n_src + n->n_out; i++)
        n_bytes += room_for(end_of(n, i));
    return n_bytes;
}

/* One half in every element of a float type; zero in the others, which are indices. */
static void fill_pattern(char *mem, gr_dtype t)
{
    static const float half = 0.5F;
    uint16_t pattern = t == GR_BF16 ? 0x3f00 : 0x3800;

    memset(mem, 0, CHUNK);
    if (t == GR_F32)
        for (size_t i = 0; i < CHUNK; i += sizeof(half))
            memcpy(mem + i, &half, sizeof(half));
    else if (t == GR_BF16 || t == GR_F16)
        for (size_t i = 0; i < CHUNK; i += sizeof(pattern))
            memcpy(mem + i, &pattern, sizeof(pattern));
}

static gr_status fill(const gr_tune *t, char *chunk, char *mem, const gr_value *v)
{
    const gr_backend_ops *ops = t->device->ops;
    size_t n_bytes = gr_value_bytes(v);

    GR_TRY(ops->sync(t->device)); /* the chunk is not read any more */
    fill_pattern(chunk, v->dtype);
    for (size_t at = 0; at < n_bytes; at += CHUNK)
        GR_TRY(
            ops->upload(t->device, mem + at, chunk, n_bytes - at < CHUNK ? n_bytes - at : CHUNK));
    return GR_OK;
}

/* Addresses of all sources and results, filled, and of the rest behind them. */
static gr_status place(const gr_tune *t, gr_launch *l, void **ends, size_t n_work)
{
    const gr_backend_ops *ops = t->device->ops;
    char *mem = (char *)t->mem, *chunk = NULL;
    void *pinned;
    gr_status st = GR_OK;

    l->scalars = &((head *)t->mem)->scalars;
    l->fault = &((head *)t->mem)->fault;
    GR_TRY(ops->zero(t->device, mem, sizeof(head)));
    mem += gr_round_up(sizeof(head), ALIGN);
    GR_TRY(ops->host_alloc(t->device, CHUNK, &pinned));
    chunk = (char *)pinned;
    for (int i = 0; st == GR_OK && i < l->node->n_src + l->node->n_out; i++) {
        const gr_value *v = end_of(l->node, i);

        ends[i] = gr_value_root(v)->space == GR_SPACE_NONE ? NULL : mem;
        st = fill(t, chunk, mem, v);
        mem += room_for(v);
    }
    l->work = n_work > 0 ? mem : NULL;
    if (st == GR_OK && n_work > 0)
        st = ops->zero(t->device, mem, n_work);
    if (st == GR_OK)
        st = ops->sync(t->device);
    ops->host_free(t->device, pinned);
    return st;
}

/* ---- timing ---- */

/* Seconds of one of n runs queued together. */
static gr_status time_queued(const gr_tune *t, const gr_kernel *k, const gr_launch *l, int n,
                             double *seconds)
{
    const gr_backend_ops *ops = t->device->ops;

    GR_TRY(ops->timer_begin(t->device));
    for (int i = 0; i < n; i++)
        GR_TRY(k->run(l));
    GR_TRY(ops->timer_end(t->device, seconds));
    *seconds /= n;
    return GR_OK;
}

static gr_status time_runs(const gr_tune *t, const gr_kernel *k, const gr_launch *l,
                           double *seconds)
{
    int n = 1;
    double took;

    *seconds = (double)INFINITY;
    for (int i = 0; i < RUNS; i++) {
        GR_TRY(time_queued(t, k, l, n, &took));
        if (!t->device->ops->runs_at_once && i == 0) { /* warm now, and known */
            n = took * MOST_QUEUED > QUEUE ? (int)(QUEUE / took) + 1 : MOST_QUEUED;
            if (took <= ENOUGH)
                continue;
        }
        if (took < *seconds)
            *seconds = took;
        if (took > ENOUGH)
            break;
    }
    return GR_OK;
}

static gr_status time_ready(const gr_tune *t, const gr_node *n, const gr_ready *r, double *seconds)
{
    void *ends[MAX_ENDS];
    gr_launch l = { .node = n,
                    .src = ends,
                    .out = ends + n->n_src,
                    .data = r->data,
                    .pool = t->pool,
                    .stream = t->device->ops->stream(t->device, GR_STREAM_COMPUTE) };

    GR_TRY(place(t, &l, ends, r->work_bytes));
    return time_runs(t, r->kernel, &l, seconds);
}

gr_status gr_tune_time(const gr_tune *t, const gr_node *n, const char *candidate, size_t work_bytes,
                       double *seconds)
{
    gr_prepare p = prepare_of(t, n);
    bool declined = false;
    gr_ready r = { 0 };
    gr_status st = gr_kernel_ready_choice(&r, &p, candidate, &declined);

    *seconds = (double)INFINITY;
    if (declined) {
        gr_log(EXEC, DEBUG, "%s: %s declines: %s", n->op->name, candidate, gr_error_message());
        return GR_OK;
    }
    GR_TRY(st);
    if (r.work_bytes > work_bytes)
        gr_log(EXEC, DEBUG, "%s: %s asks for %zu bytes of workspace, the limit is %zu", n->op->name,
               candidate, r.work_bytes, work_bytes);
    else
        st = time_ready(t, n, &r, seconds);
    gr_kernel_end(&r);
    return st;
}
