#!/usr/bin/env python3
"""Reads the checkpoints of a run and writes one as a training loop of PyTorch's would:

    run_files.py CHECKPOINTS OUTPUT.pt
"""

import json
import struct
import sys

import torch


def check(condition, what):
    if not condition:
        sys.exit(f"run_files.py: {what}")


def read_safetensors(path):
    """By hand, so that the package need not be there: {name: bytes}, texts."""
    with open(path, "rb") as f:
        data = f.read()
    (n,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + n])
    texts = header.pop("__metadata__")
    body = data[8 + n :]
    return {k: body[slice(*v["data_offsets"])] for k, v in header.items()}, texts


folder, output = sys.argv[1:]
for name in ("last", "best_model"):
    state = torch.load(f"{folder}/{name}.pt", weights_only=True)
    tensors, texts = read_safetensors(f"{folder}/{name}.safetensors")
    notes = state.__metadata__
    check(state.keys() == tensors.keys(), f"{name}: other tensors")
    for key, value in state.items():
        mine = value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        check(mine == tensors[key], f"{name}: '{key}' has other bytes")
    for key in ("train.recipe", "train.config", "train.step", "gradus.step", "train.judge"):
        check(notes[key] == texts[key], f"{name}: '{key}' differs")

net = torch.nn.Sequential()
for layer, (rows, cols) in {"fc1": (256, 784), "fc2": (128, 256), "fc3": (10, 128)}.items():
    net.add_module(layer, torch.nn.Linear(cols, rows))
net.load_state_dict({k: v for k, v in state.items() if k.startswith("fc")}, strict=True)
optimizer = torch.optim.AdamW(net.parameters())
net(torch.zeros(2, 784)).sum().backward()
optimizer.step()
torch.save(
    {
        "epoch": 3,
        "model_state_dict": {f"module.net.{k}": v.half() for k, v in net.state_dict().items()},
        "optimizer_state_dict": optimizer.state_dict(),
        "scheduler": None,
    },
    output,
)
print("a run of ours loads there")
