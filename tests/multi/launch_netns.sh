#!/usr/bin/env bash
# Hosts that are network namespaces on one bridge: the two-node command as users write it, names
# that resolve late, a pair that cannot reach each other, strangers, cut links. P15.
. "$GR_SOURCE/tests/launch/lib.sh"
. "$GR_SOURCE/tests/launch/netns.sh"

make_hosts a b c
declare -A pid
# node HOST NODE WORD...: the launcher on one of the hosts.
node() {
    local h=$1 r=$2
    shift 2
    on "$h" "$RUN" --nnodes="${N:-2}" --node_rank="$r" \
        --master_addr="${ADDR:-192.168.1.100}" --master_port=29500 "$@" >"$h.txt" 2>&1 &
    pid[$h]=$!
}
ends() {
    local rc=0
    wait "${pid[$1]}" || rc=$?
    [ "$rc" = "$2" ] || fail "host $1 ended with $rc, expected $2"
}
has() { grep -qE -- "$2" "$1.txt" || fail "nothing like '$2' in $1.txt"; }
comes() { wait_for grep -qE -- "$2" "$1.txt"; }

# Two nodes of four ranks each, as in the guide.
node a 0 --nproc_per_node=4 "$WORKER" store
node b 1 --nproc_per_node=4 "$WORKER" store
ends a 0
ends b 0
has b 'rank 7 of 8 \(local 3\) met the others'

# Hosts meet in one network and move their data in another, which either variable names.
ip link add fast netns "${n}a" type veth peer name fast netns "${n}b"
for h in a:1 b:2; do
    ip -n "$n${h%:*}" addr add "10.77.0.${h#*:}/24" dev fast
    ip -n "$n${h%:*}" link set fast up
done
received() { on b sh -c 'cat /sys/class/net/fast/statistics/rx_bytes'; }
export GR_COMM=tcp
for variable in GR_SOCKET_IFNAME NCCL_SOCKET_IFNAME; do
    before=$(received)
    export $variable=fast
    node a 0 "$WORKER" all
    node b 1 "$WORKER" all
    ends a 0
    ends b 0
    unset $variable
    [ $(($(received) - before)) -gt 20000 ] || fail "$variable: the data went elsewhere"
done
unset GR_COMM
ip -n "${n}a" link del fast

# A name that resolves only after a while.
ADDR=head node b 1 "$WORKER" store
sleep 1
echo '192.168.1.100 head' | tee -a "/etc/netns/${n}a/hosts" >>"/etc/netns/${n}b/hosts"
ADDR=head node a 0 "$WORKER" store
ends a 0
ends b 0

# The same when the host that is to have the meeting does not know its own name yet.
for h in a b; do
    on "$h" "$RUN" --nnodes=2 --rdzv-backend=c10d --rdzv-id=late \
        --rdzv-endpoint=late "$WORKER" store >"$h.txt" 2>&1 &
    pid[$h]=$!
done
sleep 1
echo '192.168.1.100 late' | tee -a "/etc/netns/${n}a/hosts" >>"/etc/netns/${n}b/hosts"
ends a 0
ends b 0
has b 'of 2 .* met the others'

# A pair that cannot reach each other is named, with address and port.
on b ip route add unreachable 192.168.1.102/32
N=3 node a 0 sleep 100
N=3 node b 1 sleep 100
N=3 node c 2 sleep 100
for h in a b c; do
    ends $h 1
    has $h 'hosts of the job cannot reach each other'
    has $h "host '.*' \(192.168.1.101\) cannot reach host '.*' at 192.168.1.102 port [0-9]+: "
done
on b ip route del unreachable 192.168.1.102/32

# A stranger gets nothing out of the store, and is told of.
node a 0 sh -c 'echo up; exec sleep 100'
node b 1 sh -c 'echo up; exec sleep 100'
comes a '^up'
comes b '^up'
RANK=0 WORLD_SIZE=2 MASTER_ADDR=192.168.1.100 MASTER_PORT=29500 TORCHELASTIC_USE_AGENT_STORE=True \
    on c "$WORKER" store >stranger.txt 2>&1 && fail "a stranger was served"
has stranger 'rank_worker: '
comes a 'a connection from 192.168.1.102 is refused: no host of this job'
# The link is cut: the silence is noticed on both sides, in 10 s where nobody else is busy.
start=$(milliseconds)
ip -n "$n"b link set eth0 down
ends a 1
ends b 1
took=$(($(milliseconds) - start))
[ $took -lt 60000 ] || fail "a cut link was noticed after $took ms"
has a "host '.*' \(192.168.1.101\) was lost"
has b "host '192.168.1.100' port 29500, which has the store, is lost"
