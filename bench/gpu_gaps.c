/*
 * The gaps between kernels in a replayed step, on a GPU: CUPTI gives start and end of every
 * kernel of the MLP 784-512-512-10, batch 128. Prints, per step: kernels, time in kernels,
 * time between them, and the median gap.
 *
 * usage: gpu_gaps [STEPS]     (libcupti must be on the loader's path)
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "gradus/gradus.h"

#if __has_include(<cupti.h>)
#include <cupti.h>

#define BATCH        128
#define MAX_KERNELS  200000
#define BUFFER_BYTES ((size_t)8 << 20)

typedef struct span {
    uint64_t start_ns, end_ns;
} span;

static span spans[MAX_KERNELS];
static int n_spans;
static CUptiResult (*next_record)(uint8_t *, size_t, CUpti_Activity **);

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *n_bytes, size_t *max_records)
{
    *buffer = aligned_alloc(8, BUFFER_BYTES);
    *n_bytes = BUFFER_BYTES;
    *max_records = 0;
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer,
                                 size_t n_bytes, size_t n_valid)
{
    CUpti_Activity *record = NULL;

    (void)context;
    (void)stream;
    (void)n_bytes;
    while (next_record(buffer, n_valid, &record) == CUPTI_SUCCESS)
        if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL && n_spans < MAX_KERNELS) {
            const CUpti_ActivityKernel10 *k = (const CUpti_ActivityKernel10 *)record;

            spans[n_spans++] = (span){ k->start, k->end };
        }
    free(buffer);
}

typedef struct tracer {
    CUptiResult (*enable)(CUpti_ActivityKind);
    CUptiResult (*callbacks)(CUpti_BuffersCallbackRequestFunc, CUpti_BuffersCallbackCompleteFunc);
    CUptiResult (*flush)(uint32_t);
} tracer;

static gr_status open_tracer(tracer *t)
{
    void *lib = dlopen("libcupti.so", RTLD_NOW);

    if (!lib)
        lib = dlopen("libcupti.so.13", RTLD_NOW);
    if (!lib)
        return gr_fail(GR_ERR_DEVICE, "%s", dlerror());
    *(void **)&t->enable = dlsym(lib, "cuptiActivityEnable");
    *(void **)&t->callbacks = dlsym(lib, "cuptiActivityRegisterCallbacks");
    *(void **)&t->flush = dlsym(lib, "cuptiActivityFlushAll");
    *(void **)&next_record = dlsym(lib, "cuptiActivityGetNextRecord");
    if (!t->enable || !t->callbacks || !t->flush || !next_record)
        return gr_fail(GR_ERR_DEVICE, "libcupti lacks a function");
    if (t->callbacks(give_buffer, take_buffer) != CUPTI_SUCCESS)
        return gr_fail(GR_ERR_DEVICE, "CUPTI takes no callbacks");
    return GR_OK;
}

static gr_status trace(gr_graph *g, void *user)
{
    gr_value *h = gr_relu(g, gr_linear(g, "fc1", gr_input(g, "x"), 512));

    (void)user;
    h = gr_relu(g, gr_linear(g, "fc2", h, 512));
    gr_loss(g, gr_cross_entropy(g, gr_linear(g, "fc3", h, 10), gr_input(g, "y")));
    return gr_graph_status(g);
}

static int by_start(const void *a, const void *b)
{
    const span *x = a, *y = b;

    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void report(int n_steps)
{
    static int64_t gap[MAX_KERNELS];
    double busy = 0, idle = 0;
    int per_step = n_spans / n_steps;

    qsort(spans, (size_t)n_spans, sizeof(spans[0]), by_start);
    for (int i = 0; i < n_spans; i++) {
        busy += (double)(spans[i].end_ns - spans[i].start_ns);
        if (i > 0) {
            gap[i - 1] = (int64_t)(spans[i].start_ns - spans[i - 1].end_ns);
            idle += (double)gap[i - 1];
        }
    }
    qsort(gap, (size_t)n_spans - 1, sizeof(gap[0]), by_value);
    printf("%d kernels a step; %.1f us in kernels, %.1f us between them; gap: median %lld ns, "
           "95%% under %lld ns\n",
           per_step, busy * 1e-3 / n_steps, idle * 1e-3 / n_steps, (long long)gap[n_spans / 2],
           (long long)gap[n_spans * 19 / 20]);
}

static gr_status measure(tracer *t, gr_step *s, const gr_named *feeds, int n_steps)
{
    for (int i = 0; i < 10; i++)
        GR_TRY(gr_step_train(s, feeds, 2, 0.01));
    GR_TRY(gr_step_sync(s));
    if (t->enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS)
        return gr_fail(GR_ERR_DEVICE, "CUPTI does not trace kernels here");
    for (int i = 0; i < n_steps; i++)
        GR_TRY(gr_step_train(s, feeds, 2, 0.01));
    GR_TRY(gr_step_sync(s));
    t->flush(1);
    if (n_spans < 2)
        return gr_fail(GR_ERR_DEVICE, "CUPTI saw %d kernels", n_spans);
    report(n_steps);
    return GR_OK;
}

static gr_status run(int n_steps)
{
    static float x[BATCH * 784];
    static int64_t y[BATCH];
    gr_named feeds[2] = { { "x", GR_F32, GR_SHAPE(BATCH, 784), x },
                          { "y", GR_I64, GR_SHAPE(BATCH), y } };
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_step *s;
    tracer t = { NULL, NULL, NULL };
    gr_status st;

    for (int i = 0; i < BATCH * 784; i++)
        x[i] = (float)(i * 7919 % 1000) / 1000 - 0.5f;
    for (int i = 0; i < BATCH; i++)
        y[i] = i % 10;
    c.trace = trace;
    c.device = "cuda";
    c.optim = (gr_optim)GR_OPTIM_ADAMW_INIT;
    GR_TRY(open_tracer(&t));
    GR_TRY(gr_step_create(&s, &c));
    st = measure(&t, s, feeds, n_steps);
    gr_step_destroy(s);
    return st;
}
#else
static gr_status run(int n_steps)
{
    (void)n_steps;
    return gr_fail(GR_ERR_DEVICE, "built without CUPTI's headers");
}
#endif

int main(int argc, char **argv)
{
    gr_status st = run(argc > 1 ? (int)strtol(argv[1], NULL, 10) : 200);

    if (st == GR_OK)
        return EXIT_SUCCESS;
    fprintf(stderr, "gpu_gaps: %s: %s\n", gr_status_text(st), gr_error_message());
    return EXIT_FAILURE;
}
