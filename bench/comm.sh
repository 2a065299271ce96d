#!/usr/bin/env bash
# All-reduce, f32 sum, between the ranks of this machine: ours over shared memory and over TCP,
# gloo's (PyTorch) and Open MPI's, in one run. The programs take turns, ROUNDS times, so that a
# noisy moment hits all; per size and program the best round counts, and the ratios are of these.
# Open MPI and PyTorch are left out, and said so, where they are missing.
#
# usage: comm.sh [RANKS]     ROUNDS, MIN, MAX (bytes), PYTHON, GR_BIN in the environment
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${GR_BIN:-build/release/bin} ranks=${1:-2} rounds=${ROUNDS:-3}
min=${MIN:-4096} max=${MAX:-67108864} batches=${BATCHES:-7} ms=10
python=${PYTHON:-python3}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

ours() { # transport
    "$bin/gradrun" --nproc-per-node "$ranks" "$bin/gradus" bench comm --transport "$1" \
        --min "$min" --max "$max" --batches "$batches" --batch_ms $ms 2>/dev/null | tail -n +3
}
has_torch=0 has_mpi=0
"$python" -c 'import torch.distributed' 2>/dev/null && has_torch=1 || echo "no PyTorch: gloo is left out"
if command -v mpicc >/dev/null && mpicc -O2 bench/peers/comm_mpi.c -o "$tmp/comm_mpi"; then
    has_mpi=1
else
    echo "no mpicc: Open MPI is left out"
fi
echo "$(nproc) cores, $ranks ranks, $rounds rounds; $(uname -srm); $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)"
[ $has_torch = 0 ] || "$python" -c 'import torch; print("PyTorch", torch.__version__)'
[ $has_mpi = 0 ] || mpirun --version | head -1
for _ in $(seq "$rounds"); do
    ours shm | awk '{gsub(/[()]/," "); print $1,$2 > "'"$tmp"'/x"; print $1,$5 > "'"$tmp"'/s"}'
    cat "$tmp/x" >>"$tmp/shm"
    cat "$tmp/s" >>"$tmp/staged"
    ours tcp | awk '{gsub(/[()]/," "); print $1,$2}' >>"$tmp/tcp"
    [ $has_torch = 0 ] || "$bin/gradrun" --nproc-per-node "$ranks" --no-python "$python" \
        bench/peers/comm_gloo.py "$min" "$max" "$batches" $ms 2>/dev/null | awk '{print $1,$2}' >>"$tmp/gloo"
    [ $has_mpi = 0 ] || mpirun --allow-run-as-root --oversubscribe -n "$ranks" "$tmp/comm_mpi" \
        "$min" "$max" "$batches" $ms 2>/dev/null | awk '{print $1,$2}' >>"$tmp/mpi"
done
touch "$tmp"/{shm,staged,tcp,gloo,mpi}
awk -v dir="$tmp" '
function load(name,   line, f) {
    while ((getline line < (dir "/" name)) > 0) {
        split(line, f, " ")
        if (!((name, f[1]) in best) || f[2] < best[name, f[1]]) best[name, f[1]] = f[2]
        if (!(f[1] in seen)) { seen[f[1]] = 1; order[n++] = f[1] }
    }
}
function ratio(a, b, k) { return ((a, k) in best) && ((b, k) in best) ? sprintf("%.1f", best[a, k] / best[b, k]) : "-" }
BEGIN {
    split("shm staged tcp gloo mpi", names, " ")
    for (i = 1; i <= 5; i++) load(names[i])
    print "us, best of all rounds; shm: in the exchange space, staged: any memory"
    printf "%10s %9s %9s %9s %9s %9s | %9s %9s %9s\n", "bytes", "shm", "staged", "tcp", "gloo", "Open MPI", "MPI/shm", "gloo/shm", "gloo/tcp"
    for (i = 0; i < n; i++) {
        k = order[i]; printf "%10s", k
        for (j = 1; j <= 5; j++) printf " %9s", ((names[j], k) in best) ? best[names[j], k] : "-"
        printf " | %9s %9s %9s\n", ratio("mpi", "shm", k), ratio("gloo", "shm", k), ratio("gloo", "tcp", k)
    }
}'
