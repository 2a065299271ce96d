/* The list of operators. A plain array: no constructors run before main, and no linker
 * drops an entry. */
#include "op/registry.h"

#include "op/argmax/argmax.h"
#include "op/assign/assign.h"
#include "op/attention/attention.h"
#include "op/classes/classes.h"
#include "op/collective/collective.h"
#include "op/collective/shard.h"
#include "op/collective/wire.h"
#include "op/conv/conv.h"
#include "op/gather/gather.h"
#include "op/knn/knn.h"
#include "op/loss/count.h"
#include "op/map/program.h"
#include "op/matmul/matmul.h"
#include "op/norm/norm.h"
#include "op/norm/sync.h"
#include "op/part/part.h"
#include "op/pool/pool.h"
#include "op/random/random.h"
#include "op/reduce/reduce.h"
#include "op/resample/resample.h"
#include "op/rotary/rotary.h"
#include "op/shape/shape.h"
#include "op/softmax/softmax.h"
#include "op/swiglu/swiglu.h"
#include "op/take/take.h"
#include "op/topk/topk.h"
#include "op/update/many.h"
#include "op/update/shard.h"
#include "op/update/update.h"
#include "op/vector/vector.h"
#include "op/vote/vote.h"
#include "op/xent/xent.h"

#include <string.h>

const gr_op *const gr_op_registry[] = {
    &gr_op_input,
    &gr_op_variable,
    &gr_op_map,
    &gr_op_matmul,
    &gr_op_conv,
    &gr_op_conv_data,
    &gr_op_conv_weight,
    &gr_op_reduce,
    &gr_op_swiglu,
    &gr_op_swiglu_grad,
    &gr_op_one_hot,
    &gr_op_confusion,
    &gr_op_random,
    &gr_op_dropout,
    &gr_op_reshape,
    &gr_op_transpose,
    &gr_op_concat,
    &gr_op_split,
    &gr_op_slice,
    &gr_op_pad,
    &gr_op_flip,
    &gr_op_max_pool,
    &gr_op_max_pool_grad,
    &gr_op_resample,
    &gr_op_take,
    &gr_op_take_grad,
    &gr_op_top_k,
    &gr_op_knn,
    &gr_op_cross,
    &gr_op_constant,
    &gr_op_gather,
    &gr_op_scatter_add,
    &gr_op_softmax_xent,
    &gr_op_softmax_xent_grad,
    &gr_op_arg_reduce,
    &gr_op_arg_scatter,
    &gr_op_softmax,
    &gr_op_softmax_grad,
    &gr_op_log_softmax,
    &gr_op_log_softmax_grad,
    &gr_op_logsumexp,
    &gr_op_layer_norm,
    &gr_op_layer_norm_grad,
    &gr_op_rms_norm,
    &gr_op_rms_norm_grad,
    &gr_op_batch_stats,
    &gr_op_batch_norm,
    &gr_op_batch_norm_sums,
    &gr_op_channel_map,
    &gr_op_share_stats,
    &gr_op_sync_stats,
    &gr_op_share_sums,
    &gr_op_sync_sums,
    &gr_op_assign,
    &gr_op_hold,
    &gr_op_attention,
    &gr_op_attention_grad,
    &gr_op_rotary,
    &gr_op_accumulate,
    &gr_op_accumulate_scaled,
    &gr_op_share_counts,
    &gr_op_sync_counts,
    &gr_op_grad_control,
    &gr_op_vote,
    &gr_op_verdict,
    &gr_op_count_step,
    &gr_op_scale_update,
    &gr_op_sgd,
    &gr_op_adamw,
    &gr_op_ema,
    &gr_op_many_updates,
    &gr_op_allreduce_start,
    &gr_op_allreduce_finish,
    &gr_op_wire_pack,
    &gr_op_wire_unpack,
    &gr_op_reduce_scatter_start,
    &gr_op_reduce_scatter_finish,
    &gr_op_allgather_start,
    &gr_op_meet_start,
    &gr_op_meet_finish,
    &gr_op_allgather_finish,
    &gr_op_shard_keep,
    &gr_op_shard_give,
    &gr_op_shard_take,
    &gr_op_shard_squares,
    &gr_op_shard_control,
    NULL,
};

const gr_op *gr_op_find(const char *name)
{
    for (const gr_op *const *op = gr_op_registry; *op; op++)
        if (strcmp((*op)->name, name) == 0)
            return *op;
    return NULL;
}
