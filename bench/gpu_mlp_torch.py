#!/usr/bin/env python3
"""PyTorch's side of bench/gpu_mlp.c: MLP 784-512-512-10, batch 128, AdamW, on one GPU.

Eager, and as a captured CUDA graph with the input copied from pinned memory before each
replay, which is what a step of gradus includes.

usage: gpu_mlp_torch.py
"""

import statistics
import time

import torch

STEPS, ROUNDS = 500, 9


def make(capturable):
    torch.manual_seed(0)
    nn = torch.nn
    net = nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    ).cuda()
    return net, torch.optim.AdamW(net.parameters(), 1e-3, fused=True, capturable=capturable)


def measure(name, step):
    for _ in range(20):
        step()
    times = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - began) / STEPS * 1e6)
    print(f"PyTorch {torch.__version__} {name}: {statistics.median(times):.1f} us a step")


def main():
    host_x, host_y = torch.rand(128, 784).pin_memory(), (torch.arange(128) % 10).pin_memory()
    x, y = host_x.cuda(), host_y.cuda()
    loss_fn = torch.nn.CrossEntropyLoss()
    for name, amp in (("f32", False), ("bf16", True)):
        def step(net, opt):
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cuda", torch.bfloat16, enabled=amp):
                loss = loss_fn(net(x), y)
            loss.backward()
            opt.step()

        eager = make(False)
        measure(f"eager, {name}", lambda: step(*eager))
        captured = make(True)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step(*captured)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step(*captured)

        def replay():
            x.copy_(host_x, non_blocking=True)
            y.copy_(host_y, non_blocking=True)
            graph.replay()

        measure(f"CUDA graph, {name}", replay)


if __name__ == "__main__":
    main()
