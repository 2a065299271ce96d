/* The update loops for avx512. */
#define UPDATE_LOOPS gr_update_avx512
#include "op/update/cpu/update_loops.inc"
