/*
 * The oneDNN kernel: what its two major APIs have in common. matmul_onednn2.c and
 * matmul_onednn3.c include it after make_primitive(), which is where they differ; the
 * build compiles the one that fits.
 *
 * y is cut into parts, one per thread, and each part is a product of its own: oneDNN is
 * called with one thread per slice. Everything is created in prepare(): a run sets
 * addresses and executes. Scratch memory comes from the plan.
 *
 * (1) Debian's library is built with OpenMP, whose thread count is a setting of the
 *     calling thread: it is 1 while a primitive is made or executed, then as before. The
 *     functions are looked up by name, so that a library built otherwise works, too.
 * (2) oneDNN must not choose AMX by itself: on virtual machines that hide part of CPUID
 *     it dies with SIGILL. The cap has to come before its first use; it also makes oneDNN
 *     obey GR_CPU.
 */

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/size.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

typedef struct omp {
    void (*set)(int);
    int (*get)(void);
} omp;

typedef struct plan {
    omp omp;
    dnnl_engine_t engine;
    size_t part_bytes; /* of scratch, for each part */
    int n_parts;
    part *parts;
} plan;

static pthread_once_t cap_once = PTHREAD_ONCE_INIT;

static void cap_isa(void)
{
    /* Fails when somebody used oneDNN before us; then the choice was theirs. */
    (void)dnnl_set_max_cpu_isa(gr_cpu_has_avx512() ? dnnl_cpu_isa_avx512_core_bf16
                                                   : dnnl_cpu_isa_avx2);
}

static omp omp_find(void)
{
    omp o = { NULL, NULL };
    void *set = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    void *get = dlsym(RTLD_DEFAULT, "omp_get_max_threads");

    if (set && get) { /* ISO C has no cast from object to function pointers */
        memcpy(&o.set, &set, sizeof(set));
        memcpy(&o.get, &get, sizeof(get));
    }
    return o;
}

static int omp_single(const omp *o)
{
    int before = o->get ? o->get() : 1;

    if (o->set && before != 1)
        o->set(1);
    return before;
}

static void omp_restore(const omp *o, int before)
{
    if (o->set && before != 1)
        o->set(before);
}

const char *gr_matmul_onednn_reject(const gr_node *n)
{
    gr_matmul_dims d;

    if (!gr_cpu_has_avx2())
        return "needs AVX2 and FMA";
    if (n->src[0]->dtype != GR_F32 || n->src[1]->dtype != GR_F32 || n->out[0].dtype != GR_F32)
        return "only f32 is given to oneDNN";
    gr_matmul_get_dims(n, &d);
    return d.batch * d.m * d.n * d.k == 0 ? "a product without elements" : NULL;
}

/* Batch entries are dealt out when there are enough, else rows or columns of y. */
static void cut(const gr_matmul_dims *d, int slice, int n_slices, part_extent *e)
{
    *e = (part_extent){ .z = { 0, d->batch }, .i = { 0, d->m }, .j = { 0, d->n } };
    if (d->batch >= n_slices)
        gr_pool_cut(d->batch, 1, slice, n_slices, &e->z[0], &e->z[1]);
    else if (d->m >= d->n)
        gr_pool_cut(d->m, 16, slice, n_slices, &e->i[0], &e->i[1]);
    else
        gr_pool_cut(d->n, 16, slice, n_slices, &e->j[0], &e->j[1]);
}

static bool is_empty(const part_extent *e)
{
    return e->z[0] == e->z[1] || e->i[0] == e->i[1] || e->j[0] == e->j[1];
}

static gr_status check(dnnl_status_t s, const char *what)
{
    if (s == dnnl_success)
        return GR_OK;
    return gr_fail(s == dnnl_out_of_memory ? GR_ERR_NOMEM : GR_ERR_DEVICE,
                   "oneDNN: %s failed with status %d", what, (int)s);
}

