/* The table of metrics: new columns, what a crash leaves, what a resumed run keeps. */
#include "track/csv.h"

#include "alloc_fail.h"
#include "base/outfile.h"
#include "base/text.h"
#include "check.h"
#include "scratch.h"

#include <unistd.h>

#define PATH "metrics.csv"

static void expect_file(const char *want)
{
    char *text;
    size_t n_bytes;

    GR_CHECK_OK(gr_file_read(PATH, &text, &n_bytes));
    GR_CHECK_STR(text, want);
    gr_free(text);
}

static void row(gr_csv *c, int64_t step, const char *name, double value)
{
    gr_csv_begin(c, step);
    GR_CHECK_OK(gr_csv_value(c, "epoch", 1));
    GR_CHECK_OK(gr_csv_value(c, name, value));
    GR_CHECK_OK(gr_csv_end(c));
}

static void remember(void *arg, int64_t step, const char *name, double value)
{
    gr_text_addf(arg, "%d %s %g; ", (int)step, name, value);
}

static void append(const char *text)
{
    FILE *f = fopen(PATH, "a");

    GR_CHECK(f && fputs(text, f) >= 0);
    fclose(f);
}

/* Two rows, the second with one more column, and the file taken over again. */
static gr_status with_little_memory(void *arg)
{
    gr_csv *c;
    gr_status st = GR_OK;

    unlink(arg);
    for (int64_t i = 0; i < 2 && st == GR_OK; i++) {
        GR_TRY(gr_csv_open(&c, arg, &(gr_keep){ .last_step = 100 }, NULL, NULL));
        gr_csv_begin(c, i);
        st = gr_csv_value(c, i == 0 ? "a" : "b", 1);
        if (st == GR_OK)
            st = gr_csv_end(c);
        gr_csv_close(c);
    }
    return st;
}

int main(void)
{
    gr_text seen = GR_TEXT_INIT;
    gr_csv *c;

    gr_test_scratch();
    unlink(PATH);
    GR_CHECK_OK(gr_csv_open(&c, PATH, &(gr_keep){ .last_step = -1 }, NULL, NULL));
    row(c, 10, "loss", 0.5);
    row(c, 20, "loss", (double)NAN);
    row(c, 20, "val,loss", 1234567890123.0);
    row(c, 30, "val,loss", -(double)INFINITY); /* no third column for the same name */
    gr_csv_close(c);
    gr_csv_close(NULL);
    expect_file(
        "step,epoch,loss,val_loss\n10,1,0.5,\n20,1,nan,\n20,1,,1234567890123\n30,1,,-inf\n");

    /* A cut line goes, also one that looks whole but for its end; so do steps to be run again. */
    append("15,1,0.");
    GR_CHECK_OK(gr_csv_open(&c, PATH, &(gr_keep){ .last_step = 20 }, remember, &seen));
    GR_CHECK_STR(seen.str, "10 epoch 1; 10 loss 0.5; 20 epoch 1; 20 loss nan; 20 epoch 1; "
                           "20 val_loss 1.23457e+12; ");
    row(c, 21, "loss", 2);
    gr_csv_close(c);
    expect_file("step,epoch,loss,val_loss\n10,1,0.5,\n20,1,nan,\n20,1,,1234567890123\n21,1,2,\n");

    /* The evaluation of the last step comes again, the step's own row does not. */
    {
        static const char *const again[] = { "accuracy", "val,loss" };

        GR_CHECK_OK(gr_csv_open(&c, PATH, &(gr_keep){ 20, again, 2 }, NULL, NULL));
        GR_CHECK_OK(gr_csv_sync(c));
        gr_csv_close(c);
        expect_file("step,epoch,loss,val_loss\n10,1,0.5,\n20,1,nan,\n");
        GR_CHECK_OK(gr_csv_open(&c, PATH, &(gr_keep){ 21, again, 2 }, NULL, NULL));
        gr_csv_close(c);
        expect_file("step,epoch,loss,val_loss\n10,1,0.5,\n20,1,nan,\n");
    }

    /* A cut header: nothing can be kept. */
    unlink(PATH);
    append("step,epo");
    GR_CHECK_OK(gr_csv_open(&c, PATH, &(gr_keep){ .last_step = 20 }, NULL, NULL));
    row(c, 1, "loss", 3);
    gr_csv_close(c);
    expect_file("step,epoch,loss\n1,1,3\n");

    GR_CHECK_FAILS(gr_csv_open(&c, "missing/" PATH, &(gr_keep){ .last_step = 0 }, NULL, NULL),
                   GR_ERR_IO, "missing/" PATH);
    GR_CHECK(gr_alloc_fail_each(with_little_memory, (char[]){ "little.csv" }) > 10);
    gr_text_fini(&seen);
    return 0;
}
