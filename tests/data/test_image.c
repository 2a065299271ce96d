/*
 * Images: pixels against Pillow's (tests/golden/images), damage in every place, sizes that cannot
 * be, and PNG files that give back what was written. Guards P42: nothing broken becomes zeros.
 */
#include "gradus/data.h"

#include "alloc_fail.h"
#include "base/outfile.h"
#include "data/codec.h"
#include "scratch.h"

#define FOLDER GR_TESTS_DIR "/golden/images/"

static gr_image_as how_named(const char *name)
{
    static const char *const names[] = { "stored", "gray", "rgb", "labels" };

    for (int i = 0; i < 4; i++)
        if (strcmp(names[i], name) == 0)
            return (gr_image_as)i;
    fprintf(stderr, "images.txt: there is no way to decode called '%s'\n", name);
    exit(1);
}

static uint32_t sum_of(const gr_image *img)
{
    return gr_crc32c(0, img->px, (size_t)img->height * (size_t)img->width * (size_t)img->channels);
}

/* The next word of a line of images.txt. */
static const char *word(char **rest)
{
    const char *w = strtok_r(NULL, " \n", rest);

    GR_CHECK(w != NULL);
    return w;
}

static int number(char **rest, int base)
{
    return (int)strtoul(word(rest), NULL, base);
}

static void check_line(char *line, gr_image *img)
{
    gr_decode how = GR_DECODE_INIT;
    char path[512], *rest = NULL;
    const char *name = strtok_r(line, " ", &rest);
    int height, width, channels;
    uint32_t sum;

    how.as = how_named(word(&rest));
    how.min_height = number(&rest, 10);
    how.min_width = number(&rest, 10);
    height = number(&rest, 10);
    width = number(&rest, 10);
    channels = number(&rest, 10);
    sum = (uint32_t)number(&rest, 16);
    snprintf(path, sizeof(path), FOLDER "%s", name);
    GR_CHECK_OK(gr_image_read(img, path, &how));
    if (img->height != height || img->width != width || img->channels != channels ||
        sum_of(img) != sum) {
        fprintf(stderr,
                "%s as %d, least %d x %d: got %d x %d x %d, sum %08x, expected %d x %d x %d, "
                "sum %08x\n",
                name, (int)how.as, how.min_height, how.min_width, img->height, img->width,
                img->channels, sum_of(img), height, width, channels, sum);
        exit(1);
    }
}

/* Every line of images.txt; the image's memory is reused from line to line. */
static void test_golden(void)
{
    FILE *f = fopen(FOLDER "images.txt", "r");
    gr_image img = GR_IMAGE_INIT;
    char line[256];
    int n = 0;

    GR_CHECK(f != NULL);
    while (fgets(line, sizeof(line), f)) {
        check_line(line, &img);
        n++;
    }
    GR_CHECK(n > 80);
    fclose(f);
    gr_image_fini(&img);
}

/* A file cut anywhere is an error or, where only the end mark is gone, whole. */
static void check_cuts(const char *path, size_t n_end)
{
    gr_image img = GR_IMAGE_INIT;
    gr_decode how = { .as = GR_IMAGE_RGB };
    char *bytes;
    size_t n_bytes;

    GR_CHECK_OK(gr_file_read(path, &bytes, &n_bytes));
    for (size_t n = 0; n < n_bytes - n_end; n++) {
        char *part = gr_malloc(n); /* of its size, so that a read beyond it is seen */

        memcpy(part, bytes, n);
        GR_CHECK_FAILS(gr_image_decode(&img, part, n, &how), GR_ERR_FORMAT, "");
        gr_free(part);
    }
    GR_CHECK_OK(gr_image_decode(&img, bytes, n_bytes, &how));
    gr_free(bytes);
    gr_image_fini(&img);
}

