/* Rates, shares of time, and the advice after the first epoch (P29). */
#include "train/pace.h"

#include "check.h"

static void check_windows(void)
{
    gr_pace p;

    gr_pace_begin(&p, &(gr_pace_now){ .ns = 1000 }, 7);
    GR_CHECK_EQ(p.began_at, 7);
    gr_pace_measure(&p, &(gr_pace_now){ 1000 + 1000000000, 250000000, 100000000, 500 });
    GR_CHECK_NEAR(p.samples_per_s, 500, 1e-9);
    GR_CHECK_NEAR(p.data, 0.25, 1e-9);
    GR_CHECK_NEAR(p.exchange, 0.1, 1e-9);
    GR_CHECK_NEAR(gr_pace_compute(&p), 0.65, 1e-9);
    /* An evaluation is in no window. */
    gr_pace_mark(&p, &(gr_pace_now){ 9000000000, 250000000, 5000000000, 500 });
    gr_pace_measure(&p, &(gr_pace_now){ 10000000000, 250000000, 5000000000, 600 });
    GR_CHECK_NEAR(p.samples_per_s, 100, 1e-6);
    GR_CHECK_NEAR(p.data, 0, 0);
    GR_CHECK_NEAR(gr_pace_data(&p), 0.125, 1e-6);
    GR_CHECK_NEAR(gr_pace_exchange(&p), 0.05, 1e-6);
    /* Nothing was trained: the rate stays. */
    gr_pace_measure(&p, &(gr_pace_now){ 11000000000, 250000000, 5000000000, 600 });
    GR_CHECK_NEAR(p.samples_per_s, 100, 1e-6);
}

static void check_advice(gr_pace_shares s, const char *part)
{
    gr_text text = GR_TEXT_INIT;

    gr_pace_advice(&s, &text);
    if (part ? !strstr(gr_text_str(&text), part) : text.len > 0) {
        fprintf(stderr, "got '%s', expected '%s'\n", gr_text_str(&text), part ? part : "");
        exit(1);
    }
    gr_text_fini(&text);
}

int main(void)
{
    check_windows();
    check_advice((gr_pace_shares){ 0.1, 0.19, 0.1, 0.1, 4, 8, NULL }, NULL);
    check_advice((gr_pace_shares){ 0.1, 0.3, 0.3, 0.1, 4, 8, NULL }, "30%");
    check_advice((gr_pace_shares){ 0.1, 0.3, 0.3, 0.1, 4, 8, "wait" },
                 "--num_workers (now 4, of 8 cores)");
    check_advice((gr_pace_shares){ 0.1, 0.3, 0, 0, 8, 8, "pack" },
                 "every core: pack, or give a rank more cores.");
    check_advice((gr_pace_shares){ 0.1, 0.3, 0, 0, 8, 8, NULL },
                 "every core: give a rank more cores.");
    check_advice((gr_pace_shares){ 0, 0, 0.4, 0.38, 4, 8, NULL }, "--grad_accumulation_steps");
    check_advice((gr_pace_shares){ 0, 0, 0.4, 0.1, 4, 8, NULL }, "slower");
    return 0;
}
