#!/usr/bin/env bash
# Training where the host sees results late, as on a GPU, tried without one (device cpu:late): the
# bits are those of the CPU; a stop acts two steps after the one that carried it, and what goes on
# later is as if nothing had been; of a step that is not finite nothing is saved.
set -euo pipefail

fail() { echo "FAILED: $*" >&2; tail -n 20 ./*.log >&2; exit 1; }
tensors() { # FILE: all behind the header, which holds the settings
    local n
    n=$(od -An -tu8 -N8 "$1")
    tail -c +$((n + 9)) "$1" | sha256sum
}
same() { # A B: two runs
    cmp <(tensors "$1/checkpoints/last.safetensors") <(tensors "$2/checkpoints/last.safetensors") ||
        fail "$1 and $2 differ"
}
wait_for() { # PATTERN FILE
    local end=$((SECONDS + 60))
    until grep -qs -- "$1" "$2"; do
        [ "$SECONDS" -lt "$end" ] || fail "nothing like '$1' in $2"
        sleep 0.02
    done
}
folder=$(mktemp -d "$PWD/run.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# run RANKS FOLDER OPTION...
run() {
    "$GR_BIN/gradrun" --nproc-per-node "$1" "$GR_BIN/gradus" train "${@:3}" --output_dir "$2" \
        --plots false >>"$2.log" 2>&1
}
# launch: the same in place of this shell, so that $! is the launcher.
launch() {
    GR_LOG=train:debug exec "$GR_BIN/gradrun" --nproc-per-node "$1" "$GR_BIN/gradus" train \
        "${@:3}" --output_dir "$2" --plots false >>"$2.log" 2>&1
}

# Epochs, validations, checkpoints in mid-epoch and an end in mid-epoch: all bits of the CPU.
small=(shapes --n_train 240 --n_eval 60 --batch_size 12 --save_every 7 --max_steps 27 --log_every 5)
for ranks in 1 2 3; do
    run "$ranks" "cpu$ranks" "${small[@]}" --device cpu || fail "CPU on $ranks ranks"
    run "$ranks" "late$ranks" "${small[@]}" --device cpu:late || fail "late on $ranks ranks"
    same "cpu$ranks" "late$ranks"
    # What the records hold is the same, too; times differ.
    for f in cpu late; do
        grep -o '"step": *[0-9]*\|"loss": *[^,]*\|"val_loss": *[^,]*\|"grad_norm"\|"skipped"' \
            "$f$ranks/metrics.jsonl" >"$f.records"
    done
    cmp cpu.records late.records || fail "other records on $ranks ranks"
done

# A stop: no step waits for it, and it acts two steps after the one that carried it, or where the
# host catches up: for a record.
every=40
long=(shapes --n_train 60000 --n_eval 30 --batch_size 3 --log_every "$every"
    --save_every 100000 --save_best=false --progress plain)
stop_and_go_on() { # RANKS OPTION...: with a signal, then with a file
    local ranks=$1 name="stop$1" pid rc=0 asked stopped due record
    launch "$ranks" "$name" "${long[@]}" --device cpu:late "${@:2}" &
    pid=$!
    wait_for " step $every/" "$name.log"
    kill -TERM "$pid"
    wait "$pid" || rc=$?
    [ "$rc" = 143 ] || fail "exit code $rc after SIGTERM"
    asked=$(sed -n 's/.*step \([0-9]*\) carries a request to stop.*/\1/p' "$name.log" | sort -n | head -n 1)
    stopped=$(sed -n 's/^Stopped by SIGTERM after step \([0-9]*\) .*/\1/p' "$name.log")
    record=$(((asked + every - 1) / every * every)) due=$((asked + 2))
    [ "$record" -gt "$due" ] || due=$record
    [ "$stopped" = "$due" ] || fail "asked at step $asked, stopped after $stopped, not $due"
    launch "$ranks" "$name" shapes --resume last --progress plain &
    pid=$!
    wait_for 'Resumed at' "$name.log"
    touch "$name/STOP"
    wait "$pid" || fail "a file STOP is no failure"
    stopped=$(sed -n 's/^Stopped by the file .* after step \([0-9]*\) .*/\1/p' "$name.log")
    run "$ranks" "$name" shapes --resume last --max_steps $((stopped + 20)) || fail "resume"
    run "$ranks" "whole$ranks" "${long[@]}" --device cpu --max_steps $((stopped + 20)) "${@:2}" ||
        fail "unbroken run"
    same "$name" "whole$ranks"
}
stop_and_go_on 1
stop_and_go_on 2 --grad_accumulation_steps 2
stop_and_go_on 3

# One sample that makes a NaN: step and rank are named as on the CPU, and the newest checkpoint is
# of a step before it, which goes on to the same bits. Where updates look at all gradients, the step
# is skipped and the run goes on as on the CPU.
npy() { # TYPE SHAPE: the head of an .npy file
    printf '\x93NUMPY\x01\x00\x76\x00'
    printf '%-117s\n' "{'descr': '$1', 'fortran_order': False, 'shape': $2, }"
}
{ npy '<f4' '(64, 4)' && head -c $((64 * 16)) /dev/zero; } >v.npy
{ npy '|u1' '(64,)' && printf '\x01' && head -c 63 /dev/zero; } >y.npy
{
    npy '<f4' '(64, 4)' && head -c $((37 * 16)) /dev/zero
    printf '\xff\xff\x7f\x7f%.0s' 1 2 3 4 && head -c $((26 * 16)) /dev/zero
} >x.npy
mlp=(vision --model.name mlp --dataset.name npy --dataset.train_path x.npy --batch_size 4
    --dataset.train_labels y.npy --dataset.valid_path v.npy --dataset.valid_labels y.npy
    --epochs 2 --shuffle false --log_every 1000)
for ranks in 1 2 3; do
    step=$((37 / (4 * ranks) + 1))
    rc=0
    run "$ranks" "nan$ranks" "${mlp[@]}" --device cpu:late --save_every 2 || rc=$?
    [ "$rc" = 2 ] || fail "exit code $rc after a NaN"
    grep -q "the loss is nan at step $step on rank $((37 % ranks)); .*--resume from the checkpoint of step $(((step - 1) / 2 * 2)) " "nan$ranks.log" ||
        fail "no word of the NaN on $ranks ranks"
    run "$ranks" "before$ranks" "${mlp[@]}" --device cpu --max_steps $(((step - 1) / 2 * 2)) ||
        fail "up to the NaN"
    same "nan$ranks" "before$ranks"
    for device in cpu cpu:late; do
        run "$ranks" "on${device#cpu}$ranks" "${mlp[@]}" --device "$device" --clip_norm 1 ||
            fail "a skipped step on $device"
        grep -q "the loss is nan at step $step on rank .*: the step changed nothing" \
            "on${device#cpu}$ranks.log" || fail "no word of a skipped step on $device"
        grep -q '^2 of [0-9]* steps skipped' "on${device#cpu}$ranks.log" || fail "no count on $device"
    done
    same "on$ranks" "on:late$ranks"
done
