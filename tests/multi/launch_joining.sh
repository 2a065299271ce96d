#!/usr/bin/env bash
# Ranks that were started by hand, and what they say when they do not come together: different
# world sizes are told at once on every transport; who waits says for whom, before it gives up. P2.
. "$GR_SOURCE/tests/launch/lib.sh"

# by_hand NAME PORT SIZE RANK WORD...: one rank; its output in NAME.RANK.txt, its exit code in NAME.RANK
by_hand() {
    local file=$1.$4 rc=0
    MASTER_ADDR=${ADDR:-127.0.0.1} MASTER_PORT=$2 WORLD_SIZE=$3 RANK=$4 timeout 100 "${@:5}" \
        >"$file.txt" 2>&1 || rc=$?
    echo $rc >"$file"
}
has() { grep -qE -- "$2" "$1.txt" || fail "nothing like '$2' in $1.txt"; }

for comm in auto tcp hosts hosts:1; do
    port=$(free_port)
    start=$(milliseconds)
    GR_COMM=$comm by_hand "size.$comm" "$port" 2 0 "$WORKER" group &
    GR_COMM=$comm by_hand "size.$comm" "$port" 3 1 "$WORKER" group &
    wait
    [ "$(cat "size.$comm.0" "size.$comm.1" | tr -d '\n')" = 11 ] || fail "$comm: different world sizes"
    has "size.$comm.0" 'rank 1 has a world size \(WORLD_SIZE\) of 3, and rank 0 of 2; start all ranks with the same'
    has "size.$comm.1" 'rank 0 has a world size \(WORLD_SIZE\) of 2, and rank 1 of 3; start all ranks with the same'
    [ $(($(milliseconds) - start)) -lt 60000 ] || fail "$comm: different world sizes were told too late"
done

# So are different transports.
port=$(free_port)
start=$(milliseconds)
GR_COMM=tcp by_hand differ "$port" 2 0 "$WORKER" group &
by_hand differ "$port" 2 1 "$WORKER" group &
wait
has differ.0 "rank 1 has transport \(--comm, GR_COMM\) 'auto', and rank 0 'tcp'; start all ranks with the same"
has differ.1 "rank 0 has transport \(--comm, GR_COMM\) 'tcp', and rank 1 'auto'; start all ranks with the same"
[ $(($(milliseconds) - start)) -lt 60000 ] || fail "different transports were told too late"

# Two processes with the same RANK: the second is refused at once, and those who would wait for the
# missing one learn it, within seconds.
port=$(free_port)
start=$(milliseconds)
for file in same twin; do by_hand $file "$port" 3 1 "$WORKER" group & done
by_hand same "$port" 3 0 "$WORKER" group &
wait
for file in same.0 same.1 twin.1; do
    has $file "two processes are rank 1: process [0-9]+ on '.*' and process [0-9]+ on '.*'; give each a RANK"
done
[ "$(sort same.1 twin.1 | tr -d '\n')" = 14 ] || fail "one of both should be refused, one fail for it"
[ $(($(milliseconds) - start)) -lt 60000 ] || fail "a second rank 1 was told too late"
# One after another is fine: the store outlives them.
expect 0 "$RUN" --nproc-per-node 2 sh -c '"$0" group && "$0" group' "$WORKER"
[ "$(grep -c 'adds up to 3' out.txt)" = 4 ] || fail "a second program of the same ranks"

# Somebody is missing: all of these at the same time.
gone=$(free_port)
GR_TIMEOUT=8 by_hand no.zero "$gone" 2 1 "$GR_BIN/gradus" train shapes --output_dir no.zero.run &
ADDR=no-such-host.invalid GR_TIMEOUT=8 by_hand no.name "$gone" 2 1 "$GR_BIN/gradus" train shapes \
    --output_dir no.name.run &
for comm in shm tcp hosts; do
    GR_COMM=$comm GR_TIMEOUT=8 by_hand "no.one.$comm" "$(free_port)" 2 0 "$GR_BIN/gradus" train shapes \
        --output_dir "no.one.$comm.run" &
done
# The store is there, rank 0 is not.
rc=0
"$RUN" --nproc-per-node 2 sh -c '[ $RANK = 0 ] && exec sleep 100
    GR_TIMEOUT=8 exec "$0" train shapes --output_dir no.come.run' "$GR_BIN/gradus" >no.come.txt 2>&1 || rc=$?
wait
[ $rc = 1 ] || fail "a rank 0 that does not come gave $rc"
for name in no.zero.1 no.name.1 no.one.shm.0 no.one.tcp.0 no.one.hosts.0; do
    [ "$(cat $name)" = 1 ] || fail "$name ended with $(cat $name)"
done
where='that is where rank 0 should be .*GR_TIMEOUT'
has no.zero.1 "waiting for '127.0.0.1' port $gone: Connection refused \([5-9] s\)"
has no.zero.1 "cannot connect to '127.0.0.1' port $gone after .* s: Connection refused; $where"
has no.name.1 "waiting for 'no-such-host.invalid' port $gone: cannot resolve"
has no.name.1 "cannot connect to 'no-such-host.invalid' .* cannot resolve .*; $where"
for comm in shm tcp hosts; do
    has "no.one.$comm.0" 'waiting for rank 1 of 2 to join \([5-9] s\)'
    has "no.one.$comm.0" 'rank 1 of 2 has not come within 8 s: start it with the same .* GR_TIMEOUT'
done
has no.come 'rank 1 of 2 waits for rank 0 to join \([5-9] s\)'
has no.come 'rank 0 of 2 has not come within 8 s'
