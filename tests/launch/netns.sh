# Hosts that are network namespaces on one bridge, 192.168.1.100 and up: source it after lib.sh.
# shellcheck shell=bash
command -v ip >/dev/null || skip "no ip command (package iproute2)"
n=gr$$ # a host's namespace is $n and its name

remove_hosts() {
    local h
    for h in "${hosts[@]}" bridge; do
        ip netns pids "$n$h" 2>/dev/null | xargs -r kill -KILL 2>/dev/null || true
        ip netns del "$n$h" 2>/dev/null || true
        rm -rf "/etc/netns/$n$h"
    done
}
# make_spaces NAME...: namespaces without a network; skips the test where that is not permitted.
make_spaces() {
    local h
    hosts=("$@")
    trap 'remove_hosts; cleanup' EXIT
    ip netns add "${n}bridge" 2>net.txt ||
        skip "network namespaces are not permitted here: $(head -1 net.txt)"
    for h in "${hosts[@]}"; do
        ip netns add "$n$h"
        ip -n "$n$h" link set lo up
        mkdir -p "/etc/netns/$n$h"
        echo '127.0.0.1 localhost' >"/etc/netns/$n$h/hosts"
    done
}
give_addresses() {
    local h i=100
    for h in "${hosts[@]}"; do
        ip -n "$n$h" addr add "192.168.1.$i/24" dev eth0
        ip -n "$n$h" link set eth0 up
        i=$((i + 1))
    done
}
# make_hosts NAME...: hosts on one bridge.
make_hosts() {
    local h
    make_spaces "$@"
    { ip -n "${n}bridge" link add br0 type bridge && ip -n "${n}bridge" link set br0 up; } 2>net.txt ||
        skip "no bridges here: $(head -1 net.txt)"
    for h in "${hosts[@]}"; do
        ip -n "$n$h" link add eth0 type veth peer name "port$h" netns "${n}bridge"
        ip -n "${n}bridge" link set "port$h" master br0
        ip -n "${n}bridge" link set "port$h" up
    done
    give_addresses
}
# wire_hosts NAME... -- OPTION...: hosts on a wire (tests/interop/wire.c) with delay, loss and the
# like, which tell_wire can change later. Frames that are lost are the same in every run.
wire_hosts() {
    local names=() spaces=() h
    while [ $# -gt 0 ] && [ "$1" != -- ]; do names+=("$1"); shift; done
    shift
    make_spaces "${names[@]}"
    for h in "${names[@]}"; do spaces+=("$n$h"); done
    mkfifo wire.in
    : >wire.txt
    exec 8<>wire.in
    "$GR_BIN/../interop/wire" "$@" "${spaces[@]}" <wire.in >wire.txt 2>&1 &
    local p=$!
    until grep -q ready wire.txt; do
        is_gone $p && skip "no network in user space here: $(cat wire.txt)"
        sleep 0.02
    done
    give_addresses
}
# tell_wire COMMAND...: done when it returns. Hosts are numbered from 0.
tell_wire() {
    local before
    before=$(wc -l <wire.txt)
    echo "$@" >&8
    until [ "$(wc -l <wire.txt)" -gt "$before" ]; do sleep 0.01; done
}
# on HOST COMMAND...: there, as a process of a host of that name; else ranks would find that they
# share a machine and not use the network at all.
on() {
    local h=$1
    shift
    ip netns exec "$n$h" unshare --uts sh -c 'hostname "$0" && exec "$@"' "$h" "$@"
}
# on_own HOST COMMAND...: the same with processes and shared memory of its own, too: nothing but the
# network is between such hosts. What is below it ends with it.
on_own() {
    local h=$1
    shift
    ip netns exec "$n$h" unshare --uts --ipc --pid --fork --kill-child --mount-proc \
        sh -c 'hostname "$0" && exec "$@"' "$h" "$@"
}
