/* Event files: framing and bytes, checksums of every record, resume, failures. What TensorBoard
 * itself reads is in tests/interop. */
#include "track/events.h"

#include "alloc_fail.h"
#include "base/outfile.h"
#include "check.h"
#include "scratch.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static uint32_t u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint32_t masked(const void *src, size_t n)
{
    uint32_t crc = gr_crc32c(0, src, n);

    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

/* Checks every frame of a file; returns how many. */
static int count_records(const uint8_t *at, size_t left)
{
    int n = 0;

    while (left > 0) {
        size_t len;

        GR_CHECK(left >= 16);
        len = u32(at);
        GR_CHECK_EQ(u32(at + 4), 0);
        GR_CHECK(left >= 16 + len);
        GR_CHECK_EQ(u32(at + 8), masked(at, 8));
        GR_CHECK_EQ(u32(at + 12 + len), masked(at + 12, len));
        at += 16 + len;
        left -= 16 + len;
        n++;
    }
    return n;
}

static int count_files(const char *folder)
{
    DIR *d = opendir(folder);
    int n = 0;

    GR_CHECK(d);
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        n += strstr(e->d_name, "events.out.tfevents.") == e->d_name;
    closedir(d);
    return n;
}

/* The bytes of a scalar, as other writers make them. */
static void test_scalar(void)
{
    static const uint8_t want[] = { 0x1a, 0,    0,    0,    0,    0,    0,    0,    0x12,
                                    0x9b, 0xd8, 0x2d, 0x09, 0,    0,    0x40, 0x40, 0xfc,
                                    0x54, 0xd9, 0x41, 0x10, 0x07, 0x2a, 0x0d, 0x0a, 0x0b,
                                    0x0a, 0x04, 'l',  'o',  's',  's',  0x15, 0,    0,
                                    0,    0x3f, 0x36, 0x8f, 0xc0, 0x84 };
    gr_event_at at = { "loss", 7, 1700000001.0 };
    gr_events *e;
    char path[1000], *text;
    size_t n;

    GR_CHECK_OK(gr_events_open(&e, "scalars/deep", GR_SCALAR_SIMPLE));
    GR_CHECK_OK(gr_events_scalar(e, &at, 0.5));
    snprintf(path, sizeof(path), "%s", gr_events_path(e));
    GR_CHECK_OK(gr_events_close(e));
    GR_CHECK_OK(gr_file_read(path, &text, &n));
    GR_CHECK_EQ(n, 50 + sizeof(want));
    GR_CHECK(memcmp(text + 21,
                    "\x1a\x0d"
                    "brain.Event:2",
                    15) == 0);
    GR_CHECK(memcmp(text + 50, want, sizeof(want)) == 0);
    GR_CHECK_EQ(count_records((uint8_t *)text, n), 2);
    gr_free(text);
}

static void test_all_kinds(void)
{
    static const gr_param params[] = { { "lr", GR_PARAM_NUMBER, 0.1, NULL },
                                       { "model", GR_PARAM_TEXT, 0, "resnet\xff" },
                                       { "amp", GR_PARAM_BOOL, 1, NULL } };
    static const char *const metrics[] = { "val_loss" };
    static const uint8_t grey[6] = { 0, 50, 100, 150, 200, 250 };
    static const float values[] = { -1, 0, 0.5f, (float)NAN, 1e30f, 3.4e38f, (float)INFINITY };
    gr_pixels image = { grey, 3, 2, 1 }, wrong = { grey, 3, 1, 2 };
    gr_event_at at = { "x", 3, 1700000002 };
    gr_events *e;
    char path[1000], *text;
    size_t n;

    GR_CHECK_OK(gr_events_open(&e, "kinds", GR_SCALAR_TENSOR));
    GR_CHECK_OK(gr_events_hparams(e, 1700000000, params, 3, metrics, 1));
    GR_CHECK_OK(gr_events_scalar(e, &at, (double)NAN));
    GR_CHECK_OK(gr_events_image(e, &at, &image));
    GR_CHECK_FAILS(gr_events_image(e, &at, &wrong), GR_ERR_ARG, "2 channels");
    GR_CHECK_OK(gr_events_text(e, &at, "# \xc3\xa9"));
    GR_CHECK_OK(gr_events_text(e, &at, ""));
    GR_CHECK_OK(gr_events_histogram(e, &at, values, 7));
    GR_CHECK_OK(gr_events_histogram(e, &at, values + 3, 1)); /* nothing to count: nothing written */
    GR_CHECK_OK(gr_events_ended(e, 1700000009, true));
    GR_CHECK_OK(gr_events_flush(e, true));
    snprintf(path, sizeof(path), "%s", gr_events_path(e));
    GR_CHECK_OK(gr_file_read(path, &text, &n)); /* on the disk before the close */
    GR_CHECK_EQ(count_records((uint8_t *)text, n), 9);
    gr_free(text);
    GR_CHECK_OK(gr_events_close(e));

    /* Resumed: a file beside the first. */
    GR_CHECK_OK(gr_events_open(&e, "kinds", GR_SCALAR_SIMPLE));
    GR_CHECK_OK(gr_events_close(e));
    GR_CHECK_OK(gr_events_close(NULL));
}

static void scalar(gr_events *e, const char *tag, int64_t step)
{
    gr_event_at at = { tag, step, 1700000000.0 + (double)step };

    GR_CHECK_OK(gr_events_scalar(e, &at, 0.5));
}

static void start(gr_events **e, const char *folder)
{
    gr_event_at at = { "config", 0, 1700000000 };

    GR_CHECK_OK(gr_events_open(e, folder, GR_SCALAR_SIMPLE));
    GR_CHECK_OK(gr_events_text(*e, &at, "words"));
}

static int records_of(const char *path)
{
    char *text;
    size_t n;
    int found;

    GR_CHECK_OK(gr_file_read(path, &text, &n));
    found = count_records((uint8_t *)text, n);
    gr_free(text);
    return found;
}

static void add_bytes(const char *path, const char *bytes, size_t n)
{
    FILE *f = fopen(path, "a");

    GR_CHECK(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
}

/* A run that is resumed: what comes again is cut off, also a record that a crash left half. */
static void test_cut(void)
{
    static const char *const again[] = { "val_loss", "accuracy" };
    gr_keep keep = { 10, again, 0 };
    char path[1000];
    gr_events *e;

    GR_CHECK_OK(gr_events_cut("nowhere", &keep));
    GR_CHECK_FAILS(gr_events_cut("file", &keep), GR_ERR_IO, "file");
    start(&e, "cut");
    snprintf(path, sizeof(path), "%s", gr_events_path(e));
    for (int64_t step = 5; step <= 15; step += 5) {
        scalar(e, "loss", step);
        scalar(e, "val_loss", step);
    }
    GR_CHECK_OK(gr_events_sync(e));
    GR_CHECK_EQ(records_of(path), 8);
    GR_CHECK_OK(gr_events_ended(e, 1700000009, false));
    GR_CHECK_OK(gr_events_close(e));
    GR_CHECK_OK(gr_events_cut("cut", &keep)); /* version, text, two of step 5, two of step 10 */
    GR_CHECK_EQ(records_of(path), 6);
    GR_CHECK_OK(gr_events_cut("cut", &keep));
    GR_CHECK_EQ(records_of(path), 6);
    add_bytes(path, "\x1a\0\0\0\0\0\0\0", 8);
    GR_CHECK_OK(gr_events_cut("cut", &keep));
    GR_CHECK_EQ(records_of(path), 6);
    keep.n_again = 2; /* the evaluation of step 10 */
    GR_CHECK_OK(gr_events_cut("cut", &keep));
    GR_CHECK_EQ(records_of(path), 5);

    /* A start that came to nothing leaves no file; what others wrote is left alone. */
    start(&e, "cut");
    GR_CHECK_OK(gr_events_restarted(e, 11));
    scalar(e, "loss", 11);
    GR_CHECK_OK(gr_events_close(e));
    add_bytes("cut/events.out.tfevents.1.other", "anything", 8);
    GR_CHECK_EQ(count_files("cut"), 3);
    GR_CHECK_OK(gr_events_cut("cut", &keep));
    GR_CHECK_EQ(count_files("cut"), 2);
    GR_CHECK_EQ(records_of(path), 5);
}

static gr_status write_some(gr_events *e)
{
    static const gr_param params[] = { { "lr", GR_PARAM_NUMBER, 0.1, NULL },
                                       { "model", GR_PARAM_TEXT, 0, "resnet" } };
    static const char *const metrics[] = { "val_loss" };
    static const uint8_t grey[6] = { 0 };
    gr_pixels image = { grey, 3, 2, 1 };
    gr_event_at at = { "x", 3, 1700000002 };
    float one = 1;

    GR_TRY(gr_events_hparams(e, 1700000000, params, 2, metrics, 1));
    GR_TRY(gr_events_scalar(e, &at, 1));
    GR_TRY(gr_events_image(e, &at, &image));
    GR_TRY(gr_events_text(e, &at, "words"));
    return gr_events_histogram(e, &at, &one, 1);
}

static gr_status with_little_memory(void *arg)
{
    gr_status st, closed;
    gr_events *e;

    (void)arg;
    GR_TRY(gr_events_open(&e, "little", GR_SCALAR_SIMPLE));
    st = write_some(e);
    closed = gr_events_close(e);
    return st != GR_OK ? st : closed;
}

int main(void)
{
    gr_events *e;
    int before;

    gr_test_scratch();
    GR_CHECK(gr_alloc_fail_each(with_little_memory, NULL) > 20);

    test_scalar();
    GR_CHECK_OK(gr_make_folders("kinds"));
    before = count_files("kinds");
    test_all_kinds();
    GR_CHECK_EQ(count_files("kinds"), before + 2);

    unlink("file");
    GR_CHECK(symlink("/dev/full", "file") == 0);
    GR_CHECK_FAILS(gr_events_open(&e, "file", GR_SCALAR_SIMPLE), GR_ERR_IO, "file");
    GR_CHECK_FAILS(gr_events_open(&e, "/proc/none", GR_SCALAR_SIMPLE), GR_ERR_IO, "/proc/none");
    test_cut();
    return 0;
}
