/*
 * lr_schedule_on_resume: exact rates of every schedule when a run of 100 steps goes on to 200, from
 * its end and from its middle, with warm-up.
 */
#include "train/reschedule.h"

#include "check.h"
#include "train/rate.h"

#define PI    3.14159265358979323846
#define STEPS 10 /* of an epoch */

static gr_train_options base(int schedule)
{
    return (gr_train_options){ .lr = 0.1,
                               .schedule = schedule,
                               .lr_min = 0.01,
                               .lr_gamma = 0.5,
                               .lr_period = 30,
                               .lr_t_mult = 1,
                               .lr_power = 2,
                               .lr_milestones = "50,120",
                               .warmup_steps = 10 };
}

static double rate(const gr_train_options *o, const gr_schedule_span *s, int64_t place)
{
    gr_schedule schedule;

    GR_CHECK_OK(gr_rate_schedule(o, 1, STEPS, s->length, &schedule));
    return gr_schedule_lr(&schedule, place - s->from);
}

/* The rate of step `place` of a run that had 100 steps and goes on from `at` with 200. */
static double resumed(int schedule, gr_lr_on_resume how, int64_t at, int64_t place)
{
    const gr_schedule_span then = { .length = 100, .run = 100 };
    gr_train_options o = base(schedule);
    gr_schedule_span now = gr_schedule_resume(&then, how, at, 200);

    GR_CHECK_EQ(now.run, 200);
    return rate(&o, &now, place);
}

static double cosine(double share)
{
    return 0.01 + 0.09 * 0.5 * (1 + cos(PI * share));
}

static void check_cosine(void)
{
    int kind = GR_SCHEDULE_COSINE;

    for (int64_t at = 40; at <= 100; at += 60) {
        for (int64_t p = at; p < 200; p++) {
            double rest = 200 - (double)at - 10, t = (double)(p - at);

            GR_CHECK_NEAR(resumed(kind, GR_LR_STRETCH, at, p), cosine((double)(p - 10) / 190),
                          1e-15);
            GR_CHECK_NEAR(resumed(kind, GR_LR_CONTINUE, at, p),
                          p < 100 ? cosine((double)(p - 10) / 90) : 0.01, 1e-15);
            GR_CHECK_NEAR(resumed(kind, GR_LR_RESTART, at, p),
                          t < 10 ? 0.1 * (t + 1) / 10 : cosine((t - 10) / rest), 1e-15);
        }
    }
}

static void check_polynomial(void)
{
    int kind = GR_SCHEDULE_POLYNOMIAL;

    GR_CHECK_NEAR(resumed(kind, GR_LR_STRETCH, 100, 105), 0.01 + 0.09 * 0.25, 1e-15);
    GR_CHECK_NEAR(resumed(kind, GR_LR_CONTINUE, 100, 105), 0.01, 1e-15);
    GR_CHECK_NEAR(resumed(kind, GR_LR_RESTART, 100, 155), 0.01 + 0.09 * 0.25, 1e-15);
}

/* Those that do not look at the run's length: stretch and continue change nothing at all. */
static void check_endless(void)
{
    static const int kinds[] = {
        GR_SCHEDULE_CONSTANT,  GR_SCHEDULE_RESTARTS,    GR_SCHEDULE_STEP,
        GR_SCHEDULE_MULTISTEP, GR_SCHEDULE_EXPONENTIAL, GR_SCHEDULE_PLATEAU
    };
    const gr_schedule_span unbroken = { .length = 200, .run = 200 };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        gr_train_options o = base(kinds[i]);

        for (int64_t p = 100; p < 200; p++) {
            double want = rate(&o, &unbroken, p);

            GR_CHECK(resumed(kinds[i], GR_LR_STRETCH, 100, p) == want);
            GR_CHECK(resumed(kinds[i], GR_LR_CONTINUE, 100, p) == want);
            GR_CHECK(resumed(kinds[i], GR_LR_RESTART, 100, p) == rate(&o, &unbroken, p - 100));
        }
    }
    GR_CHECK_NEAR(resumed(GR_SCHEDULE_STEP, GR_LR_STRETCH, 100, 105), 0.1 * 0.125, 1e-15);
    GR_CHECK_NEAR(resumed(GR_SCHEDULE_STEP, GR_LR_RESTART, 100, 145), 0.1 * 0.5, 1e-15);
    GR_CHECK_NEAR(resumed(GR_SCHEDULE_MULTISTEP, GR_LR_RESTART, 100, 165), 0.1 * 0.5, 1e-15);
}

