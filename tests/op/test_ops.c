/*
 * Every operator through the driver: all families, and nothing left out. An operator of
 * the registry needs a case, a case that is refused, one with nothing in it and one with a
 * dimension of 1, golden data, and a case whose gradient is checked or a reason why there is
 * none; every scalar function of map needs a case of its own. What only a gradient rule
 * makes has golden data and odd shapes in the cases of the operator whose gradient it is.
 * The slowest families run in programs of their own, test_ops_<family>.c, beside this one.
 */
#include "base/cpu.h"
#include "check.h"
#include "op/driver.h"
#include "op/families.h"
#include "op/map/scalar.h"
#include "op/registry.h"

static const driver_family *const families[] = {
    &driver_map,    &driver_matmul,  &driver_reduce,    &driver_shape,   &driver_scalar,
    &driver_random, &driver_classes, &driver_gather,    &driver_xent,    &driver_update,
    &driver_assign, &driver_vote,    &driver_attention, &driver_conv,    &driver_norm,
    &driver_part,   &driver_pool,    &driver_resample,  &driver_softmax, &driver_argmax,
    &driver_index,  &driver_rotary,  &driver_epilogue,  &driver_swiglu,
};

/* Operators that the driver cannot take, and who tests them instead. */
static const struct {
    const char *op, *why;
} excused[] = {
    { "input", "runs nothing and has no sources: every case begins with it" },
    { "variable", "runs nothing and has no sources: every update case begins with it" },
    { "wire_pack", "lies in the exchange space: tests/step/test_grad_dtype.c" },
    { "wire_unpack", "lies in the exchange space: tests/step/test_grad_dtype.c" },
    { "share_counts", "lies in the exchange space: tests/step/test_loss_ranks.c" },
    { "sync_counts", "reads what ranks exchanged: tests/step/test_loss_ranks.c" },
    { "accumulate_scaled", "adds over micro-steps: tests/step/test_loss_ranks.c" },
    { "allreduce_start", "needs a process group: tests/op/test_collective.c" },
    { "allreduce_finish", "needs a process group: tests/op/test_collective.c" },
    { "reduce_scatter_start", "needs a process group: tests/step/test_zero.c" },
    { "reduce_scatter_finish", "needs a process group: tests/step/test_zero.c" },
    { "meet_start", "needs a process group: tests/step/test_zero.c" },
    { "meet_finish", "needs a process group: tests/step/test_zero.c" },
    { "allgather_start", "needs a process group: tests/step/test_zero.c" },
    { "allgather_finish", "needs a process group: tests/step/test_zero.c" },
    { "shard_keep", "its results lie in the exchange space: tests/step/test_zero.c" },
    { "shard_give", "its results lie in the exchange space: tests/step/test_zero.c" },
    { "shard_take", "takes what shard_give gave: tests/step/test_zero.c" },
    { "shard_squares", "its results lie in the exchange space: tests/step/test_zero.c" },
    { "shard_control", "takes what shard_squares made: tests/step/test_zero.c" },
};

/* Operators that gradient rules make, and of what: golden gradients are theirs. */
static const struct {
    const char *op, *of;
} gradients[] = {
    { "conv_weight", "conv" },
    { "swiglu_grad", "swiglu" },
    { "max_pool_grad", "max_pool" },
    { "take_grad", "take" },
    { "softmax_xent_grad", "softmax_xent" },
    { "arg_scatter", "arg_reduce" },
    { "softmax_grad", "softmax" },
    { "log_softmax_grad", "log_softmax" },
    { "layer_norm_grad", "layer_norm" },
    { "rms_norm_grad", "rms_norm" },
    { "batch_norm_sums", "batch_norm" },
    { "attention_grad", "attention" },
};

/* Operators that PyTorch has no like of. */
static const struct {
    const char *op, *why;
} without_golden[] = {
    { "random", "the generator is ours: tests/base/test_random.c has published numbers" },
    { "dropout", "the generator is ours: what it drops is what random draws" },
    { "constant", "its result is its attribute, bit for bit" },
    { "assign", "a copy" },
    { "hold", "a copy: tests/step/test_guard.c" },
    { "accumulate", "a copy or a sum by itself: tests/step/test_ranks.c" },
    { "count_step", "counts" },
    { "scale_update", "doubles or halves" },
    { "vote", "numbers of a few kinds" },
    { "verdict", "numbers of a few kinds" },
    { "share_stats", "a copy" },
    { "sync_stats", "the bits of one rank with the joint batch: tests/step/test_sync_bn.c" },
    { "share_sums", "a copy" },
    { "sync_sums", "a copy" },
    { "many_updates", "the bits of its parts: tests/pass/test_join.c" },
};

