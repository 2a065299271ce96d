/*
 * The gradient of map: reverse-mode differentiation of its program.
 *
 * One scratch program is written for all sources. Its sources are those of the node, then
 * y (the node's output), then g (the gradient of y). It holds
 *   1. the node's instructions but for the last, whose result is y,
 *   2. from the last instruction to the first, the rules of the table of scalar functions,
 *      where a register that is used twice gets the sum.
 * For each source the part of it that the source's gradient needs becomes a program of
 * its own. So a gradient that is written through y does not read the node's sources, and
 * the memory plan can forget them.
 *
 * A source that was stretched gets the sum over the stretched dimensions.
 */
#include "op/map/map_impl.h"

#include "base/alloc.h"
#include "gradus/ops.h"

#include <stdlib.h>
#include <string.h>

/* One forward instruction is followed by its rules: at most 30 instructions for all its
 * arguments, 3 to add them up. */
#define SCRATCH_INSTR (GR_MAP_MAX_INSTR * 34)
#define SCRATCH_SRC   (GR_MAP_MAX_SRC + 2)
#define SCRATCH_REGS  (SCRATCH_SRC + SCRATCH_INSTR)
#define NO_REG        (-1)

typedef struct scratch {
    int n_src, n_instr; /* n_src: those of the node, y, g */
    gr_instr instr[SCRATCH_INSTR];
    int16_t adjoint[SCRATCH_SRC + GR_MAP_MAX_INSTR]; /* by register of the node's program */
    int16_t place[SCRATCH_REGS]; /* register in the program being cut out, or NO_REG */
} scratch;

/* ---- writing ---- */

static int16_t emit(scratch *s, gr_instr in)
{
    for (int i = 0; i < s->n_instr; i++) {
        const gr_instr *old = &s->instr[i];

        if (old->fn == in.fn && memcmp(old->reg, in.reg, sizeof(in.reg)) == 0 &&
            memcmp(&old->k, &in.k, sizeof(in.k)) == 0) /* bits: -0 is not 0 */
            return (int16_t)(s->n_src + i);
    }
    GR_BUG_IF(s->n_instr == SCRATCH_INSTR);
    s->instr[s->n_instr] = in;
    return (int16_t)(s->n_src + s->n_instr++);
}

/* The registers a rule may name. */
typedef struct rule_env {
    int16_t arg[3], y, g;
} rule_env;

static int16_t operand(scratch *s, const char *token, const rule_env *env)
{
    static const char letters[] = "abc";
    const char *letter = token[1] == '\0' ? strchr(letters, token[0]) : NULL;
    gr_instr in = { .fn = GR_FN_CONST, .reg = { NO_REG, NO_REG, NO_REG } };
    char *end;

    if (letter)
        return env->arg[letter - letters];
    if (strcmp(token, "g") == 0)
        return env->g;
    if (strcmp(token, "y") == 0)
        return env->y;
    in.k = strtod(token, &end);
    GR_BUG_IF(end == token || *end != '\0');
    return emit(s, in);
}

/* Takes the function's arguments from the stack and leaves its result there. */
static int apply(scratch *s, gr_scalar_fn fn, int16_t *stack, int depth)
{
    gr_instr in = { .fn = (int16_t)fn, .reg = { NO_REG, NO_REG, NO_REG } };
    int arity = gr_scalar_arity(fn);

    GR_BUG_IF(depth < arity);
    depth -= arity;
    for (int i = 0; i < arity; i++)
        in.reg[i] = stack[depth + i];
    stack[depth] = emit(s, in);
    return depth + 1;
}

/* Writes a postfix rule; returns the register of its result. */
static int16_t write_rule(scratch *s, const char *rule, const rule_env *env)
{
    int16_t stack[8];
    int depth = 0;

    while (*rule) {
        size_t len = strcspn(rule, " ");
        char token[24];
        gr_scalar_fn fn;

        GR_BUG_IF(len == 0 || len >= sizeof(token) || depth == 8);
        memcpy(token, rule, len);
        token[len] = '\0';
        if (gr_scalar_find(token, &fn))
            depth = apply(s, fn, stack, depth);
        else
            stack[depth++] = operand(s, token, env);
        rule += len;
        rule += strspn(rule, " ");
    }
    GR_BUG_IF(depth != 1);
    return stack[0];
}

/* The scratch register of register r of the node's program. */
static int16_t forward_reg(const scratch *s, const gr_program *p, const int16_t *moved, int r)
{
    if (r < p->n_src)
        return (int16_t)r;
    return r == p->n_src + p->n_instr - 1 ? (int16_t)(s->n_src - 2) : moved[r - p->n_src];
}

static void write_forward(scratch *s, const gr_program *p, int16_t *moved)
{
    for (int i = 0; i + 1 < p->n_instr; i++) {
        gr_instr in = p->instr[i];

        for (int j = 0; j < gr_scalar_arity((gr_scalar_fn)in.fn); j++)
            in.reg[j] = forward_reg(s, p, moved, in.reg[j]);
        moved[i] = emit(s, in);
    }
}

static void add_adjoint(scratch *s, int reg, int16_t d)
{
    gr_instr sum = { .fn = GR_FN_ADD, .reg = { s->adjoint[reg], d, NO_REG } };

    s->adjoint[reg] = s->adjoint[reg] == NO_REG ? d : emit(s, sum);
}

