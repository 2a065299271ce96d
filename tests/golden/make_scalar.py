#!/usr/bin/env python3
"""Makes tests/golden/scalar.txt: the functions of tests/op/cases_scalar.c. See make.py."""
import torch
import torch.nn.functional as F

from make import HERE, rand, randint, record


def records():
    ranges = {
        "rsqrt": (torch.rsqrt, 0.2, 3, 0), "reciprocal": (torch.reciprocal, -2, 2, 0.5),
        "log1p": (torch.log1p, -0.8, 3, 0), "expm1": (torch.expm1, -2, 2, 0),
        "sin": (torch.sin, -7, 7, 0), "cos": (torch.cos, -7, 7, 0),
        "acos": (torch.acos, -0.9, 0.9, 0), "erf": (torch.erf, -2, 2, 0),
        "softplus": (lambda x: F.softplus(x, threshold=1e9), -3, 3, 0),
        "silu": (F.silu, -3, 3, 0), "gelu": (F.gelu, -3, 3, 0),
        "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), -3, 3, 0),
    }
    for name, (fn, lo, hi, away) in ranges.items():
        yield record(name, fn, [rand(3, 13, lo=lo, hi=hi, away=away)], grad=[0])
    for name, fn in {"floor": torch.floor, "ceil": torch.ceil, "round": torch.round}.items():
        x = rand(3, 13, lo=-3, hi=3)
        x[0] = torch.arange(-6, 7) / 2  # halves
        yield record(name, fn, [x])
    yield record("pow", torch.pow, [rand(5, 7, lo=0.3, hi=2), rand(7)], grad=[0, 1])
    yield record("atan2", torch.atan2, [rand(5, 7, away=0.3), rand(7, away=0.3)], grad=[0, 1])
    yield record("lerp", torch.lerp, [rand(4, 6), rand(6).expand(4, 6)[:1][0],
                                      rand(4, 1, lo=0, hi=1)], grad=[0, 1, 2])
    yield record("clamp", torch.clamp, [rand(4, 6, lo=-3, hi=3), rand(6, lo=-2, hi=-1),
                                        rand(6, lo=1, hi=2)], grad=[0, 1, 2])
    yield record("leaky_relu", lambda x, k: torch.where(x > 0, x, x * k),
                 [rand(5, 7, away=0.1), rand(7, lo=0.01, hi=0.9)], grad=[0, 1])
    yield record("elu", lambda x, k: torch.where(x > 0, x, k * torch.expm1(x)),
                 [rand(5, 7, away=0.1), rand(7, lo=0.5, hi=2)], grad=[0, 1])
    bits = lambda *shape: randint(*shape, hi=1, dtype=torch.int32)
    yield record("and", torch.logical_and, [bits(6, 5), bits(5)])
    yield record("or", torch.logical_or, [bits(6, 5), bits(5)])
    yield record("not", torch.logical_not, [bits(6, 5)])
    yield record("isnan", torch.isnan, [bits(6, 5)])
    yield record("isfinite", torch.isfinite, [bits(6, 5)])
    divisor = randint(31, lo=1, hi=9, dtype=torch.int32) * torch.tensor([1, -1] * 15 + [1],
                                                                       dtype=torch.int32)
    yield record("floor_div", torch.floor_divide,
                 [randint(7, 31, lo=-40, hi=40, dtype=torch.int32), divisor])
    yield record("mod", torch.remainder, [randint(7, 31, lo=-40, hi=40), divisor])


if __name__ == "__main__":
    torch.manual_seed(2)
    lines = [f"# made by tests/golden/make_scalar.py with PyTorch {torch.__version__}"]
    for one in records():
        lines += one
    (HERE / "scalar.txt").write_text("\n".join(lines) + "\n")
