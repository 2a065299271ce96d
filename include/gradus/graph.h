/*
 * Graphs: what one training step computes, written down once by a trace function.
 *
 * A trace function is called with an empty graph and adds to it. Builders (here, in
 * ops.h and nn.h) return a borrowed gr_value that lives as long as the graph, or NULL
 * after a failure. The first failure sticks to the graph: later builders return NULL
 * at once, so a trace need not check each call, only `return gr_graph_status(g)`.
 * The message names the operator, the shapes and the line of the caller's file.
 *
 * Options may be written in the call, &(gr_attention_opts){ .heads = 4, .causal = true }: builders
 * that take them are macros that end in `...`, so that the commas of a literal do no harm; the
 * function below each names its parameters.
 *
 * A graph belongs to one thread.
 */
#ifndef GRADUS_GRAPH_H
#define GRADUS_GRAPH_H

#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_graph gr_graph;
typedef struct gr_value gr_value; /* one tensor in a graph */

/* The place of a call as one static string. Builders are macros that pass it on. */
#define GR_STRINGIFY_(x) #x
#define GR_STRINGIFY(x)  GR_STRINGIFY_(x)
#define GR_HERE          __FILE__ ":" GR_STRINGIFY(__LINE__)

/* How a state variable starts. Random ones are drawn from mt19937 in the order of the
 * variable table, as PyTorch draws them in the order of construction. */
typedef enum gr_init_kind {
    GR_INIT_CONST,
    GR_INIT_UNIFORM,
    GR_INIT_NORMAL,
    GR_INIT_TRUNC_NORMAL
} gr_init_kind;

typedef struct gr_init {
    gr_init_kind kind;
    double a;      /* CONST: the value; UNIFORM: from; NORMAL, TRUNC_NORMAL: mean */
    double b;      /* UNIFORM: to; NORMAL, TRUNC_NORMAL: standard deviation */
    double lo, hi; /* TRUNC_NORMAL: nothing lies outside */
    int64_t zeros; /* gr_init_zero_row(): its row, counted from 1; 0: none */
} gr_init;

/* The four kinds; plain values. Uniform is over [from, to). Any thread. */
GR_API gr_init gr_init_const(double value);
GR_API gr_init gr_init_uniform(double from, double to);
GR_API gr_init gr_init_normal(double mean, double std);
/* torch.nn.init.trunc_normal_; lo and hi are numbers, not multiples of std. */
GR_API gr_init gr_init_trunc_normal(double mean, double std, double lo, double hi);

/* `init`, but for the row `row` >= 0 of the first dimension: zeros. As many numbers are drawn, as
 * in torch.nn.Embedding with padding_idx. */
GR_API gr_init gr_init_zero_row(gr_init init, int64_t row);

/* How many inputs and outputs an element of a weight serves: a weight is [out, in, ..], all
 * further dimensions being places of a kernel. 0 and 0 with fewer than two dimensions. */
GR_API void gr_init_fans(gr_shape weight, double *fan_in, double *fan_out);

/* torch.nn.init: xavier has the deviation gain sqrt(2 / (fan_in + fan_out)), kaiming
 * gain / sqrt(fan); uniform ones reach to sqrt(3) times that. The gain of relu is sqrt(2), of
 * leaky_relu(k) sqrt(2 / (1 + k^2)), of tanh 5/3, of linear 1. */
GR_API gr_init gr_init_xavier_uniform(double fan_in, double fan_out, double gain);
GR_API gr_init gr_init_xavier_normal(double fan_in, double fan_out, double gain);
GR_API gr_init gr_init_kaiming_uniform(double fan, double gain);
GR_API gr_init gr_init_kaiming_normal(double fan, double gain);

/* Data fed at each run; shape and type are those of the feed of that name. */
#define gr_input(g, name) gr_input_at(GR_HERE, g, name)
GR_API gr_value *gr_input_at(const char *site, gr_graph *g, const char *name);

/* A trainable parameter (f32). The first trace makes it; a later one of that name must
 * have the same shape. Names are those of a PyTorch module: "blocks.0.attn.qkv.weight". */
#define gr_param(g, name, shape, init) gr_param_at(GR_HERE, g, name, shape, init)
GR_API gr_value *gr_param_at(const char *site, gr_graph *g, const char *name, gr_shape shape,
                             gr_init init);

/* Marks the parameter frozen: no gradient, no bucket, no optimiser state. */
#define gr_freeze(g, param) gr_freeze_at(GR_HERE, g, param)
GR_API void gr_freeze_at(const char *site, gr_graph *g, gr_value *param);

