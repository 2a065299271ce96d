/*
 * Operators and kernels.
 *
 * An operator knows its shape rule, its gradient rule and its kernels. Kernels are
 * tried in order, best first; the last is the plain reference, and it is the law.
 *
 * A kernel says no by its table (reject, takes) or, where only the library behind it knows,
 * in prepare() (gr_decline). Either way the next one is tried, and if none takes the node,
 * the message has all reasons.
 */
#ifndef GR_GRAPH_OP_H
#define GR_GRAPH_OP_H

#include "base/pool.h"
#include "graph/graph.h"
#include "graph/scalars.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_kernel gr_kernel;
typedef struct gr_kernel_set gr_kernel_set;
struct gr_fusion;

/* What mixed precision does with a node. */
typedef enum gr_amp_class {
    GR_AMP_FOLLOW, /* low if a floating source is low and none but parameters is wide */
    GR_AMP_FIRST,  /* low if the first source is */
    GR_AMP_LOW,    /* sources are cast to the low type, result is low */
    GR_AMP_WIDE,   /* takes low sources as they are, result stays f32 */
    GR_AMP_KEEP    /* types are not touched (state, updates, collectives) */
} gr_amp_class;

/* Where the executor may move a node. Nodes of one kind keep their order among
 * themselves, so that every rank starts its collectives in the same order. */
typedef enum gr_place {
    GR_PLACE_AS_IS, /* where it was traced */
    GR_PLACE_EARLY, /* as soon as its sources exist: starts something that goes on alone */
    GR_PLACE_LATE   /* just before the first node that needs it, else last: waits for that */
} gr_place;

#define GR_ANY_COUNT (-1)

struct gr_op {
    const char *name;
    int n_src; /* or GR_ANY_COUNT */
    int n_out;
    gr_amp_class amp;
    bool tunes;        /* so much work that measuring which kernel is fastest pays */
    bool has_effect;   /* kept though nothing reads it: collectives */
    gr_place place;    /* what the executor's schedule does with it */
    bool on_exchange;  /* queued on the device's exchange stream, where it has one */
    unsigned wide_src; /* GR_AMP_LOW: bit i: source i is not cast (a log-sum-exp, say) */

    /* Fills out[i].shape and .dtype (and .alias, .space where not plain arena memory)
     * from the sources and attr. An output dtype that a pass has fixed before is in
     * `n->out[i].dtype` when infer runs again; operators for which the result type is
     * free (matmul, map, reduce) keep it in attr. GR_ERR_ARG with shapes in the text. */
    gr_status (*infer)(gr_node *n);

    /* Adds the nodes of the gradient. d_out[i] is the gradient of output i, or NULL when
     * nothing depends on it (not all are NULL). Fills d_src[i], or leaves NULL where
     * there is none (integer sources). NULL slot: the operator has no gradient. */
    gr_status (*grad)(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src);

    /* Same node with another result type, for the amp pass: returns the attr to use
     * instead, from the graph's arena. NULL slot: the type follows from the sources. */
    const void *(*retype)(gr_graph *g, const gr_node *n, gr_dtype t);

    /* Adds the attributes to a dump: " trans_b". NULL slot: none. */
    void (*print)(const gr_node *n, gr_text *out);

    /* Best first, ended by one with name NULL. NULL: runs nothing (input, variable,
     * reshape). */
    const gr_kernel *kernels;
};

/* Bytes of workspace that a kernel may ask for where a library offers more for more. It counts
 * in what a step needs like everything else in the arena. */
#define GR_WORK_LIMIT ((size_t)32 << 20)

#define GR_WHY_BYTES 160

typedef struct gr_prepare {
    const gr_node *node;
    int n_threads; /* of the pool it will run on */
    void *device;  /* gr_device, for kernels of that device's module */
    void *stream;  /* the one it will run on: gr_launch.stream */
    /* What each address will be a multiple of, as far as that is known; 0 for what has none. */
    const size_t *src_align, *out_align; /* NULL: nothing is known */
    size_t work_align;                   /* of the workspace; 0: nothing is known */
    const gr_kernel_set *sets; /* where the kernel comes from: for those that run others */
    const char *only;          /* tests: the name of the kernel to force, there too; or NULL */
    const char *variant;       /* one of variants(); NULL: the kernel's own choice */
    size_t work_limit;         /* bytes of workspace; 0: GR_WORK_LIMIT */
    void *data;                /* out: owned by the plan, ended by release() */
    char why[GR_WHY_BYTES];    /* out: filled by gr_decline() */
} gr_prepare;

/* The same for another node that the kernel runs: nothing is known of its addresses. */
static inline gr_prepare gr_prepare_for(const gr_prepare *p, const gr_node *n)
{
    gr_prepare other = *p;

    other.node = n;
    other.data = NULL;
    other.src_align = other.out_align = NULL;
    other.work_align = 0;
    return other;
}

