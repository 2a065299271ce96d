#!/usr/bin/env bash
# The folder of a run: one user at a time, a new start where nothing was saved, and room.
set -euo pipefail

fail() { echo "FAILED: $*" >&2; tail -n 20 ./*.log >&2; exit 1; }
gradus=$GR_BIN/gradus
folder=$(mktemp -d "$PWD/run.XXXXXX")
trap 'jobs -p | xargs -r kill -KILL 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
small=(--device cpu --n_train 256 --n_eval 64 --batch_size 32 --epochs 2 --progress plain)
# Steps until a signal comes: a run that is certainly still there.
endless=(--device cpu --n_train 256 --n_eval 64 --batch_size 32 --epochs 1000000 --val_interval 0
    --save_every 0 --save_epochs 0 --log_every 1 --progress plain)
wait_for() { # PATTERN FILE
    local end=$((SECONDS + 120))
    until grep -qs -- "$1" "$2"; do
        [ "$SECONDS" -lt "$end" ] || fail "nothing like '$1' in $2"
        sleep 0.02
    done
}
refused() { # CODE PATTERN OPTION...
    local rc=0
    timeout 300 "$gradus" train shapes "${@:3}" >out.log 2>&1 || rc=$?
    [ "$rc" = "$1" ] || fail "${*:3}: exit code $rc, expected $1"
    grep -q -- "$2" out.log || fail "${*:3}: no '$2'"
}

# Two runs in one folder: the second is refused and told who is there.
"$gradus" train shapes --output_dir one "${endless[@]}" >one.log 2>&1 &
pid=$!
wait_for 'step 2/' one.log
wait_for '"step": 1,' one/metrics.jsonl # written by another thread, when it gets to it
refused 2 "'one' is used by another run, process $pid;" --output_dir one "${small[@]}"
refused 2 "'one' is used by another run, process $pid;" --output_dir one --resume last
[ "$(grep -c '"step": 1,' one/metrics.jsonl)" = 1 ] || fail "the second run wrote to the folder"

# Killed before its first checkpoint: --resume says what to do, and a new start begins anew.
kill -KILL "$pid"
wait "$pid" || true
refused 1 "'one' holds no checkpoint; start the run again without --resume" --output_dir one --resume last
refused 0 "'one' holds a run that ended before its first checkpoint; it begins anew" \
    --output_dir one "${small[@]}" --log_every 1
[ "$(grep -c '"step": 1,' one/metrics.jsonl)" = 1 ] || fail "records of the dead run stayed"
refused 2 "'one' holds a run already" --output_dir one "${small[@]}"

# A folder in the place of a checkpoint is found before the first step, not at the first save.
cp -r one taken
rm taken/checkpoints/last.safetensors
mkdir taken/checkpoints/last.safetensors
refused 1 "'taken/checkpoints/last.safetensors' is a folder, in the place of a checkpoint .*; move it away" \
    --resume taken --epochs 3
! grep -q 'step 1/' out.log || fail "it trained before it found out"
rmdir taken/checkpoints/last.safetensors
refused 0 '^Done after' --resume taken --epochs 3

# The same after a loss that is no number.
refused 2 "the loss is .*nan" --output_dir nan "${small[@]}" --optim sgd --lr 1e6
refused 0 "begins anew" --output_dir nan "${small[@]}"

# What is refused before the first step leaves no folder with an invented name, whichever rank finds
# out and whoever opens its log last; one that was asked for stays.
mkdir empty
cd empty
head -c 100 /dev/urandom >../junk.safetensors
away() { # PATTERN OPTION...
    local rc=0
    timeout 300 "$GR_BIN/gradrun" --nproc-per-node 3 "$gradus" train shapes --device cpu "${@:2}" >../out.log 2>&1 ||
        rc=$?
    [ "$rc" != 0 ] || fail "${*:2} was taken"
    grep -q -- "$1" ../out.log || fail "${*:2}: no '$1'"
}
gone() { [ -z "$(find . -mindepth 2)" ] || fail "left: $(find . -mindepth 2 | paste -sd ' ')"; }
away "largest batch_size that works" --batch_size 100000
gone
away "freeze" --freeze 'x*'
gone
for i in 1 2 3 4; do
    away "junk.safetensors" --resume ../junk.safetensors
    gone
done
away "freeze" --freeze 'x*' --output_dir asked
[ -d asked ] || fail "a folder that was asked for went"
cd ..

# Many at the same moment: exactly one begins in a folder, and without --output_dir each
# has one of its own.
for i in 1 2 3 4 5 6; do
    "$gradus" train shapes --output_dir race "${endless[@]}" >"race$i.log" 2>&1 &
    "$gradus" train shapes "${small[@]}" >"own$i.log" 2>&1 &
    pids[i]=$!
done
for i in 1 2 3 4 5 6; do
    wait "${pids[i]}" || fail "own$i"
done
end=$((SECONDS + 120))
until [ "$(cat race?.log | grep -c "'race' is used by another run")" = 5 ] &&
    grep -q 'step 2/' race?.log; do
    [ "$SECONDS" -lt "$end" ] || fail "five of six were not refused, or the sixth does not train"
    sleep 0.02
done
kill -TERM "$(cat race/lock)"
wait
[ "$(grep -l "^Training setup" race?.log | wc -l)" = 1 ] || fail "not one run in the folder"
[ "$(cat own?.log | grep '^  Output:' | sort -u | wc -l)" = 6 ] || fail "runs share a new folder"

# Room for what is kept and one more is asked for at the start.
refused 1 "has [0-9.]* [GT]iB free, and 1000002 checkpoints need [0-9.]* [GT]iB; make room" --output_dir room "${small[@]}" --keep 1000000

# On a disk that fills up later, saving fails before it touches anything.
full_disk() {
    mkdir disk
    mount -t tmpfs -o size=20m none disk || exit 77
    refused 0 'Done' --output_dir disk/run "${endless[@]}" --log_every 1000000 --max_steps 4
    "$gradus" train shapes --resume disk/run --progress plain --log_every 1 >disk.log 2>&1 &
    pid=$!
    wait_for 'Resumed at step 4 from' disk.log
    wait_for 'step 6/' disk.log # now there is something to save
    head -c 100m /dev/zero >disk/filler 2>/dev/null || true
    kill -TERM "$pid"
    rc=0
    wait "$pid" || rc=$?
    [ "$rc" = 1 ] || fail "exit code $rc on a full disk"
    grep -q 'saving step [0-9]*: .* has [0-9.]* [KM]*i*B free, and 1 checkpoint needs [0-9.]* MiB; .*--resume from step 4,' \
        disk.log || fail "no word of the full disk"
    grep -q '^The last checkpoint is of step 4\. Go on with: .*gradus train shapes --resume disk/run$' disk.log ||
        fail "no resume command on a full disk"
    rm disk/filler
    refused 0 'Resumed at step 4 from' --resume disk/run --max_steps 8
}
if unshare -rm true 2>/dev/null; then
    rc=0
    export gradus
    export -f full_disk wait_for refused fail
    unshare -rm bash -c "$(declare -p endless); set -euo pipefail; full_disk" || rc=$?
    [ "$rc" = 0 ] || [ "$rc" = 77 ] || fail "full disk"
else
    echo "skipped: a small disk (not permitted here)" >&2
fi

# Samples are counted, not batches: the second step of this epoch has one sample, and would
# be thousands of times as fast as the first if it counted for a batch.
"$gradus" train shapes --output_dir rate --device cpu --n_train 2048 --n_eval 8 --batch_size 2047 \
    --epochs 1 --log_every 1 --save_every 0 >rate.log 2>&1 || fail "rate"
sed -n 's/.*samples_per_s": \([0-9.e+]*\).*/\1/p' rate/metrics.jsonl |
    awk '{ rate[NR] = $1 } END { exit !(NR == 2 && rate[2] < 20 * rate[1]) }' ||
    fail "rates: $(cat rate/metrics.jsonl)"
