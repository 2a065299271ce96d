#!/usr/bin/env bash
# A resumed run equals an unbroken one to the last bit: mid-epoch, on one and two ranks,
# with amp, accumulation, clipping and a short last batch. Settings come from the
# checkpoint. The first lines of the banner are a promise.
set -euo pipefail

fail() { echo "FAILED: $*" >&2; exit 1; }
train() { # RANKS FOLDER OPTION...
    "$GR_BIN/gradrun" --nproc-per-node "$1" "$GR_BIN/gradus" train shapes --output_dir "$2" \
        --progress plain "${@:3}" >>"$2.log" 2>&1 || { cat "$2.log"; fail "$2"; }
}

folder=$(mktemp -d "$PWD/run.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"
# 1000 samples: 500 per rank, 32 a batch, so the 16th batch of an epoch has 20.
common=(--device cpu --n_train 1000 --n_eval 203 --batch_size 32 --epochs 4 --save_every 0)

pair() { # NAME RANKS STOP_AT END OPTION...
    local name=$1 ranks=$2 at=$3 end=$4
    shift 4
    train "$ranks" "$name.whole" "${common[@]}" "$@"
    train "$ranks" "$name.parts" "${common[@]}" "$@" --max_steps "$at"
    train "$ranks" "$name.parts" --resume
    cmp "$name.whole/checkpoints/step-$end.safetensors" \
        "$name.parts/checkpoints/step-$end.safetensors" || fail "$name: other bits"
    grep -q "Resumed at step $at\$" "$name.parts.log" || fail "$name: banner without the step"
}

pair plain 2 21 00000064
pair one 1 40 00000128
pair bf16 2 13 00000032 --use_amp --gradient_accumulation_steps 2 --clip_norm 1
pair fp16 2 30 00000064 --amp fp16 --optim sgd --momentum 0.9 --lr 0.05

grep -v " LAUNCH OMP_NUM_THREADS" plain.whole.log | head -n 4 | diff - <(printf '%s\n' 'Training setup:' '  Distributed: True' \
    '  World size: 2' '  Rank: 0, Local rank: 0') || fail "banner"
grep -q 'batch 32 x 2 ranks x 2 accumulation = 128' bf16.whole.log || fail "effective batch"
grep -q '^Done after .* on 203 held-out samples: accuracy [0-9.]*%, validation loss' plain.whole.log || fail "last lines"
grep -q "^To train on from here: .*gradrun --nproc-per-node 2 .*--resume" plain.whole.log ||
    fail "no resume command"
grep -q '^  lr: 0.05$' fp16.parts/config.yaml || fail "settings were not taken over"

# The records of both runs agree but for the speed.
for run in whole parts; do
    sed 's/, "\(samples_per_s\|[a-z]*_share\)": [^,}]*//g' "plain.$run/metrics.jsonl" | grep -v '"step": 21,' >"$run.jsonl"
done
diff whole.jsonl parts.jsonl || fail "metrics differ"
