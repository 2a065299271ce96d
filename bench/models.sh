#!/usr/bin/env bash
# Training steps of five networks on the CPU, Gradus beside PyTorch and one thread beside
# several, in turn, so that whatever else the machine does meets all alike. For each:
# milliseconds (medians), how many times as fast as PyTorch and as the first number of threads,
# the share of the measured FMA peak, and the peak memory of both. Speed-ups are medians of pairs
# of neighbouring steps, one with each number of threads (--beside): cores whose units a neighbour
# of the machine uses change their speed several times a second, and medians apart compare
# different seconds. "least" is our fastest step of all rounds, and the speed-up beside it is that of
# the fastest run of every node: what the program can do when nobody else uses the machine.
#
# PYTHON=... chooses the interpreter whose PyTorch is measured; without one only gradus is.
#
# usage: models.sh [ROUNDS [STEPS [MODEL...]]]    default: 3 rounds of 6 steps, all models
#        AMP="none bf16" THREADS="1 2"            what to go through
set -euo pipefail
trap 'exit 130' INT
cd "$(dirname "$0")/.."

rounds=${1:-3}
steps=${2:-6}
shift $(($# < 2 ? $# : 2))
models=("$@")
[ ${#models[@]} -gt 0 ] || models=(mlp resnet18 dilated50 transformer protein)
bin=${GR_BIN:-build/release/bin}
python=${PYTHON:-python3}
has_torch=1
"$python" -c 'import torch' 2>/dev/null || has_torch=0
# Threads that spin while they wait slow down everybody when cores are short.
export OMP_WAIT_POLICY=PASSIVE

field() { awk -v key="$1:" '$1 == key { print $2 }' "$2"; }
median() { sort -g "$@" | awk '{ x[NR] = $1 } END {
    print NR ? (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2 : "" }'; }
# The fastest stretch: the third line says "...; LEAST to MOST, mean MEAN)".
least_of() { awk '$1 == "step_ms:" { print $(NF - 4) }' "$1"; }
# "...: RATIO times as fast"
nodes_of() { awk '$1 == "nodes_ms:" { print $(NF - 3) }' "$1"; }
least() { sort -g "$1" | head -1; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# in_turn FIRST THREADS: adds a speed-up to $tmp/THREADS.pairs, and one to $tmp/THREADS.nodes.
in_turn() {
    [ "$1" != "$2" ] || { echo 1 | tee -a "$tmp/$2.pairs" >>"$tmp/$2.nodes" && return; }
    "$bin/gradus" bench step "$model" --device cpu --amp "$amp" --threads "$1" --beside "$2" \
        --starts 0 --steps "$(steps_of)" >"$tmp/$2.text2"
    field speed_up "$tmp/$2.text2" >>"$tmp/$2.pairs"
    nodes_of "$tmp/$2.text2" >>"$tmp/$2.nodes"
}
steps_of() { [ "$model" = mlp ] && echo $((steps * 50)) || echo "$steps"; }
# one_round THREADS: adds a time of each side to $tmp/THREADS.ours and .theirs.
one_round() {
    local n at=$tmp/$1
    n=$(steps_of)
    "$bin/gradus" bench step "$model" --device cpu --amp "$amp" --threads "$1" --starts 0 \
        --steps "$n" >"$at.text"
    field step_ms "$at.text" >>"$at.ours"
    least_of "$at.text" >>"$at.least"
    [ "$has_torch" = 1 ] || return 0
    # Some PyTorch builds die in bf16 products on machines that hide AMX.
    if "$python" bench/models_torch.py "$model" --amp "$amp" --threads "$1" --steps "$n" \
        >"$at.other" 2>/dev/null; then
        field step_ms "$at.other" >>"$at.theirs"
    fi
}

# row THREADS
row() {
    local at=$tmp/$1
    touch "$at.theirs" "$at.other"
    awk -v m="$model" -v p="$amp" -v t="$1" -v a="$(median "$at.ours")" \
        -v b="$(median "$at.theirs")" -v up="$(median "$at.pairs")" -v f="$(field floor_ms "$at.text")" \
        -v l="$(least "$at.least")" -v nodes="$(median "$at.nodes")" \
        -v r="$(field peak_mb "$at.text")" -v mem="$(field peak_mb "$at.other")" 'BEGIN {
        printf "%-12s %-5s %-7d %11.3f %11s %7s %8.2f %10.3f %8.2f %10.2f %6.0f%% %8s %8s\n", m, p, t, a,
            b == "" ? "-" : sprintf("%.3f", b), b == "" ? "-" : sprintf("%.2f", b / a), up,
            l, nodes, f, 100 * f / a / t, r, mem }'
}

echo "machine: $(awk -F': ' '/^model name/ { print $2; exit }' /proc/cpuinfo), $(nproc) core(s)"
"$bin/gradus" version
[ "$has_torch" = 0 ] || "$python" -c 'import torch; print("PyTorch", torch.__version__)'
printf '%-12s %-5s %-7s %11s %11s %7s %8s %10s %8s %10s %7s %8s %8s\n' model amp threads \
    'gradus ms' 'torch ms' ratio speed-up 'least ms' speed-up 'floor ms' '% peak' 'gr MB' 'torch MB'
read -r -a counts <<<"${THREADS:-1 2}"
for model in "${models[@]}"; do
    for amp in ${AMP:-none bf16}; do
        rm -f "$tmp"/*
        for ((i = 0; i < rounds; i++)); do
            for threads in "${counts[@]}"; do
                one_round "$threads"
                in_turn "${counts[0]}" "$threads"
            done
        done
        for threads in "${counts[@]}"; do
            row "$threads"
        done
    done
done
