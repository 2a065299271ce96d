#!/usr/bin/env bash
# The demonstration: trains a small network on drawn shapes with data parallelism. One
# rank per GPU where there are GPUs and the CUDA module was built; otherwise two ranks
# on the CPU, or one when there is one core. Further arguments go to the trainer.
#
# usage: demo.sh [OPTION...]
set -euo pipefail
trap 'exit 130' INT
cd "$(dirname "$0")/.."

bin=build/release/bin
run=demo-run
n_gpus=0
if [ -e build/release/lib/libgradus-cuda.so ] && command -v nvidia-smi >/dev/null; then
    n_gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ' || true)
fi
if [ "$n_gpus" -gt 0 ]; then
    ranks=$n_gpus
elif [ "$(nproc)" -ge 2 ]; then
    ranks=2
else
    ranks=1
fi

rm -rf "$run"
command=("$bin/gradrun" --nproc-per-node "$ranks" "$bin/gradus" train shapes --output_dir "$run"
    "$@")
echo "demo: ${command[*]}"
exec "${command[@]}"
