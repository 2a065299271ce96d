/*
 * Builders given anything: the bytes choose operators, their sources (NULL among them, and of
 * every type and rank), and options: sizes that are negative or beyond all memory (but for
 * tables that are made at once), numbers that are not finite, types and kinds that do not
 * exist. Then
 *
 *   refused      the message names this file and line; the others are tried without it
 *   accepted     the graph and its gradient can be planned and run; what comes out does not
 *                matter, only that nothing is read or written where it should not be
 *
 * Each operator has bytes of its own, so that leaving one out changes no other.
 */
#include "gradus/gradus.h"

#include "src/base/status.h"

#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

#define MAX_VALUES 48
#define MAX_OPS    6
#define OP_BYTES   24
#define MAX_BYTES  ((size_t)32 << 20) /* of a step that is run, not only planned */

typedef struct fuzz {
    gr_graph *g;
    const uint8_t *at, *end;
    gr_value *pool[MAX_VALUES];
    int n;
    int failed;    /* the operator that was refused, or -1 */
    unsigned skip; /* those that were before */
} fuzz;

/* ---- what is fed ---- */

static uint8_t mem[4096]; /* any bytes will do; the first ones are small indices */

static gr_named feeds[] = {
    { "image", GR_F32, { 4, { 2, 6, 6, 4 } }, mem },
    { "tokens", GR_F32, { 3, { 2, 5, 12 } }, mem },
    { "matrix", GR_F32, { 2, { 3, 4 } }, mem },
    { "row", GR_F32, { 1, { 4 } }, mem },
    { "one", GR_F32, { 0, { 0 } }, mem },
    { "kernel", GR_F32, { 4, { 4, 4, 3, 3 } }, mem },
    { "heads", GR_BF16, { 4, { 2, 5, 3, 4 } }, mem },
    { "half", GR_F16, { 2, { 3, 4 } }, mem },
    { "wide", GR_F64, { 3, { 2, 3, 4 } }, mem },
    { "index", GR_I64, { 2, { 2, 5 } }, mem },
    { "label", GR_I32, { 1, { 3 } }, mem },
    { "byte", GR_U8, { 2, { 3, 4 } }, mem },
    { "mask", GR_BOOL, { 2, { 2, 5 } }, mem },
};
#define N_INDEX 9 /* "index", then "label" */
#define N_FEEDS ((int)(sizeof(feeds) / sizeof(feeds[0])))

/* ---- choices ---- */

static unsigned byte(fuzz *f)
{
    return f->at < f->end ? *f->at++ : 0;
}

static gr_value *any(fuzz *f)
{
    unsigned b = byte(f);

    return b >= 252 ? NULL : f->pool[b % (unsigned)f->n];
}

/* Half of them small and positive. */
static int64_t size(fuzz *f)
{
    static const int64_t odd[] = { 0,         -1,        7,
                                   12,        16,        -2,
                                   24,        INT32_MAX, (int64_t)1 << 33,
                                   INT64_MAX, INT64_MIN, INT64_MAX / 2,
                                   255,       -100,      64,
                                   1000 };
    unsigned b = byte(f);

    return b < 192 ? (int64_t)(b % 6) : odd[b % 16];
}

static double number(fuzz *f)
{
    static const double odd[] = { 0, -1, 2, 1e-300, 1e300, 1e39, 1e-5, -0.5 };
    unsigned b = byte(f);

    if (b < 128)
        return (double)(b % 16) / 16 + 1e-3;
    if (b < 136)
        return b % 2 ? (double)NAN : (b % 4 ? (double)INFINITY : -(double)INFINITY);
    return odd[b % 8];
}

static gr_dtype type(fuzz *f)
{
    unsigned b = byte(f);

    return b >= 250 ? (gr_dtype)(b % 2 ? -1 : GR_DTYPE_COUNT) : (gr_dtype)(b % GR_DTYPE_COUNT);
}

static int axis(fuzz *f)
{
    unsigned b = byte(f);

    return b >= 250 ? INT32_MIN : (int)(b % 8) - 4;
}

