#!/usr/bin/env bash
# A network on which every answer takes 0.6 s: launchers and ranks meet and work all the same. P15.
. "$GR_SOURCE/tests/launch/lib.sh"
. "$GR_SOURCE/tests/launch/netns.sh"

wire_hosts a b -- --delay 300
on b "$RUN" --nnodes=2 --node_rank=1 --master_addr=192.168.1.100 --master_port=29500 \
    "$WORKER" group >b.txt 2>&1 &
other=$!
on a "$RUN" --nnodes=2 --node_rank=0 --master_addr=192.168.1.100 --master_port=29500 \
    "$WORKER" group >a.txt 2>&1 || fail "host a"
wait $other || fail "host b"
grep -q 'rank 1 of 2 adds up to 3' b.txt || fail "no sum"
