#!/usr/bin/env bash
# A run that goes on with other ranks says what changed and uses the samples that are left; a
# job that loses a rank and is started again goes on unasked, in the folder that it had made up
# (P40, P41).
set -euo pipefail

fail() { echo "FAILED: $*" >&2; tail -n 30 ./*.log >&2; exit 1; }
gradus=$GR_BIN/gradus
folder=$(mktemp -d "$PWD/run.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"
# The validation loss falls all the time here, so that the evaluation at an early end makes no
# difference to which one is the best.
small=(--device cpu --n_train 256 --n_eval 64 --batch_size 16 --epochs 3 --best_by loss --progress plain)
train() { # RANKS LOG OPTION...
    timeout 300 "$GR_BIN/gradrun" --nproc-per-node "$1" "$gradus" train shapes "${@:3}" \
        >>"$2.log" 2>&1 || fail "$2: ${*:3}"
}
says() { grep -q -- "$2" "$1.log" || fail "$1: no '$2'"; } # LOG PATTERN
same() { cmp "$1/checkpoints/$3" "$2/checkpoints/$3" || fail "$1 and $2 differ in $3"; }

# Other ranks: samples carry over, and every change is said. 13 steps of 32 samples are 160
# of epoch 2: 2 steps of 64, or 10 of 16, or 3 of 48 with 16 samples again.
train 2 two --output_dir two "${small[@]}" --max_steps 13
for ranks in 4 1 3; do
    cp -r two "ranks$ranks"
    train "$ranks" "ranks$ranks" --resume "ranks$ranks"
    says "ranks$ranks" "Resumed with $ranks rank$([ "$ranks" = 1 ] || echo s); the run had 2 before"
    says "ranks$ranks" "A step takes $((16 * ranks)) samples; it was 32 before"
    says "ranks$ranks" '160 samples of epoch 2 were used before: it goes on after its step '
    says "ranks$ranks" '^Done after '
done
says ranks4 'An epoch has 4 steps; it had 8 before'
says ranks4 'after its step 2, and 32 samples come again'
says ranks4 '^Done after 19 steps' # 13, and 2 + 4 of 4 a epoch
says ranks1 'after its step 10, and 0 samples come again'
says ranks1 '^Done after 35 steps'
says ranks3 'after its step 3, and 16 samples come again'
[ "$(cut -d, -f1 ranks1/metrics.csv | tail -n +2 | sort -nc 2>&1)" = "" ] || fail "steps go back"

# A rank is killed: the launcher starts the job again, and it goes on unasked, to the same bits.
cat >killer.sh <<'END'
#!/usr/bin/env bash
# Rank 1 of the first start dies once there is a checkpoint of step 12 or a later one.
if [ "$RANK" = 1 ] && [ "$TORCHELASTIC_RESTART_COUNT" = 0 ]; then
    (until ls $PLACE/checkpoints/checkpoint_step_[1-9][0-9]*.safetensors 2>/dev/null | grep -q .; do
        kill -0 $$ || exit # the run has failed
        sleep 0.01
    done; kill -KILL $$) &
fi
exec "$@"
END
chmod +x killer.sh
restart() { # LOG OPTION...
    timeout 300 "$GR_BIN/gradrun" --nproc-per-node 2 --max-restarts 1 ./killer.sh "$gradus" train shapes \
        "${small[@]}" --epochs 600 --max_steps 600 --val_interval 0 --save_epochs 0 --save_every 6 \
        --keep 4 --log_every 100 "${@:2}" >"$1.log" 2>&1 || fail "$1"
    says "$1" 'Restart 1: the run goes on from its newest checkpoint'
    says "$1" 'Resumed at step [0-9]* from .*/last.safetensors'
    ! grep -q 'Go on with' "$1.log" || fail "$1: a command for what goes on unasked"
}
train 2 unkilled --output_dir unkilled "${small[@]}" --epochs 600 --max_steps 600 --val_interval 0 \
    --save_epochs 0 --save_every 6 --keep 4 --log_every 100
PLACE=killed restart killed --output_dir killed
same unkilled killed last.safetensors
PLACE='runs/*' restart invented
set -- runs/*
[ $# = 1 ] || fail "a restarted run has two folders: $*"
same unkilled "$1" last.safetensors
rm -r runs
