#!/usr/bin/env python3
"""The cases of bench/layout.c here and in PyTorch, in turns, on the same number of threads.

    python3 bench/layout_torch.py [--threads 1] [--rounds 5] [--case NAME] [BINARY]

For each case: our program, then PyTorch, `rounds` times; the best of each counts. 8 MiB of
other memory are read before every run on both sides. Images are channels_last in PyTorch, as
they are here; results go to memory that PyTorch allocates (its allocator keeps it). Printed:
microseconds of both, and how many times faster we are.
"""
import argparse
import subprocess
import time

import torch
import torch.nn.functional as F


def image(n, h, w, c, dtype=torch.float32):
    return torch.rand(n, c, h, w).to(dtype).to(memory_format=torch.channels_last)


def grad_of(fn, x):
    """A function that computes the gradient of fn at x, forward pass done before."""
    x = x.requires_grad_()
    y = fn(x)
    d = torch.rand_like(y)
    return lambda: torch.autograd.grad(y, x, d, retain_graph=True)


def max_pool(x):
    return F.max_pool2d(x, 3, 2, 1)


def avg_pool(x):
    return F.avg_pool2d(x, 2)


def bilinear(x):
    return F.interpolate(x, (129, 129), mode="bilinear", align_corners=True)


def nearest(x):
    return F.interpolate(x, (64, 64), mode="nearest")


def neighbours(x):
    d = torch.cdist(x, x)
    d.diagonal(dim1=1, dim2=2).fill_(float("inf"))
    return d.topk(30, largest=False)


def cases():
    bf16 = torch.bfloat16
    square, tokens = torch.rand(1024, 1024), torch.rand(8, 512, 12, 64)
    nchw, pixels = torch.rand(16, 64, 32, 32), torch.rand(16, 3, 128, 128)
    nhwc, pixels_last = torch.rand(16, 32, 32, 64), torch.rand(16, 128, 128, 3)
    index, rows = torch.randint(0, 640, (19200,)), torch.rand(19200, 256)
    wide, table = torch.rand(1024, 2304), torch.rand(640, 256)
    two, words = [torch.rand(8, 256, 768) for _ in range(2)], torch.rand(8, 512, 768)
    skip, up = image(16, 32, 32, 64), image(16, 32, 32, 48)
    pictures = torch.rand(64, 64, 64, 3)
    ids, embedding = torch.randint(0, 2048, (1024,)), torch.nn.Embedding(2048, 256)
    pairs, points = torch.rand(2400, 300), torch.rand(8, 300, 3)

    def parts(x):
        y = x.reshape(64, 16, 4, 16, 4, 3).permute(0, 1, 3, 5, 2, 4)
        return y.reshape(64, 256, 48)

    def summed(r, dtype=torch.float32):
        return lambda: torch.zeros(640, 256, dtype=dtype).index_add_(0, index, r)

    return {
        "transpose": lambda: square.t().contiguous(),
        "transpose_bf16": (lambda x: lambda: x.t().contiguous())(square.to(bf16)),
        "heads": lambda: tokens.permute(0, 2, 1, 3).contiguous(),
        "heads_bf16": (lambda x: lambda: x.permute(0, 2, 1, 3).contiguous())(tokens.to(bf16)),
        "to_nhwc": lambda: nchw.permute(0, 2, 3, 1).contiguous(),
        "to_nchw": lambda: nhwc.permute(0, 3, 1, 2).contiguous(),
        "to_nchw_bf16": (lambda x: lambda: x.permute(0, 3, 1, 2).contiguous())(nhwc.to(bf16)),
        "image_to_nhwc": lambda: pixels.permute(0, 2, 3, 1).contiguous(),
        "image_to_nchw": lambda: pixels_last.permute(0, 3, 1, 2).contiguous(),
        "concat_channels": lambda: torch.cat([skip, up], 1),
        "concat_tokens": lambda: torch.cat(two, 1),
        "split_qkv": lambda: [p.contiguous() for p in wide.chunk(3, -1)],
        "slice_tokens": lambda: words[:, 256:512].contiguous(),
        "pad_image": lambda: F.pad(nhwc, [0, 0, 1, 1, 1, 1]),
        "patchify": lambda: parts(pictures),
        "max_pool": (lambda x: lambda: max_pool(x))(image(16, 32, 32, 64)),
        "max_pool_bf16": (lambda x: lambda: max_pool(x))(image(16, 32, 32, 64, bf16)),
        "max_pool_grad": grad_of(max_pool, image(16, 32, 32, 64)),
        "avg_pool": (lambda x: lambda: avg_pool(x))(image(16, 32, 32, 64)),
        "avg_pool_grad": grad_of(avg_pool, image(16, 32, 32, 64)),
        "bilinear": (lambda x: lambda: bilinear(x))(image(4, 17, 17, 21)),
        "bilinear_grad": grad_of(bilinear, image(4, 17, 17, 21)),
        "nearest": (lambda x: lambda: nearest(x))(image(8, 32, 32, 64)),
        "nearest_grad": grad_of(nearest, image(8, 32, 32, 64)),
        "gather": lambda: table.index_select(0, index),
        "scatter_add": summed(rows),
        "scatter_add_bf16": summed(rows.to(bf16), bf16),
        "embedding_grad": grad_of(lambda w: F.embedding(ids, w), embedding.weight.detach()),
        "top_k": lambda: pairs.topk(30, largest=False),
        "knn": lambda: neighbours(points),
    }


def best_us(fn, sweep, n=20):
    best = 1e9
    for _ in range(n):
        sweep.sum()
        start = time.perf_counter()
        fn()
        best = min(best, time.perf_counter() - start)
    return best * 1e6


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--case")
    p.add_argument("binary", nargs="?", default="build/release/bench/layout")
    opt = p.parse_args()
    torch.set_num_threads(opt.threads)
    torch.manual_seed(1)
    sweep = torch.zeros(2 << 20)
    print(f"# PyTorch {torch.__version__}, {opt.threads} thread(s); microseconds: gradus, PyTorch")
    for name, fn in cases().items():
        if opt.case and opt.case != name:
            continue
        ours, theirs, kernel = 1e9, 1e9, ""
        for _ in range(opt.rounds):
            out = subprocess.run([opt.binary, "--threads", str(opt.threads), "--case", name,
                                  "--rounds", "20"], check=True, capture_output=True, text=True)
            _, kernel, us, _ = out.stdout.split()
            ours = min(ours, float(us))
            theirs = min(theirs, best_us(fn, sweep))
        print(f"{name:18} {kernel:10} {ours:9.1f} {theirs:9.1f}   {theirs / ours:5.2f} x",
              flush=True)


if __name__ == "__main__":
    main()
