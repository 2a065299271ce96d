/* Options: every kind, every error with its words, help, nearest names, random words. */
#include "alloc_fail.h"
#include "base/option.h"
#include "check.h"

#include <stdbool.h>

typedef struct args {
    int64_t steps;
    double lr;
    const char *data;
    bool resume;
    int dtype;
    int64_t free_int;
} args;

static args a;

static const gr_option table[] = {
    { "steps", GR_OPTION_INT, &a.steps, 1, 1e12, NULL, "N", "optimizer steps to run" },
    { "lr", GR_OPTION_F64, &a.lr, 0, 10, NULL, "X", "peak learning rate" },
    { "data-path", GR_OPTION_TEXT, &a.data, 0, 0, NULL, "PATTERN", "files to train on" },
    { "resume", GR_OPTION_FLAG, &a.resume, 0, 0, NULL, NULL, "continue" },
    { "amp_dtype", GR_OPTION_CHOICE, &a.dtype, 0, 0, "f32|bf16|f16", NULL, "storage" },
    { "n", GR_OPTION_INT, &a.free_int, 0, 0, NULL, "N", "any number" },
    { 0 },
};

/* Cuts `line` at blanks and parses the words; "~" stands for an empty word. */
static gr_status parse(const char *line, int *n_used)
{
    static char words[512];
    char *argv[32];
    int argc = 0;

    a = (args){ .steps = 1000, .lr = 3e-4 };
    snprintf(words, sizeof(words), "%s", line);
    for (char *p = words; *p;) {
        size_t len = strcspn(p, " ");
        bool last = p[len] == '\0';

        p[len] = '\0';
        argv[argc++] = strcmp(p, "~") == 0 ? p + 1 : p;
        p += len + !last;
    }
    return gr_option_parse(table, argc, argv, n_used);
}

static void check_fails(const char *line, const char *part)
{
    int n_used;

    GR_CHECK_FAILS(parse(line, &n_used), GR_ERR_ARG, part);
}

static void good_words(void)
{
    int n;

    GR_CHECK_OK(parse("--steps 20 --lr=0.5 --data-path x.bin --resume --amp-dtype bf16 rest", &n));
    GR_CHECK_EQ(n, 8);
    GR_CHECK_EQ(a.steps, 20);
    GR_CHECK_NEAR(a.lr, 0.5, 0);
    GR_CHECK_STR(a.data, "x.bin");
    GR_CHECK_EQ(a.resume, true);
    GR_CHECK_EQ(a.dtype, 1);
    GR_CHECK_OK(parse("--data_path=a=b --amp_dtype=f16 --resume=false -n -5 --steps +7", &n));
    GR_CHECK_STR(a.data, "a=b");
    GR_CHECK_EQ(a.dtype, 2);
    GR_CHECK_EQ(a.resume, false);
    GR_CHECK_EQ(a.free_int, -5);
    GR_CHECK_EQ(a.steps, 7);
    GR_CHECK_OK(parse("--steps 1 -- --steps 2", &n));
    GR_CHECK_EQ(n, 3);
    GR_CHECK_EQ(a.steps, 1);
    GR_CHECK_OK(parse("--steps 1 --steps 2", &n)); /* the last one wins */
    GR_CHECK_EQ(a.steps, 2);
    GR_CHECK_OK(parse("- x", &n)); /* a single dash often means stdin: no option */
    GR_CHECK_EQ(n, 0);
    GR_CHECK_OK(parse("", &n));
    GR_CHECK_EQ(n, 0);
    GR_CHECK_OK(parse("--data-path=--resume --data-path= --lr 1e1 --steps=1000000000000", &n));
    GR_CHECK_STR(a.data, "");
    GR_CHECK_OK(parse("--n 9223372036854775807", &n));
    GR_CHECK_EQ(a.free_int, INT64_MAX);
    GR_CHECK_OK(parse("--n=-9223372036854775808", &n));
    GR_CHECK_EQ(a.free_int, INT64_MIN);
}

static void bad_values(void)
{
    check_fails("--steps 12x", "option '--steps': '12x' is no whole number");
    check_fails("--steps 1.5", "'1.5' is no whole number");
    check_fails("--steps= 5", "'' is no whole number");
    check_fails("--steps ~", "'' is no whole number");
    check_fails("--steps=\t5", "is no whole number");
    check_fails("--steps 0", "option '--steps': '0' is not between 1 and 1000000000000");
    check_fails("--steps -3", "'-3' is not between");
    check_fails("--n 9223372036854775808", "'9223372036854775808' does not fit in 64 bits");
    check_fails("--n -99999999999999999999", "does not fit in 64 bits");
    check_fails("--lr ten", "option '--lr': 'ten' is no number");
    check_fails("--lr 10.5", "'10.5' is not between 0 and 10");
    check_fails("--lr 1e999", "'1e999' is not finite");
    check_fails("--lr inf", "'inf' is not finite");
    check_fails("--lr nan", "'nan' is no number");
    check_fails("--lr 0.1,5", "'0.1,5' is no number");
    check_fails("--resume=yes", "option '--resume': 'yes' is neither 'true' nor 'false'");
    check_fails("--amp-dtype f8", "option '--amp_dtype': 'f8' is none of f32|bf16|f16");
    check_fails("--amp-dtype f32|bf16", "is none of");
    check_fails("--amp-dtype=", "'' is none of");
    GR_CHECK_EQ(a.steps, 1000); /* a refused value is not stored */
}

