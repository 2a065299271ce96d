#!/usr/bin/env python3
"""PyTorch's side of bench/mlp.sh: the training step that 'gradus bench step mlp' times.

usage: mlp_torch.py [--batch N] [--steps N] [--threads N] [--optim sgd|adamw] [--compile]
"""

import argparse
import statistics
import time

import torch

STRETCH = 10


def model():
    nn = torch.nn
    return nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--steps", type=int, default=300)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--optim", choices=("sgd", "adamw"), default="sgd")
    p.add_argument("--compile", action="store_true")
    args = p.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    net = model()
    kind = torch.optim.SGD if args.optim == "sgd" else torch.optim.AdamW
    optim = kind(net.parameters(), lr=1e-3, fused=True)
    x = torch.rand(args.batch, 784) * 2 - 1
    y = torch.randint(0, 10, (args.batch,))
    loss_fn = torch.nn.CrossEntropyLoss()

    def forward():
        return loss_fn(net(x), y)

    if args.compile:
        forward = torch.compile(forward)

    def stretch():
        for _ in range(STRETCH):
            optim.zero_grad(set_to_none=True)
            forward().backward()
            optim.step()

    stretch()
    times = []
    for _ in range(max(1, args.steps // STRETCH)):
        began = time.perf_counter()
        stretch()
        times.append((time.perf_counter() - began) / STRETCH)
    median = statistics.median(times)
    print(f"PyTorch {torch.__version__}{', compiled' if args.compile else ''}")
    print(f"step_ms: {median * 1e3:.4f} ({min(times) * 1e3:.4f} to {max(times) * 1e3:.4f})")
    print(f"samples_per_s: {args.batch / median:.0f}")


if __name__ == "__main__":
    main()