static void test_cuts(void)
{
    check_cuts(FOLDER "rgb_420.jpg", 2);
    check_cuts(FOLDER "progressive.jpg", 2);
    check_cuts(FOLDER "gray.jpg", 2);
    check_cuts(FOLDER "rgb.png", 16); /* the last checksum, and the end chunk of 12 bytes */
    check_cuts(FOLDER "interlaced.png", 16);
    check_cuts(FOLDER "palette_4.png", 16);
}

/* ---- a look without decoding ---- */

static void look_like(const char *bytes, size_t n, const char *path)
{
    gr_image a = GR_IMAGE_INIT, b = GR_IMAGE_INIT;
    gr_status st = gr_image_decode(&a, bytes, n, NULL), looked = gr_image_probe(&b, bytes, n, NULL);

    GR_CHECK_EQ(looked, st);
    if (st == GR_OK) {
        GR_CHECK_EQ(b.height, a.height);
        GR_CHECK_EQ(b.width, a.width);
    }
    if (path) {
        GR_CHECK_EQ(gr_image_probe_file(&b, path, NULL), st);
        GR_CHECK_EQ(b.height, a.height);
    }
    gr_image_fini(&a);
    gr_image_fini(&b);
}

/* Whole, cut anywhere, and with bytes behind the end: the same answer as decoding gives. A head
 * that is longer than what is read of a file is looked at whole. */
static void test_probe(void)
{
    static const char *const names[] = { FOLDER "rgb_420.jpg", FOLDER "rgb.png" };
    gr_image img = GR_IMAGE_INIT;

    for (int i = 0; i < 2; i++) {
        char *bytes, *longer;
        size_t n;

        GR_CHECK_OK(gr_file_read(names[i], &bytes, &n));
        look_like(bytes, n, names[i]);
        for (size_t k = 0; k < n; k += k < 64 ? 1 : 37)
            look_like(bytes, k, NULL);
        longer = gr_calloc(n + 70000, 1);
        memcpy(longer, bytes, n);
        look_like(longer, n + 70000, NULL);
        gr_free(longer);
        gr_free(bytes);
    }
    GR_CHECK_FAILS(gr_image_probe_file(&img, "nowhere.png", NULL), GR_ERR_IO, "nowhere.png");
    GR_CHECK_FAILS(
        gr_image_probe_file(&img, FOLDER "rgb_420.jpg", &(gr_decode){ GR_IMAGE_LABELS, 0, 0 }),
        GR_ERR_FORMAT, "cannot hold labels");
    gr_image_fini(&img);
}

/* 100 KiB of comments before the size: more than the first look reads. */
static void test_probe_long_head(void)
{
    static const uint8_t comment[4] = { 0xff, 0xfe, 0xc3, 0x52 }; /* 50002 bytes with its length */
    gr_image img = GR_IMAGE_INIT;
    gr_text file = GR_TEXT_INIT;
    gr_outfile *f;
    char *bytes;
    size_t n;

    GR_CHECK_OK(gr_file_read(FOLDER "rgb_420.jpg", &bytes, &n));
    gr_text_addn(&file, bytes, 2);
    for (int i = 0; i < 2; i++) {
        gr_text_addn(&file, (const char *)comment, 4);
        for (int k = 0; k < 5000; k++)
            gr_text_add(&file, "0123456789");
    }
    gr_text_addn(&file, bytes + 2, n - 2);
    GR_CHECK_OK(gr_text_status(&file));
    GR_CHECK_OK(gr_outfile_open(&f, "long_head.jpg"));
    gr_outfile_write(f, file.str, file.len);
    GR_CHECK_OK(gr_outfile_commit(f));
    look_like(file.str, file.len, "long_head.jpg");
    GR_CHECK_OK(gr_image_probe_file(&img, "long_head.jpg", NULL));
    gr_image_fini(&img);
    gr_text_fini(&file);
    gr_free(bytes);
}

