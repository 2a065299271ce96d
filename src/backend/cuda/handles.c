/*
 * Handles of the vendor's libraries: one per library and stream, made when a kernel asks for it
 * while it is prepared, and ended with the device. A short list: there are a few libraries and
 * streams.
 */
#include "backend/cuda/cuda.h"
#include "backend/cuda/lib_cublaslt.h"
#include "backend/cuda/lib_cudnn.h"

gr_status gr_cuda_library_handle(gr_cuda_device *d, const gr_cuda_library *library, void *stream,
                                 void **out)
{
    gr_cuda_handle *h = &d->handles[d->n_handles];

    for (int i = 0; i < d->n_handles; i++)
        if (d->handles[i].library == library && d->handles[i].stream == stream) {
            *out = d->handles[i].handle;
            return GR_OK;
        }
    GR_BUG_IF(d->n_handles == GR_CUDA_HANDLES);
    *h = (gr_cuda_handle){ .library = library, .stream = stream };
    GR_TRY(gr_wrap(library->create(stream, &h->handle), "a handle of %s", library->name));
    d->n_handles++;
    *out = h->handle;
    return GR_OK;
}

void gr_cuda_end_handles(gr_cuda_device *d)
{
    while (d->n_handles > 0) {
        gr_cuda_handle *h = &d->handles[--d->n_handles];

        h->library->destroy(h->handle);
    }
}

/* ---- cuBLASLt: takes the stream with each call ---- */

static gr_status blas_create(void *stream, void **out)
{
    const gr_cublaslt *lt;
    cublasLtHandle_t h = NULL;
    cublasStatus_t s;

    (void)stream;
    GR_TRY(gr_cublaslt_load(&lt));
    s = lt->Create(&h);
    if (s != CUBLAS_STATUS_SUCCESS)
        return gr_fail(GR_ERR_DEVICE, "cublasLtCreate: %s", lt->GetStatusString(s));
    *out = h;
    return GR_OK;
}

static void blas_destroy(void *handle)
{
    const gr_cublaslt *lt;

    if (gr_cublaslt_load(&lt) == GR_OK) /* it is: the handle is from there */
        lt->Destroy((cublasLtHandle_t)handle);
}

static const gr_cuda_library blas = { "cublasLt", blas_create, blas_destroy };

gr_status gr_cuda_blas(gr_cuda_device *d, void *stream, struct cublasLtContext **out)
{
    void *h = NULL;

    GR_TRY(gr_cuda_library_handle(d, &blas, stream, &h));
    *out = (struct cublasLtContext *)h;
    return GR_OK;
}

/* ---- cuDNN: is told its stream once ---- */

#if GR_HAVE_CUDNN
static gr_status dnn_create(void *stream, void **out)
{
    const gr_cudnn *dnn;
    cudnnHandle_t h = NULL;
    cudnnStatus_t s;

    GR_TRY(gr_cudnn_load(&dnn));
    s = dnn->Create(&h);
    if (s != CUDNN_STATUS_SUCCESS)
        return gr_fail(GR_ERR_DEVICE, "cudnnCreate: %s", dnn->GetErrorString(s));
    s = dnn->SetStream(h, gr_cuda_stream(stream));
    if (s != CUDNN_STATUS_SUCCESS) {
        dnn->Destroy(h);
        return gr_fail(GR_ERR_DEVICE, "cudnnSetStream: %s", dnn->GetErrorString(s));
    }
    *out = h;
    return GR_OK;
}

static void dnn_destroy(void *handle)
{
    const gr_cudnn *dnn;

    if (gr_cudnn_load(&dnn) == GR_OK) /* it is: the handle is from there */
        dnn->Destroy((cudnnHandle_t)handle);
}

static const gr_cuda_library dnn = { "cuDNN", dnn_create, dnn_destroy };

gr_status gr_cuda_dnn(gr_cuda_device *d, void *stream, struct cudnnContext **out)
{
    void *h = NULL;

    GR_TRY(gr_cuda_library_handle(d, &dnn, stream, &h));
    *out = (struct cudnnContext *)h;
    return GR_OK;
}
#endif
