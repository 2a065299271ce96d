/*
 * GR_UNROLL before a loop with a constant number of turns (16 at most) writes it out, so
 * that an array of vectors indexed by it lives in registers at every optimisation level.
 */
#ifndef GR_OP_UNROLL_BODY_H
#define GR_OP_UNROLL_BODY_H

#if defined(__clang__)
#define GR_UNROLL _Pragma("clang loop unroll(full)")
#else
#define GR_UNROLL _Pragma("GCC unroll 16")
#endif

#endif
