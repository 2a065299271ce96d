#!/usr/bin/env bash
# on_bad_sample: skip. Every file that does not load is counted once, however many share a batch
# and however many epochs and ranks meet it; the first ones are named (P42).
set -euo pipefail

fail() { echo "FAILED: $*" >&2; tail -n 25 ./*.log >&2; exit 1; }
folder=$(mktemp -d "$PWD/run.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"
says() { grep -q -- "$2" "$1.log" || fail "$1: no '$2'"; }
names() { grep -c "left out: training sample" "$1.log" || true; }

picture=iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAAAAAA6mKC9AAAAEUlEQVR42mOMYkAFTAwjWgAAcVYAet/VL98AAAAASUVORK5CYII=
for class in cat dog; do
    mkdir -p data/train/$class data/valid/$class
    for i in $(seq 10 29); do base64 -d <<<"$picture" >data/train/$class/$i.png; done
    for i in 1 2 3; do base64 -d <<<"$picture" >data/valid/$class/$i.png; done
done
for i in 11 13 14 15 20 21 27; do printf 'no picture' >data/train/dog/$i.png; done
printf 'no picture' >data/valid/cat/2.png
train() { # RANKS NAME OPTION...
    timeout 300 "$GR_BIN/gradrun" --nproc-per-node "$1" "$GR_BIN/gradus" train vision --device cpu \
        --model.name mlp --dataset.root_dir data --batch_size 20 --epochs 3 --save_best false \
        --on_bad_sample skip --output_dir "$2" "${@:3}" >"$2.log" 2>&1
}

# All seven are in one batch or two of an epoch.
train 1 one || fail "one rank"
[ "$(names one)" = 5 ] || fail "one: $(names one) files named"
[ "$(grep -o 'data/train/dog/[0-9]*.png' one.log | sort -u | wc -l)" = 5 ] || fail "one: a file named twice"
says one "more training samples do not load: they are counted, not named"
says one "^7 of 40 training samples did not load so far: others took their place.$"
says one "^7 of 40 training samples did not load: others took their place.$"
says one "^1 of 6 validation samples did not load: left out.$"
[ "$(grep -c 'so far: others' one.log)" = 1 ] || fail "one: told again without news"

# Ranks meet other samples in every epoch: their counts do not add up.
train 2 two --batch_size 10 || fail "two ranks"
says two "^7 of 40 training samples did not load: others took their place.$"
says two "^1 of 6 validation samples did not load: left out.$"

# A run that ends in the middle of an epoch sums up, too.
train 1 short --batch_size 4 --max_steps 6 --val_interval 100 || fail "a short run"
says short "of 40 training samples did not load: others took their place.$"

"$GR_BIN/gradus" test --checkpoint one --dataset.test_path data/valid --device cpu --on_bad_sample skip >test.log 2>&1 || fail test
says test "^1 of 6 test samples did not load: left out.$"
