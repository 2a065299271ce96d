#!/usr/bin/env bash
# gradus check, export and list: proofs before step 1 (P20), one step on 1 to 4 ranks, nothing
# written; the model alone out of a checkpoint (P26).
set -euo pipefail

fail() { echo "FAILED: $*" >&2; tail -n 25 ./*.log >&2; exit 1; }
gradus=$GR_BIN/gradus
folder=$(mktemp -d "$PWD/run.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"
check() { # RANKS NAME OPTION...
    timeout 300 "$GR_BIN/gradrun" --nproc-per-node "$1" "$gradus" check shapes --device cpu "${@:3}" \
        >"$2.log" 2>&1
}
says() { grep -q -- "$2" "$1.log" || fail "$1: no '$2'"; }

for ranks in 1 2 3 4; do
    check "$ranks" "c$ranks" --n_train 500 --batch_size 16 || fail "$ranks ranks"
    says "c$ranks" "batch 16 x $ranks ranks\? x 1 accumulation"
    says "c$ranks" "^  fc1  *200960 *0 *0 *401 K$"
    says "c$ranks" "A step on $ranks rank$([ "$ranks" = 1 ] || echo s): loss 2.[0-9]*, "
    says "c$ranks" "Everything is ready."
done
[ -z "$(find . -mindepth 1 ! -name '*.log')" ] || fail "check left something: $(ls)"

# A device that is not here; a batch that fits nowhere is not tried.
check 1 small --batch_size 64 --device_memory 5MiB || fail small
says small "Device memory 5.0 MiB: batch_size 64 needs [34][0-9.]* MiB and fits"
says small "largest batch_size that fits is [0-9]"
# The answer no is an exit code, too: the same 1 as where it does not fit here.
for ranks in 1 2; do
    code=0
    check "$ranks" tiny --batch_size 64 --device_memory 1MiB || code=$?
    [ "$code" = 1 ] || fail "$ranks ranks: what does not fit there ended with $code"
    says tiny "out of memory: batch_size 64 needs [0-9.]* MiB, and --device_memory is 1.0 MiB"
done
says tiny "does not fit"
says tiny "no batch fits: "
says tiny "ready here, but it does not fit into the device memory that was asked for"
check 1 large --batch_size 64 --device_memory 4000GiB || fail large
says large "largest batch_size that fits is at least [0-9]"
says large "Everything is ready.$"
! check 1 bad --n_train 10 --batch_size 11 || fail "a batch that is too large"
says bad "largest batch_size that works is 10"
: >plain
! check 1 where --n_train 500 --output_dir plain/run || fail "a folder in a file"
# A batch norm over one pixel takes no batch of one: the answer begins at two.
timeout 300 "$gradus" check vision --device cpu --batch_size 4 --device_memory 140MiB >norm.log 2>&1 || fail norm
says norm "largest batch_size that fits is [0-9]"
# Drawn pictures are brought to the size that the transforms say, as those of a folder are.
timeout 300 "$gradus" check vision --device cpu --batch_size 4 --model.name mlp --transform '{RESIZE: [40, 24]}' \
    >drawn.log 2>&1 || fail drawn
says drawn "Everything is ready."
! timeout 300 "$gradus" check vision --device cpu --batch_size 4096 --device_memory 150MiB >norms.log 2>&1 ||
    fail norms
says norms "largest batch_size that fits is [0-9]"
check 1 frozen --n_train 500 --freeze 'fc1.*' || fail frozen
says frozen "34186 trainable, 200960 frozen"
rm ./*.log plain

# What train would stop at is said: a run in the way; a checkpoint is not read here.
"$gradus" train shapes --device cpu --n_train 64 --n_eval 8 --epochs 1 --output_dir old/one >old.log 2>&1
check 2 again --n_train 500 --output_dir old --run_id one || fail again
says again "Folder: old/one holds a run already: train needs --resume old/one"
check 1 onward --n_train 500 --output_dir old/one --resume last || fail onward
says onward "Not used: checkpoint.resume"
rm -rf ./*.log old
"$gradus" help train shape >help.log || fail help
says help "There is no recipe 'shape'"
rm help.log

# Every picture and mask is looked at: broken ones are counted and named, alike on any ranks.
png() { base64 -d >"$2" <<<"iVBORw0KGgoAAAANSUhEUgAAAB$1"; }
pic=AAAAAQCAAAAAA6mKC9AAAAEUlEQVR42mOMYkAFTAwjWgAAcVYAet/VL98AAAAASUVORK5CYII=
one=AAAAAQCAAAAAA6mKC9AAAAEUlEQVR42mNkZEAFTAwjWgAAEx8AIVEaj0QAAAAASUVORK5CYII=
seven=AAAAAQCAAAAAA6mKC9AAAAEUlEQVR42mNkZ0AFTAwjWgAAGXkAJyZUEUkAAAAASUVORK5CYII=
mkdir -p data/images data/masks
for i in $(seq 100 349); do
    png "$pic" "data/images/$i.png"
    png "$one" "data/masks/$i.png"
done
vision=(vision --device cpu --model.name unet --model.config.num_classes 2 --model.config.base_channels 4
    --dataset.name pairs --dataset.train_path data --batch_size 2 --drop_last true)
look() { # RANKS NAME OPTION...
    timeout 300 "$GR_BIN/gradrun" --nproc-per-node "$1" "$gradus" check "${vision[@]}" "${@:3}" >"$2.log" 2>&1
}
look 2 whole || fail "data that are whole"
says whole "^Data: 225 training samples, all looked at, 113 loaded, 0 broken ("
says whole "^Data: 25 validation samples, all looked at, 25 loaded, 0 broken ("
says whole "Everything is ready."
head -c 60 data/images/100.png >cut && mv cut data/images/107.png
rm data/masks/111.png && printf 'no picture' >data/masks/111.png
base64 -d >data/masks/113.png \
    <<<"iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAAAAADhZOFXAAAAEElEQVR42mNkZIAAJgaKGAACzwARzTvpmQAAAABJRU5ErkJggg=="
for ranks in 1 2 4; do
    ! look "$ranks" "broken$ranks" || fail "broken data on $ranks ranks"
    says "broken$ranks" "image 'data/images/107.png': "
    says "broken$ranks" "image 'data/masks/111.png': neither JPEG nor PNG"
    says "broken$ranks" "113.png': the image has 16 x 16 pixels, its mask 8 x 8"
    says "broken$ranks" "3 samples cannot be used"
    grep '^  sample ' "broken$ranks.log" >"list$ranks"
    cmp list1 "list$ranks" || fail "another list on $ranks ranks"
done
look 2 skipped --on_bad_sample skip || fail "broken data to be skipped"
says skipped "3 broken samples; the run would skip them"
look 1 unseen --check_data none --on_bad_sample skip || fail "data not looked at"
! grep -q "^Data: " unseen.log || fail "data were looked at"
for i in 107 111 113; do png "$pic" "data/images/$i.png" && png "$one" "data/masks/$i.png"; done
for i in $(seq 100 349); do png "$seven" "data/masks/$i.png"; done
! look 1 values --check_data all || fail "values of masks"
says values "Data: 225 training samples, all looked at, 225 loaded, 225 broken ("
says values "its mask has the value 7, but there are 2 classes"
says values "^  and 215 more"
rm -r ./*.log data list?

# The model alone, in both formats; runs and recipes are listed.
timeout 300 "$gradus" train shapes --device cpu --n_train 96 --n_eval 8 --batch_size 8 --epochs 1 \
    --output_dir runs/one --ema_decay 0.5 --freeze 'fc1.*' >train.log 2>&1 || fail train
file=$(find runs/one/checkpoints -name '*.safetensors' | head -n 1)
"$gradus" export "$file" --output all.safetensors >export.log || fail export
says export "all.safetensors: 6 tensors, 235146 elements"
"$gradus" export --output part.pt --ema --trainable_only "$file" >export.log || fail "export .pt"
says export "part.pt: 4 tensors, 34186 elements"
"$gradus" list >list.log || fail list
says list "^  shapes "
says list "models: resnet18, "
says list "^  one  *step 12, "
# The step that is saved, and what a run that died had logged after it; a run that saved nothing.
cp -r runs/one runs/two && cp -r runs/one runs/three && rm -r runs/three/checkpoints
echo '{"step": 15, "loss": 1}' >>runs/two/metrics.jsonl
"$gradus" list runs >list.log || fail "list runs"
says list "^  two  *step 12 (logged up to 15), "
says list "^  three  *logged up to step 12, 0 checkpoints$"
rm -r runs/two runs/three
mkdir none && (cd none && "$gradus" list runs) >list.log || fail "list without runs"
says list "^no runs in 'runs'$"
rmdir none
! "$gradus" export "$file" >export.log 2>&1 || fail "export without a name"
! "$gradus" export "$file" --output m.onnx >export.log 2>&1 || fail "export as onnx"
says export "'m.onnx' has no ending that says what to write: --output FILE.safetensors, or .pt"
[ ! -e m.onnx ] || fail "export wrote a file of a format that it does not know"
! "$gradus" list models >list.log 2>&1 || fail "list models"
