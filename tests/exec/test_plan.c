/* Plans: what runs, with which addresses, and what a failure says. */
#include "exec/plan.h"

#include "alloc_fail.h"
#include "exec/fake.h"

static gr_device *device;

static gr_plan_config config(void)
{
    return (gr_plan_config){ .device = device, .n_threads = 1 };
}

static void make_plan(gr_plan **p, const fake_world *w)
{
    gr_plan_config c = config();

    GR_CHECK_OK(gr_plan_create(p, w->g, &c));
}

static void *get_memory(size_t n_bytes)
{
    void *mem;

    GR_CHECK_OK(device->ops->alloc(device, n_bytes, &mem));
    return mem;
}

static void give_back(void *mem)
{
    device->ops->free(device, mem);
}

typedef struct places {
    gr_bases bases;
    gr_scalars scalars;
    gr_fault fault;
} places;

static void places_init(places *b, const gr_plan *p, const fake_world *w)
{
    *b = (places){ .fault = { 0 } };
    b->bases = (gr_bases){ .arena = get_memory(gr_plan_arena_bytes(p)),
                           .state = get_memory(w->vars->n_bytes),
                           .exchange = get_memory(w->exchange_bytes),
                           .scalars = &b->scalars,
                           .fault = &b->fault };
}

static void places_fini(places *b)
{
    give_back(b->bases.arena);
    give_back(b->bases.state);
    give_back(b->bases.exchange);
}

/* ---- random graphs: a plan computes what the nodes compute in their own memory ---- */

static void fill(uint8_t *p, size_t n, uint8_t from)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)(from + 3 * i);
}

static void fill_state(const fake_world *w, void *state)
{
    fill((uint8_t *)state, w->vars->n_bytes, 17);
}

/* Runs the nodes in the graph's order; mem[id] is the memory of root value id alone. */
static void run_alone(const fake_world *w, void **mem)
{
    for (int i = 0; i < w->g->n_nodes; i++) {
        const gr_node *n = w->g->nodes[i];
        void *src[8], *out[8], *work;
        gr_launch l = { .node = n, .src = src, .out = out };

        if (!n->op->kernels)
            continue;
        for (int k = 0; k < n->n_src; k++)
            src[k] = n->src[k]->space == GR_SPACE_NONE ? NULL : mem[gr_value_root(n->src[k])->id];
        for (int k = 0; k < n->n_out; k++)
            out[k] = n->out[k].space == GR_SPACE_NONE ? NULL : mem[gr_value_root(&n->out[k])->id];
        work = n->op == &fake_work || n->op == &fake_aside
                   ? get_memory(((const fake_attr *)n->attr)->work_bytes)
                   : NULL;
        l.work = work;
        GR_CHECK_OK(n->op->kernels->run(&l));
        give_back(work);
    }
}

static void **make_alone(const fake_world *w, const gr_bases *b, void *const *inputs)
{
    void **mem = (void **)calloc((size_t)w->g->n_values, sizeof(void *));
    int n_inputs = 0;

    GR_CHECK(mem);
    for (int i = 0; i < w->g->n_values; i++) {
        const gr_value *v = w->g->values[i];
        size_t n_bytes = gr_value_bytes(v);

        if (v->alias)
            continue;
        mem[i] = get_memory(n_bytes);
        if (v->space == GR_SPACE_INPUT)
            memcpy(mem[i], inputs[n_inputs++], n_bytes);
        if (v->var && n_bytes > 0)
            memcpy(mem[i], (char *)b->state + v->var->offset, n_bytes);
    }
    return mem;
}

static void check_same(const fake_world *w, const gr_plan *p, const gr_bases *b, void **mem)
{
    for (int i = 0; i < w->g->n_outputs; i++) {
        const gr_value *v = w->g->outputs[i].value;
        const void *got = gr_plan_address(p, v);

        GR_CHECK(got != NULL);
        GR_CHECK(memcmp(got, mem[gr_value_root(v)->id], gr_value_bytes(v)) == 0);
    }
    for (int i = 0; i < w->g->n_values; i++) {
        const gr_value *v = w->g->values[i];

        if (v->var && !v->alias && gr_value_bytes(v) > 0)
            GR_CHECK(memcmp((char *)b->state + v->var->offset, mem[i], gr_value_bytes(v)) == 0);
    }
}

