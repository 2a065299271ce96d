#!/usr/bin/env bash
# Two ranks train as one rank with the joint batch does, from the command line: with sync_bn and
# loss_reduction global the losses of a ResNet are the same up to rounding, without they are not.
# Then everything that ranks may be asked for at once, with checks for drift (P34).
set -euo pipefail

fail() { echo "FAILED: $*" >&2; tail -n 25 ./*.txt >&2; exit 1; }
folder=$(mktemp -d "$PWD/run.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export PATH=$GR_BIN:$PATH

# NAME RANKS BATCH WORD...: 4 steps of SGD.
run() {
    timeout 300 gradrun --nproc_per_node="$2" gradus --config "$GR_SOURCE/configs/ddp_example.yaml" \
        --task train --device cpu --epochs 1 --n_train 64 --n_eval 32 --batch_size "$3" \
        --optimizer sgd --lr 0.01 --log_every 1 --output_dir "$1" "${@:4}" >"$1.txt" 2>&1 || fail "$1"
    grep -o '"loss":[^,}]*' "$1/ddp_example/metrics.jsonl" | cut -d: -f2 >"$1.loss"
    [ "$(wc -l <"$1.loss")" -ge 4 ] || fail "$1 has too few losses"
}
# Whether the first three losses of two runs are as near as that; then rounding has grown (statistics
# are over 16 numbers in the last layers).
near() { paste "$1.loss" "$2.loss" | head -3 |
    awk -v most="$3" '{ d = $1 - $2; if (d > most || -d > most) far = 1 } END { exit far }'; }

same=(--sync_bn true --loss_reduction global --check_every 1)
run one 1 16 "${same[@]}"
run two 2 8 "${same[@]}"
near one two 5e-5 || fail "two ranks are not one: $(paste one.loss two.loss)"
run own 2 8 --check_every 1
! near one own 2e-3 || fail "batch norm was synchronised though nobody asked for it"

# Two micro-steps, gradients in bf16, frozen layers, mixed precision.
run all 2 4 "${same[@]}" --grad_accumulation_steps 2 --grad_dtype bf16 --freeze 'conv1.*,layer1.*' \
    --amp bf16 --clip_norm 1
grep -q 'Done after 4 steps' all.txt || fail "not all steps"
