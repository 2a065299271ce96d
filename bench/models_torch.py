#!/usr/bin/env python3
"""PyTorch's side of bench/models.sh: the training steps that 'gradus bench step' times.

usage: models_torch.py MODEL [--steps N] [--threads N] [--amp none|bf16] [--batch N] [--ddp]

--ddp: DistributedDataParallel over gloo, between the ranks that gradrun or torchrun starts.

The models come from tests/golden/torch_models.py; images are channels last in memory, which
is PyTorch's faster layout on CPUs.
"""

import argparse
import os
import resource
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../tests/golden"))
import torch_models as m  # noqa: E402


def image(batch, side):
    return (torch.rand(batch, 3, side, side) * 2 - 1).contiguous(memory_format=torch.channels_last)


def last(net):
    return net.to(memory_format=torch.channels_last)


def mlp(b):
    net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    x, y = torch.rand(b, 784) * 2 - 1, torch.randint(0, 10, (b,))
    return net, lambda: F.cross_entropy(net(x), y), 10


def resnet18(b):
    net, x, y = last(m.ResNet(18, 3, 10)), image(b, 64), torch.randint(0, 10, (b,))
    return net, lambda: F.cross_entropy(net(x), y), 1


def dilated50(b):
    net, x, y = last(m.DilatedAspp(50, 21)), image(b, 129), torch.randint(0, 21, (b, 129, 129))
    return net, lambda: F.cross_entropy(net(x), y), 1


def transformer(b):
    net = m.Encoder()
    x, y = torch.randint(0, 1000, (b, 256)), torch.randint(0, 1000, (b, 256))
    return net, lambda: F.cross_entropy(net(x).flatten(0, 1), y.flatten()), 1


def protein(b):
    net = m.Protein()
    coords, mask = (torch.rand(b, 256, 4, 3) * 2 - 1) * 8, torch.ones(b, 256, dtype=torch.bool)
    x, y, z = (torch.randint(0, n, (b, 640)) for n in (16, 16, 72))

    def loss():
        frag, tors = net(coords, x, mask)
        return F.cross_entropy(frag.flatten(0, 1), y.flatten()) + F.cross_entropy(tors.flatten(0, 1), z.flatten())

    return net, loss, 1


BATCH = {"mlp": 128, "resnet18": 16, "dilated50": 4, "transformer": 4, "protein": 4}


class Whole(nn.Module):
    """A network with its loss, so that DDP sees the forward pass."""

    def __init__(self, net, loss_of):
        super().__init__()
        self.net, self.loss_of = net, loss_of

    def forward(self):
        return self.loss_of()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model", choices=BATCH)
    p.add_argument("--batch", type=int)
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--amp", choices=("none", "bf16"), default="none")
    p.add_argument("--ddp", action="store_true")
    args = p.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    batch = args.batch or BATCH[args.model]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    net, loss_of, stretch = globals()[args.model](batch)
    optim = torch.optim.SGD(net.parameters(), lr=1e-3)
    ranks = 1
    if args.ddp:
        torch.distributed.init_process_group("gloo")
        ranks = torch.distributed.get_world_size()
        loss_of = nn.parallel.DistributedDataParallel(Whole(net, loss_of))

    def steps(n):
        for _ in range(n):
            optim.zero_grad(set_to_none=True)
            with torch.autocast("cpu", torch.bfloat16, enabled=args.amp == "bf16"):
                loss = loss_of()
            loss.backward()
            optim.step()

    steps(stretch)
    times = []
    for _ in range(max(1, args.steps // stretch)):
        began = time.perf_counter()
        steps(stretch)
        times.append((time.perf_counter() - began) / stretch)
    median = statistics.median(times)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    if args.ddp and torch.distributed.get_rank() > 0:
        return
    print(f"PyTorch {torch.__version__}")
    print(f"step_ms: {median * 1e3:.4f} ({min(times) * 1e3:.4f} to {max(times) * 1e3:.4f})")
    print(f"samples_per_s: {ranks * batch / median:.1f}")
    print(f"peak_mb: {grown / 1024:.0f} more than before the model")


if __name__ == "__main__":
    main()
