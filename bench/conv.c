/*
 * Convolutions: time and GF/s of each layer of ResNet-18 (64 x 64, batch 16) and of ResNet-50
 * with output stride 8 (129 x 129, batch 4), forward and both gradients, beside the peak of
 * one core. One line per layer and operator:
 *
 *     LAYER OPERATOR KERNEL MICROSECONDS GF/s SHARE-OF-PEAK
 *
 * The best of many rounds counts, with 8 MiB of other memory read before each: as in a step,
 * operands come from L3. bench/conv_torch.py runs this beside PyTorch, layer by layer.
 * Usage: conv [--threads N] [--rounds N] [--dtype f32] [--kernel NAME] [--layer TEXT]
 *             [--op NAME] [--list]
 */
#include "op/conv/conv.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/half.h"
#include "base/option.h"
#include "peak.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SWEEP_BYTES ((size_t)8 << 20)

typedef struct layer {
    const char *name;
    int64_t n, h, w, c_in, c_out, k, stride, pad, dilation;
} layer;

#define R18(name, size, ci, co, k, s)                         \
    {                                                         \
        "r18." name, 16, size, size, ci, co, k, s, (k) / 2, 1 \
    }
#define R50(name, size, ci, co, k, s, d)                                          \
    {                                                                             \
        "r50." name, 4, size, size, ci, co, k, s, (k) == 7 ? 3 : (k) / 2 * (d), d \
    }

/* clang-format off */
static const layer layers[] = {
    R18("conv1", 64, 3, 64, 7, 2),
    R18("layer1", 16, 64, 64, 3, 1),
    R18("layer2.0", 16, 64, 128, 3, 2),
    R18("layer2", 8, 128, 128, 3, 1),
    R18("layer2.down", 16, 64, 128, 1, 2),
    R18("layer3.0", 8, 128, 256, 3, 2),
    R18("layer3", 4, 256, 256, 3, 1),
    R18("layer3.down", 8, 128, 256, 1, 2),
    R18("layer4.0", 4, 256, 512, 3, 2),
    R18("layer4", 2, 512, 512, 3, 1),
    R18("layer4.down", 4, 256, 512, 1, 2),
    R50("conv1", 129, 3, 64, 7, 2, 1),
    R50("layer1.conv1", 33, 64, 64, 1, 1, 1),
    R50("layer1.conv2", 33, 64, 64, 3, 1, 1),
    R50("layer1.conv3", 33, 64, 256, 1, 1, 1),
    R50("layer1.back", 33, 256, 64, 1, 1, 1),
    R50("layer2.0.conv1", 33, 256, 128, 1, 1, 1),
    R50("layer2.0.conv2", 33, 128, 128, 3, 2, 1),
    R50("layer2.conv3", 17, 128, 512, 1, 1, 1),
    R50("layer2.down", 33, 256, 512, 1, 2, 1),
    R50("layer2.conv1", 17, 512, 128, 1, 1, 1),
    R50("layer2.conv2", 17, 128, 128, 3, 1, 1),
    R50("layer3.0.conv1", 17, 512, 256, 1, 1, 1),
    R50("layer3.conv2", 17, 256, 256, 3, 1, 2),
    R50("layer3.conv3", 17, 256, 1024, 1, 1, 1),
    R50("layer3.conv1", 17, 1024, 256, 1, 1, 1),
    R50("layer4.conv2", 17, 512, 512, 3, 1, 4),
    R50("layer4.conv3", 17, 512, 2048, 1, 1, 1),
    R50("layer4.conv1", 17, 2048, 512, 1, 1, 1),
};
/* clang-format on */
#define N_LAYERS ((int)(sizeof(layers) / sizeof(layers[0])))

typedef struct bench {
    gr_pool *pool;
    int64_t n_threads, n_rounds;
    const char *dtype, *kernel, *layer, *op;
    gr_dtype type;
    bool list;
    double peak;
    volatile float *sweep;
} bench;

static void sweep(const bench *b)
{
    for (size_t i = 0; i < SWEEP_BYTES / sizeof(float); i += 16)
        (void)b->sweep[i];
}

static gr_status time_node(const bench *b, const gr_node *n, void *const *mem, const char *name)
{
    const gr_kernel *k = gr_kernel_pick(NULL, n, b->kernel);
    gr_prepare p = { .node = n, .n_threads = (int)b->n_threads };
    gr_launch l = { .node = n, .src = mem, .out = mem + 2, .pool = b->pool };
    gr_conv_dims d;
    double best = 1e9, flops;

    if (b->op && strcmp(b->op, n->op->name) != 0)
        return GR_OK;
    if (!k)
        return GR_ERR_ARG;
    gr_conv_get_dims(n, &d);
    flops = 2.0 * (double)(d.n * d.out[0] * d.out[1] * d.co * d.ci * d.k[0] * d.k[1]);
    if (k->prepare)
        GR_TRY(k->prepare(&p));
    l.data = p.data;
    l.work = gr_malloc_aligned((k->workspace ? k->workspace(n, p.data) : 0) + 1);
    if (!l.work)
        return GR_ERR_NOMEM;
    for (int64_t r = 0; r < b->n_rounds; r++) {
        int64_t from;
        double s;

        sweep(b);
        from = gr_now_ns();
        GR_TRY(k->run(&l));
        s = (double)(gr_now_ns() - from) * 1e-9;
        best = s < best ? s : best;
    }
    printf("%-20s %-11s %-9s %9.1f %7.1f %5.2f\n", name, n->op->name, k->name, best * 1e6,
           flops / best * 1e-9, flops / best * 1e-9 / b->peak);
    gr_free(l.work);
    if (k->release)
        k->release(p.data);
    return GR_OK;
}

