/*
 * Attention: time of every CPU kernel, forward and backward, on the shapes of the workloads:
 * a transformer of 6 heads of 64 over 256 tokens, and a protein decoder of 8 heads of 32 over
 * 640 tokens, itself and against 256 residues. One line each:
 *
 *     SHAPE TYPE KERNEL forward MS GF/s backward MS GF/s
 *
 * Flops are those of the products (2 forward, 5 backward), so that softmax counts as time but
 * not as work. Kernels take turns, and the best of many rounds counts: on a shared machine the
 * rest is the neighbours. bench/attention_torch.sh puts PyTorch beside it.
 *
 * Usage: attention [--threads N] [--rounds N] [--best] [--only TEXT]
 */
#include "gradus/attention.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/option.h"
#include "op/attention/attention.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_KERNELS 8
#define MAX_VALUES  16

typedef struct form {
    const char *name;
    int64_t b, heads, nq, nk, d;
    bool causal;
} form;

static const form forms[] = {
    { "b4_h6_n256_d64", 4, 6, 256, 256, 64, false },
    { "b4_h6_n256_d64_causal", 4, 6, 256, 256, 64, true },
    { "b4_h8_n640_d32", 4, 8, 640, 640, 32, false },
    { "b4_h8_n640x256_d32", 4, 8, 640, 256, 32, false },
};
#define N_FORMS ((int)(sizeof(forms) / sizeof(forms[0])))

typedef struct bench {
    gr_pool *pool;
    int64_t n_threads, n_rounds;
    bool best;
    const char *only; /* NULL, or a part of "SHAPE TYPE" */
} bench;

/* One kernel on one node, ready to run. */
typedef struct subject {
    const gr_kernel *kernel; /* NULL: it declined */
    gr_launch launch;
    void *src[8], *out[4], *work;
    double best_s;
} subject;

static double seconds_of(const subject *s)
{
    int64_t from = gr_now_ns();

    if (s->kernel->run(&s->launch) != GR_OK) {
        fprintf(stderr, "attention: %s: %s\n", s->kernel->name, gr_error_message());
        exit(1);
    }
    return (double)(gr_now_ns() - from) * 1e-9;
}

static gr_status prepare(const bench *b, const gr_node *n, const gr_kernel *k, void *const *mem,
                         subject *s)
{
    static const gr_scalars scalars = { .seed = 7 };
    gr_prepare p = { .node = n, .n_threads = (int)b->n_threads };
    size_t n_bytes;

    if (k->reject && k->reject(n))
        return GR_OK;
    if (k->prepare)
        GR_TRY(k->prepare(&p));
    n_bytes = k->workspace ? k->workspace(n, p.data) : 0;
    s->work = gr_malloc_aligned(n_bytes + 1);
    if (!s->work)
        return GR_ERR_NOMEM;
    for (int i = 0; i < n->n_src; i++)
        s->src[i] = mem[n->src[i]->id];
    for (int i = 0; i < n->n_out; i++)
        s->out[i] = mem[n->out[i].id];
    s->launch = (gr_launch){ .node = n,
                             .src = s->src,
                             .out = s->out,
                             .work = s->work,
                             .data = p.data,
                             .scalars = &scalars,
                             .pool = b->pool };
    s->best_s = 1e9;
    s->kernel = k;
    return GR_OK;
}

static void subject_fini(subject *s)
{
    if (s->kernel && s->kernel->release)
        s->kernel->release(s->launch.data);
    gr_free(s->work);
}

/* Small numbers in every float type: 16 bits of 0x3c00 to 0x3dff are near 1 in f16 and near
 * 0.01 in bf16; the sign changes. */
static void fill(const gr_value *v, void *mem)
{
    size_t n = gr_value_bytes(v) / gr_dtype_bytes(v->dtype);

    for (size_t i = 0; i < n; i++) {
        uint32_t r = (uint32_t)(i * 2654435761u) >> 7;

        if (v->dtype == GR_F32)
            ((float *)mem)[i] = (float)(r % 2001) * 1e-3f - 1;
        else
            ((uint16_t *)mem)[i] = (uint16_t)(0x3c00 + (r & 0x1ff) + (r & 0x200) * 64);
    }
}

static gr_status allocate(const gr_graph *g, void **mem)
{
    for (int i = 0; i < g->n_values; i++) {
        const gr_value *v = g->values[i];

        mem[i] = gr_malloc_aligned(gr_value_bytes(v) + 64);
        if (!mem[i])
            return GR_ERR_NOMEM;
        fill(v, mem[i]);
    }
    return GR_OK;
}

static void measure(const bench *b, subject (*s)[MAX_KERNELS], int n_kernels)
{
    for (int64_t r = 0; r < b->n_rounds; r++)
        for (int k = 0; k < n_kernels; k++)
            for (int way = 0; way < 2; way++) {
                double t;

                if (!s[way][k].kernel)
                    continue;
                t = seconds_of(&s[way][k]);
                s[way][k].best_s = t < s[way][k].best_s ? t : s[way][k].best_s;
            }
}

