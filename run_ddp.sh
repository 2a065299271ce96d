#!/usr/bin/env bash
# Starts a training, test or prediction on all ranks. Change what is set here, or set it in the
# environment: NPROC=4 TASK=test ./run_ddp.sh
# On several hosts: NNODES=2 NODE_RANK=0 MASTER_ADDR=192.168.1.100 on the first,
# NODE_RANK=1 on the second, the rest alike.
set -euo pipefail

CONFIG=${CONFIG:-configs/ddp_example.yaml}
TASK=${TASK:-train}             # train, test, predict or check
NPROC=${NPROC:-auto}            # ranks on this host: a number, gpu, or auto
NNODES=${NNODES:-1}
NODE_RANK=${NODE_RANK:-0}
MASTER_ADDR=${MASTER_ADDR:-127.0.0.1}
MASTER_PORT=${MASTER_PORT:-29500}

# export CUDA_VISIBLE_DEVICES=0,1,2,3   # which GPUs
# export NCCL_DEBUG=INFO                # what NCCL says

# The programs of this tree, unless they are installed.
PATH=$PATH:$(dirname "$0")/build/release/bin
hosts=()
if [ "$NNODES" != 1 ]; then
    hosts=(--nnodes="$NNODES" --node_rank="$NODE_RANK" --master_addr="$MASTER_ADDR"
        --master_port="$MASTER_PORT")
fi
exec gradrun --nproc_per_node="$NPROC" "${hosts[@]}" gradus --config "$CONFIG" --task "$TASK" "$@"
