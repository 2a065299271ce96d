#!/usr/bin/env python3
"""Makes tests/golden/<family>.txt: operators' results as PyTorch computes them.

    python3 tests/golden/make.py [family ...]

Inputs are f32; PyTorch computes in f64 (gradients by autograd) and the results are rounded
to f32 once, so they are right to the last bit and each kernel is measured against them. The
format is described in tests/op/driver_golden.c. A record has the name of a case with
DRIVER_GOLDEN in tests/op/cases_<family>.c, whose shapes it must have.

A family is a generator of record(...) calls, listed in FAMILIES.
"""
import pathlib
import re
import sys

import torch

HERE = pathlib.Path(__file__).resolve().parent
NAMES = {torch.float32: "f32", torch.float64: "f64", torch.int32: "i32", torch.int64: "i64",
         torch.uint8: "u8", torch.bool: "bool"}


def rand(*shape, lo=-2.0, hi=2.0, away=0.0):
    """Uniform f32 in [lo, hi], none nearer to 0 than `away`."""
    x = torch.rand(shape, dtype=torch.float64) * (hi - lo) + lo
    x = torch.where(x.abs() < away, x + torch.where(x < 0, -away, away), x)
    return x.to(torch.float32)


def randint(*shape, lo=0, hi=9, dtype=torch.int64):
    """Whole numbers in [lo, hi]."""
    return torch.randint(lo, hi + 1, shape).to(dtype)


def number(x):
    if not isinstance(x, float):
        return str(int(x))
    return re.sub(r"\.?0*p", "p", x.hex())


def tensor(name, t):
    shape = "[" + ",".join(str(n) for n in t.shape) + "]"
    values = " ".join(number(x) for x in t.flatten().tolist())
    return f"{name} {NAMES[t.dtype]} {shape} {values}".rstrip()


def narrow(t):
    """A result as it is stored: f64 becomes f32."""
    return t.detach().to(torch.float32) if t.dtype == torch.float64 else t.detach()


def record(name, fn, src, grad=(), returned=0):
    """Lines of one record. fn takes the sources (f32 as f64) and gives one result or
    several; grad: the sources whose gradient is stored, for a random gradient of result
    number `returned`."""
    lines = [f"record {name}"]
    lines += [tensor(f"src{i}", t) for i, t in enumerate(src)]
    wide = [t.to(torch.float64) if t.dtype == torch.float32 else t for t in src]
    for i in grad:
        wide[i].requires_grad_()
    outs = fn(*wide)
    outs = outs if isinstance(outs, tuple) else (outs,)
    lines += [tensor(f"out{i}", narrow(t)) for i, t in enumerate(outs)]
    if grad:
        d_out = rand(*outs[returned].shape, lo=-1, hi=1)
        lines.append(tensor(f"dout{returned}", d_out))
        found = torch.autograd.grad(outs[returned], [wide[i] for i in grad],
                                    d_out.to(torch.float64))
        lines += [tensor(f"dsrc{i}", narrow(d)) for i, d in zip(grad, found)]
    return lines


def map_family():
    unary = {
        "neg": torch.neg, "exp": torch.exp, "square": torch.square, "tanh": torch.tanh,
        "sigmoid": torch.sigmoid,
    }
    for name, fn in unary.items():
        yield record(name, fn, [rand(3, 13)], grad=[0])
    for name, fn in {"abs": torch.abs, "relu": torch.relu}.items():
        yield record(name, fn, [rand(3, 13, away=0.1)], grad=[0])
    for name, fn in {"log": torch.log, "sqrt": torch.sqrt}.items():
        yield record(name, fn, [rand(3, 13, lo=0.2, hi=3)], grad=[0])
    yield record("sign", torch.sign, [rand(3, 13, away=0.1)])
    binary = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "max": torch.maximum,
              "min": torch.minimum}
    for name, fn in binary.items():
        yield record(name, fn, [rand(5, 7), rand(7)], grad=[0, 1])
    yield record("div", torch.div, [rand(5, 7), rand(5, 1, away=0.5)], grad=[0, 1])
    yield record("where", torch.where, [randint(4, 6, hi=1, dtype=torch.bool), rand(4, 6),
                                        rand(6)], grad=[1, 2])
    tests = {"eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt,
             "ge": torch.ge}
    for name, fn in tests.items():
        yield record(name, fn, [randint(6, 5, hi=2, dtype=torch.int32),
                                randint(5, hi=2, dtype=torch.int32)])
    yield record("equal arguments of max", torch.maximum, [torch.ones(4), torch.ones(4)],
                 grad=[0, 1])


