/* Loading NCCL. */
#include "comm/nccl/api.h"

#include "comm/nccl/nccl.h"

#include <dlfcn.h>

static const char *const names[] = { "libnccl.so.2", "libnccl.so" };

static gr_status find(nccl_api *a)
{
/* ISO C has no cast from an object to a function pointer; POSIX says the bytes agree. */
#define X(name)                                                                               \
    {                                                                                         \
        void *sym = dlsym(a->lib, "nccl" #name);                                              \
        if (!sym)                                                                             \
            return gr_fail(GR_ERR_DEVICE, "this NCCL is too old: it has no nccl" #name "()"); \
        memcpy(&a->name, &sym, sizeof(sym));                                                  \
    }
    NCCL_API_MAP(X)
#undef X
    return GR_OK;
}

gr_status nccl_api_load(nccl_api *a)
{
    gr_status st;

    *a = (nccl_api){ 0 };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !a->lib; i++)
        a->lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!a->lib)
        return gr_fail(GR_ERR_DEVICE,
                       "NCCL is not installed or not found (LD_LIBRARY_PATH): %s; ranks of one "
                       "host can take group 'ipc'",
                       dlerror());
    st = find(a);
    if (st != GR_OK)
        nccl_api_unload(a);
    return st;
}

void nccl_api_unload(nccl_api *a)
{
    if (a->lib)
        dlclose(a->lib);
    *a = (nccl_api){ 0 };
}

int gr_nccl_version(void)
{
    nccl_api a;
    int version = 0;

    if (nccl_api_load(&a) != GR_OK)
        return 0;
    if (a.GetVersion(&version) != ncclSuccess)
        version = 0;
    nccl_api_unload(&a);
    return version;
}
