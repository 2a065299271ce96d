/*
 * The loader on images of PASCAL VOC's kind: decode a JPEG and its mask, scale 0.5 to 2, rotate,
 * blur, flip, crop 465 x 465, normalise; batches of f32 images and i64 labels. Printed:
 *
 *     alone N ms a sample        one thread, no loader, the same work
 *     loader N samples/s         with as many workers as cores
 *     share N                    of cores / alone: 1 is a loader that costs nothing
 *     cpu N ms a sample          processor time of all threads, and of the work alone: tells
 *                                the loader's cost where neighbours take the cores
 *
 * Both are measured in turns; the best of the rounds counts. bench/loader_torch.py makes the
 * data, runs this and PyTorch's DataLoader in turns, and prints the ratio. Without --data this
 * program draws its own images, as PNG.
 *
 * Usage: loader [--data FOLDER] [--workers N] [--rounds N] [--samples N]
 */
#include "gradus/augment.h"
#include "gradus/data.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/option.h"
#include "data/loader.h"
#include "data/sampler.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SIDE        465
#define BATCH       8
#define N_DRAWN     16
#define MAX_WORKERS 256

typedef struct scratch {
    gr_image image, mask;
} scratch;

typedef struct world {
    glob_t files; /* images; a mask has the same name and ends in _mask.png */
    gr_augment *augment;
    int64_t n_samples, n_workers, n_rounds;
    scratch scratch[MAX_WORKERS];
} world;

static void must(gr_status st)
{
    if (st == GR_OK)
        return;
    fprintf(stderr, "loader: %s: %s\n", gr_status_text(st), gr_error_message());
    exit(1);
}

/* ---- one sample ---- */

static void mask_path(const char *image, char *out, size_t n_bytes)
{
    const char *dot = strrchr(image, '.');

    snprintf(out, n_bytes, "%.*s_mask.png", (int)(dot - image), image);
}

static gr_status load(void *arg, const gr_load_item *item, void *const *mem)
{
    world *w = arg;
    scratch *s = &w->scratch[item->worker];
    const char *path = w->files.gl_pathv[(size_t)item->index % w->files.gl_pathc];
    gr_decode rgb = { .as = GR_IMAGE_RGB }, labels = { .as = GR_IMAGE_LABELS };
    gr_augment_key key = { .epoch = item->epoch, .index = item->index };
    gr_image *masks = &s->mask;
    int64_t *label = mem[1];
    char name[1024];

    mask_path(path, name, sizeof(name));
    GR_TRY(gr_image_read(&s->image, path, &rgb));
    GR_TRY(gr_image_read(&s->mask, name, &labels));
    GR_TRY(gr_augment_apply(w->augment, key, &s->image, &masks, 1));
    GR_TRY(gr_augment_to_f32(w->augment, &s->image, mem[0]));
    for (int i = 0; i < SIDE * SIDE; i++)
        label[i] = s->mask.px[i];
    return GR_OK;
}

/* ---- measurements ---- */

static double cpu_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Of one sample, in seconds. */
typedef struct cost {
    double wall, cpu;
} cost;

static void keep_best(cost *best, cost c)
{
    best->wall = c.wall < best->wall ? c.wall : best->wall;
    best->cpu = c.cpu < best->cpu ? c.cpu : best->cpu;
}

static cost alone_cost(world *w, void *const *mem)
{
    int64_t began = gr_now_ns();
    double cpu = cpu_s(), n = (double)w->n_samples;

    for (int64_t i = 0; i < w->n_samples; i++)
        must(load(w, &(gr_load_item){ .index = i }, mem));
    return (cost){ (double)(gr_now_ns() - began) * 1e-9 / n, (cpu_s() - cpu) / n };
}

/* From the first batch on, which starts the threads' memory. */
static cost loader_cost(world *w)
{
    gr_loader_config c = GR_LOADER_CONFIG_INIT;
    gr_sampler_config sc = { .n_samples = w->n_samples, .n_ranks = 1 };
    gr_order_source *source;
    const gr_loaded *b;
    gr_loader *l;
    int64_t began, n = 0;
    double cpu;

    must(gr_order_shuffled(&source, &sc, (gr_batch_cut){ BATCH, true }));
    c.source = source;
    c.load = load;
    c.load_arg = w;
    c.fields[0].bytes = (size_t)SIDE * SIDE * 3 * sizeof(float);
    c.fields[1].bytes = (size_t)SIDE * SIDE * sizeof(int64_t);
    c.n_fields = 2;
    c.n_workers = (int)w->n_workers;
    must(gr_loader_create(&l, &c));
    must(gr_loader_seek(l, 0, 0));
    for (int i = 0; i < 4; i++)
        must(gr_loader_next(l, &b));
    began = gr_now_ns();
    cpu = cpu_s();
    for (int64_t i = 0; i < w->n_samples / BATCH; i++) {
        must(gr_loader_next(l, &b));
        n += b->n;
    }
    cpu = cpu_s() - cpu;
    began = gr_now_ns() - began;
    gr_loader_destroy(l);
    gr_order_source_destroy(source);
    return (cost){ (double)began * 1e-9 / (double)n, cpu / (double)n };
}

