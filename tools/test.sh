#!/usr/bin/env bash
# The whole suite, in stages: dev runs every test, asan runs every test under the
# address and undefined-behaviour sanitizers, tsan runs what has threads or ranks.
#
# usage: test.sh [dev | asan | tsan]...      JOBS=N limits the parallel jobs
set -euo pipefail
trap 'exit 130' INT
cd "$(dirname "$0")/.."

tsan_labels='base net comm step data track launch multi'
run_ctest() { ctest --test-dir "build/$1" -j "${JOBS:-$(nproc)}" --output-on-failure \
    --no-tests=error "${@:2}"; }

can_run() {
    [ "$(cat "build/$1/sanitizer_works")" = 1 ] && return
    echo "test: SKIPPED $1: sanitized programs do not start on this machine" \
        "(address randomisation; try 'sysctl vm.mmap_rnd_bits=28')"
    return 1
}

stage() {
    echo "test: stage $1"
    case $1 in
    dev)
        tools/build.sh dev
        run_ctest dev
        ;;
    asan)
        tools/build.sh asan
        can_run asan || return 0
        # Not the runs with other people's programs: they are slow, and the launcher's own
        # tests see the same of our code. Not whole models at length either (test_nn_ranks trains
        # all of them), nor killed ranks, which tsan has, too.
        run_ctest asan -LE '^interop$' -E '_quality$|^test_nn_models$|^test_comm_faults_'
        ;;
    tsan)
        # shellcheck disable=SC2086
        tools/build.sh tsan $(printf 'tests_%s ' $tsan_labels)
        can_run tsan || return 0
        # Not the trainer's runs: their ranks are processes of one thread, so there is
        # nothing to see in them, and they are slow here.
        run_ctest tsan -L "^(${tsan_labels// /|})\$" -E '^test_multi_(train|vision)'
        ;;
    *)
        echo "usage: test.sh [dev | asan | tsan]..." >&2
        exit 2
        ;;
    esac
}

[ $# -gt 0 ] || set -- dev asan tsan
for s in "$@"; do
    stage "$s"
done
echo "test: all stages passed: $*"
