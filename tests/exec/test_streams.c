/*
 * Several streams: who waits for whom, and that nothing which is alive is overwritten, whatever
 * order the device takes among those that the events allow.
 *
 * The device is gr_backend_replay. Behind each byte of arena, state and exchange stands a tag:
 * which node wrote it last. What a node finds and leaves is looked at when it begins and again
 * when it ends, and between the two other streams go on.
 */
#include "backend/null/null.h"
#include "exec/plan.h"
#include "exec/streams.h"

#include "check.h"
#include "exec/fake.h"

#define MAX_NODES 512
#define MAX_ENDS  8
#define N_RUNS    5

/* ---- tags ---- */

typedef struct region {
    char *mem;
    uint32_t *tag; /* one per byte */
    size_t n_bytes;
} region;

enum { ARENA, STATE, EXCHANGE, N_REGIONS };

typedef struct stretch {
    uint32_t *tag; /* NULL: memory that nobody watches */
    size_t n;
    uint32_t want; /* what a source must be tagged with */
    bool is_read;  /* ... and still is at the end: nobody writes over it meanwhile */
} stretch;

/* A node as it was queued. */
typedef struct record {
    uint32_t tag;
    stretch src[MAX_ENDS], out[MAX_ENDS], work;
    int n_src, n_out;
} record;

static region regions[N_REGIONS];
static record records[MAX_NODES];
static uint32_t version[MAX_NODES * MAX_ENDS]; /* by id of a root value: who wrote it last */
static int n_violations;

static uint32_t *tag_of(const void *mem)
{
    for (int r = 0; r < N_REGIONS; r++)
        if (mem && (const char *)mem >= regions[r].mem &&
            (const char *)mem < regions[r].mem + regions[r].n_bytes)
            return regions[r].tag + ((const char *)mem - regions[r].mem);
    return NULL;
}

static void look(const stretch *s, uint32_t want)
{
    bool is_right = true;

    for (size_t i = 0; s->tag && i < s->n; i++)
        is_right = is_right && s->tag[i] == want;
    n_violations += !is_right;
}

static void write_tags(const stretch *s, uint32_t tag)
{
    for (size_t i = 0; s->tag && i < s->n; i++)
        s->tag[i] = tag;
}

static void begin_node(void *arg)
{
    record *r = (record *)arg;

    for (int i = 0; i < r->n_src; i++)
        look(&r->src[i], r->src[i].want);
    for (int i = 0; i < r->n_out; i++)
        write_tags(&r->out[i], r->tag);
    write_tags(&r->work, r->tag);
}

static void end_node(void *arg)
{
    record *r = (record *)arg;

    for (int i = 0; i < r->n_src; i++)
        if (r->src[i].is_read)
            look(&r->src[i], r->src[i].want);
    for (int i = 0; i < r->n_out; i++)
        look(&r->out[i], r->tag);
    look(&r->work, r->tag);
}

static bool overlap(const stretch *a, const stretch *b)
{
    return a->tag && b->tag && a->tag < b->tag + b->n && b->tag < a->tag + a->n;
}

static void note_ends(record *r, const gr_launch *l)
{
    const gr_node *n = l->node;

    for (int i = 0; i < n->n_src; i++)
        r->src[r->n_src++] = (stretch){ .tag = tag_of(l->src[i]),
                                        .n = gr_value_bytes(n->src[i]),
                                        .want = version[gr_value_root(n->src[i])->id] };
    for (int i = 0; i < n->n_out; i++) {
        version[gr_value_root(&n->out[i])->id] = r->tag;
        r->out[r->n_out++] = (stretch){ .tag = tag_of(l->out[i]), .n = gr_value_bytes(&n->out[i]) };
    }
    for (int i = 0; i < n->n_src && n->op == &fake_start; i++) { /* it changes its sources */
        version[gr_value_root(n->src[i])->id] = r->tag;
        r->out[r->n_out++] = r->src[i];
    }
}

/* Once per node: later runs are the same, and what is recorded is not called again. */
static void note_node(record *r, const gr_launch *l)
{
    const fake_attr *a = (const fake_attr *)l->node->attr;

    GR_CHECK(l->node->id < MAX_NODES && l->node->n_src < MAX_ENDS);
    *r = (record){ .tag = l->node->id + 1 };
    note_ends(r, l);
    if (l->work)
        r->work = (stretch){ .tag = tag_of(l->work), .n = a->work_bytes };
    for (int i = 0; i < r->n_src; i++) {
        r->src[i].is_read = true;
        for (int k = 0; k < r->n_out; k++)
            if (overlap(&r->src[i], &r->out[k]))
                r->src[i].is_read = false;
    }
}

static gr_status shadow_run(const gr_launch *l)
{
    record *r = &records[l->node->id];

    if (r->tag == 0)
        note_node(r, l);
    GR_TRY(gr_replay_queue(l->stream, begin_node, r));
    return gr_replay_queue(l->stream, end_node, r);
}

static size_t shadow_work(const gr_node *n, const void *data)
{
    (void)data;
    return ((const fake_attr *)n->attr)->work_bytes;
}

