/* The numbers of the five guides: batch, learning rate, warm-up (P37, P38, P44). */
#include "train/rate.h"

#include "check.h"

static gr_train_options settings(double lr, int rule)
{
    return (gr_train_options){ .batch_size = 8,
                               .accumulate = 1,
                               .lr = lr,
                               .lr_scaling = rule,
                               .lr_gamma = 0.1,
                               .lr_t_mult = 1,
                               .lr_period = 30,
                               .lr_power = 1,
                               .schedule = GR_SCHEDULE_COSINE };
}

static void check_text(const gr_train_options *o, int n_ranks, const char *want)
{
    gr_text text = GR_TEXT_INIT;

    gr_rate_text(o, n_ranks, &text);
    if (strcmp(gr_text_str(&text), want) != 0) {
        fprintf(stderr, "got '%s', expected '%s'\n", gr_text_str(&text), want);
        exit(1);
    }
    gr_text_fini(&text);
}

/* P37: base, rule and result, as the guides compute them. */
static void check_scaling(void)
{
    gr_train_options o = settings(1e-3, GR_LR_LINEAR);

    check_text(&o, 2, "1e-3 x 2 (linear) = 2e-3");
    check_text(&o, 4, "1e-3 x 4 (linear) = 4e-3");
    check_text(&o, 1, "1e-3 x 1 (linear) = 1e-3");
    o.lr = 5e-5;
    check_text(&o, 2, "5e-5 x 2 (linear) = 1e-4");
    o.lr = 1e-4;
    check_text(&o, 8, "1e-4 x 8 (linear) = 8e-4");
    o.lr_scaling = GR_LR_SQRT;
    check_text(&o, 8, "1e-4 x 2.83 (sqrt) = 2.83e-4");
    o.lr_scaling = GR_LR_NONE;
    check_text(&o, 8, "1e-4 (not scaled; by 8 ranks linear would be 8e-4, sqrt 2.83e-4)");
    check_text(&o, 1, "1e-4");
    o.lr = 0.05;
    check_text(&o, 1, "0.05");
}

static void check_base_batch(void)
{
    gr_train_options o = settings(0.1, GR_LR_LINEAR);

    o.batch_size = 64;
    o.lr_base_batch = 256;
    check_text(&o, 8, "0.1 x 2 (linear, batch 512 / 256) = 0.2");
    check_text(&o, 4, "0.1 x 1 (linear, batch 256 / 256) = 0.1");
    o.lr_scaling = GR_LR_NONE;
    check_text(&o, 4, "0.1");
}

static void check_batch(const gr_train_options *o, int n_ranks, const char *want)
{
    gr_text text = GR_TEXT_INIT;

    gr_rate_batch_text(o, n_ranks, &text);
    GR_CHECK(strcmp(gr_text_str(&text), want) == 0);
    gr_text_fini(&text);
}

/* P44: the batch of a rank and that of a step. */
static void check_batches(void)
{
    gr_train_options o = settings(1e-3, GR_LR_NONE);

    o.accumulate = 4;
    check_batch(&o, 8, "batch 8 x 8 ranks x 4 accumulation = 256");
    o.accumulate = 2;
    check_batch(&o, 8, "batch 8 x 8 ranks x 2 accumulation = 128");
    o.accumulate = 1;
    check_batch(&o, 8, "batch 8 x 8 ranks x 1 accumulation = 64");
    o.batch_size = 64;
    check_batch(&o, 2, "batch 64 x 2 ranks x 1 accumulation = 128");
}

/* The batch of a step stays what it is, whatever the number of ranks. */
static void check_effective(void)
{
    gr_train_options o = settings(1e-3, GR_LR_NONE);

    o.effective_batch = 128;
    GR_CHECK_OK(gr_rate_batch(&o, 2));
    GR_CHECK_EQ(o.batch_size, 64);
    o.accumulate = 2;
    GR_CHECK_OK(gr_rate_batch(&o, 4));
    GR_CHECK_EQ(o.batch_size, 16);
    GR_CHECK_FAILS(gr_rate_batch(&o, 3), GR_ERR_ARG, "126 and 132 are");
    o.effective_batch = 3;
    GR_CHECK_FAILS(gr_rate_batch(&o, 2), GR_ERR_ARG, "no multiple");
    o.effective_batch = 0;
    o.batch_size = 7;
    GR_CHECK_OK(gr_rate_batch(&o, 3));
    GR_CHECK_EQ(o.batch_size, 7);
}

/* P38: the warm-up is never longer than the run, and the same for any number of ranks. */
static void check_warmup(void)
{
    gr_train_options o = settings(1e-3, GR_LR_NONE);
    gr_schedule one, eight;

    o.warmup_steps = 1000;
    GR_CHECK_OK(gr_rate_schedule(&o, 1, 10, 100, &one));
    GR_CHECK_EQ(one.n_warmup, 100);
    o.warmup_max_steps = 30;
    GR_CHECK_OK(gr_rate_schedule(&o, 1, 10, 100, &one));
    GR_CHECK_EQ(one.n_warmup, 30);
    o.warmup_epochs = 2; /* of ten steps: shorter than it may be */
    GR_CHECK_OK(gr_rate_schedule(&o, 1, 10, 100, &one));
    GR_CHECK_EQ(one.n_warmup, 20);
    o.warmup_max_steps = 0;
    o.warmup_epochs = 0;
    GR_CHECK_OK(gr_rate_schedule(&o, 1, 10, 100, &one));
    GR_CHECK_NEAR(gr_schedule_lr(&one, 99), 1e-3, 1e-12);
    GR_CHECK_OK(gr_rate_schedule(&o, 1, 1000, 5000, &one));
    GR_CHECK_OK(gr_rate_schedule(&o, 8, 1000, 5000, &eight));
    for (int64_t step = 0; step < 5000; step += 7)
        GR_CHECK_NEAR(gr_schedule_lr(&one, step), gr_schedule_lr(&eight, step), 0);
    GR_CHECK_NEAR(gr_schedule_lr(&eight, 499), 5e-4, 1e-9);
}

static void check_schedules(void)
{
    gr_train_options o = settings(1.0, GR_LR_NONE);
    gr_schedule s;

    o.lr_by_epoch = true;
    o.schedule = GR_SCHEDULE_MULTISTEP;
    o.lr_milestones = "2,5";
    GR_CHECK_OK(gr_rate_schedule(&o, 1, 10, 100, &s));
    GR_CHECK_NEAR(gr_schedule_lr(&s, 19), 1, 0);
    GR_CHECK_NEAR(gr_schedule_lr(&s, 20), 0.1, 1e-12);
    GR_CHECK_NEAR(gr_schedule_lr(&s, 50), 0.01, 1e-12);
    o.lr_milestones = "2,x";
    GR_CHECK_FAILS(gr_rate_schedule(&o, 1, 10, 100, &s), GR_ERR_ARG, "lr_milestones: 'x'");
    o.schedule = GR_SCHEDULE_RESTARTS;
    GR_CHECK_OK(gr_rate_schedule(&o, 1, 10, 1000, &s));
    GR_CHECK_NEAR(gr_schedule_lr(&s, 300), 1, 0);
    o.schedule = GR_SCHEDULE_PLATEAU;
    GR_CHECK_OK(gr_rate_schedule(&o, 1, 10, 1000, &s));
    GR_CHECK_NEAR(gr_schedule_lr(&s, 999), 1, 0);
}

int main(void)
{
    check_scaling();
    check_base_batch();
    check_batches();
    check_effective();
    check_warmup();
    check_schedules();
    return 0;
}
