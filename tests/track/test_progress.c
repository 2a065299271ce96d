/* The progress line: its words, and how it is drawn on a terminal and into a file. */
#include "track/progress.h"

#include "check.h"

static void expect_time(double s, const char *want)
{
    gr_text t = GR_TEXT_INIT;

    gr_progress_time(s, &t);
    GR_CHECK_STR(gr_text_str(&t), want);
    gr_text_fini(&t);
}

static const gr_progress_view view = { .epoch = 2,
                                       .n_epochs = 8,
                                       .step = 40,
                                       .n_steps = 187,
                                       .loss = 0.123456,
                                       .lr = 1.9e-3,
                                       .samples_per_s = 51200.4,
                                       .left_s = 12.3,
                                       .data = 0.031,
                                       .exchange = 0.118 };
#define LINE                                                                       \
    "epoch 2/8  step 40/187  loss 0.1235  lr 1.9e-03  51200 samples/s  ETA 0:12  " \
    "data 3% compute 85% exchange 12%"
#define CUT "epoch 2/8  step 40/187  loss 0.1235  lr 1.9e-03  51200 samples/s  ETA 0:12  dat"

/* What show and clear write, as one string. */
static void expect_drawn(bool live, const char *want)
{
    char got[400] = { 0 };
    FILE *f = tmpfile();
    gr_progress p;

    GR_CHECK(f);
    gr_progress_init(&p, f, live);
    GR_CHECK_EQ(gr_progress_due(&p), live);
    gr_progress_show(&p, &view);
    GR_CHECK(!gr_progress_due(&p));
    gr_progress_clear(&p);
    gr_progress_clear(&p); /* nothing stands there any more */
    rewind(f);
    GR_CHECK(fread(got, 1, sizeof(got) - 1, f) > 0);
    GR_CHECK_STR(got, want);
    fclose(f);
}

int main(void)
{
    gr_progress_view first = view;
    gr_text t = GR_TEXT_INIT;

    expect_time(0, "0:00");
    expect_time(59.6, "1:00");
    expect_time(754, "12:34");
    expect_time(11109, "3:05:09");
    expect_time(-1, "-:--");
    expect_time((double)NAN, "-:--");
    expect_time((double)INFINITY, "-:--");

    gr_progress_format(&view, &t);
    GR_CHECK_STR(gr_text_str(&t), LINE);
    t.len = 0;
    first.n_skipped = 2;
    first.scale = 32768;
    gr_progress_format(&first, &t);
    GR_CHECK_STR(gr_text_str(&t), LINE "  skipped 2  scale 32768");
    first = view;
    t.len = 0;
    first.samples_per_s = 0;
    first.left_s = -1;
    gr_progress_format(&first, &t);
    GR_CHECK_STR(gr_text_str(&t), "epoch 2/8  step 40/187  loss 0.1235  lr 1.9e-03  ETA -:--");
    t.len = 0;
    first.loss = copysign((double)NAN, -1); /* as x86 makes it */
    gr_progress_format(&first, &t);
    GR_CHECK_STR(gr_text_str(&t), "epoch 2/8  step 40/187  loss nan  lr 1.9e-03  ETA -:--");
    gr_text_fini(&t);

    expect_drawn(false, LINE "\n");
    /* No terminal: 80 columns are taken for granted, and a line that wraps cannot be redrawn. */
    expect_drawn(true, "\r" CUT "\033[K\r\033[K");
    return 0;
}
