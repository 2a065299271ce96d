#!/usr/bin/env python3
"""Checks the limits of size: functions of at most 100 lines, 7 parameters and nesting
4, files of at most 1000 lines.

usage: check_sizes.py ROOT          report what is too large, exit 1 if anything is
       check_sizes.py --self-test   prove on made-up sources that it is found

An exception is a comment with its reason, '/* size: a table */', just before the
function, or in the file's first comments for the file's length.
"""

import os
import re
import sys

MAX_FUNCTION_LINES, MAX_PARAMETERS, MAX_NESTING, MAX_FILE_LINES = 100, 7, 4, 1000
FOLDERS = ("src", "include", "app", "bench", "examples", "tests")
SOURCES = (".c", ".h", ".cu", ".cuh")

TOKEN = re.compile(
    r"""(?P<comment>/\*.*?\*/|//[^\n]*)
      | (?P<directive>^[ \t]*\#(?:\\\n|/\*.*?\*/|[^\n])*)
      | (?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
      | (?P<word>[A-Za-z_]\w*)
      | (?P<mark>[{}()\[\];:,=])
      | (?P<other>[^\s])""",
    re.S | re.M | re.X,
)
EXCEPTION = re.compile(r"^(/\*|//)?[\s*]*size:\s*\w", re.M)
BRANCHES = {"if", "for", "while", "switch"}
NOT_A_NAME = {"__attribute__", "__launch_bounds__", "__declspec", "alignas", "_Alignas"}
OPEN, CLOSE = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}


class Token:
    __slots__ = ("kind", "text", "line", "note")

    def __init__(self, kind, text, line, note):
        self.kind, self.text, self.line, self.note = kind, text, line, note


def tokens_of(source):
    """Code tokens; each knows whether a size exception stands in the comments before it."""
    out, note, line, at = [], False, 1, 0
    for m in TOKEN.finditer(source):
        line += source.count("\n", at, m.start())
        at = m.start()
        kind = m.lastgroup
        if kind == "comment":
            note = note or bool(EXCEPTION.search(m.group()))
        elif kind == "directive":
            note = False
        else:
            out.append(Token(kind, m.group(), line, note))
            note = False
    return out


def closing(toks, i):
    """Index of the bracket that closes toks[i], or the last index when none does."""
    depth = 0
    for j in range(i, len(toks)):
        if toks[j].text in OPEN:
            depth += 1
        elif toks[j].text in CLOSE:
            depth -= 1
            if depth == 0:
                return j
    return len(toks) - 1


def functions(toks):
    """(first token, name, parameter list, body) as indices, for each definition."""
    start = i = 0
    while i < len(toks):
        t = toks[i].text
        if t == "{":
            end = closing(toks, i)
            if toks[start].text in ("extern", "namespace") and i - start <= 2:
                start = i = i + 1  # extern "C" {: what is inside is at top level
                continue
            params = parameters(toks, start, i)
            if params is not None:
                yield start, params[0], params[1], (i, end)
                start = end + 1
            i = end + 1
        elif t in (";", "}"):
            start = i = i + 1
        else:
            i += 1


def parameters(toks, start, brace):
    """(index of the name, number of parameters), or None when this is no function."""
    i = start
    while i < brace:
        t = toks[i].text
        if t == "=":
            return None
        if t == "(":
            end = closing(toks, i)
            name = toks[i - 1]
            if i > start and name.kind == "word" and name.text not in NOT_A_NAME:
                return i - 1, count_parameters(toks[i + 1 : end])
            i = end
        i += 1
    return None


def count_parameters(toks):
    words = [t.text for t in toks]
    if not words or words == ["void"]:
        return 0
    depth, n = 0, 1
    for w in words:
        depth += (w in OPEN) - (w in CLOSE)
        n += w == "," and depth == 0
    return n - (words[-3:] == [".", ".", "."])


class Nesting:
    """Walks the statements of a body; `deepest` is (depth, line) of the deepest one."""

    def __init__(self, toks, begin, end):
        self.toks, self.end, self.deepest = toks, end, (0, toks[begin].line)
        self.block(begin, 0)

    def text(self, i):
        return self.toks[i].text if i < self.end else ""

    def enter(self, i, depth):
        if i < self.end and depth > self.deepest[0]:
            self.deepest = (depth, self.toks[i].line)

    def block(self, i, depth):
        """toks[i] is '{'; returns the index after its '}'."""
        end = closing(self.toks, i)
        i += 1
        while i < end:
            i = self.statement(i, depth)
        return end + 1

    def body(self, i, depth):
        self.enter(i, depth)
        return self.block(i, depth) if self.text(i) == "{" else self.statement(i, depth)

    def statement(self, i, depth):
        """Returns the index after the statement at i, which lies at `depth`."""
        t = self.text(i)
        if t == "{":
            return self.body(i, depth + 1)
        if t in BRANCHES and self.text(i + 1) == "(":
            i = self.body(closing(self.toks, i + 1) + 1, depth + 1)
            if self.text(i) == "else" and t == "if":
                # "else if" is one more branch of the same choice, not a deeper one.
                chained = self.text(i + 1) == "if"
                return self.statement(i + 1, depth) if chained else self.body(i + 1, depth + 1)
            return i
        if t == "do":
            i = self.body(i + 1, depth + 1)
            return self.expression(i, depth)
        if t in ("case", "default"):
            while i < self.end and self.text(i) != ":":
                i += 1
            return i + 1
        if self.text(i + 1) == ":" and self.toks[i].kind == "word":
            return i + 2
        return self.expression(i, depth)

    def expression(self, i, depth):
        """Up to and with ';'. NAME(...) { is a loop made by a macro."""
        begin = i
        while i < self.end and self.text(i) != ";":
            if self.text(i) in OPEN:
                i = closing(self.toks, i)
                if begin + 1 < self.end and self.text(begin + 1) == "(" and \
                        closing(self.toks, begin + 1) == i and self.text(i + 1) == "{":
                    return self.body(i + 1, depth + 1)
            i += 1
        return i + 1


