/*
 * Faults of CPU kernels. The block is plain memory that a GPU may share, so it is claimed
 * with the compiler's atomics: is_set goes from 0 to CLAIMED by one thread alone, which
 * fills the rest and then sets it to 1. Readers look only for 1, after the run.
 */
#include "op/fault.h"

#define CLAIMED 2u

void gr_fault_set(const gr_launch *l, int64_t value, int64_t limit, int64_t row)
{
    gr_fault *f = l->fault;
    uint32_t free = 0;

    if (!f || !__atomic_compare_exchange_n(&f->is_set, &free, CLAIMED, false, __ATOMIC_ACQUIRE,
                                           __ATOMIC_RELAXED))
        return;
    f->node_id = l->node->id;
    f->value = value;
    f->limit = limit;
    f->row = row;
    __atomic_store_n(&f->is_set, 1u, __ATOMIC_RELEASE);
}