static void test_refused(void)
{
    static const char zeros[64] = { 0 };
    gr_image img = GR_IMAGE_INIT;
    gr_decode labels = { .as = GR_IMAGE_LABELS };
    char *bytes;
    size_t n_bytes;

    GR_CHECK_FAILS(gr_image_read(&img, "no/such.jpg", NULL), GR_ERR_IO, "'no/such.jpg'");
    GR_CHECK_FAILS(gr_image_decode(&img, zeros, sizeof(zeros), NULL), GR_ERR_FORMAT,
                   "neither JPEG nor PNG (64 bytes)");
    GR_CHECK_FAILS(gr_image_decode(&img, zeros, 0, NULL), GR_ERR_FORMAT, "empty");
    GR_CHECK_FAILS(gr_image_read(&img, FOLDER "images.txt", NULL), GR_ERR_FORMAT, "images.txt'");
    GR_CHECK_FAILS(gr_image_read(&img, FOLDER "gray.jpg", &labels), GR_ERR_FORMAT, "not exact");
    GR_CHECK_FAILS(gr_image_read(&img, FOLDER "rgb.png", &labels), GR_ERR_FORMAT,
                   "where labels are expected");
    GR_CHECK_FAILS(gr_image_read(&img, FOLDER "gray_16.png", &labels), GR_ERR_FORMAT,
                   "labels are 0 to 255");

    /* Sizes that the head claims and so few bytes cannot hold: refused before memory is taken. */
    GR_CHECK_OK(gr_file_read(FOLDER "gray.jpg", &bytes, &n_bytes));
    for (size_t i = 0; i + 8 < n_bytes; i++)
        if ((uint8_t)bytes[i] == 0xff && (uint8_t)bytes[i + 1] == 0xc0)
            memset(bytes + i + 5, 0x7f, 4);
    GR_CHECK_FAILS(gr_image_decode(&img, bytes, n_bytes, NULL), GR_ERR_FORMAT, "at most");
    gr_free(bytes);
    GR_CHECK_EQ(img.cap, 23 * 31 * 3); /* of rgb.png above; nothing larger */
    GR_CHECK_FAILS(gr_image_reserve(&img, 1 << 15, 1 << 15, 3), GR_ERR_ARG, "32768 x 32768");
    GR_CHECK_FAILS(gr_image_reserve(&img, 0, 4, 3), GR_ERR_ARG, "4 x 0");
    GR_CHECK_FAILS(gr_image_reserve(&img, 4, 4, 5), GR_ERR_ARG, "5 channels");
    gr_image_fini(&img);
    gr_image_fini(NULL);
}

static void fill(gr_image *img, int height, int width, int channels)
{
    GR_CHECK_OK(gr_image_reserve(img, height, width, channels));
    for (int i = 0; i < height * width * channels; i++)
        img->px[i] = (uint8_t)(i * 7 + i / 13);
}

static void test_write(void)
{
    gr_image img = GR_IMAGE_INIT, back = GR_IMAGE_INIT;
    gr_decode labels = { .as = GR_IMAGE_LABELS }, rgb = { .as = GR_IMAGE_RGB };
    uint8_t colour[3];

    for (int c = 1; c <= 4; c++) {
        fill(&img, 9, 17, c);
        GR_CHECK_OK(gr_image_write("out.png", &img));
        GR_CHECK_OK(gr_image_read(&back, "out.png", NULL));
        GR_CHECK_EQ(back.channels, c);
        GR_CHECK_EQ(sum_of(&back), sum_of(&img));
    }
    fill(&img, 20, 30, 1);
    GR_CHECK_OK(gr_image_write_labels("labels.png", &img));
    GR_CHECK_OK(gr_image_read(&back, "labels.png", &labels));
    GR_CHECK_EQ(sum_of(&back), sum_of(&img));
    GR_CHECK_OK(gr_image_read(&back, "labels.png", &rgb));
    for (int i = 0; i < 20 * 30; i++) {
        gr_label_colour(img.px[i], colour);
        GR_CHECK(memcmp(colour, back.px + 3 * (size_t)i, 3) == 0);
    }
    fill(&img, 2, 2, 3);
    GR_CHECK_FAILS(gr_image_write_labels("labels.png", &img), GR_ERR_ARG, "of labels");
    GR_CHECK_FAILS(gr_image_write("no/such/folder.png", &img), GR_ERR_IO, "no/such/folder.png");
    gr_image_fini(&img);
    gr_image_fini(&back);
}

