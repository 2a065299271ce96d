"""gloo's all-reduce, f32 sum, measured as `gradus bench comm` measures ours.
Columns: bytes, best and median us of a call, us of processor per call (mean of the ranks).
usage, under gradrun: comm_gloo.py MIN MAX BATCHES BATCH_MS"""
import sys
import time

import torch
import torch.distributed as dist

low, high, n_batches, batch_ms = (int(x) for x in sys.argv[1:5])
torch.set_num_threads(1)
dist.init_process_group("gloo")
n = low
while n <= high:
    x = torch.zeros(n // 4)
    for _ in range(2):
        dist.all_reduce(x)
    start = time.perf_counter()
    dist.all_reduce(x)
    calls = torch.tensor([1 + int(batch_ms * 1e-3 / (time.perf_counter() - start))])
    dist.broadcast(calls, 0)
    times = []
    cpu = time.process_time()
    for _ in range(n_batches):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(int(calls)):
            dist.all_reduce(x)
        times.append((time.perf_counter() - start) / int(calls) * 1e6)
    cpu = torch.tensor([(time.process_time() - cpu) / (n_batches * int(calls)) * 1e6])
    dist.all_reduce(cpu)
    times.sort()
    if dist.get_rank() == 0:
        print(f"{n:10d} {times[0]:9.1f} {times[n_batches // 2]:9.1f} "
              f"{float(cpu) / dist.get_world_size():9.1f}", flush=True)
    n *= 4
dist.destroy_process_group()
