/* Fake operators and random graphs; see fake.h. */
#include "exec/fake.h"

#include "check.h"

/* ---- operators ---- */

static void set_bytes(gr_value *v, int64_t n)
{
    v->shape = GR_SHAPE(n);
    v->dtype = GR_U8;
}

static gr_status work_infer(gr_node *n)
{
    set_bytes(&n->out[0], ((const fake_attr *)n->attr)->n);
    return GR_OK;
}

static gr_status alias_infer(gr_node *n)
{
    n->out[0].shape = n->src[0]->shape;
    n->out[0].dtype = n->src[0]->dtype;
    n->out[0].alias = n->src[0];
    n->out[0].space = n->src[0]->space;
    return GR_OK;
}

static gr_status write_infer(gr_node *n)
{
    n->out[0].var = n->src[0]->var;
    return alias_infer(n);
}

static gr_status start_infer(gr_node *n)
{
    set_bytes(&n->out[0], 0);
    n->out[0].space = GR_SPACE_NONE;
    return GR_OK;
}

static gr_status finish_infer(gr_node *n)
{
    for (int i = 0; i < n->n_out; i++) {
        n->out[i].shape = n->src[i + 1]->shape;
        n->out[i].dtype = n->src[i + 1]->dtype;
        n->out[i].alias = n->src[i + 1];
        n->out[i].space = n->src[i + 1]->space;
        n->out[i].var = n->src[i + 1]->var;
    }
    return GR_OK;
}

static uint8_t mix_sources(const gr_launch *l)
{
    uint32_t h = l->node->id * 2654435761u;

    for (int i = 0; i < l->node->n_src; i++) {
        const uint8_t *p = (const uint8_t *)l->src[i];

        for (size_t k = 0; k < gr_value_bytes(l->node->src[i]); k++)
            h = (h ^ p[k]) * 16777619u + (uint32_t)i;
    }
    return (uint8_t)(h >> 11);
}

static void change(uint8_t *p, size_t n, uint8_t by)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)(p[i] * 5u + by + (uint8_t)i);
}

static gr_status work_run(const gr_launch *l)
{
    uint8_t h = mix_sources(l);

    if (l->work)
        memset(l->work, 0xEE, ((const fake_attr *)l->node->attr)->work_bytes);
    memset(l->out[0], 0, gr_value_bytes(&l->node->out[0]));
    change((uint8_t *)l->out[0], gr_value_bytes(&l->node->out[0]), h);
    return GR_OK;
}

static gr_status write_run(const gr_launch *l)
{
    GR_CHECK(l->src[0] == l->out[0]);
    change((uint8_t *)l->out[0], gr_value_bytes(&l->node->out[0]), mix_sources(l));
    return GR_OK;
}

static gr_status start_run(const gr_launch *l)
{
    GR_CHECK(l->out[0] == NULL);
    for (int i = 0; i < l->node->n_src; i++)
        change((uint8_t *)l->src[i], gr_value_bytes(l->node->src[i]), 7);
    return GR_OK;
}

static gr_status finish_run(const gr_launch *l)
{
    GR_CHECK(l->src[0] == NULL);
    for (int i = 0; i < l->node->n_out; i++)
        change((uint8_t *)l->out[i], gr_value_bytes(&l->node->out[i]), 11);
    return GR_OK;
}

static size_t work_bytes(const gr_node *n, const void *data)
{
    (void)data;
    return ((const fake_attr *)n->attr)->work_bytes;
}

static const gr_kernel work_kernels[] = {
    { .name = "work", .workspace = work_bytes, .run = work_run }, { 0 }
};
static const gr_kernel write_kernels[] = { { .name = "write", .run = write_run }, { 0 } };
static const gr_kernel start_kernels[] = { { .name = "start", .run = start_run }, { 0 } };
static const gr_kernel finish_kernels[] = { { .name = "finish", .run = finish_run }, { 0 } };

const gr_op fake_work = {
    .name = "work", .n_src = GR_ANY_COUNT, .n_out = 1, .infer = work_infer, .kernels = work_kernels
};
const gr_op fake_aside = { .name = "aside",
                           .n_src = GR_ANY_COUNT,
                           .n_out = 1,
                           .on_exchange = true,
                           .infer = work_infer,
                           .kernels = work_kernels };
const gr_op fake_view = { .name = "view", .n_src = 1, .n_out = 1, .infer = alias_infer };
const gr_op fake_write = { .name = "write",
                           .n_src = GR_ANY_COUNT,
                           .n_out = 1,
                           .infer = write_infer,
                           .kernels = write_kernels };