static unsigned axes(fuzz *f)
{
    unsigned b = byte(f);

    return b >= 224 ? GR_AXES_ALL : b >= 192 ? 1u << 31 : b % 32;
}

static bool coin(fuzz *f)
{
    return byte(f) % 2;
}

static gr_shape shape(fuzz *f)
{
    gr_shape s = { .n_dims = (int)(byte(f) % 5) };
    unsigned b = byte(f);

    for (int i = 0; i < s.n_dims; i++)
        s.dim[i] = size(f);
    if (b >= 250)
        s.n_dims = b % 2 ? -1 : GR_MAX_DIMS + 1;
    else if (b < 128 && f->n > 0)
        s = gr_value_shape(any(f)); /* one that may fit */
    return s;
}

/* ---- operators, by kind ---- */

static gr_value *op_map(fuzz *f)
{
    static const char *const one[] = { "exp",    "relu", "gelu", "not",   "isnan",
                                       "square", "sign", "acos", "round", "no such function",
                                       "add",    "where" };
    static const char *const two[] = { "add", "div", "max", "atan2", "floor_div",
                                       "mod", "eq",  "and", "exp",   "" };
    static const char *const three[] = { "where", "lerp", "add" };
    gr_value *a = any(f);

    switch (byte(f) % 8) {
    case 0: return gr_map1_at(GR_HERE, f->g, one[byte(f) % 12], a);
    case 1: return gr_map2_at(GR_HERE, f->g, two[byte(f) % 10], a, any(f));
    case 2: return gr_map3_at(GR_HERE, f->g, three[byte(f) % 3], a, any(f), any(f));
    case 3: return gr_mapk_at(GR_HERE, f->g, two[byte(f) % 10], a, number(f));
    case 4: return gr_pow(f->g, a, number(f));
    case 5: return gr_clamp(f->g, a, number(f), number(f));
    case 6: return gr_masked_fill(f->g, a, any(f), number(f));
    default: return gr_scale_shift(f->g, a, any(f), any(f));
    }
}

static gr_value *op_shape(fuzz *f)
{
    static const int swapped[GR_MAX_DIMS] = { 1, 0, 2, 3, 4, 5, 6, 7 };
    gr_value *a = any(f);
    int order[GR_MAX_DIMS];
    int64_t lo[GR_MAX_DIMS], hi[GR_MAX_DIMS];
    gr_range ranges[GR_MAX_DIMS];

    for (int i = 0; i < GR_MAX_DIMS; i++) {
        order[i] = axis(f);
        lo[i] = size(f);
        hi[i] = size(f);
        ranges[i] = (gr_range){ lo[i], hi[i], i % 2 ? 1 : size(f) };
    }
    switch (byte(f) % 12) {
    case 0: return gr_reshape(f->g, a, shape(f));
    case 1: return gr_broadcast(f->g, a, shape(f));
    case 2: return gr_transpose(f->g, a, coin(f) ? order : swapped);
    case 3: return gr_squeeze(f->g, a, axis(f));
    case 4: return gr_unsqueeze(f->g, a, axis(f));
    case 5: return gr_flatten(f->g, a, axis(f), axis(f));
    case 6: return gr_slice(f->g, a, ranges);
    case 7: return gr_slice_axis(f->g, a, axis(f), size(f), size(f));
    case 8: return gr_pad(f->g, a, lo, hi, number(f));
    case 9: return gr_flip(f->g, a, axes(f));
    case 10: return gr_patchify(f->g, a, size(f), (gr_patch_order)(byte(f) % 3));
    default: return gr_unpatchify(f->g, a, shape(f), (gr_patch_order)(byte(f) % 3));
    }
}

static gr_value *op_join(fuzz *f)
{
    gr_value *src[3] = { any(f), any(f), any(f) }, *out[4] = { NULL };
    int64_t sizes[4] = { size(f), size(f), size(f), size(f) };
    int n = (int)(byte(f) % 5) - 1;

    if (n == 3 && coin(f))
        src[1] = src[2] = src[0];
    switch (byte(f) % 3) {
    case 0: return gr_concat(f->g, src, n, axis(f));
    case 1: return gr_stack(f->g, src, n, axis(f));
    default: gr_split(f->g, src[0], axis(f), n, coin(f) ? sizes : NULL, out); return out[0];
    }
}

