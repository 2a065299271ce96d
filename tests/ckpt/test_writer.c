/*
 * The writer of checkpoints: its names and formats, what stays and what goes, and that a
 * failure is told and leaves what was there. Threads: run it under TSan too.
 */
#include "gradus/ckpt.h"

#include "check.h"
#include "ckpt/listing.h"
#include "scratch.h"

#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define NONE ((gr_ckpt_as){ .epoch = -1, .step = -1 })

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static void put_file(const char *path)
{
    FILE *f = fopen(path, "wb");

    GR_CHECK(f && fputs("no checkpoint", f) >= 0 && fclose(f) == 0);
}

static ino_t inode(const char *path)
{
    struct stat info;

    GR_CHECK(stat(path, &info) == 0);
    return info.st_ino;
}

static gr_ckpt_writer *open_writer(const char *folder, unsigned formats, int keep)
{
    gr_ckpt_writer_config c = { .folder = folder, .formats = formats, .keep = keep };
    gr_ckpt_writer *w;

    GR_CHECK_OK(gr_ckpt_writer_open(&w, &c));
    return w;
}

/* Fills and submits a snapshot of `step` with n numbers, all equal to the step. */
static gr_status save(gr_ckpt_writer *w, int64_t step, int64_t n, gr_ckpt_as as)
{
    const gr_named *old;
    gr_snapshot *s;
    char text[32];
    void *mem;

    GR_TRY(gr_ckpt_writer_begin(w, &s));
    old = gr_snapshot_find(s, "w");
    if (old)
        mem = old->mem;
    else
        GR_CHECK_OK(gr_snapshot_add(s, "w", GR_I64, GR_SHAPE(n), &mem));
    for (int64_t i = 0; i < n; i++)
        ((int64_t *)mem)[i] = step;
    snprintf(text, sizeof(text), "%" PRId64, step);
    GR_CHECK_OK(gr_snapshot_set(s, GR_CKPT_KEY_STEP, text));
    gr_ckpt_writer_submit(w, &as);
    return GR_OK;
}

static void check_file(const char *path, int64_t step)
{
    gr_snapshot *s;

    GR_CHECK_OK(gr_ckpt_read(path, &s));
    GR_CHECK_EQ(*(const int64_t *)gr_snapshot_find(s, "w")->mem, step);
    gr_snapshot_destroy(s);
    GR_CHECK_OK(gr_ckpt_peek(path, &s));
    GR_CHECK_EQ(strtoll(gr_snapshot_get(s, GR_CKPT_KEY_STEP), NULL, 10), step);
    GR_CHECK_EQ(gr_snapshot_count(s), 0);
    gr_snapshot_destroy(s);
}

static void test_names(void)
{
    gr_ckpt_writer *w = open_writer("names", 0, 0);

    GR_CHECK_OK(save(w, 10, 4, (gr_ckpt_as){ .epoch = 1, .step = 10, .best = true }));
    GR_CHECK_OK(save(w, 20, 4, (gr_ckpt_as){ .epoch = 2, .step = -1 }));
    GR_CHECK_OK(save(w, 25, 4, NONE));
    GR_CHECK_OK(gr_ckpt_writer_wait(w));
    check_file("names/checkpoint_epoch_1.safetensors", 10);
    check_file("names/checkpoint_step_10.safetensors", 10);
    check_file("names/best_model.safetensors", 10);
    check_file("names/checkpoint_epoch_2.safetensors", 20);
    check_file("names/last.safetensors", 25);
    /* The names of one save are one file: they cost its bytes once. */
    GR_CHECK(inode("names/best_model.safetensors") ==
             inode("names/checkpoint_step_10.safetensors"));
    GR_CHECK_EQ(gr_ckpt_count("names"), 5);
    GR_CHECK_OK(gr_ckpt_writer_close(w));
    GR_CHECK_OK(gr_ckpt_writer_close(NULL));
    GR_CHECK_EQ(gr_ckpt_count("absent"), 0);
}

