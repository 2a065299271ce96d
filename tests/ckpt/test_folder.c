/* A folder of checkpoints: what stays, what goes, and which one is loaded. */
#include "gradus/ckpt.h"

#include "check.h"
#include "ckpt/sample.h"
#include "src/base/outfile.h"

#include <sys/stat.h>
#include <unistd.h>

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static void put_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");

    GR_CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void save(const char *folder, int64_t step, int keep)
{
    gr_snapshot *s;
    void *mem;

    GR_CHECK_OK(gr_snapshot_create(&s));
    GR_CHECK_OK(gr_snapshot_add(s, "step", GR_I64, GR_SCALAR, &mem));
    *(int64_t *)mem = step;
    GR_CHECK_OK(gr_ckpt_save(folder, step, s, keep));
    gr_snapshot_destroy(s);
}

/* Loads, checks that the content is that of `want`, and returns the note. */
static char *load(const char *folder, int64_t want)
{
    gr_snapshot *s;
    int64_t step = -1;
    char *note;

    GR_CHECK_OK(gr_ckpt_load(folder, &s, &step, &note));
    GR_CHECK_EQ(step, want);
    GR_CHECK_EQ(*(const int64_t *)gr_snapshot_find(s, "step")->mem, want);
    gr_snapshot_destroy(s);
    return note;
}

static void check_last(const char *path, const char *want)
{
    char *text;
    size_t n;

    GR_CHECK_OK(gr_file_read(path, &text, &n));
    GR_CHECK_STR(text, want);
    free(text);
}

static void test_none(void)
{
    gr_snapshot *s;
    int64_t step;
    char *note;

    GR_CHECK_FAILS(gr_ckpt_load("absent", &s, &step, &note), GR_ERR_IO, "'absent'");
    GR_CHECK(mkdir("bare", 0777) == 0);
    put_file("bare/step-7.safetensors", "not a name of ours");
    GR_CHECK_FAILS(gr_ckpt_load("bare", &s, &step, &note), GR_ERR_IO, "holds no checkpoint");
    GR_CHECK(s == NULL && note == NULL);
    GR_CHECK_FAILS(gr_ckpt_save("bare", -1, NULL, 0), GR_ERR_ARG, "-1");
    GR_CHECK_FAILS(gr_ckpt_save("bare", 1, NULL, -2), GR_ERR_ARG, "-2");
}

static void test_keep(void)
{
    for (int64_t step = 0; step <= 50; step += 10)
        save("keep/run", step, 2);
    GR_CHECK(!exists("keep/run/step-00000030.safetensors"));
    GR_CHECK(exists("keep/run/step-00000040.safetensors"));
    GR_CHECK(exists("keep/run/step-00000050.safetensors"));
    check_last("keep/run/last", "step-00000050.safetensors\n");
    GR_CHECK(load("keep/run", 50) == NULL);
    /* 0 keeps all; a number wider than eight digits is still the newest. */
    save("keep/run", 60, 0);
    save("keep/run", 1234567890123, 0);
    GR_CHECK(exists("keep/run/step-00000040.safetensors"));
    GR_CHECK(load("keep/run", 1234567890123) == NULL);
    save("keep/run", 1234567890124, 1);
    GR_CHECK(!exists("keep/run/step-00000060.safetensors"));
    GR_CHECK(!exists("keep/run/step-1234567890123.safetensors"));
    GR_CHECK(load("keep/run", 1234567890124) == NULL);
}

static void test_foreign(void)
{
    static const char *const others[] = {
        "foreign/step-1.safetensors",           "foreign/step-00000001.safetensors.bak",
        "foreign/step-000000001.safetensors",   "foreign/step-.safetensors",
        "foreign/step-+0000001.safetensors",    "foreign/step--0000001.safetensors",
        "foreign/step-99999999999999999999999", "foreign/best.safetensors",
        "foreign/step-0000001x.safetensors",    "foreign/notes.txt",
    };
    const int n = sizeof(others) / sizeof(others[0]);

    GR_CHECK(mkdir("foreign", 0777) == 0);
    for (int i = 0; i < n; i++)
        put_file(others[i], "x");
    /* A folder with a name like ours is not a checkpoint, and stays. */
    GR_CHECK(mkdir("foreign/step-00000003.safetensors", 0777) == 0);
    /* What a killed writer left behind goes, unless it is of a later step. */
    put_file("foreign/step-00000004.safetensors.tmp", "half");
    put_file("foreign/step-00000009.safetensors.tmp", "half");
    for (int64_t step = 5; step < 8; step++)
        save("foreign", step, 1);
    for (int i = 0; i < n; i++)
        GR_CHECK(exists(others[i]));
    GR_CHECK(exists("foreign/step-00000003.safetensors"));
    GR_CHECK(!exists("foreign/step-00000004.safetensors.tmp"));
    GR_CHECK(exists("foreign/step-00000009.safetensors.tmp"));
    GR_CHECK(!exists("foreign/step-00000006.safetensors"));
    GR_CHECK(load("foreign", 7) == NULL);
}

static void flip_last_byte(const char *path)
{
    FILE *f = fopen(path, "r+b");
    int c;

    GR_CHECK(f && fseek(f, -1, SEEK_END) == 0);
    c = fgetc(f);
    GR_CHECK(fseek(f, -1, SEEK_END) == 0 && fputc(c ^ 1, f) != EOF && fclose(f) == 0);
}

static void test_fallback(void)
{
    gr_snapshot *s;
    int64_t step;
    char *note;

    for (int64_t i = 1; i <= 3; i++)
        save("fall", i, 0);
    flip_last_byte("fall/step-00000003.safetensors");
    GR_CHECK(truncate("fall/step-00000002.safetensors", 100) == 0);
    note = load("fall", 1);
    GR_CHECK(note != NULL);
    GR_CHECK(strstr(note, "'fall/step-00000003.safetensors': damaged: 'gradus.crc32c'") != NULL);
    GR_CHECK(strstr(note, "'fall/step-00000002.safetensors': the header takes") != NULL);
    GR_CHECK(strstr(note, "'fall/step-00000001.safetensors' is used instead") != NULL);
    free(note);
    /* Going on from step 1 with room for one: the new one must not be taken for the older. */
    save("fall", 2, 1);
    GR_CHECK(!exists("fall/step-00000001.safetensors"));
    GR_CHECK(exists("fall/step-00000003.safetensors"));
    note = load("fall", 2);
    GR_CHECK(note != NULL && strstr(note, "step-00000003") != NULL);
    free(note);
    flip_last_byte("fall/step-00000002.safetensors");
    GR_CHECK_FAILS(gr_ckpt_load("fall", &s, &step, &note), GR_ERR_IO, "none of 2 checkpoints");
    GR_CHECK(s == NULL && note == NULL);
}

int main(void)
{
    /* A folder of its own: the test counts what is there. */
    char base[] = "folder-XXXXXX";

    GR_CHECK(mkdtemp(base) && chdir(base) == 0);
    test_none();
    test_keep();
    test_foreign();
    test_fallback();
    return 0;
}
