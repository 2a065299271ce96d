/* Faults between processes. Each case is a group of its own, joined through rank 0's store. */
#include "comm/faults.h"

#include "base/clock.h"
#include "check.h"
#include "comm/grid.h"
#include "comm/pg.h"
#include "net/quiet_port.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_RANKS  4
#define FEW_ELEM   30000
#define MANY_ELEM  2000000             /* more than the system's buffers hold */
#define EXCHANGE   GR_CALL_COUNT       /* a reduction in the exchange space */
#define GRID       (GR_CALL_COUNT + 1) /* not a fault: the grid */
#define N_KINDS    (GR_CALL_COUNT + 1)
#define ROWS       (GR_CALL_COUNT + 2) /* what ranks sum up outside of the group, and a meeting */
#define STOP_MS    800                 /* the group's limit where a rank is stopped, at least; */
#define STOP_CALLS 10         /* and so many times what a call of healthy ranks has taken here */
#define KILL_MS    240000     /* where one dies: it is never reached */
#define ANSWER_MS  60000      /* for whatever ranks have to say, however busy the machine is */
#define PROMISE_NS 1000000000 /* a death is noticed within a second: most are, here too */

typedef struct rank_process {
    pid_t pid;
    int pipe; /* its end of what the rank says */
    char text[1024];
    size_t len;
} rank_process;

/* Shared with the ranks. One limit for all: in a chain of waiting ranks the first to wait is then
 * the first to give up, and it is the one who knows for whom. */
typedef struct pace {
    _Atomic int64_t longest_ns; /* of all calls so far */
    atomic_int limit_ms;        /* 0: as the group was made */
} pace;

typedef struct faulty {
    const char *transport;
    int n_ranks, kind;
    size_t n_elem;
    pace *pace;
    rank_process rank[MAX_RANKS];
} faulty;

/* ---- in the ranks ---- */

/* As at the end of a step (op/update/many.h). */
static gr_status sum_rows(gr_pg *pg, gr_coll c, float *dst)
{
    gr_coll met = { .id = 1, .label = "met", .dtype = GR_F32, .kind = GR_CALL_ALLGATHER };
    uint64_t piece, n_pieces = c.n_elem / 1000;
    gr_coll_rows rows;

    met.n_elem = 16 * (size_t)pg->size;
    c.kind = GR_CALL_REDUCE_SCATTER;
    c.own_only = c.rows = true;
    GR_TRY(gr_pg_start(pg, &c, NULL));
    GR_TRY(gr_pg_finish(pg, &c, NULL));
    GR_TRY(gr_pg_rows(pg, &c, &rows));
    while ((piece = gr_coll_rows_take(&rows, n_pieces)) < n_pieces)
        for (size_t i = piece * 1000; i < (piece + 1) * 1000; i++)
            for (int r = 0; r < pg->size; r++)
                dst[i] += ((const float *)rows.row[r])[i];
    GR_TRY(gr_pg_start(pg, &met, NULL));
    return gr_pg_finish(pg, &met, NULL);
}

static gr_status one_call(gr_pg *pg, const faulty *f, float *src, float *dst)
{
    gr_pg_call c = { .kind = (gr_call_kind)f->kind,
                     .dtype = GR_F32,
                     .src = src,
                     .dst = dst,
                     .n_elem = f->n_elem,
                     .label = "faulty" };
    gr_coll coll = { .label = "faulty", .n_elem = f->n_elem, .dtype = GR_F32 };
    int next = (pg->rank + 1) % pg->size, before = (pg->rank + pg->size - 1) % pg->size;
    gr_work *w;

    if (f->kind == EXCHANGE) {
        GR_TRY(gr_pg_start(pg, &coll, NULL));
        return gr_pg_finish(pg, &coll, NULL);
    }
    if (f->kind == ROWS)
        return sum_rows(pg, coll, dst);
    if (f->kind != GR_CALL_SEND && f->kind != GR_CALL_RECV)
        return gr_pg_run(pg, &c);
    c.kind = GR_CALL_SEND;
    c.root = next;
    GR_TRY(gr_pg_begin(&w, pg, &c));
    GR_TRY(gr_pg_recv(pg, (gr_vec){ dst, f->n_elem, GR_F32 }, before));
    return gr_work_finish(w);
}

static gr_status live_through_grid(gr_pg *pg)
{
    GR_TRY(grid_run(pg, 100));
    GR_TRY(grid_run_type(pg, 10007, GR_F32));
    return grid_random(pg, 5, 30);
}

static void note_call(pace *p, int64_t took_ns)
{
    int64_t longest = atomic_load(&p->longest_ns);

    while (took_ns > longest && !atomic_compare_exchange_weak(&p->longest_ns, &longest, took_ns))
        ;
}

/* Calls until one fails. Says when there were some, and when the short limit holds: not before
 * it is asked for, since joining takes longer than that on a busy machine, and is not tried. */
