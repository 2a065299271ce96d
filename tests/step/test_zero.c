/*
 * Updates cut up between ranks, with optimiser state that is cut up as well (ZeRO) or common to
 * all: the same bits as when each rank updates everything, for every optimiser, with clipping,
 * averages, mixed precision, skipped steps and accumulation; snapshots that go both ways; and
 * the memory that the formulas promise.
 */
#include <math.h>
#include <string.h>

#include "check.h"
#include "step/world.h"

#define WIDTH  96
#define LAYERS 6

/* How a run is cut up; 1 and 2 are settings of `zero`. */
#define WHOLE  (-1)
#define COMMON 0

static gr_value *weight(gr_graph *g, const char *kind, int i, int n_dims)
{
    char name[32];

    snprintf(name, sizeof(name), "%s.%d.%s", kind, i, n_dims == 2 ? "weight" : "bias");
    return n_dims == 2 ? gr_param(g, name, GR_SHAPE(WIDTH, WIDTH), gr_init_uniform(-0.2, 0.2))
                       : gr_param(g, name, GR_SHAPE(WIDTH), gr_init_const(1));
}

/*
 * 12-96-...-96-5. Weights of more than a block of the gradient norm, which borders of shares
 * cut; biases that are smaller than a share; one number. Then what makes orders hard when
 * buckets take turns: norms whose gradients come several from one node, and are exchanged last;
 * two weights that share a gradient, and a place; a parameter that is first in the table and
 * used last, and one that is last in the table and used first.
 */
static gr_status trace_deep(gr_graph *g, void *user)
{
    gr_value *gain = gr_param(g, "gain", GR_SHAPE(1), gr_init_const(0.75));
    gr_value *w[LAYERS], *scale[LAYERS], *shift[LAYERS], *twin[2], *first, *h, *logits;

    for (int i = 0; i < LAYERS; i++) {
        scale[i] = weight(g, "scale", i, 1);
        shift[i] = weight(g, "shift", i, 1);
    }
    for (int i = 0; i < LAYERS; i++) {
        if (i == 2 || i == 3)
            twin[i - 2] = weight(g, "twin", i, 2);
        w[i] = weight(g, "layer", i, 2);
    }
    first = gr_param(g, "first.weight", GR_SHAPE(12, WIDTH), gr_init_uniform(-0.5, 0.5));
    h = gr_batch_norm_layer(g, "bn", gr_matmul(g, gr_input(g, "x"), first));
    for (int i = 0; i < LAYERS; i++) {
        gr_block_begin(g, "layer");
        h = gr_layer_norm(g, gr_matmul(g, gr_relu(g, h), w[i]), scale[i], shift[i], 1e-5);
        gr_block_end(g);
    }
    h = gr_matmul(g, h, gr_add(g, twin[0], twin[1]));
    logits = gr_linear(g, "head", gr_mul(g, gr_tanh(g, h), gain), 5);
    gr_output(g, "logits", logits);
    logits = gr_cross_entropy(g, logits, gr_input(g, "y"));
    gr_loss(g, user ? gr_mul_k(g, logits, *(const double *)user) : logits);
    return gr_graph_status(g);
}

static const gr_param_group groups[] = { { "*.bias|gain", 2.0, 0.0, NULL },
                                         { "layer.2.*|first.*", 0.5, 0.03, NULL } };

static gr_step_config base_config(void)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;

    c.trace = trace_deep;
    c.seed = 5;
    c.first_bucket_bytes = 1 << 10;
    c.bucket_bytes = 8 << 10;
    c.optim = (gr_optim)GR_OPTIM_ADAMW_INIT;
    return c;
}

static void sgd_plain(gr_step_config *c)
{
    c->optim = (gr_optim)GR_OPTIM_INIT;
}

static void sgd_momentum(gr_step_config *c)
{
    c->optim = (gr_optim)GR_OPTIM_INIT;
    c->optim.momentum = 0.9;
    c->optim.weight_decay = 1e-3;
    c->clip_value = 0.01;
    c->recompute = GR_RECOMPUTE_ALL; /* parameters are read again in the backward pass */
}

static void sgd_nesterov(gr_step_config *c)
{
    c->optim = (gr_optim)GR_OPTIM_INIT;
    c->optim.momentum = 0.9;
    c->optim.nesterov = true;
    c->clip_norm = 0.3;
    c->grad_dtype = GR_BF16;
    c->bucket_bytes = 25 << 20; /* one bucket behind the first: they cannot take turns */
}

static void adam(gr_step_config *c)
{
    c->optim = (gr_optim)GR_OPTIM_ADAM_INIT;
    c->optim.weight_decay = 1e-2;
    c->ema_decay = 0.75;
    c->without = "join,fuse";
    c->sync_bn = true;
}

