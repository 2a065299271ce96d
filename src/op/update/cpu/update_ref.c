/* The update loops for every machine: the reference. */
#define UPDATE_LOOPS gr_update_ref
#include "op/update/cpu/update_loops.inc"