static gr_status call_on(gr_pg *pg, const faulty *f, float *src, float *dst, int out)
{
    gr_status st = GR_OK;

    for (int i = 0; st == GR_OK; i++) {
        int64_t start = gr_now_ns();
        int limit_ms = atomic_load(&f->pace->limit_ms);

        if (limit_ms && pg->timeout_ms != limit_ms) {
            pg->timeout_ms = limit_ms;
            GR_CHECK_EQ(write(out, "?", 1), 1);
        }
        st = one_call(pg, f, src, dst);
        if (st == GR_OK && i % 4 == 3) /* nobody runs far ahead of a root */
            st = gr_pg_barrier(pg);
        if (i > 0) /* the first one starts threads, and touches memory */
            note_call(f->pace, gr_now_ns() - start);
        if (i == 5)
            GR_CHECK_EQ(write(out, "!", 1), 1);
    }
    return st;
}

static gr_status live(gr_pg *pg, const faulty *f, int out)
{
    float *src = (float *)calloc(MAX_RANKS * f->n_elem, sizeof(float));
    float *dst = (float *)calloc(MAX_RANKS * f->n_elem, sizeof(float));
    void *base;
    gr_status st = gr_pg_exchange(pg, NULL, f->n_elem * sizeof(float), &base);

    if (st == GR_OK)
        st = call_on(pg, f, src, dst, out);
    free(src);
    free(dst);
    return st;
}

