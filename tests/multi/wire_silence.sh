#!/usr/bin/env bash
# Nothing comes through for 4 s: longer than hearts beat (1 s), shorter than what is a death (8 s).
# Nobody is given up, neither in mid-run nor while ranks join. P2 P15.
. "$GR_SOURCE/tests/launch/lib.sh"
. "$GR_SOURCE/tests/launch/netns.sh"

wire_hosts a b c d e -- --delay 5
declare -A pid
rank() { # HOST RANK WORD...: a rank that finds the others by address
    local h=$1 r=$2
    shift 2
    RANK=$r WORLD_SIZE=${W:-2} MASTER_ADDR=192.168.1.102 MASTER_PORT=$PORT \
        on "$h" "$WORKER" "$@" >"$h$PORT.txt" 2>&1 &
    pid[$h$PORT]=$!
}
node() { # HOST RANK WORD...
    local h=$1 r=$2
    shift 2
    on "$h" "$RUN" --nnodes=2 --node_rank="$r" --master_addr=192.168.1.100 --master_port=29500 \
        "$WORKER" "$@" >"$h.txt" 2>&1 &
    pid[$h]=$!
}
ends() {
    local rc=0
    wait "${pid[$1]}" || rc=$?
    [ $rc = 0 ] || fail "$1 ended with $rc"
}

# Ranks 0 and 1 of three wait at the store, and ask anew after 5 s; rank 2 comes after the silence.
W=3 PORT=29501 rank c 0 all
W=3 PORT=29501 rank d 1 all
sleep 3
node a 0 steps 60
node b 1 steps 60
PORT=29502 rank c 0 steps 60
PORT=29502 rank d 1 steps 60
for h in a b c29502 d29502; do wait_for grep -q 'step 3 ' $h.txt; done
tell_wire hold
sleep 4
tell_wire go
W=3 PORT=29501 rank e 2 all
for h in a b c29501 d29501 e29501 c29502 d29502; do ends $h; done
for h in a b c29502 d29502; do grep -q 'step 59' $h.txt || fail "not all steps were made by $h"; done
! grep -hE 'was lost|is lost( and|:)|died' [a-e]*.txt || fail "a silence was taken for a death"