/* One run with these inputs against the same nodes, each in memory of its own. */
static void run_and_compare(const fake_world *w, gr_plan *p, const gr_bases *b, uint8_t from)
{
    uint8_t in[2][40];
    void *inputs[] = { in[0], in[1] };
    gr_run r = { .inputs = inputs };
    void **mem;

    fill(in[0], sizeof(in[0]), from);
    fill(in[1], sizeof(in[1]), (uint8_t)(from + 100));
    mem = make_alone(w, b, inputs);
    run_alone(w, mem);
    GR_CHECK_OK(gr_plan_run(p, &r));
    check_same(w, p, b, mem);
    for (int i = 0; i < w->g->n_values; i++)
        give_back(mem[i]);
    free((void *)mem);
}

static void test_random(uint32_t seed)
{
    fake_world w;
    gr_plan *p;
    places first, second;

    fake_world_random(&w, seed, 80);
    make_plan(&p, &w);
    GR_CHECK_EQ(gr_plan_n_inputs(p), 2);
    GR_CHECK_STR(gr_plan_input(p, 1)->name, "in1");
    places_init(&first, p, &w);
    fill_state(&w, first.bases.state);
    GR_CHECK_OK(gr_plan_bind(p, &first.bases));
    run_and_compare(&w, p, &first.bases, 1);
    run_and_compare(&w, p, &first.bases, 2);
    places_init(&second, p, &w); /* everything moves */
    fill_state(&w, second.bases.state);
    GR_CHECK_OK(gr_plan_bind(p, &second.bases));
    places_fini(&first); /* and the old places are gone, which ASan watches */
    run_and_compare(&w, p, &second.bases, 3);
    gr_plan_destroy(p);
    places_fini(&second);
    fake_world_fini(&w);
}

/* ---- what a run does not do ---- */

typedef struct polled {
    int n;
    gr_status st;
} polled;

static gr_status count_poll(void *arg)
{
    polled *p = (polled *)arg;

    p->n++;
    return p->st == GR_OK ? GR_OK : gr_fail(p->st, "rank 3 is gone");
}

static void test_no_allocation_and_polls(void)
{
    fake_world w;
    gr_plan *p;
    places b;
    uint8_t in[2][40] = { { 0 } };
    void *inputs[] = { in[0], in[1] };
    polled polls = { 0, GR_OK };
    gr_run r = { .inputs = inputs, .poll = count_poll, .poll_arg = &polls };
    int n_running = 0;
    long before;

    fake_world_random(&w, 5, 80);
    for (int i = 0; i < w.g->n_nodes; i++)
        n_running += w.g->nodes[i]->op->kernels != NULL;
    make_plan(&p, &w);
    places_init(&b, p, &w);
    GR_CHECK_OK(gr_plan_bind(p, &b.bases));
    before = gr_alloc_count();
    GR_CHECK_OK(gr_plan_run(p, &r));
    GR_CHECK_OK(gr_plan_run(p, &r));
    GR_CHECK_EQ(gr_alloc_count() - before, 0);
    GR_CHECK_EQ(polls.n, 2 * n_running);
    polls.st = GR_ERR_PEER;
    GR_CHECK_FAILS(gr_plan_run(p, &r), GR_ERR_PEER, "rank 3 is gone");
    GR_CHECK_EQ(polls.n, 2 * n_running + 1);
    gr_plan_destroy(p);
    places_fini(&b);
    fake_world_fini(&w);
}

/* ---- kernels: choice, preparation, failure ---- */

static int n_prepared, n_released;
static gr_status prepare_status = GR_OK;
static gr_status run_status = GR_OK;

static gr_status count_prepare(gr_prepare *p)
{
    if (prepare_status != GR_OK && n_prepared == 1)
        return gr_fail(prepare_status, "no descriptor");
    GR_CHECK(p->device == device && p->n_threads == 1);
    n_prepared++;
    p->data = &n_prepared;
    return GR_OK;
}

static void count_release(void *data)
{
    GR_CHECK(data == &n_prepared);
    n_released++;
}

static gr_status prepared_run(const gr_launch *l)
{
    GR_CHECK(l->data == &n_prepared);
    if (run_status != GR_OK)
        return gr_fail(run_status, "it broke");
    memset(l->out[0], 1, gr_value_bytes(&l->node->out[0]));
    return GR_OK;
}

static gr_status fault_run(const gr_launch *l)
{
    *l->fault =
        (gr_fault){ .is_set = 1, .node_id = l->node->id, .value = -4, .limit = 1000, .row = 12 };
    return GR_OK;
}

static const char *never(const gr_node *n)
{
    (void)n;
    return "it is Monday";
}

static gr_status bytes_infer(gr_node *n)
{
    n->out[0].shape = GR_SHAPE(8);
    n->out[0].dtype = GR_U8;
    return GR_OK;
}

