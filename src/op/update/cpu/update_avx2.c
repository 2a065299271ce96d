/* The update loops for avx2. */
#define UPDATE_LOOPS gr_update_avx2
#include "op/update/cpu/update_loops.inc"
