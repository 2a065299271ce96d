#!/usr/bin/env bash
# A resumed run equals an unbroken one to the last bit (P40): mid-epoch, on one to three ranks,
# with amp, accumulation, clipping and a short last batch. Settings come from the
# checkpoint. The first lines of the banner are a promise.
set -euo pipefail
export GR_COMMON_FROM=0 # ranks share small models, too

fail() { echo "FAILED: $*" >&2; exit 1; }
train() { # RANKS LOG OPTION...
    "$GR_BIN/gradrun" --nproc-per-node "$1" "$GR_BIN/gradus" train shapes \
        --progress plain "${@:3}" >>"$2.log" 2>&1 || { cat "$2.log"; fail "$2"; }
}

folder=$(mktemp -d "$PWD/run.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"
# 1000 samples: 500 per rank, 32 a batch, so the 16th batch of an epoch has 20.
common=(--device cpu --n_train 1000 --n_eval 203 --batch_size 32 --epochs 4 --save_every 0)

pair() { # NAME RANKS STOP_AT OPTION...
    local name=$1 ranks=$2 at=$3
    shift 3
    train "$ranks" "$name.whole" --output_dir "$name.whole" "${common[@]}" "$@"
    train "$ranks" "$name.parts" --output_dir "$name.parts" "${common[@]}" "$@" --max_steps "$at"
    train "$ranks" "$name.parts" --resume "$name.parts"
    cmp "$name.whole/checkpoints/last.safetensors" \
        "$name.parts/checkpoints/last.safetensors" || fail "$name: other bits"
    grep -q "Resumed at step $at from $name.parts/checkpoints/last.safetensors\$" \
        "$name.parts.log" || fail "$name: banner without the step"
}

pair plain 2 21
pair one 1 40
pair three 3 13 --ema_decay 0.99
train 3 three0.whole --output_dir three0.whole "${common[@]}"
pair bf16 2 13 --use_amp --gradient_accumulation_steps 2 --clip_norm 1
pair fp16 2 30 --amp fp16 --optim sgd --momentum 0.9 --lr 0.05
pair zero1 2 21 --zero 1 --ema_decay 0.99
pair zero2 3 13 --zero 2

# State that was cut up is saved as if it had not been: the same tensors with and without.
tensors() { # FILE: its bytes after the header, which holds settings
    tail -c +"$((9 + $(od -An -tu8 -N8 "$1")))" "$1"
}
train 2 plain.ema --output_dir plain.ema "${common[@]}" --ema_decay 0.99
cmp <(tensors plain.ema/checkpoints/last.safetensors) <(tensors zero1.whole/checkpoints/last.safetensors) ||
    fail "zero 1 has other bits"
cmp <(tensors three0.whole/checkpoints/last.safetensors) <(tensors zero2.whole/checkpoints/last.safetensors) ||
    fail "zero 2 has other bits"

# Lines of the log are another stream's, and come anywhere between.
grep -m 4 -vE '^[0-9]+\.[0-9]+ [A-Z] r[0-9]+ ' plain.whole.log |
    diff - <(printf '%s\n' 'Training setup:' '  Distributed: True' '  World size: 2' \
        '  Rank: 0, Local rank: 0') || fail "banner"
grep -q 'batch 32 x 2 ranks x 2 accumulation = 128' bf16.whole.log || fail "effective batch"
grep -q '^Done after 64 steps .*, on 203 held-out samples: accuracy [0-9.]*%' plain.whole.log ||
    fail "last lines"
grep -q "^To train on from here: .*gradrun --nproc-per-node 2 .*--resume plain.whole" \
    plain.whole.log || fail "no resume command"
grep -q '^  lr: 0.05$' fp16.parts/config.yaml || fail "settings were not taken over"

# The records of both runs agree but for the speed.
for run in whole parts; do
    sed 's/, "\(samples_per_s\|[a-z]*_share\)": [^,}]*//g' "plain.$run/metrics.jsonl" | grep -v '"step": 21,' >"$run.jsonl"
done
diff whole.jsonl parts.jsonl || fail "metrics differ"
