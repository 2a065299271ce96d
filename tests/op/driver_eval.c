/*
 * The evaluator: every value of a graph in memory of its own, so that what a kernel does
 * wrong shows. It shares nothing with the executor but the kernels.
 *
 * (1) Each stretch of memory has guards before and behind it, which must survive.
 * (2) Outputs and workspace start as poison; who compares runs with two poisons sees what
 *     was not written, and what was read before it was.
 * (3) Sources and state are copied in anew for each run, so in-place updates can be
 *     repeated.
 */
#include "op/driver_impl.h"

#include "base/alloc.h"

#define GUARD      ((size_t)64)
#define GUARD_BYTE 0x5c

typedef struct block {
    char *host;   /* GUARD bytes, n_bytes, GUARD bytes; NULL: no memory */
    void *device; /* NULL on the host */
    size_t n_bytes;
} block;

struct driver_eval {
    driver_world *w;
    const driver_how *how;
    block *values; /* by id of the value that owns the memory */
    int n_values;
    block scalars, fault;
    gr_pool *pool;
};

static gr_device *device_of(const driver_eval *e)
{
    return e->how->target ? e->how->target->device : NULL;
}

static const gr_kernel_set *sets_of(const driver_eval *e)
{
    return e->how->target ? e->how->target->kernels : NULL;
}

/* ---- memory ---- */

static void block_init(const driver_eval *e, block *b, size_t n_bytes, unsigned char fill)
{
    gr_device *d = device_of(e);

    b->n_bytes = n_bytes;
    if (d)
        GR_CHECK_OK(d->ops->host_alloc(d, n_bytes + 2 * GUARD, (void **)&b->host));
    else
        b->host = gr_malloc_aligned(n_bytes + 2 * GUARD);
    GR_CHECK(b->host);
    memset(b->host, GUARD_BYTE, n_bytes + 2 * GUARD);
    memset(b->host + GUARD, fill, n_bytes);
    if (d)
        GR_CHECK_OK(d->ops->alloc(d, n_bytes + 2 * GUARD, &b->device));
}

static void block_upload(const driver_eval *e, const block *b)
{
    gr_device *d = device_of(e);

    if (d && b->host)
        GR_CHECK_OK(d->ops->upload(d, b->device, b->host, b->n_bytes + 2 * GUARD));
}

static void block_download(const driver_eval *e, const block *b)
{
    gr_device *d = device_of(e);

    if (d && b->host)
        GR_CHECK_OK(d->ops->download(d, b->host, b->device, b->n_bytes + 2 * GUARD));
}

static void *block_address(const block *b)
{
    if (!b->host)
        return NULL;
    return b->device ? (char *)b->device + GUARD : b->host + GUARD;
}

static bool block_is_whole(const block *b)
{
    for (size_t i = 0; b->host && i < GUARD; i++)
        if (b->host[i] != GUARD_BYTE || b->host[GUARD + b->n_bytes + i] != GUARD_BYTE)
            return false;
    return true;
}

static void block_fini(const driver_eval *e, block *b)
{
    gr_device *d = device_of(e);

    if (d && b->host) {
        d->ops->free(d, b->device);
        d->ops->host_free(d, b->host);
    } else {
        gr_free(b->host);
    }
    *b = (block){ 0 };
}

static const block *block_of(const driver_eval *e, const gr_value *v)
{
    return &e->values[gr_value_root(v)->id];
}

/* ---- setting up ---- */

static const gr_named *feed_of(const driver_eval *e, const gr_value *v)
{
    for (int i = 0; v->name && i < e->w->n_feeds; i++)
        if (strcmp(e->w->feed[i].name, v->name) == 0)
            return &e->w->feed[i];
    return NULL;
}

static void make_value(driver_eval *e, const gr_value *v)
{
    block *b = &e->values[v->id];
    const gr_named *feed = feed_of(e, v);

    if (v->alias || v->space == GR_SPACE_NONE || b->host)
        return;
    block_init(e, b, gr_value_bytes(v), e->how->poison);
    if (feed)
        memcpy(b->host + GUARD, feed->mem, b->n_bytes);
    block_upload(e, b);
}

static void make_memory(driver_eval *e)
{
    static const gr_scalars usual = { .lr = 0.1f, .step = 1, .seed = 7 };
    const gr_graph *g = e->w->graph;

    e->n_values = g->n_values;
    e->values = gr_calloc((size_t)g->n_values + 1, sizeof(*e->values));
    GR_CHECK(e->values);
    for (int i = 0; i < g->n_nodes; i++)
        for (int j = 0; j < g->nodes[i]->n_out; j++)
            make_value(e, &g->nodes[i]->out[j]);
    block_init(e, &e->scalars, sizeof(gr_scalars), 0);
    memcpy(e->scalars.host + GUARD, e->w->c->scalars ? e->w->c->scalars : &usual,
           sizeof(gr_scalars));
    block_upload(e, &e->scalars);
    block_init(e, &e->fault, sizeof(gr_fault), 0);
    block_upload(e, &e->fault);
}

