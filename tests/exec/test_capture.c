/* Recording: what is cut into which segments, and what happens when recording fails.
 * The device is a fake that writes down, in one line of text, what it is asked to do. */
#include "exec/plan.h"

#include "alloc_fail.h"
#include "exec/fake.h"

typedef struct fake_device {
    gr_device base;
    gr_text trail;
    bool is_recording;
    int n_recorded; /* alive */
    bool fail_begin, fail_end, fail_launch;
} fake_device;

static fake_device fake;

static gr_status fake_begin(gr_device *d)
{
    GR_CHECK(d == &fake.base && !fake.is_recording);
    if (fake.fail_begin)
        return gr_fail(GR_ERR_DEVICE, "will not begin");
    gr_text_add(&fake.trail, "[");
    fake.is_recording = true;
    return GR_OK;
}

/* As cudaStreamEndCapture(): leaves the recording state in any case. */
static gr_status fake_end(gr_device *d, void **recorded)
{
    GR_CHECK(d == &fake.base && fake.is_recording);
    fake.is_recording = false;
    gr_text_add(&fake.trail, "]");
    if (fake.fail_end)
        return gr_fail(GR_ERR_DEVICE, "will not end");
    *recorded = gr_strdup("recorded");
    if (!*recorded)
        return GR_ERR_NOMEM;
    fake.n_recorded++;
    return GR_OK;
}

static gr_status fake_launch(gr_device *d, void *recorded)
{
    GR_CHECK(d == &fake.base && !fake.is_recording && recorded);
    if (fake.fail_launch)
        return gr_fail(GR_ERR_DEVICE, "the device fell off");
    gr_text_add(&fake.trail, "!");
    return GR_OK;
}

static void fake_free(gr_device *d, void *recorded)
{
    GR_CHECK(d == &fake.base && recorded);
    gr_free(recorded);
    fake.n_recorded--;
}

static gr_backend_ops fake_ops;

static void fake_setup(void)
{
    fake_ops = gr_backend_null;
    fake_ops.name = "recorder";
    fake_ops.runs_at_once = fake_ops.can_poll = false;
    fake_ops.can_capture = true;
    fake_ops.capture_begin = fake_begin;
    fake_ops.capture_end = fake_end;
    fake_ops.capture_launch = fake_launch;
    fake_ops.capture_free = fake_free;
    fake = (fake_device){ .base = { .ops = &fake_ops }, .trail = GR_TEXT_INIT };
}

static void check_trail(const char *want)
{
    GR_CHECK_STR(gr_text_str(&fake.trail), want);
    gr_text_fini(&fake.trail);
}

/* ---- operators: "a" can be recorded, "h" works on the host ---- */

static bool refuse_recording; /* "a" fails while it is recorded */

static gr_status device_run(const gr_launch *l)
{
    (void)l;
    if (refuse_recording && fake.is_recording)
        return gr_fail(GR_ERR_DEVICE, "not while recording");
    gr_text_add(&fake.trail, "a");
    return GR_OK;
}

static gr_status host_run(const gr_launch *l)
{
    (void)l;
    GR_CHECK(!fake.is_recording);
    gr_text_add(&fake.trail, "h");
    return GR_OK;
}

static gr_status fault_run(const gr_launch *l)
{
    *l->fault = (gr_fault){ .is_set = 1, .node_id = l->node->id };
    return device_run(l);
}

static gr_status bytes_infer(gr_node *n)
{
    n->out[0].shape = GR_SHAPE(8);
    n->out[0].dtype = GR_U8;
    return GR_OK;
}

static const gr_kernel device_kernels[] = { { .name = "device", .run = device_run }, { 0 } };
static const gr_kernel host_kernels[] = { { .name = "host", .run = host_run, .no_capture = true },
                                          { 0 } };
static const gr_kernel fault_kernels[] = { { .name = "fault", .run = fault_run }, { 0 } };
static const gr_op device_op = { .name = "device",
                                 .n_src = GR_ANY_COUNT,
                                 .n_out = 1,
                                 .infer = bytes_infer,
                                 .kernels = device_kernels };
static const gr_op host_op = {
    .name = "host", .n_src = GR_ANY_COUNT, .n_out = 1, .infer = bytes_infer, .kernels = host_kernels
};
static const gr_op fault_op = { .name = "fault",
                                .n_src = GR_ANY_COUNT,
                                .n_out = 1,
                                .infer = bytes_infer,
                                .kernels = fault_kernels };

/* ---- one plan of nodes given as letters ---- */

typedef struct bench {
    fake_world w;
    gr_plan *p;
    gr_bases bases;
    gr_fault fault;
    char input[40];
    void *inputs[1];
    gr_run run;
} bench;

static void bench_init(bench *b, const char *nodes)
{
    gr_plan_config c = { .device = &fake.base };
    gr_value *in;

    *b = (bench){ .p = NULL };
    fake_setup();
    fake_world_init(&b->w);
    in = gr_input(b->w.g, "in0");
    for (const char *s = nodes; *s; s++)
        fake_add(b->w.g,
                 *s == 'h'   ? &host_op
                 : *s == 'f' ? &fault_op
                             : &device_op,
                 "net.c:1", (fake_attr){ 0 }, &in, 1);
    GR_CHECK_OK(gr_plan_create(&b->p, b->w.g, &c));
    GR_CHECK_OK(fake_ops.alloc(&fake.base, gr_plan_arena_bytes(b->p), &b->bases.arena));
    b->bases.fault = &b->fault;
    GR_CHECK_OK(gr_plan_bind(b->p, &b->bases));
    b->inputs[0] = b->input;
    b->run.inputs = b->inputs;
}

