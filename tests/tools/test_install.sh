#!/usr/bin/env bash
# What `make install` leaves is enough for a stranger's program: the examples are compiled with
# nothing but what pkg-config says, by the line in README.md; one of them against the static library
# too, and it runs as expected, also after the tree was moved. The installed programs start.
set -euo pipefail

build=${GR_BIN%/bin}
grep -q '^GR_SANITIZE:[A-Z]*=.' "$build/CMakeCache.txt" && exit 77 # its libraries want their own runtime
command -v pkg-config >/dev/null || exit 77

fail() { echo "FAILED: $*" >&2; exit 1; }
top=$(mktemp -d "$PWD/install.XXXXXX")
trap 'rm -rf "$top"' EXIT
cmake --install "$build" --prefix "$top/first" >"$top/log" || { cat "$top/log"; fail "install"; }
mv "$top/first" "$top/moved" # everything is found relative to everything else
export PKG_CONFIG_PATH=$top/moved/lib/pkgconfig

# What the public headers need, and nothing of the libraries below.
read -r -a cflags <<<"$(pkg-config --cflags gradus)"
[ ${#cflags[@]} = 1 ] && [ "$(cd "${cflags[0]#-I}" && pwd)" = "$top/moved/include" ] ||
    fail "pkg-config --cflags: ${cflags[*]}"

example() { # NAME LIBRARY...: compiles and runs examples/train_mlp.c
    # shellcheck disable=SC2046
    "${CC:-cc}" -std=c17 -Wall -Wextra -Werror "$GR_SOURCE/examples/train_mlp.c" -o "$top/$1" \
        $(pkg-config --cflags gradus) "${@:2}" || fail "$1: does not compile"
    "$top/$1" >"$top/$1.out" || fail "$1: ended with $?"
    diff "$GR_SOURCE/examples/train_mlp.expected" "$top/$1.out" || fail "$1: prints something else"
}

for source in "$GR_SOURCE"/examples/*.c; do
    # shellcheck disable=SC2046
    "${CC:-cc}" "$source" $(pkg-config --cflags --libs gradus) -o "$top/one" ||
        fail "$source: does not compile by the line in README.md"
done

read -ra shared < <(pkg-config --libs gradus)
read -ra static < <(pkg-config --libs --static gradus)
[ ${#shared[@]} -gt 0 ] && [ ${#static[@]} -gt ${#shared[@]} ] || fail "pkg-config: ${shared[*]}; ${static[*]}"
LD_LIBRARY_PATH=$top/moved/lib example shared "${shared[@]}"
example static "${static[@]/#-lgradus/-l:libgradus.a}"
! ldd "$top/static" | grep libgradus || fail "the static program wants the shared library"

[ "$(pkg-config --modversion gradus)" = "$("$top/moved/bin/gradus" --version | grep -oE '[0-9]+(\.[0-9]+)+' | head -n 1)" ] ||
    fail "versions differ: $("$top/moved/bin/gradus" --version)"
"$top/moved/bin/gradrun" --nproc-per-node 2 "$top/static" >"$top/two.out" || fail "two ranks"
diff "$GR_SOURCE/examples/train_mlp.expected" "$top/two.out" || fail "two ranks print something else"
for f in bin/gradrun-launch include/gradus/gradus.h share/doc/gradus/LICENSE share/doc/gradus/docs/config.md; do
    [ -e "$top/moved/$f" ] || fail "no $f"
done
