#!/usr/bin/env bash
# Runs as we track them, read by TensorBoard and by W&B themselves.
. "$GR_SOURCE/tests/launch/lib.sh"
TOOL=$GR_BIN/../interop/track_tool
unset WANDB_API_KEY WANDB_DIR WANDB_MODE WANDB_RUN_ID WANDB_DISABLED WANDB_PROJECT

find_python() { # MODULE: the first Python that has it
    local p
    for p in "${GR_PYTHON:-}" python3 "${VIRTUAL_ENV:-/nonexistent}/bin/python" ~/venv/bin/python; do
        [ -n "$p" ] && "$p" -c "import $1" 2>/dev/null && echo "$p" && return
    done
    true # none has it, which is no failure
}

expect 0 "$TOOL" simple simple
said '^wandb sync simple/wandb/offline-run-[0-9]{8}_[0-9]{6}-[a-z0-9]{8}$'
run=$(sed 's/^wandb sync //' out.txt)
expect 0 "$TOOL" tensor tensor

# A run of the trainer: 2 epochs of 4 steps, pictures of 600 x 600.
expect 0 "$GR_BIN/gradus" train vision --device cpu --model.name mlp --model.config.hidden 4 \
    --model.config.input_sizes 1,600,600 --n_train 8 --n_eval 4 --batch_size 2 --epochs 2 \
    --save_epochs 1 --output_dir trained

tried=
python=$(find_python tensorboard.plugins.hparams.plugin_data_pb2)
if [ -n "$python" ]; then
    tried=1
    for form in simple tensor; do
        expect 0 "$python" "$GR_SOURCE/tests/interop/tracking_tb.py" $form $form
        said "TensorBoard reads $form"
    done
    expect 0 "$python" "$GR_SOURCE/tests/interop/tracking_run.py" trained fc1.weight 200
    said "TensorBoard shows the run"
else
    echo "TensorBoard is not installed (pip install tensorboard): not tried" >&2
fi

python=$(find_python wandb.proto.wandb_internal_pb2)
if [ -n "$python" ]; then
    tried=1
    expect 0 "$python" "$GR_SOURCE/tests/interop/tracking_wandb.py" "$run"
    said 'W&B takes the run'
else
    echo "W&B is not installed (pip install wandb): not tried" >&2
fi
[ -n "$tried" ] || skip "neither TensorBoard nor W&B (set GR_PYTHON)"