static gr_value *op_reduce(fuzz *f)
{
    static const char *const fns[] = { "sum", "mean", "max", "min", "none" };
    gr_value *a = any(f), *index = NULL;
    const char *fn = fns[byte(f) % 5];

    switch (byte(f) % 7) {
    case 0: return gr_reduce_at(GR_HERE, f->g, fn, a, axes(f), coin(f));
    case 1: return gr_count_nonzero(f->g, a, axes(f), coin(f));
    case 2: return gr_arg_reduce_at(GR_HERE, f->g, fn, a, axis(f), coin(f), &index);
    case 3: return gr_arg_index_at(GR_HERE, f->g, fn, a, axis(f), coin(f));
    case 4: return gr_softmax(f->g, a, axis(f));
    case 5: return gr_log_softmax(f->g, a, axis(f));
    default: return gr_logsumexp(f->g, a, axis(f), coin(f));
    }
}

static gr_value *op_product(fuzz *f)
{
    gr_value *a = any(f), *b = any(f);
    gr_conv c = GR_CONV_INIT;

    if (byte(f) % 2)
        return gr_matmul_t(f->g, a, b, coin(f), coin(f));
    for (int i = 0; i < 2; i++) {
        c.stride[i] = coin(f) ? 1 : size(f);
        c.pad[i] = coin(f) ? 1 : size(f);
        c.dilation[i] = coin(f) ? 1 : size(f);
        c.out_pad[i] = coin(f) ? 0 : size(f);
    }
    c.groups = coin(f) ? 1 : size(f);
    if (coin(f))
        return gr_conv2d(f->g, a, b, byte(f) % 8 ? &c : NULL);
    return gr_conv_transpose2d(f->g, a, b, byte(f) % 8 ? &c : NULL);
}

static gr_value *op_image(fuzz *f)
{
    gr_value *a = byte(f) % 4 ? f->pool[0] : any(f);
    gr_window w = GR_WINDOW_INIT;

    for (int i = 0; i < 2; i++) {
        w.kernel[i] = size(f);
        w.stride[i] = coin(f) ? 1 : size(f);
        w.padding[i] = coin(f) ? 0 : size(f);
        w.dilation[i] = coin(f) ? 1 : size(f);
    }
    w.ceil_mode = coin(f);
    w.without_padding = coin(f);
    switch (byte(f) % 5) {
    case 0: return gr_max_pool2d(f->g, a, &w);
    case 1: return gr_avg_pool2d(f->g, a, byte(f) % 8 ? &w : NULL);
    case 2: return gr_adaptive_avg_pool2d(f->g, a, size(f) % 300, size(f) % 300);
    case 3: return gr_global_avg_pool2d(f->g, a);
    default: return gr_resize(f->g, a, size(f) % 300, size(f) % 300, (gr_resize_mode)(byte(f) % 7));
    }
}

static gr_value *op_norm(fuzz *f)
{
    gr_value *a = any(f), *w = coin(f) ? NULL : any(f), *b = coin(f) ? NULL : any(f);
    gr_batch_norm_args args = GR_BATCH_NORM_INIT;

    switch (byte(f) % 5) {
    case 0: return gr_layer_norm(f->g, a, w, b, number(f));
    case 1: return gr_rms_norm_at(GR_HERE, f->g, a, w, number(f), coin(f));
    case 2: return gr_group_norm(f->g, a, size(f), w, b, number(f));
    case 3: return gr_swiglu(f->g, a);
    default:
        args.weight = w;
        args.bias = b;
        args.eps = number(f);
        args.momentum = number(f);
        args.running_mean = coin(f) ? NULL : any(f);
        args.running_var = coin(f) ? NULL : any(f);
        args.frozen = coin(f);
        return gr_batch_norm(f->g, a, &args);
    }
}

