/* The same steps with losses read and with losses queued: the sums are equal to the last bit. */
#include "gpu/queued.h"

#include "check.h"
#include "step/world.h"
#include "train/trainer.h"

static gr_mean_sum run(const char *device, int n_steps, bool reads)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_trainer *t = calloc(1, sizeof(*t));
    batch *b = malloc(sizeof(*b));
    gr_pg *alone;
    gr_mean_sum sum;

    GR_CHECK(t && b);
    c.trace = trace_mlp;
    c.seed = 3;
    c.device = device;
    *t = (gr_trainer){ .mean = GR_EPOCH_MEAN_INIT, .n_ranks = 1, .steps_per_epoch = n_steps };
    GR_CHECK_OK(gr_step_create(&t->step, &c));
    GR_CHECK_OK(gr_pg_create(&alone, &(gr_pg_config)GR_PG_CONFIG_INIT));
    t->pg = alone;
    for (t->at = 0; t->at < n_steps;) {
        int n = 1 + (int)t->at % 16;
        double loss = 0;

        gr_trainer_begin_mean(t, 0);
        batch_fill(b, false, (int)t->at, 0, n);
        GR_CHECK_OK(gr_step_train(t->step, b->feeds, 2, 0.05));
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
    free(b);
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
