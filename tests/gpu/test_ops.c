/*
 * Every operator's kernels on the GPU against the host's reference: the cases of tests/op
 * once more, in device memory. An operator of the registry that runs something must have
 * kernels in the module.
 */
#include "check.h"
#include "gpu/gpu.h"
#include "op/driver.h"
#include "op/families.h"
#include "op/registry.h"

static const driver_family *const families[] = {
    &driver_map,    &driver_matmul, &driver_reduce, &driver_shape,
    &driver_gather, &driver_xent,   &driver_update,
};

static void check_complete(const gr_module *m)
{
    for (const gr_op *const *op = gr_op_registry; *op; op++)
        if ((*op)->kernels && !gr_kernel_list(m->kernels, *op)) {
            fprintf(stderr, "operator '%s' has no kernel for the GPU\n", (*op)->name);
            exit(1);
        }
}

/* With arguments: only the families of these names. */
int main(int argc, char **argv)
{
    const gr_module *m = gpu_module();
    driver_target t = { gpu_open(), m->kernels };

    check_complete(m);
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
