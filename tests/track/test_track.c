/*
 * Tracking as a whole: what was submitted is in the files after the close; a disk that is slow,
 * full or not writable neither stops nor fails anything (P18), and a full queue drops instead of
 * waiting (P31).
 */
#include "track/track.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/outfile.h"
#include "check.h"
#include "scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static bool submit(gr_track *t, int64_t step)
{
    gr_track_record r;

    gr_track_begin(&r, step);
    gr_track_i64(&r, "epoch", 1);
    gr_track_f64(&r, "loss", 1.0 / (double)(step + 1));
    return gr_track_submit(t, &r);
}

static int count_lines(const char *path, const char *part)
{
    char *text;
    size_t n_bytes;
    int n = 0;

    GR_CHECK_OK(gr_file_read(path, &text, &n_bytes));
    for (char *at = strstr(text, part); at; at = strstr(at + 1, part))
        n++;
    gr_free(text);
    return n;
}

static void *submit_many(void *arg)
{
    for (int i = 0; i < 200; i++)
        submit(arg, i);
    return NULL;
}

static gr_track_config everything(const char *folder, const gr_wandb_config *wandb)
{
    GR_CHECK_OK(gr_make_folders(folder));
    return (gr_track_config){ .folder = folder,
                              .last_step = -1,
                              .jsonl = true,
                              .csv = true,
                              .tensorboard = true,
                              .plots = true,
                              .wandb = wandb };
}

static void test_whole(void)
{
    static const uint8_t dots[12] = { 0 };
    static const float values[2] = { 1, 2 };
    gr_wandb_config wandb = { .project = "p" };
    gr_track_config c = everything("whole", &wandb);
    gr_param param = { "lr", GR_PARAM_NUMBER, 0.1, NULL };
    gr_pixels image = { dots, 2, 2, 3 }, wrong = { dots, 2, 2, 2 };
    pthread_t others[2];
    gr_track_end end;
    gr_track *t;
    struct stat about;

    c.params = &param;
    c.n_params = 1;
    c.queue_size = 1000;
    GR_CHECK_OK(gr_track_open(&t, &c));
    GR_CHECK_EQ(strlen(gr_track_wandb_id(t)), 8);
    for (int i = 0; i < 2; i++)
        GR_CHECK(pthread_create(&others[i], NULL, submit_many, t) == 0);
    GR_CHECK(gr_track_image(t, "image", 1, &image) && !gr_track_image(t, "image", 1, &wrong));
    GR_CHECK(gr_track_text(t, "text", 1, "words"));
    GR_CHECK(gr_track_histogram(t, "weights", 1, values, 2));
    for (int i = 0; i < 2; i++)
        pthread_join(others[i], NULL);
    GR_CHECK(gr_track_plot(t));
    GR_CHECK_EQ(gr_track_dropped(t), 0);
    gr_track_close(t, 0, &end);
    GR_CHECK_EQ(end.n_dropped, 0);
    GR_CHECK(end.wandb_child == -1);
    GR_CHECK(strstr(gr_text_str(&end.wandb_command), "wandb sync whole/wandb/offline-run-"));
    gr_text_fini(&end.wandb_command);
    GR_CHECK_EQ(count_lines("whole/metrics.jsonl", "\n"), 400);
    GR_CHECK_EQ(count_lines("whole/metrics.csv", "\n"), 401);
    GR_CHECK(stat("whole/plots/loss.png", &about) == 0);
    GR_CHECK(stat("whole/plots/epoch.png", &about) != 0);

    /* Resumed after step 99: what came later is gone, the rest stays. */
    c.last_step = 99;
    c.wandb = NULL;
    GR_CHECK_OK(gr_track_open(&t, &c));
    GR_CHECK_STR(gr_track_wandb_id(t), "");
    gr_track_close(t, 0, NULL);
    GR_CHECK_EQ(count_lines("whole/metrics.csv", "\n"), 201);
}

/* Whether a writer would have to wait. */
static bool is_full(int pipe_end)
{
    return poll(&(struct pollfd){ .fd = pipe_end, .events = POLLOUT }, 1, 0) == 0;
}

/* A pipe that nobody empties stands for a disk that hangs. Fills it until records are dropped,
 * then shows that handing over does not wait; returns how many were accepted. */
