/* Metrics: records as written, and what a resumed run keeps of them. */
#include "track/metrics.h"

#include "base/alloc.h"
#include "base/outfile.h"
#include "check.h"
#include "scratch.h"

#include <unistd.h>

#define PATH "metrics.jsonl"

static void expect_file(const char *want)
{
    char *text;
    size_t n_bytes;

    GR_CHECK_OK(gr_file_read(PATH, &text, &n_bytes));
    GR_CHECK_STR(text, want);
    gr_free(text);
}

static void record(gr_metrics *m, int64_t step, double loss)
{
    gr_metrics_begin(m, step);
    gr_metrics_i64(m, "epoch", 1);
    gr_metrics_f64(m, "loss", loss);
    GR_CHECK_OK(gr_metrics_end(m));
}

static void evaluation(gr_metrics *m, int64_t step)
{
    gr_metrics_begin(m, step);
    gr_metrics_f64(m, "val_loss", 3);
    GR_CHECK_OK(gr_metrics_end(m));
}

int main(void)
{
    static const char *const again[] = { "accuracy", "val_loss" };
    gr_metrics *m;
    FILE *f;

    gr_test_scratch();
    unlink(PATH);
    GR_CHECK_OK(gr_metrics_open(&m, PATH, &(gr_keep){ .last_step = -1 }));
    record(m, 10, 0.5);
    record(m, 20, (double)NAN);
    record(m, 30, 0.25);
    gr_metrics_close(m);
    gr_metrics_close(NULL);
    expect_file("{\"step\": 10, \"epoch\": 1, \"loss\": 0.5}\n"
                "{\"step\": 20, \"epoch\": 1, \"loss\": null}\n"
                "{\"step\": 30, \"epoch\": 1, \"loss\": 0.25}\n");

    /* A killed writer may leave half a line; the run goes on from step 20. */
    f = fopen(PATH, "a");
    GR_CHECK(f && fputs("{\"step\": 15, \"ep", f) >= 0);
    fclose(f);
    GR_CHECK_OK(gr_metrics_open(&m, PATH, &(gr_keep){ .last_step = 20 }));
    record(m, 21, 2);
    gr_metrics_close(m);
    expect_file("{\"step\": 10, \"epoch\": 1, \"loss\": 0.5}\n"
                "{\"step\": 20, \"epoch\": 1, \"loss\": null}\n"
                "{\"step\": 21, \"epoch\": 1, \"loss\": 2}\n");

    /* An evaluation that comes again goes, of the last step only. */
    unlink(PATH);
    GR_CHECK_OK(gr_metrics_open(&m, PATH, &(gr_keep){ 0 }));
    evaluation(m, 10);
    record(m, 20, 1);
    evaluation(m, 20);
    GR_CHECK_OK(gr_metrics_sync(m));
    gr_metrics_close(m);
    GR_CHECK_OK(gr_metrics_open(&m, PATH, &(gr_keep){ 20, again, 2 }));
    gr_metrics_close(m);
    expect_file("{\"step\": 10, \"val_loss\": 3}\n{\"step\": 20, \"epoch\": 1, \"loss\": 1}\n");

    unlink(PATH);
    GR_CHECK_OK(gr_metrics_open(&m, PATH, &(gr_keep){ .last_step = 0 }));
    gr_metrics_begin(m, 1);
    gr_metrics_f64(m, "a \"b\"\n\xff", 2);
    GR_CHECK_OK(gr_metrics_end(m));
    gr_metrics_close(m);
    expect_file("{\"step\": 1, \"a \\\"b\\\"\\u000a?\": 2}\n");

    GR_CHECK_FAILS(gr_metrics_open(&m, "missing/" PATH, &(gr_keep){ .last_step = 0 }), GR_ERR_IO,
                   "missing/" PATH);
    GR_CHECK_OK(gr_metrics_open(&m, "/dev/full", &(gr_keep){ .last_step = 0 }));
    gr_metrics_begin(m, 1);
    GR_CHECK_FAILS(gr_metrics_end(m), GR_ERR_IO, "/dev/full");
    gr_metrics_close(m);
    return 0;
}