/* Operators without a gradient rule, and why nobody can want one. Those of `gradients` are not
 * listed: gradients of gradients are refused, and what they compute is checked as the gradient of
 * the operator that they belong to. */
static const struct {
    const char *op, *why;
} without_gradient[] = {
    { "input", "no sources: gradients end here" },
    { "variable", "no sources: gradients end here" },
    { "constant", "no sources" },
    { "random", "no sources but keys, which are whole numbers" },
    { "one_hot", "of labels, which are whole numbers" },
    { "confusion", "of labels, and counts" },
    { "knn", "chooses; distances that train are computed from what it chose" },
    { "assign", "sets a buffer: a result of the step, not of the loss" },
    { "hold", "copies a buffer from before the step" },
    /* The rest is added behind the gradients. */
    { "share_stats", "the pass sync_bn adds it; batch norm's rule is made for one rank" },
    { "sync_stats", "as share_stats" },
    { "share_sums", "as share_stats" },
    { "sync_sums", "as share_stats" },
    { "share_counts", "counts" },
    { "accumulate", "adds up gradients" },
    { "accumulate_scaled", "adds up gradients" },
    { "grad_control", "looks at gradients" },
    { "count_step", "counts" },
    { "scale_update", "part of the update" },
    { "vote", "part of the update" },
    { "verdict", "part of the update" },
    { "sgd", "the update" },
    { "adamw", "the update" },
    { "ema", "part of the update" },
    { "many_updates", "updates" },
    { "allreduce_start", "exchanges gradients" },
    { "allreduce_finish", "exchanges gradients" },
    { "wire_pack", "exchanges gradients" },
    { "wire_unpack", "exchanges gradients" },
    { "reduce_scatter_start", "exchanges gradients" },
    { "reduce_scatter_finish", "exchanges gradients" },
    { "allgather_start", "exchanges parameters behind the update" },
    { "allgather_finish", "exchanges parameters behind the update" },
    { "meet_start", "ends the step" },
    { "meet_finish", "ends the step" },
    { "shard_keep", "a share of the gradients" },
    { "shard_give", "parameters behind the update" },
    { "shard_take", "parameters behind the update" },
    { "shard_squares", "looks at gradients" },
    { "shard_control", "looks at gradients" },
};

/* Operators whose sources are of one shape or none. */
static const char *const of_one_shape[] = { "random",       "constant", "count_step",
                                            "scale_update", "vote",     "verdict" };

#define LISTED(list, member, name)                  \
    for (int i_ = 0; i_ < DRIVER_COUNT(list); i_++) \
        if (strcmp((list)[i_] member, name) == 0)   \
            return true;                            \
    return false

static bool is_excused(const char *op)
{
    LISTED(excused, .op, op);
}

static bool has_no_golden(const char *op)
{
    LISTED(without_golden, .op, op);
}

static bool has_one_shape(const char *op)
{
    LISTED(of_one_shape, , op);
}

static bool has_no_gradient(const char *op)
{
    LISTED(without_gradient, .op, op);
}

static bool is_gradient(const char *op)
{
    LISTED(gradients, .op, op);
}

typedef struct coverage {
    int n_run, n_refused, n_grads, n_golden, n_empty, n_single;
} coverage;

static bool has_dim(const driver_case *c, int64_t n)
{
    for (int s = 0; s < c->n_src; s++)
        for (int d = 0; d < c->src[s].shape.n_dims; d++)
            if (c->src[s].shape.dim[d] == n)
                return true;
    return false;
}

/* Of `op`, or, with only_grads, of the gradient of `op`. */
static coverage count_cases(const char *op, bool only_grads)
{
    coverage n = { 0 };

    for (int f = 0; f < DRIVER_COUNT(families); f++)
        for (int i = 0; i < families[f]->n_cases; i++) {
            const driver_case *c = &families[f]->cases[i];

            if (strcmp(c->op, op) != 0 || (only_grads && c->grad == 0))
                continue;
            n.n_refused += c->want != NULL;
            if (c->want)
                continue;
            n.n_run++;
            n.n_grads += c->grad != 0;
            n.n_golden += (c->flags & DRIVER_GOLDEN) != 0;
            n.n_empty += has_dim(c, 0);
            n.n_single += has_dim(c, 1);
        }
    return n;
}

/* Counts of the operator, with those of which it is the gradient. */
static coverage cover(const char *op)
{
    coverage n = count_cases(op, false);

    for (int i = 0; i < DRIVER_COUNT(gradients); i++)
        if (strcmp(gradients[i].op, op) == 0) {
            coverage of = count_cases(gradients[i].of, true);

            n.n_golden += of.n_golden;
            n.n_empty += of.n_empty;
            n.n_single += of.n_single;
        }
    return n;
}

