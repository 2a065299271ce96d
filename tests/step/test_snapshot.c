/*
 * Saving into a snapshot again and again: the same memory, the newest values, the same
 * bits for any number of threads; and without what is frozen (P26), which a restore of such
 * a snapshot leaves alone.
 */
#include "check.h"
#include "step/world.h"

#include <string.h>

#define WIDE 65536 /* "base" is 3 MiB: shared out to the threads */

static gr_status trace_frozen(gr_graph *g, void *user)
{
    gr_value *w = gr_param(g, "base", GR_SHAPE(12, WIDE), gr_init_kaiming_uniform(12, 1));
    gr_value *logits;

    (void)user;
    gr_freeze(g, w);
    logits = gr_linear(g, "head", gr_relu(g, gr_matmul(g, gr_input(g, "x"), w)), 5);
    gr_loss(g, gr_cross_entropy(g, logits, gr_input(g, "y")));
    return gr_graph_status(g);
}

static gr_step *make_step(int n_threads, uint64_t seed, batch *b)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_step *s;

    c.trace = trace_frozen;
    c.device = "cpu";
    c.optim = (gr_optim)GR_OPTIM_ADAMW_INIT;
    c.seed = seed;
    c.n_threads = n_threads;
    GR_CHECK_OK(gr_step_create(&s, &c));
    batch_fill(b, false, 0, 0, 4);
    GR_CHECK_OK(gr_step_plan(s, true, b->feeds, 2));
    return s;
}

static void test_again(void)
{
    batch b;
    gr_step *s = make_step(2, 1, &b);
    gr_snapshot *reused, *fresh;
    const void *before;
    int n;

    GR_CHECK_OK(gr_snapshot_create(&reused));
    GR_CHECK_OK(gr_step_save_into(s, reused, GR_SAVE_ALL));
    n = gr_snapshot_count(reused);
    before = gr_snapshot_find(reused, "head.weight")->mem;
    for (int step = 0; step < 3; step++)
        GR_CHECK_OK(gr_step_train(s, b.feeds, 2, 0.01));
    GR_CHECK_OK(gr_step_save_into(s, reused, GR_SAVE_ALL));
    GR_CHECK_OK(gr_step_save(s, &fresh));
    check_same_state(reused, fresh);
    GR_CHECK_EQ(gr_snapshot_count(reused), n);
    GR_CHECK(gr_snapshot_find(reused, "head.weight")->mem == before);
    GR_CHECK_STR(gr_snapshot_get(reused, "gradus.step"), "3");
    gr_snapshot_destroy(fresh);
    gr_snapshot_destroy(reused);
    gr_step_destroy(s);
}

static void test_threads(void)
{
    gr_snapshot *one, *three;
    batch b;
    gr_step *s = make_step(1, 1, &b);

    GR_CHECK_OK(gr_step_save(s, &one));
    gr_step_destroy(s);
    s = make_step(3, 1, &b);
    GR_CHECK_OK(gr_step_save(s, &three));
    gr_step_destroy(s);
    check_same_state(one, three);
    gr_snapshot_destroy(one);
    gr_snapshot_destroy(three);
}

/* Restored where the frozen part is another one: that stays, all else is the snapshot's. */
static void test_trainable(void)
{
    gr_snapshot *part, *was, *is;
    batch b;
    gr_step *s = make_step(1, 1, &b);

    GR_CHECK_OK(gr_step_train(s, b.feeds, 2, 0.01));
    GR_CHECK_OK(gr_snapshot_create(&part));
    GR_CHECK_OK(gr_step_save_into(s, part, GR_SAVE_TRAINABLE));
    gr_step_destroy(s);
    GR_CHECK(gr_snapshot_find(part, "base") == NULL);
    GR_CHECK(gr_snapshot_find(part, "head.weight") != NULL);

    s = make_step(1, 2, &b);
    GR_CHECK_OK(gr_step_save(s, &was));
    GR_CHECK_OK(gr_step_restore(s, part));
    GR_CHECK_OK(gr_step_save(s, &is));
    GR_CHECK(memcmp(gr_snapshot_find(was, "base")->mem, gr_snapshot_find(is, "base")->mem,
                    sizeof(float) * 12 * WIDE) == 0);
    GR_CHECK(memcmp(gr_snapshot_find(part, "head.weight")->mem,
                    gr_snapshot_find(is, "head.weight")->mem, sizeof(float) * 5 * WIDE) == 0);
    GR_CHECK_STR(gr_snapshot_get(is, "gradus.step"), "1");

    /* A whole snapshot may leave nothing out. */
    GR_CHECK_OK(gr_snapshot_set(part, "gradus.part", "all"));
    GR_CHECK_FAILS(gr_step_restore(s, part), GR_ERR_ARG, "the snapshot has no 'base'");
    gr_snapshot_destroy(part);
    gr_snapshot_destroy(was);
    gr_snapshot_destroy(is);
    gr_step_destroy(s);
}

static void test_refused(void)
{
    gr_snapshot *other;
    batch b;
    gr_step *s = make_step(1, 1, &b);
    void *mem;

    GR_CHECK_OK(gr_snapshot_create(&other));
    GR_CHECK_OK(gr_snapshot_add(other, "base", GR_F32, GR_SHAPE(3), &mem));
    GR_CHECK_FAILS(gr_step_save_into(s, other, GR_SAVE_ALL), GR_ERR_ARG, "another 'base'");
    GR_CHECK_FAILS(gr_step_save_into(s, NULL, GR_SAVE_ALL), GR_ERR_ARG, "NULL");
    gr_snapshot_destroy(other);
    gr_step_destroy(s);
}

int main(void)
{
    test_again();
    test_threads();
    test_trainable();
    test_refused();
    return 0;
}