const gr_op fake_start = { .name = "start",
                           .n_src = GR_ANY_COUNT,
                           .n_out = 1,
                           .has_effect = true,
                           .place = GR_PLACE_EARLY,
                           .on_exchange = true,
                           .infer = start_infer,
                           .kernels = start_kernels };
const gr_op fake_finish = { .name = "finish",
                            .n_src = GR_ANY_COUNT,
                            .n_out = GR_ANY_COUNT,
                            .has_effect = true,
                            .place = GR_PLACE_LATE,
                            .infer = finish_infer,
                            .kernels = finish_kernels };

gr_value *fake_add(gr_graph *g, const gr_op *op, const char *site, fake_attr a,
                   gr_value *const *src, int n_src)
{
    gr_build b = {
        .op = op, .site = site, .src = src, .n_src = n_src, .attr = &a, .attr_bytes = sizeof(a)
    };
    gr_node *n = gr_graph_add(g, &b);

    GR_CHECK_OK(gr_graph_status(g));
    return &n->out[0];
}

/* ---- worlds ---- */

static const gr_named feeds[] = {
    { .name = "in0", .dtype = GR_U8, .shape = { 1, { 40 } } },
    { .name = "in1", .dtype = GR_U8, .shape = { 1, { 40 } } },
};

void fake_world_init(fake_world *w)
{
    *w = (fake_world){ .g = NULL };
    GR_CHECK_OK(gr_vars_create(&w->vars));
    GR_CHECK_OK(gr_graph_create(&w->g, w->vars, true, feeds, 2));
}

void fake_world_fini(fake_world *w)
{
    gr_graph_destroy(w->g);
    gr_vars_destroy(w->vars);
}

/* ---- random graphs ---- */

#define MAX_USABLE 4096
#define MAX_SRC    3

typedef struct growth {
    fake_world *w;
    gr_mt19937 rng;
    gr_value *usable[MAX_USABLE]; /* values that still hold what they were */
    int n_usable;
    gr_node *open[MAX_USABLE]; /* starts without a finish */
    int n_open;
} growth;

static int pick(growth *r, int n)
{
    GR_CHECK(n > 0);
    return (int)(gr_mt_u32(&r->rng) % (uint32_t)n);
}

static void use_later(growth *r, gr_value *v)
{
    GR_CHECK(r->n_usable < MAX_USABLE);
    r->usable[r->n_usable++] = v;
}

/* Its memory changes: nobody may read the old value from here on. */
static void spoil(growth *r, const gr_value *v)
{
    int kept = 0;

    for (int i = 0; i < r->n_usable; i++)
        if (gr_value_root(r->usable[i]) != gr_value_root(v))
            r->usable[kept++] = r->usable[i];
    r->n_usable = kept;
}

static void add_variables(growth *r, int n)
{
    for (int i = 0; i < n; i++) {
        char name[16];
        gr_var want = { .name = name, .kind = GR_VAR_BUFFER, .dtype = GR_U8 };
        gr_var *var;

        snprintf(name, sizeof(name), "v%d", i);
        want.shape = GR_SHAPE(pick(r, 100));
        GR_CHECK_OK(gr_vars_get(r->w->vars, &want, &var));
        use_later(r, gr_graph_var(r->w->g, "variable", var));
    }
}

static int pick_sources(growth *r, gr_value **src, int most)
{
    int n = r->n_usable > 0 ? pick(r, most + 1) : 0;

    for (int i = 0; i < n; i++)
        src[i] = r->usable[pick(r, r->n_usable)];
    return n;
}

static void grow_work(growth *r)
{
    gr_value *src[MAX_SRC];
    int n = pick_sources(r, src, MAX_SRC);
    fake_attr a = { .n = pick(r, 8) == 0 ? 0 : pick(r, 2000),
                    .work_bytes = pick(r, 3) == 0 ? (size_t)pick(r, 500) : 0 };
    gr_value *v = fake_add(r->w->g, pick(r, 4) == 0 ? &fake_aside : &fake_work, "work", a, src, n);

    if (pick(r, 4) == 0) {
        v->space = GR_SPACE_EXCHANGE;
        v->offset = r->w->exchange_bytes;
        r->w->exchange_bytes += 64 + (size_t)a.n / 64 * 64;
    }
    use_later(r, v);
}

