/*
 * Ranks as processes under gradrun: this program starts gradrun, which starts this program
 * again as its ranks, with a mode as argument. P1 P2 P6 P10 P11.
 */
#include "check.h"
#include "comm/pg.h"
#include "multi/job.h"
#include "net/quiet_port.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#define LONG_MS 240000 /* a limit that is never reached */

/* ---- ranks ---- */

/* Says what happened and ends the group: the exit code. */
static int end(gr_pg *pg, gr_status st)
{
    if (st != GR_OK)
        fprintf(stderr, "rank %d: %s: %s\n", gr_pg_rank(pg), gr_status_text(st),
                gr_error_message());
    gr_pg_destroy(pg);
    return st == GR_OK ? 0 : st == GR_ERR_PEER ? GR_EXIT_PEER : 1;
}

static gr_status reduce_step(gr_pg *pg, float *x, int step)
{
    gr_coll c[2] = {
        { .id = 0, .label = "bucket 0", .n_elem = 3000, .dtype = GR_F32, .op = GR_REDUCE_SUM },
        { .id = 1,
          .label = "bucket 1",
          .offset = 12032,
          .n_elem = 17,
          .dtype = GR_F32,
          .op = GR_REDUCE_MAX },
    };
    int w = pg->size, sum_of_ranks = w * (w - 1) / 2;

    for (int i = 0; i < 3000; i++)
        x[i] = (float)(pg->rank + i + step);
    for (int i = 0; i < 17; i++)
        x[3008 + i] = (float)(pg->rank * step + i);
    GR_TRY(gr_pg_start(pg, &c[0], NULL));
    GR_TRY(gr_pg_start(pg, &c[1], NULL));
    GR_TRY(gr_pg_finish(pg, &c[0], NULL));
    GR_TRY(gr_pg_finish(pg, &c[1], NULL));
    for (int i = 0; i < 3000; i++)
        GR_CHECK(x[i] == (float)(sum_of_ranks + w * (i + step)));
    for (int i = 0; i < 17; i++)
        GR_CHECK(x[3008 + i] == (float)((w - 1) * step + i));
    return GR_OK;
}

static gr_status collectives(gr_pg *pg)
{
    static double mem[100000];
    size_t n = sizeof(mem) / sizeof(mem[0]);
    int sum = pg->size * (pg->size + 1) / 2;
    void *base;

    GR_TRY(gr_pg_exchange(pg, NULL, 1000, &base));
    GR_TRY(gr_pg_exchange(pg, NULL, 3u << 20, &base));
    for (int step = 0; step < 200; step++)
        GR_TRY(reduce_step(pg, (float *)base, step));
    for (size_t i = 0; i < n; i++)
        mem[i] = (double)(pg->rank + 1) * (double)i;
    GR_TRY(gr_pg_allreduce(pg, (gr_vec){ mem, n, GR_F64 }, GR_REDUCE_SUM));
    for (size_t i = 0; i < n; i++)
        GR_CHECK(mem[i] == (double)sum * (double)i);
    mem[0] = pg->rank;
    GR_TRY(gr_pg_broadcast(pg, (gr_vec){ mem, n, GR_F64 }, pg->size - 1));
    GR_CHECK(mem[0] == pg->size - 1);
    return gr_pg_compare(pg, "seed = 1\n");
}

/* Several groups one after the other, without a pause between them. */
static int be_worker(void)
{
    gr_pg *pg = NULL;

    for (int i = 0; i < 3; i++) {
        gr_status st = gr_pg_create(&pg, NULL);

        if (st == GR_OK)
            st = collectives(pg);
        if (st != GR_OK)
            return end(pg, st);
        if (i == 2)
            printf("rank %d of %d is done\n", gr_pg_rank(pg), gr_pg_size(pg));
        gr_pg_destroy(pg);
    }
    return 0;
}

/* After some rounds rank 1 does something to itself; the others go on meeting. */
static int be_victim(int signal_number, int timeout_ms)
{
    gr_pg_config config = GR_PG_CONFIG_INIT;
    gr_pg *pg = NULL;
    void *base;
    gr_status st;

    config.timeout_ms = LONG_MS;
    if (signal_number == SIGKILL) /* gradrun is quicker than we are; it is not tried here */
        signal(SIGTERM, SIG_IGN);
    st = gr_pg_create(&pg, &config);
    if (st == GR_OK)
        st = gr_pg_exchange(pg, NULL, 1u << 20, &base);
    if (st != GR_OK)
        return end(pg, st);
    pg->timeout_ms = timeout_ms; /* not before: joining is not tried here */
    printf("pid%d %d\n", gr_pg_rank(pg), (int)getpid());
    fflush(stdout);
    for (int i = 0; st == GR_OK; i++) {
        if (i == 20 && pg->rank == 1)
            raise(signal_number);
        st = reduce_step(pg, (float *)base, i);
    }
    return end(pg, st);
}

