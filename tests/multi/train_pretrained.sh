#!/usr/bin/env bash
# Weights from elsewhere (--pretrained), read by rank 0 alone; and W&B runs of the trainer, which
# never fail a run (P18).
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

train first --output_dir first "${small[@]}" --checkpoint_format both --max_steps 6

# Weights from elsewhere: all, some, renamed, none.
"$GR_BIN/gradrun" --nproc-per-node 2 "$gradus" train shapes --output_dir pre "${small[@]}" --pretrained first/checkpoints/best_model.safetensors >pre.log 2>&1 || fail pre
says pre 'Pretrained: 6 of 6 tensors from first/checkpoints/best_model.safetensors'
train map --output_dir map "${small[@]}" --pretrained first/checkpoints/last.pt \
    --pretrained_map 'fc1.=old.,fc2.=fc2.'
says map 'Pretrained: 4 of 6 tensors'
says map "not in the file, so as drawn (2): fc1.weight, fc1.bias"
says map "in the file and not in the model (2): old.weight, old.bias"
rc=0
"$gradus" train shapes --output_dir none "${small[@]}" --pretrained first/checkpoints/last.pt \
    --pretrained_map '=x.' >none.log 2>&1 || rc=$?
[ "$rc" = 2 ] || fail "nothing fits, and it trains"
says none 'none of its 6 tensors has a name and shape of this model'
rc=0
"$gradus" train shapes --output_dir none --resume none.log >foreign.log 2>&1 || rc=$?
[ "$rc" = 1 ] || fail "a log was resumed"

# A W&B run goes on as the same one; without a client the command is told, and nothing fails.
env -u WANDB_API_KEY "$gradus" train shapes --output_dir wb "${small[@]}" --use_wandb \
    --wandb_project p --max_steps 5 >wb.log 2>&1 || fail wb
says wb 'To upload the run to W&B: wandb sync wb/wandb/offline-run-'
env -u WANDB_API_KEY "$gradus" train shapes --resume wb >wb2.log 2>&1 || fail wb2
[ "$(ls -d wb/wandb/offline-run-* | sed 's/.*-//' | sort -u | wc -l)" = 1 ] || fail "two W&B ids"
