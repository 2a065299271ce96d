/* Opening NVRTC. */
#include "backend/cuda/lib_nvrtc.h"

#include "backend/cuda/libs.h"

#define X(fn) GR_LIBRARY_SYMBOL(gr_nvrtc, nvrtc, fn)
static const gr_library_symbol symbols[] = { GR_NVRTC_MAP(X){ NULL, 0 } };
#undef X

static const char *const files[] = { "libnvrtc.so.13", "libnvrtc.so.12", NULL };

static gr_nvrtc table;
static gr_library library = { .name = "NVRTC",
                              .env = GR_CUDA_LIBS_ENV,
                              .files = files,
                              .folders = gr_cuda_folders,
                              .symbols = symbols,
                              .table = &table,
                              .lock = PTHREAD_MUTEX_INITIALIZER };

gr_status gr_nvrtc_load(const gr_nvrtc **out)
{
    GR_TRY(gr_library_load(&library));
    *out = &table;
    return GR_OK;
}
