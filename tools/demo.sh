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

# free_folder: demo-run, if it is not there or holds an earlier demo, which is removed; else
# the next number. What else lies there is not ours to remove.
free_folder() {
    local run=demo-run i
    for i in 2 3 4 5 6 7 8 9; do
        if [ ! -e "$run" ] || grep -qsx 'recipe: "shapes"' "$run/config.yaml"; then
            rm -rf "$run"
            echo "$run"
            return
        fi
        echo "demo: '$run' holds something else and stays" >&2
        run=demo-run-$i
    done
    echo "demo: no free folder; remove one of those" >&2
    return 1
}

run=$(free_folder)
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

command=("$bin/gradrun" --nproc-per-node "$ranks" "$bin/gradus" train shapes --output_dir "$run"
    "$@")
echo "demo: ${command[*]}"
exec "${command[@]}"
