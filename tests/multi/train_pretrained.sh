#!/usr/bin/env bash
# Weights from elsewhere (--pretrained), read by rank 0 alone (P14); and W&B runs of the trainer, which
# never fail a run (P18).
set -euo pipefail

fail() { echo "FAILED: $*" >&2; tail -n 30 ./*.log >&2; exit 1; }
gradus=$GR_BIN/gradus
folder=$(mktemp -d "$PWD/run.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"
# The validation loss falls all the time here, so that the evaluation at an early end makes no
# difference to which one is the best.
small=(--device cpu --n_train 256 --n_eval 64 --batch_size 32 --epochs 3 --best_by loss --progress plain)
train() { # LOG OPTION...
    timeout 300 "$gradus" train shapes "${@:2}" >>"$1.log" 2>&1 || fail "$1: ${*:2}"
}
says() { grep -q -- "$2" "$1.log" || fail "$1: no '$2'"; } # LOG PATTERN
same() { cmp "$1/checkpoints/$3" "$2/checkpoints/$3" || fail "$1 and $2 differ in $3"; }

train first --output_dir first "${small[@]}" --checkpoint_format both --max_steps 6

# Weights from elsewhere: all, some, renamed, none.
"$GR_BIN/gradrun" --nproc-per-node 2 "$gradus" train shapes --output_dir pre "${small[@]}" --pretrained first/checkpoints/best_model.safetensors >pre.log 2>&1 || fail pre
says pre 'Pretrained: 6 of 6 tensors from first/checkpoints/best_model.safetensors'
train map --output_dir map "${small[@]}" --pretrained first/checkpoints/last.pt \
    --pretrained_map 'fc1.=old.,fc2.=fc2.,fcc.=fc2.'
says map 'Pretrained: 4 of 6 tensors'
says map "not in the file, so as drawn (2): fc1.weight, fc1.bias"
says map "of --pretrained_map, no name in the file begins so (1): fcc.=fc2."
says map "in the file and not in the model (2): old.weight, old.bias"
rc=0
"$gradus" train shapes --output_dir none "${small[@]}" --pretrained first/checkpoints/last.pt \
    --pretrained_map '=x.' >none.log 2>&1 || rc=$?
[ "$rc" = 2 ] || fail "nothing fits, and it trains"
says none 'none of its 6 tensors has a name and shape of this model'
rc=0
"$gradus" train shapes --output_dir none --resume none.log >foreign.log 2>&1 || rc=$?
[ "$rc" = 1 ] || fail "a log was resumed"

# Rank 0 alone reads weights and checkpoints, and writes; the others have none of the files, as on
# hosts that share no file system: weights, a run that goes on, a test and a prediction.
mkdir empty
cat >apart.sh <<'END'
#!/usr/bin/env bash
[ "$RANK" = 0 ] || cd empty
exec "$GRADUS" "$@"
END
chmod +x apart.sh
apart() { # NAME WORD...
    GRADUS=$gradus timeout 300 "$GR_BIN/gradrun" --nproc-per-node 3 ./apart.sh "${@:2}" >"$1.log" 2>&1 ||
        fail "ranks without files: $1"
}
apart far train shapes --output_dir far "${small[@]}" --max_steps 2 \
    --pretrained first/checkpoints/last.safetensors
says far 'Pretrained: 6 of 6 tensors from first/checkpoints/last.safetensors'
apart on train shapes --output_dir far --resume auto --max_steps 4
says on 'Resumed at step 2 from far/checkpoints/last'
apart tested test shapes --device cpu --output_dir far
apart predicted predict shapes --device cpu --output_dir far --output seen
[ -s seen/predictions.csv ] || fail "no predictions of ranks without files"
[ -z "$(find empty -type f \( -name '*.safetensors' -o -name '*.json*' -o -name '*.csv' \))" ] ||
    fail "others than rank 0 wrote: $(find empty -type f)"

# Uploads that fail or hang change nothing about a run that is done (P18): a client without a
# network, and one that never ends, which Ctrl-C ends.
mkdir client
client() { printf '#!/bin/sh\n%s\n' "$1" >client/wandb && chmod +x client/wandb; }
with_client=(env WANDB_API_KEY=0 "PATH=$PWD/client:$PATH")
client 'echo no network >&2; exit 1'
"${with_client[@]}" "$gradus" train shapes --output_dir net "${small[@]}" --use_wandb --max_steps 5 \
    >net.log 2>&1 || fail "a client without a network failed the run"
says net 'the upload to W&B failed; .*; again: wandb sync net/wandb/offline-run-'
grep -q 'no network' net/wandb/offline-run-*/logs/sync.log || fail "what the client said is lost"
client 'echo $$ >client/pid; exec sleep 300'
for ranks in 1 2; do
    rm -f client/pid
    "${with_client[@]}" "$GR_BIN/gradrun" --nproc-per-node "$ranks" "$gradus" train shapes \
        --output_dir "hang$ranks" "${small[@]}" --use_wandb --max_steps 5 >"hang$ranks.log" 2>&1 &
    job=$!
    for _ in $(seq 1200); do [ -s client/pid ] && break || sleep 0.1; done
    sleep 0.5
    began=$SECONDS
    kill -INT "$job"
    wait "$job" || true
    [ $((SECONDS - began)) -lt 25 ] || fail "a hanging upload took $((SECONDS - began)) s to stop"
    says "hang$ranks" '^Done after 5 steps'
    says "hang$ranks" 'the upload to W&B is stopped; again: wandb sync hang'
    ! grep -q 'SIGKILL' "hang$ranks.log" || fail "a rank had to be killed"
    for _ in $(seq 600); do kill -0 "$(cat client/pid)" 2>/dev/null && sleep 0.1 || break; done
    ! kill -0 "$(cat client/pid)" 2>/dev/null || fail "the client goes on"
done

# The mode by a flag is stronger than by the environment, both ways.
client 'echo called'
wandb=("$gradus" train shapes "${small[@]}" --use_wandb --max_steps 5)
"${with_client[@]}" WANDB_MODE=disabled "${wandb[@]}" --wandb_mode offline --output_dir wm1 \
    >wm1.log 2>&1 || fail wm1
says wm1 'To upload the run to W&B: wandb sync wm1/wandb/offline-run-'
"${with_client[@]}" WANDB_MODE=offline "${wandb[@]}" --wandb_mode online --output_dir wm2 \
    >wm2.log 2>&1 || fail wm2
says wm2 'The run is uploaded to W&B'
"${with_client[@]}" WANDB_MODE=disabled "${wandb[@]}" --output_dir wm3 >wm3.log 2>&1 || fail wm3
[ ! -e wm3/wandb ] || fail "WANDB_MODE=disabled writes"
"${with_client[@]}" WANDB_MODE=offline "${wandb[@]}" --output_dir wm4 >wm4.log 2>&1 || fail wm4
says wm4 'To upload the run to W&B:'

# A W&B run goes on as the same one; without a client the command is told, and nothing fails.
env -u WANDB_API_KEY "$gradus" train shapes --output_dir wb "${small[@]}" --use_wandb \
    --wandb_project p --max_steps 5 >wb.log 2>&1 || fail wb
says wb 'To upload the run to W&B: wandb sync wb/wandb/offline-run-'
env -u WANDB_API_KEY "$gradus" train shapes --resume wb >wb2.log 2>&1 || fail wb2
[ "$(ls -d wb/wandb/offline-run-* | sed 's/.*-//' | sort -u | wc -l)" = 1 ] || fail "two W&B ids"