static void measure(world *w)
{
    void *mem[2] = { gr_malloc_aligned((size_t)SIDE * SIDE * 3 * sizeof(float)),
                     gr_malloc_aligned((size_t)SIDE * SIDE * sizeof(int64_t)) };
    cost alone = { 1e9, 1e9 }, loader = { 1e9, 1e9 };
    int n = (int)w->n_workers;

    for (int64_t i = 0; i < w->n_rounds; i++) {
        keep_best(&alone, alone_cost(w, mem));
        keep_best(&loader, loader_cost(w));
    }
    printf("alone %.3f ms a sample\n", alone.wall * 1e3);
    printf("loader %.1f samples/s with %d workers\n", 1 / loader.wall, n);
    printf("share %.3f of %d cores / alone\n", alone.wall / loader.wall / n, n);
    printf("cpu %.3f ms a sample, alone %.3f\n", loader.cpu * 1e3, alone.cpu * 1e3);
    gr_free(mem[0]);
    gr_free(mem[1]);
}

/* ---- data ---- */

static void draw(const char *folder)
{
    gr_image img = GR_IMAGE_INIT;
    char path[1024];

    for (int k = 0; k < N_DRAWN; k++) {
        must(gr_image_reserve(&img, 375, 500, 3));
        for (int i = 0; i < 375 * 500 * 3; i++)
            img.px[i] =
                (uint8_t)(i / 1500 * (k + 1) / 4 + i % 1500 / 9 + (i % 4099 * 7919 >> 7) % 9);
        snprintf(path, sizeof(path), "%s/%02d.png", folder, k);
        must(gr_image_write(path, &img));
        must(gr_image_reserve(&img, 375, 500, 1));
        for (int i = 0; i < 375 * 500; i++)
            img.px[i] = (uint8_t)(i / 500 / 75 * 4 + i % 500 / 125);
        snprintf(path, sizeof(path), "%s/%02d_mask.png", folder, k);
        must(gr_image_write_labels(path, &img));
    }
    gr_image_fini(&img);
}

static void remove_drawn(const char *folder)
{
    char path[1024];

    for (int k = 0; k < N_DRAWN; k++) {
        snprintf(path, sizeof(path), "%s/%02d.png", folder, k);
        unlink(path);
        snprintf(path, sizeof(path), "%s/%02d_mask.png", folder, k);
        unlink(path);
    }
    rmdir(folder);
}

static void make_augment(world *w)
{
    const gr_transform list[] = {
        { "FILL", (double[]){ 124, 116, 104 }, 3 },
        { "RANDOM_SCALE", (double[]){ 0.5, 2 }, 2 },
        { "ROTATION", (double[]){ -10, 10, 0.5 }, 3 },
        { "GAUSSIAN_BLUR", (double[]){ 5, 1.1, 1.1, 0.5 }, 4 },
        { "HFLIP", (double[]){ 0.5 }, 1 },
        { "RANDOM_CROP", (double[]){ SIDE }, 1 },
        { "NORMALIZE", (double[]){ 0.485, 0.456, 0.406, 0.229, 0.224, 0.225 }, 6 },
    };

    must(gr_augment_create(&w->augment, list, (int)(sizeof(list) / sizeof(list[0])), false));
}

int main(int argc, char **argv)
{
    static world w = { .n_samples = 96, .n_rounds = 5 };
    const char *data = NULL;
    const gr_option table[] = {
        { "data", GR_OPTION_TEXT, &data, 0, 0, NULL, "FOLDER", "NAME.jpg and NAME_mask.png" },
        { "workers", GR_OPTION_INT, &w.n_workers, 1, MAX_WORKERS, NULL, "N", "threads" },
        { "rounds", GR_OPTION_INT, &w.n_rounds, 1, 1e6, NULL, "N", "rounds; the best counts" },
        { "samples", GR_OPTION_INT, &w.n_samples, BATCH, 1e6, NULL, "N", "samples of a round" },
        { .name = NULL },
    };
    const char *tmp = getenv("TMPDIR");
    char pattern[1024], drawn[512];
    int n_used;

    w.n_workers = gr_cpu_count();
    must(gr_option_parse(table, argc - 1, argv + 1, &n_used));
    if (!data) {
        snprintf(drawn, sizeof(drawn), "%s/gr_loader_XXXXXX", tmp && *tmp ? tmp : "/tmp");
        if (!mkdtemp(drawn))
            must(gr_fail(GR_ERR_IO, "no folder for images: '%s'", drawn));
        draw(drawn);
    }
    snprintf(pattern, sizeof(pattern), data ? "%s/*.jpg" : "%s/??.png", data ? data : drawn);
    if (glob(pattern, 0, NULL, &w.files) != 0)
        must(gr_fail(GR_ERR_IO, "no images '%s'", pattern));
    make_augment(&w);
    measure(&w);
    gr_augment_destroy(w.augment);
    for (int i = 0; i < MAX_WORKERS; i++) {
        gr_image_fini(&w.scratch[i].image);
        gr_image_fini(&w.scratch[i].mask);
    }
    globfree(&w.files);
    if (!data)
        remove_drawn(drawn);
    return 0;
}
