#!/usr/bin/env python3
"""The PyTorch side of bench/norm: reads "CASE REPEATS", answers the best time in seconds.

Started by bench/norm with the number of threads; cases are numbered as in its table.
"""
import sys
import time

import torch
import torch.nn.functional as F

torch.set_num_threads(int(sys.argv[1]))


def layer(x, w, b):
    return F.layer_norm(x, x.shape[-1:], w, b, 1e-5)


def rms(x, w, b):
    return F.rms_norm(x, x.shape[-1:], w, 1e-5)


def batch(x, w, b):
    return F.batch_norm(x, None, None, w, b, True, 0.1, 1e-5)


def batch_relu(x, w, b):
    return F.relu_(batch(x, w, b))


def group(x, w, b):
    return F.group_norm(x, 32, w, b, 1e-5)


def softmax(x, w, b):
    return torch.softmax(x, -1)


def log_softmax(x, w, b):
    return torch.log_softmax(x, -1)


def argmax(x, w, b):
    return torch.max(x, -1)[0]


# name -> (function, its vectors); shapes come with the request, channels last
FUNCTIONS = {"layer_norm": (layer, 2), "rms_norm": (rms, 1), "batch_norm": (batch, 2),
             "batch_norm+relu": (batch_relu, 2), "group_norm": (group, 2),
             "softmax": (softmax, 0), "log_softmax": (log_softmax, 0), "max_index": (argmax, 0),
             "copy": (lambda x, w, b: x.clone(), 0)}
made = {}


def make(name, shape):
    fn, n_vectors = FUNCTIONS[name]
    c = shape[-1]
    x = torch.rand(shape) * 2 - 1
    if name.startswith("batch") or name.startswith("group"):  # torch's channels-last tensors
        x = x.permute(0, 3, 1, 2)
    w, b = torch.rand(c), torch.rand(c)
    wanted = [x, w, b][:1 + n_vectors]
    for t in wanted:
        t.requires_grad_()
    dy = torch.rand_like(fn(x, w, b))
    return fn, x, w, b, wanted, dy


def forward(fn, x, w, b, wanted, dy):
    with torch.no_grad():
        return fn(x, w, b)


def both(fn, x, w, b, wanted, dy):
    return torch.autograd.grad(fn(x, w, b), wanted, dy)


print("PyTorch", torch.__version__, flush=True)
for line in sys.stdin:
    name, what, repeats, *shape = line.split()
    key = line
    if key not in made:
        made[key] = make(name, [int(n) for n in shape])
    run = forward if what == "forward" else both
    best = 1e9
    for _ in range(int(repeats)):
        start = time.perf_counter()
        result = run(*made[key])
        best = min(best, time.perf_counter() - start)
    print(best, flush=True)
