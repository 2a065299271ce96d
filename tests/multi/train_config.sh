#!/usr/bin/env bash
# One file and the command line: a task instead of a command, precedence, the resolved file read
# again, ranks from flags, and ranks that gradus starts itself (P17, P37).
set -euo pipefail

fail() { echo "FAILED: $*" >&2; tail -n 25 ./*.log ./*.txt >&2; exit 1; }
gradus=$GR_BIN/gradus
folder=$(mktemp -d "$PWD/run.XXXXXX")
trap 'jobs -p | xargs -r kill -KILL 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"

# refused CODE PATTERN COMMAND...
refused() {
    local code=$1 pattern=$2 rc=0
    shift 2
    timeout 300 "$@" >out.txt 2>&1 || rc=$?
    [ "$rc" = "$code" ] || fail "$*: exit code $rc, expected $code"
    grep -q -- "$pattern" out.txt || fail "$*: no '$pattern'"
}

cat >a.yaml <<'END'
recipe: shapes
task: train
device: cpu
seed: 42
training:
  epoch: 1
  optimizer: {name: SGD, learning_rate: 1e-2, momentum: 0.9}
data:
  batch_size: 16
  n_train: 64
  n_eval: 32
dataloader: {num_workers: 1, drop_last: true}
ddp: {enabled: true, log_level: "WARNING"}
output: {save_best: true, save_interval: 1}
END

# Without a command; the file, and a flag over it.
refused 0 "Done after 4 steps" "$gradus" --config a.yaml --output_dir one
refused 0 "batch 8 x 1 rank x" "$gradus" -c a.yaml --task train -b 8 --output_dir two
# Of the plan the banner says first what will run.
refused 0 "  Steps: 2 of 4 per epoch x 1 epoch = 4 (max_steps)" \
    "$gradus" train --config a.yaml --max_steps 2 --log_level INFO --output_dir three
refused 0 "  Steps: 4 per epoch x 1 epoch = 4$" \
    "$gradus" train --resume three --max_steps 4 --log_level INFO
refused 0 "Done after 2 steps" "$gradus" train shapes --config=a.yaml --max_steps 2 --output_dir four
refused 2 "flag '--task': 'test', but the command is 'train'" "$gradus" train -c a.yaml --task test
refused 2 "flag '--task': 'tset' is none of train|test|predict|check" "$gradus" -c a.yaml --task tset
refused 2 "'shapes' is a recipe; say what to do with it: gradus train shapes" "$gradus" shapes

# The resolved file is a configuration: the run can be repeated from it.
grep -q '^recipe: "shapes"$' one/config.yaml || fail "no recipe in config.yaml"
grep -q '^  batch_size: 16$' one/config.yaml || fail "no batch in config.yaml"
refused 0 "Done after 4 steps" "$gradus" train --config one/config.yaml --output_dir again
diff <(grep -v output_dir one/config.yaml) <(grep -v output_dir again/config.yaml) || fail "config.yaml"
cmp {one,again}/checkpoints/last.safetensors || fail "another model"

# Errors have file, line and key.
sed 's/batch_size/batchsise/' a.yaml >b.yaml
refused 2 "b.yaml:9: unknown key 'data.batchsise'; did you mean 'data.batch_size'" "$gradus" -c b.yaml
sed 's/1e-2/fast/' a.yaml >c.yaml
refused 2 "c.yaml:7: 'training.optimizer.learning_rate': 'fast' is no number" "$gradus" -c c.yaml
printf 'recipe: shapes\nhuggingface:\n  token: hf_abcdef\n' >d.yaml
refused 2 "d.yaml:3: 'huggingface.token': is a secret" "$gradus" -c d.yaml
! grep -q hf_abcdef out.txt || fail "the secret is shown"

grep -v '^recipe' a.yaml >g.yaml
refused 2 "'g.yaml' does not say what to train: write 'recipe: NAME' in it, or 'gradus train NAME --config \
g.yaml'; the recipes are " "$gradus" -c g.yaml
printf 'recipe: vision\ndataset:\n  name: folder\n' >h.yaml
refused 2 "h.yaml:3: 'dataset.name': 'folder', and no training data are named: write 'dataset.root_dir: FOLDER'" \
    "$gradus" train -c h.yaml
refused 2 "flag '--dataset.name': 'idx', and no training data" "$gradus" train vision --dataset.name idx

# Ranks that gradus starts itself, with the gradrun beside it; not a second time below it.
refused 0 "World size: 2" "$gradus" train --config a.yaml --gpus 2 --output_dir gpus
grep -q 'batch 16 x 2 ranks' out.txt || fail "not two ranks"
refused 0 "World size: 3" "$gradus" -c a.yaml --nproc 3 --output_dir nproc
refused 2 "flag '--nproc': 3 ranks, but the launcher has started 2 on this host" "$GR_BIN/gradrun" \
    --nproc-per-node 2 "$gradus" train -c a.yaml --nproc 3 --output_dir x
sed 's/enabled: true/enabled: false/' a.yaml >e.yaml
refused 2 "e.yaml:13: 'ddp.enabled': false, but this is rank [01] of 2" "$GR_BIN/gradrun" \
    --nproc-per-node 2 "$gradus" train -c e.yaml --output_dir x
refused 0 "World size: 1" "$gradus" train -c e.yaml --output_dir alone

# Ranks from flags alone, as guide 004's third way starts them.
refused 2 "4 ranks, but neither RANK nor --rank says .*gradrun --nproc_per_node 4" "$gradus" train \
    -c a.yaml --distributed --world_size 4
refused 0 "Distributed: False" "$gradus" train -c a.yaml --distributed --local_rank=0 --output_dir solo
. "$GR_SOURCE/tests/launch/ports.sh"
port=$(free_port)
hand=(--world_size 2 --master_addr 127.0.0.1 --master_port "$port" --output_dir hand)
timeout 300 "$gradus" train -c a.yaml --rank 1 --local_rank 1 "${hand[@]}" >hand1.log 2>&1 &
timeout 300 "$gradus" train -c a.yaml --rank 0 --local_rank 0 "${hand[@]}" >hand0.log 2>&1 ||
    fail "ranks from flags"
wait $! || fail "rank 1 from flags"
grep -q "World size: 2" hand0.log || fail "not two ranks from flags"

# gradrun knows how many there are: another number is told at once, not after the timeout.
refused 2 "flag '--world_size': 3 ranks, but gradrun has started 2 (WORLD_SIZE); take it out" \
    "$GR_BIN/gradrun" -n 2 "$gradus" train -c a.yaml --world_size 3 --output_dir x
refused 2 "flag '--rank': rank 0, but gradrun has started this process as rank 1 of 2 (RANK)" \
    "$GR_BIN/gradrun" -n 2 "$gradus" train -c a.yaml --rank 0 --output_dir x
refused 0 "World size: 2" "$GR_BIN/gradrun" -n 2 "$gradus" train -c a.yaml --world_size 2 \
    --output_dir same

# Another port than the launcher's: rank 0 serves it. A file's is weaker than the launcher's.
port=$(free_port)
refused 0 "World size: 2" "$GR_BIN/gradrun" --nproc-per-node 2 "$gradus" train -c a.yaml \
    --master_port "$port" --output_dir port
refused 0 "World size: 2" "$gradus" train -c a.yaml --gpus 2 --master_port "$port" --output_dir port2
sed "s/enabled: true/world_size: 1, rank: 0, local_rank: 0, master_port: $port/" a.yaml >f.yaml
refused 0 "World size: 2" "$GR_BIN/gradrun" --nproc-per-node 2 "$gradus" train -c f.yaml \
    --output_dir port3
refused 0 "World size: 2" "$gradus" train -c f.yaml --gpus 2 --output_dir port4
refused 0 "World size: 2" "$gradus" train -c a.yaml --gpus 2 --world_size 2 --output_dir port5
refused 2 "flag '--world_size': 3 ranks, but neither" "$gradus" train -c a.yaml --gpus 2 --world_size 3

# What helps.
refused 0 "^batchsize  *train.batch_size" "$gradus" help keys
for name in data_path img_size data_dir; do
    grep -Eq "^$name +[a-z]+\." out.txt || fail "help keys: no '$name' of a recipe"
done
refused 0 "^  --grad_accumulation_steps N .*\[1\]" "$gradus" help keys gradient-accum
grep -q "^      train.grad_accumulation_steps, .*gradient_accumulation_steps" out.txt ||
    fail "no names of a setting"
! grep -q "train.lr" out.txt || fail "names that do not match are listed"
refused 0 "^of recipe vision:" "$gradus" help keys Transform
refused 2 "no setting has 'learnin_rate' in its name; did you mean 'learning_rate'?" \
    "$gradus" help keys learnin_rate
refused 2 "'gradus help keys' lists all" "$gradus" help keys vision qqqqqqq
refused 2 "takes a recipe and one word" "$gradus" help keys vision lr batch
refused 0 "libyaml  *[0-9]" "$gradus" --version
grep -q '^gradus [0-9]' out.txt || fail "no version"
for name in compiler libyaml jansson protobuf-c libpng zlib libjpeg oneDNN MPI hwloc CUDA; do
    grep -Eq "^  $name +(absent: |.*[0-9]\.[0-9])" out.txt || fail "--version: no $name"
done
refused 0 "train.lr_scheduler:" "$gradus" train --help
