/*
 * The table of state variables: parameters, buffers, optimiser state. One table per
 * step, shared by all its graphs. Order is order of first use, equal on every rank
 * because every rank traces the same function.
 */
#ifndef GR_GRAPH_VARS_H
#define GR_GRAPH_VARS_H

#include "base/arena.h"
#include "gradus/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gr_var_kind {
    GR_VAR_PARAM,  /* trainable unless frozen */
    GR_VAR_BUFFER, /* running statistics */
    GR_VAR_OPTIM,  /* moments, step count, loss scale */
    GR_VAR_HELD,   /* of use within an update only: in no snapshot */
    GR_VAR_COPY    /* a parameter in 16 bits (pass/copies.c): in no snapshot, made of `copy_of` */
} gr_var_kind;

/* Elements [first, first + n) of a tensor, counted in memory order. */
typedef struct gr_stretch {
    int64_t first, n;
} gr_stretch;

typedef struct gr_var {
    const char *name;
    gr_var_kind kind;
    gr_dtype dtype;
    gr_shape shape;
    gr_init init;
    const struct gr_var *copy_of; /* starts as that variable does, which comes earlier; or NULL */
    struct gr_var *copy;          /* of a parameter: its copy in 16 bits; or NULL */
    /* Random numbers are drawn in the order of the table, but for this one: after that variable,
     * and after `n_burnt` numbers that nothing uses. NULL: in its place. */
    const struct gr_var *drawn_after;
    int64_t n_burnt;
    bool frozen;
    /* Of what is cut up between ranks: this rank has `shape`, one row, which begins at element
     * `first` of a tensor of the shape of this parameter. NULL: it is whole. */
    const struct gr_var *part_of;
    int64_t first;
    bool common;   /* lies once for all ranks of a host, in memory that they share */
    int index;     /* in the table */
    size_t offset; /* bytes in the state space, once sealed */
} gr_var;

typedef struct gr_vars {
    gr_arena *arena;
    gr_var **list;
    int n, cap;
    bool sealed;
    size_t align;       /* of each place, and of gradients: the device's; 64 if nobody says more */
    size_t n_bytes;     /* of the state space, once sealed */
    size_t n_common;    /* bytes of it, from its beginning, that hold what is common */
    const char *freeze; /* parameters to freeze: patterns parted by commas; or NULL. Borrowed */
} gr_vars;

gr_status gr_vars_create(gr_vars **out) GR_MUST_CHECK;
void gr_vars_destroy(gr_vars *t);
/* The shape by which a variable is known outside: in snapshots and on other ranks. */
static inline const gr_shape *gr_var_whole(const gr_var *v)
{
    return v->part_of ? &v->part_of->shape : &v->shape;
}

/* The parameter that a variable is, or is the copy of in 16 bits; NULL: neither. */
static inline const gr_var *gr_var_param(const gr_var *v)
{
    if (v->kind == GR_VAR_COPY)
        return v->copy_of;
    return v->kind == GR_VAR_PARAM ? v : NULL;
}

gr_var *gr_vars_find(const gr_vars *t, const char *name); /* NULL: none */

/* Finds the variable of that name or adds it. GR_ERR_ARG when shape, type or kind
 * differ from the known one, or when the table is sealed and the name is new. */
gr_status gr_vars_get(gr_vars *t, const gr_var *want, gr_var **out) GR_MUST_CHECK;

#define GR_VARS_PATTERN 256 /* bytes of one pattern, with its end */
/* GR_ERR_ARG: the pattern takes no parameter of the table; the message has the nearest names. */
gr_status gr_vars_check_pattern(const gr_vars *t, const char *pattern) GR_MUST_CHECK;
/* Every pattern of `freeze` takes a parameter of the table; GR_ERR_ARG names one that does
 * not: it is more likely misspelt than meant so. */
gr_status gr_vars_check_freeze(const gr_vars *t) GR_MUST_CHECK;

/* Fixes the table and gives each variable its place, aligned: those that are common
 * first, and the others on pages of their own behind them. */
gr_status gr_vars_seal(gr_vars *t) GR_MUST_CHECK;

/* Starting values of all variables into host memory of n_bytes, drawn from mt19937. */
gr_status gr_vars_fill(const gr_vars *t, uint64_t seed, void *host) GR_MUST_CHECK;
/* Copies in 16 bits anew from their parameters, which somebody else than an update has written.
 * `host` is a state's memory, or an image of it. */
void gr_vars_fill_copies(const gr_vars *t, void *host);

#ifdef __cplusplus
}
#endif

#endif
