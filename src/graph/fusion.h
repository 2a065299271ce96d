/*
 * Fusions: elementwise programs that a node carries out together with its operator, on load
 * and on its result, so that what stands between them is never stored.
 *
 *     x ──► load program ──┐
 *     w ───────────────────┴─► operator ──► end program ──┬─► stored       node's result 0
 *     bias, scale ─────────────────────────────┘          ├─► stored       result 1
 *                                                         └─► summed over  result 2
 *                                                             rows
 *
 * The layout of a node with a fusion f (n->fusion == f, op and attr are the operator's own):
 * (1) Sources 0 .. n_own_src - 1 are the operator's, as they lie in memory: before the
 *     program on load. What programs read beside that follows; a program's source 0 is the
 *     operator's source (or result), its source i >= 1 is the node's source first + i - 1
 *     and broadcasts to it.
 * (2) Results 0 .. n_ends - 1 are the ends: registers of the program on the operator's result
 *     0, each stored or reduced. The operator's results 1 .. follow as they are.
 * (3) Programs are computed in f32. The operator's result enters the end program as the
 *     operator's rule gives it (`own`), or less rounded; `own` is f32 where the operator can
 *     give f32, whatever type is stored in the end.
 * (4) A program on load has its source's shape, and gives what the operator then reads.
 *
 * Any node can have any fusion: what no kernel takes as a whole, `rules->apart` runs piece by
 * piece. The fuse pass makes fusions where a kernel takes them (pass/fuse_offer.c). The
 * gradient rule never sees one: fusing comes after autodiff.
 *
 * Everything lies in the graph's arena and is read-only once a node has it.
 */
#ifndef GR_GRAPH_FUSION_H
#define GR_GRAPH_FUSION_H

#include "graph/graph.h"
#include "graph/program.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GR_FUSION_MAX_SRC  8 /* of the operator */
#define GR_FUSION_MAX_OUT  4
#define GR_FUSION_MAX_ENDS 4

/* What becomes of a register for all elements of the result. */
typedef enum gr_fate {
    GR_FATE_STORE,
    GR_FATE_SUM,  /* over `axes`, in f32 like the next two */
    GR_FATE_MEAN, /* over `axes` */
    GR_FATE_M2    /* the sum of squared distances from that mean, which is never its square
                     taken from a sum of squares: batch statistics */
} gr_fate;

typedef struct gr_fused_end {
    gr_fate fate;
    int reg;        /* of the end program: 0, the operator's result, or one of its instructions */
    unsigned axes;  /* reduced ones, as gr_reduce_attr has them; 0 with GR_FATE_STORE */
    bool keep;      /* reduced dimensions stay, as 1 */
    gr_dtype dtype; /* f32 unless stored */
} gr_fused_end;

typedef struct gr_fused_program {
    const gr_program *program;
    int first; /* the node's source that is the program's source 1 */
} gr_fused_program;

struct gr_kernel;

/* What the room of operators knows of fusions, and this one cannot. */
typedef struct gr_fusion_rules {
    const struct gr_kernel *apart; /* runs any node with a fusion */
    void (*print)(const gr_node *n, gr_text *out);
} gr_fusion_rules;

typedef struct gr_fusion {
    const gr_fusion_rules *rules;
    int n_own_src, n_own_out;
    const gr_value *own;          /* shapes and types of the operator's results */
    const gr_fused_program *load; /* by the operator's source, program NULL: read as it lies;
                                     NULL: all are */
    gr_fused_program end;         /* always there; without instructions it passes on */
    int n_ends;
    gr_fused_end ends[GR_FUSION_MAX_ENDS];
} gr_fusion;

/* The program that source s goes through on load; NULL: none, or no fusion. */
GR_API const gr_program *gr_fusion_load(const gr_node *n, int s);

/* The operator's view of a node with or without fusion: sources as it reads them, results as
 * it gives them. Values that a program stands before are made up and have an id of -1. */
typedef struct gr_plain {
    gr_node node;
    gr_value *src[GR_FUSION_MAX_SRC];
    gr_value loaded[GR_FUSION_MAX_SRC];
    gr_value own[GR_FUSION_MAX_OUT];
} gr_plain;

/* Fills *out, which must stay where it is: its node points into it. */
GR_API void gr_fusion_plain(const gr_node *n, gr_plain *out);

/* The shape rule of any node: the operator's own, and that of its fusion. */
gr_status gr_node_infer(gr_node *n) GR_MUST_CHECK;
/* Adds the attributes and the fusion to a dump. */
void gr_node_print_attr(const gr_node *n, gr_text *out);

/* Lets `to` be what `from` is: reads, views, outputs and lists that point to `from` point to
 * `to` from now on. `to` belongs to a node of the graph; `from` is dead after that. */
void gr_graph_move_value(gr_graph *g, gr_value *from, gr_value *to);

#ifdef __cplusplus
}
#endif

#endif
