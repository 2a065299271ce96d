/*
 * What the driver's cases of map do not show: result types, dumps, what gradients read,
 * programs that are too long, gradients of gradients, threads.
 */
#include "alloc_fail.h"
#include "check.h"
#include "op/driver.h"

#include "gradus/ops.h"
#include "op/map/program.h"

#define N_FEEDS 8

static gr_graph *make_graph(gr_vars **vars)
{
    static gr_named feeds[N_FEEDS];
    static const char *const names[N_FEEDS] = { "f32", "f64", "bf16", "f16",
                                                "i32", "i64", "u8",   "bool" };
    gr_graph *g;

    for (int i = 0; i < N_FEEDS; i++)
        feeds[i] = (gr_named){ .name = names[i], .dtype = (gr_dtype)i, .shape = GR_SHAPE(4) };
    GR_CHECK_OK(gr_vars_create(vars));
    GR_CHECK_OK(gr_graph_create(&g, *vars, true, feeds, N_FEEDS));
    return g;
}

/* Rows and columns in the order of GR_DTYPE_MAP. */
static void check_promotion(void)
{
    static const gr_dtype want[N_FEEDS][N_FEEDS] = {
        { GR_F32, GR_F64, GR_F32, GR_F32, GR_F32, GR_F32, GR_F32, GR_F32 },
        { GR_F64, GR_F64, GR_F64, GR_F64, GR_F64, GR_F64, GR_F64, GR_F64 },
        { GR_F32, GR_F64, GR_BF16, GR_F32, GR_BF16, GR_BF16, GR_BF16, GR_BF16 },
        { GR_F32, GR_F64, GR_F32, GR_F16, GR_F16, GR_F16, GR_F16, GR_F16 },
        { GR_F32, GR_F64, GR_BF16, GR_F16, GR_I32, GR_I64, GR_I32, GR_I32 },
        { GR_F32, GR_F64, GR_BF16, GR_F16, GR_I64, GR_I64, GR_I64, GR_I64 },
        { GR_F32, GR_F64, GR_BF16, GR_F16, GR_I32, GR_I64, GR_U8, GR_U8 },
        { GR_F32, GR_F64, GR_BF16, GR_F16, GR_I32, GR_I64, GR_U8, GR_BOOL },
    };
    gr_vars *vars;
    gr_graph *g = make_graph(&vars);

    for (int i = 0; i < N_FEEDS; i++)
        for (int j = 0; j < N_FEEDS; j++) {
            gr_value *a = gr_input(g, gr_dtype_name((gr_dtype)i));
            gr_value *b = gr_input(g, gr_dtype_name((gr_dtype)j));

            GR_CHECK_EQ(gr_value_dtype(gr_add(g, a, b)), want[i][j]);
            GR_CHECK_EQ(gr_value_dtype(gr_map2_at(GR_HERE, g, "lt", a, b)), GR_BOOL);
        }
    GR_CHECK_OK(gr_graph_status(g));
    gr_graph_destroy(g);
    gr_vars_destroy(vars);
}

static void check_compute_type(void)
{
    gr_vars *vars;
    gr_graph *g = make_graph(&vars);
    gr_value *f = gr_input(g, "f32"), *d = gr_input(g, "f64"), *i = gr_input(g, "i32");
    gr_value *h = gr_input(g, "bf16");

    GR_CHECK_EQ(gr_map_compute_dtype(gr_add(g, f, h)->node), GR_F32);
    GR_CHECK_EQ(gr_map_compute_dtype(gr_add(g, h, h)->node), GR_F32);
    GR_CHECK_EQ(gr_map_compute_dtype(gr_map2_at(GR_HERE, g, "eq", d, f)->node), GR_F64);
    GR_CHECK_EQ(gr_map_compute_dtype(gr_cast(g, f, GR_F64)->node), GR_F64);
    GR_CHECK_EQ(gr_map_compute_dtype(gr_add(g, i, i)->node), GR_I64);
    GR_CHECK_EQ(gr_map_compute_dtype(gr_cast(g, i, GR_BF16)->node), GR_F32);
    GR_CHECK(gr_cast(g, f, GR_F32) == f);
    GR_CHECK(gr_broadcast(g, f, GR_SHAPE(4)) == f);
    gr_graph_destroy(g);
    gr_vars_destroy(vars);
}