/* Does not listen to SIGTERM and has a child that does not either. Rank 1 fails when rank 0 is as
 * far as that, which a file of its name says. */
static int be_stubborn(const char *rank)
{
    char ready[64];
    pid_t child;

    signal(SIGTERM, SIG_IGN);
    child = fork();
    if (child == 0)
        for (;;)
            pause();
    printf("pid%s %d\nchild%s %d\n", rank, (int)getpid(), rank, (int)child);
    fflush(stdout);
    snprintf(ready, sizeof(ready), "stubborn-%s", getenv("MASTER_PORT"));
    if (*rank == '1') {
        while (access(ready, F_OK) != 0)
            usleep(5000);
        unlink(ready);
        return 7;
    }
    GR_CHECK(close(open(ready, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) == 0);
    for (;;)
        pause();
}

/* Lines written in pieces, by all ranks at once. */
static int be_talker(const char *rank)
{
    for (int i = 0; i < 200; i++)
        for (int k = 0; k < 3; k++) {
            char piece[32];
            int n = snprintf(piece, sizeof(piece),
                             k == 0   ? "<%s"
                             : k == 1 ? "|%s|"
                                      : "%s>\n",
                             rank);

            GR_CHECK_EQ(write(1, piece, (size_t)n), n);
        }
    GR_CHECK_EQ(write(2, "no line end", 11), 11);
    return 0;
}

/* Rank 1 believes that it is on another host: TCP joins them, shared memory cannot. */
static int be_elsewhere(const char *rank)
{
    gr_pg *pg;
    gr_status st;

    if (*rank == '1' && (unshare(CLONE_NEWUTS) != 0 || sethostname("elsewhere", 9) != 0)) {
        fprintf(stderr, "not permitted\n");
        return 77;
    }
    st = gr_pg_create(&pg, NULL);
    if (st == GR_OK)
        st = gr_pg_barrier(pg);
    return end(pg, st);
}

static int be_rank(const char *mode)
{
    const char *rank = getenv("RANK");

    GR_CHECK(rank != NULL);
    if (strcmp(mode, "work") == 0)
        return be_worker();
    if (strcmp(mode, "kill") == 0)
        return be_victim(SIGKILL, LONG_MS);
    if (strcmp(mode, "stop") == 0)
        return be_victim(SIGSTOP, 700);
    if (strcmp(mode, "wait") == 0)
        return be_victim(0, LONG_MS);
    if (strcmp(mode, "stubborn") == 0)
        return be_stubborn(rank);
    if (strcmp(mode, "talk") == 0)
        return be_talker(rank);
    if (strcmp(mode, "elsewhere") == 0)
        return be_elsewhere(rank);
    return 99;
}

/* ---- the test ---- */

static void expect(const job *j, int exit_code, const char *part)
{
    if (j->exit_code == exit_code && strstr(gr_text_str(&j->output), part))
        return;
    fprintf(stderr, "exit code %d, expected %d and '%s':\n%s\n", j->exit_code, exit_code, part,
            gr_text_str(&j->output));
    exit(1);
}

static void test_work(const char *self)
{
    job a, b;

    job_gradrun(&a, self, 2, "work"); /* two jobs at once do not meet */
    job_gradrun(&b, self, 3, "work");
    job_finish(&a);
    job_finish(&b);
    expect(&a, 0, "rank 1 of 2 is done");
    expect(&b, 0, "rank 2 of 3 is done");
    job_fini(&a);
    job_fini(&b);
}

static void test_kill(const char *self)
{
    job j;

    job_gradrun(&j, self, 3, "kill");
    job_finish(&j);
    expect(&j, 128 + SIGKILL, "rank 1 on host '");
    expect(&j, 128 + SIGKILL, "failed first: killed by signal 9 (SIGKILL)");
    expect(&j, 128 + SIGKILL, "another rank failed: rank 1 (process ");
    expect(&j, 128 + SIGKILL, "then rank 0: exit code 4");
    job_check_gone(job_number(&j, "pid0 "));
    job_check_gone(job_number(&j, "pid2 "));
    job_fini(&j);
}

static void test_stop(const char *self)
{
    job j;

    job_gradrun(&j, self, 2, "stop");
    job_finish(&j);
    expect(&j, 1, "rank 0 on host '");
    expect(&j, 1, "all-reduce 0 'bucket 0' (sum of 3000 f32 at byte 0) waited ");
    expect(&j, 1, " s for rank 1 ");
    job_check_gone(job_number(&j, "pid1 "));
    job_fini(&j);
}

static void test_stubborn(const char *self)
{
    job j;

    job_gradrun_grace(&j, self, 2, "stubborn", 1);
    job_finish(&j);
    expect(&j, 7, "rank 1 on host '");
    expect(&j, 7, "then rank 0: killed by signal 9 (SIGKILL) when told to end");
    job_check_gone(job_number(&j, "pid0 "));
    job_check_gone(job_number(&j, "child0 "));
    job_check_gone(job_number(&j, "child1 "));
    job_fini(&j);
}

/* A signal to the launcher reaches the ranks; killing it kills them. */
static void test_signals(const char *self)
{
    static const int sent[] = { SIGTERM, SIGINT, SIGKILL };

    for (int i = 0; i < 3; i++) {
        job j;

        job_gradrun(&j, self, 2, "wait");
        job_expect(&j, "pid0 ");
        job_expect(&j, "pid1 ");
        kill(j.pid, sent[i]);
        job_finish(&j);
        GR_CHECK_EQ(j.exit_code, 128 + sent[i]);
        job_check_gone(job_number(&j, "pid0 "));
        job_check_gone(job_number(&j, "pid1 "));
        job_fini(&j);
    }
}

static void test_output(const char *self)
{
    int n[2] = { 0, 0 };
    const char *at;
    job j;

    job_gradrun(&j, self, 2, "talk");
    job_finish(&j);
    expect(&j, 0, "no line end\n");
    for (at = gr_text_str(&j.output); *at; at += strcspn(at, "\n") + 1)
        for (int r = 0; r < 2; r++)
            n[r] += strncmp(at, r ? "<1|1|1>\n" : "<0|0|0>\n", 8) == 0;
    GR_CHECK_EQ(n[0], 200);
    GR_CHECK_EQ(n[1], 200);
    job_fini(&j);
}

/* Without a launcher: rank 0 hosts the store itself. */
static void test_no_launcher(const char *self)
{
    static char size[] = "WORLD_SIZE=2", host[] = "MASTER_ADDR=127.0.0.1";
    static char rank[2][8] = { "RANK=0", "RANK=1" }, mode[] = "work";
    char program[1024], port[32];
    job j[2];

    snprintf(program, sizeof(program), "%s", self);
    snprintf(port, sizeof(port), "MASTER_PORT=%d", quiet_port());
    for (int r = 1; r >= 0; r--)
        job_start(&j[r], (char *[]){ program, mode, NULL },
                  (char *[]){ size, host, port, rank[r], NULL });
    for (int r = 0; r < 2; r++) {
        job_finish(&j[r]);
        expect(&j[r], 0, r ? "rank 1 of 2 is done" : "rank 0 of 2 is done");
        job_fini(&j[r]);
    }
}

static void test_mistakes(const char *self)
{
    job j;

    job_gradrun(&j, "/nowhere/program", 2, "x");
    job_finish(&j);
    expect(&j, 1, "rank 0 did not start: cannot execute '/nowhere/program': No such file");
    job_fini(&j);
    job_gradrun(&j, self, 0, "work");
    job_finish(&j);
    expect(&j, 2, "nproc-per-node");
    job_fini(&j);
    job_gradrun(&j, self, 2, "elsewhere");
    job_finish(&j);
    if (strstr(gr_text_str(&j.output), "not permitted"))
        fprintf(stderr, "skipped: another host name (not permitted here)\n");
    else
        expect(&j, 0, "group 'hosts'");
    job_fini(&j);
    setenv("GR_COMM", "shm", 1);
    job_gradrun(&j, self, 2, "elsewhere");
    job_finish(&j);
    unsetenv("GR_COMM");
    if (!strstr(gr_text_str(&j.output), "not permitted"))
        expect(&j, 1, "rank 1 on 'elsewhere': transport 'shm' is for one host");
    job_fini(&j);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return be_rank(argv[1]);
    test_work(argv[0]);
    test_kill(argv[0]);
    test_stop(argv[0]);
    test_stubborn(argv[0]);
    test_signals(argv[0]);
    test_output(argv[0]);
    test_no_launcher(argv[0]);
    test_mistakes(argv[0]);
    return 0;
}