/* A command that is started again finds the run as long as it says: nothing is planned anew. */
static void check_again(void)
{
    const gr_schedule_span then = { .length = 100, .run = 100, .lr = 0.5 };

    for (int how = GR_LR_STRETCH; how <= GR_LR_RESTART; how++) {
        gr_schedule_span once = gr_schedule_resume(&then, (gr_lr_on_resume)how, 100, 200);
        gr_schedule_span twice = gr_schedule_resume(&once, (gr_lr_on_resume)how, 130, 200);
        gr_schedule_span same = gr_schedule_resume(&then, (gr_lr_on_resume)how, 60, 100);

        GR_CHECK(twice.from == once.from && twice.length == once.length && twice.run == 200);
        GR_CHECK(same.from == 0 && same.length == 100 && same.run == 100);
    }
}

/* After a restart at 100 the run is made longer once more: what was restarted is stretched. */
static void check_longer_still(void)
{
    const gr_schedule_span then = { .from = 100, .length = 100, .run = 200 };
    gr_schedule_span s = gr_schedule_resume(&then, GR_LR_STRETCH, 150, 300);

    GR_CHECK(s.from == 100 && s.length == 200);
    s = gr_schedule_resume(&then, GR_LR_CONTINUE, 150, 300);
    GR_CHECK(s.from == 100 && s.length == 100);
    s = gr_schedule_resume(&then, GR_LR_RESTART, 150, 300);
    GR_CHECK(s.from == 150 && s.length == 150);
    s = gr_schedule_resume(&then, GR_LR_STRETCH, 150, 50); /* shorter than what was done */
    GR_CHECK(s.from == 100 && s.length == 1);
}

/* Twice the ranks: an epoch has half the steps, and the same run is as long. */
static void check_ranks(void)
{
    const gr_schedule_span then = { .from = 25, .length = 100, .run = 200, .lr = 0.5 };
    gr_schedule_span s = gr_schedule_rescale(&then, 10, 5);

    GR_CHECK(s.from == 13 && s.length == 50 && s.run == 100 && s.lr == 0.5);
    s = gr_schedule_rescale(&(gr_schedule_span){ .run = INT64_MAX / 4 }, 1, 1000);
    GR_CHECK_EQ(s.run, INT64_MAX / 4);
    s = gr_schedule_rescale(&then, 10, 7);
    GR_CHECK(s.from == 18 && s.length == 70 && s.run == 140);
}

static void check_memory(void)
{
    static const char *const bad[] = { "",          "1 2 3",
                                       "-1 2 3 0",  "0 0 3 0",
                                       "0 2 0 0",   "0 2 3 -1",
                                       "0 2 3 nan", "0 9223372036854775807 3 0",
                                       "0 2 3 0 4" };
    gr_schedule_span s = { 7, 93, 100, 0.1 / 3 }, back;
    gr_text text = GR_TEXT_INIT;

    gr_schedule_print(&s, &text);
    GR_CHECK_OK(gr_schedule_parse(&back, gr_text_str(&text)));
    GR_CHECK(back.from == 7 && back.length == 93 && back.run == 100 && back.lr == 0.1 / 3);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        GR_CHECK_FAILS(gr_schedule_parse(&back, bad[i]), GR_ERR_FORMAT, "no record of a learning");
    gr_text_fini(&text);
}

int main(void)
{
    check_cosine();
    check_polynomial();
    check_endless();
    check_again();
    check_longer_still();
    check_ranks();
    check_memory();
    return 0;
}