static gr_value *op_attention(fuzz *f)
{
    gr_value *q = any(f), *k = any(f), *v = coin(f) ? k : any(f);
    gr_attention_opts o = { .heads = size(f),
                            .kv_heads = coin(f) ? 0 : size(f),
                            .scale = coin(f) ? 0 : number(f),
                            .causal = coin(f),
                            .dropout = coin(f) ? 0 : number(f),
                            .key_mask = coin(f) ? NULL : any(f),
                            .bias = coin(f) ? NULL : any(f) };
    gr_rotary_opts r = { .base = coin(f) ? 0 : number(f),
                         .axes = axis(f),
                         .interleaved = coin(f),
                         .heads = size(f),
                         .max_position = coin(f) ? 0 : size(f) };

    if (coin(f))
        q = k = v;
    switch (byte(f) % 5) {
    case 0: return gr_attention(f->g, q, k, v, byte(f) % 4 ? &o : NULL);
    case 1: return gr_attention_packed(f->g, q, &o);
    case 2: return gr_attention_cross(f->g, q, k, &o);
    case 3: return gr_cosine_attention(f->g, q, k, v, coin(f) ? NULL : any(f), &o);
    default: return gr_rotary(f->g, q, coin(f) ? NULL : any(f), byte(f) % 4 ? &r : NULL);
    }
}

static gr_value *op_index(fuzz *f)
{
    gr_value *a = any(f), *i = byte(f) % 4 ? f->pool[N_INDEX + byte(f) % 2] : any(f), *out = NULL;
    gr_rbf_config rbf = { (int)(size(f) % 300), number(f), number(f), number(f), number(f) };

    switch (byte(f) % 14) {
    case 0: return gr_gather(f->g, a, i);
    case 1: return gr_embedding(f->g, a, i, size(f));
    case 2: return gr_scatter_add(f->g, a, i, size(f));
    case 3: return gr_index_select(f->g, a, axis(f), i);
    case 4: return gr_take_along(f->g, a, axis(f), i);
    case 5: return gr_top_k(f->g, a, size(f), coin(f), &out);
    case 6:
        return gr_knn(f->g, a, coin(f) ? NULL : any(f), ((gr_knn_config){ size(f), coin(f) }),
                      &out);
    case 7: return gr_cross(f->g, a, any(f));
    case 8: return gr_dot(f->g, a, any(f), coin(f));
    case 9: return gr_norm(f->g, a, coin(f));
    case 10: return gr_rbf(f->g, a, rbf);
    case 11: return gr_sinusoid(f->g, size(f) % 300, size(f) % 300, number(f));
    case 12: return gr_time_waves(f->g, a, size(f) % 300, number(f));
    default: return gr_one_hot(f->g, i, size(f), type(f));
    }
}

static gr_value *op_random(fuzz *f)
{
    gr_dtype t = type(f);

    switch (byte(f) % 9) {
    case 0: return gr_random_uniform(f->g, t, shape(f), number(f), number(f));
    case 1: return gr_random_normal(f->g, t, shape(f), number(f), number(f));
    case 2: return gr_random_bernoulli(f->g, t, shape(f), number(f));
    case 3: return gr_random_int(f->g, t, shape(f), size(f), size(f));
    case 4: return gr_random_perm(f->g, t, shape(f));
    case 5: return gr_dropout(f->g, any(f), number(f));
    case 6: return gr_drop_path(f->g, any(f), number(f));
    case 7: return gr_fill(f->g, t, shape(f), number(f));
    default: return gr_cast(f->g, any(f), t);
    }
}