static void adamw_groups(gr_step_config *c)
{
    c->optim.groups = groups;
    c->optim.n_groups = 2;
    c->clip_norm = 0.2;
    c->ema_decay = 0.9;
    c->n_threads = 2;
}

static void adamw_all_of_it(gr_step_config *c)
{
    adamw_groups(c);
    c->accumulate = 2;
    c->amp = GR_AMP_BF16;
    c->clip_value = 0.02;
    c->check_every = 1;
}

/* The same with buckets that take turns, on the wire as f16. */
static void adamw_wire(gr_step_config *c)
{
    adamw_groups(c);
    c->grad_dtype = GR_F16;
}

/* Gradients that do not fit into f16: every step is skipped. */
static void overflow(gr_step_config *c)
{
    static double large = 1e9;

    c->user = &large;
    c->grad_dtype = GR_F16;
}

static void half(gr_step_config *c)
{
    c->amp = GR_AMP_F16;
    c->init_scale = 0x1p28; /* gradients overflow at first: steps are skipped */
    c->ema_decay = 0.5;
    c->clip_norm = 0.5;
    c->accumulate = 2;
}

typedef void change(gr_step_config *c);
static change *const changes[] = { sgd_plain,  sgd_momentum, sgd_nesterov,    adam, adamw_groups,
                                   adamw_wire, overflow,     adamw_all_of_it, half };
#define N_CHANGES ((int)(sizeof(changes) / sizeof(changes[0])))

static void set_cut(gr_step_config *c, int cut)
{
    if (cut == WHOLE)
        c->without = c->without ? "join,fuse,common" : "common";
    c->zero = cut == WHOLE ? 0 : cut;
}

static job make_job(change *with, int cut, int first, int n_steps)
{
    job j = { .c = base_config(), .global_batch = 24, .first = first, .n_steps = n_steps };

    with(&j.c);
    set_cut(&j.c, cut);
    return j;
}

static int64_t count_in(const gr_snapshot *snap, const char *name)
{
    return *(const int64_t *)gr_snapshot_find(snap, name)->mem;
}

static void test_same_bits(change *with, int zero, int n_ranks)
{
    int n_steps = with == half ? 16 : 4;
    job whole = make_job(with, WHOLE, 0, n_steps), cut = make_job(with, zero, 0, n_steps);

    run_ranks(&whole, n_ranks);
    run_ranks(&cut, n_ranks);
    check_same_state(whole.end, cut.end);
    for (int i = 0; i < n_steps; i++)
        GR_CHECK(memcmp(&whole.loss[i], &cut.loss[i], sizeof(float)) == 0);
    if (with == overflow)
        GR_CHECK_EQ(count_in(cut.end, "optimizer.skipped"), n_steps);
    if (with == overflow)
        GR_CHECK_EQ(count_in(cut.end, "optimizer.skipped"), n_steps);
    if (with == half) {
        GR_CHECK(count_in(cut.end, "optimizer.skipped") > 0);
        GR_CHECK(count_in(cut.end, "optimizer.step") > 3);
    }
    gr_snapshot_destroy(whole.end);
    gr_snapshot_destroy(cut.end);
}

/* A run in two halves, cut up in one or both of them, is the run in one piece; and a snapshot
 * of four ranks goes on with one. */
static void test_resume(int before, int after, int n_ranks)
{
    job whole = make_job(adamw_all_of_it, WHOLE, 0, 4);
    job a = make_job(adamw_all_of_it, before, 0, 2), b = make_job(adamw_all_of_it, after, 2, 2);
    job alone = make_job(adamw_all_of_it, after, 2, 1),
        same = make_job(adamw_all_of_it, WHOLE, 2, 1);

    run_ranks(&whole, n_ranks);
    run_ranks(&a, n_ranks);
    b.start = alone.start = same.start = a.end;
    run_ranks(&b, n_ranks);
    check_same_state(whole.end, b.end);
    GR_CHECK_OK(run_rank(&alone, NULL));
    GR_CHECK_OK(run_rank(&same, NULL));
    check_same_state(alone.end, same.end);
    gr_snapshot_destroy(whole.end);
    gr_snapshot_destroy(a.end);
    gr_snapshot_destroy(b.end);
    gr_snapshot_destroy(alone.end);
    gr_snapshot_destroy(same.end);
}

/* ---- ranks with a program of their own ---- */

typedef gr_status rank_fn(gr_step *s, gr_pg *pg, void *arg);

typedef struct program {
    const gr_step_config *c;
    rank_fn *fn;
    void *arg;
} program;

