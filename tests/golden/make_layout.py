"""Golden data of the operators that move elements: concat, slice, pad, pooling, resizing,
indexing. Part of make.py, which runs it."""
import sys

import torch
import torch.nn.functional as F

# make.py is the main program, or a module when it is imported.
_make = sys.modules.get("make") or sys.modules["__main__"]
rand, randint, record = _make.rand, _make.randint, _make.record


def part_family():
    yield record("concat of channels", lambda a, b: torch.cat([a, b], -1),
                 [rand(2, 3, 5), rand(2, 3, 7)], grad=[0, 1])
    yield record("concat of tokens", lambda a, b, c: torch.cat([a, b, c], 1),
                 [rand(2, 3, 4), rand(2, 1, 4), rand(2, 2, 4)], grad=[0, 1, 2])
    yield record("concat of rows", lambda a, b: torch.cat([a, b], 0), [rand(3, 4), rand(2, 4)],
                 grad=[0, 1])
    yield record("split in halves", lambda a: tuple(a.chunk(2, -1)), [rand(3, 8)], grad=[0])
    yield record("slice", lambda a: a[:, 2:5], [rand(3, 7)], grad=[0])
    yield record("slice with steps", lambda a: a[1::2, 0:-1:3], [rand(6, 9)], grad=[0])
    yield record("slice of four dimensions", lambda a: a[:, 1:-1, 2:7:2], [rand(2, 5, 8, 3)],
                 grad=[0])
    yield record("pad", lambda a: F.pad(a, [0, 2, 1, 0]), [rand(3, 4)], grad=[0])
    yield record("pad images", lambda a: F.pad(a, [0, 0, 2, 1, 1, 2], value=-1.5),
                 [rand(2, 3, 4, 5)], grad=[0])
    yield record("flip rows", lambda a: a.flip(0), [rand(3, 4)], grad=[0])
    yield record("flip both", lambda a: a.flip(1, 2), [rand(3, 5, 7)], grad=[0])


def nhwc(fn):
    """fn on NCHW, as a function on NHWC."""
    def run(x):
        y = fn(x.permute(0, 3, 1, 2))
        return y.permute(0, 2, 3, 1) if torch.is_tensor(y) else tuple(
            t.permute(0, 2, 3, 1) for t in y)
    return run