static const gr_kernel prepared_kernels[] = {
    { .name = "fancy", .reject = never, .run = fault_run },
    { .name = "plain", .prepare = count_prepare, .run = prepared_run, .release = count_release },
    { 0 }
};
static const gr_kernel refusing_kernels[] = { { .name = "shy", .reject = never, .run = fault_run },
                                              { 0 } };
static const gr_kernel fault_kernels[] = { { .name = "lookup", .run = fault_run }, { 0 } };
static const gr_op prepared_op = {
    .name = "prepared", .n_out = 1, .infer = bytes_infer, .kernels = prepared_kernels
};
static const gr_op refusing_op = {
    .name = "refusing", .n_out = 1, .infer = bytes_infer, .kernels = refusing_kernels
};
static const gr_op lookup_op = {
    .name = "lookup", .n_out = 1, .infer = bytes_infer, .kernels = fault_kernels
};

static gr_value *add_plain(fake_world *w, const gr_op *op, const char *site)
{
    return fake_add(w->g, op, site, (fake_attr){ 0 }, NULL, 0);
}

static void test_prepare_and_failures(void)
{
    fake_world w;
    gr_plan *p;
    gr_plan_config c = config();
    places b;
    gr_run r = { .inputs = NULL };

    fake_world_init(&w);
    GR_CHECK_OK(gr_vars_seal(w.vars));
    for (int i = 0; i < 3; i++)
        add_plain(&w, &prepared_op, "net.c:12");

    prepare_status = GR_ERR_DEVICE;
    GR_CHECK_FAILS(gr_plan_create(&p, w.g, &c), GR_ERR_DEVICE,
                   "prepared (node 1, net.c:12): no descriptor");
    GR_CHECK_EQ(n_released, 1); /* the one that was prepared before */
    prepare_status = GR_OK;
    n_prepared = n_released = 0;

    make_plan(&p, &w);
    GR_CHECK_EQ(n_prepared, 3);
    places_init(&b, p, &w);
    GR_CHECK_OK(gr_plan_bind(p, &b.bases));
    GR_CHECK_OK(gr_plan_run(p, &r));
    run_status = GR_ERR_IO;
    GR_CHECK_FAILS(gr_plan_run(p, &r), GR_ERR_IO, "prepared (node 0, net.c:12): it broke");
    run_status = GR_OK;
    GR_CHECK_OK(gr_plan_run(p, &r));
    gr_plan_destroy(p);
    GR_CHECK_EQ(n_released, 3);
    places_fini(&b);
    fake_world_fini(&w);
}

static void test_no_kernel(void)
{
    fake_world w;
    gr_plan *p;
    gr_plan_config c = config();
    const gr_kernel_set none[] = { { NULL, NULL } };
    const gr_kernel_set mine[] = { { "refusing", fault_kernels }, { NULL, NULL } };

    fake_world_init(&w);
    add_plain(&w, &refusing_op, "net.c:15");
    GR_CHECK_FAILS(gr_plan_create(&p, w.g, &c), GR_ERR_ARG, "refusing (node 0, net.c:15)");
    GR_CHECK_FAILS(gr_plan_create(&p, w.g, &c), GR_ERR_ARG, "it is Monday");
    c.kernels = none;
    GR_CHECK_FAILS(gr_plan_create(&p, w.g, &c), GR_ERR_ARG, "refusing (node 0, net.c:15)");
    c.kernels = mine;
    GR_CHECK_OK(gr_plan_create(&p, w.g, &c));
    gr_plan_destroy(p);
    fake_world_fini(&w);
}

static void test_fault(void)
{
    fake_world w;
    gr_plan *p;
    places b;
    gr_run r = { .inputs = NULL };

    fake_world_init(&w);
    GR_CHECK_OK(gr_vars_seal(w.vars));
    add_plain(&w, &prepared_op, "net.c:12");
    add_plain(&w, &lookup_op, "net.c:20");
    make_plan(&p, &w);
    places_init(&b, p, &w);
    GR_CHECK_OK(gr_plan_bind(p, &b.bases));
    GR_CHECK_OK(gr_plan_check_fault(p, &b.fault));
    GR_CHECK_FAILS(gr_plan_run(p, &r), GR_ERR_ARG,
                   "lookup (net.c:20): index -4 at row 12 is outside [0, 1000)");
    b.fault = (gr_fault){ .is_set = 1, .node_id = 99 };
    GR_CHECK_FAILS(gr_plan_check_fault(p, &b.fault), GR_ERR_ARG, "unknown operator");
    GR_CHECK_OK(gr_plan_check_fault(p, NULL));
    gr_plan_destroy(p);
    places_fini(&b);
    fake_world_fini(&w);
}

/* ---- binding and reading ---- */