static void run_program_rank(gr_pg *pg, void *arg)
{
    const program *p = arg;
    gr_step_config c = *p->c;
    batch *b = malloc(sizeof(*b));
    gr_step *s;

    c.pg = pg;
    c.device = "cpu";
    batch_fill(b, false, 0, gr_pg_rank(pg) * 6, 6);
    GR_CHECK_OK(gr_step_create(&s, &c));
    GR_CHECK_OK(gr_step_plan(s, true, b->feeds, 2));
    GR_CHECK_OK(p->fn(s, pg, p->arg));
    gr_step_destroy(s);
    free(b);
}

static void run_program(const gr_step_config *c, int n, rank_fn *fn, void *arg)
{
    program p = { c, fn, arg };

    each_rank(n, run_program_rank, &p);
}

static gr_status train(gr_step *s, gr_pg *pg, int first, int n)
{
    batch *b = malloc(sizeof(*b));
    gr_status st = GR_OK;

    for (int i = first; i < first + n && st == GR_OK; i++) {
        batch_fill(b, false, i, gr_pg_rank(pg) * 6, 6);
        st = gr_step_train(s, b->feeds, 2, 0.125);
    }
    free(b);
    return st;
}

static gr_status eval(gr_step *s, float *logits)
{
    batch *b = malloc(sizeof(*b));
    gr_status st;

    batch_fill(b, false, 1000, 0, 6);
    st = gr_step_eval(s, b->feeds, 2);
    if (st == GR_OK)
        st = gr_step_read(s, "logits", (gr_vec){ logits, 30, GR_F32 });
    free(b);
    return st;
}

typedef struct looked {
    float plain[30], averaged[30], later[30];
} looked;

/* Averages are looked at between two stretches of training; rank 1 tells what it saw. */
static gr_status look_at_averages(gr_step *s, gr_pg *pg, void *arg)
{
    looked mine, *out = arg;

    GR_TRY(train(s, pg, 0, 3));
    GR_TRY(eval(s, mine.plain));
    GR_TRY(gr_step_use_ema(s, true));
    GR_TRY(eval(s, mine.averaged));
    GR_TRY(gr_step_use_ema(s, false));
    GR_TRY(train(s, pg, 3, 2));
    GR_TRY(eval(s, mine.later));
    if (gr_pg_rank(pg) == 1)
        *out = mine;
    return GR_OK;
}

static void test_averages(int how)
{
    gr_step_config c = base_config();
    looked whole, cut;

    c.ema_decay = 0.75;
    set_cut(&c, WHOLE);
    run_program(&c, 3, look_at_averages, &whole);
    c.without = NULL;
    set_cut(&c, how);
    run_program(&c, 3, look_at_averages, &cut);
    GR_CHECK(memcmp(&whole, &cut, sizeof(whole)) == 0);
    GR_CHECK(memcmp(whole.plain, whole.averaged, sizeof(whole.plain)) != 0);
}

/* Averages that training has left behind are not read; a snapshot never takes them for
 * parameters. */
static gr_status use_old_averages(gr_step *s, gr_pg *pg, void *arg)
{
    gr_snapshot *a, *b;
    float logits[30];

    (void)arg;
    GR_TRY(train(s, pg, 0, 2));
    GR_TRY(gr_step_save(s, &a));
    GR_TRY(gr_step_use_ema(s, true));
    GR_TRY(eval(s, logits));
    GR_TRY(gr_step_save(s, &b));
    if (gr_pg_rank(pg) == 0)
        check_same_state(a, b);
    GR_CHECK_FAILS(eval(s, logits), GR_ERR_ARG, "call it again");
    GR_TRY(gr_step_use_ema(s, true));
    GR_TRY(eval(s, logits));
    GR_TRY(train(s, pg, 2, 1));
    GR_CHECK_FAILS(eval(s, logits), GR_ERR_ARG, "call it again");
    GR_TRY(gr_step_use_ema(s, false));
    GR_TRY(eval(s, logits));
    gr_snapshot_destroy(a);
    gr_snapshot_destroy(b);
    return GR_OK;
}

/* One snapshot that does not fit is refused by all, and nothing has changed. */
static gr_status restore_what_does_not_fit(gr_step *s, gr_pg *pg, void *arg)
{
    gr_snapshot *before, *after;
    gr_status st;

    GR_TRY(train(s, pg, 0, 2));
    GR_TRY(gr_step_save(s, &before));
    st = gr_step_restore(s, arg);
    GR_CHECK_EQ(st, GR_ERR_ARG);
    GR_CHECK(strstr(gr_error_message(), gr_pg_rank(pg) == 0 ? "restore: the snapshot has no"
                                                            : "rank 0: restore: ") != NULL);
    GR_TRY(gr_step_save(s, &after));
    if (gr_pg_rank(pg) == 0)
        check_same_state(before, after);
    gr_snapshot_destroy(before);
    gr_snapshot_destroy(after);
    return GR_OK;
}

