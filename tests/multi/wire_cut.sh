#!/usr/bin/env bash
# Links that are cut in mid-run, in both directions and in one only (half-open), under launchers and
# between ranks alone: both ends give up and name the other one, within 10 s where nobody else is
# busy (ranks alone: since they were told a limit, else they wait for `--timeout`). P1 P2.
. "$GR_SOURCE/tests/launch/lib.sh"
. "$GR_SOURCE/tests/launch/netns.sh"

wire_hosts a b c d e f g h -- --delay 20
declare -A pid
# A pair of hosts each: under launchers, or as ranks that find each other by address.
launchers() { # HOST HOST
    local r
    for r in 0 1; do
        on "${@:r + 1:1}" "$RUN" --nnodes=2 --node_rank=$r --master_addr="$addr" \
            --master_port=29500 "$WORKER" steps 100000 >"${@:r + 1:1}.txt" 2>&1 &
        pid[${*:r + 1:1}]=$!
    done
}
ranks() { # HOST HOST
    local r
    for r in 0 1; do
        GR_HEARTBEAT_TIMEOUT=5 RANK=$r WORLD_SIZE=2 MASTER_ADDR=$addr MASTER_PORT=29500 \
            on "${@:r + 1:1}" "$WORKER" steps 100000 >"${@:r + 1:1}.txt" 2>&1 &
        pid[${*:r + 1:1}]=$!
    done
}
addr=192.168.1.100 launchers a b
addr=192.168.1.102 ranks c d
addr=192.168.1.104 launchers e f
addr=192.168.1.106 ranks g h
for i in "${hosts[@]}"; do wait_for grep -q 'step 3 ' "$i.txt"; done

start=$(milliseconds)
for cut in '0 1' '1 0' '2 3' '3 2' '5 4' '7 6'; do tell_wire cut "$cut"; done
for i in "${hosts[@]}"; do
    rc=0
    wait "${pid[$i]}" || rc=$?
    [ $rc != 0 ] || fail "host $i did not notice that a link was cut"
    took=$(($(milliseconds) - start))
    echo "host $i noticed a cut link after $took ms"
    [ $took -lt 60000 ] || fail "host $i noticed a cut link after $took ms"
done
has() { grep -qE -- "$2" "$1.txt" || fail "nothing like '$2' in $1.txt"; }
has a "host 'b' \(192.168.1.101\) was lost"
has b "host '192.168.1.100' port 29500, which has the store, is lost"
has c "rank 1 \(process [0-9]+ on 'd'\) is lost: its host has not answered for 7 s"
has d "rank 0 \(process [0-9]+ on 'c'\) is lost: its host has not answered for 7 s"
has e "host 'f' \(192.168.1.105\) was lost"
has f "host '192.168.1.104' port 29500, which has the store, is lost"
has g "rank 1 \(process [0-9]+ on 'h'\) (is lost|died)"
has h "rank 0 \(process [0-9]+ on 'g'\) (is lost|died)|rank 0 broke the group"
# Meanwhile the log said who is waited for, and in which call.
has c "all-reduce 'steps' .* has waited 5 s for rank 1 \(process [0-9]+ on 'd'"
