/*
 * Element types, shapes, and named tensors in host memory.
 *
 * Tensors are dense and row major: the last dimension is contiguous. A rank-0 shape
 * holds one element; a dimension may be 0.
 */
#ifndef GRADUS_TENSOR_H
#define GRADUS_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gradus/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* id, name in messages, name in safetensors, bytes, is it a floating type? */
#define GR_DTYPE_MAP(X)              \
    X(F32, "f32", "F32", 4, true)    \
    X(F64, "f64", "F64", 8, true)    \
    X(BF16, "bf16", "BF16", 2, true) \
    X(F16, "f16", "F16", 2, true)    \
    X(I32, "i32", "I32", 4, false)   \
    X(I64, "i64", "I64", 8, false)   \
    X(U8, "u8", "U8", 1, false)      \
    X(BOOL, "bool", "BOOL", 1, false)

typedef enum gr_dtype {
#define X(id, name, st_name, bytes, is_float) GR_##id,
    GR_DTYPE_MAP(X)
#undef X
        GR_DTYPE_COUNT
} gr_dtype;

#define GR_MAX_DIMS 8

typedef struct gr_shape {
    int n_dims;
    int64_t dim[GR_MAX_DIMS];
} gr_shape;

/* "f32"; static. Any thread, as the next two. Of a number that is no type: "no type", 0 bytes,
 * not floating. */
GR_API const char *gr_dtype_name(gr_dtype t);
/* Of one element. */
GR_API size_t gr_dtype_bytes(gr_dtype t);
GR_API bool gr_dtype_is_float(gr_dtype t);

/* gr_shape_of(2, (int64_t[]){128, 784}) or GR_SHAPE(128, 784). More than GR_MAX_DIMS, less than 0,
 * or some and `dim` NULL give a shape that gr_shape_check() and all that takes shapes refuse. */
GR_API gr_shape gr_shape_of(int n_dims, const int64_t *dim);
#define GR_SHAPE(...)                                                        \
    gr_shape_of((int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), \
                (const int64_t[]){ __VA_ARGS__ })
#define GR_SCALAR gr_shape_of(0, NULL)

/* Number of elements. Shapes that passed gr_shape_check() do not overflow. */
GR_API int64_t gr_shape_count(const gr_shape *s);
GR_API bool gr_shape_equal(const gr_shape *a, const gr_shape *b);

/* GR_ERR_ARG on a negative dimension, too many dimensions, or a byte size over 2^62. */
GR_API gr_status gr_shape_check(const gr_shape *s, gr_dtype t) GR_MUST_CHECK;

/* "[128, 784]" into `text`, cut at n_bytes; returns `text`. */
#define GR_SHAPE_TEXT 200
GR_API const char *gr_shape_text(const gr_shape *s, char *text, size_t n_bytes);

/* Elements in host memory with their type: pointer and count never travel alone. */
typedef struct gr_vec {
    void *mem;
    size_t n_elem;
    gr_dtype dtype;
} gr_vec;

/* A named tensor in host memory; `mem` is borrowed unless its owner says otherwise. */
typedef struct gr_named {
    const char *name;
    gr_dtype dtype;
    gr_shape shape;
    void *mem;
} gr_named;

/*
 * A snapshot: named tensors and text entries, all owned by it. What a checkpoint
 * stores, and what a step gives out and takes back. Not thread-safe; may be handed
 * from thread to thread.
 */
typedef struct gr_snapshot gr_snapshot;

/* An empty one. GR_ERR_NOMEM. Caller owns *out; destroy accepts NULL and frees all tensors. */
GR_API gr_status gr_snapshot_create(gr_snapshot **out) GR_MUST_CHECK;
GR_API void gr_snapshot_destroy(gr_snapshot *s);

/* Adds a tensor of zeroed memory and lends it in *mem. GR_ERR_ARG for a name that is there
 * already or a shape that gr_shape_check() refuses; GR_ERR_NOMEM. */
GR_API gr_status gr_snapshot_add(gr_snapshot *s, const char *name, gr_dtype t, gr_shape shape,
                                 void **mem) GR_MUST_CHECK;
/* Tensors, in the order they were added; i from 0 to before the count. Borrowed. */
GR_API int gr_snapshot_count(const gr_snapshot *s);
GR_API const gr_named *gr_snapshot_at(const gr_snapshot *s, int i);
/* NULL when there is none of that name. */
GR_API const gr_named *gr_snapshot_find(const gr_snapshot *s, const char *name);

/* Text entries ("gradus.step" = "120"); setting a key again replaces it. */
GR_API gr_status gr_snapshot_set(gr_snapshot *s, const char *key, const char *text) GR_MUST_CHECK;
/* NULL when there is none. Borrowed until the key is set again. */
GR_API const char *gr_snapshot_get(const gr_snapshot *s, const char *key);
GR_API int gr_snapshot_n_texts(const gr_snapshot *s);
GR_API void gr_snapshot_text_at(const gr_snapshot *s, int i, const char **key, const char **text);

#ifdef __cplusplus
}
#endif

#endif