static void bad_words(void)
{
    check_fails("--step 3", "unknown option '--step'; did you mean '--steps'?");
    check_fails("--setps=3", "unknown option '--setps=3'; did you mean '--steps'?");
    check_fails("--Resume", "did you mean '--resume'?");
    check_fails("--data x", "did you mean '--data-path'?");
    check_fails("--xyzzy", "unknown option '--xyzzy'; there are --steps, --");
    GR_CHECK(!strstr(gr_error_message(), "did you mean"));
    check_fails("-steps 3", "unknown option '-steps'; did you mean '--steps'?");
    check_fails("-q", "unknown option '-q'");
    check_fails("--=3", "unknown option '--=3'");
    check_fails("---steps 3", "unknown option '---steps'");
    check_fails("--steps", "option '--steps' needs a value");
    check_fails("--data-path --resume", "write '--data-path=--resume' if that is the value");
}

static void help(void)
{
    static const char want[] = "  --steps N                 optimizer steps to run [1000]\n"
                               "  --lr X                    peak learning rate [0.0003]\n"
                               "  --data-path PATTERN       files to train on\n"
                               "  --resume                  continue [false]\n"
                               "  --amp_dtype f32|bf16|f16  storage [f32]\n"
                               "  --n N                     any number [0]\n";
    gr_text t = GR_TEXT_INIT;
    int n;

    GR_CHECK_OK(parse("", &n));
    gr_option_help(table, &t);
    GR_CHECK_OK(gr_text_status(&t));
    GR_CHECK_STR(gr_text_str(&t), want);
    gr_text_fini(&t);
    GR_CHECK_OK(parse("--data-path=d --amp-dtype=f16 --resume", &n));
    gr_option_help(table, &t);
    GR_CHECK(strstr(gr_text_str(&t), "train on [d]\n") && strstr(gr_text_str(&t), "[f16]\n"));
    GR_CHECK(strstr(gr_text_str(&t), "continue [true]\n"));
    gr_text_fini(&t);
}

static void nearest(void)
{
    static const char *const names[] = {
        "adam", "adamw", "sgd", "momentum", "learning-rate", NULL
    };
    static const char *const none[] = { NULL };
    char big[200];

    GR_CHECK_STR(gr_nearest("adam", names), "adam");
    GR_CHECK_STR(gr_nearest("adamW", names), "adamw");
    GR_CHECK_STR(gr_nearest("sdg", names), "sgd");
    GR_CHECK_STR(gr_nearest("momentun", names), "momentum");
    GR_CHECK_STR(gr_nearest("learning_rat", names), "learning-rate");
    GR_CHECK_STR(gr_nearest("lea", names), "learning-rate"); /* the only one that starts so */
    GR_CHECK(gr_nearest("xyz", names) == NULL);
    GR_CHECK(gr_nearest("", names) == NULL);
    GR_CHECK(gr_nearest("adam", none) == NULL);
    memset(big, 'a', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    GR_CHECK(gr_nearest(big, names) == NULL);
    big[64] = '\0'; /* the longest word that is looked at */
    GR_CHECK(gr_nearest(big, names) == NULL);
}

static uint32_t next_random(uint32_t *x)
{
    *x = *x * 1664525u + 1013904223u;
    return *x >> 16;
}

/* Words put together from likely pieces: whatever comes, it parses or fails with words. */
static void random_words(void)
{
    static const char *const pieces[] = {
        "--",
        "-",
        "steps",
        "lr",
        "data-path",
        "resume",
        "amp_dtype",
        "=",
        "1",
        "9",
        "0",
        ".",
        "e",
        "inf",
        "nan",
        "f16",
        "|",
        "true",
        "x",
        "\xff",
        "_",
        "\t",
        "9999999999999999999",
    };
    uint32_t x = 7, n_pieces = sizeof(pieces) / sizeof(pieces[0]);
    int n_ok = 0;

    for (int turn = 0; turn < 50000; turn++) {
        char words[6][64];
        char *argv[6];
        int argc = (int)(next_random(&x) % 7), n_used = -1;
        gr_status st;

        for (int i = 0; i < argc; i++) {
            int n = (int)(next_random(&x) % 4);
            size_t len = 0;

            words[i][0] = '\0';
            if (next_random(&x) % 2)
                len = (size_t)snprintf(words[i], 64, "--");
            while (n-- > 0)
                len += (size_t)snprintf(words[i] + len, 64 - len, "%s",
                                        pieces[next_random(&x) % n_pieces]);
            argv[i] = words[i];
        }
        gr_fail(GR_OK, "%s", "");
        st = gr_option_parse(table, argc, argv, &n_used);
        GR_CHECK(st == GR_OK || st == GR_ERR_ARG);
        GR_CHECK((st == GR_OK) == (gr_error_message()[0] == '\0'));
        GR_CHECK(n_used >= 0 && n_used <= argc);
        GR_CHECK(a.lr >= 0 && a.lr <= 10 && a.steps >= 1 && a.dtype >= 0 && a.dtype < 3);
        n_ok += st == GR_OK && n_used > 0;
    }
    GR_CHECK(n_ok > 100);                    /* the words are not all nonsense */
    a = (args){ .steps = 1000, .lr = 3e-4 }; /* a.data pointed into `words` */
}

static gr_status help_body(void *arg)
{
    gr_text t = GR_TEXT_INIT;
    gr_status st;

    (void)arg;
    gr_option_help(table, &t);
    st = gr_text_status(&t);
    gr_text_fini(&t);
    return st;
}

int main(void)
{
    good_words();
    bad_values();
    bad_words();
    help();
    nearest();
    random_words();
    GR_CHECK(gr_alloc_fail_each(help_body, NULL) > 0);
    return 0;
}