/* What is traced between the two is a frozen part, in evaluation mode whatever the graph is for:
 * batch norm normalises with its running statistics and leaves them alone, dropout and drop path do
 * nothing, gr_assign() adds nothing and gr_is_training() is false. Parameters asked for there are
 * frozen, as by gr_freeze(), wherever else they are used. Gradients pass through the part to what
 * is trained below it, and cost nothing where there is no such thing. Names do not change: a
 * checkpoint of the same network that trains all of it fits. Parts may lie within each other. */
#define gr_frozen_begin(g) gr_frozen_begin_at(GR_HERE, g)
#define gr_frozen_end(g)   gr_frozen_end_at(GR_HERE, g)
GR_API void gr_frozen_begin_at(const char *site, gr_graph *g);
GR_API void gr_frozen_end_at(const char *site, gr_graph *g);

/* State that is not trained (running statistics, counters): f32 or i64, in checkpoints under
 * its name. The first trace makes it; a later one of that name must have the same type and
 * shape. An i64 buffer starts from a constant. */
#define gr_buffer(g, name, dtype, shape, init) gr_buffer_at(GR_HERE, g, name, dtype, shape, init)
GR_API gr_value *gr_buffer_at(const char *site, gr_graph *g, const char *name, gr_dtype t,
                              gr_shape shape, gr_init init);

/* Sets the buffer to `value` (of its shape and type) at the end of the run, when everything
 * else of the graph has read the old one. In training only, there in every micro-step;
 * traced for evaluation it adds nothing. A buffer is assigned at most once per graph. In a step
 * that is skipped (gr_step_stats.n_skipped) it has the value of before the step afterwards. */
#define gr_assign(g, buffer, value) gr_assign_at(GR_HERE, g, buffer, value)
GR_API void gr_assign_at(const char *site, gr_graph *g, gr_value *buffer, gr_value *value);

/* What is added between the two is a block: a layer, say "blocks.3". The step may compute
 * its values anew in the backward pass instead of keeping them (gr_step_config.recompute),
 * and reports memory by block. Of blocks within blocks the outermost counts. */
#define gr_block_begin(g, name) gr_block_begin_at(GR_HERE, g, name)
#define gr_block_end(g)         gr_block_end_at(GR_HERE, g)
GR_API void gr_block_begin_at(const char *site, gr_graph *g, const char *name);
GR_API void gr_block_end_at(const char *site, gr_graph *g);

/* Names a value that can be read after a run. */
#define gr_output(g, name, v) gr_output_at(GR_HERE, g, name, v)
GR_API void gr_output_at(const char *site, gr_graph *g, const char *name, gr_value *v);

/* The scalar that training minimises; also an output named "loss". One per graph. */
#define gr_loss(g, v) gr_loss_at(GR_HERE, g, v)
GR_API void gr_loss_at(const char *site, gr_graph *g, gr_value *v);

/* GR_OK, or the first failure while building; sets the thread's message again. */
GR_API gr_status gr_graph_status(const gr_graph *g) GR_MUST_CHECK;
/* Makes the graph fail: for checks of a trace's own. Keeps an earlier failure. */
GR_API void gr_graph_fail(gr_graph *g, const char *site, const char *fmt, ...) GR_PRINTF(3, 4);

/* True in a training trace outside its frozen parts, false when traced for evaluation. */
GR_API bool gr_is_training(const gr_graph *g);

/* Of NULL: a scalar shape, f32; so that a trace may go on after a failure. */
GR_API gr_shape gr_value_shape(const gr_value *v);
GR_API gr_dtype gr_value_dtype(const gr_value *v);

/* The graph as text, one node a line, or as Graphviz. From malloc; free() it. */
GR_API gr_status gr_graph_text(const gr_graph *g, char **out) GR_MUST_CHECK;
GR_API gr_status gr_graph_dot(const gr_graph *g, char **out) GR_MUST_CHECK;

/* Adds the nodes that compute d(y)/d(x[i]) for scalar y, into dx[i]; an x that y does
 * not depend on is an error. y must come later than every x. */
#define gr_gradients(g, y, x, n, dx) gr_gradients_at(GR_HERE, g, y, x, n, dx)
GR_API void gr_gradients_at(const char *site, gr_graph *g, gr_value *y, gr_value *const *x, int n,
                            gr_value **dx);

#ifdef __cplusplus
}
#endif

#endif
