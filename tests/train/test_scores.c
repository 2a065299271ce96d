/* Results of a test as table, JSON and CSV. */
#include "train/scores.h"

#include "check.h"

static const gr_metric_info metrics[] = { { .name = "accuracy", .is_share = true },
                                          { .name = "iou/\"a\",b" },
                                          { .name = "absent", .is_share = true } };
static const gr_recipe_view view = { .metrics = metrics, .n_metrics = 3 };

static void check(void (*print)(const gr_recipe_view *, const gr_scores *, gr_text *),
                  const char *want)
{
    double values[] = { 0.982, (double)NAN, (double)NAN };
    gr_scores s = { .loss = 0.5, .values = values, .n_samples = 101 };
    gr_text text = GR_TEXT_INIT;

    print(&view, &s, &text);
    if (strcmp(gr_text_str(&text), want) != 0) {
        fprintf(stderr, "got '%s', expected '%s'\n", gr_text_str(&text), want);
        exit(1);
    }
    gr_text_fini(&text);
}

int main(void)
{
    check(gr_scores_table, "  loss                     0.5\n"
                           "  accuracy                 98.20%\n"
                           "  iou/\"a\",b                nan\n"
                           "  absent                   -\n");
    check(gr_scores_json, "{\"samples\": 101, \"loss\": 0.5, \"accuracy\": 0.98199999999999998, "
                          "\"iou/\\\"a\\\",b\": null, \"absent\": null}\n");
    check(gr_scores_csv, "metric,value\nsamples,101\nloss,0.5\naccuracy,0.98199999999999998\n"
                         "iou/_a__b,nan\nabsent,nan\n");
    /* A run in a folder that cannot be written: the test itself was no waste. */
    GR_CHECK_FAILS(gr_scores_write(&view,
                                   &(gr_scores){ .values = (double[3]){ 0 }, .n_samples = 1 },
                                   "/proc/none"),
                   GR_ERR_IO, "results (--output names another folder): ");
    return 0;
}
