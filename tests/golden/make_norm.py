#!/usr/bin/env python3
"""Makes tests/golden/norm.txt, softmax.txt and argmax.txt: see make.py, whose record() this uses.

    python3 tests/golden/make_norm.py [family ...]
"""
import sys

import torch
import torch.nn.functional as F

from make import HERE, rand, record

EPS = 1e-5


def rstd(var):
    return 1 / torch.sqrt(var + EPS)


def layer_norm(x, w=None, b=None):
    c = x.shape[-1:]
    return F.layer_norm(x, c, w, b, EPS), x.mean(-1), rstd(x.var(-1, correction=0))


def rms_norm(x, w=None):
    return F.rms_norm(x, x.shape[-1:], w, EPS), rstd(x.square().mean(-1))


def rms_norm_clamped(x, w=None):
    rms = (x.norm(dim=-1) / x.shape[-1] ** 0.5).clamp(min=0.8)
    y = x / rms.unsqueeze(-1)
    return y * w if w is not None else y, 1 / rms


def first(x):
    """Channels from the end to the place where torch wants them."""
    return x.movedim(-1, 1)


def batch_norm(x, w=None, b=None):
    return F.batch_norm(first(x), None, None, w, b, True, 0.1, EPS).movedim(1, -1)


def frozen_norm(x, mean, var, w, b):
    return F.batch_norm(first(x), mean, var, w, b, False, 0.1, EPS).movedim(1, -1)


def group_norm(groups):
    return lambda x, w=None, b=None: F.group_norm(first(x), groups, w, b, EPS).movedim(1, -1)


def norm_family():
    yield record("layer norm", layer_norm, [rand(6, 10), rand(10), rand(10)], grad=[0, 1, 2])
    yield record("layer norm of a cube", layer_norm, [rand(2, 3, 37), rand(37), rand(37)],
                 grad=[0, 1, 2])
    yield record("layer norm, plain", layer_norm, [rand(6, 10)], grad=[0])
    yield record("rms norm", rms_norm, [rand(6, 10), rand(10)], grad=[0, 1])
    yield record("rms norm, plain", rms_norm, [rand(6, 10)], grad=[0])
    yield record("rms norm, clamped", rms_norm_clamped, [rand(9, 10, lo=-1.5, hi=1.5), rand(10)],
                 grad=[0, 1])
    yield record("batch stats", lambda x: (x.mean((0, 1)), x.var((0, 1), correction=0) * 15,
                                           torch.tensor(15.0, dtype=torch.float64)),
                 [rand(5, 3, 7)], grad=[0])
    yield record("batch norm of images", batch_norm, [rand(2, 3, 4, 5), rand(5), rand(5)],
                 grad=[0, 1, 2])
    yield record("batch norm of rows", batch_norm, [rand(7, 5), rand(5), rand(5)], grad=[0, 1, 2])
    yield record("batch norm, plain", batch_norm, [rand(4, 3, 5)], grad=[0])
    yield record("group norm", group_norm(3), [rand(2, 3, 4, 6), rand(6), rand(6)],
                 grad=[0, 1, 2])
    yield record("group norm of one group", group_norm(1), [rand(3, 5, 4), rand(4), rand(4)],
                 grad=[0, 1, 2])
    yield record("group norm, plain", group_norm(4), [rand(3, 5, 4)], grad=[0])
    yield record("batch norm, frozen", frozen_norm,
                 [rand(4, 3, 17), rand(17), rand(17, lo=0.5, hi=2), rand(17), rand(17)], grad=[0])


def softmax_family():
    cases = {"": ([6, 10], -1), " of the middle": ([3, 5, 7], 1)}
    for place, (shape, dim) in cases.items():
        yield record("softmax" + place, lambda x: torch.softmax(x, dim), [rand(*shape)], grad=[0])
        yield record("log softmax" + place, lambda x: torch.log_softmax(x, dim), [rand(*shape)],
                     grad=[0])
        yield record("logsumexp" + place, lambda x: torch.logsumexp(x, dim, keepdim=True),
                     [rand(*shape)], grad=[0])
    yield record("softmax down columns", lambda x: torch.softmax(x, 0), [rand(6, 10)], grad=[0])
    large = rand(8, 12, lo=-300, hi=300)
    yield record("softmax of large numbers", lambda x: torch.softmax(x, -1), [large], grad=[0])
    yield record("log softmax of large numbers", lambda x: torch.log_softmax(x, -1), [large],
                 grad=[0])


def argmax_family():
    def indexed(fn, dim):
        return lambda x: tuple(fn(x, dim=dim, keepdim=True))

    yield record("max of rows", indexed(torch.max, -1), [rand(6, 10)], grad=[0])
    yield record("min of rows", indexed(torch.min, -1), [rand(6, 10)], grad=[0])
    yield record("max of columns", indexed(torch.max, 0), [rand(6, 10)], grad=[0])
    yield record("max of points", indexed(torch.max, 1), [rand(3, 9, 37)], grad=[0])


FAMILIES = {"argmax": argmax_family, "norm": norm_family, "softmax": softmax_family}


def main():
    for family in sys.argv[1:] or FAMILIES:
        torch.manual_seed(1)
        lines = [f"# made by tests/golden/make_norm.py with PyTorch {torch.__version__}"]
        for lines_of_one in FAMILIES[family]():
            lines += lines_of_one
        (HERE / f"{family}.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
