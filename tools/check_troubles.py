#!/usr/bin/env python3
"""Fails when one of the troubles P1 to P44, which users of other trainers met, is named by no test.

A test names a trouble by its number in a comment ("Guards P16"). Troubles that need a GPU or a
recipe that is still to come stand in LATER, with the test that will guard them.

usage: check_troubles.py [FOLDER] | --self-test
"""
import pathlib
import re
import sys

COUNT = 44
LATER = {
    8: "tests/gpu/test_groups.c: a self-test of peer access between GPUs, with the fall-back; it "
       "needs two GPUs",
}


IN_C = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
IN_SCRIPT = re.compile(r'(?:^|(?<=\s))#[^\n]*|^"""[^"]*"""', re.MULTILINE)


def comments(text, suffix):
    """What a file says in comments; a P1 in its code or its strings is something else."""
    is_script = suffix in (".sh", ".py")
    found = (IN_SCRIPT if is_script else IN_C).findall(text)
    return "\n".join(c for c in found if is_script or not c.startswith('"'))


def named(texts):
    """The numbers that the texts name."""
    return {int(n) for text in texts for n in re.findall(r"\bP(\d{1,2})\b", text)}


def complaints(texts):
    found = named(texts)
    lines = [f"P{n} is named by no test" for n in range(1, COUNT + 1)
             if n not in found and n not in LATER]
    lines += [f"P{n} is named by a test now: take it out of LATER in tools/check_troubles.py"
              for n in sorted(LATER) if n in found]
    return lines


def read(folder):
    for path in sorted(pathlib.Path(folder, "tests").rglob("*")):
        if path.suffix in (".c", ".h", ".sh", ".py", ".cu"):
            yield comments(path.read_text(encoding="utf-8", errors="replace"), path.suffix)


def self_test():
    every = " ".join(f"P{n}" for n in range(1, COUNT + 1) if n not in LATER)
    assert complaints([every]) == []
    assert complaints([every.replace("P44", "")]) == ["P44 is named by no test"]
    assert complaints([every.replace("P4 ", "P40 ")]) == ["P4 is named by no test"]
    assert len(complaints([every, "P8"])) == 1
    source = 'x = P1; /* P2,\n P3 */ f("P4 // P5 \\" P6"); // P7\n"/*" P8 "*/" // "P9"\n'
    assert named([comments(source, ".c")]) == {2, 3, 7, 9}
    assert named([comments("x=P1 # P2\n#P3\n\"$P4#P5\"", ".sh")]) == {2, 3}


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    lines = complaints(read(sys.argv[1] if len(sys.argv) > 1 else "."))
    print("\n".join(lines))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