static void be_rank(const faulty *f, int rank, int port, int out)
{
    gr_pg_config config = { .timeout_ms = KILL_MS, .transport = f->transport };
    char number[16], line[1000];
    gr_pg *pg = NULL;
    gr_status st;
    int n;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(number, sizeof(number), "%d", rank);
    setenv("RANK", number, 1);
    snprintf(number, sizeof(number), "%d", f->n_ranks);
    setenv("WORLD_SIZE", number, 1);
    snprintf(number, sizeof(number), "%d", port);
    setenv("MASTER_PORT", number, 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    st = gr_pg_create(&pg, &config);
    if (st == GR_OK)
        st = f->kind == GRID ? live_through_grid(pg) : live(pg, f, out);
    n = snprintf(line, sizeof(line), "%d %s", (int)st, st == GR_OK ? "" : gr_error_message());
    GR_CHECK_EQ(write(out, line, (size_t)n), n);
    gr_pg_destroy(pg);
    _exit(0);
}

/* ---- in the test ---- */

static void start(faulty *f)
{
    int port = quiet_port();

    f->pace =
        (pace *)mmap(NULL, sizeof(pace), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    GR_CHECK(f->pace != MAP_FAILED);
    for (int r = 0; r < f->n_ranks; r++) {
        int ends[2];

        GR_CHECK_EQ(pipe(ends), 0);
        f->rank[r] = (rank_process){ .pid = fork(), .pipe = ends[0] };
        GR_CHECK(f->rank[r].pid >= 0);
        if (f->rank[r].pid == 0)
            be_rank(f, r, port, ends[1]);
        close(ends[1]);
    }
}

/* Reads what a rank says until `until` is in it, or it ends. */
static bool hear(rank_process *p, char until)
{
    gr_deadline d = gr_deadline_in_ms(ANSWER_MS);

    while (!until || !memchr(p->text, until, p->len)) {
        struct pollfd q = { .fd = p->pipe, .events = POLLIN };
        ssize_t n;

        if (poll(&q, 1, gr_deadline_left_ms(d)) <= 0)
            return false;
        n = read(p->pipe, p->text + p->len, sizeof(p->text) - 1 - p->len);
        if (n <= 0)
            return until == '\0';
        p->len += (size_t)n;
    }
    return true;
}

static void end(faulty *f)
{
    for (int r = 0; r < f->n_ranks; r++) {
        kill(f->rank[r].pid, SIGKILL);
        waitpid(f->rank[r].pid, NULL, 0);
        close(f->rank[r].pipe);
    }
    munmap(f->pace, sizeof(pace));
}

static void fail(const faulty *f, int victim, int r, const char *what)
{
    fprintf(stderr, "%s, kind %d, victim %d: rank %d %s: '%s'\n", f->transport, f->kind, victim, r,
            what, f->rank[r].text);
    for (int i = 0; i < f->n_ranks; i++)
        fprintf(stderr, "  rank %d: %s\n", i, f->rank[i].text);
    exit(1);
}

/* Every other rank ended with PEER, or TIMEOUT after a stop, and somebody names the victim. */
static void check_others(faulty *f, int victim, bool was_stopped)
{
    char name[16];
    int n_named = 0;

    snprintf(name, sizeof(name), "rank %d", victim);
    for (int r = 0; r < f->n_ranks; r++) {
        const char *text = f->rank[r].text + strspn(f->rank[r].text, "!?");
        int st = (int)strtol(text, NULL, 10);

        if (r == victim)
            continue;
        if (st != GR_ERR_PEER && !(was_stopped && st == GR_ERR_TIMEOUT))
            fail(f, victim, r, "ended otherwise");
        n_named += strstr(text, name) != NULL;
        /* At a deadline a rank may only know the one before it in a chain of waiting ones. */
        if (!strstr(text, name) && !was_stopped)
            fail(f, victim, r, "names somebody else");
    }
    if (n_named == 0)
        fail(f, victim, victim, "is named by nobody");
}

/* How long it took until all others had noticed. */
static int64_t one_fault(faulty f, int victim, int signal)
{
    struct timespec pause = { .tv_nsec = 3000000 };
    int64_t since, took;

    start(&f);
    for (int r = 0; r < f.n_ranks; r++)
        if (!hear(&f.rank[r], '!'))
            fail(&f, victim, r, "did not start");
    if (signal == SIGSTOP)
        atomic_store(&f.pace->limit_ms,
                     STOP_MS + (int)(STOP_CALLS * atomic_load(&f.pace->longest_ns) / 1000000));
    for (int r = 0; r < f.n_ranks && signal == SIGSTOP; r++)
        if (!hear(&f.rank[r], '?'))
            fail(&f, victim, r, "did not hear of the stop");
    nanosleep(&pause, NULL);
    kill(f.rank[victim].pid, signal);
    since = gr_now_ns();
    for (int r = 0; r < f.n_ranks; r++)
        if (r != victim && !hear(&f.rank[r], '\0'))
            fail(&f, victim, r, "still waits");
    took = gr_now_ns() - since;
    check_others(&f, victim, signal == SIGSTOP);
    end(&f);
    return took;
}

/* Stops each rank, in groups that live at the same time: they do nothing but wait for a deadline,
 * while this process goes on to stops_end. */
static void stops_begin(faulty f, pid_t *tests)
{
    for (int victim = 0; victim < f.n_ranks; victim++) {
        tests[victim] = fork();
        GR_CHECK(tests[victim] >= 0);
        if (tests[victim] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            one_fault(f, victim, SIGSTOP);
            _exit(0);
        }
    }
}

static void stops_end(faulty f, const pid_t *tests)
{
    for (int victim = 0; victim < f.n_ranks; victim++) {
        int how;

        GR_CHECK_EQ(waitpid(tests[victim], &how, 0), tests[victim]);
        GR_CHECK_EQ(how, 0); /* it has said why not */
    }
}

void faults_run(const char *transport, int n_ranks)
{
    int n_kills = 0, n_prompt = 0;

    for (int kind = 0; kind < N_KINDS; kind++) {
        faulty f = { .transport = transport, .n_ranks = n_ranks, .kind = kind, .n_elem = FEW_ELEM };
        pid_t stops[MAX_RANKS];

        if (kind == GR_CALL_RECV)
            continue; /* together with send */
        stops_begin(f, stops);
        for (int victim = 0; victim < n_ranks; victim++, n_kills++)
            n_prompt += one_fault(f, victim, SIGKILL) < PROMISE_NS;
        stops_end(f, stops);
    }
    printf("%s: %d of %d deaths noticed within a second\n", transport, n_prompt, n_kills);
    GR_CHECK(n_prompt * 2 >= n_kills); /* the rest may be the machine's fault */
}

void faults_run_long(const char *transport, int n_ranks)
{
    faulty f = { .transport = transport, .n_ranks = n_ranks, .n_elem = MANY_ELEM };

    f.kind = GR_CALL_ALLREDUCE;
    one_fault(f, 0, SIGKILL);
    one_fault(f, 1, SIGSTOP);
    f.kind = GR_CALL_SEND;
    one_fault(f, 1, SIGKILL);
    one_fault(f, 0, SIGSTOP);
}

void faults_run_started(const char *transport, int n_ranks)
{
    faulty f = { .transport = transport, .n_ranks = n_ranks, .n_elem = MANY_ELEM };

    f.kind = EXCHANGE;
    one_fault(f, 1, SIGKILL);
    one_fault(f, 0, SIGSTOP);
    f.kind = GR_CALL_BROADCAST;
    one_fault(f, 1, SIGKILL);
    f.kind = GR_CALL_ALLGATHER;
    one_fault(f, 0, SIGKILL);
    f.kind = GR_CALL_REDUCE_SCATTER;
    one_fault(f, n_ranks - 1, SIGKILL);
}

void faults_run_rows(const char *transport, int n_ranks)
{
    faulty f = { .transport = transport, .n_ranks = n_ranks, .kind = ROWS, .n_elem = FEW_ELEM };

    for (int victim = 0; victim < n_ranks; victim++) {
        one_fault(f, victim, SIGKILL);
        one_fault(f, victim, SIGSTOP);
    }
}

void faults_grid(const char *transport, int n_ranks)
{
    faulty f = { .transport = transport, .n_ranks = n_ranks, .kind = GRID };

    start(&f);
    for (int r = 0; r < n_ranks; r++)
        if (!hear(&f.rank[r], '\0') || strncmp(f.rank[r].text, "0 ", 2) != 0)
            fail(&f, -1, r, "failed in the grid");
    end(&f);
}
