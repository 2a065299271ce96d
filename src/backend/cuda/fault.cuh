/* Bad data found by a kernel: the first finder writes the step's fault block. */
#ifndef GR_BACKEND_CUDA_FAULT_CUH
#define GR_BACKEND_CUDA_FAULT_CUH

#include <stdint.h>

/* `Fault` is gr_fault: a template, because that type belongs to a room above this one.
 * The block lies in host memory, where an atomic of this device is one among its own
 * threads; nobody else writes. is_set is 2 while the winner writes, then 1. */
template <class Fault>
static __device__ void gr_cuda_fault(Fault *f, uint32_t node_id, int64_t value, int64_t limit,
                                     int64_t row)
{
    if (atomicCAS(&f->is_set, 0u, 2u) != 0u)
        return;
    f->node_id = node_id;
    f->value = value;
    f->limit = limit;
    f->row = row;
    __threadfence_system();
    *(volatile uint32_t *)&f->is_set = 1u;
}

#endif
