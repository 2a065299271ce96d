#!/usr/bin/env bash
# Ranks over MPI that are killed or stopped in mid-call, leave early, or call different things: all
# others end with the reason, and nobody waits for ever. Each kind of call loses one rank, a
# different one from kind to kind; FAULTS=all takes every rank of every kind. P1 P2 P6 P10.
. "$GR_SOURCE/tests/launch/lib.sh"

mpirun --version 2>/dev/null | grep -q 'Open MPI\|OpenRTE' ||
    skip "Open MPI's mpirun is not installed (package openmpi-bin)"
[ -e "$GR_BIN/../lib/libgradus-mpi.so" ] || skip "the MPI module was not built"
export GR_COMM=mpi OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1 \
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# A folder for each mpirun: those that start and end at the same time make and remove the one
# they share under each other's feet. Not in this test's folder, since names of sockets are short.
sessions=$(mktemp -d)
trap 'cleanup; rm -rf "$sessions"' EXIT
mpi() { # SECONDS WORD...
    OMPI_MCA_orte_tmpdir_base=$(mktemp -d "$sessions/XXXX") exec timeout -k 5 "$1" mpirun "${@:2}"
}
kinds=(all-reduce reduce reduce-scatter all-gather broadcast gather scatter all-to-all barrier send
       exchange)
at_it() { [ "$(grep -c 'is process' "$1.txt")" = 3 ]; }
# fault SIGNAL VICTIM KIND OPTION...: what comes of it is in a file of that name.
fault() {
    local signal=$1 victim=$2 kind=$3 name=${NAME:-$1.$2.$3} ms=200000 rc=0 job pid start
    shift 3
    [ "$signal" = KILL ] || ms=${MS:-2500}
    mpi 300 "$@" -n 3 "$WORKER" repeat "$kind" $ms >"$name.txt" 2>&1 &
    job=$!
    wait_for at_it "$name"
    pid=$(sed -n "s/^rank $victim is process //p" "$name.txt")
    start=$(milliseconds)
    kill -"$signal" "$pid"
    wait $job || rc=$?
    echo "$name: mpirun ended with $rc after $(($(milliseconds) - start)) ms"
    [ $rc != 124 ] || fail "$name: somebody waits for ever"
    is_gone "$pid" || fail "$name: a rank is left"
    # Of several reasons the first that is printed may be a consequence.
    grep -qE "rank_worker: .*rank $victim \(process $pid on '.*'" "$name.txt" ||
        fail "$name: nobody says who is missing"
    [ "$signal" = KILL ] || grep -qE "timed out: .* waited [0-9.]+ s for .*rank $victim" "$name.txt" ||
        fail "$name: no deadline"
}
# Some at a time: mpirun takes most of the time, and not much of the processors.
many() {
    local list=() j
    while [ $# -gt 0 ]; do
        list=()
        for j in "${@:1:4}"; do
            # shellcheck disable=SC2086 # words of a case
            fault $j &
            list+=($!)
        done
        shift $(($# < 4 ? $# : 4))
        for j in "${list[@]}"; do wait "$j" || exit 1; done
    done
}
# One that is stopped for longer: meanwhile the log says who is missing, and in which call.
NAME=late MS=7000 fault STOP 1 all-reduce &
late=$!
cases=()
for i in "${!kinds[@]}"; do
    for victim in 0 1 2; do
        [ "${FAULTS:-}" = all ] || [ $((i % 3)) = $victim ] || continue
        # mpirun ends the job when a rank dies; told not to, the ranks notice it themselves.
        cases+=("KILL $victim ${kinds[i]} --mca orte_enable_recovery 1" "STOP $victim ${kinds[i]}")
    done
done
many "${cases[@]}"
wait $late || exit 1
grep -qE "has waited [0-9]+ s for .*rank 1 \(process .* last seen in .*'one of all'" late.txt ||
    fail "the log does not say who is late"
# As users start it: whoever is first ends the job.
rc=0
mpi 300 -n 3 "$WORKER" repeat all-reduce 200000 >plain.txt 2>&1 &
job=$!
wait_for at_it plain
kill -KILL "$(sed -n 's/^rank 2 is process //p' plain.txt)"
wait $job || rc=$?
[ $rc != 0 ] && [ $rc != 124 ] || fail "a job survived one of its ranks: $rc"

(mpi 300 -n 3 "$WORKER" differ) >differ.txt 2>&1 && fail "different calls went unnoticed"
grep -q "ranks call different collectives: rank [0-2] is in .*, rank [0-2] in .*" differ.txt ||
    fail "no word about different calls"
grep -q 'broadcast (2 f32, root 1)' differ.txt && grep -q 'all-reduce (sum of 1 f32)' differ.txt ||
    fail "not both sides are told"
(mpi 300 -n 3 "$WORKER" leave 500000) >leave.txt 2>&1 || fail "a rank that left early"
(mpi 300 -n 4 "$WORKER" groups) >groups.txt 2>&1 || fail "several groups at once"
[ "$(grep -c 'was in all groups' groups.txt)" = 4 ] || fail "not all ranks were in all groups"
rc=0
(mpi 300 -n 3 "$WORKER" second) >second.txt 2>&1 || rc=$?
[ $rc = 1 ] || fail "a group that cannot be made ended with $rc"
grep -q 'timed out: .*not all 3 ranks of MPI_COMM_WORLD have come within [0-9.]* s' second.txt ||
    fail "no word about who did not come"

# MPI_Init and MPI_Finalize wait for all, and have no deadline of their own; ours ends them.
GR_TIMEOUT=8 mpi 300 -n 3 sh -c '[ "$OMPI_COMM_WORLD_RANK" = 1 ] && exec sleep 1000
    exec "$0" group' "$WORKER" >init.txt 2>&1 &
init=$!
GR_TIMEOUT=8 mpi 300 -n 3 "$WORKER" group 1000 >finalize.txt 2>&1 &
finalize=$!
for j in $init $finalize; do
    rc=0
    wait $j || rc=$?
    [ $rc = 1 ] || fail "a rank that does not come, or does not end, gave $rc"
done
for call in init:Init finalize:Finalize; do
    said=${call%:*}.txt call=MPI_${call#*:}
    grep -qE "rank [02] of 3 has waited [5-9] s in $call, which waits until all ranks" "$said" ||
        fail "no word about a wait in $call"
    grep -qE "timed out: rank [02] of 3 waited [0-9.]+ s in $call, .*--timeout or GR_TIMEOUT " "$said" ||
        fail "no deadline in $call"
done

# Ranks that mpirun has not started would each be alone.
expect 1 "$RUN" --nproc-per-node 2 "$WORKER" group
said 'to MPI this is rank 0 of 1, to the environment \(torchrun\) rank [01] of 2; start it with mpirun'
