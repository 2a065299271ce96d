/* Opening cuDNN. */
#include "backend/cuda/lib_cudnn.h"

#if GR_HAVE_CUDNN

#include "backend/cuda/libs.h"
#include "base/log.h"

#include <stdatomic.h>

#define X(fn) GR_LIBRARY_SYMBOL(gr_cudnn, cudnn, fn)
static const gr_library_symbol symbols[] = { GR_CUDNN_MAP(X){ NULL, 0 } };
#undef X

static const char *const files[] = { "libcudnn.so.9", NULL };

static gr_cudnn table;
static gr_library library = { .name = "cuDNN",
                              .env = GR_CUDA_LIBS_ENV,
                              .files = files,
                              .folders = gr_cuda_folders,
                              .symbols = symbols,
                              .table = &table,
                              .lock = PTHREAD_MUTEX_INITIALIZER };

gr_status gr_cudnn_load(const gr_cudnn **out)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    gr_status st = gr_library_load(&library);

    if (st != GR_OK && !atomic_flag_test_and_set(&said))
        gr_log(CUDA, INFO, "cuDNN cannot be used, our own kernels serve: %s", gr_error_message());
    GR_TRY(st);
    *out = &table;
    return GR_OK;
}
#endif
