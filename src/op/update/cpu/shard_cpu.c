/* CPU kernels of the norm over shares. A piece is one thread's: bits do not depend on who. */
#include <string.h>

#include "op/isa.h"
#include "op/update/cpu/update_cpu.h"
#include "op/update/shard.h"

typedef struct squares_job {
    const gr_launch *l;
    const gr_update_loops *loops;
} squares_job;

static void squares_slice(void *arg, int slice, int n_slices)
{
    const squares_job *j = (const squares_job *)arg;
    const gr_shard_norm *a = (const gr_shard_norm *)j->l->node->attr;
    double *sums = (double *)j->l->out[0];
    float *cuts = (float *)j->l->out[1];

    for (int i = slice; i < a->n_pieces; i += n_slices) {
        const gr_norm_piece *p = &a->piece[i];
        const float *grad = (const float *)j->l->src[p->share] + p->at;

        if (p->block >= 0)
            sums[p->block] = j->loops->sum_squares(grad, (size_t)p->n);
        else
            memcpy(cuts + p->cut_at, grad, (size_t)p->n * sizeof(float));
    }
}

static gr_status run_squares(const gr_launch *l, const gr_update_loops *loops)
{
    const gr_shard_norm *a = (const gr_shard_norm *)l->node->attr;
    squares_job j = { l, loops };

    memset(l->out[0], 0, (size_t)a->n_blocks * sizeof(double));
    memset(l->out[1], 0, (size_t)a->n_cut_elems * sizeof(float));
    gr_pool_run(l->pool, squares_slice, &j, gr_pool_size(l->pool));
    return GR_OK;
}

static gr_status run_control(const gr_launch *l, const gr_update_loops *loops)
{
    const gr_shard_control_attr *a = (const gr_shard_control_attr *)l->node->attr;
    int first = a->of.has_scale, next = 0;
    const double *sums = (const double *)l->src[first];
    const float *cuts = (const float *)l->src[first + 1];
    double sum = 0;

    for (int64_t b = 0; b < a->norm.n_blocks; b++) {
        const gr_norm_cut *cut = next < a->norm.n_cuts ? &a->norm.cut[next] : NULL;

        if (cut && cut->block == b) {
            sum += loops->sum_squares(cuts + cut->at, (size_t)cut->n);
            next++;
        } else {
            sum += sums[b];
        }
    }
    gr_control_fill(&a->of, sum, a->of.has_scale ? (double)*(const float *)l->src[0] : 1.0,
                    (float *)l->out[0]);
    return GR_OK;
}

GR_UPDATE_KERNELS(squares, gr_shard_squares_cpu, NULL);
GR_UPDATE_KERNELS(control, gr_shard_control_cpu, NULL);
