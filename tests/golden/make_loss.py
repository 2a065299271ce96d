#!/usr/bin/env python3
"""Makes tests/golden/loss.txt, classes.txt and swiglu.txt. See make.py.

loss.txt has what tests/op/test_loss.c builds: compositions, whose gradients are those of the
whole. Where the library differs from PyTorch (0 instead of NaN) the difference is written out.
"""
import torch
import torch.nn.functional as F

from make import HERE, rand, randint, record


def jpeg_mse(a, b, mask=None, quality=75):
    table = torch.tensor([
        16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55,
        14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29, 51, 87, 80, 62,
        18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92,
        49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99], dtype=torch.float64)
    scale = 5000 / quality if quality < 50 else 200 - 2 * quality
    w = 1 / (table * scale / 100).round().clamp(1, 255)
    w = F.interpolate((w / w.max()).reshape(1, 1, 8, 8), a.shape[1:3], mode="nearest")[0, 0, :, :, None]
    y, cb, cr = (((a - b) * torch.tensor(row, dtype=torch.float64)).sum(-1) for row in (
        (.299, .587, .114), (-.168736, -.331264, .5), (.5, -.418688, -.081312)))
    m = torch.ones_like(y) if mask is None else mask[..., 0]
    return ((y ** 2 + .5 * cb ** 2 + .5 * cr ** 2) * w[..., 0] * m).sum() / m.sum().clamp(min=1)


def dice(z, y, s=1e-6):
    p = torch.sigmoid(z)
    over = list(range(z.dim() - 1))
    d = (2 * (p * y).sum(over) + s) / (p.sum(over) + y.sum(over) + s)
    return 1 - d.mean()


def entropy(z, w):
    lp = F.log_softmax(z, -1)
    e = w * (lp.exp() * lp).sum(-1)
    return -e.sum() / e.count_nonzero()


def focal(z, y, alpha=0.25, gamma=2.0):
    p = torch.sigmoid(z)
    bce = F.binary_cross_entropy_with_logits(z, y, reduction="none")
    loss = bce * (1 - (p * y + (1 - p) * (1 - y))) ** gamma
    return (loss * (alpha * y + (1 - alpha) * (1 - y))).mean() if alpha >= 0 else loss.mean()


def cross(reduction="mean", ignore=-100, smoothing=0.0):
    def run(x, y, weight=None):
        return F.cross_entropy(x.movedim(-1, 1), y, weight, reduction=reduction,
                               ignore_index=ignore, label_smoothing=smoothing)
    return run


def with_zeros(t, every):
    t.flatten()[::every] = 0
    return t


