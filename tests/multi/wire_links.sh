#!/usr/bin/env bash
# Hosts on a bad network: 20 ms of delay, 2 % of frames lost. Launchers and groups do what they do
# on one host, to the last bit, and who leaves early is not missed. P2 P15.
. "$GR_SOURCE/tests/launch/lib.sh"
. "$GR_SOURCE/tests/launch/netns.sh"

wire_hosts a b c d -- --delay 20 --jitter 2 --loss 2
declare -A pid
# all N WORD...: a launcher on each of the first N hosts, one rank each.
all() {
    local count=$1 r=0 h
    shift
    for h in "${hosts[@]:0:$count}"; do
        on "$h" "$RUN" --nnodes="$count" --node_rank="$r" \
            --master_addr=192.168.1.100 --master_port=29500 "$WORKER" "$@" >"$h.txt" 2>&1 &
        pid[$h]=$!
        r=$((r + 1))
    done
}
all_end() { # N
    local h rc
    for h in "${hosts[@]:0:$1}"; do
        rc=0
        wait "${pid[$h]}" || rc=$?
        [ "$rc" = 0 ] || fail "host $h ended with $rc"
    done
}
sums() { cat "$@" | grep -o 'rank [0-9]* of [0-9]* has .*' | sort; }

for count in 2 4; do
    "$RUN" --nproc-per-node $count "$WORKER" all >one.txt 2>&1 || fail "$count ranks of one host"
    all $count all
    all_end $count
    [ "$(sums one.txt | wc -l)" = $count ] || fail "not all ranks of one host had a result"
    [ "$(sums one.txt)" = "$(sums [a-d].txt)" ] || fail "$count hosts have other bits than one"
    rm [a-d].txt
done

# The farewell overtakes the data, which comes all the same: 2 MB at 20 ms are many round trips.
all 2 leave 500000
all_end 2

# The farewell is lost, and what rank 0 says meanwhile meets nobody who could hear it.
tell_wire loss 0
all 2 leave 1000
wait_for grep -q 'rank 1 gives' b.txt
tell_wire cut 1 0
sleep 2
tell_wire heal
all_end 2
grep -q 'rank 0 leaves' a.txt || fail "what the leaver sent did not come"

# About 100: how many frames there are depends on who waits for whom.
awk 'END { exit !($5 > 20) }' wire.txt || fail "the network has lost next to nothing: $(tail -1 wire.txt)"