static void check_retype_and_print(void)
{
    gr_vars *vars;
    gr_graph *g = make_graph(&vars);
    gr_value *f = gr_input(g, "f32");
    gr_value *v = gr_mul_k(g, f, 2.5), *test = gr_map2_at(GR_HERE, g, "lt", f, f);
    gr_text text = GR_TEXT_INIT;
    const gr_program *p = (const gr_program *)gr_op_map.retype(g, v->node, GR_BF16);

    GR_CHECK(p && p->dtype == GR_BF16 && p->n_instr == 2);
    GR_CHECK_EQ(((const gr_program *)v->node->attr)->dtype, GR_F32);
    p = (const gr_program *)gr_op_map.retype(g, test->node, GR_BF16);
    GR_CHECK(p && p->dtype == GR_BOOL);
    gr_op_map.print(v->node, &text);
    gr_op_map.print(gr_cast(g, f, GR_F16)->node, &text);
    GR_CHECK_STR(gr_text_str(&text), " const(2.5) mul(r0, r1) copy");
    gr_text_fini(&text);
    gr_graph_destroy(g);
    gr_vars_destroy(vars);
}

static bool reads(const gr_value *v, const gr_value *src)
{
    for (int i = 0; i < v->node->n_src; i++)
        if (v->node->src[i] == src)
            return true;
    return false;
}

/* A gradient written through the result leaves the source free to be forgotten. */
static void check_what_gradients_read(void)
{
    static const char *const by_result[] = { "relu", "tanh", "sigmoid", "exp", "sqrt" };
    gr_vars *vars;
    gr_graph *g = make_graph(&vars);
    gr_value *x = gr_input(g, "f32"), *d = gr_fill(g, GR_F32, GR_SHAPE(4), 1), *y, *dx[2];

    for (int i = 0; i < DRIVER_COUNT(by_result); i++) {
        y = gr_map1_at(GR_HERE, g, by_result[i], x);
        dx[0] = NULL;
        GR_CHECK_OK(gr_op_map.grad(g, y->node, &d, dx));
        GR_CHECK(dx[0] && reads(dx[0], y) && reads(dx[0], d) && !reads(dx[0], x));
        GR_CHECK_EQ(dx[0]->node->n_src, 2);
    }
    y = gr_square(g, x);
    GR_CHECK_OK(gr_op_map.grad(g, y->node, &d, dx));
    GR_CHECK(reads(dx[0], x) && !reads(dx[0], y));
    y = gr_add(g, x, gr_neg(g, x));
    dx[1] = NULL;
    GR_CHECK_OK(gr_op_map.grad(g, y->node, &d, dx));
    GR_CHECK(dx[0] == d && dx[1] == d); /* no node, no copy */
    y = gr_map1_at(GR_HERE, g, "sign", x);
    dx[0] = NULL;
    GR_CHECK_OK(gr_op_map.grad(g, y->node, &d, dx));
    GR_CHECK(!dx[0]);
    gr_graph_destroy(g);
    gr_vars_destroy(vars);
}

/* 64 multiplications need more than 64 instructions backwards. */
static void check_too_long(void)
{
    gr_vars *vars;
    gr_graph *g = make_graph(&vars);
    gr_value *x = gr_input(g, "f32"), *d = gr_fill(g, GR_F32, GR_SHAPE(4), 1), *dx = NULL, *y;
    gr_program p = { .shape = GR_SHAPE(4), .n_src = 1, .n_instr = GR_MAP_MAX_INSTR };

    for (int i = 0; i < p.n_instr; i++)
        p.instr[i] = (gr_instr){ GR_FN_MUL, { (int16_t)i, 0, -1 }, 0 };
    y = gr_map_add(g, GR_HERE, &x, &p);
    GR_CHECK_FAILS(gr_op_map.grad(g, y->node, &d, &dx), GR_ERR_ARG, "needs more than 64");
    gr_graph_destroy(g);
    gr_vars_destroy(vars);
}

