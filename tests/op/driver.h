/*
 * The operator driver: takes a table of cases and does to each what every operator must
 * stand (rule 39):
 *
 *   shape rule   a case with `want` must fail to build, naming operator, shapes, site
 *   gradient     the operator's gradient rule against finite differences, both in f64 on
 *                reference kernels
 *   kernels      every other kernel against the reference, all float types, one and two
 *                threads, outputs and workspace poisoned twice with different bytes
 *   golden       reference and kernels against numbers made with PyTorch
 *
 * A check that fails prints case, kernel, type, element and both values, and ends the
 * process. Each family of operators has its table in cases_<family>.c:
 *
 *     static gr_value *build_add(gr_graph *g, gr_value *const *src, const driver_case *c)
 *     {
 *         return gr_add(g, src[0], src[1]);
 *     }
 *     static const driver_case cases[] = {
 *         { .name = "add", .op = "map", .build = build_add, .n_src = 2,
 *           .src = { DRIVER_F32(3, 5), DRIVER_F32(5) },
 *           .grad = 3, .flags = DRIVER_FLOATS | DRIVER_GOLDEN },
 *         { .name = "add of other shapes", .op = "map", .build = build_add, .n_src = 2,
 *           .src = { DRIVER_F32(3, 5), DRIVER_F32(4) }, .want = "[4]" },
 *     };
 *     const driver_family driver_map = { "map", cases, DRIVER_COUNT(cases) };
 */
#ifndef GR_TESTS_OP_DRIVER_H
#define GR_TESTS_OP_DRIVER_H

#include "backend/backend.h"
#include "graph/op.h"

#define DRIVER_MAX_SRC 8
#define DRIVER_MAX_OUT 4

#define DRIVER_COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

/* A shape as a constant: DRIVER_DIMS(3, 5). DRIVER_DIMS0: one element, no dimensions. */
#define DRIVER_DIMS(...)                                                                \
    {                                                                                   \
        .n_dims = (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), .dim = { \
            __VA_ARGS__                                                                 \
        }                                                                               \
    }
#define DRIVER_DIMS0 \
    {                \
        .n_dims = 0  \
    }

/* The usual sources; ranges are then the defaults of their type. */
#define DRIVER_SRC(t, ...)                              \
    {                                                   \
        .dtype = (t), .shape = DRIVER_DIMS(__VA_ARGS__) \
    }
#define DRIVER_F32(...) DRIVER_SRC(GR_F32, __VA_ARGS__)
#define DRIVER_STATE(...)                                                    \
    {                                                                        \
        .dtype = GR_F32, .shape = DRIVER_DIMS(__VA_ARGS__), .is_state = true \
    }
/* Values in [from, to], both included for integers. */
#define DRIVER_RANGE(t, from, to, ...)                                             \
    {                                                                              \
        .dtype = (t), .shape = DRIVER_DIMS(__VA_ARGS__), .lo = (from), .hi = (to), \
        .has_range = true                                                          \
    }

typedef struct driver_src {
    gr_dtype dtype;
    gr_shape shape;
    bool is_state; /* a state variable, which the operator may write in place */
    double lo, hi; /* values are drawn from here; both 0 without has_range: -2..2,
                      integers -5..5, u8 0..9, bool 0..1 */
    bool has_range;
    double away; /* no value nearer to 0 than this: for kinks and poles */
} driver_src;

/* Sources declared f32 (state excepted) are run as f64, bf16 and f16, too. */
#define DRIVER_FLOATS 1u
/* Kernels must give the reference's bits: copies, integers. */
#define DRIVER_EXACT 2u
/* Thread counts may give different bits; the default is that they may not. */
#define DRIVER_THREADS_DIFFER 4u
/* tests/golden/<family>.txt has a record of this name, with these shapes and types. */
#define DRIVER_GOLDEN 8u
/* Infinities, NaN, zeros of both signs, huge and subnormal numbers are strewn in. */
#define DRIVER_SPECIAL 16u
/* The data is bad: every kernel must return a failure or set the fault. */
#define DRIVER_FAULTS 32u
/* Too large for finite differences and for the sanitizers' patience: left out there. */
#define DRIVER_LARGE 64u
/* With `want`: the message need not show the sources' shapes, for they do not matter. */
#define DRIVER_NO_SHAPES 128u

typedef struct driver_case driver_case;

/* Adds one node of the operator over the given sources; returns any output of it. */
typedef gr_value *driver_build_fn(gr_graph *g, gr_value *const *src, const driver_case *c);