static void bench_fini(bench *b)
{
    gr_plan_destroy(b->p);
    GR_CHECK_EQ(fake.n_recorded, 0); /* nothing recorded outlives its plan */
    fake_ops.free(&fake.base, b->bases.arena);
    gr_text_fini(&fake.trail);
    fake_world_fini(&b->w);
}

static void check_run(bench *b, const char *want)
{
    GR_CHECK_OK(gr_plan_run(b->p, &b->run));
    check_trail(want);
}

static void test_segments(void)
{
    static const struct {
        const char *nodes, *second, *third;
    } cases[] = {
        { "aaa", "[aaa]!", "!" },     { "aahaa", "[aa]!h[aa]!", "!h!" },
        { "haah", "h[aa]!h", "h!h" }, { "ahha", "[a]!hh[a]!", "!hh!" },
        { "hh", "hh", "hh" },         { "", "", "" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bench b;

        bench_init(&b, cases[i].nodes);
        check_run(&b, cases[i].nodes);
        check_run(&b, cases[i].second);
        check_run(&b, cases[i].third);
        check_run(&b, cases[i].third);
        bench_fini(&b);
    }
}

static void test_bind_starts_again(void)
{
    bench b;

    bench_init(&b, "aha");
    check_run(&b, "aha");
    check_run(&b, "[a]!h[a]!");
    GR_CHECK_EQ(fake.n_recorded, 2);
    GR_CHECK_OK(gr_plan_bind(b.p, &b.bases));
    GR_CHECK_EQ(fake.n_recorded, 0);
    check_run(&b, "aha");
    check_run(&b, "[a]!h[a]!");
    bench_fini(&b);
}

static void test_inputs_may_not_move(void)
{
    bench b;
    char elsewhere[40];

    bench_init(&b, "a");
    check_run(&b, "a");
    b.inputs[0] = elsewhere;
    GR_CHECK_FAILS(gr_plan_run(b.p, &b.run), GR_ERR_ARG, "input 'in0' moved");
    check_trail("");
    b.inputs[0] = b.input;
    check_run(&b, "[a]!");
    b.inputs[0] = elsewhere;
    GR_CHECK_FAILS(gr_plan_run(b.p, &b.run), GR_ERR_ARG, "'recorder'");
    GR_CHECK_OK(gr_plan_bind(b.p, &b.bases));
    check_run(&b, "a");
    bench_fini(&b);
}

/* A segment that cannot be recorded runs plainly, in this run and in all later ones. */
static void test_failing_capture(void)
{
    bench b;

    bench_init(&b, "aaha");
    fake.fail_begin = true;
    check_run(&b, "aaha");
    check_run(&b, "aaha");
    fake.fail_begin = false;
    check_run(&b, "aaha");
    bench_fini(&b);

    bench_init(&b, "aaha");
    fake.fail_end = true;
    check_run(&b, "aaha");
    check_run(&b, "[aa]aah[a]a");
    check_run(&b, "aaha");
    bench_fini(&b);

    bench_init(&b, "aaha");
    check_run(&b, "aaha");
    refuse_recording = true;
    check_run(&b, "[]aah[]a");
    refuse_recording = false;
    check_run(&b, "aaha");
    bench_fini(&b);
}

static void test_failing_launch(void)
{
    bench b;

    bench_init(&b, "aha");
    check_run(&b, "aha");
    fake.fail_launch = true;
    GR_CHECK_FAILS(gr_plan_run(b.p, &b.run), GR_ERR_DEVICE,
                   "recorded nodes 0 to 0: the device fell off");
    check_trail("[a]");
    fake.fail_launch = false;
    check_run(&b, "!h[a]!"); /* what was recorded stays, the rest follows */
    check_run(&b, "!h!");
    bench_fini(&b);
}

/* Elsewhere than on the host a fault is known only after a sync: the run cannot ask. */
static void test_fault_waits_for_sync(void)
{
    bench b;

    bench_init(&b, "f");
    check_run(&b, "a");
    GR_CHECK_FAILS(gr_plan_check_fault(b.p, &b.fault), GR_ERR_ARG, "fault (net.c:1): index");
    bench_fini(&b);
}

static gr_status never_polled(void *arg)
{
    (void)arg;
    return gr_fail(GR_ERR_PEER, "polled");
}

static void test_no_poll_off_the_host(void)
{
    bench b;

    bench_init(&b, "a");
    b.run.poll = never_polled;
    check_run(&b, "a");
    check_run(&b, "[a]!");
    bench_fini(&b);
}

static gr_status plan_body(void *arg)
{
    gr_plan_config c = { .device = &fake.base };
    gr_plan *p = NULL;
    gr_status st = gr_plan_create(&p, ((const bench *)arg)->w.g, &c);

    gr_plan_destroy(p);
    return st;
}

static void test_out_of_memory(void)
{
    bench b;

    bench_init(&b, "aahaa");
    GR_CHECK(gr_alloc_fail_each(plan_body, &b) > 2);
    bench_fini(&b);
}

int main(void)
{
    test_segments();
    test_bind_starts_again();
    test_inputs_may_not_move();
    test_failing_capture();
    test_failing_launch();
    test_fault_waits_for_sync();
    test_no_poll_off_the_host();
    test_out_of_memory();
    return 0;
}
