#!/usr/bin/env bash
# kill -9 of any process of a job (the front, its agent, a rank, all of them) at random instants,
# again and again, each time resumed with `auto`: it always goes on, in the end has the bits of a run
# that nobody killed, and its records are all there, each once (records.py). Steps only ever grow.
# Nothing is left behind: no process, no temporary file, no shared memory.
#
#     train_kill.sh [TIMES]    default 6; `make soak` does a thousand. SEED=N repeats a sequence.
#
# Runs of these ways take turns, each until it is done: plain, in 16 bits, ZeRO, over TCP, and under
# a launcher that restarts the job itself. MODES="plain zero" chooses.
set -Eeuo pipefail

trap 'echo "FAILED: line $LINENO: $BASH_COMMAND" >&2' ERR
fail() { echo "FAILED: $*" >&2; tail -n 20 ./*.log >&2; exit 1; }
times=${1:-6}
SEED=${SEED:-$$}
RANDOM=$SEED
read -ra modes <<<"${MODES:-plain amp zero tcp restarts}"
gradus=$GR_BIN/gradus
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d "$PWD/run.XXXXXX")
mark=KILL_MARK=$folder # in the environment of everything that belongs to a job
members() { # processes of ours that live
    local f state
    for f in $(grep -lzxF "$mark" /proc/[0-9]*/environ 2>/dev/null || true); do
        f=${f%/environ}
        state=$(sed 's/.*) \(.\).*/\1/' "$f/stat" 2>/dev/null) || continue
        [ "$state" = Z ] || [ "$state" = X ] || echo "${f#/proc/}"
    done
}
trap 'trap - ERR; members | xargs -r kill -KILL 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
mkdir tmp
export TMPDIR=$folder/tmp WANDB_RUN_ID=killed # or else each run draws its own
# An epoch has 8 steps, the last of 13 samples a rank; one checkpoint in five steps, and of the
# best; 192 steps take a few lives.
settings=(--device cpu --n_train 250 --n_eval 32 --batch_size 16 --epochs 24 --save_every 5
    --keep 2 --log_every 3 --plot_every 1 --progress plain --use_wandb true --wandb_mode offline)
declare -A options=([plain]="" [amp]="--use_amp" [zero]="--zero 2 --ema_decay 0.99" [tcp]="--comm tcp"
    [restarts]="")
run() { # MODE FOLDER: its process becomes the front
    local launch=()
    [ "$1" != restarts ] || launch=(--max-restarts 100 --restart-delay 0)
    # shellcheck disable=SC2086 # several words
    exec env "$mark" setsid "$GR_BIN/gradrun" --nproc-per-node 2 "${launch[@]}" "$gradus" train shapes \
        --output_dir "$2" --resume auto "${settings[@]}" ${options[$1]} >>"$2.log" 2>&1
}
lives() {
    [ -n "$job" ] && kill -0 "$job" 2>/dev/null && ! grep -q '^State:.Z' "/proc/$job/status" 2>/dev/null
}
wait_gone() { # no process of the job is left
    local _
    for _ in $(seq 1 3000); do
        [ -n "$(members)" ] || { wait "$job" 2>/dev/null || true; job=; return 0; }
        sleep 0.02
    done
    fail "kill $n_killed ($mode, $what): a minute later there still is: $(members | tr '\n' ' ')"
}
child_of() { ps -o pid= --ppid "$1" 2>/dev/null | awk '{ print $1 }' || true; } # there may be none
pick() { # sets `what` and `victims`
    local agent ranks
    agent=$(child_of "$job" | head -n 1)
    mapfile -t ranks < <([ -z "$agent" ] || child_of "$agent")
    case $((RANDOM % 5)) in
    0) what=front victims=("$job") ;;
    1) what=agent victims=("${agent:-$job}") ;;
    2) what="rank 0" victims=("${ranks[0]:-$job}") ;;
    3) what="rank 1" victims=("${ranks[1]:-$job}") ;;
    4) what=all victims=("$job" ${agent:+"$agent"} "${ranks[@]}") ;;
    esac
}
check_growth() { # steps only ever grow
    local now
    now=$(sed -n 's/.*Resumed at step \([0-9]*\) from.*/\1/p' "$1.log" | tail -n 1)
    [ "${now:-0}" -ge "$at" ] || fail "kill $n_killed ($mode, $what): resumed at step $now after $at"
    at=${now:-$at}
}
check_run() { # MODE FOLDER: it is done
    grep -q '^Done after 192 steps' "$2.log" || fail "$1: it did not end"
    ! grep -q 'is used instead' "$2.log" || fail "$1: a damaged checkpoint was left"
    cmp "$1.whole/checkpoints/last.safetensors" "$2/checkpoints/last.safetensors" || fail "$1: other bits"
    cmp "$1.whole/checkpoints/best_model.safetensors" "$2/checkpoints/best_model.safetensors" ||
        fail "$1: another best model"
    python3 "$here/records.py" --wandb "$1.whole" "$2" || fail "$1: records"
    [ -z "$(find tmp -mindepth 1 -maxdepth 1)" ] || fail "$1: files in TMPDIR"
    [ -z "$(find /dev/shm -maxdepth 1 -iname '*gradus*')" ] || fail "$1: shared memory"
}

echo "seed $SEED"
n_killed=0 n_runs=0 job='' what=nobody
trial() { # MODE: one run, killed until it is done or the kills are used up
    local name=$1.killed.$n_runs
    mode=$1 at=0
    [ -d "$mode.whole" ] || (run "$mode" "$mode.whole") || fail "$mode: unbroken run"
    while [ "$n_killed" -lt "$times" ]; do
        lives || { [ -z "$job" ] || wait_gone; run "$mode" "$name" & job=$!; }
        sleep "$((RANDOM % 2)).$(printf %03d $((RANDOM % 1000)))"
        lives || break # done before its end came
        pick
        kill -KILL "${victims[@]}" 2>/dev/null || continue
        n_killed=$((n_killed + 1))
        # A launcher that restarts goes on by itself when only a rank dies.
        if [ "$mode" != restarts ] || [[ $what != rank* ]]; then wait_gone; fi
        check_growth "$name"
    done
    [ -z "$job" ] || wait "$job" || fail "$mode: the last start"
    [ -z "$job" ] || wait_gone
    grep -q '^Done after' "$name.log" || (run "$mode" "$name") || fail "$mode: the last start"
    check_run "$mode" "$name"
    n_runs=$((n_runs + 1))
    rm -rf "$name" "$name.log"
    echo "$mode: done after $n_killed kills in all"
}
while [ "$n_killed" -lt "$times" ]; do
    trial "${modes[n_runs % ${#modes[@]}]}"
done
echo "killed $n_killed times in $n_runs runs (${modes[*]}): bits, records and what is left as they should be"
