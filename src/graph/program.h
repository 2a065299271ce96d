/*
 * Expression programs: what the operator map computes for each element, and what other
 * operators take along on load and on their results (graph/fusion.h). Their functions are
 * numbered in op/map/scalar.h.
 *
 * Registers are numbered once: register i < n_src is source i, converted to the compute
 * type; register n_src + j is the result of instruction j. The last register is the
 * result, converted to `dtype`. A program without instructions copies source 0.
 */
#ifndef GR_GRAPH_PROGRAM_H
#define GR_GRAPH_PROGRAM_H

#include "gradus/tensor.h"

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

#ifdef __cplusplus
}
#endif

#endif
