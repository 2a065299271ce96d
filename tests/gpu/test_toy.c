/*
 * The toy operator on the GPU: its CUDA kernels, fusions and the pieces of fusions against the
 * host's reference; and its variants measured with the device's timer.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "exec/tune.h"
#include "gpu/gpu.h"
#include "op/fusion.h"
#include "op/map/program.h"
#include "toy/cases.h"
#include "toy/toy.h"

#define MAX_SETS 512

#ifndef GR_TOY_MODULE /* built without CUDA: there is no GPU to test on either */
#define GR_TOY_MODULE ""
#endif

/* The module's kernels and the toy's, which its own module has. */
static const gr_kernel_set *all_kernels(const gr_module *m)
{
    static gr_kernel_set sets[MAX_SETS];
    void *handle = dlopen(GR_TOY_MODULE, RTLD_NOW), *symbol;
    toy_cuda_fn *get;
    int n = 0;

    if (!handle) {
        fprintf(stderr, "%s\n", dlerror());
        exit(GPU_SKIP);
    }
    symbol = dlsym(handle, "toy_cuda_kernels");
    GR_CHECK(symbol);
    memcpy(&get, &symbol, sizeof(get));
    sets[n++] = (gr_kernel_set){ "toy", get() };
    for (const gr_kernel_set *s = m->kernels; s->op; s++) {
        GR_CHECK(n + 1 < MAX_SETS);
        sets[n++] = *s;
    }
    return sets;
}

static const gr_program relu = { .n_src = 1,
                                 .n_instr = 1,
                                 .instr = { { .fn = GR_FN_RELU, .reg = { 0, -1, -1 } } } };

static gr_node *fused_node(gr_graph *g)
{
    gr_value *src[2] = { gr_input(g, "x"), gr_input(g, "w") };
    gr_value *plain = toy(g, src[0], src[1]);
    gr_program *end = gr_arena_new(g->arena, gr_program);
    const void *attr;
    gr_fusion *f;

    GR_CHECK(plain && end);
    f = gr_fusion_new(g, plain->node, &attr);
    GR_CHECK(f);
    *end = relu;
    end->shape = plain->shape;
    f->end.program = end;
    f->ends[0].reg = 1;
    return gr_graph_add(
        g, &(gr_build){ .op = &toy_op, .site = "test", .src = src, .n_src = 2, .fusion = f });
}

/* All candidates, the pieces of the fusion among them, have a time. */
static void test_times(gr_device *d, const gr_kernel_set *sets)
{
    gr_named feeds[] = { { "x", GR_F32, GR_SHAPE(333, 4096), NULL },
                         { "w", GR_F32, GR_SHAPE(4096), NULL } };
    gr_tune t = { .device = d, .kernels = sets, .n_threads = 1 };
    gr_text lines = GR_TEXT_INIT;
    gr_vars *vars;
    gr_graph *g;
    gr_node *n;
    size_t work;
    double seconds;
    int count;

    GR_CHECK_OK(gr_vars_create(&vars));
    GR_CHECK_OK(gr_graph_create(&g, vars, true, feeds, 2));
    n = fused_node(g);
    GR_CHECK_OK(gr_graph_status(g));
    GR_CHECK_OK(gr_tune_reserve(&t, n, &work));
    GR_CHECK_OK(d->ops->alloc(d, gr_tune_bytes(n, work), &t.mem));
    GR_CHECK_OK(gr_tune_candidates(&t, n, &lines, &count));
    GR_CHECK_EQ(count, 6);
    for (char *rest = NULL, *c = strtok_r(lines.str, "\n", &rest); c;
         c = strtok_r(NULL, "\n", &rest)) {
        GR_CHECK_OK(gr_tune_time(&t, n, c, work, &seconds));
        printf("%-24s %8.2f us\n", c, seconds * 1e6);
        if (strstr(c, "picky")) /* an odd number of rows */
            GR_CHECK(isinf(seconds));
        else
            GR_CHECK(seconds > 1e-6 && seconds < 0.1);
    }
    d->ops->free(d, t.mem);
    gr_text_fini(&lines);
    gr_graph_destroy(g);
    gr_vars_destroy(vars);
}

int main(void)
{
    const gr_module *m = gpu_module();
    driver_target target = { .kernels = all_kernels(m) };

    gpu_loaded();
    target.device = gpu_open();
    driver_run_family(&driver_toy, &target);
    test_times(target.device, target.kernels);
    target.device->ops->close(target.device);
    return 0;
}
