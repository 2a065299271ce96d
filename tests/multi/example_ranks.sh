#!/usr/bin/env bash
# The examples that users copy work on one rank and on several, and print the same. token_budget
# guards P21: on any ranks as many steps on each, every sample once, the budget of tokens kept.
set -euo pipefail

example=$(dirname "$GR_BIN")/examples/train_mlp
[ -x "$example" ] || exit 77 # a build without the examples
for n in 1 3; do
    "$GR_BIN/gradrun" --nproc-per-node "$n" "$example" | diff "$GR_SOURCE/examples/train_mlp.expected" -
done
# Its log lines, too, are each rank's.
GR_COMM=tcp GR_LOG=comm:info "$GR_BIN/gradrun" --nproc-per-node 2 "$example" 2>log.txt >out.txt
for r in 0 1; do
    grep -Eq " I r$r COMM .*rank $r of 2" log.txt || { cat log.txt; exit 1; }
done
# A rank that suffers from another says so with its exit code, and is not blamed although it ends
# first.
# shellcheck disable=SC2016
code=0
"$GR_BIN/gradrun" --nproc-per-node 2 bash -c '
    [ "$RANK" = 0 ] && exec "$0"
    GR_THREADS=many "$0" || code=$?
    sleep 0.3
    exit "$code"' "$example" >out.txt 2>log.txt || code=$?
[ "$code" = 2 ] && grep -q "rank 1 .*failed first: exit code 2" log.txt || { cat log.txt; exit 1; }
for n in 1 2 3 4; do
    "$GR_BIN/gradrun" --nproc-per-node "$n" "$(dirname "$example")/token_budget" |
        diff "$GR_SOURCE/examples/token_budget.expected" -
done
