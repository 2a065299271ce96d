#!/usr/bin/env bash
# What --resume takes: a run, a file, last, best, auto; names of runs, which are never
# overwritten; formats of checkpoints.
set -euo pipefail

fail() { echo "FAILED: $*" >&2; tail -n 30 ./*.log >&2; exit 1; }
gradus=$GR_BIN/gradus
folder=$(mktemp -d "$PWD/run.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"
# The validation loss falls all the time here, so that the evaluation at an early end makes no
# difference to which one is the best.
small=(--device cpu --n_train 256 --n_eval 64 --batch_size 32 --epochs 3 --best_by loss --progress plain)
train() { # LOG OPTION...
    timeout 300 "$gradus" train shapes "${@:2}" >>"$1.log" 2>&1 || fail "$1: ${*:2}"
}
says() { grep -q -- "$2" "$1.log" || fail "$1: no '$2'"; } # LOG PATTERN
same() { cmp "$1/checkpoints/$3" "$2/checkpoints/$3" || fail "$1 and $2 differ in $3"; }

# 8 steps an epoch; stopped in mid-epoch.
train whole --output_dir whole "${small[@]}" --save_every 6 --save_epochs 1 --keep 0
ls whole/checkpoints | diff - <(printf '%s\n' best_model.safetensors checkpoint_epoch_{1,2,3}.safetensors \
    checkpoint_step_{12,18,24,6}.safetensors last.safetensors) || fail "names of checkpoints"
for form in run file folder last auto; do
    train "$form" --output_dir "$form" "${small[@]}" --save_every 6 --save_epochs 1 --keep 0 --max_steps 13
done
train run --resume run
train file --resume file/checkpoints/last.safetensors
train folder --resume folder/checkpoints/
train last --output_dir last --resume last
train auto --output_dir auto --resume auto
! grep -q 'in the checkpoint)' run.log || fail "the learning rate is not another one"
cp -r run rated
train rated --resume rated --epochs 4 --lr 5e-5
says rated '^  Learning rate: 5e-5 (was 2e-3 in the checkpoint)$'
says rated '^epoch 4/4: train loss [0-9.]*, accuracy'
[ ! -e runs ] || fail "--resume RUN/checkpoints began another run"
for form in run file folder last auto; do
    says "$form" "Resumed at step 13 from $form/checkpoints/*last.safetensors"
    same whole "$form" last.safetensors
    same whole "$form" checkpoint_step_18.safetensors
done
cp -r whole best
train best --output_dir best --resume best --epochs 4
says best 'from best/checkpoints/best_model.safetensors'

# Back to an older checkpoint: the best model of a later step stays, under a name of its own and in
# both formats, and one line says so; later starts say nothing.
train back --output_dir back "${small[@]}" --save_every 6 --keep 0 --checkpoint_format both
cp -r back/checkpoints kept
grep -q '"step": 24' back/metrics.jsonl || fail "no record of step 24"
train back --resume back/checkpoints/checkpoint_step_6.safetensors --max_steps 8
says back '^  The run was at step 24: records after step 6 are dropped, best_model of step 24 (loss [0-9.]*) is kept as best_model_step_24$'
for suffix in safetensors pt; do
    cmp {kept,back/checkpoints}/best_model.$suffix >cmp.txt 2>&1 && fail "no new best model"
    cmp kept/best_model.$suffix back/checkpoints/best_model_step_24.$suffix || fail "the best model was lost"
done
! grep -q '"step": 24' back/metrics.jsonl || fail "a record of step 24 stayed"
train onward --resume back --max_steps 12
! grep -q 'The run \(was\|had\)\|is kept as' onward.log || fail "a run that only goes on went back"
train again --resume back --max_steps 24 # another way to step 24, and back again: both stay
train again --resume back/checkpoints/checkpoint_step_6.safetensors --max_steps 8
says again 'best_model of step 24 .* is kept as best_model_step_24_2$'
cmp kept/best_model.pt back/checkpoints/best_model_step_24.pt || fail "the first best model was lost"
train kept --output_dir newer --resume back/checkpoints/best_model_step_24.safetensors --epochs 4
says kept 'Resumed at step 24 from'
train fresh --output_dir fresh --resume auto "${small[@]}" --save_every 6 --save_epochs 1 --keep 0
says fresh 'There is no checkpoint to resume from: the run begins'
same whole fresh checkpoint_epoch_1.safetensors
train nameless --resume auto "${small[@]}" --max_steps 2
says nameless 'the run begins; name it by --output_dir or --run_id'

cp -r run inside && cd inside/checkpoints
"$gradus" train shapes --resume . --epochs 4 >../../inside.log 2>&1 || fail "--resume . in checkpoints/"
cd ../..
grep -q '^epoch 4/4' inside.log && [ ! -e inside/checkpoints/runs ] || fail "--resume . began another run"

# From another run into a new one, which leaves the other alone.
before=$(cat run/checkpoints/* | cksum)
train new --output_dir new --resume run/checkpoints/checkpoint_step_6.safetensors --save_every 6
says new 'Resumed at step 6 from run/checkpoints/checkpoint_step_6.safetensors'
same whole new last.safetensors
[ "$(cat run/checkpoints/* | cksum)" = "$before" ] || fail "the other run was touched"

# Names of runs; one that exists is left alone.
train named --run_id first "${small[@]}"
[ -s runs/first/checkpoints/last.safetensors ] || fail "no runs/first"
rc=0
"$gradus" train shapes --run_id first "${small[@]}" >twice.log 2>&1 || rc=$?
[ "$rc" = 2 ] || fail "a run was overwritten"
says twice "'runs/first' holds a run already"
train named --output_dir where --run_id first "${small[@]}" --max_steps 2
[ -s where/first/checkpoints/last.safetensors ] || fail "no where/first"
[ -s runs/first/model_summary.txt ] && [ -s runs/first/metrics.csv ] && [ -s runs/first/plots/loss.png ] ||
    fail "files of a run"

# Formats: both, and each on its own goes on to the same bits.
train both --output_dir both "${small[@]}" --checkpoint_format both --save_epochs 1
train pt --output_dir pt "${small[@]}" --checkpoint_format pt --max_steps 20
[ ! -e pt/checkpoints/last.safetensors ] || fail "a format that nobody asked for"
train pt --resume pt
says pt 'Resumed at step 20 from pt/checkpoints/last.pt'
[ -s both/checkpoints/best_model.pt ] && [ -s both/checkpoints/checkpoint_epoch_3.safetensors ] ||
    fail "not both formats"
