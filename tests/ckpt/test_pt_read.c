/*
 * Files made by torch.save(), zip and legacy: every value arrives with its bits, and what is
 * neither a tensor nor a plain container is refused by name. Damage is never taken for a
 * file: cut at every byte, and in the zip container every flipped bit either is refused or
 * was in a place that means nothing (padding, times).
 */
#include "gradus/ckpt.h"

#include "check.h"
#include "ckpt/pt_golden.h"
#include "ckpt/sample.h"
#include "scratch.h"
#include "src/ckpt/pt.h"

#include <dirent.h>

static void check_one(const char *name)
{
    gr_text bytes = GR_TEXT_INIT, want = GR_TEXT_INIT, got = GR_TEXT_INIT;
    char txt[300];
    gr_snapshot *s;

    snprintf(txt, sizeof(txt), "%s.txt", name);
    GR_CHECK_OK(pt_golden_read(name, &bytes));
    GR_CHECK_OK(pt_golden_read(txt, &want));
    GR_CHECK_OK(pt_golden_parse(bytes.str, bytes.len, &s));
    GR_CHECK_OK(pt_golden_describe(s, &got));
    GR_CHECK_STR(gr_text_str(&got), gr_text_str(&want));
    gr_snapshot_destroy(s);
    gr_text_fini(&got);
    gr_text_fini(&want);
    gr_text_fini(&bytes);
}

static bool is_accepted(const char *name)
{
    size_t n = strlen(name);

    return n > 3 && strcmp(name + n - 3, ".pt") == 0 && strncmp(name, "refused_", 8) != 0;
}

static void test_accepted(void)
{
    DIR *dir = opendir(GR_TESTS_DIR "/golden/pt");
    int n = 0;

    GR_CHECK(dir != NULL);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir))
        if (is_accepted(e->d_name)) {
            check_one(e->d_name);
            n++;
        }
    closedir(dir);
    GR_CHECK(n >= 17);
}

