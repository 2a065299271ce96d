/*
 * The elementwise operator `map`: a small expression program over broadcast inputs.
 *
 * Registers are numbered once: register i < n_src is source i, converted to the compute
 * type; register n_src + j is the result of instruction j. The last register is the
 * result, converted to `dtype`. A program without instructions copies source 0 (that is
 * how casts and broadcasts are written).
 *
 * The compute type is f64 when the result or a source is f64; i64 when all of them are
 * integers or bool; else f32.
 *
 * Conversions round to nearest even. Floating numbers become integers by cutting, with
 * what is out of range at its end and NaN 0; integers become smaller ones by wrapping;
 * everything but 0 becomes true.
 */
#ifndef GR_OP_MAP_PROGRAM_H
#define GR_OP_MAP_PROGRAM_H

#include "graph/op.h"
#include "op/map/scalar.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GR_MAP_MAX_SRC   16
#define GR_MAP_MAX_INSTR 64

typedef struct gr_instr {
    int16_t fn;     /* gr_scalar_fn */
    int16_t reg[3]; /* arguments; unused ones are -1 */
    double k;       /* GR_FN_CONST: the value */
} gr_instr;

typedef struct gr_program {
    gr_shape shape; /* of the result */
    gr_dtype dtype;
    int n_src, n_instr;
    gr_instr instr[GR_MAP_MAX_INSTR];
} gr_program;

/* The type in which a node's program is computed: GR_F32, GR_F64 or GR_I64. */
GR_API gr_dtype gr_map_compute_dtype(const gr_node *n);

/* Adds a map node. NULL shape in `p` is not known here: shape and dtype must be set. */
gr_value *gr_map_add(gr_graph *g, const char *site, gr_value *const *src, const gr_program *p);

extern const gr_op gr_op_map;
extern const gr_kernel gr_map_cpu[];

#ifdef __cplusplus
}
#endif

#endif
