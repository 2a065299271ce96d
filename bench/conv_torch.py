#!/usr/bin/env python3
"""The layers of bench/conv.c here and in PyTorch, in turns, on the same number of threads.

    python3 bench/conv_torch.py [--threads 1] [--dtype f32] [--rounds 3] [--layer TEXT] [BINARY]

For each layer: our program, then PyTorch in both memory formats (the faster one counts), all
of it `rounds` times; the best of each counts. 8 MiB of other memory are read before every
run on both sides. Printed: microseconds, GF/s, share of one core's peak, and how many times
faster we are. The last lines are sums over a network's distinct layers.
"""
import argparse
import subprocess
import time

import torch

OPS = ("conv", "conv_data", "conv_weight")
MASKS = {"conv_data": [True, False, False], "conv_weight": [False, True, False]}


def layers(binary):
    """Shapes as the program prints them with --list."""
    text = subprocess.run([binary, "--list"], check=True, capture_output=True, text=True).stdout
    for line in text.splitlines():
        name, *numbers = line.split()
        yield name, [int(x) for x in numbers]


def ours(binary, name, opt):
    found = {}
    out = subprocess.run([binary, "--layer", f"={name}", "--threads", str(opt.threads), "--dtype",
                          opt.dtype], check=True, capture_output=True, text=True).stdout
    for line in out.splitlines():
        words = line.split()
        if line.startswith("#"):
            peak = float(words[-2])
        else:
            found[words[1]] = (float(words[3]), words[2])
    return found, peak


def best_us(fn, sweep):
    best = 1e9
    for _ in range(20):
        sweep.sum()
        start = time.perf_counter()
        fn()
        best = min(best, time.perf_counter() - start)
    return best * 1e6


def theirs(shape, opt, sweep):
    n, h, w, c_in, c_out, k, stride, pad, dilation = shape
    dtype = torch.bfloat16 if opt.dtype == "bf16" else torch.float32
    found = dict.fromkeys(OPS, 1e9)
    for fmt in (torch.contiguous_format, torch.channels_last):
        x = torch.rand(n, c_in, h, w).to(dtype).to(memory_format=fmt)
        weight = torch.rand(c_out, c_in, k, k).to(dtype)
        y = torch.conv2d(x, weight, None, stride, pad, dilation)
        d = torch.rand_like(y)

        def back(mask):
            return lambda: torch.ops.aten.convolution_backward(
                d, x, weight, None, [stride] * 2, [pad] * 2, [dilation] * 2, False, [0, 0], 1, mask)

        runs = {"conv": lambda: torch.conv2d(x, weight, None, stride, pad, dilation)}
        runs.update({op: back(mask) for op, mask in MASKS.items()})
        for op, fn in runs.items():
            found[op] = min(found[op], best_us(fn, sweep))
    return found


def main():
    p = argparse.ArgumentParser()
    p.add_argument("binary", nargs="?", default="build/release/bench/conv")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--dtype", default="f32", choices=["f32", "bf16"])
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--layer", default="")
    opt = p.parse_args()
    torch.set_num_threads(opt.threads)
    torch.set_grad_enabled(False)
    torch.manual_seed(1)
    sweep = torch.zeros(2 << 20)
    sums = {}
    print(f"PyTorch {torch.__version__}, {torch.backends.mkldnn.is_available() and 'oneDNN'}, "
          f"{opt.threads} threads, {opt.dtype}")
    print(f"{'layer':20} {'operator':11} {'kernel':9} {'us':>8} {'GF/s':>7} {'of peak':>7}"
          f" {'torch us':>9} {'GF/s':>7} {'ratio':>6}")
    for name, shape in layers(opt.binary):
        if opt.layer not in name:
            continue
        n, h, w, c_in, c_out, k, stride, pad, dilation = shape
        out = [(s + 2 * pad - dilation * (k - 1) - 1) // stride + 1 for s in (h, w)]
        flops = 2.0 * n * out[0] * out[1] * c_in * c_out * k * k
        a, b, peak = {}, dict.fromkeys(OPS, 1e9), 0
        for _ in range(opt.rounds):
            mine, peak_now = ours(opt.binary, name, opt)
            peak = max(peak, peak_now)
            for op, (us, kernel) in mine.items():
                if op not in a or us < a[op][0]:
                    a[op] = (us, kernel)
            for op, us in theirs(shape, opt, sweep).items():
                b[op] = min(b[op], us)
        for op in OPS:
            us, kernel = a[op]
            print(f"{name:20} {op:11} {kernel:9} {us:8.0f} {flops / us * 1e-3:7.1f}"
                  f" {flops / us * 1e-3 / peak:7.2f} {b[op]:9.0f} {flops / b[op] * 1e-3:7.1f}"
                  f" {b[op] / us:6.2f}", flush=True)
            for key in (f"{name.split('.')[0]} {op}", f"{name.split('.')[0]} all"):
                x, y, z = sums.get(key, (0, 0, 0))
                sums[key] = (x + us, y + b[op], z + flops)
    for key, (us, torch_us, flops) in sums.items():
        print(f"{key:42} {us:8.0f} {flops / us * 1e-3:7.1f} {flops / us * 1e-3 / peak:7.2f}"
              f" {torch_us:9.0f} {flops / torch_us * 1e-3:7.1f} {torch_us / us:6.2f}")


if __name__ == "__main__":
    main()