static void test_refused(void)
{
    gr_text list = GR_TEXT_INIT;
    char *rest, *line;
    int n = 0;

    GR_CHECK_OK(pt_golden_read("refused.txt", &list));
    for (line = strtok_r(list.str, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        gr_text path = GR_TEXT_INIT;
        char *tab = strchr(line, '\t');
        gr_snapshot *s;

        GR_CHECK(tab != NULL);
        *tab = '\0';
        gr_text_addf(&path, GR_TESTS_DIR "/golden/pt/%s", line);
        GR_CHECK_FAILS(gr_ckpt_read(gr_text_str(&path), &s), GR_ERR_FORMAT, tab + 1);
        GR_CHECK(s == NULL && strstr(gr_error_message(), line) != NULL);
        gr_text_fini(&path);
        n++;
    }
    GR_CHECK(n >= 16);
    gr_text_fini(&list);
}

static void check_cut(const char *name)
{
    gr_text bytes = GR_TEXT_INIT;
    gr_snapshot *s;

    GR_CHECK_OK(pt_golden_read(name, &bytes));
    for (size_t n = 0; n <= bytes.len + 1; n++)
        if (n != bytes.len) /* at len + 1, the NUL that ends the text is a byte too many */
            GR_CHECK_EQ(pt_golden_parse(bytes.str, n, &s), GR_ERR_FORMAT);
    gr_text_fini(&bytes);
}

/* with_crc: what is accepted all the same must be equal. */
static void check_flip(const char *name, bool with_crc)
{
    gr_text bytes = GR_TEXT_INIT;
    gr_snapshot *whole;
    int n_refused = 0;

    GR_CHECK_OK(pt_golden_read(name, &bytes));
    GR_CHECK_OK(pt_golden_parse(bytes.str, bytes.len, &whole));
    for (size_t i = 0; i < bytes.len; i++)
        for (int bit = 0; bit < 9; bit++) {
            char mask = (char)(bit < 8 ? 1 << bit : 0xff);
            gr_snapshot *s;
            gr_status st;

            bytes.str[i] ^= mask;
            st = pt_golden_parse(bytes.str, bytes.len, &s);
            bytes.str[i] ^= mask;
            GR_CHECK(st == GR_OK || st == GR_ERR_FORMAT);
            n_refused += st != GR_OK;
            if (st == GR_OK && with_crc && !ckpt_sample_equal(whole, s)) {
                fprintf(stderr, "%s: byte %zu, bit %d was not noticed\n", name, i, bit);
                exit(1);
            }
            gr_snapshot_destroy(s);
        }
    GR_CHECK(n_refused > 1000);
    gr_snapshot_destroy(whole);
    gr_text_fini(&bytes);
}

/* The name does not decide, the first bytes do. */
static void test_names(void)
{
    gr_snapshot *s, *again;
    FILE *f;

    GR_CHECK_OK(gr_ckpt_read(GR_TESTS_DIR "/golden/pt/views.pt", &s));
    GR_CHECK_OK(gr_ckpt_write("a.pth", s));
    GR_CHECK(rename("a.pth", "a.safetensors") == 0);
    GR_CHECK_OK(gr_ckpt_read("a.safetensors", &again));
    GR_CHECK(ckpt_sample_equal(s, again));
    gr_snapshot_destroy(again);
    GR_CHECK_OK(gr_ckpt_write("b.safetensors", s));
    GR_CHECK(rename("b.safetensors", "b.pt") == 0);
    GR_CHECK_OK(gr_ckpt_read("b.pt", &again));
    GR_CHECK(ckpt_sample_equal(s, again));
    gr_snapshot_destroy(again);
    gr_snapshot_destroy(s);
    f = fopen("c.pt", "wb");
    GR_CHECK(f && fwrite("PK\3\4", 1, 4, f) == 4 && fclose(f) == 0);
    GR_CHECK_FAILS(gr_ckpt_read("c.pt", &s), GR_ERR_FORMAT, "'c.pt': 4 bytes are no zip");
    GR_CHECK(!gr_pt_is_zip((const unsigned char *)"PK\3\4\0\0\0\0{", 9));
}

/* What is no checkpoint at all is described by its first bytes, whatever its name says. */
static void test_strangers(void)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *says;
    } files[] = {
        { "", 0, "'d.pt': the file is empty" },
        { "hello", 5, "nor of safetensors; its 5 bytes begin with 68 65 6c 6c 6f ('hello')" },
        { "<html><body>404</body>", 22, "'<html><body>'); a web page" },
        { "version https://git-lfs.github.com/spec/v1\n", 43, "'git lfs pull'" },
        { "\x80\4\x95\0\0\0\0\0\0", 9, "80 04 95 00 00 00 00 00 00 ('.........'); a pickle" },
        { "\x1f\x8b\10\0", 4, "gzip" },
        { "\1\2\3\4\5\6\7\x10{}", 10, "neither a file of torch.save() (a zip archive" },
        { "\2\0\0\0\0\0\0\0[]", 10, "begin with 02 00 00 00 00 00 00 00 5b 5d ('........[]')" },
        { "\x20\0\0\0\0\0\0\0{", 9, "header takes 32 bytes, the file holds 1" },
    };
    gr_snapshot *s;

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        FILE *f = fopen("d.pt", "wb");

        GR_CHECK(f && fwrite(files[i].bytes, 1, files[i].n, f) == files[i].n && fclose(f) == 0);
        GR_CHECK_FAILS(gr_ckpt_read("d.pt", &s), GR_ERR_FORMAT, files[i].says);
        GR_CHECK_FAILS(gr_ckpt_peek("d.pt", &s), GR_ERR_FORMAT, files[i].says);
        GR_CHECK(s == NULL);
    }
}

int main(void)
{
    gr_test_scratch();
    test_accepted();
    test_refused();
    test_names();
    test_strangers();
    check_cut("trained.pt");
    check_cut("views_legacy.pt");
    check_cut("zip64.pt");
    check_flip("views.pt", true);
    check_flip("zip64.pt", true);
    check_flip("tied_legacy.pt", false);
    return 0;
}
