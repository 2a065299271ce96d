#!/usr/bin/env bash
# Several launchers on this machine play the hosts of one job: they meet, fail, restart, come,
# go and are cut off together. P10 P15.
. "$GR_SOURCE/tests/launch/lib.sh"

declare -A pid
# host NAME NODE WORD...: starts a launcher as a numbered host; output in NAME.txt.
host() {
    local name=$1 node=$2
    shift 2
    "$RUN" --nnodes="${N:-2}" --node_rank="$node" --master_addr=127.0.0.1 --master_port="$port" \
        --restart-delay 0.1 "$@" >"$name.txt" 2>&1 &
    pid[$name]=$!
}
# guest NAME WORD...: the same for hosts that are numbered as they come.
guest() {
    local name=$1
    shift
    "$RUN" --nnodes="${N:-2}" --rdzv-backend=c10d --rdzv-endpoint="127.0.0.1:$port" \
        --rdzv-id=job --restart-delay 0.1 "$@" >"$name.txt" 2>&1 &
    pid[$name]=$!
}
ends() { # NAME CODE
    local rc=0
    wait "${pid[$1]}" || rc=$?
    [ "$rc" = "$2" ] || fail "host $1 ended with $rc, expected $2"
}
has() { grep -qE -- "$2" "$1.txt" || fail "nothing like '$2' in $1.txt"; }
comes() { wait_for grep -qE -- "$2" "$1.txt"; } # NAME PATTERN
next() { port=$(free_port); rm -f ./*.txt; }
agent_of() { local c; read -r -a c <"/proc/${pid[$1]}/task/${pid[$1]}/children" || true; echo "${c[0]}"; }

# Two hosts with four and two ranks.
next
host a 0 --nproc_per_node=4 "$WORKER" store
host b 1 --nproc_per_node=2 "$WORKER" store
ends a 0
ends b 0
has a 'rank 3 of 6 \(local 3\) met the others'
has b 'rank 4 of 6 \(local 0\) met the others'
# Three that come in any order; the first one has the store.
next
for g in x y z; do N=3 guest $g sh -c '"$0" store && echo "node $GROUP_RANK of $GROUP_WORLD_SIZE"' "$WORKER"; done
for g in x y z; do ends $g 0; done
[ "$(cat x.txt y.txt z.txt | grep '^node' | sort | tr '\n' ' ')" = 'node 0 of 3 node 1 of 3 node 2 of 3 ' ] ||
    fail "three guests were not numbered"

# A failure on one host ends the other, with the same text and code; the culprit leads.
next
dies='touch "here$RANK"
    [ $RANK = 2 ] || exec sleep 100
    until [ -e here0 ] && [ -e here1 ]; do sleep 0.02; done
    echo "disk on fire" >&2; exit 5'
host a 0 --nproc-per-node=2 sh -c "$dies"
host b 1 sh -c "$dies"
ends a 5
ends b 5
for h in a b; do
    has $h "gradrun: rank 2 on host '.*' failed first: exit code 5"
    has $h '^    disk on fire'
    has $h "then on host '.*': rank [01]: killed by signal 15 \(SIGTERM\) when told to end"
done
# The same with a restart: everybody starts again.
next
dies='echo "try $TORCHELASTIC_RESTART_COUNT of $RANK"; "$0" store || exit
    [ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit; [ $RANK = 1 ] && exit 6; sleep 100'
host a 0 --max-restarts=2 sh -c "$dies" "$WORKER"
host b 1 --max-restarts=2 sh -c "$dies" "$WORKER"
ends a 0
ends b 0
has a '^try 1 of 0'
has b '^try 1 of 1'
has a 'restart 1 of 2 in 0.1 s'
has a "rank 1 on host '.*' failed first: exit code 6"
# A program that one host does not have.
next
host a 0 sleep 100
host b 1 ./not-here
ends a 1
ends b 1
has a "rank 1 did not start: cannot execute './not-here'"

# Ctrl-C on one host ends the job everywhere.
next
host a 0 sh -c 'echo up; sleep 100'
host b 1 sh -c 'echo up; sleep 100'
comes a '^up'
comes b '^up'
kill -TERM "${pid[b]}"
ends a 143
ends b 143
has a 'gradrun: stopped'

# A rank that was asked to stop, past its launcher: no host starts again.
next
rm -f rank1
stops='[ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0; trap "exit 138" USR1; echo up; echo $$ >"rank$RANK"; while :; do sleep 0.02; done'
host a 0 --max-restarts=2 bash -c "$stops"
host b 1 --max-restarts=2 bash -c "$stops"
comes a '^up'
comes b '^up'
wait_for test -s rank1
kill -USR1 "$(cat rank1)"
ends a 138
ends b 138
for h in a b; do
    has $h 'gradrun: stopped; rank 1: exit code 138'
    ! grep -q 'restart 1' $h.txt || fail "a stop of a rank was started again"
done

# A launcher that is killed; then the one with the store.
for victim in b a; do
    next
    host a 0 sh -c 'echo up; exec sleep 100'
    host b 1 sh -c 'echo up; exec sleep 100'
    comes a '^up'
    comes b '^up'
    start=$(milliseconds)
    kill -KILL "${pid[$victim]}"
    ends $victim 137
    if [ $victim = b ]; then
        ends a 1
        has a "host '.*' \(127.0.0.1\) was lost after .* s: its launcher ended or was cut off"
    else
        ends b 1
        has b "host '127.0.0.1' port $port, which has the store, is lost and the job with it"
    fi
    [ $(($(milliseconds) - start)) -lt 60000 ] || fail "it took too long to notice"
done
# One that is silent.
next
host a 0 --rdzv-conf heartbeat_timeout=5 sh -c 'echo up; exec sleep 100'
host b 1 --rdzv-conf heartbeat_timeout=5 sh -c 'echo up; exec sleep 100'
comes a '^up'
comes b '^up'
agent=$(agent_of b)
kill -STOP "$agent"
ends a 1
has a 'was lost after .* nothing was heard of it for 5 s'
kill -CONT "$agent"
ends b 1
has b 'which has the store, is lost'

# The one that has the store is silent: its guests say so, and it ends too when it wakes up.
next
host a 0 --rdzv-conf heartbeat_timeout=5 sh -c 'echo up; exec sleep 100'
host b 1 --rdzv-conf heartbeat_timeout=5 sh -c 'echo up; exec sleep 100'
comes a '^up'
comes b '^up'
agent=$(agent_of a)
kill -STOP "$agent"
ends b 1
has b 'which has the store, is lost and the job with it: nothing was heard of it for 5 s'
kill -CONT "$agent"
ends a 1
has a 'was lost after|is lost and the job with it'

# MIN:MAX: one of at most three begins, as node 0 since it came first; a second and a third join;
# one is lost; the rest goes on.
next
conf=(--rdzv-conf last_call_timeout=1)
show='[ -e stop ] && last=1; echo "round of $WORLD_SIZE as $RANK"; [ "${last:-}" ] || exec sleep 100'
N=1:3 guest x "${conf[@]}" sh -c "$show"
comes x 'round of 1 as 0'
N=1:3 guest y "${conf[@]}" sh -c "$show"
comes x 'round of 2 as 0'
comes y 'round of 2 as 1'
N=1:3 guest z "${conf[@]}" sh -c "$show"
comes x 'round of 3 as 0'
comes y 'round of 3 as 1'
comes z 'round of 3 as 2'
touch stop # the next round is the last one
kill -KILL "${pid[y]}"
ends y 137
ends x 0
ends z 0
has z 'round of 2 as 1'
has x 'a new round begins with the hosts that are there'
rm stop

# Who does not belong here is told so.
next
host a 0 true
comes_port() { grep -qi ":$(printf %04X "$port") " /proc/net/tcp; }
wait_for comes_port
host b 0 true
ends b 1
has b 'is taken by .gradrun-agent.'
N=3 host b 1 true
ends b 2
has b 'refuses this one: --nnodes is 2:2 here and 3:3 there'
host b 1 --rdzv-id=other true
ends b 2
has b "the job here is called 'none', not 'other'"
# Garbage does not disturb: to both languages of the port, half and whole.
for junk in 'GET / HTTP/1.0\r\n\r\n' 'GRL1\xff\xff\xff\xff' 'GRL1\x05\0\0\0abcde' 'GRL0' '\0\xce\xf7' \
    'GRL1\x0b\0\0\0HELLO\nmin=\n'; do
    (printf "$junk" >"/dev/tcp/127.0.0.1/$port") 2>/dev/null || true
done
host b 1 true
ends b 0
ends a 0

# Too few hosts: a line every 5 s, and an end that says who was there.
next
host a 0 --rdzv-conf join_timeout=10 true
ends a 1
has a "waiting: 1 of 2 hosts are here: '.*' as node 0 from 127.0.0.1 with 1 rank; missing: node 1"
has a 'after 10 s; that is not enough: start the others, or wait longer with --rdzv-conf join_timeout'
# Host 0 under an address that is not its own; a guest of nobody.
next
"$RUN" --nnodes=2 --master-addr 192.0.2.7 --master-port "$port" --rdzv-conf timeout=1 true >a.txt 2>&1 &
pid[a]=$!
ends a 1
has a "this host is node 0, but '192.0.2.7' \(--master-addr\) is none of its addresses"
host b 1 --rdzv-conf timeout=1 true
ends b 1
has b "not reached within 1 s: cannot connect to '127.0.0.1' port $port .*; start gradrun there"
# torchrun's default for --master-addr: this machine.
next
for node in 0 1; do
    "$RUN" --nnodes=2 --node-rank=$node --master-port="$port" "$WORKER" store >"$node.txt" 2>&1 &
    pid[$node]=$!
done
ends 0 0
ends 1 0
has 1 'no --master-addr \(or MASTER_ADDR\) is given: hosts meet at 127.0.0.1, so all 2 must be this'
has 1 'rank 1 of 2 \(local 0\) met the others'
GR_SOCKET_IFNAME=nowhere0 host b 1 true
ends b 2
has b "GR_SOCKET_IFNAME is 'nowhere0', but no network interface is called so; there are .*lo"
# A secret that all hosts have, or not.
next
GR_JOB_TOKEN=s3cret host a 0 true
wait_for comes_port
GR_JOB_TOKEN=guess host b 1 true
ends b 2
has b 'GR_JOB_TOKEN is another one'
GR_JOB_TOKEN=s3cret host b 1 true
ends b 0
ends a 0
