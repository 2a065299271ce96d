#!/usr/bin/env bash
# Tests that write files leave nothing in the folder that they are started in, nor in TMPDIR:
# somebody stands in the source tree, and 'git add' comes next.
set -euo pipefail

build=${GR_BIN%/bin}
grep -q '^GR_SANITIZE:[A-Z]*=.' "$build/CMakeCache.txt" && exit 77 # nothing new to see there
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
mkdir "$top/here" "$top/tmp"
export TMPDIR=$top/tmp
fail() {
    echo "test_scratch: $1" >&2
    cat "$top/out" >&2
    exit 1
}

n=0
cd "$top/here"
for source in $(cd "$GR_SOURCE/tests" && grep -lE '(gr_test_scratch|pictures_begin)\(\)' */test_*.c); do
    name=test_${source%%/*}_${source#*/test_}
    rc=0
    "$build/tests/${name%.c}" >"$top/out" 2>&1 || rc=$?
    [ $rc = 0 ] || [ $rc = 77 ] || fail "${name%.c} ended with $rc"
    [ -z "$(ls -A)" ] || fail "${name%.c} left here: $(ls -A)"
    [ -z "$(ls -A "$TMPDIR")" ] || fail "${name%.c} left in TMPDIR: $(ls -A "$TMPDIR")"
    n=$((n + 1))
done
[ $n -ge 20 ] || fail "only $n tests found"

# Nowhere else to go is a failure, no reason to write here.
touch "$top/file"
! TMPDIR=$top/file "$build/tests/test_nn_outputs" >"$top/out" 2>&1 || fail "no folder, and it passed"
