/*
 * Matrix products: GF/s of every CPU kernel of matmul, beside the peak of one core, on the
 * products of one training step
 *
 *   mlp    of an MLP 784-512-512-10 with batch 128, f32
 *   layer  of a transformer layer of 384 with 1024 tokens, bf16
 *
 *   warm  the product again and again: operands lie in the nearest cache that holds them
 *   cold  8 MiB of other memory was read in between, as the rest of a step does
 *
 * Kernels take turns, and the best of many rounds counts: on a shared machine the rest is
 * the neighbours. Usage: gemm [--of mlp|layer] [--threads N] [--rounds N]
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/option.h"
#include "gradus/ops.h"
#include "op/element.h"
#include "op/matmul/matmul.h"
#include "peak.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_KERNELS 8
#define SWEEP_BYTES ((size_t)8 << 20)

typedef struct product {
    const char *name;
    int64_t m, n, k;
    bool trans_a, trans_b;
} product;

static const product mlp[] = {
    { "x W1'", 128, 512, 784, false, true },
    { "h1 W2'", 128, 512, 512, false, true },
    { "h2 W3'", 128, 10, 512, false, true },
    { "dW3 = d3' h2", 10, 512, 128, true, false },
    { "dh2 = d3 W3", 128, 512, 10, false, false },
    { "dW2 = d2' h1", 512, 512, 128, true, false },
    { "dh1 = d2 W2", 128, 512, 512, false, false },
    { "dW1 = d1' x", 512, 784, 128, true, false },
    { 0 },
};

static const product layer[] = {
    { "x Wqkv'", 1024, 1152, 384, false, true },
    { "h Wo'", 1024, 384, 384, false, true },
    { "x W1'", 1024, 1536, 384, false, true },
    { "h W2'", 1024, 384, 1536, false, true },
    { "dqkv Wqkv", 1024, 384, 1152, false, false },
    { "do Wo", 1024, 384, 384, false, false },
    { "d1 W1", 1024, 384, 1536, false, false },
    { "d2 W2", 1024, 1536, 384, false, false },
    { "dqkv' x", 1152, 384, 1024, true, false },
    { "do' h", 384, 384, 1024, true, false },
    { "d1' x", 1536, 384, 1024, true, false },
    { "d2' h", 384, 1536, 1024, true, false },
    { 0 },
};

enum { OF_MLP, OF_LAYER };

typedef struct subject {
    const gr_kernel *kernel; /* NULL: it declined */
    gr_launch launch;
    void *work;
    double warm_s, cold_s; /* best */
} subject;

typedef struct bench {
    gr_pool *pool;
    int64_t n_threads, n_rounds;
    int of;
    volatile float *sweep;
    const char *names[MAX_KERNELS];
    int n_kernels;
    double flops[MAX_KERNELS], warm_s[MAX_KERNELS], cold_s[MAX_KERNELS]; /* over products */
} bench;

static double seconds_of(const subject *s)
{
    int64_t from = gr_now_ns();

    if (s->kernel->run(&s->launch) != GR_OK) {
        fprintf(stderr, "gemm: %s: %s\n", s->kernel->name, gr_error_message());
        exit(1);
    }
    return (double)(gr_now_ns() - from) * 1e-9;
}

static void sweep(const bench *b)
{
    for (size_t i = 0; i < SWEEP_BYTES / sizeof(float); i += 16)
        (void)b->sweep[i];
}

static void measure(bench *b, subject *s)
{
    for (int64_t r = 0; r < b->n_rounds; r++)
        for (int k = 0; k < b->n_kernels; k++) {
            double warm, cold;

            if (!s[k].kernel)
                continue;
            sweep(b);
            cold = seconds_of(&s[k]);
            (void)seconds_of(&s[k]);
            warm = seconds_of(&s[k]);
            s[k].cold_s = cold < s[k].cold_s ? cold : s[k].cold_s;
            s[k].warm_s = warm < s[k].warm_s ? warm : s[k].warm_s;
        }
}

static gr_status prepare(const bench *b, const gr_node *n, subject *s, int k)
{
    const gr_kernel *kernel = &gr_op_matmul.kernels[k];
    gr_prepare p = { .node = n, .n_threads = (int)b->n_threads };
    size_t n_bytes;

    if (kernel->reject && kernel->reject(n))
        return GR_OK;
    if (kernel->prepare)
        GR_TRY(kernel->prepare(&p));
    s->launch.data = p.data;
    n_bytes = kernel->workspace ? kernel->workspace(n, p.data) : 0;
    s->work = gr_malloc_aligned(n_bytes + 1);
    if (!s->work)
        return GR_ERR_NOMEM;
    s->launch.work = s->work;
    s->launch.node = n;
    s->launch.pool = b->pool;
    s->warm_s = s->cold_s = 1e9;
    s->kernel = kernel;
    return GR_OK;
}

