/*
 * A pickle machine that knows tensors and plain containers, and nothing else. It never
 * calls anything: of the names that a pickle may mention (GLOBAL), a short list is known,
 * each with a fixed meaning built in here; every other one is refused by name.
 */
#ifndef GR_CKPT_PICKLE_H
#define GR_CKPT_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GR_PK_TEXTS      "__metadata__" /* a snapshot's texts: the attribute that holds them */
#define GR_PK_MAX_BYTES  ((size_t)256 << 20)
#define GR_PK_MAX_VALUES (1 << 22)

/* id, name in messages */
#define GR_PK_KIND_MAP(X)            \
    X(NONE, "None")                  \
    X(BOOL, "a bool")                \
    X(INT, "an integer")             \
    X(UINT, "an integer")            \
    X(FLOAT, "a float")              \
    X(TEXT, "a text")                \
    X(BYTES, "bytes")                \
    X(TUPLE, "a tuple")              \
    X(LIST, "a list")                \
    X(DICT, "a dict")                \
    X(GLOBAL, "a class or function") \
    X(STORAGE, "a storage")          \
    X(TENSOR, "a tensor")

typedef enum gr_pk_kind {
#define X(id, name) GR_PK_##id,
    GR_PK_KIND_MAP(X)
#undef X
        GR_PK_KIND_COUNT
} gr_pk_kind;

/* What a known name stands for. */
typedef enum gr_pk_role {
    GR_PK_ORDERED_DICT,
    GR_PK_COUNTER,
    GR_PK_REBUILD_V1, /* torch._utils._rebuild_tensor */
    GR_PK_REBUILD_V2,
    GR_PK_PARAMETER,
    GR_PK_ENCODE, /* _codecs.encode: how protocol 2 spells bytes */
    GR_PK_EMPTY_BYTES,
    GR_PK_SIZE,         /* torch.Size */
    GR_PK_STORAGE_CLASS /* of a persistent id; cannot be called */
} gr_pk_role;

typedef struct gr_pk_global {
    const char *module, *name;
    gr_pk_role role;
    gr_dtype dtype; /* of a storage class */
} gr_pk_global;

typedef struct gr_pk_value gr_pk_value;

typedef struct gr_pk_text {
    const unsigned char *at; /* not ended by NUL */
    size_t n;
} gr_pk_text;

/* Elements of a tuple, list; of a dict: key, value, key, value ... */
typedef struct gr_pk_items {
    gr_pk_value **at;
    int n, cap;
} gr_pk_items;

typedef struct gr_pk_storage {
    gr_pk_text key;
    gr_dtype dtype;
    size_t n_elem;        /* of the whole storage */
    size_t first, n_view; /* the part of it that is meant; legacy files have such */
} gr_pk_storage;

typedef struct gr_pk_tensor {
    const gr_pk_storage *storage;
    size_t first; /* element of the storage */
    gr_shape shape;
    int64_t stride[GR_MAX_DIMS]; /* elements, not negative; all within the storage's numbers */
} gr_pk_tensor;

struct gr_pk_value {
    gr_pk_kind kind;
    union {
        bool b;
        int64_t i;
        uint64_t u;
        double f;
        gr_pk_text text; /* TEXT (valid UTF-8) and BYTES */
        gr_pk_items items;
        const gr_pk_global *global;
        const gr_pk_storage *storage;
        const gr_pk_tensor *tensor;
    };
};

const char *gr_pk_kind_name(gr_pk_kind kind);

/* One machine may load several pickles in a row. Values and storages live in its arena and
 * point into the bytes they came from. */
typedef struct gr_pk {
    gr_arena *arena;                /* owned */
    const gr_pk_storage **storages; /* owned array: every storage met, in order */
    int n_storages, cap_storages;
    int n_values;

    /* The pickle being loaded. */
    const unsigned char *bytes; /* borrowed */
    size_t n_bytes, pos;
    size_t offset;       /* of `bytes` in the file, for messages */
    gr_pk_value **stack; /* owned array */
    int n_stack, cap_stack;
    int *marks; /* owned array: heights of the stack */
    int n_marks, cap_marks;
    gr_pk_value **memo; /* owned array; NULL where nothing was put */
    int n_memo, cap_memo;
    gr_pk_value *result;
} gr_pk;

/* Ended with _fini, after a failure too. */
gr_status gr_pk_init(gr_pk *pk) GR_MUST_CHECK;
void gr_pk_fini(gr_pk *pk);

/* Loads the pickle that begins at `bytes`; *n_used: the bytes up to and with its STOP.
 * GR_ERR_FORMAT names the byte of the file. */
gr_status gr_pk_load(gr_pk *pk, const unsigned char *bytes, size_t n_bytes, size_t offset,
                     gr_pk_value **out, size_t *n_used) GR_MUST_CHECK;

/* Within the machine (pickle.c, pickle_ops.c, pickle_call.c). */
gr_pk_value *gr_pk_new(gr_pk *pk, gr_pk_kind kind); /* NULL: message set, see gr_pk_no_value() */
gr_status gr_pk_no_value(const gr_pk *pk) GR_MUST_CHECK;
/* Counts `n` more places towards GR_PK_MAX_VALUES. */
gr_status gr_pk_count(gr_pk *pk, size_t n) GR_MUST_CHECK;
gr_status gr_pk_items_add(gr_pk *pk, gr_pk_items *items, gr_pk_value *v) GR_MUST_CHECK;
gr_status gr_pk_push(gr_pk *pk, gr_pk_value *v) GR_MUST_CHECK;
gr_status gr_pk_pop(gr_pk *pk, gr_pk_value **out) GR_MUST_CHECK; /* not below a mark */
gr_status gr_pk_take(gr_pk *pk, size_t n_bytes, const unsigned char **out) GR_MUST_CHECK;
bool gr_pk_text_is(gr_pk_text t, const char *s);
bool gr_pk_is_utf8(const unsigned char *p, size_t n);
/* NULL when the name is not on the list. */
const gr_pk_global *gr_pk_global_find(gr_pk_text module, gr_pk_text name);
/* What calling `callee` with `args` would give. */
gr_status gr_pk_call(gr_pk *pk, const gr_pk_value *callee, const gr_pk_value *args,
                     gr_pk_value **out) GR_MUST_CHECK;
gr_status gr_pk_persistent(gr_pk *pk, const gr_pk_value *id, gr_pk_value **out) GR_MUST_CHECK;

typedef gr_status gr_pk_op(gr_pk *pk, unsigned char code);
/* By opcode; NULL: refused. */
extern gr_pk_op *const gr_pk_ops[256];
#define GR_PK_STOP '.'

/* A text of the pickle made fit for a message: see gr_st_shown(). Returns `buf`. */
#define GR_PK_SHOWN_BYTES 100
const char *gr_pk_shown(gr_pk_text t, char buf[GR_PK_SHOWN_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
