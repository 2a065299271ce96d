/*
 * `gradus bench comm`: the time of an all-reduce between ranks, f32 sum, for sizes from 4 KiB
 * up: in the exchange space (start and finish, as training does it) and on arbitrary memory.
 * bench/comm.sh sets it beside gloo and Open MPI.
 *
 * Per size the best and the median of batches of back-to-back calls, and the bus bandwidth
 * of the best, bytes / time * 2 (W - 1) / W. Where both are far apart, other programs ran.
 *
 * cpu: processor time of one call in the exchange space, user and system, mean of the ranks.
 * Where ranks share cores it bounds the rate; where they do not, it is what training loses.
 *
 * All ranks at once read and write as many bytes as an all-reduce in shared memory reads and
 * writes, the size once each per rank, and wait for nobody. The floor: in memory of that size,
 * which a core may have in its own cache, where what other ranks wrote never is. The bound: at the
 * pace of memory that is larger than all caches.
 */
#include "train/bench.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/log.h"
#include "base/option.h"
#include "base/pages.h"
#include "base/size.h"
#include "comm/choose.h"
#include "comm/pg.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MAX_BATCHES   1000
#define MAX_CACHE     (512L << 20)
#define MIN_MEMORY    (32u << 20) /* of a rank */
#define MEMORY_SWEEPS 8           /* the best counts */
#define N_OPTIONS     6

typedef struct bench {
    const gr_command *command;
    int64_t min, max, batches, batch_ms;
    const char *transport;
    bool table;
    gr_pg *pg;
    float *mem;
    void *base;
    double byte_us; /* of a byte that is read and written in main memory, all ranks at once */
} bench;

typedef gr_status call_fn(bench *b, size_t n_elem);

/* Microseconds of one call. */
typedef struct times {
    double best, median, cpu;
} times;

static void make_table(bench *b, gr_option table[N_OPTIONS + 1])
{
    const gr_option rows[N_OPTIONS + 1] = {
        { "min", GR_OPTION_INT, &b->min, 4, 1e12, NULL, "BYTES", "smallest size" },
        { "max", GR_OPTION_INT, &b->max, 4, 1e12, NULL, "BYTES", "largest size; times 4 between" },
        { "batches", GR_OPTION_INT, &b->batches, 1, MAX_BATCHES, NULL, "N", "batches per size" },
        { "batch_ms", GR_OPTION_INT, &b->batch_ms, 1, 10000, NULL, "N", "aim for their length" },
        { "transport", GR_OPTION_TEXT, &b->transport, 0, 0, NULL, "NAME",
          "shm, tcp, hosts, mpi or auto" },
        { "table", GR_OPTION_FLAG, &b->table, 0, 0, NULL, NULL,
          "print which algorithm is taken when, and end" },
        { .name = NULL },
    };

    memcpy(table, rows, sizeof(rows));
}

static void set_defaults(bench *b, const gr_command *c)
{
    *b = (bench){ .command = c,
                  .min = 4 << 10,
                  .max = 64 << 20,
                  .batches = 15,
                  .batch_ms = 20,
                  .transport = "auto" };
}

void gr_bench_comm_help(gr_text *out)
{
    gr_option table[N_OPTIONS + 1];
    bench b;

    gr_text_add(out, "\nusage: gradus bench comm [OPTION...]\n\n"
                     "Times all-reduces between the ranks that gradrun starts.\n\n");
    set_defaults(&b, NULL);
    make_table(&b, table);
    gr_option_help(table, out);
}

static gr_status in_exchange(bench *b, size_t n_elem)
{
    gr_coll c = { .label = "bench", .n_elem = n_elem, .dtype = GR_F32, .op = GR_REDUCE_SUM };

    GR_TRY(gr_pg_start(b->pg, &c, NULL));
    return gr_pg_finish(b->pg, &c, NULL);
}

static gr_status anywhere(bench *b, size_t n_elem)
{
    return gr_pg_allreduce(b->pg, (gr_vec){ b->mem, n_elem, GR_F32 }, GR_REDUCE_SUM);
}

static void sweep(float *mem, size_t n_elem)
{
    for (size_t i = 0; i + 16 <= n_elem; i += 16)
        for (size_t k = 0; k < 16; k++) /* a fixed number: the compiler uses vectors */
            mem[i + k] *= 0.5F;
    __asm__ volatile("" : : "r"(mem) : "memory");
}

static gr_status only_memory(bench *b, size_t n_elem)
{
    sweep(b->base, n_elem);
    return GR_OK;
}

static gr_status sweep_together(bench *b, float *mem, size_t n_bytes)
{
    for (int i = 0; i < MEMORY_SWEEPS; i++) {
        int64_t start;
        double us;

        GR_TRY(gr_pg_barrier(b->pg));
        start = gr_now_ns();
        sweep(mem, n_bytes / sizeof(float));
        us = (double)(gr_now_ns() - start) * 1e-3 / (double)n_bytes;
        b->byte_us = i == 0 || us < b->byte_us ? us : b->byte_us;
    }
    return gr_pg_allreduce(b->pg, (gr_vec){ &b->byte_us, 1, GR_F64 }, GR_REDUCE_AVG);
}

