/*
 * Cases of attention and its gradient: every form, and shapes at the edges that the kernels
 * know (blocks of 32 queries and 64 keys, head sizes that are no multiple of a vector).
 *
 * Tolerance: probabilities sum up to 1, so a result is no larger than its values; an error of
 * a score is one of its probability. In 16 bits, probabilities and their gradients are rounded
 * to the type before they are multiplied, and o was: half a step each (low_abs).
 */
#include "op/driver.h"
#include "op/families.h"

#include "gradus/attention.h"
#include "op/attention/attention.h"

#include <string.h>

/* fn names the options: 'm' key mask, 'b' bias (sources in this order, after q, k, v or what
 * holds them), 'c' causal, 'd' dropout 0.3, 's' scale 1.5; 'P' packed qkv, 'K' packed kv.
 * arg: the number of query heads, where the shape does not say it. */
static gr_value *build(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    const char *fn = c->fn;
    gr_attention_opts o = { .causal = strchr(fn, 'c') != NULL };
    int n = strchr(fn, 'P') ? 1 : strchr(fn, 'K') ? 2 : 3;

    if (c->arg) {
        o.heads = ((const int64_t *)c->arg)[0];
        o.kv_heads = ((const int64_t *)c->arg)[1];
    }
    if (strchr(fn, 'm'))
        o.key_mask = src[n++];
    if (strchr(fn, 'b'))
        o.bias = src[n++];
    if (strchr(fn, 's'))
        o.scale = 1.5;
    if (strchr(fn, 'd'))
        o.dropout = 0.3;
    if (strchr(fn, 'x'))
        o.dropout = 1;
    if (strchr(fn, 'P'))
        return gr_attention_packed(g, src[0], &o);
    if (strchr(fn, 'K'))
        return gr_attention_cross(g, src[0], src[1], &o);
    return gr_attention(g, src[0], src[1], src[2], &o);
}

/* There is no public builder: autodiff makes this one. */
static gr_value *build_grad(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    gr_attention_attr at = { .heads = 2, .kv_heads = 2, .scale = 0.5, .dtype = GR_F32 };

    if (c->arg)
        at.dtype = *(const gr_dtype *)c->arg;
    return gr_graph_add_value(g, &(gr_build){ .op = &gr_op_attention_grad,
                                              .site = GR_HERE,
                                              .src = src,
                                              .n_src = c->n_src,
                                              .attr = &at,
                                              .attr_bytes = sizeof(at) });
}

static const int64_t two_heads[] = { 2, 2 }, three_heads[] = { 3, 3 }, shared[] = { 4, 2 },
                     no_heads[] = { 0, 0 };
static const gr_dtype to_bf16 = GR_BF16, to_i32 = GR_I32;

#define CASE(text, opts, n, ...)                                                   \
    .name = (text), .op = "attention", .build = build, .fn = (opts), .n_src = (n), \
    .src = { __VA_ARGS__ }, .low_abs = 8
#define Q(...)                           DRIVER_F32(__VA_ARGS__)
#define MASK(...)                        DRIVER_SRC(GR_BOOL, __VA_ARGS__)
#define HIDE(...)                        DRIVER_RANGE(GR_BOOL, 0, 1e-9, __VA_ARGS__) /* all of it */
#define QKV(b, nq, nk, hq, hkv, d)       Q(b, nq, hq, d), Q(b, nk, hkv, d), Q(b, nk, hkv, d)
#define REFUSED(text, opts, why, n, ...) CASE(text, opts, n, __VA_ARGS__), .want = (why)
#define GRAD(text, n, ...)                                                     \
    .name = (text), .op = "attention_grad", .build = build_grad, .n_src = (n), \
    .src = { __VA_ARGS__ }, .low_abs = 8
/* n: terms of the longest sum. */
#define FLOATS(n) .grad = 7, .n_reduced = (n), .flags = DRIVER_FLOATS
#define GOLDEN(n) .grad = 7, .n_reduced = (n), .flags = DRIVER_FLOATS | DRIVER_GOLDEN
#define LARGE(n)  .grad = 7, .n_reduced = (n), .flags = DRIVER_FLOATS | DRIVER_LARGE

