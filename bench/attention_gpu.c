/*
 * Attention on a GPU: time of every kernel of the module, forward and backward, on the shapes
 * whose times with cuDNN are known: an image transformer's and a language model's, in f32 and
 * bf16. One line each:
 *
 *     SHAPE TYPE KERNEL forward US TF/s backward US TF/s
 *
 * Flops are those of the products (2 forward, 5 backward; half when causal). The best of all
 * rounds counts, each of which is REPEATS launches.
 *
 * Usage: attention_gpu [--rounds N] [--only TEXT]
 */
#include "base/alloc.h"
#include "base/option.h"
#include "gradus/attention.h"
#include "op/attention/attention.h"
#include "op/module.h"

#include <stdio.h>
#include <string.h>

#define REPEATS    10
#define MAX_VALUES 16

typedef struct form {
    const char *name;
    int64_t b, heads, n, d;
    bool causal;
    double dropout;
} form;

static const form forms[] = {
    { "b256_h12_n256_d64", 256, 12, 256, 64, false, 0 },
    { "b32_h12_n1024_d64_causal", 32, 12, 1024, 64, true, 0 },
    { "b32_h12_n1024_d64_causal_dropout", 32, 12, 1024, 64, true, 0.1 },
    { "b8_h16_n2048_d128", 8, 16, 2048, 128, false, 0 },
};
#define N_FORMS ((int)(sizeof(forms) / sizeof(forms[0])))

typedef struct bench {
    gr_device *device;
    const gr_kernel_set *sets;
    void *scalars, *mem[MAX_VALUES];
    int64_t n_rounds;
    const char *only; /* NULL, or a part of "SHAPE TYPE" */
} bench;

/* Small numbers: 16 bits of 0x3c00 to 0x3dff are near 0.01 in bf16; the sign changes. */
static gr_status fill(const bench *b, const gr_value *v, void *to)
{
    size_t n_bytes = gr_value_bytes(v), n = n_bytes / gr_dtype_bytes(v->dtype);
    void *mem = gr_malloc_aligned(n_bytes + 1);
    gr_status st;

    if (!mem)
        return GR_ERR_NOMEM;
    for (size_t i = 0; i < n; i++) {
        uint32_t r = (uint32_t)(i * 2654435761u) >> 7;

        if (v->dtype == GR_F32)
            ((float *)mem)[i] = (float)(r % 2001) * 1e-3f - 1;
        else
            ((uint16_t *)mem)[i] = (uint16_t)(0x3c00 + (r & 0x1ff) + (r & 0x200) * 64);
    }
    st = b->device->ops->upload(b->device, to, mem, n_bytes);
    gr_free(mem);
    return st;
}

static gr_status allocate(bench *b, const gr_graph *g)
{
    for (int i = 0; i < g->n_values; i++) {
        const gr_value *v = g->values[i];

        GR_TRY(b->device->ops->alloc(b->device, gr_value_bytes(v) + 64, &b->mem[i]));
        GR_TRY(fill(b, v, b->mem[i]));
    }
    return GR_OK;
}

static gr_status best_of(const bench *b, const gr_kernel *k, const gr_launch *l, double *best_s)
{
    const gr_backend_ops *ops = b->device->ops;

    *best_s = 1e9;
    GR_TRY(k->run(l));
    for (int64_t r = 0; r < b->n_rounds; r++) {
        double s;

        GR_TRY(ops->timer_begin(b->device));
        for (int i = 0; i < REPEATS; i++)
            GR_TRY(k->run(l));
        GR_TRY(ops->timer_end(b->device, &s));
        *best_s = s / REPEATS < *best_s ? s / REPEATS : *best_s;
    }
    return GR_OK;
}

/* *best_s: 0 where the kernel declines. */
static gr_status measure(const bench *b, const gr_node *n, const gr_kernel *k, double *best_s)
{
    void *stream = b->device->ops->stream(b->device, GR_STREAM_COMPUTE), *src[8], *out[4];
    gr_prepare p = { .node = n, .device = b->device, .stream = stream, .sets = b->sets };
    gr_launch l = { .node = n, .src = src, .out = out, .scalars = b->scalars, .stream = stream };
    gr_ready r = { 0 };
    gr_status st;

    *best_s = 0;
    if (gr_kernel_refusal(k, n))
        return GR_OK;
    GR_TRY(gr_kernel_ready_one(&r, &p, k, NULL, NULL));
    for (int i = 0; i < n->n_src; i++)
        src[i] = b->mem[n->src[i]->id];
    for (int i = 0; i < n->n_out; i++)
        out[i] = b->mem[n->out[i].id];
    st = b->device->ops->alloc(b->device, r.work_bytes + 1, &l.work);
    l.data = r.data;
    if (st == GR_OK)
        st = best_of(b, k, &l, best_s);
    b->device->ops->free(b->device, l.work);
    gr_kernel_end(&r);
    return st;
}

