#!/usr/bin/env python3
"""Makes tests/golden/conv.txt: convolutions as PyTorch computes them (see make.py).

    python3 tests/golden/make_conv.py

Sources and results are channels last, as the operators take them.
"""
import torch

import make
from make import rand, record


def channels_last(fn):
    return lambda x, w: fn(x.permute(0, 3, 1, 2), w).permute(0, 2, 3, 1).contiguous()


def conv(**opt):
    return channels_last(lambda x, w: torch.nn.functional.conv2d(x, w, **opt))


def transposed(**opt):
    return channels_last(lambda x, w: torch.nn.functional.conv_transpose2d(x, w, **opt))


def conv_family():
    cases = [
        ("plain", conv(), (2, 5, 6, 3), (4, 3, 3, 3)),
        ("padded", conv(padding=1), (2, 5, 4, 4), (3, 4, 3, 3)),
        ("stride 2", conv(stride=2, padding=1), (2, 7, 6, 4), (3, 4, 3, 3)),
        ("dilated", conv(padding=2, dilation=2), (1, 6, 7, 4), (3, 4, 3, 3)),
        ("axes differ", conv(stride=(2, 1), padding=(0, 2), dilation=(1, 3)), (2, 7, 8, 3),
         (5, 3, 2, 3)),
        ("groups", conv(padding=1, groups=2), (1, 4, 5, 4), (6, 2, 3, 3)),
        ("depthwise", conv(padding=1, groups=4), (1, 4, 5, 4), (4, 1, 3, 3)),
        ("depthwise, twice the channels", conv(stride=2, padding=1, groups=3), (1, 6, 6, 3),
         (6, 1, 3, 3)),
        ("1x1", conv(), (2, 4, 5, 7), (6, 7, 1, 1)),
        ("1x1 stride 2", conv(stride=2), (2, 4, 5, 7), (6, 7, 1, 1)),
        ("stem 7x7", conv(stride=2, padding=3), (1, 9, 11, 3), (4, 3, 7, 7)),
        ("patches", conv(stride=4), (1, 8, 12, 3), (5, 3, 4, 4)),
        ("transposed", transposed(), (2, 4, 5, 3), (3, 4, 3, 3)),
        ("transposed 2x2 stride 2", transposed(stride=2), (2, 4, 5, 6), (6, 4, 2, 2)),
        ("transposed, out_pad", transposed(stride=2, padding=1, output_padding=1), (1, 4, 3, 6),
         (6, 2, 3, 3)),
        ("transposed groups", transposed(stride=2, padding=1, groups=2), (1, 4, 5, 6),
         (6, 2, 4, 4)),
        ("transposed, out_pad below the dilation",
         transposed(dilation=2, padding=1, output_padding=1), (1, 4, 3, 6), (6, 2, 3, 3)),
        ("transposed, out_pad and no padding", transposed(stride=2, dilation=4, output_padding=3),
         (1, 2, 3, 6), (6, 2, 3, 2)),
        ("transposed, out_pad beyond the padding",
         transposed(stride=(1, 2), dilation=4, padding=1, output_padding=3), (2, 4, 3, 4),
         (4, 3, 3, 2)),
        ("transposed, out_pad of groups",
         transposed(stride=2, dilation=5, padding=3, output_padding=4, groups=2), (1, 4, 5, 6),
         (6, 2, 3, 3)),
        ("transposed, out_pad of one axis",
         transposed(dilation=2, padding=(0, 3), output_padding=(0, 1)), (1, 4, 5, 6), (6, 2, 3, 3)),
        ("transposed, out_pad behind nothing",
         transposed(dilation=10, padding=(2, 1), output_padding=9), (1, 1, 3, 4), (4, 3, 1, 1)),
    ]
    for name, fn, x, w in cases:
        yield record(name, fn, [rand(*x), rand(*w)], grad=[0, 1])


if __name__ == "__main__":
    make.FAMILIES = {"conv": conv_family}
    make.main()