/* clang-format off */
static const driver_case cases[] = {
    { CASE("self", "", 3, QKV(2, 7, 7, 2, 2, 8)), GOLDEN(8) },
    { CASE("cross", "", 3, QKV(2, 5, 9, 3, 3, 6)), GOLDEN(9) },
    { CASE("causal", "c", 3, QKV(2, 9, 9, 2, 2, 8)), GOLDEN(9) },
    { CASE("causal, more queries", "c", 3, QKV(1, 11, 4, 2, 2, 4)), FLOATS(11) },
    { CASE("causal, more keys", "c", 3, QKV(1, 4, 11, 2, 2, 4)), FLOATS(11) },
    { CASE("grouped", "", 3, QKV(2, 6, 8, 4, 2, 5)), GOLDEN(16) },
    { CASE("one key head", "c", 3, QKV(1, 6, 6, 3, 1, 4)), FLOATS(18) },
    { CASE("masked", "m", 4, QKV(2, 6, 8, 2, 2, 4), MASK(2, 8)), GOLDEN(8) },
    { CASE("masked, causal", "mc", 4, QKV(3, 9, 9, 2, 2, 4), MASK(3, 9)), FLOATS(9) },
    { CASE("scaled", "s", 3, QKV(2, 5, 9, 1, 1, 8)), GOLDEN(16) },

    /* P43: queries that may see no key give 0, and gradients of 0 */
    { CASE("all keys hidden", "m", 4, QKV(2, 5, 7, 2, 2, 4), HIDE(2, 7)), FLOATS(8) },
    { CASE("all keys hidden by the bias", "b", 4, QKV(1, 5, 7, 2, 2, 4),
           DRIVER_RANGE(GR_F32, -1e300, -1e299, 7)), .n_reduced = 8 },

    { CASE("bias", "b", 4, QKV(2, 6, 8, 3, 3, 4), Q(3, 6, 8)), .grad = 15, .n_reduced = 12,
      .flags = DRIVER_FLOATS | DRIVER_GOLDEN },
    { CASE("bias of everything", "b", 4, QKV(2, 6, 8, 3, 3, 4), Q(2, 3, 6, 8)), .grad = 15,
      .n_reduced = 8, .flags = DRIVER_FLOATS },
    { CASE("bias of samples", "b", 4, QKV(2, 6, 8, 3, 3, 4), Q(2, 1, 6, 8)), .grad = 15,
      .n_reduced = 12, .flags = DRIVER_FLOATS },
    { CASE("bias of keys", "b", 4, QKV(2, 6, 8, 3, 3, 4), Q(2, 1, 1, 8)), .grad = 15,
      .n_reduced = 20, .flags = DRIVER_FLOATS },
    { CASE("bias of queries", "b", 4, QKV(2, 6, 8, 3, 3, 4), Q(3, 6, 1)), .grad = 15,
      .n_reduced = 20, .flags = DRIVER_FLOATS },
    { CASE("bias of pairs", "bc", 4, QKV(2, 6, 8, 4, 2, 4), Q(6, 8)), .grad = 15,
      .n_reduced = 20, .flags = DRIVER_FLOATS },
    { CASE("bias, one number", "b", 4, QKV(2, 6, 8, 2, 2, 4), Q(1)), .grad = 15,
      .n_reduced = 200, .flags = DRIVER_FLOATS },
    { CASE("bias and mask", "mb", 5, QKV(1, 33, 66, 2, 1, 20), MASK(1, 66), Q(1, 2, 33, 66)),
      .grad = 23, .n_reduced = 70, .flags = DRIVER_FLOATS },

    { CASE("dropout", "d", 3, QKV(2, 7, 9, 2, 2, 8)), FLOATS(9) },
    { CASE("dropout, causal, grouped", "dc", 3, QKV(1, 35, 35, 4, 2, 5)), FLOATS(70) },
    { CASE("dropout, mask and bias", "dmb", 5, QKV(2, 7, 9, 2, 2, 8), MASK(2, 9), Q(2, 7, 9)),
      .grad = 23, .n_reduced = 9, .flags = DRIVER_FLOATS },
    { CASE("dropout of many blocks", "d", 3, QKV(2, 70, 131, 2, 2, 8)), LARGE(131) },

    { CASE("everything, many blocks", "mcbd", 5, QKV(2, 140, 150, 4, 2, 16), MASK(2, 150),
           Q(4, 140, 150)), .grad = 23, .n_reduced = 280, .flags = DRIVER_FLOATS | DRIVER_LARGE },

    { CASE("packed", "P", 1, Q(2, 7, 6, 8)), .arg = two_heads, .grad = 1, .n_reduced = 8,
      .flags = DRIVER_FLOATS | DRIVER_GOLDEN },
    { CASE("packed, causal, masked, bias", "Pcmb", 3, Q(2, 9, 8, 6), MASK(2, 9), Q(9, 9)),
      .arg = shared, .grad = 5, .n_reduced = 36, .flags = DRIVER_FLOATS },
    { CASE("packed of many blocks", "Pcd", 1, Q(2, 100, 8, 24)), .arg = shared, .grad = 1,
      .n_reduced = 200, .flags = DRIVER_FLOATS | DRIVER_LARGE },
    { CASE("packed kv", "K", 2, Q(2, 5, 2, 8), Q(2, 9, 4, 8)), .grad = 3, .n_reduced = 9,
      .flags = DRIVER_FLOATS | DRIVER_GOLDEN },
    { CASE("packed kv, grouped", "K", 2, Q(2, 5, 4, 8), Q(2, 9, 4, 8)), .grad = 3,
      .n_reduced = 18, .flags = DRIVER_FLOATS },

    { CASE("one of each", "", 3, QKV(1, 1, 1, 1, 1, 1)), FLOATS(1) },
    { CASE("one key", "", 3, QKV(2, 5, 1, 2, 2, 4)), FLOATS(5) },
    { CASE("one query", "", 3, QKV(2, 1, 40, 2, 2, 4)), FLOATS(40) },
    { CASE("no key", "", 3, QKV(2, 3, 0, 2, 2, 4)), FLOATS(1) },
    { CASE("no query", "", 3, QKV(2, 0, 5, 2, 2, 4)), FLOATS(1) },
    { CASE("no sample", "", 3, QKV(0, 3, 5, 2, 2, 4)), FLOATS(1) },
    { CASE("no head size", "s", 3, QKV(1, 3, 5, 2, 2, 0)), FLOATS(5) },

    { CASE("size 32", "", 3, QKV(1, 33, 65, 2, 2, 32)), LARGE(65) },
    { CASE("size 40", "", 3, QKV(1, 31, 63, 1, 1, 40)), FLOATS(63) },
    { CASE("size 48", "c", 3, QKV(1, 64, 64, 1, 1, 48)), LARGE(64) },
    { CASE("size 64", "", 3, QKV(1, 40, 129, 1, 1, 64)), LARGE(129) },
    { CASE("size 80", "c", 3, QKV(1, 70, 70, 1, 1, 80)), LARGE(80) },
    { CASE("size 96", "", 3, QKV(1, 32, 96, 1, 1, 96)), LARGE(96) },
    { CASE("size 128", "", 3, QKV(1, 20, 50, 1, 1, 128)), LARGE(128) },
    { CASE("size 300", "", 3, QKV(1, 20, 50, 1, 1, 300)), LARGE(300) },
    { CASE("many heads", "m", 4, QKV(3, 50, 70, 5, 5, 16), MASK(3, 70)), LARGE(70) },
    { CASE("long", "", 3, QKV(1, 33, 700, 1, 1, 16)), LARGE(700) },
    { CASE("long, causal", "c", 3, QKV(1, 300, 300, 1, 1, 16)), LARGE(300) },
    { CASE("large scores", "s", 3, DRIVER_RANGE(GR_F32, -12, 12, 1, 9, 2, 16),
           DRIVER_RANGE(GR_F32, -12, 12, 1, 70, 2, 16), Q(1, 70, 2, 16)), .grad = 7,
      .n_reduced = 70, .scale = 800 },

    { REFUSED("three types", "", "one floating type", 3, Q(1, 3, 2, 4), DRIVER_SRC(GR_F64, 1, 3, 2, 4),
              Q(1, 3, 2, 4)) },
    { REFUSED("integers", "", "one floating type", 3, DRIVER_SRC(GR_I32, 1, 3, 2, 4),
              DRIVER_SRC(GR_I32, 1, 3, 2, 4), DRIVER_SRC(GR_I32, 1, 3, 2, 4)) },
    { REFUSED("two dimensions", "", "[batch, tokens, heads, head size]", 3, Q(3, 4), Q(3, 4),
              Q(3, 4)), .arg = two_heads },
    { REFUSED("heads that do not fit", "", "4 query heads cannot share 3", 3, QKV(1, 3, 5, 4, 3, 4)) },
    { REFUSED("other heads of v", "", "v must have 2 heads, but has 1", 3, Q(1, 3, 2, 4),
              Q(1, 5, 2, 4), Q(1, 5, 1, 4)) },
    { REFUSED("other batch", "", "one batch size", 3, Q(1, 3, 2, 4), Q(2, 5, 2, 4), Q(2, 5, 2, 4)) },
    { REFUSED("other tokens", "", "as many tokens", 3, Q(1, 3, 2, 4), Q(1, 5, 2, 4), Q(1, 4, 2, 4)) },
    { REFUSED("other size", "", "one head size", 3, Q(1, 3, 2, 4), Q(1, 5, 2, 8), Q(1, 5, 2, 8)) },
    { REFUSED("float mask", "m", "bool [1, 5]", 4, QKV(1, 3, 5, 2, 2, 4), Q(1, 5)) },
    { REFUSED("other mask", "m", "bool [1, 5]", 4, QKV(1, 3, 5, 2, 2, 4), MASK(1, 3)) },
    { REFUSED("other bias", "b", "stretch to [1, 2, 3, 5]", 4, QKV(1, 3, 5, 2, 2, 4), Q(5, 3)) },
    { REFUSED("bool bias", "b", "stretch to [1, 2, 3, 5]", 4, QKV(1, 3, 5, 2, 2, 4), MASK(3, 5)) },
    { REFUSED("all dropped", "x", "dropout must be in [0, 1), not 1", 3, QKV(1, 3, 5, 2, 2, 4)) },
    { REFUSED("packed, other heads", "P", "qkv must have 9 heads, but has 6", 1, Q(1, 3, 6, 4)),
      .arg = three_heads },
    { REFUSED("packed kv, other heads", "K", "kv must have 4 heads, but has 3", 2, Q(1, 3, 2, 4),
              Q(1, 5, 3, 4)), .arg = two_heads },
    { REFUSED("packed without heads", "P", "0 query heads", 1, Q(1, 3, 6, 4)), .arg = no_heads },
    { REFUSED("rows that cannot be cut", "P", "10 numbers per token cannot be cut into 6 heads", 1,
              Q(1, 3, 10)), .arg = two_heads, .flags = DRIVER_NO_SHAPES },

    { GRAD("grad", 6, QKV(1, 5, 6, 2, 2, 4), Q(1, 5, 2, 4), DRIVER_RANGE(GR_F32, 2, 4, 1, 2, 5),
           Q(1, 5, 2, 4)), .n_reduced = 8 },
    { GRAD("grad to bf16", 6, QKV(1, 5, 6, 2, 2, 4), Q(1, 5, 2, 4),
           DRIVER_RANGE(GR_F32, 2, 4, 1, 2, 5), Q(1, 5, 2, 4)), .n_reduced = 8, .arg = &to_bf16 },
    { GRAD("grad of too little", 5, QKV(1, 5, 6, 2, 2, 4), Q(1, 5, 2, 4), Q(1, 2, 5)),
      .want = "gradient of o" },
    { GRAD("grad of another shape", 6, QKV(1, 5, 6, 2, 2, 4), Q(1, 5, 2, 4), Q(1, 2, 5),
           Q(1, 5, 4, 2)), .want = "result's shape" },
    { GRAD("grad of another lse", 6, QKV(1, 5, 6, 2, 2, 4), Q(1, 5, 2, 4), Q(1, 5, 2),
           Q(1, 5, 2, 4)), .want = "log-sum-exp" },
    { GRAD("grad to integers", 6, QKV(1, 5, 6, 2, 2, 4), Q(1, 5, 2, 4), Q(1, 2, 5),
           Q(1, 5, 2, 4)), .arg = &to_i32, .want = "floating" },
};
/* clang-format on */

const driver_family driver_attention = { "attention", cases, DRIVER_COUNT(cases) };
