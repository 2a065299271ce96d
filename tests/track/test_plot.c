/* Plots: a PNG that libpng reads back, with the curve where it belongs and nothing outside of
 * the frame; values that cannot be drawn; learning curves grouped into files. */
#include "track/plot.h"

#include "base/alloc.h"
#include "base/outfile.h"
#include "check.h"
#include "scratch.h"
#include "track/canvas.h"
#include "track/curves.h"

#include <png.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLUE 0x0072b2

static uint32_t *decode(const void *png, size_t n, int width, int height)
{
    png_image image = { .version = PNG_IMAGE_VERSION };
    uint8_t *rgb = gr_malloc((size_t)width * (size_t)height * 3);
    uint32_t *out = gr_malloc((size_t)width * (size_t)height * 4);

    GR_CHECK(rgb && out && png_image_begin_read_from_memory(&image, png, n));
    GR_CHECK(image.width == (unsigned)width && image.height == (unsigned)height);
    image.format = PNG_FORMAT_RGB;
    GR_CHECK(png_image_finish_read(&image, NULL, rgb, 0, NULL));
    for (size_t i = 0; i < (size_t)width * (size_t)height; i++)
        out[i] = (uint32_t)rgb[3 * i] << 16 | (uint32_t)rgb[3 * i + 1] << 8 | rgb[3 * i + 2];
    gr_free(rgb);
    return out;
}

/* How many pixels of this colour lie in the box. */
static int count(const uint32_t *pixels, gr_box b, uint32_t colour)
{
    int n = 0;

    for (int y = b.top; y < b.bottom; y++)
        for (int x = b.left; x < b.right; x++)
            n += pixels[y * 600 + x] == colour;
    return n;
}

/* A line from the lower left to the upper right corner of a plot of 600 x 400. */
static void test_line(bool log_y)
{
    double x[3] = { 0, 50, 100 }, y[3] = { 0, 50, 100 };
    gr_series s = { "loss", x, y, 3 };
    gr_plot p = { "title", "step", &s, 1, log_y, 600, 400 };
    gr_text png = GR_TEXT_INIT;
    uint32_t *pixels;

    if (log_y) {
        y[0] = 1e-4;
        y[1] = 1;
        y[2] = 1e4;
    }
    GR_CHECK_OK(gr_plot_png(&p, &png));
    pixels = decode(png.str, png.len, 600, 400);
    /* the frame is 110..570 by 42..334; the legend takes its upper right corner */
    GR_CHECK(count(pixels, (gr_box){ 110, 250, 250, 334 }, BLUE) > 50);
    GR_CHECK(count(pixels, (gr_box){ 300, 150, 380, 230 }, BLUE) > 20);
    GR_CHECK(count(pixels, (gr_box){ 110, 42, 250, 200 }, BLUE) == 0);
    GR_CHECK(count(pixels, (gr_box){ 400, 200, 570, 334 }, BLUE) == 0);
    GR_CHECK(count(pixels, (gr_box){ 0, 336, 600, 400 }, BLUE) == 0);
    GR_CHECK(count(pixels, (gr_box){ 0, 42, 104, 334 }, 0x333333) > 50); /* numbers */
    GR_CHECK(count(pixels, (gr_box){ 110, 345, 600, 360 }, 0x333333) > 50);
    GR_CHECK(count(pixels, (gr_box){ 200, 0, 480, 40 }, 0x333333) > 30); /* title */
    gr_free(pixels);
    gr_text_fini(&png);
}

static void test_odd_values(void)
{
    double x[6] = { 0, 1, 2, 3, 4, 5 };
    double y[6] = { (double)NAN, (double)INFINITY, 1e300, -1e300, -1, 0 };
    gr_series s[2] = { { "a \xff\n", x, y, 6 }, { "", x, y, 0 } };
    gr_plot p = { NULL, NULL, s, 2, false, 200, 200 };
    gr_text png = GR_TEXT_INIT;

    for (int k = 0; k < 2; k++) {
        p.log_y = k == 1;
        GR_CHECK_OK(gr_plot_png(&p, &png));
        p.n_series = 0;
        GR_CHECK_OK(gr_plot_png(&p, &png));
        p.n_series = 2;
        s[0].n = 1;
        GR_CHECK_OK(gr_plot_png(&p, &png));
        s[0].n = 6;
    }
    p.width = 100;
    GR_CHECK_FAILS(gr_plot_png(&p, &png), GR_ERR_ARG, "100 x 200");
    gr_text_fini(&png);
}

static void test_curves(void)
{
    struct stat about;
    gr_curves *c;

    unlink("plots/loss.png");
    GR_CHECK_OK(gr_curves_create(&c));
    for (int i = 0; i < 20000; i++) {
        GR_CHECK_OK(gr_curves_add(c, i, "loss", 5 * exp(-i * 2e-4) + 0.3 * sin(i * 0.01)));
        if (i % 1000 == 0)
            GR_CHECK_OK(gr_curves_add(c, i, "val_loss", 5 * exp(-i * 2e-4) + 0.5));
    }
    GR_CHECK_OK(gr_curves_add(c, 3, "../lr", 5));
    GR_CHECK_OK(gr_curves_draw(c, "plots"));
    GR_CHECK(stat("plots/loss.png", &about) == 0 && about.st_size > 1000);
    GR_CHECK(stat("plots/_._lr.png", &about) == 0);
    GR_CHECK(stat("plots/val_loss.png", &about) != 0);
    GR_CHECK_FAILS(gr_curves_draw(c, "/proc/none"), GR_ERR_IO, "/proc/none");

    /* Losses of single steps are no line beside the means of epochs. */
    unlink("plots/step_loss.png");
    GR_CHECK_OK(gr_curves_add(c, 10, "train_loss", 2));
    GR_CHECK_OK(gr_curves_draw(c, "plots"));
    GR_CHECK(stat("plots/step_loss.png", &about) == 0 && about.st_size > 1000);
    gr_curves_destroy(c);
    gr_curves_destroy(NULL);
}

int main(void)
{
    gr_test_scratch();
    test_line(false);
    test_line(true);
    test_odd_values();
    test_curves();
    return 0;
}
