/*
 * The learning rate: PyTorch's schedulers number for number (tests/golden/
 * make_schedules.py), warm-up, ticks, the plateau, and what is refused.
 */
#include "gradus/schedule.h"

#include "base/alloc.h"
#include "base/outfile.h"
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define N_STEPS 40

static const struct {
    const char *name;
    gr_schedule s;
} golden[] = {
    { "cosine",
      { .kind = GR_SCHEDULE_COSINE, .lr = 0.1, .n_steps = N_STEPS, .tick = 1, .floor = 0.01 } },
    { "restarts",
      { .kind = GR_SCHEDULE_RESTARTS,
        .lr = 0.1,
        .n_steps = N_STEPS,
        .floor = 0.01,
        .period = 7,
        .factor = 1 } },
    { "restarts2",
      { .kind = GR_SCHEDULE_RESTARTS, .lr = 0.1, .n_steps = N_STEPS, .period = 5, .factor = 2 } },
    { "step",
      { .kind = GR_SCHEDULE_STEP, .lr = 0.1, .n_steps = N_STEPS, .period = 9, .factor = 0.5 } },
    { "multistep",
      { .kind = GR_SCHEDULE_MULTISTEP,
        .lr = 0.1,
        .n_steps = N_STEPS,
        .factor = 0.1,
        .milestone = { 3, 17, 30 },
        .n_milestones = 3 } },
    { "polynomial",
      { .kind = GR_SCHEDULE_POLYNOMIAL, .lr = 0.1, .n_steps = N_STEPS, .power = 0.9 } },
    { "exponential",
      { .kind = GR_SCHEDULE_EXPONENTIAL, .lr = 0.1, .n_steps = N_STEPS, .factor = 0.9 } },
};

/* The next "name step rate" of that name at or after *at, or false. */
static bool next_line(const char **at, const char *name, long *step, double *rate)
{
    size_t len = strlen(name);

    for (const char *line = *at; *line;) {
        const char *end = strchr(line, '\n');
        char *rest;

        GR_CHECK(end != NULL);
        *at = end + 1;
        if (strncmp(line, name, len) == 0 && line[len] == ' ') {
            *step = strtol(line + len, &rest, 10);
            *rate = strtod(rest, NULL);
            return true;
        }
        line = end + 1;
    }
    return false;
}

/* PyTorch works its rates out from one another, so a few roundings lie between. */
static void test_golden(const char *text)
{
    for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++) {
        const char *at = text;
        long step, n = 0;
        double rate;

        GR_CHECK_OK(gr_schedule_check(&golden[i].s));
        for (; next_line(&at, golden[i].name, &step, &rate); n++)
            GR_CHECK_NEAR(gr_schedule_lr(&golden[i].s, step), rate, 1e-14);
        GR_CHECK_EQ(n, N_STEPS);
    }
}

static const double seen[] = { 1.0, 0.9, 0.9, 0.95, 0.89999, 0.91, 0.9, 0.9, 0.9, 0.5, 0.6, 0.6,
                               0.6, 0.6, 0.6, 0.6,  0.6,     0.4,  0.5, NAN, 0.5, 0.5, 0.5, 0.5 };

static void test_plateau(const char *text, const char *name, bool maximize)
{
    gr_plateau p = GR_PLATEAU_INIT;
    const char *at = text;
    long step, n = 0;
    double rate, before = 1;

    p.maximize = maximize;
    p.factor = 0.5;
    p.patience = 2;
    p.cooldown = 1;
    p.min_scale = 0.2;
    for (; next_line(&at, name, &step, &rate); n++) {
        bool reduced = gr_plateau_observe(&p, maximize ? 2 - seen[step] : seen[step]);

        GR_CHECK_EQ(reduced, p.scale < before);
        GR_CHECK_NEAR(0.1 * p.scale, rate, 1e-15);
        before = p.scale;
    }
    GR_CHECK_EQ(n, (long)(sizeof(seen) / sizeof(seen[0])));
    GR_CHECK_NEAR(p.scale, 0.2, 0);
}

/* A first value that is infinite is no best one (torch.optim.lr_scheduler: best starts there). */
static void test_plateau_of_infinity(void)
{
    gr_plateau p = GR_PLATEAU_INIT;

    p.patience = 0;
    GR_CHECK(gr_plateau_observe(&p, (double)INFINITY));
    GR_CHECK(!gr_plateau_observe(&p, 3));
    p = (gr_plateau)GR_PLATEAU_INIT;
    p.maximize = true;
    p.patience = 0;
    GR_CHECK(gr_plateau_observe(&p, -(double)INFINITY));
    GR_CHECK(!gr_plateau_observe(&p, -3));
}