/* tanh'' = -2 y (1 - y^2): the gradient's program is differentiated in its turn. */
static gr_value *build_tanh_grad(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    gr_value *y = gr_tanh(g, src[0]), *dx = NULL;

    (void)c;
    GR_CHECK_OK(gr_op_map.grad(g, y->node, &src[1], &dx));
    return dx;
}

static void check_second_order(void)
{
    static const driver_case twice = { .name = "twice",
                                       .op = "map",
                                       .build = build_tanh_grad,
                                       .n_src = 2,
                                       .src = { DRIVER_F32(9), DRIVER_F32(9) } };
    static const driver_how how = { .only = "reference", .n_threads = 1, .poison = 0xff };
    driver_world w;
    driver_eval *e;
    gr_value *ones, *d_src[2] = { NULL, NULL };

    driver_world_init(&w, &twice, GR_F64);
    GR_CHECK(w.node && w.node->n_src == 2);
    ones = gr_fill(w.graph, GR_F64, GR_SHAPE(9), 1);
    GR_CHECK_OK(gr_op_map.grad(w.graph, w.node, &ones, d_src));
    GR_CHECK_OK(driver_eval_run(&e, &w, &how));
    for (int i = 0; i < 9; i++) {
        double y = tanh(driver_get(GR_F64, w.feed[0].mem, i));
        double g = driver_get(GR_F64, w.feed[1].mem, i);

        for (int s = 0; s < 2; s++) {
            bool is_y = w.node->src[s]->node->op == &gr_op_map;
            double got = driver_get(GR_F64, driver_eval_get(e, d_src[s]), i);

            GR_CHECK_NEAR(got, is_y ? -2 * g * y : 1 - y * y, 1e-12);
        }
    }
    driver_eval_destroy(e);
    driver_world_fini(&w);
}

static gr_status build_and_prepare(gr_graph *g, const gr_kernel *k)
{
    gr_value *x = gr_input(g, "f32"), *y = gr_tanh(g, gr_mul_k(g, x, 2)), *dx = NULL;
    gr_prepare p = { .n_threads = 2 };

    GR_TRY(gr_graph_status(g));
    GR_TRY(gr_op_map.grad(g, y->node, &x, &dx));
    p.node = dx->node;
    if (k->prepare)
        GR_TRY(k->prepare(&p));
    if (k->release)
        k->release(p.data);
    return GR_OK;
}

static gr_status nomem_body(void *arg)
{
    const gr_named feed = { .name = "f32", .dtype = GR_F32, .shape = GR_SHAPE(4) };
    gr_vars *vars = NULL;
    gr_graph *g = NULL;
    gr_status st;

    GR_TRY_GOTO(st, gr_vars_create(&vars), done);
    GR_TRY_GOTO(st, gr_graph_create(&g, vars, true, &feed, 1), done);
    st = build_and_prepare(g, (const gr_kernel *)arg);

done:
    gr_graph_destroy(g);
    gr_vars_destroy(vars);
    return st;
}

static void check_out_of_memory(void)
{
    for (const gr_kernel *k = gr_map_cpu; k->name; k++) {
        gr_kernel copy = *k;

        GR_CHECK(gr_alloc_fail_each(nomem_body, &copy) > 0);
    }
}

int main(void)
{
    check_out_of_memory();
    check_promotion();
    check_compute_type();
    check_retype_and_print();
    check_what_gradients_read();
    check_too_long();
    check_second_order();
    return 0;
}
