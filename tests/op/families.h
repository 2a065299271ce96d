/* The families of cases, one per file cases_<family>.c; test_ops.c runs them all. */
#ifndef GR_TESTS_OP_FAMILIES_H
#define GR_TESTS_OP_FAMILIES_H

#include "op/driver.h"

extern const driver_family driver_map, driver_matmul, driver_reduce, driver_shape, driver_gather,
    driver_xent, driver_update, driver_assign, driver_vote;
extern const driver_family driver_scalar, driver_random, driver_classes, driver_swiglu;
extern const driver_family driver_attention;
extern const driver_family driver_rotary;
extern const driver_family driver_conv;
extern const driver_family driver_part, driver_pool, driver_resample;
extern const driver_family driver_norm, driver_softmax, driver_argmax;
extern const driver_family driver_index;
extern const driver_family driver_epilogue;

#endif