/* All ranks' memory is more than twice the last cache. */
static gr_status measure_memory(bench *b)
{
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    size_t all = cache > 0 && cache < MAX_CACHE ? 2 * (size_t)cache : MAX_CACHE;
    size_t n_bytes = gr_round_up(all / (size_t)gr_pg_size(b->pg) + MIN_MEMORY, GR_LARGE_PAGE_BYTES);
    float *mem = gr_pages_map(n_bytes, PROT_READ | PROT_WRITE);
    gr_status st;

    if (!mem)
        return gr_fail(GR_ERR_NOMEM, "no %zu bytes to measure memory with: %s", n_bytes,
                       strerror(errno));
    (void)madvise(mem, n_bytes, MADV_HUGEPAGE); /* as the exchange space has them */
    memset(mem, 0, n_bytes);
    st = sweep_together(b, mem, n_bytes);
    munmap(mem, n_bytes);
    return st;
}

static double cpu_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* All ranks make the same number of calls: rank 0 says how many. */
static gr_status measure(bench *b, call_fn *call, size_t n_bytes, times *us)
{
    size_t n_elem = n_bytes / sizeof(float);
    double batch[MAX_BATCHES];
    int64_t n_calls, start;

    for (int i = 0; i < 2; i++) /* the first one warms up */
        GR_TRY(call(b, n_elem));
    start = gr_now_ns();
    GR_TRY(call(b, n_elem));
    n_calls = 1 + b->batch_ms * 1000000 / (gr_now_ns() - start + 1);
    GR_TRY(gr_pg_broadcast(b->pg, (gr_vec){ &n_calls, 1, GR_I64 }, 0));
    us->cpu = cpu_us();
    for (int64_t k = 0; k < b->batches; k++) {
        GR_TRY(gr_pg_barrier(b->pg));
        start = gr_now_ns();
        for (int64_t i = 0; i < n_calls; i++)
            GR_TRY(call(b, n_elem));
        batch[k] = (double)(gr_now_ns() - start) / (double)n_calls * 1e-3;
    }
    us->cpu = (cpu_us() - us->cpu) / (double)(n_calls * b->batches);
    us->median = gr_median(batch, (int)b->batches);
    us->best = batch[0]; /* sorted now */
    return gr_pg_allreduce(b->pg, (gr_vec){ &us->cpu, 1, GR_F64 }, GR_REDUCE_AVG);
}

static gr_status run_sizes(bench *b)
{
    int w = gr_pg_size(b->pg);
    double factor = 2.0 * (w - 1) / w;
    FILE *out = b->command->out;

    GR_TRY(measure_memory(b));
    if (gr_pg_rank(b->pg) == 0)
        fprintf(
            out,
            "%d ranks, %d cores, transport %s, f32 sum; main memory: %.1f GB/s read and written "
            "by all; us: best, median (bus GB/s)\n"
            "%10s %27s %27s %9s %9s %9s %9s %9s\n",
            w, gr_cpu_count(), b->pg->ops->name, 2e-3 * w / b->byte_us, "bytes", "exchange",
            "anywhere", "floor", "of floor", "bound", "of bound", "cpu");
    for (int64_t n = b->min; n <= b->max; n *= 4) {
        times x, s, f;

        GR_TRY(measure(b, in_exchange, (size_t)n, &x));
        GR_TRY(measure(b, anywhere, (size_t)n, &s));
        GR_TRY(measure(b, only_memory, (size_t)n, &f));
        if (gr_pg_rank(b->pg) == 0)
            fprintf(out,
                    "%10lld %9.1f %9.1f (%5.1f) %9.1f %9.1f (%5.1f) %9.1f %8.0f%% %9.1f %8.0f%% "
                    "%9.1f\n",
                    (long long)n, x.best, x.median, factor * (double)n / x.best * 1e-3, s.best,
                    s.median, factor * (double)n / s.best * 1e-3, f.best, 100 * f.best / x.best,
                    b->byte_us * (double)n, 100 * b->byte_us * (double)n / x.best, x.cpu);
    }
    return gr_pg_barrier(b->pg);
}

static gr_status run(bench *b)
{
    gr_pg_config config = GR_PG_CONFIG_INIT;
    gr_option table[N_OPTIONS + 1];
    const gr_command *c = b->command;
    gr_text text = GR_TEXT_INIT;
    gr_status st;
    int n_used;

    make_table(b, table);
    GR_TRY(gr_option_parse(table, c->argc - 1, c->argv + 1, &n_used));
    if (n_used < c->argc - 1)
        return gr_fail(GR_ERR_ARG, "unexpected word '%s'", c->argv[n_used + 1]);
    if (b->table) {
        gr_choose_print(&text);
        st = gr_text_status(&text);
        fputs(gr_text_str(&text), c->out);
        gr_text_fini(&text);
        return st;
    }
    config.transport = strcmp(b->transport, "auto") == 0 ? NULL : b->transport;
    GR_TRY(gr_pg_create(&b->pg, &config));
    GR_TRY(gr_log_setup(gr_pg_rank(b->pg)));
    if (gr_pg_size(b->pg) == 1)
        return gr_fail(GR_ERR_ARG, "one rank exchanges nothing; start several: gradrun "
                                   "--nproc-per-node 2 gradus bench comm");
    b->mem = (float *)gr_malloc_aligned((size_t)b->max);
    if (!b->mem)
        return GR_ERR_NOMEM;
    memset(b->mem, 0, (size_t)b->max);
    GR_TRY(gr_pg_exchange(b->pg, NULL, (size_t)b->max, &b->base));
    return run_sizes(b);
}

gr_status gr_bench_comm(const gr_command *c)
{
    gr_error error;
    gr_status st;
    bench b;

    set_defaults(&b, c);
    st = run(&b);
    if (st != GR_OK && st != GR_ERR_PEER)
        gr_pg_abort(b.pg, gr_error_message());
    gr_error_take(&error, st);
    gr_free(b.mem);
    gr_pg_destroy(b.pg);
    return st == GR_OK ? GR_OK : gr_error_raise(&error);
}
