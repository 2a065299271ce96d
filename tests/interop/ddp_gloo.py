"""A small DistributedDataParallel training on the CPU; rank 0 prints a checksum per step."""

import os
import signal
import sys

import torch
import torch.distributed as dist


def say(line):
    """In one write: print() may write the line's end apart, after another rank's line."""
    os.write(1, (line + "\n").encode())


def main():
    dist.init_process_group("gloo")  # env://
    rank, size = dist.get_rank(), dist.get_world_size()
    if len(sys.argv) > 1 and sys.argv[1] == "fail":
        if rank < size - 1:
            signal.pause()  # until the launcher ends it: or both fail, and one of them first
        raise RuntimeError("this rank was told to fail")
    torch.manual_seed(1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 4))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(100 + rank)
    for step in range(5):
        loss = model(torch.randn(8, 16)).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        total = sum(p.detach().double().sum().item() for p in model.parameters())
        if rank == 0:
            say(f"step {step} checksum {total:.17g}")
    dist.barrier()
    say(f"rank {rank} of {size} local {os.environ['LOCAL_RANK']} done")
    dist.destroy_process_group()
    os._exit(0)  # at the interpreter's end PyTorch's threads abort now and then: not what is tested


main()
