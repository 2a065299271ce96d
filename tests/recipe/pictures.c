#include "pictures.h"

#include "check.h"
#include "scratch.h"

#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

char picture_root[512];

void pictures_begin(void)
{
    gr_test_scratch();
    GR_CHECK(getcwd(picture_root, sizeof(picture_root)));
}

const char *picture_path(const char *fmt, ...)
{
    static char path[2][1024];
    static int turn;
    va_list args;
    int n;

    turn = !turn;
    n = snprintf(path[turn], sizeof(path[0]), "%s/", picture_root);
    va_start(args, fmt);
    vsnprintf(path[turn] + n, sizeof(path[0]) - (size_t)n, fmt, args);
    va_end(args);
    return path[turn];
}

void picture_folders(const char *path)
{
    char part[1024];

    for (const char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        snprintf(part, sizeof(part), "%.*s", (int)(at - path), path);
        mkdir(part, 0777);
    }
}

void picture_write(const char *path, int height, int width, picture_fn *at, int k)
{
    gr_image image = GR_IMAGE_INIT;

    picture_folders(path);
    GR_CHECK_OK(gr_image_reserve(&image, height, width, 1));
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            image.px[y * width + x] = at(y, x, k);
    GR_CHECK_OK(gr_image_write(path, &image));
    gr_image_fini(&image);
}

uint8_t picture_even(int y, int x, int k)
{
    (void)y;
    (void)x;
    return (uint8_t)k;
}

static bool is_ink(int y, int x)
{
    return (x >= 5 && x < 10 && y >= 3 && y < 20) || (y >= 15 && y < 20 && x >= 5 && x < 18);
}

uint8_t picture_ink(int y, int x, int k)
{
    (void)k;
    return is_ink(y, x) ? 255 : 0;
}

uint8_t picture_ink_class(int y, int x, int k)
{
    return is_ink(y, x) ? (uint8_t)k : 0;
}

const recipe_options vision_training = { .task = GR_TASK_TRAIN,
                                         .batch = 4,
                                         .optim = GR_OPTIM_INIT };

void vision_open(recipe_run *r, const recipe_options *o, const char *fmt, ...)
{
    char yaml[4096];
    va_list args;

    va_start(args, fmt);
    vsnprintf(yaml, sizeof(yaml), fmt, args);
    va_end(args);
    recipe_open(r, "vision", yaml, o);
}

gr_status vision_load(recipe_run *r, gr_split split, int64_t index, int64_t epoch)
{
    gr_sample s = { .split = split, .index = index, .epoch = epoch, .seed = 7 };
    gr_feed_slot slots[RECIPE_FIELDS] = { 0 };

    for (int i = 0; i < r->view.n_feeds; i++)
        slots[i] = (gr_feed_slot){ r->mem[i], r->view.feeds[i].shape };
    return r->recipe->data->load(r->user, &s, r->scratch, slots);
}
