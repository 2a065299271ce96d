#!/usr/bin/env bash
# Two ranks learn the drawn shapes: a shortened demo, which misses its mark when anything
# between data, gradients, exchange and update is wrong but does not fail.
set -euo pipefail

folder=$(mktemp -d "$PWD/run.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"$GR_BIN/gradrun" --nproc-per-node 2 "$GR_BIN/gradus" train shapes --device cpu --output_dir run \
    --n_train 16000 --n_eval 1000 --epochs 4 --lr 4e-3 >log.txt 2>&1 || { cat log.txt; exit 1; }
awk '/^Done after/ { sub(/.*: accuracy /, ""); good = $1 + 0 >= 95 } END { exit !good }' log.txt ||
    { cat log.txt; exit 1; }