def losses():
    image = [rand(2, 5, 7, 21), randint(2, 5, 7, hi=20)]
    yield record("cross_entropy of images", cross(), image, grad=[0])
    yield record("cross_entropy, all options", cross(ignore=3, smoothing=0.1),
                 image + [rand(21, lo=0.1, hi=2)], grad=[0])
    yield record("cross_entropy, sum", cross("sum", ignore=3), image, grad=[0])
    yield record("cross_entropy, each", cross("none", ignore=3), image, grad=[0])
    yield record("cross_entropy of nothing", lambda x, y: (x * 0).sum(),
                 [rand(4, 5), torch.full((4,), -100)], grad=[0])
    target = torch.softmax(rand(3, 4, 72).double() * 3, -1).float()
    yield record("soft_cross_entropy", lambda x, t: F.cross_entropy(
        x.reshape(-1, 72), t.reshape(-1, 72)), [rand(3, 4, 72), target], grad=[0])
    distance = with_zeros(rand(2, 6, 7, lo=0, hi=1), 3)
    yield record("entropy_loss", entropy, [rand(2, 6, 7, 21), distance], grad=[0])
    sparse = with_zeros(rand(6, 9, lo=0.1, hi=1), 4)
    yield record("kl", lambda lp, t: F.kl_div(lp, t, reduction="none").sum(-1),
                 [rand(6, 9, lo=-4, hi=-1), sparse], grad=[0])
    yield record("bce", lambda z, y: F.binary_cross_entropy_with_logits(z, y),
                 [rand(3, 50, lo=-9, hi=9), rand(3, 50, lo=0, hi=1)], grad=[0])
    yield record("bce, weighted", lambda z, y, w: F.binary_cross_entropy_with_logits(
        z, y, pos_weight=w), [rand(3, 50), rand(3, 50, lo=0, hi=1), rand(50, lo=0.1, hi=4)],
        grad=[0])
    truth = randint(4, 33, hi=1).float()
    yield record("focal", focal, [rand(4, 33, lo=-5, hi=5), truth], grad=[0])
    yield record("focal, unweighted", lambda z, y: focal(z, y, -1, 1.5),
                 [rand(4, 33, lo=-5, hi=5), truth], grad=[0])
    yield record("dice", dice, [rand(2, 9, 8, 3), randint(2, 9, 8, 3, hi=1).float()], grad=[0])
    yield record("dice of one class", dice, [rand(2, 90, 1), randint(2, 90, 1, hi=1).float()],
                 grad=[0])
    pair = [rand(5, 41), rand(5, 41)]
    yield record("mse", F.mse_loss, pair, grad=[0, 1])
    yield record("l1", F.l1_loss, pair, grad=[0, 1])
    yield record("smooth_l1", lambda a, b: F.smooth_l1_loss(a, b, beta=0.5), pair, grad=[0, 1])
    yield record("huber", lambda a, b: F.huber_loss(a, b, delta=1.25), pair, grad=[0, 1])
    mask = randint(2, 6, 5, 1, hi=1).float()
    yield record("masked_mse", lambda a, b, m: (m * (a - b) ** 2).sum() / m.sum(),
                 [rand(2, 6, 5, 3), rand(2, 6, 5, 3), mask], grad=[0, 1])
    yield record("masked_mse of nothing", lambda a, b, m: (m * (a - b) ** 2).sum(),
                 [rand(2, 6, 5, 3), rand(2, 6, 5, 3), torch.zeros(2, 6, 5, 1)], grad=[0, 1])
    yield record("jpeg_mse", jpeg_mse, [rand(2, 16, 8, 3), rand(2, 16, 8, 3)], grad=[0, 1])
    yield record("jpeg_mse, stretched", lambda a, b: jpeg_mse(a, b, quality=30),
                 [rand(1, 11, 13, 3), rand(1, 11, 13, 3)], grad=[0, 1])
    mask = randint(2, 5, 21, 1, hi=1).float()
    yield record("jpeg_mse, masked", lambda a, b, m: jpeg_mse(a, b, m, 52),
                 [rand(2, 5, 21, 3), rand(2, 5, 21, 3), mask], grad=[0, 1])
    yield record("jpeg_mse of nothing", jpeg_mse,
                 [rand(1, 8, 8, 3), rand(1, 8, 8, 3), torch.zeros(1, 8, 8, 1)], grad=[0, 1])


def classes():
    yield record("one_hot", lambda y: F.one_hot(y, 5).to(torch.float32),
                 [randint(3, 7, hi=4)])
    yield record("confusion", lambda t, p: torch.bincount(t * 5 + p, minlength=25).reshape(5, 5),
                 [randint(300, hi=4), randint(300, hi=4, dtype=torch.int32)])


def swiglu():
    yield record("swiglu", lambda x: F.silu(x[..., :7]) * x[..., 7:], [rand(3, 5, 14)], grad=[0])


if __name__ == "__main__":
    for name, records in {"loss": losses, "classes": classes, "swiglu": swiglu}.items():
        torch.manual_seed(3)
        lines = [f"# made by tests/golden/make_loss.py with PyTorch {torch.__version__}"]
        for one in records():
            lines += one
        (HERE / f"{name}.txt").write_text("\n".join(lines) + "\n")
