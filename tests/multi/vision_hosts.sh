#!/usr/bin/env bash
# The guide's two-host commands on hosts that are network namespaces: train, test and predict.
. "$GR_SOURCE/tests/launch/lib.sh"

command -v ip >/dev/null || skip "no ip command (package iproute2)"
n=gv$$
hosts=(a b)
remove_hosts() {
    local h
    for h in "${hosts[@]}" bridge; do
        ip netns pids "$n$h" 2>/dev/null | xargs -r kill -KILL 2>/dev/null || true
        ip netns del "$n$h" 2>/dev/null || true
    done
}
trap 'remove_hosts; cleanup' EXIT
{ ip netns add "${n}bridge" && ip netns exec "${n}bridge" ip link add br0 type bridge &&
    ip netns exec "${n}bridge" ip link set br0 up; } 2>net.txt ||
    skip "network namespaces are not permitted here: $(head -1 net.txt)"
i=100
for h in "${hosts[@]}"; do
    ip netns add "$n$h"
    ip -n "$n$h" link set lo up
    ip -n "$n$h" link add eth0 type veth peer name "port$h" netns "${n}bridge"
    ip -n "${n}bridge" link set "port$h" master br0
    ip -n "${n}bridge" link set "port$h" up
    ip -n "$n$h" addr add "192.168.1.$i/24" dev eth0
    ip -n "$n$h" link set eth0 up
    i=$((i + 1))
    mkdir "$h"
    cp -r "$GR_SOURCE/configs" "$h" # hosts share nothing, not even a folder
done
export PATH=$GR_BIN:$PATH

# both WORD...: the guide's command on both hosts, node_rank 0 and 1.
both() {
    local h r=0 pids=()
    for h in "${hosts[@]}"; do
        (cd "$h" && exec ip netns exec "$n$h" gradrun --nproc_per_node=1 --nnodes=2 --node_rank=$r \
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
both --task test
grep -q 'accuracy' a.txt || fail "no result of the test"
both --task predict
[ "$(wc -l <"$(find a -name predictions.csv)")" = 25 ] || fail "rows of the predictions"