/* The first entries of the VOC map, and the one for "ignored". */
static void test_colours(void)
{
    static const struct {
        int label;
        uint8_t rgb[3];
    } want[] = { { 0, { 0, 0, 0 } },        { 1, { 128, 0, 0 } },   { 2, { 0, 128, 0 } },
                 { 3, { 128, 128, 0 } },    { 4, { 0, 0, 128 } },   { 8, { 64, 0, 0 } },
                 { 15, { 192, 128, 128 } }, { 20, { 0, 64, 128 } }, { 255, { 224, 224, 192 } } };

    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        uint8_t rgb[3];

        gr_label_colour(want[i].label, rgb);
        for (int k = 0; k < 3; k++)
            GR_CHECK_EQ(rgb[k], want[i].rgb[k]);
    }
}

static void test_jpeg_encode(void)
{
    gr_image img = GR_IMAGE_INIT, back = GR_IMAGE_INIT;
    gr_text bytes = GR_TEXT_INIT;
    int64_t far = 0;

    GR_CHECK_OK(gr_image_read(&img, FOLDER "rgb_444.jpg", NULL));
    GR_CHECK_OK(gr_jpeg_encode(&img, &bytes));
    GR_CHECK_OK(gr_image_decode(&back, bytes.str, bytes.len, NULL));
    GR_CHECK_EQ(back.width, img.width);
    for (int i = 0; i < img.height * img.width * 3; i++)
        far += abs(img.px[i] - back.px[i]);
    GR_CHECK(far < (int64_t)3 * img.height * img.width * 3); /* below 3 of 255 on average */
    fill(&img, 3, 3, 4);
    GR_CHECK_FAILS(gr_jpeg_encode(&img, &bytes), GR_ERR_ARG, "4 channels");
    gr_text_fini(&bytes);
    gr_image_fini(&img);
    gr_image_fini(&back);
}

static gr_status read_all_kinds(void *arg)
{
    gr_image img = GR_IMAGE_INIT;
    gr_decode how = { .as = GR_IMAGE_RGB };
    gr_status st;

    (void)arg;
    GR_TRY_GOTO(st, gr_image_read(&img, FOLDER "gray.jpg", &how), end);
    GR_TRY_GOTO(st, gr_image_write("again.png", &img), end);
    how.as = GR_IMAGE_LABELS;
    GR_TRY_GOTO(st, gr_image_read(&img, FOLDER "labels_16.png", &how), end);
end:
    gr_image_fini(&img);
    return st;
}

/* Decoding images of one size again and again allocates nothing. */
static void test_allocations(void)
{
    gr_image img = GR_IMAGE_INIT;
    char *bytes;
    size_t n_bytes;
    long before;

    GR_CHECK(gr_alloc_fail_each(read_all_kinds, NULL) > 3);
    GR_CHECK_OK(gr_file_read(FOLDER "rgb_420.jpg", &bytes, &n_bytes));
    GR_CHECK_OK(gr_image_decode(&img, bytes, n_bytes, NULL));
    before = gr_alloc_count();
    for (int i = 0; i < 5; i++)
        GR_CHECK_OK(gr_image_decode(&img, bytes, n_bytes, NULL));
    GR_CHECK_EQ(gr_alloc_count(), before);
    gr_free(bytes);
    gr_image_fini(&img);
}

int main(void)
{
    gr_test_scratch();
    test_golden();
    test_cuts();
    test_probe();
    test_probe_long_head();
    test_refused();
    test_write();
    test_colours();
    test_jpeg_encode();
    test_allocations();
    return 0;
}
