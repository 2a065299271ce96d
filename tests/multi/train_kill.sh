#!/usr/bin/env bash
# kill -9 of a whole job at random instants, again and again, each time resumed with `auto`: it
# always goes on, and in the end has the bits of a run that nobody killed. Steps only ever grow.
#
#     train_kill.sh [TIMES]    default 6; `make soak` does hundreds
set -euo pipefail

fail() { echo "FAILED: $*" >&2; tail -n 20 ./*.log >&2; exit 1; }
times=${1:-6}
gradus=$GR_BIN/gradus
folder=$(mktemp -d "$PWD/run.XXXXXX")
trap 'jobs -p | xargs -r kill -KILL 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
steps=$((times * 150))
settings=(--device cpu --n_train 256 --n_eval 32 --batch_size 16 --epochs 100000 --max_steps "$steps"
    --val_interval 0 --save_every 5 --keep 2 --log_every 50 --progress plain --resume auto)
run() { # FOLDER
    exec setsid "$GR_BIN/gradrun" --nproc-per-node 2 "$gradus" train shapes --output_dir "$1" \
        "${settings[@]}" >>"$1.log" 2>&1
}
step_of() { # the newest that was resumed from
    sed -n 's/.*Resumed at step \([0-9]*\) from.*/\1/p' killed.log | tail -n 1
}
(run whole) || fail "unbroken run"
RANDOM=${SEED:-$$}
echo "seed ${SEED:-$$}"
at=0
for i in $(seq 1 "$times"); do
    run killed &
    pid=$!
    sleep "$((RANDOM % 2)).$(printf %03d $((RANDOM % 1000)))"
    kill -KILL -- "-$pid" 2>/dev/null || true # gradrun and all that it started
    wait "$pid" 2>/dev/null || true
    for _ in $(seq 1 5000); do # until nobody holds the folder
        [ ! -e killed/lock ] || flock -n killed/lock true && break
        sleep 0.02
    done
    now=$(step_of)
    [ "${now:-0}" -ge "$at" ] || fail "kill $i: resumed at step $now after $at"
    at=${now:-$at}
done
(run killed) || fail "the last start"
cmp whole/checkpoints/last.safetensors killed/checkpoints/last.safetensors || fail "other bits"
! grep -q 'is used instead' killed.log || fail "a damaged checkpoint was left"
echo "killed $times times, the last time at step $at or later"
