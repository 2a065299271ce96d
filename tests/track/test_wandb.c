/* W&B's offline run: folder, framing, checksums, records over several blocks, settings and the
 * command at the end. What W&B's own reader makes of it is in tests/interop. P18: failing. */
#include "track/wandb.h"

#include "alloc_fail.h"
#include "base/outfile.h"
#include "check.h"
#include "scratch.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

static uint32_t u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* The records of a file one after the other, checked; *n_parts counts chunks of split ones. */
static int read_records(const uint8_t *file, size_t n, char *all, size_t *n_all, int *n_parts)
{
    size_t at = 7;
    int n_records = 0, open = 0;

    *n_all = 0;
    *n_parts = 0;
    GR_CHECK(n > 7 && memcmp(file, ":W&B\xe1\xbe\0", 7) == 0);
    while (at < n) {
        size_t room = 32768 - at % 32768, len;
        int type;

        if (room < 7) {
            for (; room > 0; room--, at++)
                GR_CHECK_EQ(file[at], 0);
            continue;
        }
        len = (size_t)file[at + 4] | (size_t)file[at + 5] << 8;
        type = file[at + 6];
        GR_CHECK(at + 7 + len <= n && len + 7 <= room);
        GR_CHECK_EQ(u32(file + at), (uint32_t)crc32(0, file + at + 6, (uInt)len + 1));
        GR_CHECK(open ? type == 3 || type == 4 : type == 1 || type == 2);
        open = type == 2 || type == 3;
        *n_parts += type != 1;
        n_records += !open;
        memcpy(all + *n_all, file + at + 7, len);
        *n_all += len;
        at += 7 + len;
    }
    GR_CHECK(!open);
    return n_records;
}

static void read_run(const gr_text *folder, const char *id, char *all, size_t *n_all, int want,
                     int *n_parts)
{
    char path[1000], *text;
    size_t n;

    snprintf(path, sizeof(path), "%s/run-%s.wandb", folder->str, id);
    GR_CHECK_OK(gr_file_read(path, &text, &n));
    GR_CHECK_EQ(read_records((uint8_t *)text, n, all, n_all, n_parts), want);
    gr_free(text);
}

static bool holds(const char *all, size_t n, const char *part)
{
    return memmem(all, n, part, strlen(part)) != NULL;
}

static void test_small(void)
{
    gr_param params[] = { { "lr", GR_PARAM_NUMBER, 0.25, NULL },
                          { "text", GR_PARAM_TEXT, 0, "a \"b\"\n\xc3\x28" } };
    gr_wandb_config c = { .folder = "runs", .run_id = "abcd1234", .params = params, .n_params = 2 };
    static char all[1 << 16];
    size_t n;
    int n_parts;
    gr_text folder = GR_TEXT_INIT;
    gr_wandb *w;

    setenv("WANDB_PROJECT", "from-env", 1);
    setenv("WANDB_TAGS", "one,two", 1);
    GR_CHECK_OK(gr_wandb_open(&w, &c));
    GR_CHECK_STR(gr_wandb_id(w), "abcd1234");
    gr_text_add(&folder, gr_wandb_folder(w));
    GR_CHECK(strstr(folder.str, "runs/wandb/offline-run-20") == folder.str);
    GR_CHECK_OK(gr_wandb_log(w, 1, 1.7e9, "loss", 0.5));
    GR_CHECK_OK(gr_wandb_log(w, 1, 1.7e9, "acc", (double)NAN)); /* the same row */
    GR_CHECK_OK(gr_wandb_log(w, 2, 1.7e9, "loss", 0.25));
    GR_CHECK_OK(gr_wandb_log(w, 1, 1.7e9, "late", 99)); /* goes back: left out */
    GR_CHECK_OK(gr_wandb_close(w, 3));
    /* header, run, config, two rows, summary, exit, footer */
    read_run(&folder, "abcd1234", all, &n, 8, &n_parts);
    GR_CHECK_EQ(n_parts, 0);
    GR_CHECK(holds(all, n, "from-env") && holds(all, n, "one") && holds(all, n, "two"));
    GR_CHECK(holds(all, n, "\"a \\\"b\\\"\\u000a?(\""));
    GR_CHECK(holds(all, n, "\"NaN\"") && holds(all, n, "_timestamp") && !holds(all, n, "late"));
    unsetenv("WANDB_PROJECT");
    unsetenv("WANDB_TAGS");
    gr_text_fini(&folder);
}

