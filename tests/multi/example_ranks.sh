#!/usr/bin/env bash
# The example that users copy works on one rank and on three, and prints the same.
set -euo pipefail

example=$(dirname "$GR_BIN")/examples/train_mlp
[ -x "$example" ] || exit 77 # a build without the examples
for n in 1 3; do
    "$GR_BIN/gradrun" --nproc-per-node "$n" "$example" | diff "$GR_SOURCE/examples/train_mlp.expected" -
done
