#!/usr/bin/env python3
"""Checkpoints against the safetensors package, both ways. tests/interop/safetensors.sh runs it:

    python3 tests/interop/safetensors.py BUILD/interop/ckpt_tool

It needs Python with torch and safetensors. Ours must load there with equal bytes,
theirs must load here, and a file of theirs that went through us must come back equal.
"""

import json
import os
import subprocess
import sys
import tempfile

# This file's own name would otherwise be found when the package is imported.
sys.path.pop(0)

import torch  # noqa: E402
from safetensors import safe_open  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

DTYPES = {
    "f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16,
    "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8, "bool": torch.bool,
}  # fmt: skip


def check(condition, what):
    if not condition:
        sys.exit(f"safetensors.py: {what}")


def raw(tensor):
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).tolist())


def dump(tool, path):
    """What our reader sees: {name: (dtype, shape, bytes)}, {key: text}."""
    tensors, texts = {}, {}
    out = subprocess.run([tool, "dump", path], check=True, capture_output=True, text=True).stdout
    for line in out.splitlines():
        kind, *fields = line.split(" ")
        if kind == "tensor":
            name = bytes.fromhex(fields[0]).decode()
            tensors[name] = (fields[1], json.loads(fields[2]), bytes.fromhex(fields[3]))
        else:
            texts[bytes.fromhex(fields[0]).decode()] = bytes.fromhex(fields[1]).decode()
    return tensors, texts


def compare(seen, tensors, what):
    check(set(seen) == set(tensors), f"{what}: names differ: {sorted(set(seen) ^ set(tensors))}")
    for name, (dtype, shape, data) in seen.items():
        t = tensors[name]
        check(t.dtype == DTYPES[dtype], f"{what}: {name!r} is {t.dtype}, not {dtype}")
        check(list(t.shape) == shape, f"{what}: {name!r} has shape {list(t.shape)}, not {shape}")
        check(raw(t) == data, f"{what}: {name!r} has other bytes")


def ours_there(tool, folder):
    path = os.path.join(folder, "ours.safetensors")
    subprocess.run([tool, "make", path], check=True)
    seen, texts = dump(tool, path)
    compare(seen, load_file(path), "ours, loaded there")
    with safe_open(path, framework="pt") as f:
        metadata = f.metadata()
    check(metadata.pop("format") == "pt", "no 'format': 'pt'")
    check(len(metadata.pop("gradus.crc32c")) == 8, "no checksum")
    check(metadata.pop("gradus.format") == "1", "no 'gradus.format'")
    check(metadata == texts, f"texts differ: {metadata} and {texts}")
    check(len(seen) > 10 and len(texts) > 3, "the sample is too small to prove anything")


def theirs_here(tool, folder):
    path = os.path.join(folder, "theirs.safetensors")
    torch.manual_seed(0)
    tensors = {
        "scalar": torch.tensor(3.5),
        "none": torch.empty(0, 4),
        "größe \"x\"\n权重": torch.arange(6).reshape(2, 3),
        "flags": torch.tensor([True, False, True]),
    }
    for name, dtype in DTYPES.items():
        if dtype != torch.bool:
            tensors[name] = (torch.randn(3, 5) * 100).to(dtype)
    metadata = {"format": "pt", "note": "a \"b\" \\ \n é 权"}
    save_file(tensors, path, metadata=metadata)
    seen, texts = dump(tool, path)
    compare(seen, tensors, "theirs, loaded here")
    del metadata["format"]  # belongs to the file
    check(texts == metadata, f"texts differ: {texts}")

    copy = os.path.join(folder, "copy.safetensors")
    subprocess.run([tool, "copy", path, copy], check=True)
    compare(seen, load_file(copy), "theirs, copied by us")
    save_file({"x": torch.zeros(2, dtype=torch.int16)}, path)
    r = subprocess.run([tool, "dump", path], capture_output=True, text=True)
    check(r.returncode == 1 and "tensor 'x': dtype 'I16'" in r.stderr, f"I16: {r.stderr!r}")


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: safetensors.py CKPT_TOOL")
    with tempfile.TemporaryDirectory() as folder:
        ours_there(sys.argv[1], folder)
        theirs_here(sys.argv[1], folder)
    print("ours load there, theirs load here")


if __name__ == "__main__":
    main()