static void *filled(const bench *b, const gr_value *v)
{
    int64_t n = gr_shape_count(&v->shape);
    void *mem = gr_malloc_aligned(gr_value_bytes(v) + 1);

    for (int64_t i = 0; mem && i < n; i++)
        if (b->type == GR_F32)
            ((float *)mem)[i] = (float)(i * 7 % 13) * 0.1f - 0.6f;
        else
            ((uint16_t *)mem)[i] = gr_f32_to_bf16((float)(i * 7 % 13) * 0.1f - 0.6f);
    return mem;
}

static gr_status run_layer(const bench *b, const layer *y)
{
    const gr_named feeds[] = {
        { "x", b->type, GR_SHAPE(y->n, y->h, y->w, y->c_in), NULL },
        { "w", b->type, GR_SHAPE(y->c_out, y->c_in, y->k, y->k), NULL },
    };
    gr_conv opt = {
        { y->stride, y->stride }, { y->pad, y->pad }, { y->dilation, y->dilation }, 1, { 0, 0 }
    };
    gr_value *v[3], *d[2] = { NULL, NULL };
    gr_vars *vars;
    gr_graph *g;
    void *mem[3];

    GR_TRY(gr_vars_create(&vars));
    GR_TRY(gr_graph_create(&g, vars, true, feeds, 2));
    v[0] = gr_input(g, "x");
    v[1] = gr_input(g, "w");
    v[2] = gr_conv2d(g, v[0], v[1], &opt);
    GR_TRY(gr_graph_status(g));
    GR_TRY(gr_op_conv.grad(g, v[2]->node, &v[2], d));
    for (int i = 0; i < 3; i++) {
        mem[i] = filled(b, v[i]);
        if (!mem[i])
            return GR_ERR_NOMEM;
    }
    GR_TRY(time_node(b, v[2]->node, mem, y->name));
    GR_TRY(time_node(b, d[0]->node, (void *[]){ mem[2], mem[1], mem[0] }, y->name));
    GR_TRY(time_node(b, d[1]->node, (void *[]){ mem[0], mem[2], mem[1] }, y->name));
    for (int i = 0; i < 3; i++)
        gr_free(mem[i]);
    gr_graph_destroy(g);
    gr_vars_destroy(vars);
    return GR_OK;
}

static void print_layers(void)
{
    for (int i = 0; i < N_LAYERS; i++) {
        const layer *y = &layers[i];

        printf("%s %lld %lld %lld %lld %lld %lld %lld %lld %lld\n", y->name, (long long)y->n,
               (long long)y->h, (long long)y->w, (long long)y->c_in, (long long)y->c_out,
               (long long)y->k, (long long)y->stride, (long long)y->pad, (long long)y->dilation);
    }
}

/* "=name" is that layer alone. */
static bool is_wanted(const bench *b, const char *name)
{
    if (b->layer && b->layer[0] == '=')
        return strcmp(b->layer + 1, name) == 0;
    return !b->layer || strstr(name, b->layer) != NULL;
}

static gr_status run(bench *b)
{
    float *sweep_mem = gr_calloc(SWEEP_BYTES, 1);

    if (!sweep_mem)
        return GR_ERR_NOMEM;
    b->sweep = sweep_mem;
    b->type = strcmp(b->dtype, "bf16") == 0 ? GR_BF16 : GR_F32;
    b->peak = peak_gflops();
    GR_TRY(gr_pool_create(&b->pool, (int)b->n_threads));
    printf("# %lld threads, %s; peak of one core %.1f GF/s\n", (long long)b->n_threads,
           gr_dtype_name(b->type), b->peak);
    for (int i = 0; i < N_LAYERS; i++)
        if (is_wanted(b, layers[i].name))
            GR_TRY(run_layer(b, &layers[i]));
    gr_pool_destroy(b->pool);
    gr_free(sweep_mem);
    return GR_OK;
}

int main(int argc, char **argv)
{
    bench b = { .n_threads = 1, .n_rounds = 30, .dtype = "f32" };
    const gr_option table[] = {
        { "threads", GR_OPTION_INT, &b.n_threads, 1, 1024, NULL, "N", "size of the thread pool" },
        { "rounds", GR_OPTION_INT, &b.n_rounds, 1, 1e6, NULL, "N", "runs, the best counts" },
        { "dtype", GR_OPTION_TEXT, &b.dtype, 0, 0, NULL, "TYPE", "f32 or bf16" },
        { "kernel", GR_OPTION_TEXT, &b.kernel, 0, 0, NULL, "NAME", "this kernel; else the best" },
        { "layer", GR_OPTION_TEXT, &b.layer, 0, 0, NULL, "TEXT", "layers with this in the name" },
        { "list", GR_OPTION_FLAG, &b.list, 0, 0, NULL, NULL, "print the layers and end" },
        { "op", GR_OPTION_TEXT, &b.op, 0, 0, NULL, "NAME", "this operator only" },
        { 0 },
    };
    int n_used;
    gr_status st = gr_option_parse(table, argc - 1, argv + 1, &n_used);

    if (st == GR_OK && b.list)
        print_layers();
    else if (st == GR_OK)
        st = run(&b);
    if (st == GR_OK)
        return 0;
    fprintf(stderr, "conv: %s: %s\n", gr_status_text(st), gr_error_message());
    return st == GR_ERR_ARG ? 2 : 1;
}
