/*
 * kill -9 at any instant: what the folder holds afterwards is whole, and no older than what
 * was known to be on the disk. A child saves one checkpoint after the other and says so
 * through a pipe; it is killed at a random instant, again and again in the same folder.
 *
 *     test_ckpt_kill [times]
 */
#include "gradus/ckpt.h"

#include "base/clock.h"
#include "check.h"
#include "ckpt/listing.h"
#include "scratch.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define N_VALUES (1 << 15)

static void fill(gr_snapshot *s, int64_t step)
{
    const gr_named *old = gr_snapshot_find(s, "w");
    void *mem = old ? old->mem : NULL;
    char text[32];

    if (!old)
        GR_CHECK_OK(gr_snapshot_add(s, "w", GR_I64, GR_SHAPE(N_VALUES), &mem));
    for (int i = 0; i < N_VALUES; i++)
        ((int64_t *)mem)[i] = step;
    snprintf(text, sizeof(text), "%" PRId64, step);
    GR_CHECK_OK(gr_snapshot_set(s, GR_CKPT_KEY_STEP, text));
}

/* Saves until it is killed; tells each step that is on the disk. */
static void run_child(int64_t step, int pipe_fd)
{
    gr_ckpt_writer_config c = { .folder = "run",
                                .formats = step % 2 ? GR_CKPT_PT : GR_CKPT_SAFETENSORS,
                                .keep = 2 };
    gr_ckpt_writer *w;

    GR_CHECK_OK(gr_ckpt_writer_open(&w, &c));
    for (;; step++) {
        gr_snapshot *s;

        GR_CHECK_OK(gr_ckpt_writer_begin(w, &s));
        fill(s, step);
        gr_ckpt_writer_submit(w, &(gr_ckpt_as){ .epoch = step % 3 ? -1 : step / 3,
                                                .step = step % 2 ? step : -1,
                                                .best = step % 5 == 0 });
        GR_CHECK_OK(gr_ckpt_writer_wait(w));
        GR_CHECK(write(pipe_fd, &step, sizeof(step)) == sizeof(step));
    }
}

/* The step in the folder, after a look at every file in it. */
static int64_t check_folder(void)
{
    gr_ckpt_listing l;
    gr_snapshot *s;
    char *path, *note;
    int64_t step;

    if (gr_ckpt_count("run") == 0)
        return 0;
    GR_CHECK_OK(gr_ckpt_list(&l, "run", false));
    for (int i = 0; i < l.n; i++) {
        char name[128];

        snprintf(name, sizeof(name), "run/%s", l.entries[i].name);
        if (l.entries[i].is_aside)
            continue;
        GR_CHECK_OK(gr_ckpt_read(name, &s));
        gr_snapshot_destroy(s);
    }
    gr_ckpt_listing_fini(&l);
    GR_CHECK_OK(gr_ckpt_find("run", GR_CKPT_LAST, &s, &path, &note));
    GR_CHECK(note == NULL);
    step = *(const int64_t *)gr_snapshot_find(s, "w")->mem;
    GR_CHECK_EQ(((const int64_t *)gr_snapshot_find(s, "w")->mem)[N_VALUES - 1], step);
    gr_snapshot_destroy(s);
    free(path);
    return step;
}

/* The child lives for live_ns, or until it has saved once when that is 0. */
static int64_t run_and_kill(int64_t step, int64_t live_ns)
{
    struct timespec t = { .tv_sec = live_ns / 1000000000, .tv_nsec = live_ns % 1000000000 };
    int64_t told = step - 1, next;
    int fds[2];
    pid_t pid;

    GR_CHECK(pipe(fds) == 0);
    pid = fork();
    GR_CHECK(pid >= 0);
    if (pid == 0)
        run_child(step, fds[1]);
    close(fds[1]);
    if (live_ns == 0)
        GR_CHECK(read(fds[0], &told, sizeof(told)) == sizeof(told));
    else
        nanosleep(&t, NULL);
    GR_CHECK(kill(pid, SIGKILL) == 0);
    GR_CHECK(waitpid(pid, NULL, 0) == pid);
    while (read(fds[0], &next, sizeof(next)) == sizeof(next))
        told = next;
    close(fds[0]);
    return told;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 40;
    uint32_t random = (uint32_t)time(NULL);
    int64_t step, began = gr_now_ns(), longest;

    gr_test_scratch();
    printf("seed %u\n", random);
    step = run_and_kill(1, 0);
    longest = 4 * (gr_now_ns() - began); /* a few saves on this machine */
    for (int i = 0; i < n; i++) {
        int64_t told, found;

        random = random * 1664525u + 1013904223u;
        told = run_and_kill(step + 1, 1 + (int64_t)((double)random * 0x1p-32 * (double)longest));
        found = check_folder();
        GR_CHECK(found >= told && found >= step);
        step = found;
    }
    printf("%d times killed, %" PRId64 " checkpoints\n", n, step);
    return 0;
}
