#!/usr/bin/env python3
"""Makes tests/golden/pt: small files of torch.save(), and beside each a text of what our
reader must see in it (names and bytes in hex), computed here from the objects:

    tensor NAME DTYPE [SHAPE] BYTES
    text KEY TEXT

refused.txt lists files that must be refused: name, a tab, what the message must say.
Run with a Python that has torch: python3 tests/golden/make_pt.py
"""
import argparse
import collections
import io
import os
import struct
import sys
import zipfile
import zlib

import torch

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pt")
DTYPES = {
    torch.float32: "f32", torch.float64: "f64", torch.bfloat16: "bf16", torch.float16: "f16",
    torch.int32: "i32", torch.int64: "i64", torch.uint8: "u8", torch.bool: "bool",
}  # fmt: skip


def plain(v):
    return v is None or isinstance(v, (bool, int, float))


def plain_text(v):
    if v is None or isinstance(v, bool):
        return {None: "null", True: "true", False: "false"}[v]
    if isinstance(v, int):
        return str(v)
    return next(s for s in (f"{v:.{n}g}" for n in (15, 16, 17)) if v != v or float(s) == v)


def flat(v, name="", depth=0):
    """(name, value) of every tensor and text of a nested value."""
    if isinstance(v, (torch.Tensor, bytes, str)):
        yield name, v
    elif plain(v):
        yield name, plain_text(v)
    elif isinstance(v, (list, tuple)) and all(plain(x) for x in v):
        yield name, "[" + ", ".join(plain_text(x) for x in v) + "]"
    else:
        pairs = v.items() if isinstance(v, dict) else enumerate(v)
        for key, x in pairs:
            yield from flat(x, f"{name}.{key}" if depth else str(key), depth + 1)


def describe(value):
    tensors, texts = [], []
    for name, v in flat(value):
        key = name.encode().hex()
        if isinstance(v, str):
            texts.append(f"text {key} {v.encode().hex()}\n")
            continue
        if isinstance(v, bytes):
            v = torch.tensor(list(v), dtype=torch.uint8)
        raw = bytes(v.detach().contiguous().reshape(-1).view(torch.uint8).tolist())
        shape = ",".join(str(n) for n in v.shape)
        tensors.append(f"tensor {key} {DTYPES[v.dtype]} [{shape}] {raw.hex()}\n")
    return "".join(tensors + texts)


def save(name, value, legacy=False, protocol=2):
    buffer = io.BytesIO()
    torch.save(value, buffer, pickle_protocol=protocol,
               _use_new_zipfile_serialization=not legacy)
    write(name, buffer.getvalue())
    with open(os.path.join(HERE, name + ".txt"), "w") as f:
        f.write(describe(value))


def write(name, data):
    with open(os.path.join(HERE, name), "wb") as f:
        f.write(data)


def every_type():
    t = collections.OrderedDict()
    for i, (dtype, name) in enumerate(DTYPES.items()):
        t[name] = (torch.arange(6).reshape(2, 3) + i) % 2 == 0
        if dtype != torch.bool:
            t[name] = (torch.arange(6).reshape(2, 3) * 3 - i).to(dtype)
    t["scalar"] = torch.tensor(-1.5)
    t["empty"] = torch.empty(0, 4)
    t["deep"] = torch.arange(3, dtype=torch.uint8).reshape(1, 1, 1, 1, 1, 1, 1, 3)
    t["größe.权重"] = torch.tensor([1, 2], dtype=torch.int32)
    return t


def views():
    base = torch.arange(24.0).reshape(2, 3, 4)
    flat_base = torch.arange(10, dtype=torch.int64)
    return {
        "base": base, "transposed": base.permute(2, 0, 1), "slice": base[:, 1:, ::2],
        "row": base[1, 2], "expanded": base[0, 0, :1].expand(5, 3), "one": base[1, 1, 1],
        "part": flat_base[3:7], "steps": flat_base[1::3], "shape_one": base[:, 2:3, 1:2],
        "same": base, "none": base[:0],
    }  # fmt: skip


def trained():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    opt = torch.optim.AdamW(model.parameters(), lr=0.003)
    sched = torch.optim.lr_scheduler.MultiStepLR(opt, milestones=[2, 5])
    model(torch.randn(4, 3)).square().sum().backward()
    opt.step()
    sched.step()
    model_state = collections.OrderedDict(
        ("module." + k, v) for k, v in model.state_dict().items())
    model_state._metadata = model.state_dict()._metadata
    sched_state = {k: v for k, v in sched.state_dict().items() if not k.startswith("_get")}
    return {
        "model": model_state, "optimizer": opt.state_dict(), "lr_scheduler": sched_state,
        "epoch": 3, "step": 2**40 + 1, "seed": 2**64 - 1, "loss": 0.1, "best": float("inf"),
        "low": float("-inf"), "worse": float("nan"), "negative": -300, "name": "a \"b\" 权\n",
        "flags": [True, False, None], "mixed": [1, "two", {"three": 3.5}], "nothing": {},
        "raw": b"\x00\xff\x80abc", "no bytes": b"", "size": torch.Size([2, 3]),
        "betas": (0.9, 0.999), "empty": [],
    }  # fmt: skip


