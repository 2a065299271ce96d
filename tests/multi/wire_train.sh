#!/usr/bin/env bash
# A training between four hosts on a bad network, 20 ms and 2 % of frames lost, ends with the bits
# of four ranks on one host. Cut links: wire_cut.sh, train_netns.sh.
. "$GR_SOURCE/tests/launch/lib.sh"
. "$GR_SOURCE/tests/launch/netns.sh"

wire_hosts a b c d -- --delay 20 --loss 2
words=(train shapes --device cpu --n_train 96 --n_eval 16 --batch_size 8 --progress plain
       --save_every 0 --val_interval 0 --keep 1 --log_every 1)
declare -A pid
all() { # FOLDER WORD...
    local folder=$1 r=0 h
    shift
    for h in "${hosts[@]}"; do
        mkdir -p "$h"
        (cd "$h" && on "$h" "$RUN" --nnodes=4 --node_rank="$r" --master_addr=192.168.1.100 \
            --master_port=29500 "$GR_BIN/gradus" "${words[@]}" --output_dir "$folder" "$@") \
            >"$h.txt" 2>&1 &
        pid[$h]=$!
        r=$((r + 1))
    done
}

"$RUN" --nproc-per-node 4 "$GR_BIN/gradus" "${words[@]}" --epochs 1 --output_dir one \
    >one.txt 2>&1 || fail "four ranks on one host"
all four --epochs 1
for h in "${hosts[@]}"; do wait "${pid[$h]}" || fail "host $h"; done
grep -q "group 'hosts': rank 0 of 4" a.txt || fail "the hosts did not use the network"
f=$(cd one && find . -name '*.safetensors' | sort | tail -1)
cmp "one/$f" "a/four/$f" || fail "four hosts trained something else than one"