static void test_formats(void)
{
    gr_ckpt_writer *w = open_writer("formats", GR_CKPT_SAFETENSORS | GR_CKPT_PT, 0);

    GR_CHECK_OK(save(w, 1, 4, (gr_ckpt_as){ .epoch = 1, .step = -1, .best = true }));
    GR_CHECK_OK(gr_ckpt_writer_close(w));
    check_file("formats/checkpoint_epoch_1.safetensors", 1);
    check_file("formats/checkpoint_epoch_1.pt", 1);
    check_file("formats/best_model.pt", 1);
    check_file("formats/last.pt", 1);
    /* Only one from here on: a `last` that is no longer the last goes. */
    w = open_writer("formats", GR_CKPT_PT, 0);
    GR_CHECK_OK(save(w, 2, 4, NONE));
    GR_CHECK_OK(gr_ckpt_writer_close(w));
    check_file("formats/last.pt", 2);
    GR_CHECK(!exists("formats/last.safetensors"));
    GR_CHECK(exists("formats/best_model.safetensors"));
}

static void test_keep(void)
{
    gr_ckpt_writer *w = open_writer("keep", 0, 2);

    GR_CHECK_OK(save(w, 5, 4, (gr_ckpt_as){ .epoch = -1, .step = 5, .best = true }));
    GR_CHECK_OK(save(w, 10, 4, (gr_ckpt_as){ .epoch = 1, .step = 10 }));
    GR_CHECK_OK(gr_ckpt_writer_wait(w));
    put_file("keep/checkpoint_step_07.safetensors"); /* no name of ours: a leading zero */
    put_file("keep/checkpoint_step_7.safetensors.bak");
    put_file("keep/checkpoint_step_8.safetensors"); /* ours, but damaged: its owner may look */
    GR_CHECK_OK(save(w, 15, 4, (gr_ckpt_as){ .epoch = -1, .step = 15 }));
    GR_CHECK_OK(save(w, 20, 4, (gr_ckpt_as){ .epoch = 2, .step = -1 }));
    GR_CHECK_OK(gr_ckpt_writer_wait(w));
    GR_CHECK(!exists("keep/checkpoint_step_5.safetensors"));
    GR_CHECK(!exists("keep/checkpoint_epoch_1.safetensors"));
    GR_CHECK(!exists("keep/checkpoint_step_10.safetensors"));
    check_file("keep/checkpoint_step_15.safetensors", 15);
    check_file("keep/checkpoint_epoch_2.safetensors", 20);
    check_file("keep/best_model.safetensors", 5);
    check_file("keep/last.safetensors", 20);
    GR_CHECK(exists("keep/checkpoint_step_07.safetensors"));
    GR_CHECK(exists("keep/checkpoint_step_7.safetensors.bak"));
    GR_CHECK(exists("keep/checkpoint_step_8.safetensors"));
    /* Somebody went back to step 15: what lies ahead is neither counted nor removed. */
    GR_CHECK_OK(save(w, 16, 4, (gr_ckpt_as){ .epoch = -1, .step = 16 }));
    GR_CHECK_OK(gr_ckpt_writer_close(w));
    check_file("keep/checkpoint_epoch_2.safetensors", 20);
    check_file("keep/checkpoint_step_15.safetensors", 15);
    check_file("keep/last.safetensors", 16);
}

static void test_asides(void)
{
    GR_CHECK(mkdir("asides", 0777) == 0);
    put_file("asides/last.safetensors.tmp");
    put_file("asides/checkpoint_epoch_3.pt.tmp");
    put_file("asides/notes.tmp");
    GR_CHECK_OK(gr_ckpt_writer_close(open_writer("asides", 0, 0)));
    GR_CHECK(!exists("asides/last.safetensors.tmp"));
    GR_CHECK(!exists("asides/checkpoint_epoch_3.pt.tmp"));
    GR_CHECK(exists("asides/notes.tmp"));
}

