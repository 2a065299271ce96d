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
# make_hosts NAME...: skips the test where that is not permitted.
make_hosts() {
    local h i=100
    hosts=("$@")
    trap 'remove_hosts; cleanup' EXIT
    { ip netns add "${n}bridge" && ip netns exec "${n}bridge" ip link add br0 type bridge &&
        ip netns exec "${n}bridge" ip link set br0 up; } 2>net.txt ||
        skip "network namespaces are not permitted here: $(head -1 net.txt)"
    for h in "${hosts[@]}"; do
        ip netns add "$n$h"
        ip -n "$n$h" link set lo up
        ip -n "$n$h" link add eth0 type veth peer name "port$h" netns "${n}bridge"
        ip -n "${n}bridge" link set "port$h" master br0
        ip -n "${n}bridge" link set "port$h" up
        ip -n "$n$h" addr add "192.168.1.$i/24" dev eth0
        ip -n "$n$h" link set eth0 up
        i=$((i + 1))
        mkdir -p "/etc/netns/$n$h"
        echo '127.0.0.1 localhost' >"/etc/netns/$n$h/hosts"
    done
}
on() { local h=$1; shift; ip netns exec "$n$h" "$@"; }
# slow_link HOST WORD...: false where the kernel has no netem.
slow_link() {
    local h=$1
    shift
    command -v tc >/dev/null && on "$h" tc qdisc add dev eth0 root netem "$@" 2>net.txt && return
    echo "tc netem is not there: slow links were not tried" >&2
    return 1
}
fast_link() { on "$1" tc qdisc del dev eth0 root; }
