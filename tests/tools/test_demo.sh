#!/usr/bin/env bash
# tools/demo.sh on a pretended tree: it removes its own earlier run and nothing else.
set -euo pipefail

top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
fail() {
    echo "test_demo: $1" >&2
    cat "$top/out" >&2
    exit 1
}

mkdir -p "$top/tools" "$top/build/release/bin"
cp "$GR_SOURCE/tools/demo.sh" "$top/tools/"
printf '#!%s\necho "ran $*"\n' "$(command -v bash)" >"$top/build/release/bin/gradrun"
chmod +x "$top/build/release/bin/gradrun"
demo() { # FOLDER: where it must run
    "$top/tools/demo.sh" >"$top/out" 2>&1 || fail "the demo failed"
    grep -q -- "^ran .*--output_dir $1\$" "$top/out" || fail "not in $1"
}

demo demo-run
"$GR_BIN/gradus" train shapes --output_dir "$top/demo-run" --max_steps 1 --device cpu >"$top/out" 2>&1 ||
    fail "a run for it failed"
demo demo-run
[ ! -e "$top/demo-run" ] || fail "an earlier demo stayed"
mkdir "$top/demo-run"
echo precious >"$top/demo-run/notes"
demo demo-run-2
[ -s "$top/demo-run/notes" ] || fail "somebody's folder was removed"
