# For tests of the launcher: source it. Works in a new folder, which is removed at the end.
# shellcheck shell=bash
set -euo pipefail
unset OMP_NUM_THREADS MASTER_ADDR MASTER_PORT GR_LOG GR_JOB_TOKEN
RUN=$GR_BIN/gradrun
WORKER=$GR_BIN/../interop/rank_worker

fail() {
    echo "FAILED: $*" >&2
    for f in ./*.txt; do [ -s "$f" ] && { echo "--- $f"; tail -n 25 "$f"; } >&2; done
    exit 1
}
skip() { echo "skipped: $*" >&2; exit 77; }

folder=$(mktemp -d "${PWD}/launch.XXXXXX")
cleanup() { # only what this test started: they all have the folder among their words
    local p
    for p in $(jobs -p); do kill -KILL "$p" 2>/dev/null || true; done
    cd /
    rm -rf "$folder"
}
trap cleanup EXIT
cd "$folder"

# expect RC WORD...: the command ends with that code; its output is in out.txt and err.txt.
expect() {
    local want=$1 rc=0
    shift
    "$@" >out.txt 2>err.txt || rc=$?
    [ "$rc" = "$want" ] || fail "'$*' ended with $rc, expected $want"
}
said() { grep -qE -- "$1" out.txt err.txt || fail "nothing like '$1' was said"; }
# wait_for COMMAND...: until it succeeds, for two minutes at most.
wait_for() {
    local end=$((SECONDS + 120))
    while ! "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || fail "waited in vain for: $*"
        sleep 0.02
    done
}
# is_gone PID: it is no more, or a zombie that is somebody else's business.
is_gone() {
    local state
    state=$(sed 's/.*) \(.\).*/\1/' "/proc/$1/stat" 2>/dev/null) || return 0
    [ "$state" = Z ] || [ "$state" = X ]
}
all_gone() { local p; for p in "$@"; do is_gone "$p" || return 1; done; }
# survivors WORD: processes that have it ("NAME=value") in their environment.
survivors() {
    local f
    for f in $(grep -lzx "$1" /proc/[0-9]*/environ 2>/dev/null); do
        f=${f#/proc/}
        is_gone "${f%/environ}" || echo "${f%/environ}"
    done
}
no_survivors() { [ -z "$(survivors "$1")" ]; }
milliseconds() { date +%s%3N; }
. "$GR_SOURCE/tests/launch/ports.sh"
