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


FAMILIES = {"part": part_family}
