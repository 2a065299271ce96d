/* The same steps with losses read and with losses queued: the sums are equal to the last bit. */
#include "train/queued.h"

#include "check.h"
#include "gradus/gradus.h"
#include "train/trainer.h"

#define MOST_ROWS 16

static gr_status trace(gr_graph *g, void *user)
{
    gr_value *logits = gr_linear(g, "fc", gr_tanh(g, gr_linear(g, "in", gr_input(g, "x"), 16)), 5);

    (void)user;
    gr_loss(g, gr_cross_entropy(g, logits, gr_input(g, "y")));
    return gr_graph_status(g);
}

static void train(gr_step *s, int64_t at, int64_t n)
{
    float x[MOST_ROWS * 12];
    int64_t y[MOST_ROWS];
    gr_named feeds[] = { { "x", GR_F32, GR_SHAPE(n, 12), x }, { "y", GR_I64, GR_SHAPE(n), y } };

    for (int64_t i = 0; i < n * 12; i++)
        x[i] = (float)sin((double)(at * 31 + i) * 1.7);
    for (int64_t i = 0; i < n; i++)
        y[i] = (at + i * 3) % 5;
    GR_CHECK_OK(gr_step_train(s, feeds, 2, 0.05));
}

static gr_mean_sum run(const char *device, int n_steps, bool reads)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_trainer *t = calloc(1, sizeof(*t));
    gr_pg *alone;
    gr_mean_sum sum;

    GR_CHECK(t);
    c.trace = trace;
    c.seed = 3;
    c.device = device;
    *t = (gr_trainer){ .mean = GR_EPOCH_MEAN_INIT, .n_ranks = 1, .steps_per_epoch = n_steps };
    GR_CHECK_OK(gr_step_create(&t->step, &c));
    GR_CHECK_OK(gr_pg_create(&alone, &(gr_pg_config)GR_PG_CONFIG_INIT));
    t->pg = alone;
    for (t->at = 0; t->at < n_steps;) {
        int64_t n = 1 + t->at % MOST_ROWS;
        double loss = 0;

        gr_trainer_begin_mean(t, 0);
        train(t->step, t->at, n);
        t->mean.n_untold += n;
        GR_CHECK_OK(gr_trainer_take_loss(t, reads ? &loss : NULL));
        t->at++;
    }
    GR_CHECK_OK(gr_trainer_share_mean(t));
    GR_CHECK(t->mean.has_best && t->mean.best == t->mean.value && t->mean.best_epoch == 1);
    sum = t->mean.all;
    gr_trainer_close_mean(t);
    gr_step_destroy(t->step);
    gr_pg_destroy(alone);
    free(t);
    return sum;
}

void check_queued_losses(const char *device, int n_steps)
{
    gr_mean_sum read = run(device, n_steps, true), queued = run(device, n_steps, false);

    GR_CHECK(read.n > 0);
    GR_CHECK_EQ(queued.n, read.n);
    GR_CHECK_EQ(queued.whole, read.whole);
    GR_CHECK_EQ(queued.part, read.part);
}
