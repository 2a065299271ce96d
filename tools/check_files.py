#!/usr/bin/env python3
"""Fails when a model's weights are among the tracked files: they are made by runs and by tests
that somebody started in the tree, and git keeps them for ever. Those that tests read on purpose
live in the folders of ALLOWED.

usage: check_files.py ROOT          report what does not belong, exit 1 if anything does not
       check_files.py --self-test   prove on made-up lists that it is found
"""

import os
import subprocess
import sys

WEIGHTS = (".safetensors", ".pt", ".pth", ".ckpt", ".onnx")
ALLOWED = ("tests/golden/", "tests/fuzz/seeds/")


def complaints(paths):
    return [f"{path}: weights of a model do not belong in git; 'git rm --cached' it, or keep it "
            f"in {' or '.join(ALLOWED)} if a test reads it"
            for path in paths if path.lower().endswith(WEIGHTS) and not path.startswith(ALLOWED)]


def tracked(root):
    """Paths relative to the root; None where there is no git, as in an unpacked archive."""
    # Another owner's checkout, as continuous integration often has it, may be read as well.
    command = ["git", "-c", f"safe.directory={os.path.abspath(root)}", "-C", root, "ls-files", "-z"]
    try:
        out = subprocess.run(command, check=True, capture_output=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return [p for p in out.decode("utf-8", "surrogateescape").split("\0") if p]


def self_test():
    good = ["README.md", "tests/golden/pt/list.pt", "tests/fuzz/seeds/pt/views.pt", "src/ckpt/pt.c"]
    assert complaints(good) == []
    for bad in ("jit.safetensors", "docs/a.pt", "runs/last.PTH", "tests/golden.pt", "tests/nn/x.ckpt"):
        got = complaints(good + [bad])
        assert len(got) == 1 and got[0].startswith(bad + ": "), (bad, got)


def main():
    if len(sys.argv) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    if sys.argv[1] == "--self-test":
        self_test()
        return 0
    paths = tracked(sys.argv[1])
    if paths is None:
        print("no git here: nothing is tracked")
        return 77
    lines = complaints(paths)
    print("\n".join(lines) if lines else f"no weights among {len(paths)} tracked files")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
