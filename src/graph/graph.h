/*
 * The graph: nodes in execution order, each with source values and output values.
 *
 * (1) Nodes stand in an order in which they can run: a node comes after the producers
 *     of its sources and after every node in `after`.
 * (2) Every value has a producer. Inputs and state variables are made by nodes of the
 *     operators "input" and "variable", which run nothing.
 * (3) A value that shares memory with another says so in `alias` (views, in-place
 *     writes). Chains are allowed; gr_value_root() follows them.
 * (4) A state variable is written by at most one node per graph: an output that aliases
 *     the variable's value. All other readers of the old value stand before that node.
 * (5) Node ids are given at trace time and survive every pass: they key random streams.
 *
 * gr_graph_verify() checks 1 to 4 and the operators' own shape rules.
 * Everything lives in the graph's arena. One thread.
 */
#ifndef GR_GRAPH_GRAPH_H
#define GR_GRAPH_GRAPH_H

#include "base/arena.h"
#include "base/text.h"
#include "gradus/graph.h"
#include "graph/vars.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_node gr_node;
typedef struct gr_op gr_op;
struct gr_fusion;

typedef enum gr_space {
    GR_SPACE_NONE,     /* no memory: order only, the token of a collective */
    GR_SPACE_ARENA,    /* per step; offset given by the memory plan */
    GR_SPACE_STATE,    /* variables; offset given by gr_vars_seal() */
    GR_SPACE_EXCHANGE, /* gradient buckets; offset given by the sync pass */
    GR_SPACE_INPUT     /* bound to a pointer at each run */
} gr_space;

typedef enum gr_phase {
    GR_PHASE_FORWARD,
    GR_PHASE_BACKWARD,
    GR_PHASE_SYNC,
    GR_PHASE_UPDATE
} gr_phase;

struct gr_value {
    gr_node *node; /* producer */
    int index;     /* which of its outputs */
    int id;        /* place in gr_graph.values: stable name in dumps, "%7" */
    gr_shape shape;
    gr_dtype dtype;
    gr_space space;
    size_t offset;    /* bytes within its space, once given */
    gr_value *alias;  /* shares the memory of this value, from its start; or NULL */
    gr_var *var;      /* the variable that lies here; or NULL */
    const char *name; /* of inputs and variables; NULL for others */
    bool is_grad;     /* gradient of a parameter: stays f32 under amp */
};

struct gr_node {
    const gr_op *op;
    uint32_t id;
    gr_phase phase;
    int n_src, n_out;
    gr_value **src;
    gr_value *out;    /* n_out values */
    const void *attr; /* the operator's own; arena-owned, read-only after building */
    /* Programs that it carries out on load and on its results, and then the layout of sources
     * and results is that of graph/fusion.h; NULL: none. */
    const struct gr_fusion *fusion;
    const char *site; /* "file:line" of the builder's caller */
    gr_node **after;  /* must run before this one, beyond the sources */
    int n_after;
    int block; /* number of the block it was traced in, from 1; 0: none */
};

typedef struct gr_output {
    const char *name;
    gr_value *value;
} gr_output;

struct gr_graph {
    gr_arena *arena;       /* owned */
    gr_vars *vars;         /* borrowed: shared by all graphs of a step */
    const gr_named *feeds; /* borrowed during tracing: shapes of the inputs */
    int n_feeds;
    bool training;           /* also in its frozen parts; builders ask gr_is_training() */
    bool sync_norm;          /* statistics of batch norm are those of all ranks' batches */
    const char *frozen_site; /* where the frozen part began that is open now; NULL: none is */
    int frozen_depth;        /* how many of their begins are open */
    int n_frozen;            /* frozen parts, but for those within another */
    gr_phase phase;          /* of nodes added now */

    gr_node **nodes;
    int n_nodes, cap_nodes;
    gr_value **values;
    int n_values, cap_values;
    gr_output *outputs;
    int n_outputs, cap_outputs;
    uint32_t next_id;
    const char **blocks; /* names; block b is blocks[b - 1] */
    int n_blocks, cap_blocks;
    int block, block_depth;  /* of nodes added now; how many begins are open */
    bool in_place;           /* results may take the place of sources that end there */
    int n_recomputed;        /* blocks whose values the backward pass computes anew */
    size_t recomputed_bytes; /* that are not kept because of that */

