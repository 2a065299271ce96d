#!/usr/bin/env bash
# Our ranks under srun, and gradrun itself as one task per node, on a Slurm of one machine that
# this test starts for itself: own configuration, own ports, own munge key.
. "$GR_SOURCE/tests/launch/lib.sh"

for tool in slurmctld slurmd srun munged; do
    command -v $tool >/dev/null || skip "$tool is not installed (packages slurm-wlm, munge)"
done
[ "$(id -u)" = 0 ] || skip "slurmd needs root"
daemons=()
stop() {
    local p
    for p in "${daemons[@]}"; do kill -KILL "$p" 2>/dev/null || true; done
}
trap 'stop; cleanup' EXIT

short=$(mktemp -d /tmp/grslurm.XXXXXX) # sockets have short names
trap 'stop; rm -rf "$short"; cleanup' EXIT
chmod 755 "$short"
mkdir -p "$short"/{munge,ctl,d}
chmod 711 "$short/munge"
dd if=/dev/urandom of="$short/munge/key" bs=64 count=1 2>/dev/null
chmod 400 "$short/munge/key"
munged --force --foreground --key-file="$short/munge/key" --socket="$short/munge/socket" \
    --pid-file="$short/munge/pid" --log-file="$short/munge/log" --seed-file="$short/munge/seed" \
    >munge.txt 2>&1 &
daemons+=($!)
host=$(hostname -s)
ctl=$(free_port)
dport=$(free_port)
cat >"$short/slurm.conf" <<END
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$short/munge/socket
CredType=cred/munge
SlurmctldPort=$ctl
SlurmdPort=$dport
StateSaveLocation=$short/ctl
SlurmdSpoolDir=$short/d
SlurmctldPidFile=$short/ctl.pid
SlurmdPidFile=$short/d.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
ReturnToService=2
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP OverSubscribe=FORCE:8
END
export SLURM_CONF=$short/slurm.conf
wait_for test -S "$short/munge/socket"
slurmctld -D >ctl.txt 2>&1 &
daemons+=($!)
slurmd -D -N "$host" >d.txt 2>&1 &
daemons+=($!)
idle() { sinfo -h -o %T | grep -q idle; }
for _ in $(seq 1 1200); do idle 2>/dev/null && break; sleep 0.05; done
idle || skip "Slurm does not come up here: $(tail -n 1 ctl.txt d.txt | tr '\n' ' ')"

expect 0 timeout 300 srun -n 2 --overcommit "$WORKER" store
[ "$(grep -c 'of 2 .* met the others, says Slurm' out.txt)" = 2 ] || fail "two ranks under srun"
# The usual way with a launcher: one task per node.
expect 0 timeout 300 srun -n 1 "$RUN" --nproc-per-node 2 "$WORKER" store
[ "$(grep -c 'of 2 .* met the others, says torchrun' out.txt)" = 2 ] || fail "gradrun under srun"
# A batch script without srun is one process, whatever SLURM_NTASKS says.
printf '#!/bin/sh\nexec %s store\n' "$WORKER" >batch.sh
expect 0 timeout 300 sbatch --wait -n 2 --overcommit -o batch.txt batch.sh
grep -q 'rank 0 of 1 .* says nobody' batch.txt || fail "a batch script is no rank of two"
