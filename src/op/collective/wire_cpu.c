/* Gradients to 16 bits and back on the CPU: stretches by all threads, element by element. */
#include "base/half.h"
#include "op/collective/wire.h"
#include "op/collective/wire_kernels.h"
#include "op/isa.h"

#define GRAIN ((int64_t)16 << 10) /* elements of a slice, at least */

void gr_wire_bf16_pack_ref(uint16_t *dst, const float *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = gr_f32_to_bf16(src[i]);
}

void gr_wire_bf16_unpack_ref(float *dst, const uint16_t *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = gr_bf16_to_f32(src[i]);
}

void gr_wire_f16_pack_ref(uint16_t *dst, const float *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = gr_f32_to_f16(src[i]);
}

void gr_wire_f16_unpack_ref(float *dst, const uint16_t *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = gr_f16_to_f32(src[i]);
}

const gr_wire_loops gr_wire_loops_ref = { { gr_wire_bf16_pack_ref, gr_wire_f16_pack_ref },
                                          { gr_wire_bf16_unpack_ref, gr_wire_f16_unpack_ref } };

typedef struct job {
    const gr_wire_loops *loops;
    bool f16, pack;
    float *wide;
    uint16_t *low;
    int64_t n;
} job;

static void run_slice(void *arg, int slice, int n_slices)
{
    const job *j = arg;
    int64_t lo, hi;

    gr_pool_cut(j->n, GRAIN, slice, n_slices, &lo, &hi);
    if (j->pack)
        j->loops->pack[j->f16](j->low + lo, j->wide + lo, (size_t)(hi - lo));
    else
        j->loops->unpack[j->f16](j->wide + lo, j->low + lo, (size_t)(hi - lo));
}

/* The bucket's stretch begins with its first gradient, padding between them included. */
static gr_status run(const gr_launch *l, const gr_wire_loops *loops, bool pack)
{
    const gr_wire_attr *a = l->node->attr;
    job j = { .loops = loops,
              .f16 = a->dtype == GR_F16,
              .pack = pack,
              .wide = pack ? l->src[0] : l->src[1],
              .low = pack ? l->out[0] : l->src[0],
              .n = a->n_elem };

    gr_pool_run(l->pool, run_slice, &j, j.n > GRAIN ? gr_pool_size(l->pool) : 1);
    return GR_OK;
}

static gr_status run_pack_avx2(const gr_launch *l)
{
    return run(l, &gr_wire_loops_avx2, true);
}

static gr_status run_pack_ref(const gr_launch *l)
{
    return run(l, &gr_wire_loops_ref, true);
}

static gr_status run_unpack_avx2(const gr_launch *l)
{
    return run(l, &gr_wire_loops_avx2, false);
}

static gr_status run_unpack_ref(const gr_launch *l)
{
    return run(l, &gr_wire_loops_ref, false);
}

/* A gradient elsewhere would be left out. */
static const char *reject(const gr_node *n, int first)
{
    const gr_value *base = gr_value_root(n->src[first]);
    size_t n_bytes = (size_t)((const gr_wire_attr *)n->attr)->n_elem * sizeof(float);

    for (int s = first; s < n->n_src; s++) {
        const gr_value *root = gr_value_root(n->src[s]);

        if (root->space != GR_SPACE_EXCHANGE || root->offset < base->offset ||
            root->offset + gr_value_bytes(n->src[s]) > base->offset + n_bytes)
            return "a gradient does not lie in the stretch that is exchanged";
    }
    return NULL;
}

static const char *reject_pack(const gr_node *n)
{
    return reject(n, 0);
}

static const char *reject_unpack(const gr_node *n)
{
    return reject(n, 1);
}

static const char *reject_pack_avx2(const gr_node *n)
{
    return gr_no_avx2(n) ? gr_no_avx2(n) : reject_pack(n);
}

static const char *reject_unpack_avx2(const gr_node *n)
{
    return gr_no_avx2(n) ? gr_no_avx2(n) : reject_unpack(n);
}

const gr_kernel gr_wire_pack_cpu[] = {
    { .name = "avx2", .reject = reject_pack_avx2, .run = run_pack_avx2 },
    { .name = "reference", .reject = reject_pack, .run = run_pack_ref },
    { .name = NULL },
};

const gr_kernel gr_wire_unpack_cpu[] = {
    { .name = "avx2", .reject = reject_unpack_avx2, .run = run_unpack_avx2 },
    { .name = "reference", .reject = reject_unpack, .run = run_unpack_ref },
    { .name = NULL },
};