/* ---- running ---- */

/* On a device a thread may still compile the kernel that this launch waits for, and keep it on the
 * disk; on the host every thread is the kernel's. */
static long allocations(const driver_eval *e)
{
    return device_of(e) ? gr_alloc_count_mine() : gr_alloc_count();
}

static gr_status launch(driver_eval *e, gr_ready *r, gr_launch *l)
{
    block work = { 0 };
    gr_status st = GR_OK;
    long n_allocs;

    l->data = r->data;
    if (r->work_bytes > 0) {
        block_init(e, &work, r->work_bytes, e->how->poison);
        block_upload(e, &work);
        l->work = block_address(&work);
    }
    n_allocs = allocations(e);
    st = r->kernel->run(l);
    if (allocations(e) != n_allocs)
        driver_die(e->w, "kernel '%s' allocates while it runs", r->kernel->name);
    if (device_of(e))
        GR_CHECK_OK(device_of(e)->ops->sync(device_of(e)));
    block_download(e, &work);
    if (device_of(e))
        GR_CHECK_OK(device_of(e)->ops->sync(device_of(e)));
    if (!block_is_whole(&work))
        driver_die(e->w, "kernel '%s' writes past its workspace", r->kernel->name);
    block_fini(e, &work);
    return st;
}

static gr_status run_node(driver_eval *e, const gr_node *n)
{
    void *src[64], *out[64];
    gr_launch l = { .node = n, .src = src, .out = out, .pool = e->pool };
    gr_prepare p = { .node = n,
                     .n_threads = e->how->n_threads,
                     .device = device_of(e),
                     .stream = device_of(e)
                                   ? device_of(e)->ops->stream(device_of(e), GR_STREAM_COMPUTE)
                                   : NULL,
                     .sets = sets_of(e),
                     .only = e->how->only };
    gr_ready r;
    gr_status st;

    GR_CHECK(n->n_src <= 64 && n->n_out <= 64);
    if (!n->op->kernels) /* input, variable, reshape: nothing runs */
        return GR_OK;
    if (!gr_kernel_pick(p.sets, n, p.only))
        driver_die(e->w, "%s", gr_error_message());
    GR_TRY(gr_kernel_ready(&r, &p, NULL));
    for (int i = 0; i < n->n_src; i++)
        src[i] = block_address(block_of(e, n->src[i]));
    for (int i = 0; i < n->n_out; i++)
        out[i] = block_address(block_of(e, &n->out[i]));
    l.scalars = block_address(&e->scalars);
    l.fault = block_address(&e->fault);
    if (device_of(e))
        l.stream = device_of(e)->ops->stream(device_of(e), GR_STREAM_COMPUTE);
    st = launch(e, &r, &l);
    gr_kernel_end(&r);
    return st;
}

static void check_guards(driver_eval *e)
{
    for (int i = 0; i < e->n_values; i++)
        block_download(e, &e->values[i]);
    block_download(e, &e->fault);
    if (device_of(e))
        GR_CHECK_OK(device_of(e)->ops->sync(device_of(e)));
    for (int i = 0; i < e->n_values; i++)
        if (!block_is_whole(&e->values[i]))
            driver_die(e->w, "memory around value %%%d was overwritten", i);
}

gr_status driver_eval_run(driver_eval **out, driver_world *w, const driver_how *how)
{
    driver_eval *e = gr_calloc(1, sizeof(*e));
    gr_status st = GR_OK;
    gr_fault fault;

    GR_CHECK(e);
    *out = e;
    e->w = w;
    e->how = how;
    make_memory(e);
    if (how->n_threads > 1)
        GR_CHECK_OK(gr_pool_create(&e->pool, how->n_threads));
    for (int i = 0; i < w->graph->n_nodes && st == GR_OK; i++)
        st = run_node(e, w->graph->nodes[i]);
    check_guards(e);
    memcpy(&fault, e->fault.host + GUARD, sizeof(fault));
    if (st == GR_OK && fault.is_set)
        st = gr_fail(GR_ERR_ARG, "fault: %" PRId64 " is not in [0, %" PRId64 ")", fault.value,
                     fault.limit);
    return st;
}

const void *driver_eval_get(const driver_eval *e, const gr_value *v)
{
    return block_of(e, v)->host + GUARD;
}

void driver_eval_destroy(driver_eval *e)
{
    if (!e)
        return;
    for (int i = 0; i < e->n_values; i++)
        block_fini(e, &e->values[i]);
    block_fini(e, &e->scalars);
    block_fini(e, &e->fault);
    gr_pool_destroy(e->pool);
    gr_free(e->values);
    gr_free(e);
}