static void write_backward(scratch *s, const gr_program *p, const int16_t *moved)
{
    for (int i = p->n_instr - 1; i >= 0; i--) {
        const gr_instr *in = &p->instr[i];
        gr_scalar_fn fn = (gr_scalar_fn)in->fn;
        rule_env env = { .y = forward_reg(s, p, moved, p->n_src + i),
                         .g = s->adjoint[p->n_src + i] };

        if (env.g == NO_REG)
            continue;
        for (int j = 0; j < gr_scalar_arity(fn); j++)
            env.arg[j] = forward_reg(s, p, moved, in->reg[j]);
        for (int j = 0; j < gr_scalar_arity(fn); j++)
            if (gr_scalar_grad(fn, j)[0] != '\0')
                add_adjoint(s, in->reg[j], write_rule(s, gr_scalar_grad(fn, j), &env));
    }
}

static void write_scratch(scratch *s, const gr_program *p)
{
    int16_t moved[GR_MAP_MAX_INSTR] = { 0 };

    s->n_src = p->n_src + 2;
    for (int i = 0; i < p->n_src + p->n_instr; i++)
        s->adjoint[i] = NO_REG;
    s->adjoint[p->n_src + p->n_instr - 1] = (int16_t)(s->n_src - 1);
    write_forward(s, p, moved);
    write_backward(s, p, moved);
}

/* ---- cutting out ---- */

static void mark_needed(scratch *s, int root)
{
    for (int i = 0; i < s->n_src + s->n_instr; i++)
        s->place[i] = NO_REG;
    s->place[root] = 0;
    for (int i = s->n_instr - 1; i >= 0; i--)
        for (int j = 0; s->place[s->n_src + i] != NO_REG && j < 3; j++)
            if (s->instr[i].reg[j] != NO_REG)
                s->place[s->instr[i].reg[j]] = 0;
}

/* The program that computes register `root`; src[i] says which scratch source it reads as
 * its i-th. False when it is too long. */
static bool cut_program(scratch *s, int root, gr_program *p, int *src)
{
    mark_needed(s, root);
    for (int i = 0; i < s->n_src; i++)
        if (s->place[i] != NO_REG) {
            if (p->n_src == GR_MAP_MAX_SRC)
                return false;
            src[p->n_src] = i;
            s->place[i] = (int16_t)p->n_src++;
        }
    for (int i = 0; i < s->n_instr; i++) {
        gr_instr in = s->instr[i];

        if (s->place[s->n_src + i] == NO_REG)
            continue;
        if (p->n_instr == GR_MAP_MAX_INSTR)
            return false;
        for (int j = 0; j < 3; j++)
            in.reg[j] = in.reg[j] == NO_REG ? in.reg[j] : s->place[in.reg[j]];
        s->place[s->n_src + i] = (int16_t)(p->n_src + p->n_instr);
        p->instr[p->n_instr++] = in;
    }
    return true;
}

/* ---- nodes ---- */

/* Sums v over what was stretched to reach its shape from `src`'s, in src's type. */
static gr_value *reduce_to(gr_graph *g, const char *site, gr_value *v, const gr_value *src)
{
    int lead = v ? v->shape.n_dims - src->shape.n_dims : 0;
    unsigned axes = 0;

    if (!v)
        return NULL;
    for (int i = 0; i < v->shape.n_dims; i++)
        if (v->shape.dim[i] != 1 && (i < lead || src->shape.dim[i - lead] == 1))
            axes |= GR_AXIS(i);
    if (axes)
        v = gr_reduce_at(site, g, "sum", v, axes, false);
    if (v && !gr_shape_equal(&v->shape, &src->shape))
        v = gr_reshape_at(site, g, v, src->shape);
    return v ? gr_cast_at(site, g, v, src->dtype) : NULL;
}

static gr_value *source_grad(gr_graph *g, gr_node *n, scratch *s, int root, gr_value *d_out,
                             const gr_value *src)
{
    gr_program p = { .shape = n->out[0].shape, .dtype = src->dtype };
    gr_value *from[GR_MAP_MAX_SRC];
    int place[GR_MAP_MAX_SRC];

    /* The gradient of a sum is the gradient itself: no node, no copy. */
    if (root == s->n_src - 1)
        return reduce_to(g, n->site, d_out, src);
    if (!cut_program(s, root, &p, place)) {
        gr_graph_fail(g, n->site, "map: the gradient of %d instructions needs more than %d",
                      ((const gr_program *)n->attr)->n_instr, GR_MAP_MAX_INSTR);
        return NULL;
    }
    for (int i = 0; i < p.n_src; i++) {
        if (place[i] == s->n_src - 1)
            from[i] = d_out;
        else
            from[i] = place[i] == s->n_src - 2 ? &n->out[0] : n->src[place[i]];
    }
    return reduce_to(g, n->site, gr_map_add(g, n->site, from, &p), src);
}

gr_status gr_map_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    scratch *s = gr_calloc(1, sizeof(*s));

    if (!s)
        return GR_ERR_NOMEM;
    write_scratch(s, (const gr_program *)n->attr);
    for (int i = 0; i < n->n_src; i++)
        if (s->adjoint[i] != NO_REG && gr_dtype_is_float(n->src[i]->dtype))
            d_src[i] = source_grad(g, n, s, s->adjoint[i], d_out[0], n->src[i]);
    gr_free(s);
    return gr_graph_status(g);
}
