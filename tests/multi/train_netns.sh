#!/usr/bin/env bash
# Process groups between hosts that are network namespaces: four hosts train what one host
# with four ranks trains, bit for bit; a link that is cut in mid-run ends every rank with the
# reason, within 10 s where nobody else is busy. P1, P15.
. "$GR_SOURCE/tests/launch/lib.sh"
. "$GR_SOURCE/tests/launch/netns.sh"

make_hosts a b c d
words=(train shapes --device cpu --n_train 640 --n_eval 80 --batch_size 16 --progress plain
       --save_every 0 --val_interval 0 --keep 1)
declare -A pid
# all FOLDER WORD...: a launcher on each host, one rank each; each host has its own folder.
all() {
    local folder=$1 r=0 h
    shift
    for h in "${hosts[@]}"; do
        mkdir -p "$h"
        (cd "$h" && on "$h" "$RUN" --nnodes=${#hosts[@]} --node_rank="$r" \
            --master_addr=192.168.1.100 --master_port=29500 "$GR_BIN/gradus" "${words[@]}" \
            --output_dir "$folder" "$@") >"$h.txt" 2>&1 &
        pid[$h]=$!
        r=$((r + 1))
    done
}
ends() { # HOST CODE
    local rc=0
    wait "${pid[$1]}" || rc=$?
    [ "$rc" = "$2" ] || fail "host $1 ended with $rc, expected $2"
}
same() { # FOLDER: what rank 0 saved is what four ranks of one host save
    local f
    f=$(cd one && find . -name '*.safetensors' | sort | tail -1)
    cmp "one/$f" "a/$1/$f" || fail "$1: four hosts trained something else than one"
}

"$RUN" --nproc-per-node 4 "$GR_BIN/gradus" "${words[@]}" --epochs 2 --output_dir one \
    >one.txt 2>&1 || fail "four ranks on one host"
all four --epochs 2
for h in "${hosts[@]}"; do ends $h 0; done
same four

# The link of host c is cut in mid-run.
all cut --epochs 100000 --log_every 1
wait_for grep -q 'step 3' a.txt
start=$(milliseconds)
ip -n "$n"c link set eth0 down
for h in "${hosts[@]}"; do
    rc=0
    wait "${pid[$h]}" || rc=$?
    [ "$rc" != 0 ] || fail "host $h did not notice that a link was cut"
done
took=$(($(milliseconds) - start))
[ $took -lt 60000 ] || fail "a cut link was noticed after $took ms"
grep -qE "192.168.1.102|rank 2" a.txt || fail "the lost host is not named: $(tail -5 a.txt)"
