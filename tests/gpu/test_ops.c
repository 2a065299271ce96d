/*
 * Every operator's kernels on the GPU against the host's reference: the cases of tests/op
 * once more, in device memory. An operator of the registry that runs something must have
 * kernels in the module, or stand in the list of those that run on the CPU only so far.
 */
#include "check.h"
#include "gpu/gpu.h"
#include "op/driver.h"
#include "op/families.h"
#include "op/registry.h"

/* clang-format off */
static const driver_family *const families[] = {
    &driver_argmax,
    &driver_assign,
    &driver_attention,
    &driver_classes,
    &driver_conv,
    &driver_epilogue,
    &driver_gather,
    &driver_index,
    &driver_map,
    &driver_matmul,
    &driver_norm,
    &driver_part,
    &driver_pool,
    &driver_random,
    &driver_reduce,
    &driver_resample,
    &driver_rotary,
    &driver_shape,
    &driver_softmax,
    &driver_swiglu,
    &driver_update,
    &driver_vote,
    &driver_xent,
};
/* clang-format on */

/* Their kernels come with the whole CUDA backend. One that has got some must leave the list. */
static const char *const cpu_only[] = {
    "reduce_scatter_start", "reduce_scatter_finish", "allgather_start", "allgather_finish",
    "meet_start",           "meet_finish",           "shard_keep",      "shard_give",
    "shard_take",           "shard_squares",         "shard_control",
};

static bool is_cpu_only(const char *op)
{
    for (int i = 0; i < DRIVER_COUNT(cpu_only); i++)
        if (strcmp(cpu_only[i], op) == 0)
            return true;
    return false;
}

/* Needs no GPU, only the module. */
static void check_complete(const gr_module *m)
{
    int n_wrong = 0;

    for (const gr_op *const *op = gr_op_registry; *op; op++) {
        bool has = !(*op)->kernels || gr_kernel_list(m->kernels, *op);

        if (has == is_cpu_only((*op)->name)) {
            fprintf(stderr, "operator '%s': %s\n", (*op)->name,
                    has ? "has kernels for the GPU now" : "has no kernel for the GPU");
            n_wrong++;
        }
    }
    GR_CHECK_EQ(n_wrong, 0);
}

/* With arguments: only the families of these names. */
int main(int argc, char **argv)
{
    driver_target t = { NULL, gpu_loaded()->kernels };

    check_complete(gpu_loaded());
    t.device = gpu_open();
    for (int f = 0; f < DRIVER_COUNT(families); f++) {
        bool wanted = argc < 2;

        for (int i = 1; i < argc; i++)
            wanted = wanted || strcmp(argv[i], families[f]->name) == 0;
        if (!wanted)
            continue;
        driver_run_family(families[f], &t);
        printf("%s: %d cases\n", families[f]->name, families[f]->n_cases);
        fflush(stdout);
    }
    t.device->ops->close(t.device);
    return 0;
}