/* A limit on the size of files stands in for a full disk, as in test_full.c. */
static void set_limit(rlim_t n_bytes)
{
    struct rlimit limit;

    GR_CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = n_bytes;
    GR_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static void test_full(void)
{
    gr_ckpt_writer *w = open_writer("full", 0, 1);
    bool idle;

    GR_CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    GR_CHECK_OK(save(w, 1, 1 << 17, (gr_ckpt_as){ .epoch = 1, .step = -1 }));
    GR_CHECK_OK(gr_ckpt_writer_wait(w));
    set_limit(1 << 19);
    GR_CHECK_OK(save(w, 2, 1 << 17, (gr_ckpt_as){ .epoch = 2, .step = -1 }));
    GR_CHECK_FAILS(save(w, 3, 1 << 17, NONE), GR_ERR_IO, "full/last.safetensors");
    check_file("full/last.safetensors", 1);
    check_file("full/checkpoint_epoch_1.safetensors", 1);
    GR_CHECK(!exists("full/checkpoint_epoch_2.safetensors"));
    GR_CHECK(!exists("full/last.safetensors.tmp"));
    GR_CHECK_OK(gr_ckpt_writer_poll(w, 0, &idle)); /* said once */
    GR_CHECK(idle);
    GR_CHECK_OK(save(w, 4, 1 << 17, NONE));
    GR_CHECK_FAILS(gr_ckpt_writer_close(w), GR_ERR_IO, "File too large");
    set_limit(RLIM_INFINITY);
    w = open_writer("full", 0, 1);
    GR_CHECK_OK(save(w, 5, 1 << 17, (gr_ckpt_as){ .epoch = 5, .step = -1 }));
    GR_CHECK_OK(gr_ckpt_writer_close(w));
    check_file("full/last.safetensors", 5);
    GR_CHECK(!exists("full/checkpoint_epoch_1.safetensors"));
}

static void test_folders(void)
{
    gr_ckpt_writer_config c = { .folder = "taken/below" };
    gr_ckpt_writer *w;

    put_file("taken");
    GR_CHECK_FAILS(gr_ckpt_writer_open(&w, &c), GR_ERR_IO, "taken");
    c = (gr_ckpt_writer_config){ .folder = "bad", .keep = -1 };
    GR_CHECK_FAILS(gr_ckpt_writer_open(&w, &c), GR_ERR_ARG, "keep -1");
    c = (gr_ckpt_writer_config){ .folder = "bad", .formats = 4 };
    GR_CHECK_FAILS(gr_ckpt_writer_open(&w, &c), GR_ERR_ARG, "formats 4");
    /* The folder goes while the run is under way. */
    w = open_writer("vanishes", 0, 1);
    GR_CHECK(rmdir("vanishes") == 0);
    GR_CHECK_OK(save(w, 1, 4, NONE));
    GR_CHECK_FAILS(gr_ckpt_writer_wait(w), GR_ERR_IO, "vanishes/last.safetensors");
    GR_CHECK_OK(gr_ckpt_writer_close(w));
}

/* Many saves one after the other, from memory that is used again while nothing is read. */
static void test_many(void)
{
    gr_ckpt_writer *w = open_writer("many", 0, 3);

    for (int64_t step = 1; step <= 40; step++)
        GR_CHECK_OK(save(w, step, 1 << 12, (gr_ckpt_as){ .epoch = -1, .step = step }));
    GR_CHECK_OK(gr_ckpt_writer_close(w));
    for (int64_t step = 38; step <= 40; step++) {
        char path[64];

        snprintf(path, sizeof(path), "many/checkpoint_step_%" PRId64 ".safetensors", step);
        check_file(path, step);
    }
    GR_CHECK_EQ(gr_ckpt_count("many"), 4);
}

/* What a save waits for is called before there is anything of it in the folder. */
static void look(void *arg)
{
    int *n = arg;

    if (*n == 0)
        GR_CHECK_EQ(gr_ckpt_count("waits"), 0);
    else
        check_file("waits/last.safetensors", *n);
    ++*n;
}

static void test_before(void)
{
    int n = 0;
    gr_ckpt_writer_config c = { .folder = "waits", .before = look, .arg = &n };
    gr_ckpt_writer *w;

    GR_CHECK_OK(gr_ckpt_writer_open(&w, &c));
    for (int64_t step = 1; step <= 3; step++)
        GR_CHECK_OK(save(w, step, 16, NONE));
    GR_CHECK_OK(gr_ckpt_writer_close(w));
    GR_CHECK_EQ(n, 3);
}

int main(void)
{
    gr_test_scratch();
    test_names();
    test_formats();
    test_keep();
    test_asides();
    test_full();
    test_folders();
    test_many();
    test_before();
    return 0;
}
