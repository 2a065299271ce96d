#!/usr/bin/env bash
# gradus test and predict: every sample once on any number of ranks, results in their order and
# equal for 1 and 4 ranks (P27, P28, P32, P35, P36); a task instead of a command.
set -euo pipefail

fail() { echo "FAILED: $*" >&2; tail -n 25 ./*.log >&2; exit 1; }
gradus=$GR_BIN/gradus
folder=$(mktemp -d "$PWD/run.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"
run() { # NAME RANKS WORD...
    timeout 60 "$GR_BIN/gradrun" --nproc-per-node "$2" "$gradus" "${@:3}" >"$1.log" 2>&1
}
says() { grep -q -- "$2" "$1.log" || fail "$1: no '$2'"; }

run train 2 train shapes --device cpu --n_train 2000 --n_eval 100 --epochs 2 --output_dir run \
    --ema_decay 0.9 --grad_accumulation_steps 2 --seed 3 || fail train

for ranks in 1 2 3 4; do
    run "test$ranks" "$ranks" test shapes --checkpoint run --output "t$ranks" || fail "test on $ranks"
    says "test$ranks" "^Test of run/checkpoints/best_model.safetensors on 4000 samples:"
    grep -q '"samples": 4000, ' "t$ranks/test_metrics.json" || fail "samples on $ranks"
    [ "$(grep '^accuracy,' "t$ranks/test_metrics.csv")" = "$(grep '^accuracy,' t1/test_metrics.csv)" ] ||
        fail "other accuracy on $ranks ranks"
    run "predict$ranks" "$ranks" predict shapes --checkpoint run --output "p$ranks" || fail "predict on $ranks"
    cmp "p1/predictions.csv" "p$ranks/predictions.csv" || fail "other predictions on $ranks ranks"
done
[ "$(wc -l <p1/predictions.csv)" = 4001 ] || fail "not a line per sample"
cut -d, -f1 p1/predictions.csv | tail -n +2 | sort -nc || fail "not in order"

# Beside the run by default; by task; last instead of best.
run beside 1 --recipe shapes --task test --output_dir run --checkpoint last || fail beside
says beside "^Test of run/checkpoints/last.safetensors"
[ -s run/test_metrics.json ] && [ -s run/test_metrics.csv ] || fail "no results beside the run"
run there 2 predict shapes --checkpoint run/checkpoints/last.safetensors --output_dir run || fail there
[ -s run/predict/predictions.csv ] || fail "no predictions beside the run"

# Settings come from the checkpoint; what would change a run in its middle may differ here.
run other 3 test shapes --checkpoint run --batch_size 17 --n_train 50 --test_batch_size 9 \
    --output t9 || fail "other settings"
[ "$(grep '^accuracy,' t9/test_metrics.csv)" = "$(grep '^accuracy,' t1/test_metrics.csv)" ] ||
    fail "other accuracy by batch"

# Running statistics of batch norms are rank 0's, in validation as in the file: a run that is
# resumed at its end finds the same values.
vision=(vision --config "$GR_SOURCE/configs/ddp_example.yaml" --device cpu --output_dir . --run_id bn)
run bn 3 train "${vision[@]}" --n_train 200 --n_eval 50 --epochs 1 --batch_size 16 --plots false ||
    fail "batch norm"
run bn_again 3 train "${vision[@]}" --n_train 200 --n_eval 50 --epochs 1 --batch_size 16 --plots false \
    --resume last || fail "batch norm, again"
last() { sed -n 's/^Done after .*held-out samples: //p' "$1.log"; }
[ -n "$(last bn)" ] && [ "$(last bn)" = "$(last bn_again)" ] || fail "$(last bn) is not $(last bn_again)"

! run none 1 test shapes || fail "no checkpoint named"
says none "say which model: --checkpoint"
! run gone 2 test shapes --checkpoint nowhere || fail "a checkpoint that is not there"
says gone "cannot open 'nowhere'"