/* For prepare(): this kernel does not take the node after all, and the next one of the list is
 * to be tried. `return gr_decline(p, "cuDNN has no engine for it")`, after ending what was
 * made; the status is passed up like a failure's. */
GR_API gr_status gr_decline(gr_prepare *p, const char *fmt, ...) GR_PRINTF(2, 3);

typedef struct gr_launch {
    const gr_node *node;
    void *const *src; /* n_src addresses in device memory; NULL for GR_SPACE_NONE */
    void *const *out;
    void *work;                /* workspace() bytes, at the device's alignment; NULL when 0 */
    void *data;                /* what prepare() left */
    const gr_scalars *scalars; /* device memory */
    gr_fault *fault;           /* device-visible */
    void *stream;              /* the node's, of the backend; NULL on the CPU */
    gr_pool *pool;             /* CPU threads; NULL: the caller alone */
} gr_launch;

struct gr_kernel {
    const char *name; /* "avx512", "onednn", "reference"; without ':' */
    /* NULL when it takes the node, else why not. NULL slot: takes all. */
    const char *(*reject)(const gr_node *n);
    /* Of a node with a fusion (graph/fusion.h), n->fusion == f: NULL when it carries out all of
     * it, else why not. reject() is asked, too. NULL slot: takes none. */
    const char *(*takes)(const gr_node *n, const struct gr_fusion *f);
    /* The ways in which it can run p->node, a line each, best guess first: each the library's
     * own identity of an algorithm, which is the same in the next process, and never a place
     * in a list that the library may order otherwise. For measuring, which prepares each.
     * NULL slot: there is one way. */
    gr_status (*variants)(const gr_prepare *p, gr_text *out);
    /* Once per plan; may allocate, and may decline. A variant that it does not know is one to
     * decline. NULL slot: nothing to do. */
    gr_status (*prepare)(gr_prepare *p);
    /* Bytes of scratch in the arena while it runs. NULL slot: 0. */
    size_t (*workspace)(const gr_node *n, const void *data);
    /* Allocates nothing, waits for nothing on a GPU; empty tensors are fine. */
    gr_status (*run)(const gr_launch *l);
    void (*release)(void *data);
    /* On a GPU: may not be part of a captured graph (host work in it). */
    bool no_capture;
    /* May write result 0 over a source of its shape and type. All that it reads of
     * that memory for an element is that element. */
    bool in_place;
};

/* Kernels that a device module brings for the operators of these names. */
struct gr_kernel_set {
    const char *op; /* NULL ends the array */
    const gr_kernel *kernels;
};

/* A kernel that is ready to run a node. */
typedef struct gr_ready {
    const gr_kernel *kernel;
    void *data;
    size_t work_bytes;
    bool is_prepared; /* data is ours to release */
} gr_ready;

/*
 * The first kernel that takes p->node and can be prepared: `choice` ("kernel" or
 * "kernel:variant") if there is one and it can, then those of the list, then, with a fusion,
 * what runs it piece by piece. p->sets NULL: the operator's own (CPU) list. With p->only the
 * kernel of that name and then the last of the list, which takes everything, so that a test
 * can force one. GR_ERR_ARG and every refusal when there is none; p->data, p->variant and
 * p->why are not used.
 */
GR_API gr_status gr_kernel_ready(gr_ready *out, const gr_prepare *p,
                                 const char *choice) GR_MUST_CHECK;
/* The same with this kernel and variant (NULL: its own choice) alone. *declined, where not
 * NULL, says that the failure is none: the kernel declined, and the message has the reason. */
GR_API gr_status gr_kernel_ready_one(gr_ready *out, const gr_prepare *p, const gr_kernel *k,
                                     const char *variant, bool *declined) GR_MUST_CHECK;
/* The same with "kernel" or "kernel:variant"; one that is not there is declined, too. */
GR_API gr_status gr_kernel_ready_choice(gr_ready *out, const gr_prepare *p, const char *choice,
                                        bool *declined) GR_MUST_CHECK;
/* NULL-safe ends: a gr_ready of zeros is fine. */
GR_API void gr_kernel_end(gr_ready *r);

/* Why the kernel does not take the node, by its table alone; NULL: it does. */
GR_API const char *gr_kernel_refusal(const gr_kernel *k, const gr_node *n);
/* The first kernel that takes the node by its table alone, as gr_kernel_ready() goes through
 * them; prepare() may still decline. NULL and a message with every refusal when none does. */
GR_API const gr_kernel *gr_kernel_pick(const gr_kernel_set *sets, const gr_node *n,
                                       const char *only);
GR_API const gr_kernel *gr_kernel_list(const gr_kernel_set *sets, const gr_op *op);
/* Kernel number i that may be asked for the node: those of the list, then what runs a fusion
 * piece by piece. NULL: there are no more. */
GR_API const gr_kernel *gr_kernel_at(const gr_kernel_set *sets, const gr_node *n, int i);

extern const gr_op gr_op_input, gr_op_variable;

#ifdef __cplusplus
}
#endif

#endif
