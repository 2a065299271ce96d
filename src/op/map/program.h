/*
 * The elementwise operator `map`: a small expression program (graph/program.h) over
 * broadcast inputs. One without instructions copies, which is how casts and broadcasts are
 * written.
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
#include "graph/program.h"
#include "op/map/scalar.h"

#ifdef __cplusplus
extern "C" {
#endif

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
