#!/usr/bin/env bash
# A training run has the same bits over every transport: shared memory, TCP, pretended hosts, and
# MPI where it is installed (built and with mpirun; else that part says so and is left out).
set -euo pipefail

fail() { echo "FAILED: $*" >&2; exit 1; }
folder=$(mktemp -d "$PWD/run.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"
words=(train shapes --device cpu --n_train 600 --n_eval 100 --batch_size 32 --epochs 1
       --save_every 0 --val_interval 0 --progress plain)

over() { # NAME RANKS
    GR_COMM=$1 "$GR_BIN/gradrun" --nproc-per-node "$2" "$GR_BIN/gradus" "${words[@]}" \
        --output_dir "$1.$2" >"$1.log" 2>&1 || { cat "$1.log"; fail "$1 with $2 ranks"; }
}
same() { # NAME RANKS
    local file
    file=last.safetensors
    cmp "shm.$2/checkpoints/$file" "$1.$2/checkpoints/$file" || fail "$1 with $2 ranks: other bits"
}

for ranks in 2 3; do
    over shm $ranks
    for name in tcp hosts:2; do
        over $name $ranks
        same $name $ranks
    done
done
GR_COMM=pigeon "$GR_BIN/gradrun" --nproc-per-node 2 "$GR_BIN/gradus" "${words[@]}" \
    --output_dir x >x.log 2>&1 && fail "an unknown transport"
grep -q "no transport 'pigeon'" x.log || fail "which transport is unknown"

if ! command -v mpirun >/dev/null || [ ! -e "$GR_BIN/../lib/libgradus-mpi.so" ]; then
    echo "left out: MPI is not installed, or the module was not built"
    exit 0
fi
session=$(mktemp -d) # its own: others may start and end at the same time
trap 'rm -rf "$folder" "$session"' EXIT
mpirun() { OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1 \
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_orte_tmpdir_base="$session" command mpirun "$@"; }
GR_COMM=mpi mpirun -n 3 "$GR_BIN/gradus" "${words[@]}" \
    --output_dir mpi.3 >mpi.log 2>&1 || { cat mpi.log; fail "under mpirun"; }
same mpi 3

# Without mpirun it is one rank, whatever variables MPI sets for itself.
GR_COMM=mpi OMPI_MCA_orte_tmpdir_base="$session" "$GR_BIN/gradus" "${words[@]}" \
    --output_dir mpi.1 >one.log 2>&1 || { cat one.log; fail "MPI without mpirun"; }
grep -q "group 'mpi': rank 0 of 1" one.log || fail "one rank did not take MPI"

# Ranks that believe to be alone on their hosts: MPI carries their bytes, unasked.
mpirun -n 3 env OMPI_COMM_WORLD_LOCAL_SIZE=1 OMPI_COMM_WORLD_LOCAL_RANK=0 "$GR_BIN/gradus" \
    "${words[@]}" --output_dir unasked.3 >unasked.log 2>&1 || { cat unasked.log; fail "mpi, unasked"; }
grep -q "group 'mpi': rank 0 of 3" unasked.log || fail "several hosts under mpirun did not take MPI"
same unasked 3

# A rank that is killed ends the job; nobody waits for it until the deadline.
SECONDS=0
! GR_COMM=mpi mpirun -n 3 sh -c '[ "$OMPI_COMM_WORLD_RANK" = 1 ] && { sleep 0.5; kill -9 $$; }
    exec "$0" "$@" --epochs 1000 --output_dir killed.3' "$GR_BIN/gradus" "${words[@]}" \
    >killed.log 2>&1 || fail "a job over MPI survived one of its ranks"
[ $SECONDS -lt 150 ] || fail "a killed rank was noticed after $SECONDS s"
