/* What evaluations decide: the best, early stopping, the plateau; and that it is kept (P5). */
#include "train/judge.h"

#include "check.h"

static const gr_metric_info metrics[] = { { .name = "accuracy", .is_share = true },
                                          { .name = "error", .is_less_better = true } };
static const gr_recipe_view view = { .metrics = metrics, .n_metrics = 2 };

static void check_choice(void)
{
    gr_train_options o = { 0 };
    gr_judge j;

    GR_CHECK_OK(gr_judge_init(&j, &o, &view));
    GR_CHECK_EQ(j.metric, 0);
    GR_CHECK(j.maximize);
    o.best_by = "error";
    GR_CHECK_OK(gr_judge_init(&j, &o, &view));
    GR_CHECK_EQ(j.metric, 1);
    GR_CHECK(!j.maximize);
    o.best_direction = GR_DIRECTION_MAX;
    GR_CHECK_OK(gr_judge_init(&j, &o, &view));
    GR_CHECK(j.maximize);
    o = (gr_train_options){ .best_by = "loss" };
    GR_CHECK_OK(gr_judge_init(&j, &o, &view));
    GR_CHECK_EQ(j.metric, -1);
    GR_CHECK(!j.maximize);
    o.best_by = "acuracy";
    GR_CHECK_FAILS(gr_judge_init(&j, &o, &view), GR_ERR_ARG, "it has accuracy");
}

static void check_stopping(void)
{
    gr_train_options o = { .best_by = "loss", .patience = 2, .min_delta = 0.1 };
    gr_judge j;

    GR_CHECK_OK(gr_judge_init(&j, &o, &view));
    GR_CHECK(!gr_judge_observe(&j, (double)NAN, 1));
    GR_CHECK(gr_judge_observe(&j, 1.0, 2));
    GR_CHECK_EQ(j.n_bad, 0);
    GR_CHECK(gr_judge_observe(&j, 0.95, 3)); /* the best, but not by min_delta */
    GR_CHECK_EQ(j.n_bad, 1);
    GR_CHECK(gr_judge_observe(&j, 0.85, 4)); /* small steps add up */
    GR_CHECK_EQ(j.n_bad, 0);
    GR_CHECK(!gr_judge_observe(&j, 0.9, 5));
    GR_CHECK(!gr_judge_gives_up(&j));
    GR_CHECK(!gr_judge_observe(&j, (double)NAN, 6));
    GR_CHECK(gr_judge_gives_up(&j));
    GR_CHECK_EQ(j.best_step, 4);
    GR_CHECK_NEAR(j.best, 0.85, 0);
}

/* A judge that is saved after k evaluations goes on as one that was not. */
static void check_memory(void)
{
    static const double values[] = { 0.3, 0.7, 0.6, 0.65, 0.1, 0.72, 0.72, 0.5 };
    gr_train_options o = {
        .patience = 3, .schedule = GR_SCHEDULE_PLATEAU, .lr = 1, .lr_gamma = 0.5, .lr_patience = 1
    };
    gr_judge whole, parts;

    GR_CHECK_OK(gr_judge_init(&whole, &o, &view));
    GR_CHECK_OK(gr_judge_init(&parts, &o, &view));
    for (int i = 0; i < 8; i++) {
        gr_text text = GR_TEXT_INIT;
        bool best = gr_judge_observe(&whole, values[i], i);

        GR_CHECK_EQ(gr_judge_observe(&parts, values[i], i), best);
        gr_judge_print(&parts, &text);
        GR_CHECK_OK(gr_judge_init(&parts, &o, &view));
        GR_CHECK_OK(gr_judge_parse(&parts, gr_text_str(&text)));
        gr_text_fini(&text);
        GR_CHECK_EQ(gr_judge_gives_up(&whole), gr_judge_gives_up(&parts));
        GR_CHECK_NEAR(gr_judge_lr_scale(&whole), gr_judge_lr_scale(&parts), 0);
    }
    GR_CHECK_EQ(parts.best_step, 5);
    GR_CHECK(gr_judge_lr_scale(&parts) < 1);
    GR_CHECK_FAILS(gr_judge_parse(&parts, "1 2 x"), GR_ERR_FORMAT, "no record");
}

int main(void)
{
    check_choice();
    check_stopping();
    check_memory();
    return 0;
}
