/*
 * Loadable modules: a device's kernels, driver and process groups in a shared library
 * that exports one function, gr_module_get(). The same program works with and without.
 */
#ifndef GR_OP_MODULE_H
#define GR_OP_MODULE_H

#include "backend/backend.h"
#include "base/text.h"
#include "comm/pg.h"
#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GR_MODULE_ABI 6

typedef struct gr_module {
    int abi; /* GR_MODULE_ABI; checked before anything else is read */
    const char *name;
    const gr_backend_ops *backend;
    const gr_kernel_set *kernels;
    const gr_pg_factory *groups;
    /* Lines "  name  version" of the libraries that it uses. */
    void (*versions)(gr_text *out);
} gr_module;

typedef const gr_module *gr_module_get_fn(void); /* symbol "gr_module_get" */

/* Loads libgradus-<name>.so: from GR_MODULE_PATH, the folder of the program or library,
 * its ../lib, then the loader's path. Stays loaded. GR_ERR_DEVICE with the reasons. */
gr_status gr_module_load(const char *name, const gr_module **out) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