static int hang(gr_track **t, const char *folder, int close_ms, int *reader)
{
    gr_track_config c = { .folder = folder, .last_step = -1, .jsonl = true };
    char path[100];
    int64_t start;
    int n = 0, n_late = 0, look;

    GR_CHECK_OK(gr_make_folders(folder));
    snprintf(path, sizeof(path), "%s/metrics.jsonl", folder);
    unlink(path);
    GR_CHECK(mkfifo(path, 0600) == 0);
    *reader = open(path, O_RDONLY | O_NONBLOCK);
    look = open(path, O_WRONLY | O_NONBLOCK);
    GR_CHECK(*reader >= 0 && look >= 0);
    c.queue_size = 8;
    c.close_ms = close_ms;
    GR_CHECK_OK(gr_track_open(t, &c));
    /* A pipe holds less than 8000 of our lines. When it is full and nothing is taken for a while,
     * the writer hangs; one that only waits for its turn may still fill the pipe's last page. */
    for (start = gr_now_ns(); n < 8000 && (gr_now_ns() - start < 500000000 || !is_full(look));)
        if (submit(*t, n)) {
            n++;
            start = gr_now_ns();
        } else {
            usleep(100);
        }
    close(look);
    GR_CHECK(gr_track_dropped(*t) > 0 && n < 8000);
    start = gr_now_ns();
    for (int i = 0; i < 1000; i++)
        n_late += submit(*t, i);
    GR_CHECK(n_late < 200);
    GR_CHECK(gr_now_ns() - start < 30000000000);
    return n + n_late;
}

static void *read_all(void *arg)
{
    int fd = *(int *)arg;
    static long n_lines;
    char text[4096];
    ssize_t n;

    GR_CHECK(fcntl(fd, F_SETFL, 0) == 0);
    while ((n = read(fd, text, sizeof(text))) > 0)
        for (ssize_t i = 0; i < n; i++)
            n_lines += text[i] == '\n';
    return &n_lines;
}

static void test_hanging(void)
{
    gr_track_end end;
    gr_track *t;
    pthread_t other;
    int reader, n_accepted = hang(&t, "slow", 120000, &reader);
    int64_t start;
    void *n_read;

    /* The disk comes back while the close waits for it: all that was accepted arrives. */
    GR_CHECK(pthread_create(&other, NULL, read_all, &reader) == 0);
    gr_track_close(t, 0, &end);
    GR_CHECK(end.n_dropped > 0);
    pthread_join(other, &n_read);
    GR_CHECK_EQ(*(long *)n_read, n_accepted);
    close(reader);

    /* It does not come back: the run ends all the same. The pipe stays open until the end. */
    hang(&t, "stuck", 200, &reader);
    start = gr_now_ns();
    gr_track_close(t, 0, NULL);
    GR_CHECK(gr_now_ns() - start < 60000000000);
}

/* Nothing can be opened, then nothing can be written: one line each, and no failure. */
static void test_failing(void)
{
    gr_wandb_config wandb = { .project = "p" };
    gr_track_config c = everything("failing", &wandb);
    struct rlimit limit;
    gr_track *t;

    GR_CHECK(freopen("log.txt", "w", stderr));
    c.folder = "/proc/none";
    GR_CHECK_OK(gr_track_open(&t, &c));
    GR_CHECK(submit(t, 1) && gr_track_plot(t));
    gr_track_close(t, 0, NULL);
    fflush(stderr);
    GR_CHECK_EQ(count_lines("log.txt", "is off from here on"), 5);
    GR_CHECK_EQ(count_lines("log.txt", "TensorBoard is off from here on: "), 1);

    GR_CHECK(freopen("log.txt", "w", stderr));
    c.folder = "failing";
    c.queue_size = 4000;
    unlink("failing/metrics.jsonl");
    unlink("failing/metrics.csv");
    GR_CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    signal(SIGXFSZ, SIG_IGN);
    GR_CHECK_OK(gr_track_open(&t, &c));
    GR_CHECK(setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 2000, limit.rlim_max }) == 0);
    for (int i = 0; i < 2000; i++)
        GR_CHECK(submit(t, i));
    GR_CHECK(gr_track_plot(t));
    gr_track_close(t, 1, NULL);
    GR_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    GR_CHECK_EQ(count_lines("log.txt", "is off from here on"), 5);
    GR_CHECK_EQ(count_lines("log.txt", "File too large") + count_lines("log.txt", "bytes fit"), 5);

    /* After the disk has room again, the run is resumed: a torn line is gone. */
    c.last_step = 10;
    c.wandb = NULL;
    GR_CHECK_OK(gr_track_open(&t, &c));
    gr_track_close(t, 0, NULL);
    GR_CHECK_EQ(count_lines("failing/metrics.csv", "\n"), 12);
    GR_CHECK_EQ(count_lines("failing/metrics.jsonl", "\n"), 11);
}