static void test_warmup(void)
{
    gr_schedule s = GR_SCHEDULE_INIT;

    s.lr = 0.1;
    s.n_warmup = 4;
    s.n_steps = 100;
    GR_CHECK_NEAR(gr_schedule_lr(&s, 0), 0.025, 1e-15);
    GR_CHECK_NEAR(gr_schedule_lr(&s, 3), 0.1, 1e-15);
    GR_CHECK_NEAR(gr_schedule_lr(&s, 4), 0.1, 1e-15);
    GR_CHECK_NEAR(gr_schedule_lr(&s, 1000), 0.1, 1e-15);
    s.warmup_at_0 = true;
    GR_CHECK_NEAR(gr_schedule_lr(&s, 0), 0, 0);
    GR_CHECK_NEAR(gr_schedule_lr(&s, 2), 0.05, 1e-15);
    s.warmup_at_0 = false;

    s.kind = GR_SCHEDULE_COSINE;
    GR_CHECK_NEAR(gr_schedule_lr(&s, 4), 0.1, 1e-15);
    GR_CHECK_NEAR(gr_schedule_lr(&s, 52), 0.05, 1e-15);
    GR_CHECK(gr_schedule_lr(&s, 99) > 0);
    GR_CHECK_NEAR(gr_schedule_lr(&s, 100), 0, 0);

    /* A warm-up longer than the run still reaches the full rate. */
    s.n_warmup = 1000;
    GR_CHECK_NEAR(gr_schedule_lr(&s, 99), 0.1, 1e-15);
    s.n_warmup = s.n_steps; /* and one as long as it leaves nothing to decline in */
    GR_CHECK_NEAR(gr_schedule_lr(&s, 99), 0.1, 1e-15);
    GR_CHECK_NEAR(gr_schedule_lr(&s, 100), 0, 0);

    /* Without an end there is a warm-up all the same. */
    s.kind = GR_SCHEDULE_STEP;
    s.n_warmup = 4;
    s.n_steps = 0;
    s.period = 3;
    GR_CHECK_OK(gr_schedule_check(&s));
    GR_CHECK_NEAR(gr_schedule_lr(&s, 1), 0.05, 1e-15);
    GR_CHECK_NEAR(gr_schedule_lr(&s, 6), 0.1, 1e-15);
    GR_CHECK_NEAR(gr_schedule_lr(&s, 7), 0.01, 1e-15);
    GR_CHECK_NEAR(gr_schedule_lr(&s, -5), 0.025, 1e-15);
}

/* Once an epoch: the rate stays for `tick` steps, and the last, short epoch is one. */
static void test_ticks(void)
{
    gr_schedule s = GR_SCHEDULE_INIT;

    s.kind = GR_SCHEDULE_COSINE;
    s.lr = 1;
    s.n_steps = 35;
    s.tick = 10;
    GR_CHECK_NEAR(gr_schedule_lr(&s, 9), 1, 0);
    GR_CHECK_NEAR(gr_schedule_lr(&s, 10), 0.5 * (1 + cos(0.25 * 3.14159265358979323846)), 1e-15);
    GR_CHECK_NEAR(gr_schedule_lr(&s, 20), 0.5, 1e-15);
    GR_CHECK_NEAR(gr_schedule_lr(&s, 34), gr_schedule_lr(&s, 30), 0);
    GR_CHECK(gr_schedule_lr(&s, 34) > 0);
}

static void test_refused(void)
{
    gr_schedule s = GR_SCHEDULE_INIT, good = GR_SCHEDULE_INIT;

    GR_CHECK_OK(gr_schedule_check(&s));
    s.lr = -1;
    GR_CHECK_FAILS(gr_schedule_check(&s), GR_ERR_ARG, "learning rate is -1");
    s = good;
    s.kind = GR_SCHEDULE_COSINE;
    GR_CHECK_FAILS(gr_schedule_check(&s), GR_ERR_ARG, "n_steps is 0, and cosine declines");
    GR_CHECK_FAILS(gr_schedule_check(NULL), GR_ERR_ARG, "NULL");
    s = good;
    s.floor = 1;
    GR_CHECK_FAILS(gr_schedule_check(&s), GR_ERR_ARG, "floor is 1");
    s = good;
    s.kind = GR_SCHEDULE_STEP;
    s.period = 0;
    GR_CHECK_FAILS(gr_schedule_check(&s), GR_ERR_ARG, "period is 0");
    s = good;
    s.kind = GR_SCHEDULE_RESTARTS;
    s.factor = 0.5;
    GR_CHECK_FAILS(gr_schedule_check(&s), GR_ERR_ARG, "restarts grow by 0.5");
    s = good;
    s.n_milestones = 2;
    s.milestone[0] = 5;
    s.milestone[1] = 5;
    GR_CHECK_FAILS(gr_schedule_check(&s), GR_ERR_ARG, "milestone 5 does not come after 5");
    s = good;
    s.kind = GR_SCHEDULE_KIND_COUNT;
    GR_CHECK_FAILS(gr_schedule_check(&s), GR_ERR_ARG, "unknown kind");
    GR_CHECK(gr_schedule_name(GR_SCHEDULE_KIND_COUNT) == NULL);
    GR_CHECK_STR(gr_schedule_name(GR_SCHEDULE_MULTISTEP), "multistep");
}

int main(void)
{
    char *text;
    size_t n_bytes;

    GR_CHECK_OK(gr_file_read(GR_TESTS_DIR "/golden/schedules.txt", &text, &n_bytes));
    test_golden(text);
    test_plateau(text, "plateau", false);
    test_plateau(text, "plateau_max", true);
    gr_free(text);
    test_plateau_of_infinity();
    test_warmup();
    test_ticks();
    test_refused();
    return 0;
}
