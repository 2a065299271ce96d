#!/usr/bin/env bash
# The whole suite, in stages: dev runs every test, asan runs every test under the
# address and undefined-behaviour sanitizers, tsan runs what has threads or ranks.
#
# Whole programs against clocks, sockets and other programs may fail for want of a busy
# machine's attention: those that do run once more, alone, and are named as unstable when they
# pass then. What a sanitizer reports counts the first time, and so does every other test.
#
# usage: test.sh [dev | asan | tsan]...      JOBS=N limits the parallel jobs; of the tests, many
#                                            of which wait most of the time, half as many more run
set -euo pipefail
trap 'exit 130' INT
cd "$(dirname "$0")/.."

tsan_labels='base net comm step data track launch multi'
unsteady_labels='^(multi|launch|interop|comm)$'
jobs=${JOBS:-$(nproc)}
most_again=10 # more failures than this are no accident
reports='(Address|Leak|Thread|Memory|UndefinedBehavior)Sanitizer:|: runtime error: '

# once STAGE JOBS WORD...: leaves the names of the tests that failed in $failed, one a line.
once() {
    local log=build/$1/Testing/Temporary rc=0
    rm -f "$log"/LastTest.log "$log"/LastTestsFailed.log
    ctest --test-dir "build/$1" -j "$2" --output-on-failure --no-tests=error "${@:3}" || rc=$?
    failed=$(sed 's/^[0-9]*://' "$log/LastTestsFailed.log" 2>/dev/null | sort -u || true)
    # Reports of programs that were expected to fail count as well, so the log is looked at.
    if grep -qE "$reports" "$log/LastTest.log" 2>/dev/null; then
        grep -E "$reports" "$log/LastTest.log" | sort | uniq -c
        has_report=1
    fi
    return $rc
}
one_of() { echo "^($(echo "$1" | paste -sd '|'))\$"; }
in_a_row() { echo "$1" | paste -sd ' '; }
# gives_up STAGE: the last words, whatever was printed before them.
gives_up() {
    [ -z "$has_report" ] || echo "test: a sanitizer has something to report in stage $1, see above"
    echo "test: FAILED in stage $1: $(in_a_row "${failed:-no test by name}")"
    exit 1
}

# run_ctest STAGE WORD...: all of the stage's tests, and the unsteady ones twice if need be.
run_ctest() {
    local stage=$1 first steady
    has_report=
    once "$stage" $((jobs + (jobs + 1) / 2)) "${@:2}" && [ -z "$has_report" ] && return
    first=$failed
    [ -n "$first" ] && [ -z "$has_report" ] && [ "$(echo "$first" | wc -l)" -le $most_again ] ||
        gives_up "$stage"
    steady=$(ctest --test-dir "build/$stage" -N -LE "$unsteady_labels" -R "$(one_of "$first")" |
        sed -n 's/^ *Test *#[0-9]*: //p')
    [ -z "$steady" ] || gives_up "$stage"
    echo "test: failed: $(in_a_row "$first"); once more, alone"
    once "$stage" 1 -R "$(one_of "$first")" && [ -z "$has_report" ] || gives_up "$stage"
    unstable+=("$(in_a_row "$first") ($stage)")
    echo "test: unstable: $(in_a_row "$first"): failed first and passed then"
}

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
        # all of them), nor killed ranks, which tsan has, too; nor bad networks, on which time
        # goes by with waiting.
        run_ctest asan -LE '^interop$' \
            -E '_quality$|^test_nn_models$|^test_comm_faults_|^test_multi_(wire|mpi)'
        ;;
    tsan)
        # shellcheck disable=SC2086
        tools/build.sh tsan $(printf 'tests_%s ' $tsan_labels)
        can_run tsan || return 0
        # Not the trainer's runs, nor the launcher's, nor what is done to one picture: their
        # processes have one thread each, so there is nothing to see in them, and they are slow
        # here.
        run_ctest tsan -L "^(${tsan_labels// /|})\$" \
            -E '^test_multi_(train|vision|launch|wire|mpi)|^test_data_augment_(areas|pixels|errors)'
        ;;
    *)
        echo "usage: test.sh [dev | asan | tsan]..." >&2
        exit 2
        ;;
    esac
}

[ $# -gt 0 ] || set -- dev asan tsan
unstable=()
for s in "$@"; do
    stage "$s"
done
for u in "${unstable[@]}"; do
    echo "test: unstable: $u"
done
echo "test: all stages passed: $*"