#define KERNELS(name_, ...) \
    static const gr_kernel name_[] = { { .name = "shadow", .run = shadow_run, __VA_ARGS__ }, { 0 } }

KERNELS(work_kernels, .workspace = shadow_work, .in_place = true);
KERNELS(plain_kernels, .in_place = false);
KERNELS(host_kernels, .no_capture = true);

static const gr_kernel_set in_one[] = { { "work", work_kernels },    { "aside", work_kernels },
                                        { "write", plain_kernels },  { "start", plain_kernels },
                                        { "finish", plain_kernels }, { NULL, NULL } };
/* Writers cannot be recorded, so a run is cut into segments. */
static const gr_kernel_set in_pieces[] = { { "work", work_kernels },    { "aside", work_kernels },
                                           { "write", host_kernels },   { "start", plain_kernels },
                                           { "finish", plain_kernels }, { NULL, NULL } };

/* ---- the device, watched ---- */

static gr_backend_ops ops;
static int n_recorded, n_launched, n_waits;

static gr_status count_end(gr_device *d, void **recorded)
{
    gr_status st = gr_backend_replay.capture_end(d, recorded);

    n_recorded += st == GR_OK;
    return st;
}

static gr_status count_launch(gr_device *d, void *recorded)
{
    n_launched++;
    return gr_backend_replay.capture_launch(d, recorded);
}

static gr_status count_wait(gr_device *d, void *event, gr_stream_kind stream)
{
    n_waits++;
    return gr_backend_replay.event_wait(d, event, stream);
}

static gr_status leave_out_wait(gr_device *d, void *event, gr_stream_kind stream)
{
    (void)d;
    (void)event;
    (void)stream;
    return GR_OK;
}

static void make_region(region *r, size_t n_bytes)
{
    *r = (region){ .n_bytes = n_bytes + 1 };
    r->mem = (char *)aligned_alloc(256, (n_bytes + 256) / 256 * 256);
    r->tag = (uint32_t *)calloc(n_bytes + 1, sizeof(uint32_t));
    GR_CHECK(r->mem && r->tag);
}

/* ---- runs ---- */

/* On the compute stream before each run: what outlives runs is as at first. */
static void forget_tags(void *arg)
{
    (void)arg;
    for (int r = STATE; r <= EXCHANGE; r++)
        memset(regions[r].tag, 0, regions[r].n_bytes * sizeof(uint32_t));
}

typedef struct outputs {
    stretch list[8];
    int n;
} outputs;

/* On the compute stream behind each run: outputs are there, whatever stream made them. */
static void look_at_outputs(void *arg)
{
    const outputs *o = (const outputs *)arg;

    for (int i = 0; i < o->n; i++)
        look(&o->list[i], o->list[i].want);
}

static void find_outputs(const gr_plan *p, const gr_graph *g, outputs *o)
{
    o->n = 0;
    for (int i = 0; i < g->n_outputs; i++) {
        const gr_value *v = g->outputs[i].value;

        o->list[o->n++] = (stretch){ .tag = tag_of(gr_plan_address(p, v)),
                                     .n = gr_value_bytes(v),
                                     .want = version[gr_value_root(v)->id] };
    }
}

/* Runs one behind the other, without waiting for any. */
static void run_plan(gr_plan *p, gr_device *d, const gr_graph *g)
{
    static char in[2][40];
    void *inputs[] = { in[0], in[1] };
    void *compute = ops.stream(d, GR_STREAM_COMPUTE);
    gr_run r = { .inputs = inputs };
    static outputs o;

    memset(version, 0, sizeof(version));
    memset(records, 0, sizeof(records));
    for (int i = 0; i < N_RUNS; i++) {
        GR_CHECK_OK(gr_replay_queue(compute, forget_tags, NULL));
        GR_CHECK_OK(gr_plan_run(p, &r));
        if (i == 0)
            find_outputs(p, g, &o);
        GR_CHECK_OK(gr_replay_queue(compute, look_at_outputs, &o));
    }
    GR_CHECK_OK(ops.sync(d));
}

/* Returns how much was found in another order than it was queued. */
static int run_world(uint32_t seed, const gr_kernel_set *kernels, bool in_place)
{
    fake_world w;
    gr_device *d;
    gr_plan *p;
    gr_plan_config c = { .kernels = kernels };
    gr_bases b;
    int n_reordered;

    GR_CHECK_OK(ops.open(&d, (int)seed));
    d->ops = &ops;
    c.device = d;
    fake_world_random(&w, seed, 80);
    w.g->in_place = in_place;
    GR_CHECK_OK(gr_plan_create(&p, w.g, &c));
    make_region(&regions[ARENA], gr_plan_arena_bytes(p));
    make_region(&regions[STATE], w.vars->n_bytes);
    make_region(&regions[EXCHANGE], w.exchange_bytes);
    b = (gr_bases){ .arena = regions[ARENA].mem,
                    .state = regions[STATE].mem,
                    .exchange = regions[EXCHANGE].mem };
    GR_CHECK_OK(gr_plan_bind(p, &b));
    run_plan(p, d, w.g);
    n_reordered = gr_replay_n_reordered(d);
    gr_plan_destroy(p);
    for (int r = 0; r < N_REGIONS; r++) {
        free(regions[r].mem);
        free(regions[r].tag);
    }
    ops.close(d);
    fake_world_fini(&w);
    return n_reordered;
}