static void report(bench *b, const product *p, const subject *s)
{
    double flops = 2.0 * (double)p->m * (double)p->n * (double)p->k;

    printf("%-13s %4lld x%4lld x%4lld", p->name, (long long)p->m, (long long)p->n, (long long)p->k);
    for (int k = 0; k < b->n_kernels; k++) {
        if (!s[k].kernel) {
            printf("   %22s", "declined");
            continue;
        }
        printf("   %6.1f %6.1f %5.0f us", flops / s[k].warm_s * 1e-9, flops / s[k].cold_s * 1e-9,
               s[k].warm_s * 1e6);
        b->flops[k] += flops;
        b->warm_s[k] += s[k].warm_s;
        b->cold_s[k] += s[k].cold_s;
    }
    printf("\n");
}

static gr_status run_product(bench *b, const product *p)
{
    gr_shape sa = p->trans_a ? GR_SHAPE(p->k, p->m) : GR_SHAPE(p->m, p->k);
    gr_shape sb = p->trans_b ? GR_SHAPE(p->n, p->k) : GR_SHAPE(p->k, p->n);
    const gr_dtype t = b->of == OF_MLP ? GR_F32 : GR_BF16;
    const gr_named feeds[] = { { "a", t, sa, NULL }, { "b", t, sb, NULL } };
    subject subjects[MAX_KERNELS];
    gr_vars *vars;
    gr_graph *g;
    gr_value *y;
    void *mem[3];

    memset(subjects, 0, sizeof(subjects));
    GR_TRY(gr_vars_create(&vars));
    GR_TRY(gr_graph_create(&g, vars, true, feeds, 2));
    y = gr_matmul_t(g, gr_input(g, "a"), gr_input(g, "b"), p->trans_a, p->trans_b);
    GR_TRY(gr_graph_status(g));
    for (int i = 0; i < 3; i++) {
        const gr_value *v = i < 2 ? y->node->src[i] : y;

        mem[i] = gr_malloc_aligned(gr_value_bytes(v));
        if (!mem[i])
            return GR_ERR_NOMEM;
        for (int64_t e = 0; e < gr_shape_count(&v->shape); e++)
            gr_element_put_f64(mem[i], v->dtype, e, (double)(e % 7) - 3);
    }
    for (int k = 0; k < b->n_kernels; k++) {
        GR_TRY(prepare(b, y->node, &subjects[k], k));
        subjects[k].launch.src = mem;
        subjects[k].launch.out = mem + 2;
    }
    measure(b, subjects);
    report(b, p, subjects);
    for (int k = 0; k < b->n_kernels; k++) {
        if (subjects[k].kernel && subjects[k].kernel->release)
            subjects[k].kernel->release(subjects[k].launch.data);
        gr_free(subjects[k].work);
    }
    for (int i = 0; i < 3; i++)
        gr_free(mem[i]);
    gr_graph_destroy(g);
    gr_vars_destroy(vars);
    return GR_OK;
}

static gr_status run(bench *b)
{
    float *sweep_mem = gr_calloc(SWEEP_BYTES, 1);

    if (!sweep_mem)
        return GR_ERR_NOMEM;
    b->sweep = sweep_mem;
    GR_TRY(gr_pool_create(&b->pool, (int)b->n_threads));
    printf("%lld threads; peak of one core %.1f GF/s; GF/s warm, GF/s cold, time warm\n",
           (long long)b->n_threads, peak_gflops());
    printf("%-32s", "");
    /* The reference is the law, not a competitor. */
    for (const gr_kernel *k = gr_op_matmul.kernels; (k + 1)->name && b->n_kernels < MAX_KERNELS;
         k++) {
        b->names[b->n_kernels++] = k->name;
        printf("   %22s", k->name);
    }
    printf("\n");
    for (const product *p = b->of == OF_MLP ? mlp : layer; p->name; p++)
        GR_TRY(run_product(b, p));
    printf("%-32s", "all that it took");
    for (int k = 0; k < b->n_kernels; k++)
        if (b->flops[k] == 0)
            printf("   %22s", "none");
        else
            printf("   %6.1f %6.1f %5.0f us", b->flops[k] / b->warm_s[k] * 1e-9,
                   b->flops[k] / b->cold_s[k] * 1e-9, b->warm_s[k] * 1e6);
    printf("\npeak of one core again %.1f GF/s\n", peak_gflops());
    gr_pool_destroy(b->pool);
    gr_free(sweep_mem);
    return GR_OK;
}

int main(int argc, char **argv)
{
    bench b = { .n_threads = 1, .n_rounds = 200 };
    const gr_option table[] = {
        { "of", GR_OPTION_CHOICE, &b.of, 0, 0, "mlp|layer", NULL, "whose products" },
        { "threads", GR_OPTION_INT, &b.n_threads, 1, 1024, NULL, "N", "size of the thread pool" },
        { "rounds", GR_OPTION_INT, &b.n_rounds, 1, 1e6, NULL, "N",
          "measurements, the best counts" },
        { 0 },
    };
    int n_used;
    gr_status st = gr_option_parse(table, argc - 1, argv + 1, &n_used);

    if (st == GR_OK)
        st = run(&b);
    if (st == GR_OK)
        return 0;
    fprintf(stderr, "gemm: %s: %s\n", gr_status_text(st), gr_error_message());
    return st == GR_ERR_ARG ? 2 : 1;
}
