/*
 * Convolution in three directions by cuDNN.
 *
 * (1) Images lie as they are, channels last. The weight is turned to channels last in the
 *     workspace, and a weight's gradient back; for 1 x 1 both orders are the same.
 * (2) Sums are in f32, engines that add in varying order are left out, and f32 is true f32. Which
 *     engine runs is settled once per plan: same shapes, same bits.
 * (3) With 16-bit sources cuDNN has no fast engine that gives a weight's gradient in f32. It gives
 *     it in their type, from sums in f32, and it is widened on its way back: what an update sees
 *     is the gradient rounded once to 16 bits.
 */
#include "op/conv/cuda/conv_cudnn.h"

#include "backend/cuda/cuda.h"
#include "base/alloc.h"
#include "op/conv/cuda/dnn_cudnn.h"

#include <stdio.h>
#include <string.h>

#define MAX_VARIANTS 8
#define WORK_ALIGN   256 /* asked for by cuDNN; the arena promises 64 */
#define VALUE_ALIGN  16

typedef enum direction { FORWARD, TO_DATA, TO_WEIGHT } direction;

/* Names of the tensors in the graph. */
enum { UID_X = 1, UID_W, UID_Y };

typedef struct conv_plan {
    gr_dnn dnn;
    gr_dnn_desc graph, pack;
    gr_dnn_choice choice;
    direction way;
    gr_conv_dims d;
    gr_dtype type; /* of all tensors of the graph */
    bool turns;    /* the weight goes through the workspace */
    size_t filter_bytes;
    void *packed[4]; /* the addresses that `pack` has: x, w, y, workspace */
} conv_plan;

static direction direction_of(const gr_node *n)
{
    return strcmp(n->op->name, "conv") == 0        ? FORWARD
           : strcmp(n->op->name, "conv_data") == 0 ? TO_DATA
                                                   : TO_WEIGHT;
}

const char *gr_conv_dnn_reject(const gr_node *n)
{
    gr_dtype t = n->src[0]->dtype, out = n->out[0].dtype;
    gr_conv_dims d;

    gr_conv_get_dims(n, &d);
    if (n->src[1]->dtype != t)
        return "source types differ";
    if (t == GR_F64)
        return "cuDNN convolves f64 through f32 at times";
    if (out != t && !(out == GR_F32 && direction_of(n) == TO_WEIGHT))
        return "cuDNN has no convolution with this result type";
    if (d.n * d.in[0] * d.in[1] * d.ci == 0 || d.n * d.out[0] * d.out[1] * d.co == 0)
        return "there is nothing to convolve";
    return NULL;
}

static cudnnDataType_t vendor_type(gr_dtype t)
{
    return t == GR_BF16 ? CUDNN_DATA_BFLOAT16 : t == GR_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
}

/* ---- the graph ---- */

/* cuDNN counts [n, c, h, w]; the channel is what lies innermost. */
static gr_dnn_desc make_tensor(conv_plan *p, int64_t uid, const int64_t dim[4])
{
    const cudnnDataType_t type = vendor_type(p->type);
    const int64_t stride[4] = { dim[1] * dim[2] * dim[3], 1, dim[3] * dim[1], dim[1] };
    gr_dnn *g = &p->dnn;
    gr_dnn_desc t = gr_dnn_make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);

    gr_dnn_set(g, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    gr_dnn_set(g, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dim);
    gr_dnn_set(g, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride);
    gr_dnn_set_int(g, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, uid);
    gr_dnn_set_int(g, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, VALUE_ALIGN);
    gr_dnn_finish(g, t, "a tensor is refused");
    return t;
}

