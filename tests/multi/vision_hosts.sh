#!/usr/bin/env bash
# The guide's two-host commands on hosts that are network namespaces: train, test and predict.
. "$GR_SOURCE/tests/launch/lib.sh"
. "$GR_SOURCE/tests/launch/netns.sh"

make_hosts a b
for h in "${hosts[@]}"; do
    mkdir "$h"
    cp -r "$GR_SOURCE/configs" "$h" # hosts share nothing, not even a folder
done
export PATH=$GR_BIN:$PATH

# both WORD...: the guide's command on both hosts, node_rank 0 and 1.
both() {
    local h r=0 pids=()
    for h in "${hosts[@]}"; do
        (cd "$h" && on "$h" gradrun --nproc_per_node=1 --nnodes=2 --node_rank=$r \
            --master_addr="192.168.1.100" --master_port=29500 gradus \
            --config configs/ddp_example.yaml "$@" --device cpu --epochs 1 --n_train 64 --n_eval 24 \
            --batch_size 8) >"$h.txt" 2>&1 &
        pids+=($!)
        r=$((r + 1))
    done
    for p in "${pids[@]}"; do wait "$p" || fail "two hosts: $*"; done
}
both --task train
grep -q '^  World size: 2$' a.txt || fail "two hosts are two ranks"
grep -q 'accuracy' a.txt || fail "no result"
grep -qE '^To train on .* --nproc-per-node 1 --nnodes 2 --node-rank 0 --master-addr 192.168.1.100 --master-port 29500 ' \
    a.txt || fail "the command to go on leaves a host out"
both --task test
grep -q 'accuracy' a.txt || fail "no result of the test"
both --task predict
[ "$(wc -l <"$(find a -name predictions.csv)")" = 25 ] || fail "rows of the predictions"
