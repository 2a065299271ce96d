/* Runs of the toy recipe, as a user would start them. */
#include "toy_runs.h"

#include "check.h"
#include "scratch.h"
#include "train/toy_recipe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_WORDS 48

static char self[1024];

void toy_runs_begin(int argc, char **argv)
{
    ssize_t n;

    if (argc > 1)
        exit(toy_main(argv[0], argc, argv));
    n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    GR_CHECK(n > 0);
    gr_test_scratch();
}

void toy_begin(job *j, int n_ranks, const char *line)
{
    static char gradrun[] = GR_BIN_DIR "/gradrun", option[] = "--nproc-per-node";
    char *words[MOST_WORDS], n[16], text[2048];
    int count = 0;

    snprintf(n, sizeof(n), "%d", n_ranks);
    GR_CHECK(strlen(line) < sizeof(text));
    snprintf(text, sizeof(text), "%s", line);
    if (n_ranks > 0) {
        words[count++] = gradrun;
        words[count++] = option;
        words[count++] = n;
    }
    words[count++] = self;
    for (char *at = text + strspn(text, " "); *at;) {
        size_t n_word = strcspn(at, " "), n_gap = strspn(at + n_word, " ");

        GR_CHECK(count < MOST_WORDS - 1);
        words[count++] = at;
        at += n_word + n_gap;
        if (n_gap > 0)
            at[-(ptrdiff_t)n_gap] = '\0';
    }
    words[count] = NULL;
    job_start(j, words, NULL);
}

job toy_output(int n_ranks, const char *line)
{
    job j;

    toy_begin(&j, n_ranks, line);
    job_finish(&j);
    return j;
}

void toy_run(int n_ranks, const char *line)
{
    job j = toy_output(n_ranks, line);

    if (j.exit_code != 0) {
        fprintf(stderr, "'%s' on %d ranks ended with %d:\n%s\n", line, n_ranks, j.exit_code,
                gr_text_str(&j.output));
        exit(1);
    }
    job_fini(&j);
}

void toy_refuse(int n_ranks, const char *line, const char *why)
{
    job j = toy_output(n_ranks, line);

    if (j.exit_code == 0 || !strstr(gr_text_str(&j.output), why)) {
        fprintf(stderr, "'%s' did not fail with '%s':\n%s\n", line, why, gr_text_str(&j.output));
        exit(1);
    }
    job_fini(&j);
}
