#!/usr/bin/env bash
# What groups say about themselves, and the variables that they listen to.
. "$GR_SOURCE/tests/launch/lib.sh"

pair() { "$RUN" --nproc-per-node 2 --prefix "$@"; }
group=("$WORKER" group)

# The timeout: ours, then the names that PyTorch's users know, with a line.
GR_COMM=tcp expect 0 pair "${group[@]}"
said "group 'tcp': rank 0 of 2, timeout 300 s"
GR_COMM=tcp NCCL_TIMEOUT=50 TORCH_DISTRIBUTED_TIMEOUT=60 expect 0 pair "${group[@]}"
said 'NCCL_TIMEOUT=50 is taken as the timeout, 50 s; GR_TIMEOUT is its own name'
said "group 'tcp': rank 0 of 2, timeout 50 s"
GR_COMM=tcp TORCH_DISTRIBUTED_TIMEOUT=60 expect 0 pair "${group[@]}"
said 'TORCH_DISTRIBUTED_TIMEOUT=60 is taken as the timeout, 60 s'
said "group 'tcp': rank 0 of 2, timeout 60 s"
GR_COMM=tcp GR_TIMEOUT=70 NCCL_TIMEOUT=50 expect 0 pair "${group[@]}"
said "group 'tcp': rank 0 of 2, timeout 70 s"
! grep -q 'is taken as the timeout' err.txt || fail "NCCL_TIMEOUT counted beside GR_TIMEOUT"
for wrong in 0 -1 soon 5x; do
    GR_TIMEOUT=$wrong expect 1 pair "${group[@]}"
    said "GR_TIMEOUT is '$wrong'; it must be a number of seconds"
done
# Of a training: the flag wins.
train=("$GR_BIN/gradus" train shapes --device cpu --n_train 64 --n_eval 32 --batch_size 16 --epochs 1)
GR_TIMEOUT=70 NCCL_DEBUG=INFO expect 0 pair "${train[@]}" --output_dir a --timeout 80
said "r1 COMM group 'shm': rank 1 of 2, timeout 80 s"

# NCCL_DEBUG=INFO: every rank speaks; without it none does on one host.
NCCL_DEBUG=INFO expect 0 pair "${train[@]}" --output_dir b
for r in 0 1; do said "I r$r COMM group 'shm': rank $r of 2"; done
expect 0 pair "${train[@]}" --output_dir c
! grep -q 'COMM group' err.txt || fail "a group on one host is told of unasked"

# The table of algorithms prints; one that is asked for is there, and a wrong one is refused.
expect 2 "$GR_BIN/gradus" bench comm
said "one rank exchanges nothing"
expect 0 "$GR_BIN/gradus" bench comm --table
for row in 'all-reduce +several .* hosts' 'all-reduce .* shares' 'broadcast .* tree' 'barrier .* steps'; do
    said "^$row"
done
GR_COMM=tcp GR_COMM_ALGO=all-reduce=pigeon expect 1 pair "${group[@]}"
said "pigeon"

# Ports of a range that is too small, and an interface that is not there.
port=$(free_port)
GR_COMM=tcp expect 1 pair --port-range "$port:$port" "${group[@]}"
said "all ports from $port to $port of '.*' are taken; choose a wider range"
GR_COMM=tcp GR_SOCKET_IFNAME=nowhere0 expect 1 pair "${group[@]}"
said "GR_SOCKET_IFNAME is 'nowhere0', but no network interface is called so; there are .*lo"

# Different calls: both sides are told. Rank 1 need not wait for anybody and leaves without a word;
# who has not begun the other call by then only sees it go, and the report says so.
for comm in shm tcp hosts:1; do
    for _ in 1 2 3 4 5; do
        GR_COMM=$comm pair --nproc-per-node 3 "$WORKER" differ >out.txt 2>err.txt &&
            fail "$comm: different calls went unnoticed"
        said 'ranks call different collectives: rank [0-2] is in .*, rank [0-2] in|rank 1 ended without a failure, perhaps too early'
    done
done
