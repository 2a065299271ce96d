#!/usr/bin/env bash
# The checkpoints of a run in the hands of PyTorch: the .pt loads with weights_only, has the
# tensors of the safetensors file, its weights fit a module of the same shape, and a training
# loop of PyTorch's that saves them in its own way gives weights that --pretrained takes.
. "$GR_SOURCE/tests/launch/lib.sh"

has_torch='from importlib.util import find_spec as find; assert find("torch") and find("numpy")'
python=
for p in "${GR_PYTHON:-}" python3 "${VIRTUAL_ENV:-/nonexistent}/bin/python" ~/venv/bin/python; do
    [ -n "$p" ] && "$p" -c "$has_torch" 2>/dev/null && python=$p && break
done
[ -n "$python" ] || skip "no python3 with PyTorch (set GR_PYTHON)"
folder=$(mktemp -d "$PWD/run.XXXXXX")
trap 'rm -rf "$folder"' EXIT
small=(--device cpu --n_train 256 --n_eval 64 --batch_size 32 --epochs 1)
expect 0 "$GR_BIN/gradus" train shapes --output_dir "$folder/run" "${small[@]}" --checkpoint_format both
expect 0 "$python" "$GR_SOURCE/tests/interop/run_files.py" "$folder/run/checkpoints" "$folder/theirs.pt"
said 'a run of ours loads there'
# What is exported goes into a module as it is.
expect 0 "$GR_BIN/gradus" export "$folder/run" --output "$folder/model.pt"
expect 0 "$python" -c '
import sys, torch
net = torch.nn.Sequential()
for layer, (rows, cols) in {"fc1": (256, 784), "fc2": (128, 256), "fc3": (10, 128)}.items():
    net.add_module(layer, torch.nn.Linear(cols, rows))
print(net.load_state_dict(torch.load(sys.argv[1])), torch.load(sys.argv[1]).__metadata__["train.recipe"])
' "$folder/model.pt"
said 'All keys matched successfully> shapes'
expect 0 "$GR_BIN/gradus" train shapes --output_dir "$folder/next" "${small[@]}" \
    --pretrained "$folder/theirs.pt" --pretrained_map net.=
said 'Pretrained: 6 of 6 tensors from .*theirs.pt'
