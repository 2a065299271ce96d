/* Joining the programs of two map nodes into one. */
#ifndef GR_OP_MAP_JOIN_H
#define GR_OP_MAP_JOIN_H

#include "op/map/program.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A program and the values it reads. */
typedef struct gr_joined {
    gr_program p;
    gr_value *src[GR_MAP_MAX_SRC];
} gr_joined;

typedef struct gr_join_limits {
    int n_src, n_instr; /* at most GR_MAP_MAX_SRC, GR_MAP_MAX_INSTR */
} gr_join_limits;

/*
 * The program of `reader` with every read of `v` replaced by the program of v's producer,
 * a map node. What both compute is computed once. False when the result would pass the
 * limits. Whether shapes and types allow it is the caller's affair: each source must
 * broadcast to the reader's shape, and nothing rounds or converts the value in between.
 */
bool gr_map_join(gr_joined *out, const gr_node *reader, const gr_value *v,
                 const gr_join_limits *limits);

#ifdef __cplusplus
}
#endif

#endif
