#!/usr/bin/env python3
"""PyTorch's files, both ways: torch.load(weights_only=True) of ours must give the same bits,
and ours must read what torch.save() writes. Run by pt_files.sh with ckpt_tool's path."""
import collections
import os
import subprocess
import sys
import tempfile
import zipfile

import torch

DTYPES = {
    "f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16,
    "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8, "bool": torch.bool,
}  # fmt: skip


def check(condition, what):
    if not condition:
        sys.exit(f"pt_files.py: {what}")


def raw(tensor):
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def dump(tool, path):
    """What our reader sees: {name: (dtype, shape, bytes)}, {key: text}."""
    tensors, texts = {}, {}
    out = subprocess.run([tool, "dump", path], check=True, capture_output=True, text=True).stdout
    for line in out.splitlines():
        kind, *fields = line.split(" ")
        name = bytes.fromhex(fields[0]).decode()
        if kind == "tensor":
            shape = [int(n) for n in fields[2][1:-1].split(",") if n]
            tensors[name] = (fields[1], shape, bytes.fromhex(fields[3]))
        else:
            texts[name] = bytes.fromhex(fields[1]).decode()
    return tensors, texts


def compare(seen, tensors, what):
    check(list(seen) == list(tensors), f"{what}: names differ: {list(seen)} {list(tensors)}")
    for name, (dtype, shape, data) in seen.items():
        t = tensors[name]
        check(t.dtype == DTYPES[dtype], f"{what}: {name!r} is {t.dtype}, not {dtype}")
        check(list(t.shape) == shape, f"{what}: {name!r} has shape {list(t.shape)}, not {shape}")
        check(raw(t) == data, f"{what}: {name!r} has other bytes")


def ours_there(tool, folder):
    for suffix in "pt", "pth":
        path = os.path.join(folder, "ours." + suffix)
        subprocess.run([tool, "make", path], check=True)
        seen, texts = dump(tool, path)
        check(len(seen) > 10 and len(texts) > 3, "the sample is too small to prove anything")
        check(zipfile.ZipFile(path).testzip() is None, "zipfile finds damage")
        for mmap in False, True:
            loaded = torch.load(path, weights_only=True, mmap=mmap)
            check(type(loaded) is collections.OrderedDict, f"it is {type(loaded)}")
            check(loaded.__metadata__ == texts, "texts differ")
            compare(seen, loaded, "ours, loaded there")


def theirs_here(tool, folder):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8),
                                torch.nn.Flatten(), torch.nn.LSTM(8 * 36, 5))
    state = model.state_dict()
    for legacy in False, True:
        path = os.path.join(folder, "theirs.pt")
        torch.save(state, path, _use_new_zipfile_serialization=not legacy)
        seen, texts = dump(tool, path)
        compare(seen, state, "theirs, loaded here")
        check(not texts, f"texts in a state dict: {texts}")
        # Through us and back into the model, all names known and none missing.
        copy = os.path.join(folder, "copy.pt")
        subprocess.run([tool, "copy", path, copy], check=True)
        loaded = torch.load(copy, weights_only=True)
        compare(seen, loaded, "theirs, copied by us")
        model.load_state_dict(loaded, strict=True)
        # And to the other format.
        other = os.path.join(folder, "copy.safetensors")
        subprocess.run([tool, "copy", path, other], check=True)
        check(dump(tool, other)[0] == seen, "the copy as safetensors differs")


def large(tool, folder):
    """A storage of some MB, as many views of it, and a name per layer."""
    path = os.path.join(folder, "large.pt")
    base = torch.randn(64, 33, 129)
    tensors = {f"layer.{i}.weight": base[i].t() for i in range(64)}
    tensors["all"] = base.permute(2, 0, 1)
    torch.save(tensors, path)
    seen, _ = dump(tool, path)
    compare(seen, tensors, "views of one storage")


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: pt_files.py CKPT_TOOL")
    with tempfile.TemporaryDirectory() as folder:
        ours_there(sys.argv[1], folder)
        theirs_here(sys.argv[1], folder)
        large(sys.argv[1], folder)
    print("ours load there, theirs load here")


if __name__ == "__main__":
    main()
