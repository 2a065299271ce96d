#!/usr/bin/env python3
"""Makes tests/golden/augment.txt: what Pillow and torchvision make of a drawn image.

    python3 tests/golden/make_augment.py

A line is a name, height, width, channels, and the pixels in hexadecimal. The input is the
same formula in tests/data/augmented.c. Pillow 13 resizes columns first when the height
shrinks much more than the width, which can move a value by one; no size here is such a one.
"""
import pathlib

import numpy as np
import torch
from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as F

OUT = pathlib.Path(__file__).resolve().parent / "augment.txt"
H, W = 23, 31


def drawn(channels):
    px = np.zeros((H, W, channels), np.uint8)
    for y in range(H):
        for x in range(W):
            for c in range(channels):
                px[y, x, c] = (x * x * 3 + y * 11 + c * 70 + (x * y * 5) % 97 * 2) % 256
    return px


def pil(channels):
    px = drawn(channels)
    return Image.fromarray(px if channels > 1 else px[:, :, 0])


def cases():
    for channels in (1, 3):
        img = pil(channels)
        for h, w in ((23, 31), (46, 62), (37, 31), (23, 50), (11, 15), (60, 9), (3, 4)):
            yield f"resize_{channels}_{h}x{w}", img.resize((w, h), Image.BILINEAR)
            yield f"nearest_{channels}_{h}x{w}", img.resize((w, h), Image.NEAREST)
        for angle in (10, -7.5, 90.5, 171):
            fill = 40 if channels == 1 else (10, 20, 30)
            yield f"rotate_{channels}_{angle}", img.rotate(angle, Image.BILINEAR, fillcolor=fill)
            white = 255 if channels == 1 else (255, 255, 255)
            yield f"turn_{channels}_{angle}", img.rotate(angle, Image.NEAREST, fillcolor=white)
        tensor = torch.from_numpy(drawn(channels)).permute(2, 0, 1)
        yield f"blur_{channels}_5", F.gaussian_blur(tensor, [5, 5], [1.1, 1.1])
        yield f"blur_{channels}_9", F.gaussian_blur(tensor, [9, 9], [0.7, 0.7])
        for v in (0.6, 1.7):
            yield f"brightness_{channels}_{v}", F.adjust_brightness(tensor, v)
            yield f"contrast_{channels}_{v}", F.adjust_contrast(tensor, v)
            yield f"saturation_{channels}_{v}", F.adjust_saturation(tensor, v)
        for v in (-0.3, 0.1):
            if channels == 3:
                yield f"hue_{channels}_{v}", F.adjust_hue(tensor, v)
        yield f"shorter_{channels}_12", F.resize(img, 12, InterpolationMode.BILINEAR)
        yield f"middle_{channels}_10x40", F.center_crop(img, [10, 40])
        yield f"middle_{channels}_14x14", F.center_crop(img, [14, 14])


with open(OUT, "w", encoding="utf-8") as f:
    for name, img in cases():
        if isinstance(img, torch.Tensor):
            img = img.permute(1, 2, 0).numpy()
        px = np.ascontiguousarray(np.asarray(img))
        channels = px.shape[2] if px.ndim == 3 else 1
        f.write(f"{name} {px.shape[0]} {px.shape[1]} {channels} {px.tobytes().hex()}\n")