static void test_bind_needs_bases(void)
{
    fake_world w;
    gr_plan *p;
    gr_bases b = { .arena = NULL };
    gr_var want = { .name = "v", .kind = GR_VAR_BUFFER, .dtype = GR_U8, .shape = GR_SHAPE(8) };
    gr_var *var;
    gr_value *v;

    fake_world_init(&w);
    GR_CHECK_OK(gr_vars_get(w.vars, &want, &var));
    v = fake_source(w.g, "a.c:1", 8);
    fake_node(w.g, &fake_work, "b.c:2", 8, v, gr_graph_var(w.g, "v", var));
    GR_CHECK_OK(gr_vars_seal(w.vars));
    make_plan(&p, &w);
    GR_CHECK_FAILS(gr_plan_bind(p, &b), GR_ERR_ARG, "work (node 0, a.c:1)");
    b.arena = get_memory(gr_plan_arena_bytes(p));
    GR_CHECK_FAILS(gr_plan_bind(p, &b), GR_ERR_ARG, "work (node 2, b.c:2)");
    b.state = get_memory(w.vars->n_bytes);
    GR_CHECK_OK(gr_plan_bind(p, &b));
    gr_plan_destroy(p);
    give_back(b.arena);
    give_back(b.state);
    fake_world_fini(&w);
}

/* An output that is a view of an input lies where the last run's input lay. */
static void test_addresses(void)
{
    fake_world w;
    gr_plan *p;
    places b;
    gr_value *in, *view, *token;
    char first[40], second[40];
    void *inputs[1] = { first };
    gr_run r = { .inputs = inputs };

    fake_world_init(&w);
    GR_CHECK_OK(gr_vars_seal(w.vars));
    in = gr_input(w.g, "in0");
    view = fake_node(w.g, &fake_view, "view", 0, in);
    token = fake_node(w.g, &fake_start, "start", 0, fake_source(w.g, "a", 8));
    gr_output(w.g, "view", view);
    make_plan(&p, &w);
    places_init(&b, p, &w);
    GR_CHECK_OK(gr_plan_bind(p, &b.bases));
    GR_CHECK(gr_plan_address(p, view) == NULL);
    GR_CHECK_OK(gr_plan_run(p, &r));
    GR_CHECK(gr_plan_address(p, view) == first);
    inputs[0] = second;
    GR_CHECK_OK(gr_plan_run(p, &r));
    GR_CHECK(gr_plan_address(p, view) == second);
    GR_CHECK(gr_plan_address(p, token) == NULL);
    gr_plan_destroy(p);
    places_fini(&b);
    fake_world_fini(&w);
}

static void test_print(void)
{
    fake_world w;
    gr_plan *p;
    gr_text t = GR_TEXT_INIT;
    gr_value *a;

    fake_world_init(&w);
    gr_input(w.g, "in0");
    a = fake_add(w.g, &fake_work, "net.c:3", (fake_attr){ 100, 200 }, NULL, 0);
    fake_node(w.g, &fake_view, "net.c:4", 0, a);
    make_plan(&p, &w);
    gr_plan_print(p, &t);
    GR_CHECK_OK(gr_text_status(&t));
    GR_CHECK(strstr(gr_text_str(&t), "%0 input 40 bytes"));
    GR_CHECK(strstr(gr_text_str(&t), "work arena+0 256 bytes  (net.c:3)"));
    GR_CHECK(strstr(gr_text_str(&t), "%2 = %1 arena+256 100 bytes  (net.c:4)"));
    GR_CHECK(strstr(gr_text_str(&t), "arena: 384 bytes; at least 384 are alive at once; "
                                     "384 without sharing\n"));
    gr_text_fini(&t);
    gr_plan_destroy(p);
    fake_world_fini(&w);
}

/* ---- out of memory ---- */

static gr_status plan_body(void *arg)
{
    const fake_world *w = (const fake_world *)arg;
    gr_plan_config c = config();
    gr_plan *p = NULL;
    gr_status st = gr_plan_create(&p, w->g, &c);

    gr_plan_destroy(p);
    return st;
}

static void test_out_of_memory(void)
{
    fake_world w;

    fake_world_random(&w, 7, 60);
    GR_CHECK(gr_alloc_fail_each(plan_body, &w) > 5);
    fake_world_fini(&w);
}

int main(void)
{
    GR_CHECK_OK(gr_backend_null.open(&device, 0));
    for (uint32_t seed = 0; seed < 200; seed++)
        test_random(seed);
    test_no_allocation_and_polls();
    test_prepare_and_failures();
    test_no_kernel();
    test_fault();
    test_bind_needs_bases();
    test_addresses();
    test_print();
    test_out_of_memory();
    gr_plan_destroy(NULL);
    device->ops->close(device);
    return 0;
}
