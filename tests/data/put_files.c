/* Files that tests of data make. */
#include "data/put_files.h"

#include "check.h"
#include "src/base/alloc.h"
#include "src/base/outfile.h"
#include "src/data/codec.h"

#include <ftw.h>
#include <sys/stat.h>

static void make_folder_of(const char *path)
{
    char folder[512];
    const char *slash = strrchr(path, '/');

    if (!slash)
        return;
    snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path);
    GR_CHECK_OK(gr_make_folders(folder));
}

void data_put_bytes(const char *path, const void *bytes, size_t n_bytes)
{
    FILE *f;

    make_folder_of(path);
    f = fopen(path, "wb");
    GR_CHECK(f != NULL);
    GR_CHECK_EQ(fwrite(bytes, 1, n_bytes, f), n_bytes);
    GR_CHECK_EQ(fclose(f), 0);
}

void data_put_text(const char *path, const char *text)
{
    data_put_bytes(path, text, strlen(text));
}

uint8_t data_pixel(int seed, int place)
{
    return (uint8_t)((unsigned)place * 31u + (unsigned)seed * 57u + (unsigned)place / 7u);
}

static void fill(gr_image *img, int height, int width, int channels, int seed)
{
    GR_CHECK_OK(gr_image_reserve(img, height, width, channels));
    for (int i = 0; i < height * width * channels; i++)
        img->px[i] = data_pixel(seed, i);
}

static void put(const char *path, gr_image *img, int kind)
{
    gr_text bytes = GR_TEXT_INIT;

    if (kind == 2)
        GR_CHECK_OK(gr_jpeg_encode(img, &bytes));
    else
        GR_CHECK_OK(gr_png_write(img, kind == 1, &bytes));
    data_put_bytes(path, bytes.str, bytes.len);
    gr_text_fini(&bytes);
    gr_image_fini(img);
}

void data_put_image(const char *path, int height, int width, int channels, int seed)
{
    gr_image img = GR_IMAGE_INIT;

    fill(&img, height, width, channels, seed);
    put(path, &img, 0);
}

void data_put_mask(const char *path, int height, int width, int seed)
{
    gr_image img = GR_IMAGE_INIT;

    fill(&img, height, width, 1, seed);
    put(path, &img, 1);
}

void data_put_jpeg(const char *path, int height, int width, int seed)
{
    gr_image img = GR_IMAGE_INIT;

    fill(&img, height, width, 3, seed);
    put(path, &img, 2);
}

void data_check_image(const gr_image *img, int height, int width, int channels, int seed)
{
    GR_CHECK_EQ(img->height, height);
    GR_CHECK_EQ(img->width, width);
    GR_CHECK_EQ(img->channels, channels);
    for (int i = 0; i < height * width * channels; i++)
        GR_CHECK_EQ(img->px[i], data_pixel(seed, i));
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

void data_remove(const char *path)
{
    GR_CHECK(path[0] != '/' && !strstr(path, ".."));
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *data_real(void)
{
    static char path[1024];
    const char *given = getenv("GR_DATA"), *source = getenv("GR_SOURCE");
    struct stat info;

    snprintf(path, sizeof(path), "%s%s",
             given    ? given
             : source ? source
                      : ".",
             given ? "" : "/../shared/data");
    return stat(path, &info) == 0 ? path : NULL;
}

gr_status data_open_and_read(void *arg)
{
    gr_dataset *ds = NULL;
    gr_image img = GR_IMAGE_INIT;
    gr_status st = gr_dataset_open(&ds, (const gr_dataset_config *)arg);

    if (st == GR_OK)
        st = gr_dataset_image(ds, 0, &img);
    gr_image_fini(&img);
    gr_dataset_destroy(ds);
    return st;
}
