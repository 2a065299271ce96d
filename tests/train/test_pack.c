/* `gradus pack` as words: what it writes, says and refuses. */
#include "train/pack.h"

#include "check.h"
#include "data/put_files.h"
#include "scratch.h"

static gr_status run(int n, const char *const *words, FILE *out)
{
    char *argv[8] = { NULL };
    gr_command c = { .program = "gradus", .argc = n, .argv = argv, .out = out };

    for (int i = 0; i < n; i++)
        argv[i] = (char *)(uintptr_t)words[i];
    return gr_pack_command(&c);
}

#define RUN(out, ...)                                                    \
    run((int)(sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *)), \
        (const char *[]){ __VA_ARGS__ }, out)

static void test_packs(void)
{
    gr_dataset_config config = GR_DATASET_CONFIG_INIT;
    FILE *out = tmpfile();
    gr_dataset *ds = NULL;
    gr_image img = GR_IMAGE_INIT;
    char line[256];

    GR_CHECK(out != NULL);
    for (int i = 0; i < 5; i++) {
        char path[64];

        snprintf(path, sizeof(path), "pets/%s/%d.png", i % 2 ? "dog" : "cat", i);
        data_put_image(path, 10, 20, 3, i);
    }
    GR_CHECK_OK(RUN(out, "--shard-size", "2", "pets", "--resize=5", "shards"));
    rewind(out);
    GR_CHECK(fgets(line, sizeof(line), out) != NULL);
    GR_CHECK(strstr(line, "packed 5 samples into 3 files in 'shards': 0.0 MB\n") != NULL);
    config.path = "shards";
    GR_CHECK_OK(gr_dataset_open(&ds, &config));
    GR_CHECK_EQ(gr_dataset_size(ds), 5);
    GR_CHECK_EQ(gr_dataset_class(ds, 4), 1);
    GR_CHECK_OK(gr_dataset_image(ds, 0, &img));
    GR_CHECK(img.height == 5 && img.width == 10);
    gr_dataset_destroy(ds);
    gr_image_fini(&img);
    fclose(out);
}

static void test_skips(void)
{
    FILE *out = tmpfile();
    char line[256];

    GR_CHECK(out != NULL);
    data_put_text("pets/dog/7.png", "no picture");
    GR_CHECK_FAILS(RUN(out, "pets", "fewer"), GR_ERR_FORMAT, "'dog/7.png'");
    GR_CHECK_FAILS(RUN(out, "pets", "fewer", "--on_bad_sample", "drop"), GR_ERR_ARG,
                   "none of error|skip");
    GR_CHECK_OK(RUN(out, "pets", "fewer", "--on_bad_sample", "skip"));
    rewind(out);
    GR_CHECK(fgets(line, sizeof(line), out) != NULL);
    GR_CHECK_STR(line, "packed 5 samples into 1 file in 'fewer': 0.0 MB; 1 left out\n");
    fclose(out);
}

static void test_refused(void)
{
    GR_CHECK_FAILS(RUN(stdout, "pets"), GR_ERR_ARG, "gradus pack FROM OUT");
    GR_CHECK_FAILS(RUN(stdout, "a", "b", "c"), GR_ERR_ARG, "'c' is a third");
    GR_CHECK_FAILS(RUN(stdout, "pets", "x", "--format", "foldr"), GR_ERR_ARG, "'folder'");
    GR_CHECK_FAILS(RUN(stdout, "pets", "x", "--shard-size", "0"), GR_ERR_ARG, "shard-size");
    GR_CHECK_FAILS(RUN(stdout, "none", "x"), GR_ERR_IO, "'none'");
    GR_CHECK_FAILS(RUN(stdout, "pets", "shards"), GR_ERR_ARG, "not empty");
}

static void test_help(void)
{
    gr_text t = GR_TEXT_INIT;

    gr_pack_help(&t);
    GR_CHECK_OK(gr_text_status(&t));
    GR_CHECK(strstr(t.str, "--shard-size") && strstr(t.str, "10000") &&
             strstr(t.str, "on_bad_sample"));
    gr_text_fini(&t);
}

int main(void)
{
    gr_test_scratch();
    test_packs();
    test_skips();
    test_refused();
    test_help();
    return 0;
}