    gr_value *loss;         /* NULL in evaluation */
    struct gr_terms *terms; /* what the loss is made of, and records (op/loss/terms.h); or NULL */
    int sum_ranks;          /* so many ranks sum up what terms are made of; 0: each its own; -1: not
                               possible, because other micro-steps come */
    gr_value *loss_count;   /* what gradients are multiplied by when they are summed over
                               micro-steps: how many elements the loss is the mean of; or NULL */
    gr_value *grad_scale;   /* how many times too large the exchanged gradients are; or NULL */
    gr_value **grads;       /* by variable index, n_grads of them; NULL: none */
    int n_grads;
    const bool *wanted; /* during autodiff: by value id; NULL: everything is */
    int n_wanted;
    gr_value *vote;    /* of all ranks (op/vote); or NULL */
    gr_value *control; /* gradient norm, factor and skip flag (op/update); or NULL */

    gr_status status; /* the first failure, with its message */
    char *message;
};

/* ---- building ---- */

gr_status gr_graph_create(gr_graph **out, gr_vars *vars, bool training, const gr_named *feeds,
                          int n_feeds) GR_MUST_CHECK;
void gr_graph_destroy(gr_graph *g);

/* A call to add a node. attr is copied (attr_bytes of it). */
typedef struct gr_build {
    const gr_op *op;
    const char *site;
    gr_value *const *src; /* a NULL source makes the call return NULL quietly */
    int n_src;
    int n_out; /* of an operator with any count of them; 0: one less than sources */
    const void *attr;
    size_t attr_bytes;
    const struct gr_fusion *fusion; /* of the graph's arena; NULL: none */
} gr_build;

/* Adds a node at the end, infers its outputs, and returns it; NULL after a failure,
 * which then sticks to the graph with operator, shapes and site in the message. */
gr_node *gr_graph_add(gr_graph *g, const gr_build *b);
/* The first output of the node that gr_graph_add() made, or NULL. */
gr_value *gr_graph_add_value(gr_graph *g, const gr_build *b);

/* The same node over other sources, with phase and id of its own and the same attributes
 * (random streams are kept in them). NULL: the graph has failed. */
gr_node *gr_graph_clone(gr_graph *g, const gr_node *n, gr_value *const *src);

/* Keeps `st` and the thread's message as the graph's failure, unless it has one. */
void gr_graph_stick(gr_graph *g, gr_status st);
/* Whether a builder may go on: nothing has failed and v is a value. NULL, unless it comes from
 * an earlier failure, is one of its own: "file:line: <what>: its input is NULL". */
bool gr_graph_given(gr_graph *g, const char *site, const char *what, const gr_value *v);

/* A variable's value as a node of this graph; one node per variable and graph. */
gr_value *gr_graph_var(gr_graph *g, const char *site, gr_var *v);

/* Drops nodes that nothing needs: not an output, no state written, no effect. */
gr_status gr_graph_prune(gr_graph *g) GR_MUST_CHECK;
/* Orders the nodes anew by rule (1), keeping the present order where it is free. */
gr_status gr_graph_sort(gr_graph *g) GR_MUST_CHECK;
/* Moves the nodes of a phase to right behind the last node they wait for, but not before
 * the end of the forward pass. Needs a graph that was sorted: writers then wait for all
 * readers. */
gr_status gr_graph_hoist(gr_graph *g, gr_phase phase) GR_MUST_CHECK;
/* Lets the node read `v` as source s; results that lay in the old source lie in v. */
void gr_node_set_source(gr_node *n, int s, gr_value *v);
/* Lets the first n_nodes nodes, outputs and the loss be made of `to` in place of `from`. */
void gr_graph_replace(gr_graph *g, const gr_value *from, gr_value *to, int n_nodes);
/* Orders `node` after `before`. */
gr_status gr_node_after(gr_graph *g, gr_node *node, gr_node *before) GR_MUST_CHECK;

/* Rules 1-4; the message begins with "after <pass>: ". */
gr_status gr_graph_verify(const gr_graph *g, const char *after_pass) GR_MUST_CHECK;

/* ---- reading ---- */

/* The value whose memory this one uses: follows alias to its end. */
const gr_value *gr_value_root(const gr_value *v);
/* Whether v is `of` or a view of it, its value before anybody wrote it in place. */
bool gr_value_views(const gr_value *v, const gr_value *of);
size_t gr_value_bytes(const gr_value *v);
/* For gradient rules: whether the gradient of v is asked for. What is not may be left out
 * where that saves work; autodiff drops it anyway. */
bool gr_graph_wants(const gr_graph *g, const gr_value *v);
/* "matmul [128, 784] f32 x [512, 784] f32" into text, for messages. */
void gr_node_describe(const gr_node *n, char *text, size_t n_bytes);

void gr_graph_print(const gr_graph *g, gr_text *out);
void gr_graph_print_dot(const gr_graph *g, gr_text *out);

#ifdef __cplusplus
}
#endif

#endif
