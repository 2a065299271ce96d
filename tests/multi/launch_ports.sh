#!/usr/bin/env bash
# Ports: jobs at the same time do not meet; a taken one names its owner; ranges; the five
# variables of a start by hand. P11.
. "$GR_SOURCE/tests/launch/lib.sh"

jobs=()
for i in 1 2 3; do
    "$RUN" --nproc-per-node 2 "$WORKER" store 1 >"job$i.txt" 2>&1 &
    jobs+=($!)
done
for i in 1 2 3; do
    wait "${jobs[i - 1]}" || fail "one of three jobs at the same time failed"
    [ "$(grep -c 'of 2 .* met the others' "job$i.txt")" = 2 ] || fail "job $i"
done

# The next job on the same port: taken while the first runs, free afterwards.
port=$(free_port)
"$RUN" --master-port "$port" sleep 100 >first.txt 2>&1 &
first=$!
wait_for grep -qi ":$(printf %04X "$port") " /proc/net/tcp
expect 1 "$RUN" --master-port "$port" true
said "port $port of '127.0.0.1' is taken by 'gradrun-agent' \(process [0-9]+\); port [0-9]+ is free"
kill -KILL $first
wait $first || true
again() { "$RUN" --master-port "$port" "$WORKER" store; }
wait_for again

MASTER_PORT=$port expect 0 "$RUN" sh -c 'echo "$MASTER_PORT"'
said "^$port\$"
MASTER_ADDR=localhost MASTER_PORT=$port expect 0 "$RUN" sh -c 'echo "$MASTER_ADDR $MASTER_PORT"'
said "^localhost $port\$"
MASTER_ADDR=192.0.2.7 expect 0 "$RUN" sh -c 'echo "$MASTER_ADDR"'
said '^127.0.0.1$'
expect 1 "$RUN" --master-addr 192.0.2.7 true
said "'192.0.2.7' is no address of this host"

expect 0 "$RUN" --port-range "$port:$((port + 20))" sh -c 'echo "$MASTER_PORT $GR_PORT_RANGE"'
read -r got range <out.txt
[ "$got" -ge "$port" ] && [ "$got" -le $((port + 20)) ] || fail "port $got is outside of the range"
[ "$range" = "$port:$((port + 20))" ] || fail "the ranks do not know the range"

# Without a launcher: the five variables, in one shell after the other.
pids=()
for r in 1 0; do
    MASTER_ADDR=localhost MASTER_PORT=$port WORLD_SIZE=2 RANK=$r LOCAL_RANK=$r \
        "$WORKER" store >"hand$r.txt" 2>&1 &
    pids+=($!)
done
for p in "${pids[@]}"; do wait "$p" || fail "a start by hand"; done
RANK=1 expect 1 "$WORKER" store
said 'RANK is set but WORLD_SIZE is not: start the program with gradrun'