def matmul_family():
    def product(trans_a=False, trans_b=False):
        turn = lambda t, on: t.transpose(-1, -2) if on else t
        return lambda a, b: torch.matmul(turn(a, trans_a), turn(b, trans_b))

    yield record("plain", product(), [rand(3, 5), rand(5, 4)], grad=[0, 1])
    yield record("a transposed", product(True), [rand(5, 3), rand(5, 4)], grad=[0, 1])
    yield record("b transposed", product(False, True), [rand(3, 5), rand(4, 5)], grad=[0, 1])
    yield record("both transposed", product(True, True), [rand(5, 3), rand(4, 5)], grad=[0, 1])
    yield record("batched", product(), [rand(2, 3, 4, 6), rand(2, 3, 6, 5)], grad=[0, 1])
    yield record("batched, b transposed", product(False, True), [rand(3, 4, 6), rand(3, 5, 6)],
                 grad=[0, 1])
    yield record("leading dimensions are rows", product(), [rand(2, 3, 4, 7), rand(7, 5)],
                 grad=[0, 1])
    yield record("rows, b transposed", product(False, True), [rand(2, 3, 7), rand(5, 7)],
                 grad=[0, 1])


def reduce_family():
    over = {"rows": ([5, 37], [1], False), "columns": ([9, 37], [0], False),
            "the middle": ([3, 4, 5], [1], False), "both ends": ([3, 4, 5], [0, 2], False),
            "both ends, kept": ([3, 4, 5], [0, 2], True), "all": ([3, 4, 5], [0, 1, 2], False)}
    wanted = {"sum": (torch.sum, over), "mean": (torch.mean, ["rows", "columns", "all"]),
              "max": (torch.amax, ["rows", "columns", "both ends, kept"])}
    for name, (fn, places) in wanted.items():
        for place in places:
            shape, dims, keep = over[place]
            yield record(f"{name} of {place}", lambda x: fn(x, dim=dims, keepdim=keep),
                         [rand(*shape)], grad=[0])


def shape_family():
    yield record("reshape", lambda x: x.reshape(6, 2), [rand(3, 4)], grad=[0])
    yield record("transpose", lambda x: x.t(), [rand(5, 7)], grad=[0])
    yield record("transpose of heads", lambda x: x.permute(0, 2, 1, 3), [rand(2, 3, 4, 5)],
                 grad=[0])
    yield record("transpose to the front", lambda x: x.permute(2, 0, 1), [rand(3, 4, 5)],
                 grad=[0])


def gather_family():
    yield record("gather", lambda t, i: t[i.long()],
                 [rand(7, 5), randint(9, hi=6, dtype=torch.int32)], grad=[0])
    yield record("gather by i64", lambda t, i: t[i], [rand(7, 5), randint(2, 3, hi=6)], grad=[0])
    yield record("scatter", lambda r, i: torch.zeros(4, 5, dtype=r.dtype).index_add(0, i, r),
                 [rand(6, 5), randint(6, hi=3, dtype=torch.int32)], grad=[0])


def xent_family():
    def xent(x, labels):
        loss = torch.nn.functional.cross_entropy(x, labels.long(), reduction="none")
        return loss, torch.logsumexp(x, 1)

    yield record("xent", xent, [rand(6, 10), randint(6, hi=9)], grad=[0])
    yield record("xent by i32", xent, [rand(6, 10), randint(6, hi=9, dtype=torch.int32)], grad=[0])
    yield record("xent of large numbers", xent,
                 [rand(8, 12, lo=-300, hi=300), randint(8, hi=11, dtype=torch.int32)], grad=[0])

    def option(ignore=-100, smoothing=0.0):
        def run(x, labels, weight=None):
            loss = torch.nn.functional.cross_entropy(x, labels, weight, reduction="none",
                                                     ignore_index=ignore,
                                                     label_smoothing=smoothing)
            return loss, torch.where(labels == ignore, 0, torch.logsumexp(x, 1))
        return run

    yield record("xent, ignored", option(ignore=3), [rand(40, 10), randint(40, hi=9)], grad=[0])
    yield record("xent, smooth", option(smoothing=0.1), [rand(6, 37), randint(6, hi=36)], grad=[0])
    yield record("xent, weighted", option(), [rand(6, 21), randint(6, hi=20),
                                              rand(21, lo=0.1, hi=2)], grad=[0])
    yield record("xent with all options", option(3, 0.25), [rand(40, 21), randint(40, hi=20),
                                                            rand(21, lo=0.1, hi=2)], grad=[0])