/* A run that is started again within the same second, more than once. */
static void test_again(void)
{
    gr_wandb_config c = { .folder = "runs", .run_id = "again" };
    gr_text before = GR_TEXT_INIT;

    for (int i = 0; i < 3; i++) {
        gr_wandb *w;

        GR_CHECK_OK(gr_wandb_open(&w, &c));
        GR_CHECK(strcmp(gr_wandb_folder(w), gr_text_str(&before)) != 0);
        before.len = 0;
        gr_text_add(&before, gr_wandb_folder(w));
        GR_CHECK_OK(gr_wandb_close(w, 0));
    }
    gr_text_fini(&before);
}

/* A run that goes on under its id: rows that come again are cut off older files. */
static void test_cut(void)
{
    static const char *const again[] = { "val_loss" };
    gr_keep keep = { 20, again, 0 };
    gr_wandb_config c = { .folder = "cut", .run_id = "goes-on" },
                    other = { .folder = "cut", .run_id = "on" };
    static char all[1 << 16];
    gr_text folder = GR_TEXT_INIT, others = GR_TEXT_INIT;
    gr_wandb *w;
    size_t n;
    int n_parts;

    GR_CHECK_OK(gr_wandb_open(&w, &other)); /* an id that is the end of the other */
    gr_text_add(&others, gr_wandb_folder(w));
    GR_CHECK_OK(gr_wandb_log(w, 99, 1.7e9, "loss", 1));
    GR_CHECK_OK(gr_wandb_close(w, 0));
    GR_CHECK_OK(gr_wandb_open(&w, &c));
    gr_text_add(&folder, gr_wandb_folder(w));
    for (int64_t step = 10; step <= 30; step += 10) {
        GR_CHECK_OK(gr_wandb_log(w, step, 1.7e9, "loss", 0.5));
        GR_CHECK_OK(gr_wandb_end_row(w));
        GR_CHECK_OK(gr_wandb_log(w, step, 1.7e9, "val_loss", 0.25));
    }
    GR_CHECK_OK(gr_wandb_sync_rows(w));
    GR_CHECK_OK(gr_wandb_close(w, 3));
    read_run(&folder, "goes-on", all, &n, 11,
             &n_parts); /* header, run, six rows, three of the end */
    c.keep = &keep;
    for (int i = 0; i < 2; i++) {
        keep.n_again = i;
        GR_CHECK_OK(gr_wandb_open(&w, &c));
        GR_CHECK_OK(gr_wandb_close(w, 0));
        read_run(&folder, "goes-on", all, &n, i ? 5 : 6, &n_parts);
    }
    GR_CHECK(holds(all, n, "val_loss"));
    read_run(&others, "on", all, &n, 6, &n_parts);
    gr_text_fini(&folder);
    gr_text_fini(&others);
}

/* Records of many sizes, so that some end exactly before a block does. */
static void test_large(void)
{
    gr_wandb_config c = { .folder = "runs" };
    static char all[1 << 21], long_name[70000];
    size_t n;
    int n_parts;
    gr_text folder = GR_TEXT_INIT;
    char id[64];
    gr_wandb *w;

    GR_CHECK_OK(gr_wandb_open(&w, &c));
    GR_CHECK_EQ(strlen(gr_wandb_id(w)), 8);
    snprintf(id, sizeof(id), "%s", gr_wandb_id(w));
    gr_text_add(&folder, gr_wandb_folder(w));
    for (int step = 0; step < 300; step++) {
        char name[600];

        memset(name, 'x', sizeof(name));
        name[step * 2 % 599] = '\0';
        name[599] = '\0';
        GR_CHECK_OK(gr_wandb_log(w, step, 1.7e9, name, step));
    }
    memset(long_name, 'y', sizeof(long_name) - 1);
    GR_CHECK_OK(gr_wandb_log(w, 300, 1.7e9, long_name, 1));
    GR_CHECK_OK(gr_wandb_close(w, 0));
    read_run(&folder, id, all, &n, 2 + 301 + 3, &n_parts);
    GR_CHECK(n_parts > 6);
    GR_CHECK(holds(all, n, long_name));
    gr_text_fini(&folder);
}

