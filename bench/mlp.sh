#!/usr/bin/env bash
# The MLP step (784-512-512-10, batch 128, f32, one thread per rank), three ways in turn,
# so that whatever else the machine does meets all of them alike:
#
#   gradus on one rank, gradus on two ranks, PyTorch
#
# PYTHON=... chooses the interpreter whose PyTorch is measured; without one only gradus is.
#
# usage: mlp.sh [ROUNDS [STEPS]]        default: 5 rounds of 300 steps
set -euo pipefail
trap 'exit 130' INT
cd "$(dirname "$0")/.."

rounds=${1:-5}
steps=${2:-300}
bin=${GR_BIN:-build/release/bin}
python=${PYTHON:-python3}
n_cores=$(nproc) # before OMP_NUM_THREADS, which nproc heeds
export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

[ -x "$bin/gradus" ] || { echo "mlp.sh: no $bin/gradus; run 'make' first" >&2; exit 1; }
has_torch=1
"$python" -c 'import torch' 2>/dev/null || {
    has_torch=0
    echo "mlp.sh: '$python' cannot import torch; PyTorch is left out (set PYTHON=...)"
}

rate() { awk '$1 == "samples_per_s:" { print $2 }'; }
median() { tr ' ' '\n' <<<"$*" | sort -g | awk '{ x[NR] = $1 } END {
    print NR ? (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2 : "" }'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'; }

one=() two=() torch=()
for ((i = 0; i < rounds; i++)); do
    text=$("$bin/gradus" bench step mlp --device cpu --threads 1 --steps "$steps")
    one+=("$(rate <<<"$text")")
    if [ "$n_cores" -ge 2 ]; then
        two+=("$("$bin/gradrun" --nproc-per-node 2 "$bin/gradus" bench step mlp --device cpu \
            --threads 1 --steps "$steps" | rate)")
    fi
    if [ "$has_torch" = 1 ]; then
        torch+=("$("$python" bench/mlp_torch.py --steps "$steps" | rate)")
    fi
done

echo "machine: $(awk -F': ' '/^model name/ { print $2; exit }' /proc/cpuinfo), $n_cores core(s)"
"$bin/gradus" version
[ "$has_torch" = 1 ] && "$python" -c 'import torch; print("PyTorch", torch.__version__)'
echo "one rank, last round:"
echo "  ${text//$'\n'/$'\n'  }"
echo "medians of $rounds rounds, samples/s:"
m_one=$(median "${one[@]}")
echo "  gradus, 1 rank:   $m_one"
if [ ${#two[@]} -gt 0 ]; then
    m_two=$(median "${two[@]}")
    echo "  gradus, 2 ranks:  $m_two   $(ratio "$m_two" "$m_one") x one rank"
fi
if [ ${#torch[@]} -gt 0 ]; then
    m_torch=$(median "${torch[@]}")
    echo "  PyTorch, 1 thread: $m_torch"
    echo "  gradus / PyTorch: $(ratio "$m_one" "$m_torch")"
fi
