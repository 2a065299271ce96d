#!/usr/bin/env bash
# gradus debug --nan: clean steps say so; a run that diverges is told where, with operator,
# source line and ranges, on one rank and on two; nothing is saved.
set -euo pipefail

fail() { echo "FAILED: $*" >&2; exit 1; }
gradus=$GR_BIN/gradus
folder=$(mktemp -d "$PWD/run.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"
small="--n_train 256 --n_eval 64 --batch_size 32"

timeout 300 "$gradus" debug --nan shapes --max_steps 3 $small >out.txt || fail "a clean run"
grep -q "3 steps from 1 on: every value is finite" out.txt || { cat out.txt; fail "not clean"; }
[ "$(ls)" = out.txt ] || fail "a debug run wrote something: $(ls)"

# With the very options of a run, or from its checkpoint: the run stays as it is.
timeout 300 "$gradus" train shapes $small --epochs 2 --save_steps 4 --output_dir run >/dev/null ||
    fail "a run to look at"
find run -type f -exec md5sum {} + | sort >before.txt
timeout 300 "$gradus" debug --nan shapes $small --output_dir run --max_steps 3 >out.txt ||
    fail "the options of a run"
timeout 300 "$GR_BIN/gradrun" --nproc-per-node 2 "$gradus" debug --nan shapes --epochs 3 \
    --resume run/checkpoints/checkpoint_step_8.safetensors --lr 0.1 >out.txt 2>&1 || fail "from a checkpoint"
grep -q "steps from 9 on: every value is finite" out.txt || { cat out.txt; fail "not from step 8 on"; }
timeout 300 "$gradus" debug --nan shapes --resume run --epochs 3 >out.txt || fail "from a run"
find run -type f -exec md5sum {} + | sort | cmp - before.txt || fail "debug changed the run"
rm -rf run before.txt

# diverged NAME COMMAND...: must end with 2 and name a place.
diverged() {
    local name=$1 rc=0
    shift
    timeout 300 "$@" --max_steps 40 --optim sgd --lr 1000000 --warmup_steps 0 $small \
        >out.txt 2>err.txt || rc=$?
    [ "$rc" = 2 ] || { cat out.txt err.txt; fail "$name: a run that diverges ended with $rc"; }
    grep -q "is not finite" out.txt || { cat out.txt err.txt; fail "$name: no finding"; }
    grep -q "shapes.c:[0-9]*)" out.txt || { cat out.txt; fail "$name: no source line"; }
    grep -q "source 0: " out.txt || { cat out.txt; fail "$name: no ranges"; }
    grep -q "a value of step" err.txt || { cat err.txt; fail "$name: no message"; }
}

diverged "one rank" "$gradus" debug --nan shapes
diverged "two ranks" "$GR_BIN/gradrun" --nproc-per-node 2 "$gradus" debug --nan shapes

rc=0
timeout 300 "$gradus" debug shapes >out.txt 2>&1 || rc=$?
[ "$rc" = 2 ] && grep -q "say what to look for" out.txt || { cat out.txt; fail "without --nan"; }
"$gradus" help debug >out.txt
grep -q "usage: gradus debug --nan RECIPE" out.txt || fail "help"
