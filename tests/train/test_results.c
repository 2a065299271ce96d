/*
 * Results: typed cells as CSV and as JSON lines, in the order of the units whatever rank had them;
 * pictures; and what is refused.
 */
#include "train/results.h"

#include "base/outfile.h"

#include "check.h"
#include "scratch.h"
#include "step/world.h"

#include <math.h>
#include <unistd.h>

static const gr_column columns[] = { { .name = "unit", .kind = GR_COLUMN_INT },
                                     { .name = "a \"quoted\", name", .kind = GR_COLUMN_TEXT },
                                     { .name = "share", .kind = GR_COLUMN_F64 },
                                     { .name = "exact", .kind = GR_COLUMN_F64, .digits = 17 } };

static char folder[32];

static void check_file(const char *name, const char *want)
{
    char path[300], *text;
    size_t n;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    GR_CHECK_OK(gr_file_read(path, &text, &n));
    GR_CHECK_STR(text, want);
    free(text);
}

/* Rank r has the units r, r + W, ... of 5; unit 3 has two rows. */
static void rank(gr_pg *pg, void *arg)
{
    static const char *const names[] = { "plain", "a,b", "two\nlines \"x\"", NULL, "\xff\x01" };
    gr_results *r;

    (void)arg;
    GR_CHECK_OK(gr_results_create(
        &r, &(gr_results_config){ .folder = folder, .columns = columns, .n_columns = 4 }));
    GR_CHECK_STR(gr_results_folder(r), folder);
    for (int u = 4; u >= 0; u--) { /* the last one first */
        gr_cell cells[] = {
            { .i = u }, { .text = names[u] }, { .f = u / 3.0 }, { .f = u == 1 ? (double)NAN : 0.1 }
        };

        if (u % gr_pg_size(pg) != gr_pg_rank(pg))
            continue;
        GR_CHECK_OK(gr_results_row(r, u, cells));
        cells[1].text = "again";
        if (u == 3)
            GR_CHECK_OK(gr_results_row(r, u, cells));
        if (u % 2 == 0) {
            uint8_t px[12] = { (uint8_t)(40 * u), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 };
            gr_image image = { .height = 2, .width = 2, .channels = 3, .px = px };
            char name[16];

            snprintf(name, sizeof(name), "s%d", u);
            GR_CHECK_OK(gr_results_picture(r, u, name, &image));
        }
    }
    GR_CHECK_OK(gr_results_write(r, pg));
    GR_CHECK_EQ(gr_results_n_pictures(r), gr_pg_rank(pg) == 0 ? 3 : 0);
    gr_results_destroy(r);
}

static void check_files(void)
{
    char path[300];

    check_file("predictions.csv", "unit,\"a \"\"quoted\"\", name\",share,exact\n"
                                  "0,plain,0,0.10000000000000001\n"
                                  "1,\"a,b\",0.333333,nan\n"
                                  "2,\"two lines \"\"x\"\"\",0.666667,0.10000000000000001\n"
                                  "3,,1,0.10000000000000001\n"
                                  "3,again,1,0.10000000000000001\n"
                                  "4,\xff\x01,1.33333,0.10000000000000001\n");
    check_file("predictions.jsonl",
               "{\"unit\": 0, \"a \\\"quoted\\\", name\": \"plain\", \"share\": 0, "
               "\"exact\": 0.10000000000000001}\n"
               "{\"unit\": 1, \"a \\\"quoted\\\", name\": \"a,b\", \"share\": 0.333333, "
               "\"exact\": null}\n"
               "{\"unit\": 2, \"a \\\"quoted\\\", name\": \"two\\u000alines \\\"x\\\"\", "
               "\"share\": 0.666667, \"exact\": 0.10000000000000001}\n"
               "{\"unit\": 3, \"a \\\"quoted\\\", name\": null, \"share\": 1, "
               "\"exact\": 0.10000000000000001}\n"
               "{\"unit\": 3, \"a \\\"quoted\\\", name\": \"again\", \"share\": 1, "
               "\"exact\": 0.10000000000000001}\n"
               "{\"unit\": 4, \"a \\\"quoted\\\", name\": \"?\\u0001\", \"share\": 1.33333, "
               "\"exact\": 0.10000000000000001}\n");
    for (int u = 0; u <= 4; u += 2) {
        gr_image image = GR_IMAGE_INIT;

        snprintf(path, sizeof(path), "%s/samples/s%d.png", folder, u);
        GR_CHECK_OK(gr_image_read(&image, path, NULL));
        GR_CHECK(image.height == 2 && image.channels == 3 && image.px[0] == 40 * u);
        gr_image_fini(&image);
    }
}

static void refused(void)
{
    uint8_t px[4] = { 0 };
    gr_image image = { .height = 2, .width = 2, .channels = 1, .px = px }, none = GR_IMAGE_INIT;
    gr_cell cell = { .i = 0 };
    gr_results *r;
    gr_pg *pg;

    GR_CHECK_OK(gr_pg_create(&pg, NULL));
    GR_CHECK_OK(
        gr_results_create(&r, &(gr_results_config){ .folder = "/proc/none", .prefix = "step_1_" }));
    GR_CHECK_FAILS(gr_results_row(r, 7, &cell), GR_ERR_ARG, "unit 7, but the recipe names no col");
    GR_CHECK_FAILS(gr_results_picture(r, 0, "../x", &image), GR_ERR_ARG, "names no picture");
    GR_CHECK_FAILS(gr_results_picture(r, 0, "x", &none), GR_ERR_ARG, "holds no pixels");
    GR_CHECK_OK(gr_results_write(r, pg)); /* there is nothing to write */
    GR_CHECK_OK(gr_results_picture(r, 0, "x", &image));
    GR_CHECK_FAILS(gr_results_write(r, pg), GR_ERR_IO, "pictures: ");
    gr_results_destroy(r);
    GR_CHECK_OK(gr_results_create(
        &r, &(gr_results_config){ .folder = "/proc/none", .columns = columns, .n_columns = 4 }));
    GR_CHECK_FAILS(gr_results_write(r, pg), GR_ERR_IO, "--output names another folder");
    gr_results_destroy(r);
    gr_pg_destroy(pg);
}

int main(void)
{
    gr_test_scratch();
    for (int n = 1; n <= 4; n++) {
        snprintf(folder, sizeof(folder), "on%d", n);
        GR_CHECK_OK(gr_make_folders(folder));
        each_rank(n, rank, NULL);
        check_files();
    }
    refused();
    return 0;
}