static gr_value *op_loss(fuzz *f)
{
    gr_value *a = any(f), *b = any(f), *count = NULL;
    gr_cross_entropy_options o = GR_CROSS_ENTROPY_INIT;

    o.ignore_index = coin(f) ? -100 : size(f);
    o.label_smoothing = coin(f) ? 0 : number(f);
    o.weight = coin(f) ? NULL : any(f);
    switch (byte(f) % 16) {
    case 0: return gr_softmax_xent(f->g, a, b);
    case 1: return gr_cross_entropy(f->g, a, b);
    case 2: return gr_cross_entropy_each(f->g, a, b, &o);
    case 3: return gr_cross_entropy_parts(f->g, a, b, byte(f) % 4 ? &o : NULL, &count);
    case 4: return gr_cross_entropy_mean(f->g, a, b, &o);
    case 5: return gr_counted_mean(f->g, a, b);
    case 6: return gr_soft_cross_entropy_each(f->g, a, b);
    case 7: return gr_neg_entropy(f->g, a);
    case 8: return gr_entropy_loss(f->g, a, b);
    case 9: return gr_kl_each(f->g, a, b);
    case 10: return gr_bce_logits_each(f->g, a, b, coin(f) ? NULL : any(f));
    case 11: return gr_focal_each(f->g, a, b, number(f), number(f));
    case 12: return gr_dice(f->g, a, b, number(f));
    case 13: return gr_smooth_l1_each(f->g, a, b, number(f));
    case 14: return gr_masked_mse(f->g, a, b, any(f));
    default: return gr_jpeg_mse(f->g, a, b, coin(f) ? NULL : any(f), (int)size(f));
    }
}

static const char *name_of(fuzz *f)
{
    static const char *const names[] = { "a", "b", "layers.0", "", "a.weight" };
    unsigned b = byte(f);

    return b >= 250 ? NULL : names[b % 5];
}

static gr_value *op_layer(fuzz *f)
{
    const char *name = name_of(f);
    gr_value *a = any(f);
    gr_attention_opts o = { .heads = size(f),
                            .kv_heads = coin(f) ? 0 : size(f),
                            .key_mask = coin(f) ? NULL : any(f) };
    gr_transformer_opts t = { .heads = size(f),
                              .hidden = size(f),
                              .activation = (gr_activation)(byte(f) % 5),
                              .dropout = coin(f) ? 0 : number(f),
                              .norm_first = coin(f),
                              .causal = coin(f) };

    switch (byte(f) % 18) {
    case 14:
        return gr_vit_block(f->g, name, a,
                            &(gr_vit_block_opts){ .heads = size(f), .qk_norm = coin(f) });
    case 15: return gr_jit_block(f->g, name, a, any(f), &(gr_jit_block_opts){ .heads = size(f) });
    case 16:
        return gr_gpt2_block(f->g, name, a,
                             &(gr_gpt2_block_opts){ .heads = size(f), .depth = size(f) });
    case 0: return gr_linear(f->g, name, a, size(f));
    case 1: return gr_conv_layer(f->g, name, a, size(f), size(f), NULL, NULL);
    case 2: return gr_conv_transpose_layer(f->g, name, a, size(f), size(f), NULL, NULL);
    case 3: return gr_batch_norm_layer(f->g, name, a);
    case 4: return gr_layer_norm_layer(f->g, name, a, number(f));
    case 5: return gr_rms_norm_layer(f->g, name, a, number(f));
    case 6: return gr_group_norm_layer(f->g, name, a, size(f));
    case 7: return gr_embedding_layer(f->g, name, a, size(f), size(f), NULL);
    case 8: return gr_multihead_attention(f->g, name, a, coin(f) ? NULL : any(f), &o);
    case 9: return gr_encoder_layer(f->g, name, a, &t);
    case 10: return gr_decoder_layer(f->g, name, a, any(f), &t);
    case 11: return gr_param(f->g, name, shape(f), gr_init_normal(number(f), number(f)));
    case 12: return gr_embedding_layer_padded(f->g, name, a, size(f), size(f), size(f), NULL);
    case 13: return gr_conv_layer_hw(f->g, name, a, size(f), size(f), size(f), NULL, NULL);
    default: return gr_buffer(f->g, name, type(f), shape(f), gr_init_const(number(f)));
    }
}

/* Ends and begins in any order. */
static void op_scope(fuzz *f)
{
    switch (byte(f) % 4) {
    case 1: gr_frozen_begin(f->g); break;
    case 2: gr_frozen_end(f->g); break;
    default: gr_block_end(f->g); break;
    }
}