/* ---- tests ---- */

static void test_random_orders(void)
{
    int n_reordered = 0;

    ops = gr_backend_replay;
    ops.capture_end = count_end;
    ops.capture_launch = count_launch;
    ops.event_wait = count_wait;
    n_recorded = n_launched = n_waits = 0;
    for (uint32_t seed = 0; seed < 80; seed++) {
        int n_before = n_recorded;

        n_reordered += run_world(seed, seed % 2 ? in_pieces : in_one, seed % 4 < 2);
        GR_CHECK_EQ(n_violations, 0);
        /* A segment that could not be recorded would run, and only be logged. */
        GR_CHECK(n_recorded > n_before);
        if (seed % 2 == 0)
            GR_CHECK_EQ(n_recorded, n_before + 1);
    }
    GR_CHECK_EQ(n_launched, n_recorded * (N_RUNS - 1));
    GR_CHECK(n_reordered > 1000 && n_waits > 1000);
}

/* Without its waits the same finds what is wrong: the tags see something. */
static void test_tags_see(void)
{
    ops = gr_backend_replay;
    ops.can_capture = false;
    ops.event_wait = leave_out_wait;
    for (uint32_t seed = 0; seed < 20; seed++)
        run_world(seed, in_one, true);
    GR_CHECK(n_violations > 100);
    n_violations = 0;
}

static gr_device *open_replay(void)
{
    gr_device *d;

    ops = gr_backend_replay;
    GR_CHECK_OK(ops.open(&d, 1));
    return d;
}

static const gr_extent *extent_of(const gr_plan *p, const gr_value *v)
{
    return &gr_plan_layout(p)->extents[gr_plan_layout(p)->of_value[v->id]];
}

static bool share(const gr_extent *a, const gr_extent *b)
{
    return a->offset < b->offset + b->n_bytes && b->offset < a->offset + a->n_bytes;
}

/* a ─► x on the side, with workspace; c, d, e meanwhile; f joins. What is between may not lie
 * where a, x and the workspace do, though the order has passed x. */
static void test_fork_to_join(void)
{
    fake_world w;
    gr_device *d = open_replay();
    gr_plan_config c = { .kernels = in_one, .device = d };
    gr_plan *p;
    gr_value *a, *x, *v[3];
    const gr_extent *work;

    fake_world_init(&w);
    a = fake_source(w.g, "a", 1000);
    x = fake_add(w.g, &fake_aside, "x", (fake_attr){ 1000, 1000 }, &a, 1);
    for (int i = 0; i < 3; i++)
        v[i] = fake_add(w.g, &fake_work, "between", (fake_attr){ 1000, 0 }, i ? &v[i - 1] : NULL,
                        i > 0);
    gr_output(w.g, "f", fake_node(w.g, &fake_work, "f", 1000, x, v[2]));
    GR_CHECK_OK(gr_plan_create(&p, w.g, &c));
    GR_CHECK_EQ(gr_plan_layout(p)->of_work[1] >= 0, true);
    work = &gr_plan_layout(p)->extents[gr_plan_layout(p)->of_work[1]];
    for (int i = 0; i < 3; i++) {
        GR_CHECK(!share(extent_of(p, v[i]), extent_of(p, a)));
        GR_CHECK(!share(extent_of(p, v[i]), work));
    }
    GR_CHECK_EQ(work->last, 5);
    GR_CHECK_EQ(extent_of(p, a)->last, 5);
    for (int i = 0; i < gr_plan_layout(p)->n_extents; i++)
        GR_CHECK_EQ(gr_plan_layout(p)->extents[i].offset % 256, 0);
    gr_plan_destroy(p);
    ops.close(d);
    fake_world_fini(&w);
}

/* Where the device has one stream, nothing is different on the side. */
static void test_one_stream(void)
{
    fake_world w;
    gr_device *d;
    gr_plan_config c = { .n_threads = 1 };
    gr_plan *p;
    gr_value *a, *x, *v;

    GR_CHECK_OK(gr_backend_cpu.open(&d, 0));
    c.device = d;
    fake_world_init(&w);
    a = fake_source(w.g, "a", 1000);
    x = fake_add(w.g, &fake_aside, "x", (fake_attr){ 1000, 0 }, &a, 1);
    v = fake_source(w.g, "between", 1000);
    gr_output(w.g, "f", fake_node(w.g, &fake_work, "f", 1000, x, v));
    GR_CHECK_OK(gr_plan_create(&p, w.g, &c));
    GR_CHECK_EQ(extent_of(p, a)->last, 1);
    GR_CHECK_EQ(extent_of(p, a)->offset, extent_of(p, v)->offset);
    gr_plan_destroy(p);
    gr_backend_cpu.close(d);
    fake_world_fini(&w);
}

int main(void)
{
    test_random_orders();
    test_tags_see();
    test_fork_to_join();
    test_one_stream();
    return 0;
}