static gr_status run_kernels(const bench *b, const form *f, const gr_node *n, const gr_node *grad)
{
    const double product =
        2.0 * (double)(f->b * f->heads * f->n * f->n * f->d) * (f->causal ? 0.5 : 1);
    const gr_kernel *k;

    for (int i = 0; (k = gr_kernel_at(b->sets, n, i)); i++) {
        double fwd, bwd;

        GR_TRY(measure(b, n, k, &fwd));
        GR_TRY(measure(b, grad, gr_kernel_at(b->sets, grad, i), &bwd));
        if (fwd > 0 && bwd > 0)
            printf("%-32s %-4s %-6s forward %9.1f us %6.1f TF/s backward %9.1f us %6.1f TF/s\n",
                   f->name, gr_dtype_name(n->src[0]->dtype), k->name, fwd * 1e6,
                   2 * product / fwd * 1e-12, bwd * 1e6, 5 * product / bwd * 1e-12);
    }
    return GR_OK;
}

static gr_status run_form(bench *b, const form *f, gr_dtype t)
{
    const gr_shape s = GR_SHAPE(f->b, f->n, f->heads, f->d);
    const gr_named feeds[] = {
        { "q", t, s, NULL }, { "k", t, s, NULL }, { "v", t, s, NULL }, { "do", t, s, NULL }
    };
    const gr_attention_opts opts = { .causal = f->causal, .dropout = f->dropout };
    gr_value *o, *d_out[2] = { NULL, NULL }, *d_src[3];
    gr_vars *vars;
    gr_graph *g;

    GR_TRY(gr_vars_create(&vars));
    GR_TRY(gr_graph_create(&g, vars, true, feeds, 4));
    o = gr_attention(g, gr_input(g, "q"), gr_input(g, "k"), gr_input(g, "v"), &opts);
    GR_TRY(gr_graph_status(g));
    d_out[0] = gr_input(g, "do");
    GR_TRY(gr_op_attention.grad(g, o->node, d_out, d_src));
    GR_TRY(allocate(b, g));
    GR_TRY(run_kernels(b, f, o->node, d_src[0]->node));
    for (int i = 0; i < MAX_VALUES; i++) {
        b->device->ops->free(b->device, b->mem[i]);
        b->mem[i] = NULL;
    }
    gr_graph_destroy(g);
    gr_vars_destroy(vars);
    return GR_OK;
}

static gr_status run(bench *b)
{
    static const gr_scalars scalars = { .seed = 7 };
    static const gr_dtype types[] = { GR_F32, GR_BF16 };
    const gr_module *m;
    char name[64];

    GR_TRY(gr_module_load("cuda", &m));
    GR_TRY(m->backend->open(&b->device, 0));
    b->sets = m->kernels;
    GR_TRY(b->device->ops->alloc(b->device, sizeof(scalars), &b->scalars));
    GR_TRY(b->device->ops->upload(b->device, b->scalars, &scalars, sizeof(scalars)));
    for (int i = 0; i < N_FORMS; i++)
        for (int t = 0; t < 2; t++) {
            snprintf(name, sizeof(name), "%s %s", forms[i].name, gr_dtype_name(types[t]));
            if (!b->only || strstr(name, b->only))
                GR_TRY(run_form(b, &forms[i], types[t]));
        }
    b->device->ops->free(b->device, b->scalars);
    b->device->ops->close(b->device);
    return GR_OK;
}

int main(int argc, char **argv)
{
    bench b = { .n_rounds = 10 };
    const gr_option table[] = {
        { "rounds", GR_OPTION_INT, &b.n_rounds, 1, 1e6, NULL, "N",
          "measurements, the best counts" },
        { "only", GR_OPTION_TEXT, &b.only, 0, 0, NULL, "TEXT", "shapes and types with this" },
        { 0 },
    };
    int n_used;
    gr_status st = gr_option_parse(table, argc - 1, argv + 1, &n_used);

    if (st == GR_OK)
        st = run(&b);
    if (st == GR_OK)
        return 0;
    fprintf(stderr, "attention_gpu: %s: %s\n", gr_status_text(st), gr_error_message());
    return st == GR_ERR_ARG ? 2 : 1;
}
