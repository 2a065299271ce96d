#!/usr/bin/env python3
"""The cases of bench/map.c here and in PyTorch, in turns, on the same number of threads.

    python3 bench/map_torch.py [--threads 1] [--rounds 3] [BINARY]

Our program, then PyTorch, `rounds` times; the best of each counts. PyTorch has classes in
dimension 1, as its users do; its gradients go to memory that its allocator keeps. Printed:
milliseconds of both, forward and backward, and how many times faster we are.
"""
import argparse
import re
import subprocess
import time

import torch
import torch.nn.functional as F


def rand(*shape, dtype=torch.float32):
    return (torch.rand(shape) * 4 - 2).to(dtype)


def rows(dtype=torch.float32):
    return [rand(2048, 3072, dtype=dtype)]


def pixels(smoothing):
    return (lambda x, y: F.cross_entropy(x, y, label_smoothing=smoothing),
            [rand(2, 21, 465, 465), torch.randint(0, 21, (2, 465, 465))])


def swiglu(x):
    a, b = x.chunk(2, -1)
    return F.silu(a) * b


CASES = {
    "relu": (torch.relu, rows()), "sigmoid": (torch.sigmoid, rows()),
    "tanh": (torch.tanh, rows()), "silu": (F.silu, rows()), "gelu": (F.gelu, rows()),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), rows()),
    "exp": (torch.exp, rows()), "erf": (torch.erf, rows()), "sin": (torch.sin, rows()),
    "log1p": (torch.log1p, rows()), "softplus": (F.softplus, rows()),
    "gelu bf16": (F.gelu, rows(torch.bfloat16)), "silu bf16": (F.silu, rows(torch.bfloat16)),
    "swiglu": (swiglu, [rand(1024, 6144)]),
    "scale_shift": (lambda x, s, h: x * s + h, [rand(8, 256, 768), rand(8, 1, 768),
                                                rand(8, 1, 768)]),
    "dropout": (lambda x: F.dropout(x, 0.1), rows()),
    "dropout bf16": (lambda x: F.dropout(x, 0.1), rows(torch.bfloat16)),
    "xent 256x50257": (F.cross_entropy, [rand(256, 50257), torch.randint(0, 50257, (256,))]),
    "xent 128x10": (F.cross_entropy, [rand(128, 10), torch.randint(0, 10, (128,))]),
    "xent pixels x21": pixels(0), "xent smooth pixels x21": pixels(0.1),
    "bce": (F.binary_cross_entropy_with_logits, [rand(2048, 3072),
                                                 torch.rand(2048, 3072)]),
}


def torch_ms(fn, args, n):
    """The best of n forward passes, and of n backward passes."""
    best = [1e9, 1e9]
    leaves = [a.requires_grad_() for a in args if a.is_floating_point()]
    leaves = leaves[:1] if fn is F.binary_cross_entropy_with_logits else leaves
    d = None
    for _ in range(n):
        began = time.perf_counter()
        y = fn(*args)
        middle = time.perf_counter()
        d = torch.rand_like(y) if d is None and y.dim() else d
        start = time.perf_counter()
        torch.autograd.grad(y, leaves, d)
        ended = time.perf_counter()
        best = [min(best[0], middle - began), min(best[1], ended - start)]
    return [1e3 * b for b in best]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--case")
    p.add_argument("binary", nargs="?", default="build/release/bench/map")
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    print(f"PyTorch {torch.__version__}, {args.threads} thread(s); ms, ours / PyTorch's = ratio")
    for name, (fn, src) in CASES.items():
        if args.case and name != args.case:
            continue
        ours, theirs = [1e9, 1e9], [1e9, 1e9]
        for _ in range(args.rounds):
            out = subprocess.run([args.binary, "--threads", str(args.threads), "--case", name],
                                 check=True, capture_output=True, text=True).stdout
            found = [float(x) for x in re.search(r"forward +(\S+) ms backward +(\S+) ms",
                                                 out).groups()]
            ours = [min(a, b) for a, b in zip(ours, found)]
            theirs = [min(a, b) for a, b in zip(theirs, torch_ms(fn, src, 10))]
        print(f"{name:24} forward {ours[0]:9.3f} {theirs[0]:9.3f} {theirs[0] / ours[0]:6.2f}x   "
              f"backward {ours[1]:9.3f} {theirs[1]:9.3f} {theirs[1] / ours[1]:6.2f}x", flush=True)


if __name__ == "__main__":
    main()