def pool_family():
    def pool(kernel, stride, padding, dilation=1, ceil_mode=False):
        def run(x):
            y, place = F.max_pool2d(x, kernel, stride, padding, dilation, ceil_mode,
                                    return_indices=True)
            # PyTorch's place is one in the image; ours is one in the window.
            kernel2, stride2, pad2, dil2 = (
                torch.nn.modules.utils._pair(v) for v in (kernel, stride, padding, dilation))
            row = torch.arange(y.shape[2])[:, None] * stride2[0] - pad2[0]
            col = torch.arange(y.shape[3])[None, :] * stride2[1] - pad2[1]
            which = ((place // x.shape[3] - row) // dil2[0] * kernel2[1] +
                     (place % x.shape[3] - col) // dil2[1])
            return y, which.to(torch.uint8)
        return nhwc(run)

    yield record("max pool", pool(2, 2, 0), [rand(2, 6, 4, 5)], grad=[0])
    yield record("max pool of 3 by 2", pool(3, 2, 1), [rand(2, 9, 8, 3)], grad=[0])
    yield record("max pool, ceiling", pool(3, 2, 1, ceil_mode=True), [rand(1, 8, 10, 2)], grad=[0])
    yield record("max pool, oblong", pool((2, 3), (1, 2), (1, 0)), [rand(2, 5, 7, 1)], grad=[0])
    yield record("max pool, dilated", pool((3, 2), (1, 2), 1, 2), [rand(1, 7, 9, 2)], grad=[0])
    yield record("max pool, ceiling over the edge", pool((5, 3), (3, 2), 1, ceil_mode=True),
                 [rand(2, 2, 1, 3)], grad=[0])


def resample_family():
    def avg(*args, **more):
        return nhwc(lambda x: F.avg_pool2d(x, *args, **more))

    def adaptive(h, w):
        return nhwc(lambda x: F.adaptive_avg_pool2d(x, (h, w)))

    def resize(h, w, mode, **more):
        return nhwc(lambda x: F.interpolate(x, (h, w), mode=mode, **more))

    yield record("avg pool", avg(2), [rand(2, 6, 4, 5)], grad=[0])
    yield record("avg pool of 3 by 2", avg(3, 2, 1), [rand(2, 9, 8, 3)], grad=[0])
    yield record("avg pool, ceiling", avg(3, 2, 1, ceil_mode=True), [rand(1, 8, 10, 2)], grad=[0])
    yield record("avg pool, padding not counted", avg(3, 2, 1, count_include_pad=False),
                 [rand(2, 9, 8, 3)], grad=[0])
    yield record("avg pool, not counted, ceiling",
                 avg((3, 2), (2, 3), 1, ceil_mode=True, count_include_pad=False),
                 [rand(1, 8, 9, 2)], grad=[0])
    yield record("adaptive pool", adaptive(3, 2), [rand(2, 7, 5, 3)], grad=[0])
    yield record("adaptive pool to one", adaptive(1, 1), [rand(2, 7, 5, 3)], grad=[0])
    yield record("adaptive pool up", adaptive(7, 9), [rand(1, 5, 4, 2)], grad=[0])
    yield record("nearest", resize(7, 9, "nearest"), [rand(2, 5, 4, 3)], grad=[0])
    yield record("nearest by two", resize(10, 8, "nearest"), [rand(1, 5, 4, 3)], grad=[0])
    yield record("nearest, same size", resize(5, 4, "nearest"), [rand(1, 5, 4, 3)], grad=[0])
    yield record("nearest, down", resize(3, 2, "nearest"), [rand(1, 8, 7, 2)], grad=[0])
    yield record("nearest exact", resize(7, 9, "nearest-exact"), [rand(1, 5, 4, 3)], grad=[0])
    yield record("nearest exact, down", resize(3, 2, "nearest-exact"), [rand(1, 8, 7, 2)],
                 grad=[0])
    for name, mode in (("bilinear", "bilinear"), ("bicubic", "bicubic")):
        for which, corners in (("", False), (" of corners", True)):
            up, down = [rand(2 if mode == "bilinear" else 1, 5, 4, 3)], [rand(1, 8, 7, 2)]
            yield record(name + which, resize(7, 9, mode, align_corners=corners), up, grad=[0])
            if not (mode == "bicubic" and corners):
                yield record(name + which + ", down", resize(3, 2, mode, align_corners=corners),
                             down, grad=[0])
    yield record("avg pool, ceiling over the edge", avg((5, 3), (3, 2), (1, 0), ceil_mode=True),
                 [rand(2, 2, 2, 3)], grad=[0])
    # (i + 0.5) 6 / 23 is whole for i = 11, and below it in f32.
    yield record("nearest exact, at a border", resize(23, 3, "nearest-exact"),
                 [rand(1, 6, 10, 2)], grad=[0])
    yield record("bilinear of corners to one", resize(1, 1, "bilinear", align_corners=True),
                 [rand(1, 8, 7, 2)], grad=[0])


def index_family():
    def taken(axis):
        return lambda x, i: torch.gather(x, axis, i.long())

    def top(k, largest):
        def run(x):
            y, place = torch.topk(x, k, largest=largest)
            return y, place.to(torch.int32)
        return run

    def nearest(x):
        d = (x[:, :, None] - x[:, None]).square().sum(-1)
        d.diagonal(dim1=1, dim2=2).fill_(float("inf"))
        y, place = torch.topk(d, 3, largest=False)
        return place.to(torch.int32), y

    yield record("index select", lambda x, i: x.index_select(1, i),
                 [rand(3, 5, 4), randint(7, hi=4, dtype=torch.int32)], grad=[0])
    yield record("index select of the last", lambda x, i: x.index_select(1, i),
                 [rand(3, 5), randint(3, hi=4)], grad=[0])
    yield record("take along the last", taken(1), [rand(3, 5), randint(3, 7, hi=4)], grad=[0])
    yield record("take along the first", taken(0),
                 [rand(4, 3, 2), randint(6, 3, 2, hi=3, dtype=torch.int32)], grad=[0])
    yield record("four greatest", top(4, True), [rand(3, 4, 9)], grad=[0])
    yield record("four smallest", top(4, False), [rand(3, 9)], grad=[0])
    yield record("neighbours", nearest, [rand(2, 11, 3)])
    yield record("cross", lambda a, b: torch.linalg.cross(a, b), [rand(5, 3), rand(5, 3)],
                 grad=[0, 1])


FAMILIES = {"part": part_family, "index": index_family, "pool": pool_family, "resample": resample_family}
