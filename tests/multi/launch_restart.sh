#!/usr/bin/env bash
# Restarts on one host: as many as allowed, with pauses that grow, told to the ranks.
. "$GR_SOURCE/tests/launch/lib.sh"

# Fails twice and works the third time. Rank 1 fails when rank 0 has spoken: it would be told to
# end before that on a busy machine.
cat >flaky.sh <<'END'
#!/bin/sh
echo "try $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS rank $RANK"
[ "$TORCHELASTIC_RESTART_COUNT" -ge 2 ] && exit 0
spoke="spoke-$MASTER_PORT-$TORCHELASTIC_RESTART_COUNT"
[ "$RANK" = 1 ] || { touch "$spoke"; sleep 100; }
until [ -e "$spoke" ]; do sleep 0.01; done
rm "$spoke"
exit 5
END
chmod +x flaky.sh
start=$(milliseconds)
expect 0 "$RUN" --nproc-per-node 2 --max-restarts 3 --restart-delay 0.2 ./flaky.sh
took=$(($(milliseconds) - start))
[ $took -ge 600 ] || fail "two restarts with pauses of 0.2 and 0.4 s took $took ms"
for n in 0 1 2; do
    for r in 0 1; do said "^try $n of 3 rank $r\$"; done
done
! grep -q '^try 3' out.txt || fail "a restart too many"
said 'rank 1 on host .* failed first: exit code 5'
said 'restart 2 of 3 in 0.4 s'

expect 5 "$RUN" --nproc-per-node 2 --max-restarts 1 --restart-delay 0 ./flaky.sh
[ "$(grep -c '^try' out.txt)" = 4 ] || fail "one restart is two tries of two ranks"
said '^gradrun: rank 1 on host'

# The store is empty again, at the same place: the ranks meet twice.
cat >meet.sh <<'END'
#!/bin/sh
"$WORKER" store || exit
[ "$TORCHELASTIC_RESTART_COUNT" = 0 ] || exit 0
touch "met$RANK" # who fails first ends those that have not spoken yet
until [ -e met0 ] && [ -e met1 ] && [ -e met2 ]; do sleep 0.01; done
exit 9
END
chmod +x meet.sh
export WORKER
expect 0 "$RUN" --nproc-per-node 3 --max-restarts 2 --restart-delay 0 ./meet.sh
[ "$(grep -c 'met the others' out.txt)" = 6 ] || fail "the ranks did not meet twice"

# A user who ends the job does not want it restarted, neither in a round nor in a pause.
"$RUN" --max-restarts 5 sh -c 'touch up; exec sleep 1000' >out.txt 2>err.txt &
job=$!
wait_for test -e up
kill -INT $job
rc=0
wait $job || rc=$?
[ $rc = 130 ] || fail "exit code $rc after SIGINT"
"$RUN" --max-restarts 5 --restart-delay 100 sh -c 'exit 6' >out.txt 2>err.txt &
job=$!
wait_for grep -q 'restart 1 of 5' err.txt
kill -INT $job
rc=0
wait $job || rc=$?
[ $rc = 130 ] || fail "exit code $rc after SIGINT in a pause"
said '^gradrun: stopped by SIGINT in the pause before restart 1 of 5$'
said 'failed first: exit code 6'

# Nor does one who asks the ranks, through the launcher or past it, and they end with 128 plus the
# signal; a rank that a signal kills has failed and is started again.
cat >stops.sh <<'END'
#!/bin/bash
[ "$TORCHELASTIC_RESTART_COUNT" = 0 ] || exit 0
for s in HUP:129 INT:130 USR1:138 TERM:143; do trap "exit ${s#*:}" "${s%:*}"; done
[ "$HOW" != killed ] || trap - TERM
echo $$ >"up$RANK"
while :; do sleep 0.02; done
END
chmod +x stops.sh
for s in launcher:USR1:138 rank:USR1:138 rank:INT:130 rank:HUP:129 rank:TERM:143 killed:TERM:0 killed:KILL:0; do
    IFS=: read -r HOW name code <<<"$s"
    rm -f up0 up1
    HOW=$HOW "$RUN" -n 2 --max-restarts 2 --restart-delay 0 ./stops.sh >out.txt 2>err.txt &
    job=$!
    wait_for test -s up0 -a -s up1
    [ "$HOW" = launcher ] && kill -"$name" $job || kill -"$name" "$(cat up1)"
    rc=0
    wait $job || rc=$?
    [ $rc = "$code" ] || fail "exit code $rc after SIG$name to a $HOW"
    if [ "$HOW" = killed ]; then
        said "rank 1 on host .* failed first: killed by signal .* \(SIG$name\)"
        said 'restart 1 of 2'
    else
        said "gradrun: stopped; rank [01]: exit code $code"
        ! grep -qE 'restart 1|failed first' err.txt || fail "a stop by SIG$name was taken for a failure"
    fi
done
