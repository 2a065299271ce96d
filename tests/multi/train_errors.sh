#!/usr/bin/env bash
# What goes wrong before or at a start, and the words for it.
set -euo pipefail

fail() { echo "FAILED: $*" >&2; exit 1; }
gradus=$GR_BIN/gradus
folder=$(mktemp -d "$PWD/run.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# refused CODE PATTERN COMMAND...
refused() {
    local code=$1 pattern=$2 rc=0
    shift 2
    timeout 300 "$@" >out.txt 2>&1 || rc=$?
    [ "$rc" = "$code" ] || { cat out.txt; fail "$*: exit code $rc, expected $code"; }
    grep -q -- "$pattern" out.txt || { cat out.txt; fail "$*: no '$pattern'"; }
}

refused 2 "no command 'trian'; did you mean 'train'" "$gradus" trian
refused 2 "no recipe 'shape'; did you mean 'shapes'" "$gradus" train shape
refused 2 "say what to train" "$gradus" train
refused 2 "did you mean '--batch_size'" "$gradus" train shapes --batch_sise 3
refused 2 "flag '--learning_rate': 'fast' is no number" "$gradus" train shapes --learning_rate fast
refused 2 "flag '--num-epochs': '0' is less than 1" "$gradus" train shapes --num-epochs=0
refused 2 "flag '--output_dir': is empty" "$gradus" train shapes --output_dir ""
refused 2 "'--group': 'foo' is none of auto|nccl|ipc" "$gradus" train shapes --group foo
refused 2 "beta1 is 1, must be at least 0 and less than 1" "$gradus" train shapes --beta1 1
refused 2 "beta2 is 1, must be" "$gradus" train shapes --beta2=1 --optim adamw
refused 2 "eps is 0, must be more than 0" "$gradus" train shapes --eps 0
refused 2 "unexpected word 'squares'" "$gradus" train shapes squares
refused 2 "no pass is called 'fusion'" "$gradus" train shapes --output_dir a --dump_after fusion
refused 2 "--resume last needs the folder of the run: --output_dir" "$gradus" train shapes --resume last
refused 2 "largest batch_size that works is 33" "$gradus" train shapes --output_dir b \
    --n_train 100 --batch_size 64 --accumulate 3 --drop_last
refused 2 "1000000 x 1 rank x 1 accumulation = 1000000 samples, and an epoch has 24000; the \
largest batch_size that works is 24000" "$gradus" train shapes --output_dir b --batch_size 1000000
refused 2 "33 x 2 ranks x 2 accumulation = 132 .* works is 25" "$GR_BIN/gradrun" \
    --nproc-per-node 2 "$gradus" train shapes --output_dir b --n_train 100 --batch_size 33 \
    --accumulate 2
# Samples that pad the order are no samples: 9 on 4 ranks are 2 each, though every rank takes 3.
refused 2 "3 x 4 ranks x 1 accumulation = 12 samples, and an epoch has 9; .* works is 2" \
    "$GR_BIN/gradrun" --nproc-per-node 4 "$gradus" train shapes --output_dir b --n_train 9 --batch_size 3
refused 0 "^Done after 2 steps" "$GR_BIN/gradrun" --nproc-per-node 4 "$gradus" train shapes --device cpu \
    --output_dir padded --n_train 9 --n_eval 8 --batch_size 2 --epochs 1
refused 2 "9 samples on 2 ranks are 4 each, too few for 5 micro-steps; .* work are 4" \
    "$GR_BIN/gradrun" --nproc-per-node 2 "$gradus" train shapes --output_dir b --n_train 9 \
    --batch_size 1 --accumulate 5
refused 1 "cannot open 'nothing'.*without --resume" "$gradus" train shapes --resume best \
    --output_dir nothing
refused 1 "cannot open 'nothing'.*a file, the folder of a run, last, best or auto" "$gradus" train \
    shapes --resume nothing
refused 2 "--run_id 'a/b' is no name" "$gradus" train shapes --run_id a/b
refused 2 "'encoder' has no '='" "$gradus" train shapes --output_dir p --pretrained_map encoder \
    --pretrained nothing
refused 1 "cuda" "$gradus" train shapes --output_dir c --device cuda:77
: >plain
refused 1 "cannot make folder 'plain'" "$gradus" train shapes --output_dir plain/run
refused 2 "half-set\|WORLD_SIZE" env RANK=0 "$gradus" train shapes --output_dir d

refused 0 "usage: gradus train RECIPE" "$gradus" train --help
refused 0 "^use_amp  *train.amp = auto" "$gradus" help keys
refused 0 "gradus bench step MODEL" "$gradus" bench -h
refused 0 "^gradus [0-9]" "$gradus" --version

# What no host can hold is refused before anything is drawn or loaded.
SECONDS=0
refused 1 "samples need [0-9]* bytes" "$gradus" train shapes --output_dir huge \
    --batch_size 1000000000 --n_train 1000000000
[ "$SECONDS" -lt 60 ] || fail "a batch that is too big took $SECONDS s"

# An existing run is not overwritten; a damaged checkpoint is named and the one before used.
small=(--device cpu --n_train 256 --n_eval 64 --batch_size 32 --epochs 2)
"$gradus" train --output_dir run "${small[@]}" shapes --save_every 4 --save_best=false --keep 5 >log.txt 2>&1 ||
    fail "options before the recipe: $(cat log.txt)"
refused 2 "'run' holds a run already" "$gradus" train shapes --output_dir run "${small[@]}"
refused 2 "'--batch_size' was 32 .* and is 16" "$gradus" train shapes --resume run --batch_size 16
# One file with three names (last, the epoch's and the best), so all three are passed over.
newest=run/checkpoints/last.safetensors
printf 'x' | dd of="$newest" bs=1 seek=4000 conv=notrunc status=none
refused 0 "$newest.*step_12.* is used instead" "$gradus" train shapes --resume run
grep -q 'Resumed at step 12 from run/checkpoints/checkpoint_step_12' out.txt ||
    fail "not resumed at step 12"

# Ranks that disagree are refused before the first step, with key, values and ranks.
cat >differ.sh <<'END'
#!/usr/bin/env bash
exec "$GR_BIN/gradus" train shapes --output_dir differ --device cpu --seed $((RANK + 5))
END
chmod +x differ.sh
refused 2 "ranks differ in 'seed': rank 0 has '5', rank 1 has '6'" \
    "$GR_BIN/gradrun" --nproc-per-node 2 ./differ.sh

# A loss that is no number ends the run on all ranks alike, in the step that has it: no record
# comes here before the last step (P4).
refused 2 "the loss is .*nan at step [1-9] on rank 0; look for NaN in the data: 'gradus debug --nan' .*; then try a \
smaller --lr" "$GR_BIN/gradrun" \
    --nproc-per-node 2 "$gradus" train shapes --output_dir nan "${small[@]}" --optim sgd --lr 1e6 \
    --n_train 4096 --log_every 1000

# One sample that makes a NaN, by numbers so large that their sums are not finite: the rank that has
# it is named. Where updates look at all gradients first, the step changes nothing and the run goes on.
npy() { # TYPE SHAPE: the head of an .npy file
    printf '\x93NUMPY\x01\x00\x76\x00'
    printf '%-117s\n' "{'descr': '$1', 'fortran_order': False, 'shape': $2, }"
}
{ npy '<f4' '(64, 4)' && head -c $((64 * 16)) /dev/zero; } >v.npy
{ npy '|u1' '(64,)' && printf '\x01' && head -c 63 /dev/zero; } >y.npy
{
    npy '<f4' '(64, 4)' && head -c $((37 * 16)) /dev/zero
    printf '\xff\xff\x7f\x7f%.0s' 1 2 3 4 && head -c $((26 * 16)) /dev/zero
} >x.npy
mlp=(train vision --device cpu --model.name mlp --dataset.name npy --dataset.train_path x.npy
    --dataset.train_labels y.npy --dataset.valid_path v.npy --dataset.valid_labels y.npy --batch_size 4
    --epochs 1 --shuffle false --log_every 1000 --plots false)
for ranks in 1 2 4; do
    step=$((37 / (4 * ranks) + 1))
    refused 2 "the loss is nan at step $step on rank $((37 % ranks)); " "$GR_BIN/gradrun" \
        --nproc-per-node "$ranks" "$gradus" "${mlp[@]}" --output_dir "nan$ranks"
    refused 0 "the loss is nan at step $step on rank $((37 % ranks)): the step changed nothing" \
        "$GR_BIN/gradrun" --nproc-per-node "$ranks" "$gradus" "${mlp[@]}" --output_dir "on$ranks" \
        --clip_norm 1
done

# A sample that holds one is broken, as a file would be.
{
    npy '<f4' '(64, 4)' && head -c $((37 * 16 + 8)) /dev/zero
    printf '\x00\x00\xc0\x7f' && head -c $((27 * 16 - 12)) /dev/zero
} >x.npy
refused 1 "training sample 37: 'x.npy\[37\]': its number at \[2\] is nan, which is not finite" \
    "$gradus" "${mlp[@]}" --output_dir nan
refused 1 "Data: 64 training samples, all looked at, 64 loaded, 1 broken" "$gradus" check "${mlp[@]:1}" \
    --check_data all
refused 0 "^1 of 64 training samples did not load: others took their place.$" "$gradus" "${mlp[@]}" \
    --output_dir skips --on_bad_sample skip

# The arrays of x.npy in one folder are whole: what to say instead of root_dir is said.
mkdir whole && cp v.npy whole/images.npy && cp y.npy whole/labels.npy
refused 1 "'whole' are not divided: .*; to train on what is there, with a part set aside: --data_path 'whole'" "$gradus" train vision --model.name mlp \
    --dataset.root_dir whole --output_dir w
refused 2 "it tells classes apart, and the data of dataset.train_path have none" "$gradus" train vision --model.name mlp \
    --dataset.train_path v.npy --output_dir w

# Parts that are not there and files of any name: the flag that helps is named, and does.
mkdir digits
{ printf '\0\0\x08\x03\0\0\0\x40\0\0\0\x02\0\0\0\x02' && head -c 256 /dev/zero; } >digits/t10k-images-idx3-ubyte
{ printf '\0\0\x08\x01\0\0\0\x40\x01' && head -c 63 /dev/zero; } >digits/t10k-labels-idx1-ubyte
refused 1 "there is no 'train-images...' in 'digits'; to train on what is there, .*: --data_path 'digits'" \
    "$gradus" train vision --model.name mlp --dataset.root_dir digits --output_dir w
refused 0 "^Done" "$gradus" train vision --device cpu --model.name mlp --data_path digits --epochs 1 \
    --output_dir digits1
refused 1 "there is no file or folder 'nowhere'$" "$gradus" train vision --dataset.root_dir nowhere --output_dir w
cp v.npy v.dat
refused 1 "'v.dat' is no data file .*: say its format, list, csv, idx, .* or shards (--dataset.name)" \
    "$gradus" train vision --model.name mlp --data_path v.dat --output_dir w
refused 0 "^Done" "$gradus" train vision --device cpu --model.name mlp --data_path v.dat --dataset.name npy \
    --dataset.train_labels y.npy --epochs 1 --output_dir dat1
refused 1 "'/dev/null' is neither a file nor a folder" "$gradus" train vision --data_path /dev/null --output_dir w

# A pipe in the place of a file is no file, and nobody waits for its other end.
mkfifo pipe.yaml pipe.safetensors && mkdir -p pipes/{train,valid}/a && mkfifo pipes/{train,valid}/a/1.png
refused 2 "'pipe.yaml' is no regular file" timeout 20 "$gradus" train shapes --config pipe.yaml
refused 1 "checkpoint 'pipe.safetensors': not a file" timeout 20 "$gradus" train shapes \
    --resume pipe.safetensors
refused 1 "'pipes/train/a/1.png': it is not a file" timeout 20 "$gradus" train vision --dataset.root_dir pipes

# Without a recipe's name: a flag that no recipe knows, and why a checkpoint does not tell it.
refused 2 "'--confg'; did you mean '--config'?; and say what to train" "$gradus" train --confg a.yaml
refused 1 "cannot open 'nowhere': No such file" "$gradus" train --resume nowhere
mkdir bare
refused 1 "checkpoint folder 'bare': it holds no checkpoint" "$gradus" train --resume bare
refused 0 "^Done" "$gradus" train shapes --output_dir ends "${small[@]}" --save_steps 2 --keep 0
for f in ends/checkpoints/{last,best_model}.safetensors; do
    head -c 100 "$f" >cut.tmp && mv cut.tmp "$f"
done
refused 0 "is used instead" "$gradus" train --resume ends --epochs 2
for f in ends/checkpoints/*; do head -c 100 "$f" >cut.tmp && mv cut.tmp "$f"; done
refused 1 "'ends/checkpoints': none of [0-9]* checkpoints can be read" "$gradus" train --resume ends
refused 1 "none of [0-9]* checkpoints can be read" "$gradus" train --resume auto --output_dir ends
refused 2 "'auto' does not tell the recipe: say it, as in 'gradus train RECIPE'" "$gradus" train --resume auto \
    --output_dir bare
refused 2 "'best' does not tell the recipe: say it, as in 'gradus predict RECIPE'" "$gradus" predict --checkpoint best
refused 2 "'best' does not tell the recipe: say it, as in 'gradus test RECIPE'" "$gradus" --task test --checkpoint best
refused 1 "gradus: [a-z ]*: checkpoint folder 'ends/checkpoints': none of 1 checkpoints can be read" "$gradus" test shapes \
    --checkpoint ends
refused 2 "gradus: [a-z ]*: checkpoint: the run is of recipe 'shapes', not 'vision'" "$gradus" test vision --checkpoint padded

# Ranks that were told different numbers: at once, not after a wait for one that never comes.
port=$((20000 + RANDOM % 10000))
for size in "2 3" "3 2"; do
    read -r zero one <<<"$size"
    port=$((port + 1))
    RANK=0 WORLD_SIZE=$zero MASTER_ADDR=127.0.0.1 MASTER_PORT=$port timeout 100 "$gradus" train \
        shapes --output_dir sizes >zero.txt 2>&1 &
    refused 2 "rank 0 has a world size (WORLD_SIZE) of $zero, and rank 1 of $one" env RANK=1 \
        WORLD_SIZE="$one" MASTER_ADDR=127.0.0.1 MASTER_PORT=$port timeout 100 "$gradus" train \
        shapes --output_dir sizes
    wait $! && fail "rank 0 of $zero went on"
    grep -q "rank 1 has a world size (WORLD_SIZE) of $one, and rank 0 of $zero" zero.txt ||
        { cat zero.txt; fail "rank 0 does not say it"; }
done

# What editors do to files.
printf 'recipe: shapes\ntrain:\n\tepochs: 3\n' >tab.yaml
refused 2 "tab.yaml:3: indented by a tab; YAML takes blanks" "$gradus" train --config tab.yaml
printf 'recipe: sh\xe4pes\n' >latin1.yaml
refused 2 "latin1.yaml: byte 1[01]: .*; save it as UTF-8" "$gradus" train --config latin1.yaml

# Only errors: no banner, no progress, but a log in the run's folder.
timeout 300 "$gradus" train shapes --output_dir quiet "${small[@]}" --log_level error >out.txt 2>&1 ||
    fail "--log_level error"
[ ! -s out.txt ] || { cat out.txt; fail "--log_level error says something"; }
grep -rq "Training setup:" quiet || fail "nothing in the log"

# Graphs can be looked at.
"$gradus" train shapes --output_dir dot "${small[@]}" --dump_after autodiff --dump_dot g.dot >out.txt
grep -q '^graph after autodiff:' out.txt || fail "no dump"
grep -q '^digraph' g.dot || fail "no Graphviz"
