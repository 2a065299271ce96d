#!/usr/bin/env python3
"""The records of a run that was killed and resumed, beside those of an unbroken one: metrics.jsonl,
metrics.csv, TensorBoard's event files and, with --wandb, W&B's offline files hold every value exactly
once, in order, and the same numbers but for the speed. Formats are read by hand: no package is needed.

usage: records.py [--wandb] UNBROKEN KILLED
"""

import csv
import glob
import json
import os
import struct
import sys
import zlib

SPEED = {"samples_per_s", "data_share", "compute_share", "exchange_share"}


def die(text):
    sys.exit(f"records.py: {text}")


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    """Numbers and contents of a protobuf message's fields."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 1:
            value, at = data[at : at + 8], at + 8
        elif kind == 2:
            n, at = varint(data, at)
            value, at = data[at : at + n], at + n
        else:
            value, at = data[at : at + 4], at + 4
        yield tag >> 3, value


def one(data, number, default=None):
    return next((value for key, value in fields(data) if key == number), default)


def events(path):
    """The events of a file; a record that is cut or damaged is a failure."""
    data = open(path, "rb").read()
    at = 0
    while at < len(data):
        if at + 12 > len(data):
            die(f"{path}: a record is cut at byte {at} of {len(data)}")
        (n,) = struct.unpack_from("<Q", data, at)
        if at + 16 + n > len(data):
            die(f"{path}: a record is cut at byte {at} of {len(data)}")
        yield data[at + 12 : at + 12 + n]
        at += 16 + n


def board(run):
    """(step, tag, value or kind) of every event but those of starts, file after file."""
    files = {}
    for path in glob.glob(f"{run}/tensorboard/*"):
        records = list(events(path))
        files[struct.unpack("<d", one(records[0], 1))[0], path] = records
    found = []
    for key in sorted(files):
        for event in files[key]:
            summary = one(event, 5)
            for value in [v for k, v in fields(summary) if k == 1] if summary else []:
                tag = one(value, 1, b"").decode()
                kinds = {k: v for k, v in fields(value)}
                if 2 in kinds:
                    what = struct.unpack("<f", kinds[2])[0]
                elif 4 in kinds or 5 in kinds:
                    what = "picture" if 4 in kinds else "histogram"
                else:
                    continue  # settings and texts, which each start writes
                found.append((one(event, 2, 0), tag, None if tag in SPEED else what))
    return found


def lines(run):
    rows = [json.loads(line) for line in open(f"{run}/metrics.jsonl")]
    return [{k: v for k, v in row.items() if k not in SPEED} for row in rows]


def table(run):
    rows = list(csv.reader(open(f"{run}/metrics.csv")))
    return [{k: v for k, v in zip(rows[0], row) if k not in SPEED and v} for row in rows[1:]]


def wandb_rows(run):
    """(step, values) of the rows of all starts of a run that has one id throughout."""
    found = []
    for path in sorted(glob.glob(f"{run}/wandb/offline-run-*/run-*.wandb")):
        data, at, parts = open(path, "rb").read(), 7, b""
        while at + 7 <= len(data):
            if 32768 - at % 32768 < 7:
                at += 32768 - at % 32768
                continue
            crc, n, kind = struct.unpack_from("<IHB", data, at)
            part = data[at + 7 : at + 7 + n]
            if len(part) < n or zlib.crc32(part, zlib.crc32(bytes([kind]))) != crc:
                break  # a start that was killed; rows behind it are in none of the files
            parts, at = parts + part, at + 7 + n
            if kind in (1, 4):
                history, parts = one(parts, 2), b""
                if history:
                    items = {one(i, 2, b"").decode(): one(i, 16, b"").decode() for k, i in fields(history) if k == 1}
                    values = {k: v for k, v in items.items() if k[0] != "_" and k not in SPEED}
                    found.append((int(items["_step"]), sorted(values.items())))
    return found


def compare(what, want, got):
    if want == got:
        return
    for i, (a, b) in enumerate(zip(want, got)):
        if a != b:
            die(f"{what}: record {i} is {b}, in the unbroken run {a}; {len(got)} and {len(want)} records")
    die(f"{what}: {len(got)} records, {len(want)} in the unbroken run; the next is {(want + got)[min(len(want), len(got))]}")


def left_over(run):
    for folder, _, names in os.walk(run):
        for name in names:
            if name.endswith(".tmp") or name == ".probe":
                die(f"{folder}/{name} was left behind")


def main():
    words = [w for w in sys.argv[1:] if w != "--wandb"]
    whole, killed = words
    compare("metrics.jsonl", lines(whole), lines(killed))
    compare("metrics.csv", table(whole), table(killed))
    compare("TensorBoard", board(whole), board(killed))
    if "--wandb" in sys.argv:
        compare("W&B", wandb_rows(whole), wandb_rows(killed))
    left_over(killed)
    print(f"records.py: {len(lines(killed))} rows and {len(board(killed))} events, each once")


if __name__ == "__main__":
    main()
