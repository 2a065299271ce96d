/*
 * What ranks prepare together, and what a recipe keeps: a cache whose parts are built once each
 * whoever is killed meanwhile, and state that comes back from checkpoints, equal on all ranks.
 *
 * This program is the test, and with words the program that it tests.
 */
#include "check.h"
#include "gradus/ckpt.h"
#include "multi/toy_runs.h"
#include "train/toy_keep.h"

#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMON "--device cpu --save_every 0 --epochs 1 --max_steps 2 --num_workers 1"
#define MOST   64

/* ---- the cache's folder ---- */

/* How often each part was built, by all processes that ever did; returns how many of them did. */
static int count_built(const char *folder, int built[MOST])
{
    DIR *d = opendir(folder);
    int n = 0;

    memset(built, 0, MOST * sizeof(*built));
    GR_CHECK(d);
    for (const struct dirent *e; (e = readdir(d));) {
        char path[600];
        int part;
        FILE *f;

        if (strncmp(e->d_name, "built.", 6) != 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
        f = fopen(path, "re");
        GR_CHECK(f);
        while (fscanf(f, "%d", &part) == 1 && part >= 0 && part < MOST)
            built[part]++;
        fclose(f);
        n++;
    }
    closedir(d);
    return n;
}

/* The process of a claim, and its part; 0: none is held. */
static pid_t find_builder(const char *folder, int *part)
{
    char path[600];
    DIR *d;
    pid_t found = 0;

    snprintf(path, sizeof(path), "%s/.building", folder);
    d = opendir(path);
    for (const struct dirent *e; d && !found && (e = readdir(d));) {
        char inner[1200];
        long pid = 0;
        FILE *f;

        if (!strstr(e->d_name, ".claim") || sscanf(e->d_name, "part%d.bin", part) != 1)
            continue;
        snprintf(inner, sizeof(inner), "%s/%s", path, e->d_name);
        f = fopen(inner, "re");
        if (f && fscanf(f, "%*s %ld", &pid) == 1)
            found = (pid_t)pid;
        if (f)
            fclose(f);
    }
    if (d)
        closedir(d);
    return found;
}

static pid_t wait_for_builder(const char *folder, int *part)
{
    for (int i = 0; i < 2000; i++) {
        pid_t pid = find_builder(folder, part);

        if (pid)
            return pid;
        usleep(10000);
    }
    GR_CHECK(!"nobody builds");
    return 0;
}

/* ---- the cache ---- */

static void test_shared(void)
{
    int built[MOST];

    toy_run(3, "train toy --output_dir a " COMMON " --toy.cache a.cache --toy.parts 20 "
               "--toy.part_ms 30");
    GR_CHECK(count_built("a.cache", built) > 1); /* several ranks had their share */
    for (int i = 0; i <= 20; i++)
        GR_CHECK_EQ(built[i], 1);
    toy_run(2, "train toy --output_dir b " COMMON " --toy.cache a.cache --toy.parts 20");
    toy_run(0, "test toy --checkpoint a --device cpu --toy.cache a.cache --toy.parts 20");
    count_built("a.cache", built);
    for (int i = 0; i <= 20; i++)
        GR_CHECK_EQ(built[i], 1);
    GR_CHECK(truncate("a.cache/part7.bin", 0) == 0); /* no longer current */
    toy_run(1, "train toy --output_dir c " COMMON " --toy.cache a.cache --toy.parts 20");
    count_built("a.cache", built);
    for (int i = 0; i <= 20; i++)
        GR_CHECK_EQ(built[i], i == 7 ? 2 : 1);
}

/* Killed with half a part on the disk: the next run builds that and what is wanting. */
static void test_killed(void)
{
    static const char line[] = "train toy --output_dir k " COMMON " --toy.cache k.cache "
                               "--toy.parts 8 --toy.part_ms 400";
    int built[MOST], part = -1;
    char path[100];
    pid_t pid;
    job j;

    toy_begin(&j, 2, line);
    pid = wait_for_builder("k.cache", &part);
    usleep(150000);
    GR_CHECK(kill(pid, SIGKILL) == 0);
    job_finish(&j);
    GR_CHECK(j.exit_code != 0);
    job_fini(&j);
    count_built("k.cache", built);
    GR_CHECK_EQ(built[part], 0);
    snprintf(path, sizeof(path), "k.cache/part%d.bin", part);
    GR_CHECK(access(path, F_OK) != 0);
    toy_run(2, line);
    count_built("k.cache", built);
    for (int i = 0; i <= 8; i++)
        GR_CHECK_EQ(built[i], 1);
}

/* A part that takes longer than the group's patience; and two jobs of one cache. */
static void test_patience(void)
{
    static const char line[] = COMMON " --toy.cache p.cache --toy.parts 2 --toy.part_ms 3500 "
                                      "--timeout 2";
    char words[400], other[400];
    int built[MOST];
    job a, b;

    snprintf(words, sizeof(words), "train toy --output_dir p %s", line);
    snprintf(other, sizeof(other), "train toy --output_dir q %s", line);
    toy_begin(&a, 2, words);
    toy_begin(&b, 1, other);
    job_finish(&a);
    job_finish(&b);
    if (a.exit_code != 0 || b.exit_code != 0)
        fprintf(stderr, "%s\n%s\n", gr_text_str(&a.output), gr_text_str(&b.output));
    GR_CHECK(a.exit_code == 0 && b.exit_code == 0);
    job_fini(&a);
    job_fini(&b);
    count_built("p.cache", built);
    for (int i = 0; i <= 2; i++)
        GR_CHECK_EQ(built[i], 1);
}

static void test_stopped(void)
{
    int built[MOST], part, n_built = 0;
    job j;

    toy_begin(&j, 0, "train toy " COMMON " --toy.cache s.cache --toy.part_ms 300");
    wait_for_builder("s.cache", &part);
    GR_CHECK(kill(j.pid, SIGTERM) == 0);
    job_finish(&j);
    GR_CHECK_EQ(j.exit_code, 1); /* toy_main() has no other for a stop */
    GR_CHECK(strstr(gr_text_str(&j.output), "Stopped while the data were prepared: "));
    GR_CHECK(rmdir("runs") == 0); /* no empty run stays */
    job_fini(&j);
    count_built("s.cache", built);
    for (int i = 0; i < MOST; i++)
        n_built += built[i];
    GR_CHECK(n_built >= 1 && n_built < 6); /* the one under way, but not all */
}

static void test_broken_part(void)
{
    toy_refuse(2, "train toy --output_dir e " COMMON " --toy.cache e.cache --toy.broken_part 3",
               "'part3.bin': the source of part 3 is broken");
    toy_refuse(1, "train toy --output_dir e " COMMON " --toy.cache /dev/null/cache", "/dev/null");
}

/* ---- state ---- */

static void check_state(const char *path, const char *word, double first)
{
    gr_snapshot *snap;
    const gr_named *means;

    GR_CHECK_OK(gr_ckpt_read(path, &snap));
    means = gr_snapshot_find(snap, "recipe.means");
    GR_CHECK(means && means->dtype == GR_F64 && means->shape.dim[0] == TOY_MEANS);
    GR_CHECK_NEAR(((const double *)means->mem)[0], first, 0);
    GR_CHECK_NEAR(((const double *)means->mem)[2], first + 0.5, 0);
    GR_CHECK_STR(gr_snapshot_get(snap, "recipe.word"), word);
    gr_snapshot_destroy(snap);
}

static void test_state(void)
{
    toy_run(2, "train toy --output_dir w " COMMON " --seed 5 --toy.word sesame "
               "--checkpoint_format both");
    check_state("w/checkpoints/last.safetensors", "sesame", 5);
    check_state("w/checkpoints/last.pt", "sesame", 5);
    toy_run(3, "train toy --resume w --max_steps 4 --toy.word other"); /* its own stays */
    check_state("w/checkpoints/last.safetensors", "sesame", 5);
    toy_run(2, "train toy --resume w/checkpoints/last.pt --max_steps 6 --zero 1");
    toy_run(2, "test toy --checkpoint w --device cpu");
    toy_run(1, "predict toy --checkpoint w/checkpoints/last.pt --device cpu --output predicted");
    toy_run(0, "export w --output model.safetensors");
    check_state("model.safetensors", "sesame", 5);
    toy_run(2, "test toy --checkpoint model.safetensors --device cpu --output tested");
    /* Weights to begin with bring no state: the data may be others. */
    toy_run(1, "train toy --output_dir x " COMMON " --seed 7 --toy.word new "
               "--pretrained w/checkpoints/last.safetensors");
    check_state("x/checkpoints/last.safetensors", "new", 7);
    toy_refuse(2, "train toy --output_dir d " COMMON " --toy.word x --toy.differs true",
               "ranks differ in 'state means'");
}

static void check_output(int n_ranks, const char *line, const char *part)
{
    job j = toy_output(n_ranks, line);

    if (j.exit_code != 0 || !strstr(gr_text_str(&j.output), part)) {
        fprintf(stderr, "'%s' did not say '%s':\n%s\n", line, part, gr_text_str(&j.output));
        exit(1);
    }
    job_fini(&j);
}

/* Weights go out in another project's layout, and come back whole. */
static void test_foreign(void)
{
    gr_snapshot *snap;

    toy_run(0, "export w --output theirs.pt --layout original");
    GR_CHECK_OK(gr_ckpt_read("theirs.pt", &snap));
    GR_CHECK(gr_snapshot_find(snap, "net_state_dict.net.head.weight"));
    GR_CHECK(!gr_snapshot_find(snap, "recipe.means") && !gr_snapshot_get(snap, "recipe.word"));
    gr_snapshot_destroy(snap);
    check_output(2, "train toy --output_dir f " COMMON " --pretrained theirs.pt",
                 "Pretrained: 6 of 6 tensors from theirs.pt");
    check_output(2, "test toy --checkpoint theirs.pt --device cpu --output tested2", "accuracy");
    toy_refuse(0, "export w --output theirs.pt --layout other",
               "recipe 'toy' has no layout 'other'; it has original");
    toy_refuse(0, "export w --output theirs.safetensors --layout original", "--output FILE.pt");
}

static void test_state_is_wanting(void)
{
    toy_run(1, "train toy --output_dir n " COMMON);
    toy_refuse(2, "test toy --checkpoint n --device cpu --toy.word x",
               "there is no state of a training");
}

int main(int argc, char **argv)
{
    toy_runs_begin(argc, argv);
    test_shared();
    test_killed();
    test_patience();
    test_stopped();
    test_broken_part();
    test_state();
    test_foreign();
    test_state_is_wanting();
    return 0;
}
