#!/usr/bin/env python3
"""bench/loader.c and PyTorch's DataLoader in turns, on the same files and cores.

    python3 bench/loader_torch.py [--rounds 3] [--samples 96] [BINARY]

Makes 32 JPEGs of 500 x 375 and their masks in a temporary folder. PyTorch's side is what its
users write: PIL and torchvision in worker processes, as many as cores, scale, rotate, blur, flip,
crop 465 x 465, normalise. Printed: samples/s of both, the best of the rounds, and their ratio.
"""
import argparse
import os
import pathlib
import random
import re
import subprocess
import tempfile
import time

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as F

SIDE, BATCH, N_FILES = 465, 8, 32
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
FILL = [124, 116, 104]


def draw(folder):
    """Soft shapes with some noise: files of about 80 kB, as photographs of that size are."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[0:375, 0:500]
    for k in range(N_FILES):
        img = np.zeros((375, 500, 3))
        mask = np.zeros((375, 500), np.uint8)
        for c in range(3):
            img[:, :, c] = 120 + 60 * np.sin(x / rng.uniform(15, 90) + c) * np.cos(
                y / rng.uniform(15, 90))
        for label in range(1, 5):
            cy, cx, r = rng.uniform(50, 320), rng.uniform(50, 450), rng.uniform(20, 90)
            inside = (y - cy) ** 2 + (x - cx) ** 2 < r * r
            img[inside] = rng.uniform(0, 255, 3)
            mask[inside] = label
        img += rng.normal(0, 9, img.shape)
        Image.fromarray(img.clip(0, 255).astype(np.uint8)).save(folder / f"{k:02}.jpg", quality=90)
        Image.fromarray(mask).save(folder / f"{k:02}_mask.png")


class Scenes(Dataset):
    def __init__(self, folder, n):
        self.files = sorted(folder.glob("*.jpg"))
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        path = self.files[i % len(self.files)]
        img = Image.open(path).convert("RGB")
        mask = Image.open(path.with_name(path.stem + "_mask.png"))
        factor = random.uniform(0.5, 2)
        size = [round(img.height * factor), round(img.width * factor)]
        img = F.resize(img, size, InterpolationMode.BILINEAR)
        mask = F.resize(mask, size, InterpolationMode.NEAREST)
        if random.random() < 0.5:
            angle = random.uniform(-10, 10)
            img = F.rotate(img, angle, InterpolationMode.BILINEAR, fill=FILL)
            mask = F.rotate(mask, angle, InterpolationMode.NEAREST, fill=[255])
        if random.random() < 0.5:
            img = F.gaussian_blur(img, [5, 5], [1.1, 1.1])
        if random.random() < 0.5:
            img, mask = F.hflip(img), F.hflip(mask)
        pad_w, pad_h = max(0, SIDE - img.width), max(0, SIDE - img.height)
        if pad_w or pad_h:
            pad = [pad_w // 2, pad_h // 2, pad_w - pad_w // 2, pad_h - pad_h // 2]
            img, mask = F.pad(img, pad, tuple(FILL)), F.pad(mask, pad, 255)
        y, x = random.randint(0, img.height - SIDE), random.randint(0, img.width - SIDE)
        img, mask = F.crop(img, y, x, SIDE, SIDE), F.crop(mask, y, x, SIDE, SIDE)
        img = F.normalize(F.to_tensor(img), MEAN, STD)
        return img, torch.from_numpy(np.array(mask)).long()


def torch_rate(folder, n_samples, n_workers):
    loader = DataLoader(Scenes(folder, n_samples + 4 * BATCH), batch_size=BATCH, shuffle=True,
                        num_workers=n_workers, drop_last=True)
    n, began = -4, 0.0
    for _ in loader:
        n += 1
        if n == 0:
            began = time.perf_counter()
    return n * BATCH / (time.perf_counter() - began)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--samples", type=int, default=96)
    p.add_argument("binary", nargs="?", default="build/release/bench/loader")
    a = p.parse_args()
    n_workers = len(os.sched_getaffinity(0))
    torch.set_num_threads(1)
    best = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        draw(folder)
        for _ in range(a.rounds):
            out = subprocess.run([a.binary, "--data", name, "--rounds", "2", "--samples",
                                  str(a.samples)], check=True, capture_output=True, text=True)
            text = out.stdout.replace("sample, alone", "sample\nalone_cpu")
            for key, value in re.findall(r"^(\w+) ([0-9.]+)", text, re.M):
                pick = min if key in ("alone", "cpu", "alone_cpu") else max
                best[key] = pick(best.get(key, float(value)), float(value))
            rate = torch_rate(folder, a.samples, n_workers)
            best["torch"] = max(best.get("torch", 0.0), rate)
    print(f"torch {torch.__version__}, {n_workers} cores")
    print(f"alone {best['alone']:.3f} ms a sample; processor time: alone "
          f"{best['alone_cpu']:.3f} ms, loader {best['cpu']:.3f} ms")
    print(f"loader {best['loader']:.1f} samples/s, {best['share']:.3f} of cores / alone")
    print(f"DataLoader {best['torch']:.1f} samples/s, gradus / PyTorch "
          f"{best['loader'] / best['torch']:.2f}")


if __name__ == "__main__":
    main()
