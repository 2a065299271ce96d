/* Which checkpoint of a folder is taken: the newest that is whole, or the best. */
#include "gradus/ckpt.h"

#include "check.h"
#include "ckpt/listing.h"
#include "scratch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void put(const char *path, int64_t step)
{
    gr_snapshot *s;
    char text[32];
    void *mem;

    GR_CHECK_OK(gr_snapshot_create(&s));
    GR_CHECK_OK(gr_snapshot_add(s, "w", GR_I64, GR_SHAPE(100), &mem));
    snprintf(text, sizeof(text), "%" PRId64, step);
    if (step >= 0)
        GR_CHECK_OK(gr_snapshot_set(s, GR_CKPT_KEY_STEP, text));
    GR_CHECK_OK(gr_ckpt_write(path, s));
    gr_snapshot_destroy(s);
}

/* Another byte in the middle of the tensor: the header still reads well. */
static void damage(const char *path)
{
    struct stat info;
    FILE *f = fopen(path, "r+b");

    GR_CHECK(f && stat(path, &info) == 0);
    GR_CHECK(fseek(f, (long)info.st_size - 300, SEEK_SET) == 0);
    GR_CHECK(fputc(7, f) == 7 && fclose(f) == 0);
}

static void cut(const char *path)
{
    GR_CHECK(truncate(path, 20) == 0);
}

static void check_found(const char *folder, gr_ckpt_pick pick, const char *name, const char *note)
{
    gr_snapshot *s;
    char *path, *said;

    GR_CHECK_OK(gr_ckpt_find(folder, pick, &s, &path, &said));
    GR_CHECK_STR(strrchr(path, '/') + 1, name);
    GR_CHECK((note == NULL) == (said == NULL));
    if (note && !strstr(said, note)) {
        fprintf(stderr, "'%s' not in '%s'\n", note, said);
        exit(1);
    }
    gr_snapshot_destroy(s);
    free(path);
    free(said);
}

static void check_none(const char *folder, gr_ckpt_pick pick, const char *why)
{
    gr_snapshot *s;
    char *path, *note;

    GR_CHECK_FAILS(gr_ckpt_find(folder, pick, &s, &path, &note), GR_ERR_IO, why);
    GR_CHECK(!s && !path && !note);
}

static void test_order(void)
{
    GR_CHECK(mkdir("order", 0777) == 0);
    check_none("order", GR_CKPT_LAST, "holds no checkpoint");
    check_none("order", GR_CKPT_BEST, "holds no best_model");
    /* Numbers in names do not decide: epoch 12 is older than step 900 here. */
    put("order/checkpoint_epoch_12.safetensors", 800);
    put("order/checkpoint_step_900.pt", 900);
    put("order/best_model.safetensors", 700);
    check_found("order", GR_CKPT_LAST, "checkpoint_step_900.pt", NULL);
    check_found("order", GR_CKPT_BEST, "best_model.safetensors", NULL);
    put("order/checkpoint_epoch_14.safetensors", 950);
    check_found("order", GR_CKPT_LAST, "checkpoint_epoch_14.safetensors", NULL);
    /* `last` is the end of the run's own line, also when it went back to an earlier one. */
    put("order/last.safetensors", 850);
    check_found("order", GR_CKPT_LAST, "last.safetensors", NULL);
    put("order/last.pt", 860);
    check_found("order", GR_CKPT_LAST, "last.pt", NULL);
    put("order/last.safetensors", 860);
    check_found("order", GR_CKPT_LAST, "last.safetensors", NULL);
    put("order/last.safetensors.tmp", 990);
    put("order/other.safetensors", 990);
    check_found("order", GR_CKPT_LAST, "last.safetensors", NULL);
    GR_CHECK_EQ(gr_ckpt_count("order"), 6);
}

static void test_damaged(void)
{
    GR_CHECK(mkdir("damaged", 0777) == 0);
    put("damaged/last.safetensors", 30);
    put("damaged/checkpoint_step_30.safetensors", 30);
    put("damaged/checkpoint_step_20.safetensors", 20);
    put("damaged/checkpoint_epoch_1.safetensors", 10);
    put("damaged/best_model.safetensors", 10);
    damage("damaged/last.safetensors");
    check_found("damaged", GR_CKPT_LAST, "checkpoint_step_30.safetensors",
                "'damaged/last.safetensors': damaged");
    cut("damaged/checkpoint_step_30.safetensors"); /* its step cannot be known any more */
    check_found("damaged", GR_CKPT_LAST, "checkpoint_step_20.safetensors",
                "checkpoint_step_30.safetensors");
    damage("damaged/checkpoint_step_20.safetensors");
    check_found("damaged", GR_CKPT_LAST, "checkpoint_epoch_1.safetensors",
                "'damaged/checkpoint_epoch_1.safetensors' is used instead");
    damage("damaged/checkpoint_epoch_1.safetensors");
    check_found("damaged", GR_CKPT_LAST, "best_model.safetensors", "checkpoint_epoch_1");
    cut("damaged/best_model.safetensors");
    check_none("damaged", GR_CKPT_LAST, "none of 5 checkpoints can be read");
    check_none("damaged", GR_CKPT_BEST, "none of 1 checkpoints can be read");
}

/* Of somebody's own making, without our counter: the number in the name stands for it. */
static void test_foreign(void)
{
    GR_CHECK(mkdir("foreign", 0777) == 0);
    put("foreign/checkpoint_epoch_9.pt", -1);
    put("foreign/checkpoint_epoch_10.pt", -1);
    check_found("foreign", GR_CKPT_LAST, "checkpoint_epoch_10.pt", NULL);
    check_none("nowhere", GR_CKPT_LAST, "'nowhere': cannot open it");
}

int main(void)
{
    gr_test_scratch();
    test_order();
    test_damaged();
    test_foreign();
    return 0;
}
