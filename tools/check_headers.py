#!/usr/bin/env python3
"""Checks that every header stands alone: it compiles as the only content of a file, in
C and in C++ (nvcc reads headers as C++), and may be included twice. Checks, too, that every
function of a public header has a comment: before it, or before the group of lines it is in;
and that gradus/gradus.h includes every other public header, as it says.

usage: check_headers.py [--cc CC] [--cxx CXX] ROOT
       check_headers.py [--cc CC] [--cxx CXX] --self-test

Left out: *.cuh; *_body.h, which is code that several files include after definitions of
their own; and headers that include, themselves or through others of ours, a library which
is not installed here, because they belong to the CUDA module or to a kernel that this
machine does not build.
"""

import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

FLAGS = ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Wundef", "-Wshadow", "-Werror",
         "-D_GNU_SOURCE", "-DGR_HAVE_ONEDNN=0", "-DGR_HAVE_NCCL=0",
         "-DGR_HAVE_CUDNN=1"]
# What only the CUDA module and single kernels include; absent on many machines.
OPTIONAL = re.compile(r'^\s*#\s*include\s*[<"]((?:cuda|cudnn|cublas|nccl|nvrtc|nvml|dnnl|oneapi/|mpi\.h)[^">]*)', re.M)

OWN = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


def optional_needs(root, path, seen):
    """The optional libraries' headers that `path` includes, through our own ones too."""
    seen.add(path)
    with open(path, encoding="utf-8") as f:
        text = f.read()
    needs = OPTIONAL.findall(text)
    for name in OWN.findall(text):
        for folder in ("include", "src"):
            other = os.path.join(root, folder, name)
            if os.path.exists(other) and other not in seen:
                needs += optional_needs(root, other, seen)
    return needs


def headers(root):
    for folder in ("include", "src"):
        base = os.path.join(root, folder)
        for where, folders, names in os.walk(base):
            folders.sort()
            for name in sorted(names):
                if name.endswith(".h") and not name.endswith("_body.h"):
                    yield os.path.relpath(os.path.join(where, name), base), os.path.join(where, name)


def undocumented(root):
    """One line for each GR_API function in a group of lines that has no comment up to it."""
    base = os.path.join(root, "include")
    errors = []
    for where, _, names in sorted(os.walk(base)):
        for name in sorted(names):
            path = os.path.join(where, name)
            with open(path, encoding="utf-8") as f:
                lines = f.read().split("\n")
            said = False
            for number, line in enumerate(lines, 1):
                said = bool(line.strip()) and (said or "*/" in line)
                if line.startswith("GR_API") and not said:
                    errors.append(f"{path}:{number}: no comment says what this is: {line}")
    return errors


def left_out(root):
    """One line for each public header that the one for everything does not include."""
    base = os.path.join(root, "include")
    whole = os.path.join(base, "gradus/gradus.h")
    if not os.path.exists(whole):
        return []
    with open(whole, encoding="utf-8") as f:
        included = set(OWN.findall(f.read()))
    names = {f"gradus/{n}" for n in os.listdir(os.path.dirname(whole)) if n.endswith(".h")}
    return [f"{whole}: does not include {n}" for n in sorted(names - included - {"gradus/gradus.h"})]


def compile_one(root, compiler, language, text):
    command = [compiler, "-x", language, f"-std={'c17' if language == 'c' else 'c++17'}", *FLAGS,
               "-I", os.path.join(root, "include"), "-I", os.path.join(root, "src"), "-"]
    done = subprocess.run(command, input=text, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    return done.stdout if done.returncode else ""


def check_header(root, compilers, name, path):
    needs = optional_needs(root, path, set())
    errors = []
    for language, compiler in compilers:
        if any(compile_one(root, compiler, language, f"#include <{n}>\n") for n in needs):
            continue
        out = compile_one(root, compiler, language, f'#include "{name}"\n#include "{name}"\n')
        if out:
            errors.append(f"{path} does not stand alone as {language}:\n{out.rstrip()}")
    return errors


def check(root, compilers):
    todo = list(headers(root))
    errors = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(lambda h: check_header(root, compilers, *h), todo):
            errors += found
    return errors, len(todo)


def self_test(compilers):
    guarded = "#ifndef A_H\n#define A_H\n%s\n#endif\n"
    cases = [
        (guarded % "int f(void);", []),
        (guarded % "size_t f(void);", ["c", "c++"]),
        (guarded % "static inline int *f(void *p) { return p; }", ["c++"]),
        (guarded % "_Static_assert(1, \"\");", ["c++"]),
        (guarded % "#include <cuda_is_not_here.h>", []),
        ("struct a { int x; };\n", ["c", "c++"]),
    ]
    for text, want in cases:
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "include"))
            os.makedirs(os.path.join(root, "src/base"))
            with open(os.path.join(root, "src/base/a.h"), "w", encoding="utf-8") as f:
                f.write(text)
            got, _ = check(root, compilers)
        named = [re.search(r"alone as (\S+):", e).group(1) for e in got]
        if named != want:
            sys.exit(f"self-test: got {got}, expected {want} for:\n{text}")
    n_others = self_test_comments() + self_test_whole()
    print(f"{len(cases) + n_others} cases as expected")


def self_test_comments():
    cases = [
        ("GR_API int f(void);\n", 1),
        ("/* It. */\nGR_API int f(void);\n", 0),
        ("GR_API int f(void); /* It. */\n", 0),
        ("/* Both. */\n#define g() f()\nGR_API int f(\n    void);\nGR_API int h(void);\n", 0),
        ("/* A section. */\n\nGR_API int f(void);\n", 1),
        ("/* It. */\nGR_API int f(void);\n\nGR_API int h(void);\n", 1),
    ]
    for text, want in cases:
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "include/gradus"))
            with open(os.path.join(root, "include/gradus/a.h"), "w", encoding="utf-8") as f:
                f.write(text)
            got = undocumented(root)
        if len(got) != want:
            sys.exit(f"self-test: got {got}, expected {want} for:\n{text}")
    return len(cases)


def self_test_whole():
    cases = [
        ('#include "gradus/a.h"\n#include "gradus/b.h"\n', 0),
        ('#include "gradus/b.h"\n', 1),
        ('/* gradus/a.h, gradus/b.h */\n', 2),
    ]
    for text, want in cases:
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "include/gradus"))
            for name, content in (("a.h", ""), ("b.h", ""), ("gradus.h", text)):
                with open(os.path.join(root, "include/gradus", name), "w", encoding="utf-8") as f:
                    f.write(content)
            got = left_out(root)
        if len(got) != want:
            sys.exit(f"self-test: got {got}, expected {want} for:\n{text}")
    return len(cases)


def main():
    args = argparse.ArgumentParser(usage=__doc__)
    args.add_argument("--cc", default="cc")
    args.add_argument("--cxx", default="c++")
    args.add_argument("--self-test", action="store_true")
    args.add_argument("root", nargs="?")
    a = args.parse_args()
    compilers = [("c", a.cc), ("c++", a.cxx)]
    if a.self_test:
        self_test(compilers)
        return
    if not a.root:
        args.error("no root folder given")
    errors, n = check(a.root, compilers)
    errors += undocumented(a.root) + left_out(a.root)
    print("\n".join(errors) if errors else f"{n} headers stand alone in C and C++")
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