def zip64():
    """A file whose directory has all its numbers in zip64 fields."""
    src = io.BytesIO()
    torch.save({"w": torch.arange(4.0)}, src)
    out, directory, n = bytearray(), bytearray(), 0
    with zipfile.ZipFile(src) as z:
        for info in z.infolist():
            data, name = z.read(info), info.filename.encode()
            at, crc = len(out), zlib.crc32(data)
            sizes = struct.pack("<QQ", len(data), len(data))
            out += struct.pack("<IHHHIIIIHH", 0x04034B50, 45, 0, 0, 0, crc, 2**32 - 1, 2**32 - 1,
                               len(name), 20) + name + struct.pack("<HH", 1, 16) + sizes + data
            directory += struct.pack("<IHHHHIIIIHHHHHII", 0x02014B50, 45, 45, 0, 0, 0, crc,
                                     2**32 - 1, 2**32 - 1, len(name), 28, 0, 0, 0, 0, 2**32 - 1)
            directory += name + struct.pack("<HH", 1, 24) + sizes + struct.pack("<Q", at)
            n += 1
    at = len(out)
    out += directory
    end = len(out)
    out += struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, n, n, len(directory), at)
    out += struct.pack("<IIQI", 0x07064B50, 0, end, 1)
    out += struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 65535, 65535, 2**32 - 1, 2**32 - 1, 0)
    write("zip64.pt", bytes(out))
    with open(os.path.join(HERE, "zip64.pt.txt"), "w") as f:
        f.write(describe({"w": torch.arange(4.0)}))


class Evil:
    def __reduce__(self):
        return os.system, ("echo this must never be run",)


def refused():
    quantized = torch.quantize_per_tensor(torch.tensor([1.0]), 0.1, 0, torch.qint8)
    cases = {
        "evil": (Evil(), "GLOBAL 'posix.system' is refused"),
        "evil_legacy": (Evil(), "GLOBAL 'posix.system' is refused"),
        "evil_4": (Evil(), "GLOBAL 'posix.system' is refused"),
        "module": (torch.nn.ReLU(), "GLOBAL 'torch.nn.modules.activation.ReLU' is refused"),
        "args": ({"args": argparse.Namespace(lr=0.1)}, "GLOBAL 'argparse.Namespace' is refused"),
        "int16": ({"x": torch.zeros(2, dtype=torch.int16)}, "GLOBAL 'torch.ShortStorage'"),
        "dtype": ({"x": torch.float32}, "GLOBAL 'torch.float32' is refused"),
        "set": ({"x": {1, 2}}, "GLOBAL '__builtin__.set' is refused"),
        "set_4": ({"x": {1, 2}}, "opcode 0x8f (EMPTY_SET) is refused"),
        "sparse": ({"x": torch.eye(2).to_sparse()}, "GLOBAL 'torch._utils._rebuild_sparse"),
        "quantized": ({"x": quantized}, "GLOBAL 'torch._utils._rebuild_qtensor' is refused"),
        "negated": ({"x": torch.complex(torch.ones(2), torch.ones(2)).conj().imag},
                    "a tensor with metadata is refused"),
        "complex": ({"x": torch.zeros(1, dtype=torch.complex64)},
                    "GLOBAL 'torch.ComplexFloatStorage'"),
        "big_int": ({"x": 2**70}, "an integer of 9 bytes"),
        "key": ({"x": {2.5: 1}}, "a key that is neither"),
        "collision": ({"a.b": torch.zeros(1), "a": {"b": torch.zeros(1)}}, "already in"),
        "script": (None, "packed (method 8)"),
    }  # fmt: skip
    lines = []
    for name, (value, message) in cases.items():
        buffer = io.BytesIO()
        if name == "script":
            torch.jit.save(torch.jit.script(torch.nn.ReLU()), buffer)
        else:
            torch.save(value, buffer, pickle_protocol=4 if name.endswith("_4") else 2,
                       _use_new_zipfile_serialization=not name.endswith("_legacy"))
        write(f"refused_{name}.pt", buffer.getvalue())
        lines.append(f"refused_{name}.pt\t{message}\n")
    with open(os.path.join(HERE, "refused.txt"), "w") as f:
        f.writelines(lines)


def main():
    os.makedirs(HERE, exist_ok=True)
    embed = torch.nn.Parameter(torch.arange(6.0).reshape(3, 2))
    for legacy, suffix in (False, ""), (True, "_legacy"):
        save(f"types{suffix}.pt", every_type(), legacy)
        save(f"views{suffix}.pt", views(), legacy)
        save(f"trained{suffix}.pt", trained(), legacy)
        save(f"tied{suffix}.pt", {"state_dict": {"embed": embed, "head": embed}}, legacy)
        save(f"tensor{suffix}.pt", torch.arange(3), legacy)
        save(f"list{suffix}.pt", [torch.arange(3), torch.zeros(1)], legacy)
        save(f"nothing{suffix}.pt", {}, legacy)
        save(f"protocol4{suffix}.pt", {"w": torch.ones(2), "t": "x" * 300, "b": b"12"}, legacy, 4)
    zip64()
    refused()


if __name__ == "__main__":
    sys.exit(main())