static void write_client(void)
{
    FILE *f;

    GR_CHECK_OK(gr_make_folders("client"));
    f = fopen("client/wandb", "w");
    GR_CHECK(f && fputs("#!/bin/sh\necho \"called with $*${WANDB_MODE+, and a mode}\"\n", f) >= 0);
    fclose(f);
    GR_CHECK(chmod("client/wandb", 0755) == 0);
    GR_CHECK_OK(gr_make_folders("it's here/logs"));
    unlink("it's here/logs/sync.log");
}

static void test_sync(void)
{
    gr_text command = GR_TEXT_INIT, path = GR_TEXT_INIT;
    pid_t child;
    int status;
    char *text;
    size_t n;

    write_client();
    gr_text_addf(&path, "client:%s", getenv("PATH"));
    unsetenv("WANDB_API_KEY");
    setenv("PATH", path.str, 1);
    GR_CHECK_OK(gr_wandb_sync("it's here", &child, &command));
    GR_CHECK_EQ(child, -1);
    GR_CHECK_STR(command.str, "wandb sync 'it'\\''s here'");
    command.len = 0;
    setenv("WANDB_API_KEY", "0", 1);
    GR_CHECK_OK(gr_wandb_sync("it's here", NULL, &command));
    GR_CHECK(command.len > 0);
    command.len = 0;
    setenv("WANDB_MODE", "offline", 1); /* who calls has decided, whatever it says */
    GR_CHECK_OK(gr_wandb_sync("it's here", &child, &command));
    GR_CHECK(child > 0);
    GR_CHECK_STR(command.str, "wandb sync 'it'\\''s here'"); /* for when the child fails */
    command.len = 0;
    GR_CHECK(waitpid(child, &status, 0) == child && status == 0);
    GR_CHECK_OK(gr_file_read("it's here/logs/sync.log", &text, &n));
    GR_CHECK_STR(text, "called with sync it's here\n");
    gr_free(text);
    unsetenv("WANDB_MODE");
    setenv("PATH", "/nowhere", 1); /* a key, but no client */
    GR_CHECK_OK(gr_wandb_sync("a", &child, &command));
    GR_CHECK_EQ(child, -1);
    GR_CHECK_STR(command.str, "wandb sync a");
    gr_text_fini(&command);
    gr_text_fini(&path);
}

static gr_status with_little_memory(void *arg)
{
    gr_param param = { "lr", GR_PARAM_NUMBER, 0.25, NULL };
    gr_wandb_config c = { .folder = "runs", .params = &param, .n_params = 1 };
    gr_status st, closed;
    gr_wandb *w;

    (void)arg;
    GR_TRY(gr_wandb_open(&w, &c));
    st = gr_wandb_log(w, 1, 1.7e9, "loss", 0.5);
    closed = gr_wandb_close(w, 0);
    return st != GR_OK ? st : closed;
}

int main(void)
{
    gr_wandb_config bad = { .folder = "runs", .run_id = "../x" }, none = { .folder = "/proc/none" };
    gr_wandb *w;

    gr_test_scratch();
    unsetenv("WANDB_DIR");
    unsetenv("WANDB_RUN_ID");
    unsetenv("WANDB_MODE");
    unsetenv("WANDB_DISABLED");
    test_small();
    test_again();
    test_cut();
    test_large();
    GR_CHECK(gr_alloc_fail_each(with_little_memory, NULL) > 20);
    GR_CHECK_FAILS(gr_wandb_open(&w, &bad), GR_ERR_ARG, "../x");
    GR_CHECK_FAILS(gr_wandb_open(&w, &none), GR_ERR_IO, "/proc/none");
    GR_CHECK_OK(gr_wandb_close(NULL, 0));
    GR_CHECK(!gr_wandb_disabled());
    setenv("WANDB_DISABLED", "true", 1);
    GR_CHECK(gr_wandb_disabled());
    unsetenv("WANDB_DISABLED");
    test_sync();
    return 0;
}