void gr_matmul_onednn_release(void *data)
{
    plan *p = data;

    if (!p)
        return;
    for (int i = 0; p->parts && i < p->n_parts; i++) {
        part *t = &p->parts[i];

        for (int m = 0; m < N_MEMORIES; m++)
            if (t->memory[m])
                dnnl_memory_destroy(t->memory[m]);
        if (t->primitive)
            dnnl_primitive_destroy(t->primitive);
        if (t->stream)
            dnnl_stream_destroy(t->stream);
    }
    if (p->engine)
        dnnl_engine_destroy(p->engine);
    gr_free(p->parts);
    gr_free(p);
}

static gr_status make_parts(plan *p, const gr_node *n)
{
    gr_matmul_dims d;

    gr_matmul_get_dims(n, &d);
    GR_TRY(check(dnnl_engine_create(&p->engine, dnnl_cpu, 0), "opening the CPU"));
    for (int i = 0; i < p->n_parts; i++) {
        part *t = &p->parts[i];

        cut(&d, i, p->n_parts, &t->extent);
        if (is_empty(&t->extent))
            continue;
        GR_TRY(check(dnnl_stream_create(&t->stream, p->engine, dnnl_stream_default_flags),
                     "opening a stream"));
        GR_TRY(make_primitive(t, p->engine, &d, n->attr));
        if (p->part_bytes < gr_round_up(t->n_scratch, 64))
            p->part_bytes = gr_round_up(t->n_scratch, 64);
    }
    return GR_OK;
}

gr_status gr_matmul_onednn_prepare(gr_prepare *p)
{
    plan *made = gr_calloc(1, sizeof(*made));
    gr_status st;
    int before;

    if (!made)
        return GR_ERR_NOMEM;
    made->n_parts = ONEDNN_PARTS(p->n_threads);
    made->parts = gr_calloc((size_t)made->n_parts, sizeof(*made->parts));
    if (!made->parts) {
        gr_free(made);
        return GR_ERR_NOMEM;
    }
    pthread_once(&cap_once, cap_isa);
    made->omp = omp_find();
    before = omp_single(&made->omp);
    st = make_parts(made, p->node);
    omp_restore(&made->omp, before);
    if (st != GR_OK) {
        gr_matmul_onednn_release(made);
        return st;
    }
    p->data = made;
    return GR_OK;
}

size_t gr_matmul_onednn_workspace(const gr_node *n, const void *data)
{
    const plan *p = data;

    (void)n;
    return p->part_bytes * (size_t)p->n_parts;
}

typedef struct job {
    const gr_launch *launch;
    plan *plan;
} job;

static void run_part(void *arg, int slice, int n_slices)
{
    const job *j = arg;
    part *t = &j->plan->parts[slice];
    const gr_launch *l = j->launch;
    char *scratch = l->work ? (char *)l->work + (size_t)slice * j->plan->part_bytes : NULL;
    void *mem[N_MEMORIES] = { (float *)l->src[0] + t->first[0], (float *)l->src[1] + t->first[1],
                              (float *)l->out[0] + t->first[2], scratch };
    static const int names[N_MEMORIES] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST,
                                           DNNL_ARG_SCRATCHPAD };
    dnnl_exec_arg_t args[N_MEMORIES];
    int before;

    (void)n_slices;
    if (!t->primitive)
        return;
    for (int i = 0; i < N_MEMORIES && t->status == dnnl_success; i++) {
        t->status = dnnl_memory_set_data_handle(t->memory[i], mem[i]);
        args[i] = (dnnl_exec_arg_t){ names[i], t->memory[i] };
    }
    if (t->status != dnnl_success)
        return;
    before = omp_single(&j->plan->omp);
    t->status = dnnl_primitive_execute(t->primitive, t->stream, N_MEMORIES, args);
    omp_restore(&j->plan->omp, before);
}

gr_status gr_matmul_onednn_run(const gr_launch *l)
{
    plan *p = l->data;
    job j = { l, p };

    gr_pool_run(l->pool, run_part, &j, p->n_parts);
    for (int i = 0; i < p->n_parts; i++)
        GR_TRY(check(p->parts[i].status, "a matrix product"));
    return GR_OK;
}
