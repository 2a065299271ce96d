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
refused 2 "1000000 x 1 rank(s) x 1 accumulation = 1000000 samples, and an epoch has 24000; the \
largest batch_size that works is 24000" "$gradus" train shapes --output_dir b --batch_size 1000000
refused 2 "33 x 2 rank(s) x 2 accumulation = 132 .* works is 25" "$GR_BIN/gradrun" \
    --nproc-per-node 2 "$gradus" train shapes --output_dir b --n_train 100 --batch_size 33 \
    --accumulate 2
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

# A loss that is no number ends the run on all ranks alike.
refused 2 "the loss is .*nan at step [0-9]*; try a smaller --lr" "$GR_BIN/gradrun" \
    --nproc-per-node 2 "$gradus" train shapes --output_dir nan "${small[@]}" --optim sgd --lr 1e6

# Graphs can be looked at.
"$gradus" train shapes --output_dir dot "${small[@]}" --dump_after autodiff --dump_dot g.dot >out.txt
grep -q '^graph after autodiff:' out.txt || fail "no dump"
grep -q '^digraph' g.dot || fail "no Graphviz"
