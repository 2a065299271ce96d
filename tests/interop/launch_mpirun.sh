#!/usr/bin/env bash
# Our ranks find themselves under Open MPI's mpirun and MPICH's mpiexec, without gradrun.
. "$GR_SOURCE/tests/launch/lib.sh"

tried=
open_mpi=
for m in mpirun.openmpi mpirun; do
    if "$m" --version 2>/dev/null | grep -q 'Open MPI\|OpenRTE'; then open_mpi=$m && break; fi
done
if [ -n "$open_mpi" ]; then
    tried=1
    root=()
    [ "$(id -u)" != 0 ] || root=(--allow-run-as-root)
    expect 0 "$open_mpi" "${root[@]}" --oversubscribe -n 4 "$WORKER" store
    [ "$(grep -c 'of 4 .* met the others, says Open MPI' out.txt)" = 4 ] || fail "four ranks under mpirun"
    expect 0 "$open_mpi" "${root[@]}" --oversubscribe -n 2 "$WORKER" group
    [ "$(grep -c 'adds up to 3' out.txt)" = 2 ] || fail "a group under mpirun"
else
    echo "Open MPI is not installed (package openmpi-bin): not tried" >&2
fi
for m in mpiexec.hydra mpiexec.mpich; do
    command -v $m >/dev/null || continue
    tried=1
    expect 0 $m -n 3 "$WORKER" store
    [ "$(grep -c 'of 3 .* met the others, says PMI' out.txt)" = 3 ] || fail "three ranks under $m"
    break
done
[ -n "$tried" ] || skip "neither Open MPI (openmpi-bin) nor MPICH (mpich) is installed"
