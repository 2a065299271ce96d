#!/usr/bin/env bash
# Starts jobs and ends them at a random moment in a random way; afterwards no process, no port,
# no file in TMPDIR and no shared memory of them is left.
#
# usage: soak.sh [JOBS]       SEED=N repeats a sequence
. "$GR_SOURCE/tests/launch/lib.sh"

n_jobs=${1:-12}
SEED=${SEED:-$RANDOM}
RANDOM=$SEED
echo "soak: $n_jobs jobs, SEED=$SEED"
mkdir tmp
export TMPDIR=$PWD/tmp
mark=SOAK_MARK=soak_$$ # in the environment of everything that belongs to a job

cat >rank.sh <<'END'
#!/bin/bash
setsid sleep 1000 &
(setsid sleep 1000 &)
"$WORKER" store 0 || exit
case $HOW in
exit) exit $((RANK == 1 ? 3 : 0)) ;;
segv) [ "$RANK" = 1 ] && kill -SEGV $$ ;;
stubborn) trap '' TERM INT ;;
esac
exec "$WORKER" store 1000
END
chmod +x rank.sh
export WORKER
is_gradrun() { is_gone "$job" || [ "/proc/$job/exe" -ef "$RUN" ]; }

kill_agent() {
    local agent=()
    read -r -a agent 2>/dev/null <"/proc/$job/task/$job/children" || true
    if [ "${agent[0]:-}" ]; then kill -KILL "${agent[0]}"; else kill -KILL "$job"; fi 2>/dev/null || true
}

ways=(exit segv stubborn none)
signals=(TERM INT KILL HUP AGENT none) # AGENT: SIGKILL to the process that watches the ranks
for i in $(seq 1 "$n_jobs"); do
    how=${ways[RANDOM % 4]}
    signal=${signals[RANDOM % 6]}
    [ "$signal$how" != nonenone ] && [ "$signal$how" != nonestubborn ] || signal=KILL
    port=$(free_port)
    # A shell ignores INT for what it starts with &: one that comes before env has undone that
    # would be lost, and the job would run on.
    HOW=$how env --default-signal=INT,QUIT,HUP "$mark" "$RUN" \
        --nproc-per-node $((2 + RANDOM % 3)) --master-port "$port" \
        --shutdown-timeout 1 --max-restarts $((RANDOM % 2)) --restart-delay 0 ./rank.sh \
        >out.txt 2>err.txt &
    job=$!
    wait_for is_gradrun
    sleep "0.$(printf %03d $((RANDOM % 600)))"
    case $signal in
    none) ;;
    AGENT) kill_agent ;;
    *) kill -"$signal" "$job" 2>/dev/null || true ;;
    esac
    wait_for is_gone "$job"
    wait "$job" 2>/dev/null || true
    for _ in $(seq 1 600); do no_survivors "$mark" && break; sleep 0.05; done
    no_survivors "$mark" || fail "job $i ($how, $signal) left processes: $(survivors "$mark" | tr '\n' ' ')"
    ! grep -i ":$(printf %04X "$port") .* 0A " /proc/net/tcp || fail "job $i left its port open"
    [ -z "$(ls tmp)" ] || fail "job $i ($how, $signal) left files: $(ls tmp)"
done
# Other programs' memory comes and goes meanwhile; ours would be called after us.
! ls /dev/shm | grep -i gradus || fail "shared memory was left behind"
echo "soak: nothing is left behind"
