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
    timeout 300 "$GR_BIN/gradrun" --nproc-per-node "$2" "$gradus" "${@:3}" >"$1.log" 2>&1
}
says() { grep -q -- "$2" "$1.log" || fail "$1: no '$2'"; }

run train 2 train shapes --device cpu --n_train 2000 --n_eval 403 --epochs 2 --output_dir run \
    --ema_decay 0.9 --grad_accumulation_steps 2 --seed 3 || fail train

for ranks in 1 2 3 4; do
    run "test$ranks" "$ranks" test shapes --checkpoint run --output "t$ranks" || fail "test on $ranks"
    says "test$ranks" "^Test of run/checkpoints/best_model.safetensors on 403 samples:"
    grep -q '"samples": 403, ' "t$ranks/test_metrics.json" || fail "samples on $ranks"
    [ "$(grep '^accuracy,' "t$ranks/test_metrics.csv")" = "$(grep '^accuracy,' t1/test_metrics.csv)" ] ||
        fail "other accuracy on $ranks ranks"
    run "predict$ranks" "$ranks" predict shapes --checkpoint run --output "p$ranks" || fail "predict on $ranks"
    cmp "p1/predictions.csv" "p$ranks/predictions.csv" || fail "other predictions on $ranks ranks"
done
[ "$(wc -l <p1/predictions.csv)" = 404 ] || fail "not a line per sample"
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

# A loss that is a quotient of sums (dice), too: the same digits for any batch and ranks (P28).
run scenes 1 train --config "$GR_SOURCE/configs/shapes_segmentation.yaml" --device cpu --n_train 16 \
    --n_eval 11 --output_dir . --run_id scenes --plots false || fail scenes
for how in "1 4" "2 3" "4 1"; do
    read -r ranks batch <<<"$how"
    run "scenes$ranks" "$ranks" test --checkpoint scenes --test_batch_size "$batch" \
        --output "s$ranks" || fail "scenes on $ranks ranks"
    cmp s1/test_metrics.csv "s$ranks/test_metrics.csv" || fail "other results on $ranks ranks"
done

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
says none "say which model: --checkpoint.* or --run_id$"
mkdir -p runs && cp -r run runs/older && cp -r run runs/newer && touch -d '2001-02-03' runs/older/checkpoints
! run newest 1 test shapes || fail "no checkpoint named, with runs"
says newest "say which model: .*; the newest run is 'runs/newer'$"
rm -r runs
! run gone 2 test shapes --checkpoint nowhere || fail "a checkpoint that is not there"
says gone "cannot open 'nowhere'"

# Results lie in the run, whatever names it; --resume means --checkpoint; the recipe is known.
rm -rf run/test_metrics.* run/predict
run file 1 test shapes --checkpoint run/checkpoints/last.safetensors || fail "a file of a run"
[ -s run/test_metrics.json ] && [ ! -e test_metrics.json ] || fail "results of a file are not in its run"
rm run/test_metrics.json
(cd run/checkpoints && "$gradus" test --checkpoint last.safetensors) >inside.log 2>&1 || fail inside
[ -s run/test_metrics.json ] && [ ! -e run/checkpoints/test_metrics.json ] || fail "results inside"
! run vague 1 test --checkpoint nowhere || fail "neither recipe nor checkpoint"
says vague "cannot open 'nowhere': No such file"
run folder 2 predict shapes --resume run/checkpoints/ || fail "a folder of checkpoints"
says folder "^Predictions of run/checkpoints//*best_model.safetensors"
cmp p1/predictions.csv run/predict/predictions.csv || fail "predictions are not in the run"
run nameless 2 test --checkpoint run --output t10 || fail "a test without the recipe's name"
[ "$(grep '^accuracy,' t10/test_metrics.csv)" = "$(grep '^accuracy,' t1/test_metrics.csv)" ] ||
    fail "another accuracy without the recipe's name"
run onward 2 train --resume run --epochs 2 --ema_decay 0.9 || fail "going on without the recipe's name"
says onward "^Done after"