static gr_value *op_graph(fuzz *f)
{
    gr_value *a = any(f);

    switch (byte(f) % 7) {
    case 0: gr_output(f->g, name_of(f), a); break;
    case 1: gr_loss(f->g, a); break;
    case 2: gr_assign(f->g, a, any(f)); break;
    case 3: gr_freeze(f->g, a); break;
    case 4: gr_block_begin(f->g, name_of(f)); break;
    case 5: op_scope(f); break;
    default: gr_gradients(f->g, a, (gr_value *[]){ any(f) }, (int)(byte(f) % 3) - 1, &a); return a;
    }
    return NULL;
}

static gr_value *(*const ops[])(fuzz *f) = { op_map,     op_shape, op_join,  op_reduce,
                                             op_product, op_image, op_norm,  op_index,
                                             op_random,  op_loss,  op_layer, op_attention,
                                             op_graph };
#define N_OPS ((unsigned)(sizeof(ops) / sizeof(ops[0])))

/* ---- the trace ---- */

static void add_ops(fuzz *f, const fuzz *how, gr_value **last)
{
    for (int i = 0; i < MAX_OPS && how->at + i * OP_BYTES < how->end; i++) {
        const uint8_t *from = how->at + i * OP_BYTES;
        unsigned op = *from % N_OPS;
        gr_value *v;

        if (how->skip & 1u << i)
            continue;
        f->at = from + 1;
        f->end = how->end - from < OP_BYTES ? how->end : from + OP_BYTES;
        v = ops[op](f);
        f->failed = i;
        GR_BUG_IF(!v && ops[op] != op_graph && gr_graph_status(f->g) == GR_OK);
        if (gr_graph_status(f->g) != GR_OK)
            return;
        if (v)
            *last = f->pool[f->n++] = v;
    }
    f->failed = -1;
}

static gr_status trace(gr_graph *g, void *user)
{
    fuzz *how = user, f = { .g = g };
    gr_value *w = gr_param(g, "w", GR_SCALAR, gr_init_const(1)), *last = w;

    for (int i = 0; i < N_FEEDS; i++) {
        gr_value *v = gr_input(g, feeds[i].name);

        /* What is trained comes before everything, so that gradients are asked for. */
        if (gr_dtype_is_float(feeds[i].dtype))
            v = gr_mul(g, v, gr_cast(g, w, feeds[i].dtype));
        f.pool[f.n++] = v;
    }
    f.pool[f.n++] = gr_fill(g, GR_F32, GR_SHAPE(0, 4), 0);
    add_ops(&f, how, &last);
    how->failed = f.failed;
    if (gr_graph_status(g) != GR_OK) {
        GR_BUG_IF(gr_graph_status(g) == GR_ERR_ARG && !strstr(gr_error_message(), "fuzz_build.c:"));
        return gr_graph_status(g);
    }
    gr_output(g, "last", last);
    if (gr_is_training(g))
        gr_loss(g, gr_add(g, gr_sum(g, gr_cast(g, last, GR_F32), GR_AXES_ALL, false), w));
    return gr_graph_status(g);
}

static void try_it(fuzz *how, bool training)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_memory_report r;
    gr_step *s;
    gr_status st;

    c.device = "cpu";
    c.trace = trace;
    c.user = how;
    how->failed = -1;
    GR_BUG_IF(gr_step_create(&s, &c) != GR_OK);
    st = gr_step_memory_report(s, training, feeds, N_FEEDS, &r);
    if (st == GR_OK && r.total <= MAX_BYTES)
        st = training ? gr_step_train(s, feeds, N_FEEDS, 0.1) : gr_step_eval(s, feeds, N_FEEDS);
    GR_BUG_IF(st != GR_OK && gr_error_message()[0] == '\0');
    gr_step_destroy(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    memset(mem, 0, sizeof(mem));
    mem[0] = mem[8] = mem[17] = 1;
    for (int training = 0; training < 2; training++) {
        fuzz how = { .at = data, .end = data + n_bytes };

        for (int i = 0; i <= MAX_OPS; i++) {
            try_it(&how, training);
            if (how.failed < 0)
                break;
            how.skip |= 1u << how.failed;
        }
    }
    return 0;
}
