#!/usr/bin/env bash
# tools/test.sh with a ctest that plays given results: which failures get a second run, alone,
# what is said of them, and what fails the stage all the same.
set -euo pipefail

top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
fail() {
    echo "test_test: $1" >&2
    sed 's/^/    /;s/Sanitizer/(S)/;s/runtime error/(R)/' "$top/out" >&2 # is no report of this run
    exit 1
}

# The pretended ctest. A run of tests is one line of `script`: RC FAILED,FAILED... [a line of the
# log]; a list of tests (-N) names those of `steady` that are asked for.
mkdir -p "$top/tools" "$top/bin"
cp "$GR_SOURCE/tools/test.sh" "$top/tools/"
printf '#!/usr/bin/env bash\nmkdir -p build/$1/Testing/Temporary; echo 1 >build/$1/sanitizer_works\n' \
    >"$top/tools/build.sh"
cat >"$top/bin/ctest" <<'END'
#!/usr/bin/env bash
cd "$TOP"
echo "$*" >>calls
log=$2/Testing/Temporary
case " $* " in
*' -N '*)
    for t in $(cat steady); do
        [[ $t =~ ${!#} ]] && echo "  Test #7: $t"
    done
    exit 0 ;;
esac
read -r rc names line <script
sed -i 1d script
n=1
for t in ${names//,/ }; do
    [ "$t" = - ] || echo "$((n++)):$t" >>"$log/LastTestsFailed.log"
done
echo "$line" >"$log/LastTest.log"
exit "$rc"
END
chmod +x "$top/tools/build.sh" "$top/bin/ctest"

# expect RC STAGE... with the results on stdin.
expect() {
    local want=$1 rc=0
    shift
    cat >"$top/script"
    : >"$top/calls"
    TOP=$top JOBS=6 PATH=$top/bin:$PATH bash "$top/tools/test.sh" "$@" >"$top/out" 2>&1 || rc=$?
    [ "$rc" = "$want" ] || fail "ended with $rc, expected $want"
    [ ! -s "$top/script" ] || fail "fewer runs than expected"
}
ends_with() { [ "$(tail -n 1 "$top/out")" = "$1" ] || fail "the last line is not '$1'"; }
says() { grep -qF -- "$1" "$top/out" || fail "no '$1'"; }
ran() { [ "$(grep -vc -- ' -N ' "$top/calls")" = "$1" ] || fail "not $1 runs: $(cat "$top/calls")"; }
echo 'test_base_pool test_ops' >"$top/steady"

expect 0 dev asan tsan <<<$'0 -\n0 -\n0 -'
ends_with 'test: all stages passed: dev asan tsan'
ran 3

# Unsteady ones that pass when they are alone are named, in the stage and at the end.
expect 0 dev asan <<<$'8 test_multi_a,test_comm_b\n0 -\n0 -'
ends_with 'test: all stages passed: dev asan'
says 'test: failed: test_comm_b test_multi_a; once more, alone'
says 'test: unstable: test_comm_b test_multi_a: failed first and passed then'
says 'test: unstable: test_comm_b test_multi_a (dev)'
ran 3
grep -qF -- "--test-dir build/dev -j 1 " "$top/calls" || fail "not alone"
grep -qF -- '-R ^(test_comm_b|test_multi_a)$' "$top/calls" || fail "not just those"
# Those that fail again fail the stage, and those alone are named; no other stage begins.
expect 1 dev asan <<<$'8 test_multi_a,test_comm_b\n8 test_comm_b'
ends_with 'test: FAILED in stage dev: test_comm_b'
# Other tests are not repeated, nor what fails beside them.
expect 1 dev <<<'8 test_base_pool,test_multi_a'
ends_with 'test: FAILED in stage dev: test_base_pool test_multi_a'
# Nor is a whole heap of failures, nor a run without a test.
expect 1 dev <<<'8 a,b,c,d,e,f,g,h,i,j,k'
ran 1
expect 1 dev <<<'8 -'
ends_with 'test: FAILED in stage dev: no test by name'

# What a sanitizer has to say counts: in a test that failed, in one that passed, in a second run.
for report in 'SUMMARY: ThreadSanitizer: data race x.c:3' 'ERROR: AddressSanitizer: heap-use' \
    'ERROR: LeakSanitizer: detected' 'x.c:3:5: runtime error: signed integer overflow'; do
    expect 1 tsan <<<"8 test_multi_a $report"
    ends_with 'test: FAILED in stage tsan: test_multi_a'
    says "$report"
    ran 1
    expect 1 tsan <<<"0 - $report"
    expect 1 tsan <<<$'8 test_multi_a\n'"0 - $report"
    ran 2
done
expect 2 nonsense </dev/null
echo "failures are repeated as they should be"