static void grow_write(growth *r)
{
    gr_value *src[MAX_SRC];
    int n = pick_sources(r, src, MAX_SRC);

    if (n == 0)
        return;
    /* Rule 4 of graph.h: one write per variable. */
    if (src[0]->var && src[0]->node->op != &gr_op_variable)
        return;
    spoil(r, src[0]);
    use_later(r, fake_add(r->w->g, &fake_write, "write", (fake_attr){ 0 }, src, n));
}

static void grow_start(growth *r)
{
    gr_value *src[MAX_SRC];
    int n = 0;

    for (int i = 0; i < MAX_SRC && r->n_usable > 0; i++) {
        gr_value *v = r->usable[pick(r, r->n_usable)];

        if (gr_value_root(v)->space == GR_SPACE_INPUT || gr_value_root(v)->var)
            continue;
        spoil(r, v);
        src[n++] = v;
    }
    if (n == 0)
        return;
    r->open[r->n_open++] = fake_add(r->w->g, &fake_start, "start", (fake_attr){ 0 }, src, n)->node;
}

static void grow_finish(growth *r)
{
    gr_value *src[MAX_SRC + 1];
    gr_node *start, *finish;

    if (r->n_open == 0)
        return;
    start = r->open[0];
    memmove(r->open, r->open + 1, (size_t)--r->n_open * sizeof(r->open[0]));
    src[0] = &start->out[0];
    for (int i = 0; i < start->n_src; i++)
        src[i + 1] = start->src[i];
    finish =
        fake_add(r->w->g, &fake_finish, "finish", (fake_attr){ 0 }, src, start->n_src + 1)->node;
    for (int i = 0; i < finish->n_out; i++)
        use_later(r, &finish->out[i]);
}

static void grow_one(growth *r)
{
    gr_graph *g = r->w->g;

    switch (pick(r, 8)) {
    case 0: grow_start(r); break;
    case 1: grow_finish(r); break;
    case 2: grow_write(r); break;
    case 3:
        if (r->n_usable > 0)
            use_later(r, fake_node(g, &fake_view, "view", 0, r->usable[pick(r, r->n_usable)]));
        break;
    default: grow_work(r); break;
    }
    if (g->n_nodes > 1 && pick(r, 6) == 0)
        GR_CHECK_OK(gr_node_after(g, g->nodes[g->n_nodes - 1], g->nodes[pick(r, g->n_nodes - 1)]));
}

void fake_world_random(fake_world *w, uint32_t seed, int n_nodes)
{
    growth *r = (growth *)calloc(1, sizeof(*r));

    GR_CHECK(r);
    fake_world_init(w);
    r->w = w;
    gr_mt_seed(&r->rng, seed);
    use_later(r, gr_input(w->g, "in0"));
    use_later(r, gr_input(w->g, "in1"));
    add_variables(r, 4);
    for (int i = 0; i < n_nodes; i++)
        grow_one(r);
    while (r->n_open > 0)
        grow_finish(r);
    for (int i = 0; i < 5; i++) {
        char name[16];

        snprintf(name, sizeof(name), "out%d", i);
        gr_output(w->g, name, r->usable[pick(r, r->n_usable)]);
    }
    GR_CHECK_OK(gr_vars_seal(w->vars));
    GR_CHECK_OK(gr_graph_verify(w->g, "random growth"));
    free(r);
}

/* ---- dependence, by definition ---- */

static bool reads(const gr_node *n, const gr_value *root)
{
    for (int i = 0; i < n->n_src; i++)
        if (gr_value_root(n->src[i]) == root)
            return true;
    return false;
}

static bool writes(const gr_node *n, const gr_value *root)
{
    if (n->op->place == GR_PLACE_EARLY && reads(n, root))
        return true;
    for (int i = 0; i < n->n_out; i++)
        if (gr_value_root(&n->out[i]) == root && (n->op->kernels || &n->out[i] == root))
            return true;
    return false;
}

static bool touches_alike(const gr_node *a, const gr_node *b, const gr_value *root)
{
    return (writes(a, root) && (reads(b, root) || writes(b, root))) ||
           (reads(a, root) && writes(b, root));
}

bool fake_must_precede(const gr_graph *g, int a, int b)
{
    const gr_node *x = g->nodes[a], *y = g->nodes[b];

    for (int i = 0; i < y->n_after; i++)
        if (y->after[i] == x)
            return true;
    for (int i = 0; i < y->n_src; i++)
        if (y->src[i]->node == x || touches_alike(x, y, gr_value_root(y->src[i])))
            return true;
    for (int i = 0; i < y->n_out; i++)
        if (touches_alike(x, y, gr_value_root(&y->out[i])))
            return true;
    return false;
}
