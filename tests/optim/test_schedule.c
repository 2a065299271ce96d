/* The learning rate: warm-up, constant, cosine; never beyond the run. */
#include "optim/schedule.h"

#include "check.h"

int main(void)
{
    gr_schedule s = { .kind = GR_SCHEDULE_CONSTANT, .lr = 0.1, .n_warmup = 4, .n_steps = 100 };

    GR_CHECK_NEAR(gr_schedule_lr(&s, 0), 0.025, 1e-15);
    GR_CHECK_NEAR(gr_schedule_lr(&s, 3), 0.1, 1e-15);
    GR_CHECK_NEAR(gr_schedule_lr(&s, 4), 0.1, 1e-15);
    GR_CHECK_NEAR(gr_schedule_lr(&s, 1000), 0.1, 1e-15);

    s.kind = GR_SCHEDULE_COSINE;
    GR_CHECK_NEAR(gr_schedule_lr(&s, 4), 0.1, 1e-15);
    GR_CHECK_NEAR(gr_schedule_lr(&s, 52), 0.05, 1e-15);
    GR_CHECK(gr_schedule_lr(&s, 99) > 0);
    GR_CHECK_NEAR(gr_schedule_lr(&s, 100), 0, 0);

    /* A warm-up longer than the run still reaches the full rate. */
    s.n_warmup = 1000;
    GR_CHECK_NEAR(gr_schedule_lr(&s, 99), 0.1, 1e-15);

    s.n_warmup = 0;
    GR_CHECK_NEAR(gr_schedule_lr(&s, 0), 0.1, 1e-15);
    return 0;
}
