#!/usr/bin/env bash
# Output of ranks: files in torchrun's layout, tee, filters, prefixes; error files; the legacy
# launcher's argument; Python programs.
. "$GR_SOURCE/tests/launch/lib.sh"

say='echo "out $RANK"; echo "err $RANK" >&2'
same() { diff <(printf -- "$1") "$2" >diff.txt || fail "$2 is not as expected"; }
run_folder() { echo logs/*/"attempt_${1:-0}"; }

expect 0 "$RUN" --nproc-per-node 2 --log-dir logs --rdzv-id job -r 3 sh -c "$say"
[ ! -s out.txt ] || fail "redirected output was shown"
same 'out 1\n' "$(run_folder)/1/stdout.log"
same 'err 0\n' "$(run_folder)/0/stderr.log"
ls -d logs/job_?????? >/dev/null || fail "the folder of the run is not called after the job"
rm -r logs

expect 0 "$RUN" --nproc-per-node 2 --log-dir logs --tee 3 sh -c "$say"
sort out.txt >sorted.txt
same '[default0]:out 0\n[default1]:out 1\n' sorted.txt
same 'out 1\n' "$(run_folder)/1/stdout.log"
said '^\[default1\]:err 1$'
rm -r logs

expect 0 "$RUN" --log-dir logs -r3 sh -c "$say"
same 'out 0\n' "$(run_folder)/0/stdout.log"
rm -r logs
: >file
expect 1 "$RUN" --log-dir file -r3 true
said "cannot make folder 'file'"

# By rank: 1's stdout into a file, 0's to the terminal.
expect 0 "$RUN" --nproc-per-node 2 --log-dir logs -r 1:1 sh -c "$say"
same 'out 0\n' out.txt
same 'out 1\n' "$(run_folder)/1/stdout.log"
[ ! -e "$(run_folder)/0/stdout.log" ] || fail "a file for rank 0"
rm -r logs

expect 0 "$RUN" --nproc-per-node 12 --local-ranks-filter 3,11 --prefix sh -c "$say"
sort out.txt >sorted.txt
same '[11]: out 11\n[3]: out 3\n' sorted.txt
expect 0 "$RUN" --nproc-per-node 2 --local-ranks-filter 1 --role trainer \
    --log-line-prefix-template '${hostname}/${role_name}${local_rank}> ' sh -c "$say"
same "$(hostname)/trainer1> out 1\n" out.txt
expect 0 "$RUN" --nproc-per-node 2 --log-dir logs --tee 3 --duplicate-stdout-filters 'out 1,xyz' \
    sh -c "$say"
same 'out 1\n' "$(run_folder)/filtered_stdout.log"
rm -r logs
# Two commas are one of the text.
expect 0 "$RUN" --log-dir logs --tee 3 --duplicate-stderr-filters 'xyz,a,,b' \
    sh -c 'echo xyz; echo a,b >&2; echo a >&2; echo b >&2'
same 'a,b\n' "$(run_folder)/filtered_stderr.log"
rm -r logs

# A failure whose stderr went into a file is still shown; so is an error file.
expect 4 "$RUN" --log-dir logs -r 3 sh -c 'echo "deep trouble" >&2; exit 4'
said '^    deep trouble'
expect 1 "$RUN" --nproc-per-node 2 sh -c '[ $RANK = 0 ] && sleep 100
    printf "{\"message\": {\"message\": \"ValueError: seven\", \"extraInfo\": {}}}" \
        >"$TORCHELASTIC_ERROR_FILE"; exit 1'
said 'its error file says:'
said '^    ValueError: seven'
# Attempts have folders of their own; a temporary folder is gone afterwards.
rm -rf logs
expect 1 "$RUN" --log-dir logs -t 1 --max-restarts 1 --restart-delay 0 sh -c \
    'echo "$TORCHELASTIC_RESTART_COUNT"; exit 1'
same '0\n' "$(run_folder 0)/0/stdout.log"
same '1\n' "$(run_folder 1)/0/stdout.log"
mkdir tmp
TMPDIR=$PWD/tmp expect 0 "$RUN" --nproc-per-node 2 sh -c '[ -d "${TORCHELASTIC_ERROR_FILE%/*}" ]'
[ -z "$(ls tmp)" ] || fail "something was left in TMPDIR"
# A TMPDIR that is not there: /tmp, with a warning. A --log-dir that was asked for has no other.
TMPDIR=/nonexistent expect 0 "$RUN" --nproc-per-node 2 sh -c 'echo "file $TORCHELASTIC_ERROR_FILE"'
said "cannot make a folder '/nonexistent/gradrun_......': No such file or directory; .*; /tmp is taken"
said '^file /tmp/gradrun_'
kept=$(sed -n 's|^file \(/tmp/gradrun_[^/]*\)/.*|\1|p' out.txt | head -1)
[ ! -e "$kept" ] || fail "'$kept' was left"
TMPDIR=/nonexistent expect 1 "$RUN" --log-dir /proc/logs true
# Output that was sent into files stays, also without --log-dir, as with torchrun; a line says where.
for words in "-r3" "-t3" "--duplicate-stdout-filters out"; do
    # shellcheck disable=SC2086
    TMPDIR=$PWD/tmp expect 0 "$RUN" $words sh -c "$say"
    said 'output of the ranks: .*/tmp/gradrun_.*_run [(]it stays there; --log-dir names'
    [ "$(grep -c LAUNCH err.txt)" = 1 ] || fail "$words: more than a line of the launcher"
    kept=$(sed -n 's/.*output of the ranks: \(.*\) (it stays.*/\1/p' err.txt)
    grep -rqx 'out 0' "$kept" || fail "$words: no output in '$kept'"
    rm -r tmp/*
done
expect 0 "$RUN" --log-dir logs -r3 sh -c "$say"
! grep -q 'it stays there' err.txt || fail "a place that was chosen is explained"
rm -r logs
expect 0 "$RUN" --log-dir /dev/null sh -c '[ -z "$TORCHELASTIC_ERROR_FILE" ]'

# Lines of many ranks do not mix.
expect 0 "$RUN" --nproc-per-node 8 sh -c 'for i in 1 2 3 4 5 6 7 8 9; do printf "a$RANK"; \
    printf "b$RANK"; echo "c$RANK"; done'
[ "$(grep -cE '^a([0-7])b\1c\1$' out.txt)" = 72 ] || fail "lines were mixed"

# Devices.
CUDA_VISIBLE_DEVICES=4,5 expect 0 "$RUN" --nproc-per-node 2 sh -c 'echo "$CUDA_VISIBLE_DEVICES"'
same '4,5\n4,5\n' out.txt
expect 0 "$RUN" --nproc-per-node 2 --gpu_ids 0,2 sh -c 'echo "$CUDA_VISIBLE_DEVICES $LOCAL_RANK"'
sort out.txt >sorted.txt
same '0,2 0\n0,2 1\n' sorted.txt
CUDA_VISIBLE_DEVICES=4,5 expect 0 "$RUN" --nproc-per-node 2 --virtual-local-rank \
    sh -c 'echo "$CUDA_VISIBLE_DEVICES $LOCAL_RANK $RANK"'
sort out.txt >sorted.txt
same '4 0 0\n5 0 1\n' sorted.txt

# Threads: cores / ranks, told in a line; nothing is said or set for one rank, or where it is set.
cores=$(nproc)
share=$((cores / 2 > 0 ? cores / 2 : 1))
expect 0 "$RUN" --nproc-per-node 2 sh -c 'echo "$OMP_NUM_THREADS"'
same "$share\n$share\n" out.txt
said "OMP_NUM_THREADS is not set: $share for each of 2 ranks"
[ "$(wc -l <err.txt)" = 1 ] || fail "more than a line about threads"
expect 0 "$RUN" sh -c 'echo "${OMP_NUM_THREADS-none}"'
same 'none\n' out.txt
[ ! -s err.txt ] || fail "something was said about the threads of one rank"

# The legacy launcher and Python.
if command -v python3 >/dev/null; then
    echo 'import os, sys; print(sys.argv[1:], os.environ["LOCAL_RANK"])' >args.py
    expect 0 "$GR_BIN/gradrun-launch" --nproc_per_node=2 args.py --lr 1
    sort out.txt >sorted.txt
    same "['--local-rank=0', '--lr', '1'] 0\n['--local-rank=1', '--lr', '1'] 1\n" sorted.txt
    expect 0 "$GR_BIN/gradrun-launch" --nproc_per_node=1 --use_env args.py --lr 1
    same "['--lr', '1'] 0\n" out.txt
    mkdir -p package && cp args.py package/__main__.py
    expect 0 "$RUN" -m package x
    same "['x'] 0\n" out.txt
    expect 0 "$RUN" --run-path --no-python --start-method fork --event-log-handler console \
        --logs-specs x args.py
    for name in run-path start-method event-log-handler logs-specs; do
        said "--$name means something inside Python only"
    done
    PYTHON_EXEC=/bin/echo expect 0 "$RUN" args.py x
    same '-u args.py x\n' out.txt
else
    echo "python3 is not installed: scripts were not tried" >&2
fi
if "$RUN" --bind cores true 2>bind.txt; then
    grep -q 'local rank 0 is bound to processors [0-9]' bind.txt || fail "--bind says nothing"
else
    grep -q hwloc bind.txt || fail "--bind fails without naming hwloc"
fi
