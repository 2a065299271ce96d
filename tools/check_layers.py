#!/usr/bin/env python3
"""Checks that every file includes only from the rooms that layers.txt allows it.

usage: check_layers.py ROOT          report every violation, exit 1 if there is one
       check_layers.py --self-test   prove on made-up trees that violations are found
"""

import os
import re
import sys
import tempfile

SOURCES = (".c", ".h", ".cu", ".cuh", ".cpp")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
COMMENT = re.compile(r"/\*.*?\*/", re.S)
C_STANDARD = set(
    "assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal "
    "stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath "
    "threads time uchar wchar wctype".split()
)


class Layers:
    """layers.txt: what each room may use, what each other folder may, whose a header is."""

    def __init__(self, path):
        self.rooms, self.folders, self.headers, self.errors = {}, {}, {}, []
        with open(path, encoding="utf-8") as f:
            for number, line in enumerate(f, 1):
                self._line(f"layers.txt:{number}", line.split("#")[0].strip())

    def _line(self, place, line):
        if not line:
            return
        name, colon, rest = line.partition(":")
        name, uses = name.strip(), rest.split()
        if not colon:
            self.errors.append(f"{place}: no ':' in '{line}'")
            return
        known = set(self.rooms) | {"public", "*"}
        for use in uses:
            if use not in known:
                self.errors.append(f"{place}: {name} uses '{use}', which no line above declares")
        if name.endswith(".h"):
            self.headers[name] = uses[0] if uses else ""
        elif name.endswith("/"):
            self.folders[name[:-1]] = uses
        elif name in self.rooms:
            self.errors.append(f"{place}: room '{name}' stands here twice")
        else:
            self.rooms[name] = uses

    def room_of_header(self, name):
        """'gradus/tensor.h' -> 'tensor'; None when nothing says whose it is."""
        stem = os.path.basename(name)[: -len(".h")]
        return self.headers.get(name) or (stem if stem in self.rooms else None)

    def allows(self, home, uses, room, is_public):
        return room == home or room in uses or "*" in uses or ("public" in uses and is_public)


def includes(path):
    """(line number, is it <...>, what) of every #include outside comments."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    # Comments go, their line breaks stay: numbers must remain true.
    text = COMMENT.sub(lambda m: "\n" * m.group().count("\n"), text)
    for number, line in enumerate(text.split("\n"), 1):
        m = INCLUDE.match(line)
        if m:
            yield number, m.group(1) == "<", m.group(2)


def check_file(root, path, home, uses, layers):
    in_src, in_public = path.startswith("src/"), path.startswith("include/")
    for number, angled, what in includes(os.path.join(root, path)):
        place = f"{path}:{number}"
        first = what.split("/")[0]
        if first == "gradus" and "/" in what:
            room = layers.room_of_header(what)
            if room is None:
                yield f"{place}: '{what}' has no room; add a line '{what}: <room>' to layers.txt"
            elif not layers.allows(home, uses, room, True):
                yield f"{place}: {home}/ may not include from {room}/ ({what})"
        elif angled:
            if in_public and what[: -len(".h")] not in C_STANDARD:
                yield f"{place}: a public header may not include <{what}>"
        elif in_public:
            yield f"{place}: a public header may not include the private '{what}'"
        elif "/" in what and first in layers.rooms:
            if not layers.allows(home, uses, first, False):
                yield f"{place}: {home}/ may not include from {first}/"
        elif in_src:
            yield f"{place}: include '{what}' by its room's path"


def files_under(root, folder):
    for where, folders, names in os.walk(os.path.join(root, folder)):
        folders.sort()
        for name in sorted(names):
            if name.endswith(SOURCES):
                yield os.path.relpath(os.path.join(where, name), root)


def check(root):
    layers = Layers(os.path.join(root, "layers.txt"))
    errors = list(layers.errors)
    for path in files_under(root, "src"):
        room = path.split("/")[1]
        if room not in layers.rooms:
            errors.append(f"{path}: room '{room}' is not in layers.txt")
            continue
        errors += check_file(root, path, room, layers.rooms[room], layers)
    for path in files_under(root, "include/gradus"):
        room = layers.room_of_header(path[len("include/") :])
        if room is None:
            name = path[len("include/") :]
            errors.append(f"{path}: has no room; add a line '{name}: <room>' to layers.txt")
            continue
        errors += check_file(root, path, room, layers.rooms.get(room, [room]), layers)
    for folder, uses in layers.folders.items():
        for path in files_under(root, folder):
            errors += check_file(root, path, folder, uses, layers)
    return errors


def self_test():
    layers = "base:\ntensor: base\ngraph: base tensor\nrecipe: public\napp/: base\n" \
             "gradus/status.h: base\n"
    cases = [
        # files, part of the only message expected (None: the tree is clean)
        ({"src/tensor/a.c": '#include "base/x.h"\n#include "tensor/a.h"\n#include <dirent.h>\n'}, None),
        ({"src/tensor/a.c": '/*\n#include "graph/x.h"\n*/\n'}, None),
        ({"src/tensor/a.c": '\n#include "graph/x.h"\n'}, "src/tensor/a.c:2: tensor/ may not include from graph/"),
        ({"src/tensor/sub/a_cuda.cu": '#include "graph/x.h"\n'}, "may not include from graph/"),
        ({"src/base/a.c": '#include "gradus/graph.h"\n'}, "base/ may not include from graph/"),
        ({"src/base/a.c": '#include "gradus/status.h"\n'}, None),
        ({"src/base/a.c": "#include <gradus/tensor.h>\n"}, "base/ may not include from tensor/"),
        ({"src/base/a.c": '#include "gradus/odd.h"\n'}, "has no room"),
        ({"src/base/a.c": '#include "a.h"\n'}, "by its room's path"),
        ({"src/attic/a.c": ""}, "room 'attic' is not in layers.txt"),
        ({"src/recipe/a.c": '#include "gradus/graph.h"\n'}, None),
        ({"src/recipe/a.c": '#include "graph/x.h"\n'}, "recipe/ may not include from graph/"),
        ({"app/a.c": '#include "tensor/x.h"\n'}, "app/ may not include from tensor/"),
        ({"include/gradus/tensor.h": '#include <stdint.h>\n#include "gradus/status.h"\n'}, None),
        ({"include/gradus/tensor.h": '#include "gradus/graph.h"\n'}, "tensor/ may not include from graph/"),
        ({"include/gradus/tensor.h": '#include "tensor/x.h"\n'}, "private 'tensor/x.h'"),
        ({"include/gradus/tensor.h": "#include <pthread.h>\n"}, "may not include <pthread.h>"),
        ({"include/gradus/odd.h": ""}, "has no room"),
        ({"layers.txt": "base: tensor\ntensor:\n"}, "uses 'tensor', which no line above declares"),
        ({"layers.txt": "base:\nbase:\n"}, "stands here twice"),
    ]
    for files, want in cases:
        with tempfile.TemporaryDirectory() as root:
            for path, text in {"layers.txt": layers, **files}.items():
                path = os.path.join(root, path)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as f:
                    f.write(text)
            got = check(root)
        if (want is None and got) or (want and (len(got) != 1 or want not in got[0])):
            sys.exit(f"self-test: {files}: got {got}, expected {want!r}")
    print(f"{len(cases)} cases as expected")


def main():
    if len(sys.argv) != 2:
        print(__doc__.strip(), file=sys.stderr)
        sys.exit(2)
    if sys.argv[1] == "--self-test":
        self_test()
        return
    errors = check(sys.argv[1])
    print("\n".join(errors) if errors else "every include stays inside its layers")
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
