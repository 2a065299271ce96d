#!/usr/bin/env bash
# The commands of the DDP guide, with gradrun for torchrun and gradus for main.py: train, test and
# predict from configs/ddp_example.yaml, on one rank and on two. Results of test and predict do
# not depend on the number of ranks (P35, P36).
set -euo pipefail

fail() { echo "FAILED: $*" >&2; tail -n 25 ./*.txt >&2; exit 1; }
folder=$(mktemp -d "$PWD/run.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export PATH=$GR_BIN:$PATH
cp -r "$GR_SOURCE/configs" "$GR_SOURCE/run_ddp.sh" .

# As written, but small. WORD...: more words.
small=(--device cpu --epochs 1 --n_train 128 --n_eval 48 --batch_size 16)
says() { grep -qE -- "$2" "$1" || fail "nothing like '$2' in $1"; }

gradrun --nproc_per_node=2 gradus --config configs/ddp_example.yaml --task train "${small[@]}" \
    >train2.txt 2>&1 || fail "training on two ranks"
says train2.txt '^Training setup:$'
says train2.txt '^  Distributed: True$'
says train2.txt '^  World size: 2$'
says train2.txt '^  Rank: 0, Local rank: 0$'
says train2.txt '^  Model: resnet18, 32 x 32 x 3, 3 classes$'
says train2.txt '^  Data: drawn shapes, 128 training and 48 evaluation samples, '
says train2.txt 'accuracy [0-9.]+%'
[ -d runs/ddp_example ] || fail "no folder of the run"

for n in 1 2; do
    gradrun --nproc_per_node=$n gradus --config configs/ddp_example.yaml --task test "${small[@]}" \
        >"test$n.txt" 2>&1 || fail "test on $n ranks"
    says "test$n.txt" 'accuracy'
    gradrun --nproc_per_node=$n gradus --config configs/ddp_example.yaml --task predict \
        "${small[@]}" --output "predicted$n" >"predict$n.txt" 2>&1 || fail "prediction on $n ranks"
    [ -s "predicted$n/predictions.csv" ] || fail "no predictions of $n ranks"
done
cmp predicted1/predictions.csv predicted2/predictions.csv || fail "predictions depend on the ranks"
[ "$(head -1 predicted1/predictions.csv)" = index,file,class,name,circle,ring,square ] ||
    fail "header of the predictions"
awk -F, 'NR > 1 && ($1 != NR - 2 || NF != 7 || $5 + $6 + $7 < 0.9999 || $5 + $6 + $7 > 1.0001) { bad = 1 }
    END { exit bad || NR != 49 }' predicted1/predictions.csv || fail "rows of the predictions"
diff <(grep -E '^  [a-z]' test1.txt) \
    <(grep -E '^  [a-z]' test2.txt) ||
    fail "the test's values depend on the ranks"

# One rank without a launcher; the other configs; the script.
gradus --config configs/ddp_quick_test.yaml --task train --device cpu --epochs 1 --n_train 256 \
    --n_eval 64 >quick.txt 2>&1 || fail "the quick test"
gradus train --config configs/shapes_segmentation.yaml --device cpu --n_train 32 --n_eval 8 \
    >masks.txt 2>&1 || fail "training with masks"
says masks.txt 'miou'
gradrun --nproc_per_node=2 gradus --config configs/shapes_segmentation.yaml --task predict \
    --device cpu --n_eval 8 --output masks >predict_masks.txt 2>&1 || fail "prediction of masks"
[ "$(find masks -name '*.png' | wc -l)" = 8 ] || fail "masks as PNG"
[ "$(wc -l <masks/predictions.csv)" = 9 ] || fail "rows of masks"
# Pictures of one's own: a folder, one file, nothing.
gradus predict --config configs/shapes_segmentation.yaml --device cpu --input masks --output own \
    >own.txt 2>&1 || fail "prediction on a folder"
[ "$(find own -name '*.png' | wc -l)" = 8 ] || fail "a mask for each picture of a folder"
gradus predict --config configs/shapes_segmentation.yaml --device cpu --input masks/drawn-3.png \
    --output one >one.txt 2>&1 || fail "prediction on a file"
cmp own/drawn-3.png one/drawn-3.png || fail "alone, a picture has another mask"
! gradus predict --config configs/shapes_segmentation.yaml --device cpu --input masks/nothing.png \
    --output none >none.txt 2>&1 || fail "prediction on nothing"
says none.txt "there is no file or folder 'masks/nothing.png'"

# A checkpoint knows its classes: the training data may be gone, or have others by now, and what is
# predicted on may lie in folders of any names.
mkdir -p pics/train/{ant,bee,cow} other/{x,y,z}
for i in 0 1 2 3 4 5 6 7; do
    class=(ant bee cow) && cp "masks/drawn-$i.png" "pics/train/${class[i % 3]}/"
    class=(x y z) && cp "masks/drawn-$i.png" "other/${class[i % 3]}/"
done
gradus train vision --device cpu --model.name mlp --data_dir pics --epochs 1 --batch_size 2 \
    --output_dir named >named.txt 2>&1 || fail "training on folders of classes"
mv pics away
gradus predict --checkpoint named --device cpu --input other --output named_out >named2.txt 2>&1 ||
    fail "prediction without the training data"
[ "$(head -1 named_out/predictions.csv)" = index,file,class,name,ant,bee,cow ] ||
    fail "the classes of a prediction are not those of the training"
gradus test --checkpoint named --device cpu --dataset.test_path away/train --output named_out \
    >named3.txt 2>&1 || fail "test without the training data"
mv away pics && mv pics/train/cow pics/train/aphid
! gradus train --resume named --device cpu --epochs 2 >named4.txt 2>&1 || fail "other classes by now"
says named4.txt "the checkpoint's setting 'dataset.classes': the data have a class 'aphid', which is none of these 3"
# Its config.yaml begins a run with other data: what was found in the first ones is no setting. A
# run that was resumed writes it alike.
gradus train --config named/config.yaml --device cpu --output_dir aphids >aphids.txt 2>&1 ||
    fail "config.yaml with other data"
says aphids/config.yaml '^  # classes: \["ant", "aphid", "bee"\] # found in the data$'
says aphids/config.yaml '^    # num_classes: 3 # found in the data$'
gradus train --resume aphids --device cpu --epochs 2 >aphids2.txt 2>&1 || fail "a resumed run"
says aphids/config.yaml '^  # classes: \["ant", "aphid", "bee"\] # found in the data$'
gradus predict --checkpoint aphids --device cpu --input other --output aphids_out >aphids3.txt 2>&1 ||
    fail "prediction after a resumed run"
[ "$(head -1 aphids_out/predictions.csv)" = index,file,class,name,ant,aphid,bee ] ||
    fail "a resumed run has forgotten its classes"
# What somebody has set stays one, there and from the checkpoint.
gradus train --resume aphids --device cpu --epochs 3 --dataset.classes ant,aphid,bee >aphids4.txt 2>&1 ||
    fail "classes by flag"
gradus train --resume aphids --device cpu --epochs 4 >aphids5.txt 2>&1 || fail "classes of a checkpoint"
says aphids/config.yaml '^  classes: \["ant", "aphid", "bee"\]$'

NPROC=2 TASK=check ./run_ddp.sh "${small[@]}" --output_dir checked >script.txt 2>&1 ||
    fail "run_ddp.sh"
