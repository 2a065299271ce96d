/* Opening cuBLASLt. */
#include "backend/cuda/lib_cublaslt.h"

#include "backend/cuda/libs.h"

#define X(fn) GR_LIBRARY_SYMBOL(gr_cublaslt, cublasLt, fn)
static const gr_library_symbol symbols[] = { GR_CUBLASLT_MAP(X){ NULL, 0 } };
#undef X

static const char *const files[] = { "libcublasLt.so.13", "libcublasLt.so.12", NULL };

static gr_cublaslt table;
static gr_library library = { .name = "cuBLASLt",
                              .env = GR_CUDA_LIBS_ENV,
                              .files = files,
                              .folders = gr_cuda_folders,
                              .symbols = symbols,
                              .table = &table,
                              .lock = PTHREAD_MUTEX_INITIALIZER };

gr_status gr_cublaslt_load(const gr_cublaslt **out)
{
    GR_TRY(gr_library_load(&library));
    *out = &table;
    return GR_OK;
}