def check_source(path, source):
    errors = []
    toks = tokens_of(source)
    n_lines = source.count("\n")
    if n_lines > MAX_FILE_LINES and not (toks and file_is_excepted(source)):
        errors.append(f"{path}: {n_lines} lines, at most {MAX_FILE_LINES}")
    for start, name, n_params, (begin, end) in functions(toks):
        if toks[start].note:
            continue
        place = f"{path}:{toks[start].line}: {toks[name].text}()"
        n_lines = toks[end].line - toks[start].line + 1
        if n_lines > MAX_FUNCTION_LINES:
            errors.append(f"{place} has {n_lines} lines, at most {MAX_FUNCTION_LINES}")
        if n_params > MAX_PARAMETERS:
            errors.append(f"{place} has {n_params} parameters, at most {MAX_PARAMETERS}")
        depth, line = Nesting(toks, begin, end).deepest
        if depth > MAX_NESTING:
            errors.append(f"{place} nests {depth} deep at line {line}, at most {MAX_NESTING}")
    return errors


def file_is_excepted(source):
    """Does one of the comments before the first line of code give a reason?"""
    for m in TOKEN.finditer(source):
        if m.lastgroup != "comment":
            return False
        if EXCEPTION.search(m.group()):
            return True
    return False


def check(root):
    errors = []
    for folder in FOLDERS:
        for where, folders, names in os.walk(os.path.join(root, folder)):
            folders.sort()
            for name in sorted(names):
                if name.endswith(SOURCES):
                    path = os.path.join(where, name)
                    with open(path, encoding="utf-8") as f:
                        errors += check_source(os.path.relpath(path, root), f.read())
    return errors


def self_test():
    def lines(n):
        return "    x();\n" * n

    deep = "static int f(void)\n{\n    for (;;)\n        while (a)\n            if (b) {\n" \
           "                do {\n%s                } while (c);\n            }\n}\n"
    flat = "int f(int a)\n{\n    if (a) {\n    } else if (b) {\n    } else if (c) {\n" \
           "    } else if (d) {\n    } else if (e) {\n    } else {\n    }\n}\n"
    cases = [
        ("void f(void)\n{\n" + lines(97) + "}\n", None),
        ("void f(void)\n{\n" + lines(98) + "}\n", "f() has 101 lines"),
        ('#ifdef X\nextern "C" {\n#endif\nvoid f(void)\n{\n' + lines(98) + "}\n#ifdef X\n}\n#endif\n",
         ":4: f() has 101 lines"),
        ("/* size: a table */\nvoid f(void)\n{\n" + lines(98) + "}\n", None),
        ("/* size: */\nvoid f(void)\n{\n" + lines(98) + "}\n", "f() has 101 lines"),
        ("/* size: g's */\nint g;\nvoid f(void)\n{\n" + lines(98) + "}\n", "f() has 101 lines"),
        ("static const int t[] = {\n" + "    1,\n" * 200 + "};\n", None),
        ("void f(int a, int b, int c, int d, int e, int g, void (*h)(int, int))\n{\n}\n", None),
        ("void f(int a, int b, int c, int d, int e, int g, int h, int i)\n{\n}\n", "8 parameters"),
        ("__attribute__((noreturn)) void f(int a)\n{\n}\nint (*g)(int, int) = h;\n", None),
        ("__global__ void __launch_bounds__(1, 2) k(int a, int b, int c, int d, int e, int f, int g, int h)\n{\n}\n",
         "k() has 8 parameters"),
        (deep % "", None),
        (deep % "                    if (d)\n                        x();\n", "nests 5 deep at line 8"),
        (deep % "                    EACH(d) {\n                        x();\n                    }\n", "nests 5 deep"),
        (deep % "                    y = (t){ { { 1 } } };\n", None),
        (deep % '                    /* { if { */ puts("{{{"); c = \'{\';\n', None),
        (flat, None),
        ("int f(int a)\n{\n    switch (a) {\n    case 1: {\n        x();\n    }\n    default: y();\n    }\nend:\n    return 0;\n}\n", None),
        ("int x;\n" * 1000, None),
        ("int x;\n" * 1001, "1001 lines"),
        ("/*\n * A list.\n * size: generated\n */\n" + "int x;\n" * 1001, None),
        ("#define BIG(x) \\\n    do {        \\\n    } while (0)\nint x;\n", None),
    ]
    for source, want in cases:
        got = check_source("t.c", source)
        if (want is None and got) or (want and (len(got) != 1 or want not in got[0])):
            sys.exit(f"self-test: got {got}, expected {want!r} for:\n{source[:400]}")
    print(f"{len(cases)} cases as expected")


def main():
    if len(sys.argv) != 2:
        print(__doc__.strip(), file=sys.stderr)
        sys.exit(2)
    if sys.argv[1] == "--self-test":
        self_test()
        return
    errors = check(sys.argv[1])
    print("\n".join(errors) if errors else "every function and file is within its limits")
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
