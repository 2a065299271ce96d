#!/usr/bin/env bash
# PyTorch under gradrun is as under torchrun, and our ranks run under torchrun.
. "$GR_SOURCE/tests/launch/lib.sh"

python=
for p in "${GR_PYTHON:-}" python3 "${VIRTUAL_ENV:-/nonexistent}/bin/python" ~/venv/bin/python; do
    [ -n "$p" ] && "$p" -c 'import torch.distributed' 2>/dev/null && python=$p && break
done
[ -n "$python" ] || skip "no python3 with PyTorch (set GR_PYTHON)"
export PYTHON_EXEC=$python OMP_NUM_THREADS=1
torchrun=("$python" -m torch.distributed.run)
ddp=$GR_SOURCE/tests/interop/ddp_gloo.py

# The same numbers, whoever starts it.
expect 0 "$RUN" --nproc-per-node 2 "$ddp"
sort out.txt >ours.txt
grep -q 'rank 1 of 2 local 1 done' ours.txt || fail "not all ranks ended"
expect 0 "${torchrun[@]}" --standalone --nproc-per-node 2 "$ddp"
sort out.txt >theirs.txt
cmp ours.txt theirs.txt || fail "gradrun and torchrun give other results"

# One rank on each of two hosts gives the same numbers again.
port=$(free_port)
hosts=()
for node in 0 1; do
    "$RUN" --nnodes=2 --node_rank=$node --master_addr=127.0.0.1 --master_port="$port" \
        --nproc_per_node=1 "$ddp" >"host$node.txt" 2>&1 &
    hosts+=($!)
done
for h in "${hosts[@]}"; do wait "$h" || fail "two hosts"; done
cmp <(grep checksum host0.txt) <(grep checksum ours.txt) || fail "two hosts give other results"
grep -q 'rank 1 of 2 local 0 done' host1.txt || fail "the second host did not end"

# Every request of the store, PyTorch's client to ours and ours to PyTorch's.
expect 0 "$RUN" "$GR_SOURCE/tests/interop/store_ops.py" "$WORKER"
said "PyTorch's client is content"
said 'every request was answered'

# Its own failure is told in its own words.
expect 1 "$RUN" --nproc-per-node 2 --shutdown-timeout 60 "$ddp" fail
said 'rank 1 on host .* failed first: exit code 1'
said 'RuntimeError: this rank was told to fail'

# Our ranks in the store of a real torchrun, and in a group.
expect 0 "${torchrun[@]}" --standalone --no-python --nproc-per-node 2 \
    sh -c 'env -0 >"theirs.$RANK.env"; "$0" store && exec "$0" group' "$WORKER"
[ "$(grep -c 'of 2 .* met the others' out.txt)" = 2 ] || fail "our ranks did not meet under torchrun"
[ "$(grep -c 'adds up to 3' out.txt)" = 2 ] || fail "our ranks did not add up under torchrun"

# What our trainer says in the end is in torchrun's report.
expect 1 "${torchrun[@]}" --standalone --no-python "$GR_BIN/gradus" train no-such-recipe
said 'traceback *: *gradus: .*no-such-recipe'

# The ranks find the same variables, with the same values where these are not the job's own.
expect 0 "$RUN" --standalone --nproc-per-node 2 sh -c 'env -0 >"ours.$RANK.env"'
own='^(MASTER_|TORCHELASTIC_(RUN_ID|ERROR_FILE)=|GR_(JOB_TOKEN|LAUNCHER)=|_=|OLDPWD=|SHLVL=|LC_CTYPE=|KMP_|TORCHINDUCTOR_)'
variables() { tr '\0' '\n' <"$1" | grep -E '^[A-Za-z_]+=' | grep -vE "$own" | sort; }
names() { tr '\0' '\n' <"$1" | grep -oE '^(MASTER_[A-Z]+|TORCHELASTIC_[A-Z_]+)=.' | sed 's/=.*//' | sort; }
for r in 0 1; do
    diff <(variables "ours.$r.env") <(variables "theirs.$r.env") >diff.txt || fail "other variables"
    diff <(names "ours.$r.env") <(names "theirs.$r.env") >diff.txt || fail "other names"
done

# Every option of the installed torchrun is known here, with the same letter.
"$python" - >options.txt <<'END'
from torch.distributed.run import get_args_parser
for action in get_args_parser()._actions:
    for name in action.option_strings:
        print(name, 0 if action.nargs == 0 else 1)
END
while read -r name takes_value; do
    case $name in -h | --help) continue ;; esac
    "$RUN" "$name" $([ "$takes_value" = 0 ] || echo 1) --version >known.txt 2>&1 ||
        ! grep -q 'unknown option' known.txt || fail "torchrun has $name, gradrun has not"
done <options.txt
