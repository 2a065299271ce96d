#!/usr/bin/env bash
# State cut up between ranks in the trainer: the same tensors in the checkpoint as with whole
# state, with averages and clipping, and a run that goes on with another `zero` is the unbroken
# one.
set -euo pipefail
export GR_COMMON_FROM=0 # ranks share small models, too

fail() { echo "FAILED: $*" >&2; exit 1; }
train() { # RANKS LOG OPTION...
    "$GR_BIN/gradrun" --nproc-per-node "$1" "$GR_BIN/gradus" train shapes \
        --progress plain "${@:3}" >>"$2.log" 2>&1 || { cat "$2.log"; fail "$2"; }
}
tensors() { # FILE: all behind the header, which holds the settings
    local n
    n=$(od -An -tu8 -N8 "$1")
    tail -c +$((n + 9)) "$1" | sha256sum
}

folder=$(mktemp -d "$PWD/run.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"
common=(--device cpu --n_train 600 --n_eval 100 --batch_size 32 --epochs 2 --save_every 5
    --ema_decay 0.9 --clip_norm 1 --first_bucket 4KiB --bucket 16KiB)

for zero in 0 1 2; do
    train 3 "z$zero" --output_dir "z$zero" "${common[@]}" --zero "$zero"
    tensors "z$zero/checkpoints/last.safetensors" >"z$zero.sum"
    cmp z0.sum "z$zero.sum" || fail "zero $zero: other bits"
done
train 3 parts --output_dir parts "${common[@]}" --zero 2 --max_steps 7
train 3 parts --resume parts --zero 1
tensors parts/checkpoints/last.safetensors | cmp - z0.sum || fail "resumed: other bits"
