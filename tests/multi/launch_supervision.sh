#!/usr/bin/env bash
# Nothing of a job survives its launcher, however it or its ranks end; signals are passed on;
# the grace is honoured on every path; the first failure is named. P10.
. "$GR_SOURCE/tests/launch/lib.sh"

# Each rank has a child in a session of its own, one that nobody waits for, and ignores SIGTERM
# if told to. They write their numbers into pids.
cat >rank.sh <<'END'
#!/bin/bash
[ "${STUBBORN:-}" ] && trap '' TERM INT
setsid sleep 1000 &
echo $! >>pids
(setsid sleep 1000 & echo $! >>pids)
echo $$ >>pids
echo ready >>ready
if [ "${DIES:-}" = "$RANK" ]; then
    until [ "$(wc -l <ready)" -ge 2 ]; do sleep 0.02; done # or the other does not listen yet
    date +%s%3N >died
    echo "oh no" >&2
    exit 7
fi
while :; do sleep 1000 & wait $!; done
END
chmod +x rank.sh
lines() { [ "$(wc -l <"$1")" -ge "$2" ]; }
# Two ranks and what they start are there; $job is the launcher, which nohup does not protect.
begin() { # WORD...
    rm -f pids ready
    touch pids ready
    env --default-signal=HUP,INT "$RUN" --nproc-per-node 2 "$@" ./rank.sh >out.txt 2>err.txt &
    job=$!
    wait_for lines ready 2
    mapfile -t pids <pids
    [ ${#pids[@]} = 6 ] || fail "${#pids[@]} processes instead of 6"
}
ends() { # CODE
    local rc=0
    wait "$job" || rc=$?
    [ "$rc" = "$1" ] || fail "exit code $rc, expected $1"
    wait_for all_gone "${pids[@]}"
}

# Signals to the launcher.
for s in TERM:143 INT:130 HUP:129; do
    begin
    start=$(milliseconds)
    kill -"${s%:*}" "$job"
    ends "${s#*:}"
    [ $(($(milliseconds) - start)) -lt 25000 ] || fail "SIG${s%:*} took as long as the grace"
    said "gradrun: stopped by SIG${s%:*}; rank"
done

# SIGKILL to the launcher, and to the process that watches the ranks; no file stays either.
mkdir tmp
export TMPDIR=$PWD/tmp
tmp_is_empty() { [ -z "$(ls tmp)" ]; }
begin
kill -KILL "$job"
ends 137
begin
read -r -a agent <"/proc/$job/task/$job/children" || true
kill -KILL "${agent[0]}"
ends 137
said 'the process that watches the ranks .* was killed by signal 9 \(SIGKILL\)'
wait_for tmp_is_empty
# Both at once: the next job removes what they could not, and nothing that is not theirs to remove.
begin
read -r -a agent <"/proc/$job/task/$job/children" || true
kill -KILL "$job" "${agent[0]}"
wait "$job" || true
kill -KILL "${pids[@]}" 2>/dev/null || true # the ranks are gone; what they started has no parent left
wait_for all_gone "${pids[@]}"
left=$(ls tmp)
[ "$left" ] || fail "nothing is left of a job that was killed whole; what does this test show?"
mkdir tmp/gradrun_abcdef tmp/gradrun_
begin
[ ! -e "tmp/$left" ] || fail "what a job left that was killed whole stays"
[ -d tmp/gradrun_abcdef ] && [ -d tmp/gradrun_ ] || fail "folders of somebody else were removed"
expect 0 "$RUN" true
[ "$(ls tmp | wc -l)" = 3 ] || fail "the folder of a job that runs was removed: $(ls tmp)"
kill -TERM "$job"
ends 143
rmdir tmp/gradrun_abcdef tmp/gradrun_
wait_for tmp_is_empty

# Ranks that do not listen: the grace, from a signal and from a failure alike; twice is at once.
STUBBORN=1 begin --shutdown-timeout 1
start=$(milliseconds)
kill -TERM "$job"
ends 137
took=$(($(milliseconds) - start))
[ $took -ge 900 ] && [ $took -lt 60000 ] || fail "a grace of 1 s took $took ms after a signal"
STUBBORN=1 DIES=1 begin --shutdown-timeout 1
ends 7
took=$(($(milliseconds) - $(cat died)))
[ $took -ge 900 ] && [ $took -lt 60000 ] || fail "a grace of 1 s took $took ms after a failure"
said "rank 1 on host '.*' failed first: exit code 7, process [0-9]+, after"
said '^    oh no'
said 'then rank 0: killed by signal 9 \(SIGKILL\) when told to end'
STUBBORN=1 begin --shutdown-timeout 1000
kill -INT "$job"
start=$(milliseconds)
told_again() { is_gone "$job" || { kill -INT "$job"; sleep 0.3; is_gone "$job"; }; }
wait_for told_again # within 3 s they are one
ends 137
[ $(($(milliseconds) - start)) -ge 2900 ] || fail "a stop that came again at once killed the ranks"
said 'SIGINT: waiting for 2 of 2 ranks to end; SIGKILL in 99[0-9] s, or with the next signal'

# A stopped rank does not hold up the end.
begin --shutdown-timeout 60
kill -STOP "${pids[2]}" "${pids[5]}"
kill -TERM "$job"
ends 143

# What ranks leave running when they end well is ended too.
expect 0 "$RUN" --nproc-per-node 2 sh -c 'setsid sleep 1000 & echo $! >>left; exit 0'
mapfile -t pids <left
wait_for all_gone "${pids[@]}"

# Other signals are handed on, and end nothing unless they are listed.
cat >usr.sh <<'END'
#!/bin/bash
trap 'echo got1 >>ready; exit 0' USR1
echo there >>ready
while :; do sleep 0.05; done
END
chmod +x usr.sh
rm -f ready && touch ready
"$RUN" --nproc-per-node 2 ./usr.sh >out.txt 2>err.txt &
job=$!
wait_for lines ready 2
kill -USR1 "$job"
wait "$job" || fail "SIGUSR1 was not handed on"
rm -f ready && touch ready
"$RUN" --signals-to-handle SIGTERM,SIGUSR2 ./usr.sh >out.txt 2>err.txt &
job=$!
wait_for lines ready 1
kill -USR2 "$job"
rc=0
wait "$job" || rc=$?
[ $rc = 140 ] || fail "a listed SIGUSR2 gave $rc"

# Exit codes.
expect 0 "$RUN" --nproc-per-node 3 true
expect 3 "$RUN" --nproc-per-node 2 sh -c 'exit $((RANK * 3))'
expect 139 "$RUN" sh -c 'kill -SEGV $$'
expect 1 "$RUN" /nowhere/at/all
said "rank 0 did not start: cannot execute '/nowhere/at/all': No such file"
expect 1 "$RUN" no-such-program
said "'no-such-program': No such file or directory \(it is neither in PATH nor beside gradrun\)"
echo true >plain
expect 1 "$RUN" ./plain
said 'Permission denied \(chmod \+x makes it a program'
chmod +x plain
expect 1 "$RUN" ./plain
said 'Exec format error \(a script begins with #!\)'
echo '#!/nowhere/sh' >plain
expect 1 "$RUN" ./plain
said 'the interpreter that its first line names is not'
expect 1 "$RUN" "$PWD"
said 'it is a folder'
expect 2 "$RUN" --no-such-option x

# The ranks' limit on open files is the user's, not ours.
[ "$(ulimit -S -n)" = "$("$RUN" sh -c 'ulimit -S -n')" ] || fail "the limit on open files changed"