/* An evaluation may have any number of values, and records that nobody takes leave nothing. */
static void test_many(void)
{
    gr_track_config c = { .folder = "many", .jsonl = true, .csv = true };
    gr_track_record r;
    char name[32];
    gr_track *t;

    GR_CHECK_OK(gr_track_open(&t, &c));
    for (int step = 1; step <= 2; step++) {
        gr_track_begin(&r, step);
        for (int i = 0; i < 500; i++) {
            snprintf(name, sizeof(name), "iou/class_%d", i);
            gr_track_f64(&r, name, i + 0.5);
        }
        GR_CHECK_EQ(r.n, 500);
        GR_CHECK(gr_track_submit(step == 1 ? t : NULL, &r) == (step == 1));
    }
    gr_track_close(t, 0, NULL);
    GR_CHECK_EQ(count_lines("many/metrics.jsonl", "\n"), 1);
    GR_CHECK_EQ(count_lines("many/metrics.jsonl", "\"iou/class_499\": 499.5"), 1);
    GR_CHECK_EQ(count_lines("many/metrics.csv", "iou/class_31,iou/class_32,iou/class_33"), 1);
}

/* What was submitted is in the files when a sync returns, and comes once after a resume; what a
 * kill left of plots and tables goes. */
static void test_sync(void)
{
    static const char *const metrics[] = { "val_loss" };
    gr_wandb_config wandb = { .project = "p", .run_id = "synced" };
    gr_track_config c = everything("synced", &wandb);
    gr_track_record r;
    gr_track *t;
    FILE *f;

    GR_CHECK(gr_track_sync(NULL, 1) && !gr_track_end_step(NULL));
    c.metrics = metrics;
    c.n_metrics = 1;
    GR_CHECK_OK(gr_track_open(&t, &c));
    GR_CHECK(gr_track_sync(t, 60000)); /* nothing yet */
    for (int i = 1; i <= 100; i++) {
        GR_CHECK(submit(t, i));
        if (i % 10 != 0)
            continue;
        GR_CHECK(gr_track_end_step(t) && gr_track_sync(t, 60000));
        GR_CHECK_EQ(count_lines("synced/metrics.jsonl", "\n"), i);
        GR_CHECK_EQ(count_lines("synced/metrics.csv", "\n"), i + 1);
    }
    gr_track_begin(&r, 100);
    gr_track_f64(&r, "val_loss", 1);
    GR_CHECK(gr_track_submit(t, &r) && gr_track_plot(t) && gr_track_sync(t, 60000));
    gr_track_close(t, 1, NULL);

    f = fopen("synced/plots/gone.png.tmp", "w");
    GR_CHECK(f && fclose(f) == 0);
    f = fopen("synced/metrics.csv.tmp", "w");
    GR_CHECK(f && fclose(f) == 0);
    c.last_step = 100;
    c.metrics_again = true;
    GR_CHECK_OK(gr_track_open(&t, &c));
    GR_CHECK(gr_track_submit(t, &r));
    gr_track_close(t, 0, NULL);
    GR_CHECK_EQ(count_lines("synced/metrics.jsonl", "\n"), 101);
    GR_CHECK_EQ(count_lines("synced/metrics.jsonl", "val_loss"), 1);
    GR_CHECK(access("synced/plots/gone.png.tmp", F_OK) != 0);
    GR_CHECK(access("synced/metrics.csv.tmp", F_OK) != 0);
}

int main(void)
{
    gr_test_scratch();
    unsetenv("WANDB_API_KEY");
    unsetenv("WANDB_DIR");
    unsetenv("WANDB_MODE");
    unsetenv("WANDB_RUN_ID");
    unsetenv("WANDB_DISABLED");
    unlink("whole/metrics.jsonl");
    unlink("synced/metrics.jsonl");
    unlink("synced/metrics.csv");
    unlink("whole/metrics.csv");
    unlink("whole/plots/loss.png");
    gr_track_close(NULL, 0, NULL);
    GR_CHECK(!submit(NULL, 1));
    test_whole();
    test_many();
    test_sync();
    test_failing();
    test_hanging();
    return 0;
}