static void check_operators(void)
{
    for (const gr_op *const *op = gr_op_registry; *op; op++) {
        const char *name = (*op)->name;
        coverage n = cover(name);
        bool shaped = has_one_shape(name) || (n.n_empty > 0 && n.n_single > 0);

        if (is_excused(name))
            continue;
        if (n.n_run == 0 || n.n_refused == 0 || ((*op)->grad && n.n_grads == 0) || !shaped ||
            (n.n_golden == 0 && !has_no_golden(name))) {
            fprintf(stderr,
                    "operator '%s': %d cases, %d refused, %d with golden data, %d empty, %d with a "
                    "dimension of 1, %d with a gradient%s\n",
                    name, n.n_run, n.n_refused, n.n_golden, n.n_empty, n.n_single, n.n_grads,
                    (*op)->grad ? ", which it has" : "");
            exit(1);
        }
    }
}

/* A rule, which check_operators() wants a case of, or a reason; and no reason that is outdated. */
static void check_reasons(void)
{
    for (const gr_op *const *op = gr_op_registry; *op; op++) {
        const char *name = (*op)->name;

        if ((*op)->grad ? has_no_gradient(name) : !has_no_gradient(name) && !is_gradient(name)) {
            fprintf(stderr, "operator '%s' has %s\n", name,
                    (*op)->grad ? "a gradient, and is listed in without_gradient"
                                : "no gradient, and without_gradient does not say why");
            exit(1);
        }
    }
    for (int i = 0; i < DRIVER_COUNT(without_gradient); i++)
        if (!gr_op_find(without_gradient[i].op)) {
            fprintf(stderr, "without_gradient: there is no operator '%s'\n",
                    without_gradient[i].op);
            exit(1);
        }
}

static bool has_case(const driver_family *f, const char *name)
{
    for (int i = 0; i < f->n_cases; i++)
        if (strcmp(f->cases[i].name, name) == 0)
            return true;
    return false;
}

static void check_functions(void)
{
    for (int fn = 0; fn < GR_FN_COUNT; fn++) {
        const char *name = gr_scalar_name((gr_scalar_fn)fn);
        bool found = fn == GR_FN_CONST; /* fill and "constant" are made of it */

        found = found || has_case(&driver_map, name) || has_case(&driver_scalar, name);
        if (!found) {
            fprintf(stderr, "scalar function '%s' has no case\n", name);
            exit(1);
        }
    }
}

static void check_names(const driver_family *f)
{
    for (int i = 0; i < f->n_cases; i++)
        for (int j = 0; j < i; j++)
            if (strcmp(f->cases[i].name, f->cases[j].name) == 0) {
                fprintf(stderr, "family '%s' has two cases '%s'\n", f->name, f->cases[i].name);
                exit(1);
            }
}

static bool runs_apart(const char *family)
{
    static const char *const apart[] = { "attention", "conv", "map", "norm" };

    for (int i = 0; i < DRIVER_COUNT(apart); i++)
        if (strcmp(apart[i], family) == 0)
            return true;
    return false;
}

/* Kernels called "avx2" and so on run wherever the CPU has them, whatever GR_CPU would choose. But
 * some choose inside (strided copies, concat's conversions, oneDNN): of them only what the level
 * asks for has run. False: this CPU has no such level. */
static bool set_level(const char *level)
{
    GR_CHECK_EQ(setenv("GR_CPU", level, 1), 0); /* nobody has asked for it yet */
    if (strcmp(level, "avx2") == 0)
        return gr_cpu_has_avx2() && !gr_cpu_has_avx512();
    if (strcmp(level, "avx512") == 0)
        return gr_cpu_has_avx512() && !gr_cpu_has_avx512_bf16() && !gr_cpu_has_amx();
    GR_CHECK_STR(level, "scalar");
    return !gr_cpu_has_avx2();
}

/* With arguments: only the families of these names; "--at LEVEL" before them: at that level of the
 * CPU, or it ends with 77. */
int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "--at") == 0) {
        if (!set_level(argv[2]))
            return 77;
        argv += 2;
        argc -= 2;
    }
    check_operators();
    check_reasons();
    check_functions();
    for (int f = 0; f < DRIVER_COUNT(families); f++) {
        bool wanted = argc < 2 && !runs_apart(families[f]->name);

        check_names(families[f]);
        for (int i = 1; i < argc; i++)
            wanted = wanted || strcmp(argv[i], families[f]->name) == 0;
        if (wanted)
            driver_run_family(families[f], NULL);
    }
    return 0;
}
