#!/bin/bash
# The environment that gradrun gives its ranks is torchrun's; a .py program runs under
# python3; --help is short and goes to stdout.
set -eu

fail() {
    echo "$*" >&2
    exit 1
}

unset OMP_NUM_THREADS TORCH_NCCL_ASYNC_ERROR_HANDLING
"$GR_BIN/gradrun" --nproc_per_node=2 --standalone -- env > all.txt
for line in RANK=0 RANK=1 LOCAL_RANK=1 ROLE_RANK=1 GROUP_RANK=0 ROLE_NAME=default \
    LOCAL_WORLD_SIZE=2 WORLD_SIZE=2 GROUP_WORLD_SIZE=1 ROLE_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 \
    TORCHELASTIC_RESTART_COUNT=0 TORCHELASTIC_MAX_RESTARTS=0 GROUP_RANK=0 \
    TORCHELASTIC_USE_AGENT_STORE=True TORCHELASTIC_SIGNALS_TO_HANDLE=SIGTERM,SIGINT,SIGHUP,SIGQUIT \
    TORCH_NCCL_ASYNC_ERROR_HANDLING=1
do
    grep -qx "$line" all.txt || fail "no $line in the environment"
done
grep -Eqx 'MASTER_PORT=[1-9][0-9]*' all.txt || fail "no port"
grep -Eqx 'OMP_NUM_THREADS=[1-9][0-9]*' all.txt || fail "no OMP_NUM_THREADS"
OMP_NUM_THREADS=5 "$GR_BIN/gradrun" --nproc-per-node 2 env | grep -qx OMP_NUM_THREADS=5 ||
    fail "OMP_NUM_THREADS was changed"

if command -v python3 > where.txt; then
    printf 'import os, sys\nprint("rank", os.environ["RANK"], *sys.argv[1:])\n' > script.py
    "$GR_BIN/gradrun" --nproc-per-node 2 script.py --lr 0.1 | sort > out.txt
    printf 'rank 0 --lr 0.1\nrank 1 --lr 0.1\n' | cmp - out.txt || fail "script.py"
else
    echo "python3 is not installed: .py programs not tried" >&2
fi

"$GR_BIN/gradrun" --help > help.txt || fail "--help"
head -1 help.txt | grep -q '^usage: gradrun' || fail "--help has no usage line"
[ "$(wc -l < help.txt)" -le 48 ] || fail "--help is longer than two screens"
"$GR_BIN/gradrun" -h | cmp - help.txt || fail "-h is not --help"
"$GR_BIN/gradrun" --version | grep -Eqx 'gradrun [0-9.]+' || fail "--version"
rc=0
"$GR_BIN/gradrun" --help > /dev/full 2> err.txt || rc=$?
[ $rc = 1 ] && grep -q 'No space left' err.txt || fail "--help to a full disk gave $rc"

# A name without a slash: PATH first, then beside gradrun.
(PATH=/usr/bin:/bin && "$GR_BIN/gradrun" gradus version) | grep -q '^gradus ' ||
    fail "gradus was not found beside gradrun"
printf '#!/bin/sh\necho mine\n' > gradus
chmod +x gradus
(PATH=$PWD:$PATH && "$GR_BIN/gradrun" gradus version) | grep -qx mine || fail "PATH does not come first"

# Output that cannot be written is told once, and the ranks go on; a closed stdout is fine.
"$GR_BIN/gradrun" --nproc-per-node 2 seq 1000 > /dev/full 2> err.txt || fail "a full disk"
[ "$(grep -c 'No space left' err.txt)" = 1 ] || fail "a full disk: $(cat err.txt)"
"$GR_BIN/gradrun" --nproc-per-node 2 sh -c 'echo x; touch "ended$RANK"' >&- 2> err.txt ||
    fail "a closed stdout: $(cat err.txt)"
[ -e ended0 ] && [ -e ended1 ] || fail "the ranks did not end well without a stdout"
# So it is when a reader leaves.
"$GR_BIN/gradrun" --nproc-per-node 2 seq 100000 2> err.txt | head -1 > first.txt || true
[ "$(grep -c "nobody reads the ranks' output any more" err.txt)" = 1 ] || fail "a reader that left"
rc=0
"$GR_BIN/gradrun" --nproc-pernode 2 true 2> err.txt || rc=$?
[ $rc = 2 ] && grep -q 'nproc-per-node' err.txt || fail "a wrong option gave $rc: $(cat err.txt)"
rc=0
"$GR_BIN/gradrun" 2> err.txt || rc=$?
[ $rc = 2 ] && grep -q 'no program' err.txt || fail "no program gave $rc"

# A rank that waits for the others says for whom, and a first SIGTERM ends it: there is nothing
# to save yet.
. "$GR_SOURCE/tests/launch/ports.sh"
alone() { MASTER_ADDR=127.0.0.1 MASTER_PORT=$(free_port) WORLD_SIZE=2 RANK=0 "$@"; }
! alone "$GR_BIN/gradus" train shapes --timeout 4 --output_dir alone >alone.log 2>&1 ||
    { echo "FAILED: a rank trained without the other" >&2; exit 1; }
grep -q 'rank 1 of 2 has not come within 4 s' alone.log || { cat alone.log; exit 1; }
rc=0
alone timeout -k 120 2 "$GR_BIN/gradus" train shapes --output_dir alone >alone.log 2>&1 || rc=$?
[ $rc = 124 ] || { echo "FAILED: a waiting rank ignored SIGTERM ($rc)" >&2; exit 1; }
rm -f alone.log