def update_family():
    """One step of torch.optim from a given state, at the driver's learning rate."""
    lr = torch.tensor(0.1, dtype=torch.float32).item()

    def stepped(optimiser, param, grad, state):
        param = torch.nn.Parameter(param.clone())
        param.grad = grad
        opt = optimiser([param])
        opt.state[param].update(state)
        opt.step()
        return param, opt.state[param]

    def sgd(decay, momentum, scale=1, clip=None, nesterov=False):
        def run(param, grad, *buffer):
            state = {"momentum_buffer": buffer[0].clone()} if buffer else {}
            grad = grad if clip is None else grad.clamp(-clip, clip)
            new, state = stepped(lambda p: torch.optim.SGD(p, lr * scale, momentum, weight_decay=decay,
                                                           nesterov=nesterov),
                                 param, grad, state)
            return (new, state["momentum_buffer"]) if buffer else new
        return run

    def adam(kind, scale=1, clip=None):
        def run(param, grad, step, exp_avg, exp_avg_sq):
            state = {"step": torch.tensor(float(step) - 1), "exp_avg": exp_avg.clone(),
                     "exp_avg_sq": exp_avg_sq.clone()}
            grad = grad if clip is None else grad.clamp(-clip, clip)
            new, state = stepped(lambda p: kind(p, lr * scale, weight_decay=0.01), param, grad,
                                 state)
            return new, state["exp_avg"], state["exp_avg_sq"]
        return run

    def moments():
        return [rand(9, 11), rand(9, 11), torch.tensor(3), rand(9, 11), rand(9, 11, lo=0.5, hi=2)]

    def ema(average, param, step):
        return torch.optim.swa_utils.get_ema_avg_fn(0.75)(average, param, step)

    def control(*grads):
        """{ factor, skip, norm, scale }, as clip_grad_norm_ has it."""
        params = [torch.nn.Parameter(g.clone()) for g in grads]
        for p, g in zip(params, grads):
            p.grad = g.clone()
        norm = torch.nn.utils.clip_grad_norm_(params, 0.5)
        return torch.stack([params[0].grad[0, 0] / grads[0][0, 0], torch.zeros(()), norm,
                            torch.ones(())])

    yield record("sgd", sgd(0, 0), [rand(9, 11), rand(9, 11)])
    yield record("sgd with decay", sgd(0.01, 0), [rand(9, 11), rand(9, 11)])
    yield record("sgd with momentum", sgd(0.01, 0.9), [rand(9, 11), rand(9, 11), rand(9, 11)])
    yield record("sgd with nesterov", sgd(0.01, 0.9, nesterov=True),
                 [rand(9, 11), rand(9, 11), rand(9, 11)])
    yield record("sgd that cuts", sgd(0.01, 0.9, 0.5, 0.75, True),
                 [rand(9, 11), rand(9, 11), rand(9, 11)])
    yield record("plain sgd that cuts", sgd(0.01, 0, 0.5, 0.75), [rand(9, 11), rand(9, 11)])
    yield record("adamw", adam(torch.optim.AdamW), moments())
    yield record("adam", adam(torch.optim.Adam), moments())
    yield record("adamw that cuts", adam(torch.optim.AdamW, 0.5, 0.75), moments())
    yield record("ema", ema, [rand(9, 11), rand(9, 11), torch.tensor(3)])
    yield record("control clips a little", control, [rand(3, 5), rand(7), rand(1)])


import make_layout  # noqa: E402: it takes record and rand from here

FAMILIES = {"map": map_family, "matmul": matmul_family, "reduce": reduce_family,
            "shape": shape_family, "gather": gather_family, "xent": xent_family,
            "update": update_family, **make_layout.FAMILIES}


def main():
    for family in sys.argv[1:] or FAMILIES:
        torch.manual_seed(1)
        lines = [f"# made by tests/golden/make.py with PyTorch {torch.__version__}"]
        for lines_of_one in FAMILIES[family]():
            lines += lines_of_one
        (HERE / f"{family}.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
