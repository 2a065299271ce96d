/* Claims on parts: one holder at a time, and those of the dead are taken over. */
#include "train/share.h"

#include "base/clock.h"
#include "check.h"
#include "scratch.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");

    GR_CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static bool has(const char *path, const char *text)
{
    char mem[100] = "";
    FILE *f = fopen(path, "re");
    bool same = f && fread(mem, 1, sizeof(mem) - 1, f) > 0 && strcmp(mem, text) == 0;

    if (f)
        fclose(f);
    return same;
}

static bool is_empty(const char *folder)
{
    return rmdir(folder) == 0; /* which is made again when it is needed */
}

static void test_keep(void)
{
    gr_claim c, other;
    gr_claim_watch w = { 0 };

    GR_CHECK_OK(gr_claim_try(&c, "cache", "a.bin", &w));
    GR_CHECK(c.fd >= 0);
    GR_CHECK_OK(gr_claim_try(&other, "cache", "a.bin", &w));
    GR_CHECK(other.fd < 0); /* somebody has it */
    GR_CHECK_OK(gr_claim_try(&other, "cache", "sub/b.bin", &(gr_claim_watch){ 0 }));
    GR_CHECK(other.fd >= 0);
    put(c.aside, "whole");
    GR_CHECK(access("cache/a.bin", F_OK) != 0);
    GR_CHECK_OK(gr_claim_keep(&c, "cache/a.bin"));
    GR_CHECK(has("cache/a.bin", "whole"));
    put(other.aside, "half");
    gr_claim_drop(&other);
    gr_claim_drop(&other); /* nothing more to do */
    GR_CHECK(is_empty("cache/" GR_CLAIMS_FOLDER));
    GR_CHECK_OK(gr_claim_try(&c, "cache", "c.bin", &w));
    GR_CHECK_FAILS(gr_claim_keep(&c, "cache/c.bin"), GR_ERR_IO, "was not built");
    GR_CHECK(is_empty("cache/" GR_CLAIMS_FOLDER));
}

/* A builder of this host that is killed is found out at once. */
static void test_killed(void)
{
    int said[2];
    char byte;
    pid_t child;
    gr_claim c;
    gr_claim_watch w = { 0 };
    int64_t began;

    GR_CHECK(pipe(said) == 0);
    child = fork();
    GR_CHECK(child >= 0);
    if (child == 0) {
        if (gr_claim_try(&c, "cache", "a.bin", &w) != GR_OK || c.fd < 0)
            _exit(1);
        put(c.aside, "half");
        GR_IGNORE(write(said[1], "x", 1));
        pause();
        _exit(1);
    }
    GR_CHECK(read(said[0], &byte, 1) == 1);
    GR_CHECK_OK(gr_claim_try(&c, "cache", "a.bin", &w));
    GR_CHECK(c.fd < 0);
    GR_CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    began = gr_now_ns();
    GR_CHECK_OK(gr_claim_try(&c, "cache", "a.bin", &w));
    GR_CHECK(c.fd >= 0 && gr_now_ns() - began < 2000000000);
    put(c.aside, "whole");
    GR_CHECK_OK(gr_claim_keep(&c, "cache/d.bin"));
    GR_CHECK(has("cache/d.bin", "whole"));
    GR_CHECK(is_empty("cache/" GR_CLAIMS_FOLDER)); /* what the dead one left is gone, too */
    close(said[0]);
    close(said[1]);
}

/* Of another host there is the count alone: while it goes up, its builder lives. */
static void test_other_host(void)
{
    gr_claim c;
    gr_claim_watch w = { 0 };
    char text[100];

    GR_IGNORE(mkdir("cache/" GR_CLAIMS_FOLDER, 0777));
    put("cache/" GR_CLAIMS_FOLDER "/a.bin.there.1", "half");
    for (int i = 0; i < 8; i++) { /* 6 s and more, in which it counts */
        snprintf(text, sizeof(text), "another-boot 12 there.1 %020d\n", i);
        put("cache/" GR_CLAIMS_FOLDER "/a.bin.claim", text);
        GR_CHECK_OK(gr_claim_try(&c, "cache", "a.bin", &w));
        GR_CHECK(c.fd < 0);
        usleep(800000);
    }
    GR_CHECK_OK(gr_claim_try(&c, "cache", "a.bin", &w));
    GR_CHECK(c.fd < 0); /* not for so short a silence */
    usleep(5300000);
    GR_CHECK_OK(gr_claim_try(&c, "cache", "a.bin", &w));
    GR_CHECK(c.fd >= 0);
    GR_CHECK(access("cache/" GR_CLAIMS_FOLDER "/a.bin.there.1", F_OK) != 0);
    gr_claim_drop(&c);
    GR_CHECK(is_empty("cache/" GR_CLAIMS_FOLDER));
}

/* What a builder counts is seen by who waits. */
static void test_beats(void)
{
    gr_claim c, other;
    gr_claim_watch w = { 0 };
    uint64_t seen;

    GR_CHECK_OK(gr_claim_try(&c, "cache", "a.bin", &w));
    GR_CHECK_OK(gr_claim_try(&other, "cache", "a.bin", &w));
    seen = w.seen;
    GR_CHECK_OK(gr_claim_try(&other, "cache", "a.bin", &w));
    GR_CHECK(w.seen == seen);
    gr_claim_beat(&c);
    GR_CHECK_OK(gr_claim_try(&other, "cache", "a.bin", &w));
    GR_CHECK(other.fd < 0 && w.seen != seen);
    gr_claim_drop(&c);
}

static void test_refused(void)
{
    gr_claim c;

    put("file", "no folder");
    GR_CHECK_FAILS(gr_claim_try(&c, "file", "a.bin", &(gr_claim_watch){ 0 }), GR_ERR_IO, "file");
    GR_CHECK(c.fd < 0);
}

int main(void)
{
    gr_test_scratch();
    GR_CHECK(mkdir("cache", 0777) == 0);
    test_keep();
    test_killed();
    test_beats();
    test_other_host();
    test_refused();
    return 0;
}
