#!/usr/bin/env python3
"""Writes tests/golden/images/: small JPEG and PNG files of every kind, and images.txt with the
pixels that Pillow makes of them, as checksums. tests/data/test_image.c decodes and compares.

usage: make_images.py        (needs Pillow and numpy)

A line of images.txt: file, how (stored gray rgb labels), least height and width that are asked
for (0: all), then height, width, channels and CRC-32C of the pixels. Kinds that Pillow cannot write
(16-bit RGB, interlaced) are packed by hand here.
"""

import io
import os
import struct
import sys
import zlib

import numpy as np
from PIL import Image

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "images")
lines = []


def picture(h, w, c, seed=0):
    """Smooth waves with an edge and a little noise: something that a codec has work with."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:h, 0:w]
    out = np.zeros((h, w, c))
    for k in range(c):
        out[..., k] = 127 + 90 * np.sin(x / (5 + k)) * np.cos(y / (7 - k))
        out[(y - h / 2) ** 2 + (x - w / 2) ** 2 < (h / 4) ** 2, k] = 40 + 80 * k
    return np.clip(out + rng.normal(0, 6, out.shape), 0, 255).astype(np.uint8)


TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)


def crc32c(data):
    crc = 0xFFFFFFFF
    for b in data:
        crc = crc >> 8 ^ TABLE[(crc ^ b) & 255]
    return crc ^ 0xFFFFFFFF


def note(name, how, image, least=(0, 0)):
    a = np.asarray(image)
    a = a.astype(np.uint8)
    h, w = a.shape[:2]
    c = a.shape[2] if a.ndim == 3 else 1
    lines.append(f"{name} {how} {least[0]} {least[1]} {h} {w} {c} {crc32c(a.tobytes()):08x}")


def put(name, data):
    with open(os.path.join(OUT, name), "wb") as f:
        f.write(data)
    return Image.open(io.BytesIO(data))


def jpeg(name, array, mode=None, **options):
    f = io.BytesIO()
    image = Image.fromarray(array if array.shape[2] != 1 else array[..., 0])
    if mode:
        image = image.convert(mode)
    image.save(f, "JPEG", **options)
    image = put(name, f.getvalue())
    note(name, "stored", image.convert("RGB") if image.mode == "CMYK" else image)
    note(name, "rgb", image.convert("RGB"))
    note(name, "gray", image.convert("RGB").convert("L") if image.mode == "CMYK" else
         image.convert("L"))
    for least in ((20, 24), (10, 12), (5, 6)):
        small = Image.open(io.BytesIO(f.getvalue()))
        small.draft(None, (least[1], least[0]))
        if small.mode != "CMYK":
            note(name, "rgb", small.convert("RGB"), least)


def jpegs():
    rgb = picture(41, 53, 3)
    for kind, sampling in (("444", 0), ("422", 1), ("420", 2)):
        jpeg(f"rgb_{kind}.jpg", rgb, quality=80, subsampling=sampling)
    jpeg("progressive.jpg", rgb, quality=85, progressive=True)
    jpeg("gray.jpg", picture(40, 48, 1), quality=85)
    jpeg("cmyk.jpg", picture(41, 53, 3, 5), mode="CMYK", quality=85)
    jpeg("restarts.jpg", rgb, quality=70, restart_marker_blocks=2)
    jpeg("as_rgb.jpg", rgb, quality=85, keep_rgb=True)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def pack_png(array, depth, colour, interlaced=False):
    """array: [h, w, c] of samples; 16 bits big-endian or 8 bits."""
    h, w = array.shape[:2]
    samples = array.astype(">u2" if depth == 16 else "u1")
    passes = [(0, 0, 1, 1)]
    if interlaced:
        passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2),
                  (0, 1, 2, 2), (1, 0, 2, 1)]
    raw = b""
    for y0, x0, dy, dx in passes:
        part = samples[y0::dy, x0::dx]
        if part.size:
            raw += b"".join(b"\0" + row.tobytes() for row in part)
    head = struct.pack(">IIBBBBB", w, h, depth, colour, 0, 0, int(interlaced))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(raw, 9)) +
            chunk(b"IEND", b""))


def png(name, image, labels=None, **options):
    f = io.BytesIO()
    image.save(f, "PNG", **options)
    image = put(name, f.getvalue())
    stored = image
    if image.mode == "P":
        stored = image.convert("RGBA" if "transparency" in image.info else "RGB")
    elif image.mode == "1":
        stored = image.convert("L")
    note(name, "stored", stored)
    note(name, "rgb", image.convert("RGB"))
    note(name, "gray", image.convert("L"))
    if labels is not None:
        note(name, "labels", labels)


def pngs():
    rgb = picture(23, 31, 3, 1)
    alpha = picture(23, 31, 4, 2)
    png("rgb.png", Image.fromarray(rgb))
    png("rgba.png", Image.fromarray(alpha))
    png("gray.png", Image.fromarray(rgb[..., 0]), rgb[..., 0])
    png("gray_alpha.png", Image.fromarray(alpha[..., :2], "LA"), alpha[..., 0])
    for bits in (1, 2, 4, 8):
        labels = picture(19, 21, 1, bits)[..., 0] >> (8 - bits)
        image = Image.fromarray(labels, "P")
        colours = np.random.default_rng(bits).integers(0, 256, (2 ** bits, 3), np.uint8)
        image.putpalette(colours.tobytes())
        png(f"palette_{bits}.png", image, labels, bits=bits)
        if bits == 4:
            png("palette_clear.png", image, labels, bits=bits, transparency=bytes(range(16)))
    ones = picture(19, 21, 1, 9)[..., 0] > 127
    png("gray_1.png", Image.fromarray(ones), ones)
    for depth in (2, 4):
        values = (picture(19, 21, 1, 10 + depth)[..., 0] >> (8 - depth)).astype(np.uint8)
        packed = np.zeros((19, -(-21 * depth // 8), 1), np.uint8)
        for x in range(21):
            packed[:, x * depth // 8, 0] |= values[:, x] << (8 - depth - x * depth % 8)
        name = f"gray_{depth}.png"
        data = pack_png(packed, 8, 0)
        head = struct.pack(">IIBBBBB", 21, 19, depth, 0, 0, 0, 0)
        put(name, data[:8] + chunk(b"IHDR", head) + data[33:])
        note(name, "stored", values * (255 // (2 ** depth - 1)))
        note(name, "labels", values)
    wide = picture(11, 13, 3, 3).astype(np.uint16) * 256 + picture(11, 13, 3, 4)
    image = put("rgb_16.png", pack_png(wide, 16, 2))
    note("rgb_16.png", "stored", image)
    note("rgb_16.png", "gray", image.convert("L"))
    put("gray_16.png", pack_png(wide[..., :1], 16, 0))
    note("gray_16.png", "stored", wide[..., 0] >> 8)
    note("gray_16.png", "rgb", np.repeat(wide[..., :1] >> 8, 3, 2))
    put("labels_16.png", pack_png(wide[..., :1] >> 8, 16, 0))
    note("labels_16.png", "labels", wide[..., 0] >> 8)
    image = put("interlaced.png", pack_png(rgb, 8, 2, True))
    note("interlaced.png", "stored", image)
    image = put("gray_as_rgb.png", pack_png(np.repeat(rgb[..., :1], 3, 2), 8, 2))
    note("gray_as_rgb.png", "labels", rgb[..., 0])


def main():
    os.makedirs(OUT, exist_ok=True)
    jpegs()
    pngs()
    with open(os.path.join(OUT, "images.txt"), "w", encoding="ascii") as f:
        f.write("\n".join(lines) + "\n")
    print(f"{len(lines)} lines", file=sys.stderr)


if __name__ == "__main__":
    main()
