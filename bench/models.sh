#!/usr/bin/env bash
# Training steps of five networks on the CPU, Gradus beside PyTorch, in turn, so that
# whatever else the machine does meets both alike. For each: milliseconds (medians), how
# many times as fast, the share of the measured FMA peak, and the peak memory of both.
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

field() { awk -v key="$1:" '$1 == key { print $2 }'; }
median() { tr ' ' '\n' <<<"$*" | sort -g | awk '{ x[NR] = $1 } END {
    print NR ? (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2 : "" }'; }

echo "machine: $(awk -F': ' '/^model name/ { print $2; exit }' /proc/cpuinfo), $(nproc) core(s)"
"$bin/gradus" version
[ "$has_torch" = 1 ] && "$python" -c 'import torch; print("PyTorch", torch.__version__)'
printf '%-12s %-5s %-7s %11s %11s %7s %10s %7s %8s %8s\n' model amp threads 'gradus ms' \
    'torch ms' ratio 'floor ms' '% peak' 'gr MB' 'torch MB'
for model in "${models[@]}"; do
    for amp in ${AMP:-none bf16}; do
        for threads in ${THREADS:-1 2}; do
            n=$steps
            [ "$model" != mlp ] || n=$((steps * 50))
            ours=() theirs=() memory=
            for ((i = 0; i < rounds; i++)); do
                text=$("$bin/gradus" bench step "$model" --device cpu --amp "$amp" \
                    --threads "$threads" --starts 0 --steps "$n")
                ours+=("$(field step_ms <<<"$text")")
                if [ "$has_torch" = 1 ]; then
                    # Some PyTorch builds die in bf16 products on machines that hide AMX.
                    other=$("$python" bench/models_torch.py "$model" --amp "$amp" \
                        --threads "$threads" --steps "$n" 2>/dev/null) || other=
                    [ -z "$other" ] || theirs+=("$(field step_ms <<<"$other")")
                    memory=$(field peak_mb <<<"$other")
                fi
            done
            a=$(median "${ours[@]}")
            b=$([ ${#theirs[@]} -eq 0 ] || median "${theirs[@]}")
            awk -v m="$model" -v p="$amp" -v t="$threads" -v a="$a" -v b="$b" -v mem="$memory" \
                -v f="$(field floor_ms <<<"$text")" -v r="$(field peak_mb <<<"$text")" 'BEGIN {
                printf "%-12s %-5s %-7d %11.3f %11s %7s %10.2f %6.0f%% %8s %8s\n", m, p, t, a,
                    b == "" ? "-" : sprintf("%.3f", b), b == "" ? "-" : sprintf("%.2f", b / a), f,
                    100 * f / a / t, r, mem }'
        done
    done
done