static void test_refusals(int zero)
{
    gr_step_config c = base_config();
    gr_snapshot *empty;

    GR_CHECK_OK(gr_snapshot_create(&empty));
    c.ema_decay = 0.5;
    c.zero = zero;
    run_program(&c, 2, use_old_averages, NULL);
    run_program(&c, 2, restore_what_does_not_fit, empty);
    gr_snapshot_destroy(empty);
    c.zero = 7;
    GR_CHECK_FAILS(gr_step_create(&(gr_step *){ NULL }, &c), GR_ERR_ARG, "zero is 7");
}

/* ---- memory ---- */

typedef struct used {
    size_t params, state, exchange, optim; /* bytes; params without padding */
} used;

static gr_status measure(gr_step *s, gr_pg *pg, void *arg)
{
    used *most = arg;
    gr_memory_report r;
    gr_step_stats stats;
    batch *b = malloc(sizeof(*b));

    GR_TRY(train(s, pg, 0, 1));
    GR_TRY(gr_step_get_stats(s, &stats));
    batch_fill(b, false, 0, 0, 6);
    GR_TRY(gr_step_memory_report(s, true, b->feeds, 2, &r));
    free(b);
    GR_CHECK_EQ(stats.state_bytes, r.params + r.buffers + r.optim);
    GR_CHECK_EQ(stats.exchange_bytes, r.exchange);
    most[gr_pg_rank(pg)] = (used){ (size_t)stats.n_params * sizeof(float), stats.state_bytes,
                                   stats.exchange_bytes, r.optim };
    return GR_OK;
}

/* With AdamW and averages: 4 bytes of parameters and 12 of state, of which each rank has its
 * part; with zero 2 its part of the gradients, too, and two buckets. Padding: 64 bytes for each
 * variable, and for each rank and bucket. */
static void test_memory(int zero, int n_ranks)
{
    size_t n = (size_t)n_ranks, pad = 64 * (4 * 24 + 2 + 8 * n), p, bucket;
    gr_step_config c = base_config();
    used whole[4], cut[4];

    c.ema_decay = 0.5;
    c.without = "common";
    run_program(&c, n_ranks, measure, whole);
    c.zero = zero;
    run_program(&c, n_ranks, measure, cut);
    p = whole[0].params;
    bucket = WIDTH * WIDTH * sizeof(float) + c.bucket_bytes; /* at most a weight behind others */
    for (int r = 0; r < n_ranks; r++) {
        GR_CHECK(whole[r].state >= 4 * p && whole[r].state <= 4 * p + pad);
        GR_CHECK(cut[r].state <= p + 3 * p / n + pad);
        GR_CHECK(cut[r].optim <= 3 * p / n + pad);
        GR_CHECK(whole[r].exchange >= p);
        GR_CHECK(cut[r].exchange <= (zero == 1 ? p : p / n + 2 * bucket) + pad);
    }
    if (getenv("GR_TEST_PRINT"))
        printf("zero %d, %d ranks: %zu bytes of parameters; state %zu, whole %zu; gradients %zu, "
               "whole %zu\n",
               zero, n_ranks, p, cut[0].state, whole[0].state, cut[0].exchange, whole[0].exchange);
}

#if defined(__SANITIZE_THREAD__) /* slow, and looks at threads, not at numbers */
#define MOST_RANKS 2
#elif defined(__SANITIZE_ADDRESS__) /* looks at memory: shares of equal and of unequal length */
#define MOST_RANKS 3
#else
#define MOST_RANKS 4
#endif

int main(void)
{
    GR_CHECK_EQ(setenv("GR_COMMON_FROM", "0", 1), 0); /* small models, too */
    for (int n_ranks = 2; n_ranks <= MOST_RANKS; n_ranks++) {
        for (int i = 0; i < N_CHANGES; i++)
            for (int cut = COMMON; cut <= 2; cut++)
                test_same_bits(changes[i], cut, n_ranks);
        test_memory(1, n_ranks);
        test_memory(2, n_ranks);
    }
    test_resume(1, COMMON, 4);
    test_resume(COMMON, 1, 3);
    test_resume(2, WHOLE, 4);
    test_resume(WHOLE, 2, 4);
    test_resume(COMMON, COMMON, 3);
    test_averages(COMMON);
    for (int zero = 1; zero <= 2; zero++) {
        test_averages(zero);
        test_refusals(zero);
    }
    return 0;
}