static gr_dnn_desc make_geometry(conv_plan *p)
{
    const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    gr_dnn *g = &p->dnn;
    gr_dnn_desc c = gr_dnn_make(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);

    gr_dnn_set_int(g, c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2);
    gr_dnn_set(g, c, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
    gr_dnn_set(g, c, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    gr_dnn_set(g, c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, p->d.pad);
    gr_dnn_set(g, c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, p->d.pad);
    gr_dnn_set(g, c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, p->d.stride);
    gr_dnn_set(g, c, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, p->d.dilation);
    gr_dnn_finish(g, c, "the convolution is refused");
    return c;
}

/* How the three operations call the same things. */
static const struct words {
    cudnnBackendDescriptorType_t op;
    cudnnBackendAttributeName_t conv, x, w, y, alpha, beta;
} words[] = {
#define WORDS(op, name, x, w, y)                                 \
    {                                                            \
        CUDNN_BACKEND_OPERATION_CONVOLUTION_##op##_DESCRIPTOR,   \
            CUDNN_ATTR_OPERATION_CONVOLUTION_##name##_CONV_DESC, \
            CUDNN_ATTR_OPERATION_CONVOLUTION_##name##_##x,       \
            CUDNN_ATTR_OPERATION_CONVOLUTION_##name##_##w,       \
            CUDNN_ATTR_OPERATION_CONVOLUTION_##name##_##y,       \
            CUDNN_ATTR_OPERATION_CONVOLUTION_##name##_ALPHA,     \
            CUDNN_ATTR_OPERATION_CONVOLUTION_##name##_BETA       \
    }
    WORDS(FORWARD, FORWARD, X, W, Y),
    WORDS(BACKWARD_DATA, BWD_DATA, DX, W, DY),
    WORDS(BACKWARD_FILTER, BWD_FILTER, X, DW, DY),
#undef WORDS
};

/* p->graph, finished, or p->dnn says why not. */
static void make_graph(conv_plan *p)
{
    const struct words *name = &words[p->way];
    const gr_conv_dims *d = &p->d;
    const float one = 1.0f, zero = 0.0f;
    gr_dnn *g = &p->dnn;
    gr_dnn_desc x = make_tensor(p, UID_X, (int64_t[]){ d->n, d->ci, d->in[0], d->in[1] });
    gr_dnn_desc w =
        make_tensor(p, UID_W, (int64_t[]){ d->co, d->ci / d->groups, d->k[0], d->k[1] });
    gr_dnn_desc y = make_tensor(p, UID_Y, (int64_t[]){ d->n, d->co, d->out[0], d->out[1] });
    gr_dnn_desc geometry = make_geometry(p), op = gr_dnn_make(g, name->op);

    gr_dnn_set_desc(g, op, name->conv, geometry);
    gr_dnn_set_desc(g, op, name->x, x);
    gr_dnn_set_desc(g, op, name->w, w);
    gr_dnn_set_desc(g, op, name->y, y);
    gr_dnn_set(g, op, name->alpha, CUDNN_TYPE_FLOAT, 1, &one);
    gr_dnn_set(g, op, name->beta, CUDNN_TYPE_FLOAT, 1, &zero);
    gr_dnn_finish(g, op, "the operation is refused");
    p->graph = gr_dnn_make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    gr_dnn_set_desc(g, p->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, op);
    gr_dnn_set(g, p->graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &g->handle);
    gr_dnn_finish(g, p->graph, "the graph is refused");
}

static gr_dnn_rules rules_of(const conv_plan *p, const gr_prepare *pr)
{
    return (gr_dnn_rules){ .true_f32 = p->type == GR_F32, .work_limit = pr->work_limit };
}

/* ---- choosing an engine ---- */

/*
 * What cuDNN is left out of, unless measuring chose it (pr->variant); NULL: nothing.
 * (1) In f16 its engines lose infinities, which loss scaling lives on, and some sum less exactly.
 * (2) In true f32 its fast engines want more workspace than there is. Those that remain were
 *     slower than our tiles for most layers of a ResNet on an H200, and the others at best 1.3
 *     times as fast. Depthwise convolutions are not for tiles.
 * (3) For an image of few channels its fast engines want a copy with more of them: hundreds of
 *     megabytes. Gradients to such an image it does better than we, and they are rare.
 */
static const char *weakness(const gr_prepare *pr)
{
    const gr_dtype t = pr->node->src[0]->dtype;
    gr_conv_dims d;

    gr_conv_get_dims(pr->node, &d);
    if (t == GR_F16 && ((const gr_cuda_device *)pr->device)->arch >= 80)
        return "f16 is left to our own kernel, which keeps infinities";
    if (pr->variant)
        return NULL;
    if (t == GR_F32 && d.ci > d.groups)
        return "our own tiles are faster in true f32";
    if (d.groups == 1 && d.ci < 8 && direction_of(pr->node) != TO_DATA)
        return "our own kernels are better at few channels";
    return NULL;
}

static gr_status take(conv_plan *p, gr_prepare *pr)
{
    const gr_dnn_rules rules = rules_of(p, pr);
    const size_t version = p->dnn.fn->GetVersion();

    if (pr->variant)
        return gr_dnn_plan(&p->dnn, p->graph, &rules, pr->variant, &p->choice)
                   ? GR_OK
                   : gr_decline(pr, "cuDNN %zu, '%s': %s", version, pr->variant, p->dnn.why);
    return gr_dnn_first(&p->dnn, p->graph, &rules, &p->choice)
               ? GR_OK
               : gr_decline(pr, "cuDNN %zu has no engine for it: %s", version, p->dnn.why);
}

/* ---- preparing ---- */

void gr_conv_dnn_release(void *data)
{
    conv_plan *p = (conv_plan *)data;

    if (!p)
        return;
    if (p->pack)
        p->dnn.fn->BackendDestroyDescriptor(p->pack);
    gr_dnn_fini(&p->dnn);
    gr_free(p);
}

/* *out with its graph. It may be one that cuDNN refuses: p->dnn.is_bad. */
static gr_status open_plan(conv_plan **out, const gr_prepare *pr, const gr_cudnn *fn)
{
    const gr_node *n = pr->node;
    conv_plan *p = (conv_plan *)gr_calloc(1, sizeof(*p));
    gr_status st;

    if (!p)
        return GR_ERR_NOMEM;
    p->dnn.fn = fn;
    p->way = direction_of(n);
    p->type = n->src[0]->dtype;
    gr_conv_get_dims(n, &p->d);
    p->turns = p->d.k[0] * p->d.k[1] > 1 || n->out[0].dtype != p->type;
    if (p->turns)
        p->filter_bytes = (size_t)(p->d.co * (p->d.ci / p->d.groups) * p->d.k[0] * p->d.k[1]) *
                          gr_dtype_bytes(p->type);
    st = gr_cuda_dnn((gr_cuda_device *)pr->device, pr->stream, &p->dnn.handle);
    if (st != GR_OK) {
        gr_conv_dnn_release(p);
        return st;
    }
    make_graph(p);
    *out = p;
    return GR_OK;
}

static bool is_aligned(const size_t *align, int n)
{
    for (int i = 0; align && i < n; i++)
        if (align[i] % VALUE_ALIGN != 0)
            return false;
    return true;
}

gr_status gr_conv_dnn_prepare(gr_prepare *pr)
{
    const gr_cudnn *fn;
    conv_plan *p;
    gr_status st;

    if (weakness(pr))
        return gr_decline(pr, "%s", weakness(pr));
    if (!is_aligned(pr->src_align, pr->node->n_src) || !is_aligned(pr->out_align, pr->node->n_out))
        return gr_decline(pr, "an address is no multiple of %d", VALUE_ALIGN);
    if (gr_cudnn_load(&fn) != GR_OK)
        return gr_decline(pr, "%s", gr_error_message());
    GR_TRY(open_plan(&p, pr, fn));
    st =
        p->dnn.is_bad ? gr_decline(pr, "cuDNN %zu: %s", fn->GetVersion(), p->dnn.why) : take(p, pr);
    if (st != GR_OK)
        gr_conv_dnn_release(p);
    else
        pr->data = p;
    return st;
}

gr_status gr_conv_dnn_variants(const gr_prepare *pr, gr_text *out)
{
    const gr_cudnn *fn;
    gr_dnn_rules rules;
    conv_plan *p;

    if (gr_cudnn_load(&fn) != GR_OK)
        return GR_OK; /* prepare() says it */
    GR_TRY(open_plan(&p, pr, fn));
    rules = rules_of(p, pr);
    if (!p->dnn.is_bad)
        gr_dnn_names(&p->dnn, p->graph, &rules, out, MAX_VARIANTS);
    gr_conv_dnn_release(p);
    return gr_text_status(out);
}

/* ---- running ---- */

static size_t round_up(size_t n)
{
    return (n + WORK_ALIGN - 1) / WORK_ALIGN * WORK_ALIGN;
}

size_t gr_conv_dnn_workspace(const gr_node *n, const void *data)
{
    const conv_plan *p = (const conv_plan *)data;
    size_t all = round_up(p->filter_bytes) + p->choice.work_bytes;

    (void)n;
    return all ? all + WORK_ALIGN : 0;
}

/* The addresses of a plan do not change from step to step, so what carries them is made at the
 * first run and after that only where they do. */
static gr_status make_pack(conv_plan *p, void *const packed[4])
{
    static const int64_t uid[] = { UID_X, UID_W, UID_Y };
    const gr_cudnn *fn = p->dnn.fn;
    bool ok;

    if (p->pack && memcmp(p->packed, packed, sizeof(p->packed)) == 0)
        return GR_OK;
    if (p->pack)
        fn->BackendDestroyDescriptor(p->pack);
    p->pack = NULL;
    ok = fn->BackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &p->pack) ==
             CUDNN_STATUS_SUCCESS &&
         fn->BackendSetAttribute(p->pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                 CUDNN_TYPE_VOID_PTR, 3, packed) == CUDNN_STATUS_SUCCESS &&
         fn->BackendSetAttribute(p->pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3,
                                 uid) == CUDNN_STATUS_SUCCESS &&
         fn->BackendSetAttribute(p->pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                                 &packed[3]) == CUDNN_STATUS_SUCCESS &&
         fn->BackendFinalize(p->pack) == CUDNN_STATUS_SUCCESS;
    if (!ok)
        return gr_fail(GR_ERR_DEVICE, "cuDNN refuses the addresses of a convolution");
    memcpy(p->packed, packed, sizeof(p->packed));
    return GR_OK;
}

static gr_status execute(conv_plan *p, void *const packed[4])
{
    cudnnStatus_t s;

    GR_TRY(make_pack(p, packed));
    s = p->dnn.fn->BackendExecute(p->dnn.handle, p->choice.plan, p->pack);
    if (s == CUDNN_STATUS_SUCCESS)
        return GR_OK;
    return gr_fail(GR_ERR_DEVICE, "cuDNN's convolution: %s", p->dnn.fn->GetErrorString(s));
}

gr_status gr_conv_dnn_run(const gr_launch *l)
{
    conv_plan *p = (conv_plan *)l->data;
    const gr_conv_dims *d = &p->d;
    const uintptr_t start = ((uintptr_t)l->work + WORK_ALIGN - 1) & ~(uintptr_t)(WORK_ALIGN - 1);
    void *filter = (void *)start;
    void *work = p->choice.work_bytes ? (void *)(start + round_up(p->filter_bytes)) : NULL;
    gr_conv_filter f = { d->co, d->ci / d->groups, d->k[0] * d->k[1], p->type, p->type };

    if (p->way == TO_WEIGHT) {
        f.to = l->node->out[0].dtype;
        GR_TRY(execute(p, (void *[]){ l->src[0], p->turns ? filter : l->out[0], l->src[1], work }));
        return p->turns ? gr_conv_filter_first(&f, l->out[0], filter, l->stream) : GR_OK;
    }
    if (p->turns)
        GR_TRY(gr_conv_filter_last(&f, filter, l->src[1], l->stream));
    if (!p->turns)
        filter = l->src[1];
    return p->way == FORWARD ? execute(p, (void *[]){ l->src[0], filter, l->out[0], work })
                             : execute(p, (void *[]){ l->out[0], filter, l->src[0], work });
}