static void report(const form *f, gr_dtype t, const subject *fwd, const subject *bwd)
{
    double product = 2.0 * (double)(f->b * f->heads * f->nq * f->nk * f->d) * (f->causal ? 0.5 : 1);

    printf("%-22s %-4s %-9s forward %8.3f ms %7.1f GF/s backward %8.3f ms %7.1f GF/s\n", f->name,
           gr_dtype_name(t), fwd->kernel->name, fwd->best_s * 1e3, 2 * product / fwd->best_s * 1e-9,
           bwd->best_s * 1e3, 5 * product / bwd->best_s * 1e-9);
}

static gr_status run_nodes(const bench *b, const form *f, gr_node *n, gr_node *grad, void **mem)
{
    const gr_kernel *lists[2] = { gr_op_attention.kernels, gr_op_attention_grad.kernels };
    const gr_node *nodes[2] = { n, grad };
    subject s[2][MAX_KERNELS];
    int n_kernels = 0;

    memset(s, 0, sizeof(s));
    /* The reference is the law, not a competitor. */
    for (; lists[0][n_kernels + 1].name && n_kernels < MAX_KERNELS; n_kernels++)
        for (int way = 0; way < 2; way++) {
            bool is_found = n_kernels > 0 && s[way][0].kernel && b->best;

            if (!is_found)
                GR_TRY(prepare(b, nodes[way], &lists[way][n_kernels], mem, &s[way][n_kernels]));
        }
    measure(b, s, n_kernels);
    for (int k = 0; k < n_kernels; k++) {
        if (s[0][k].kernel && s[1][k].kernel)
            report(f, n->src[0]->dtype, &s[0][k], &s[1][k]);
        subject_fini(&s[0][k]);
        subject_fini(&s[1][k]);
    }
    return GR_OK;
}

static gr_status run_form(const bench *b, const form *f, gr_dtype t)
{
    gr_shape q = GR_SHAPE(f->b, f->nq, f->heads, f->d), k = GR_SHAPE(f->b, f->nk, f->heads, f->d);
    const gr_named feeds[] = {
        { "q", t, q, NULL }, { "k", t, k, NULL }, { "v", t, k, NULL }, { "do", t, q, NULL }
    };
    gr_attention_opts opts = { .causal = f->causal };
    void *mem[MAX_VALUES] = { NULL };
    gr_value *o, *d_out[2], *d_src[3];
    gr_vars *vars;
    gr_graph *g;

    GR_TRY(gr_vars_create(&vars));
    GR_TRY(gr_graph_create(&g, vars, true, feeds, 4));
    o = gr_attention(g, gr_input(g, "q"), gr_input(g, "k"), gr_input(g, "v"), &opts);
    GR_TRY(gr_graph_status(g));
    d_out[0] = gr_input(g, "do");
    d_out[1] = NULL;
    GR_TRY(gr_op_attention.grad(g, o->node, d_out, d_src));
    GR_TRY(allocate(g, mem));
    GR_TRY(run_nodes(b, f, o->node, d_src[0]->node, mem));
    for (int i = 0; i < MAX_VALUES; i++)
        gr_free(mem[i]);
    gr_graph_destroy(g);
    gr_vars_destroy(vars);
    return GR_OK;
}

static gr_status run(bench *b)
{
    static const gr_dtype types[] = { GR_F32, GR_BF16 };
    char name[64];

    GR_TRY(gr_pool_create(&b->pool, (int)b->n_threads));
    printf("gradus, %lld thread(s)\n", (long long)b->n_threads);
    for (int i = 0; i < N_FORMS; i++)
        for (int t = 0; t < 2; t++) {
            snprintf(name, sizeof(name), "%s %s", forms[i].name, gr_dtype_name(types[t]));
            if (!b->only || strstr(name, b->only))
                GR_TRY(run_form(b, &forms[i], types[t]));
        }
    gr_pool_destroy(b->pool);
    return GR_OK;
}

int main(int argc, char **argv)
{
    bench b = { .n_threads = 1, .n_rounds = 30 };
    const gr_option table[] = {
        { "threads", GR_OPTION_INT, &b.n_threads, 1, 1024, NULL, "N", "size of the thread pool" },
        { "rounds", GR_OPTION_INT, &b.n_rounds, 1, 1e6, NULL, "N",
          "measurements, the best counts" },
        { "only", GR_OPTION_TEXT, &b.only, 0, 0, NULL, "TEXT", "shapes and types with this" },
        { "best", GR_OPTION_FLAG, &b.best, 0, 0, NULL, NULL, "the first kernel only" },
        { 0 },
    };
    int n_used;
    gr_status st = gr_option_parse(table, argc - 1, argv + 1, &n_used);

    if (st == GR_OK)
        st = run(&b);
    if (st == GR_OK)
        return 0;
    fprintf(stderr, "attention: %s: %s\n", gr_status_text(st), gr_error_message());
    return st == GR_ERR_ARG ? 2 : 1;
}