struct driver_case {
    const char *name; /* unique within the family */
    const char *op;
    driver_build_fn *build;
    const char *fn;  /* for build: a function's name, or NULL */
    const void *arg; /* for build: attributes, or NULL */
    int n_src;
    driver_src src[DRIVER_MAX_SRC];
    unsigned flags;
    unsigned grad;      /* bit i: source i has a gradient that is checked; ignored with `want` */
    unsigned grad_outs; /* bit i: output i has a gradient; 0: the one that build returned */
    int64_t n_reduced;  /* terms that are summed into one element; 0: nothing is summed */
    double slack;       /* multiplies the tolerance; 0 counts as 1. Say why in a comment */
    double scale;       /* usual size of one term; 0: 1 where something is summed, else 0 */
    double low_abs;     /* bf16 and f16: so many half-steps at 1 are allowed besides, since terms
                           are rounded to that type on their way; say why in a comment */
    const gr_scalars *scalars; /* NULL: lr 0.1, micro 0, step 1, seed 7 */
    const char *want;          /* building must fail with this in the message */
};

typedef struct driver_family {
    const char *name; /* golden data is tests/golden/<name>.txt */
    const driver_case *cases;
    int n_cases;
} driver_family;

/* Where kernels run. device NULL: host memory, the operators' own kernels. Else memory of
 * that device and the kernels of its module, which are compared to the host's reference. */
typedef struct driver_target {
    gr_device *device;
    const gr_kernel_set *kernels;
} driver_target;

/* All checks of all cases. */
void driver_run_family(const driver_family *f, const driver_target *t);

/*
 * What |got - want| may be when a sum of n = n_reduced terms of size `scale` was computed
 * in f32 (f64 for f64) and rounded to `store` at the end:
 *   4 eps_c sqrt(n) max(|want|, sqrt(n) scale)  +  2 eps_s |want|  +  smallest number
 * The partial sums are of size sqrt(n) scale, and n roundings of random sign of them add
 * up like sqrt(n); 4 leaves room for unlucky signs.
 */
double driver_tolerance(const driver_case *c, int64_t n_reduced, gr_dtype store, double want);

/* ---- the parts, for tests that need more ---- */

/* A graph made from a case, and host memory for its sources. */
typedef struct driver_world {
    const driver_case *c;
    gr_vars *vars;
    gr_graph *graph;
    /* The pristine data of the sources, then of the gradients of outputs; mem owned. */
    gr_named feed[DRIVER_MAX_SRC + DRIVER_MAX_OUT];
    char name[DRIVER_MAX_SRC + DRIVER_MAX_OUT][8];
    gr_dtype as; /* type taken for f32 sources */
    int n_feeds;
    gr_value *src[DRIVER_MAX_SRC];
    gr_node *node;                   /* of the operator; NULL when building failed */
    int returned;                    /* which output build returned */
    gr_value *d_src[DRIVER_MAX_SRC]; /* after driver_world_grad(); NULL: none */
    int d_feed[DRIVER_MAX_OUT];      /* which feed is the gradient of output i; -1: none */
} driver_world;

/* Builds the graph; data is random but the same at every call. */
void driver_world_init(driver_world *w, const driver_case *c, gr_dtype as);
/* Adds the operator's gradient nodes, by its own rule, over random gradients of outputs. */
void driver_world_grad(driver_world *w);
void driver_world_fini(driver_world *w);

/* Every value of a graph in memory of its own, with guards around it. */
typedef struct driver_eval driver_eval;

typedef struct driver_how {
    const char *only; /* kernel name; NULL: the best one. Operators without a kernel of
                         that name use their reference. */
    int n_threads;
    unsigned char poison;        /* bytes that outputs and workspace start with */
    const driver_target *target; /* NULL: host */
} driver_how;

/* Runs every node of w->graph in order. GR_OK, or what a kernel returned; a set fault is
 * GR_ERR_ARG. Ends the process when a guard was overwritten. The caller owns *out. */
gr_status driver_eval_run(driver_eval **out, driver_world *w, const driver_how *how);
/* Host memory with the value's elements; borrowed from e. */
const void *driver_eval_get(const driver_eval *e, const gr_value *v);
void driver_eval_destroy(driver_eval *e);

/* Element i of memory of type t, as a double, and back (rounded to the type). */
double driver_get(gr_dtype t, const void *mem, int64_t i);
void driver_set(gr_dtype t, void *mem, int64_t i, double x);

/* A record of golden data: named tensors "src0".., "out0".., "dout0", "dsrc0".. */
typedef struct driver_golden driver_golden;
gr_status driver_golden_load(driver_golden **out, const char *family);
void driver_golden_destroy(driver_golden *d);
/* NULL when the record or the tensor is missing. */
const gr_named *driver_golden_find(const driver_golden *d, const char *record, const char *tensor);

#endif