# What export writes is what test reads: the best model and its averages; and test takes it.
accuracy() { grep '^accuracy,' "$1/test_metrics.csv"; }
"$gradus" export run --output model.safetensors >export.log 2>&1 || fail export
says export "from run/checkpoints/best_model.safetensors, averages"
! "$gradus" export run model.pt >export_two.log 2>&1 || fail "export without --output"
says export_two "the file to write comes after --output"
"$gradus" export --checkpoint last --output_dir run --raw --output last.pt >export_last.log 2>&1 ||
    fail "export of the last"
says export_last "from run/checkpoints/last.safetensors, parameters"
run weights 2 test shapes --checkpoint model.safetensors --output t11 || fail "a test of weights"
[ "$(accuracy t11)" = "$(accuracy t1)" ] || fail "weights: $(accuracy t11), the run: $(accuracy t1)"
run weights_pt 1 predict --checkpoint last.pt --output p11 || fail "predictions of weights"
! run weights_on 2 train shapes --resume model.safetensors --output_dir none || fail "weights went on"
says weights_on "these are weights only"
says weights_on "use --pretrained"

# Frozen weights that are not in the checkpoint are those of the run, whatever the seed of a test.
small=(--device cpu --n_train 2000 --n_eval 100 --epochs 1 --freeze 'fc1.*' --seed 3)
run whole 1 train shapes "${small[@]}" --output_dir whole || fail whole
run part 1 train shapes "${small[@]}" --output_dir part --trainable_only || fail part
for name in whole part; do
    run "$name.test" 2 test shapes --checkpoint "$name" --seed 77 --output "$name.t" || fail "test $name"
done
[ "$(accuracy whole.t)" = "$(accuracy part.t)" ] || fail "$(accuracy part.t) is not $(accuracy whole.t)"
says part.test "2 frozen tensors are not in the checkpoint: drawn with its seed 3"
run tuned 1 train shapes "${small[@]}" --output_dir tuned --trainable_only --pretrained model.safetensors ||
    fail tuned
run tuned.test 1 test shapes --checkpoint tuned --output tuned.t || fail "test tuned"
says tuned.test "not in the checkpoint: model.safetensors"
valid=$(sed -n 's/^Done after .*accuracy \([0-9]*\).*/\1/p' tuned.log)
value=$(accuracy tuned.t) && value=${value#*,}
awk -v a="$value" -v b="$valid" 'BEGIN { exit !(a * 100 > b - 8) }' || fail "tuned: $value, $valid"

# An exported model is whole: frozen weights are drawn, or taken from where the run had them. What
# cannot be made whole is refused, unless a part is asked for.
"$gradus" export whole --output whole.safetensors >whole.log 2>&1 || fail "export of a whole"
"$gradus" export part --output part.safetensors >part.log 2>&1 || fail "export of a part"
says part "part.safetensors: 6 tensors"
says part "2 of them are frozen and not in the checkpoint: drawn with its seed 3"
run part.weights 2 test shapes --checkpoint part.safetensors --seed 77 --output part.w || fail "test of the model"
[ "$(accuracy part.w)" = "$(accuracy whole.t)" ] || fail "$(accuracy part.w) is not $(accuracy whole.t)"
"$gradus" export tuned --output tuned.safetensors >tuned.log 2>&1 || fail "export of a tuned one"
says tuned "frozen and not in the checkpoint: model.safetensors, and what that lacks drawn"
run tuned.weights 1 test shapes --checkpoint tuned.safetensors --output tuned.w || fail "test tuned model"
[ "$(accuracy tuned.w)" = "$(accuracy tuned.t)" ] || fail "$(accuracy tuned.w) is not $(accuracy tuned.t)"
mv model.safetensors moved.safetensors
! "$gradus" export tuned --output gone.safetensors >gone.log 2>&1 || fail "export without its beginning"
says gone "2 frozen tensors are not in the checkpoint"
says gone "model.safetensors'"
says gone "or export --trainable_only"
[ ! -e gone.safetensors ] || fail "a file all the same"
"$gradus" export tuned --output gone.safetensors --pretrained moved.safetensors >gone.log 2>&1 ||
    fail "export with --pretrained"
cmp gone.safetensors tuned.safetensors || fail "another model from the moved file"
"$gradus" export tuned --output some.safetensors --trainable_only >some.log 2>&1 || fail "a part"
says some "some.safetensors: 4 tensors"
! run some.weights 2 test shapes --checkpoint some.safetensors || fail "a test of a part"
says some.weights "it gives 4 of the model's 6 tensors"
