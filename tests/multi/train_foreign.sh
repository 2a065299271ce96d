#!/usr/bin/env bash
# Checkpoints and runs of strangers: what is in them reaches no file of the user's, no program and
# no terminal. Each case says what a resumption would have done.
set -euo pipefail

fail() { echo "FAILED: $*" >&2; tail -n 20 ./*.log >&2; exit 1; }
command -v python3 >/dev/null || { echo "python3 is not installed: nothing to forge with" >&2; exit 77; }
gradus=$GR_BIN/gradus
folder=$(mktemp -d "$PWD/run.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"
small=(--device cpu --n_train 64 --n_eval 32 --batch_size 32 --epochs 1 --progress plain)
mine() { printf 'mine\n' >precious; }
untouched() { [ "$(cat precious)" = mine ] || fail "$1: a file of the user's is overwritten"; }
try() { # CODE LOG COMMAND...
    local rc=0
    timeout 60 "${@:3}" >"$2.log" 2>&1 </dev/null || rc=$?
    [ "$rc" = "$1" ] || fail "$2: exit code $rc, expected $1"
    ! LC_ALL=C grep -q $'\x1b\|\x07\|\x9b' "$2.log" || fail "$2: control characters"
}
says() { grep -q -- "$2" "$1.log" || fail "$1: no '$2'"; } # LOG PATTERN
forge() { # FROM TO ADDED-LINES [KEY=TEXT...]: another train.config, without our checksum
    python3 - "$@" <<'P'
import json, struct, sys
b = open(sys.argv[1], 'rb').read()
n = struct.unpack('<Q', b[:8])[0]
h = json.loads(b[8:8 + n])
m = h['__metadata__']
m.pop('gradus.format', None)
m.pop('gradus.crc32c', None)
m['train.config'] += sys.argv[3].encode().decode('unicode_escape')
for pair in sys.argv[4:]:
    key, text = pair.encode().decode('unicode_escape').split('=', 1)
    m[key] = text
t = json.dumps(h).encode()
t += b' ' * (-len(t) % 8)
open(sys.argv[2], 'wb').write(struct.pack('<Q', len(t)) + t + b[8 + n:])
P
}

try 0 base "$gradus" train shapes --output_dir base "${small[@]}"
last=base/checkpoints/last.safetensors

# Every setting that names a place to write, a program's business or a host. All in one line.
mine
forge $last evil.safetensors "dump_dot = $PWD/precious\nconfig = $PWD/precious\noutput_dir = $PWD/out\n\
logging.dump_dot = $PWD/precious\nmaster_addr = 10.0.0.1\ntask = test\noutput = $PWD/out\nrun_id = x\n\
\x1b]0;owned\x07 = 1\n"
try 0 evil "$gradus" train --resume evil.safetensors --output_dir evil --epochs 2
untouched evil
[ ! -e out ] || fail "the checkpoint said where to write"
says evil 'settings of the checkpoint that are ignored: dump_dot, config, output_dir, logging.dump_dot, master_addr, task, output, run_id and 1 more (no setting that checkpoints keep)'
[ "$(grep -c 'are ignored' evil.log)" = 1 ] || fail "more than one line"

# W&B: a stranger's checkpoint turns on no upload; one's own run goes on with it.
mkdir client && printf '#!/bin/sh\ntouch "%s/ran"\n' "$PWD" >client/wandb && chmod +x client/wandb
forge $last wandb.safetensors 'use_wandb = true\nwandb_entity = them\nwandb_mode = online\n'
try 0 wandb env PATH="$PWD/client:$PATH" WANDB_API_KEY=k "$gradus" train --resume wandb.safetensors \
    --output_dir wandb --epochs 2
[ ! -e ran ] && [ ! -e wandb/wandb ] || fail "a checkpoint started an upload"
says wandb 'ignored: use_wandb, wandb_entity, wandb_mode (leads out of the run, which you did not begin here'
try 0 ownwb env -u WANDB_API_KEY "$gradus" train shapes --output_dir ownwb "${small[@]}" --use_wandb --wandb_project p
try 0 ownwb2 env -u WANDB_API_KEY "$gradus" train --resume ownwb --epochs 2
says ownwb2 'wandb sync ownwb/wandb/'
! grep -q 'are ignored' ownwb2.log || fail "one's own settings are ignored"
# Unpacked from an archive it is a stranger's, whatever its files say.
tar cf run.tar ownwb && mkdir there && tar xf run.tar -C there
try 0 copied env -u WANDB_API_KEY "$gradus" train --resume there/ownwb --epochs 3
says copied 'ignored: use_wandb, wandb_project'

# Paths to read: weights, and data, without which the run is no resumption.
forge $last read.safetensors 'pretrained = /dev/zero\n'
try 0 read "$gradus" train --resume read.safetensors --output_dir read --epochs 2
says read 'ignored: pretrained'
mkdir -p data/{train,val}/{a,b}
python3 - <<'P'
import struct, zlib
def png(path, grey):
    raw = b''.join(b'\0' + bytes([grey, grey, 255 - grey]) * 8 for _ in range(8))
    def part(kind, body):
        return struct.pack('>I', len(body)) + kind + body + struct.pack('>I', zlib.crc32(kind + body))
    open(path, 'wb').write(b'\x89PNG\r\n\x1a\n' + part(b'IHDR', struct.pack('>IIBBBBB', 8, 8, 8, 2, 0, 0, 0))
                           + part(b'IDAT', zlib.compress(raw)) + part(b'IEND', b''))
for s in ('train', 'val'):
    for i in range(4):
        for j, c in enumerate('ab'):
            png(f'data/{s}/{c}/{i}.png', 40 * i + 100 * j)
P
vision=(--device cpu --model mlp --batch_size 4 --epochs 1 --progress plain)
try 0 vision "$gradus" train vision --dataset.root_dir "$PWD/data" "${vision[@]}" --output_dir seen
try 0 vision2 "$gradus" train --resume seen --epochs 2
cp -r seen stolen
try 2 stolen "$gradus" train --resume stolen --epochs 3
says stolen "the checkpoint says dataset.root_dir '.*/data', which is out of its run, and that run was not begun here by you, or has been copied: give --dataset.root_dir yourself"
try 0 stolen2 "$gradus" train --resume stolen --epochs 3 --dataset.root_dir "$PWD/data"

# The record of a stranger's run as --config: it says where to write only for whom it began.
mkdir -p theirs/checkpoints && mine
sed "s|^output_dir:.*|output_dir: $PWD/out|" base/config.yaml >theirs/config.yaml
sed -i "s|^logging:|logging:\n  dump_dot: $PWD/precious|" theirs/config.yaml
try 0 record "$gradus" train --config theirs/config.yaml --run_id record
untouched record
[ ! -e out ] && [ -d runs/record ] || fail "a stranger's config.yaml said where to write"
says record "settings of theirs/config.yaml that are ignored: output_dir, logging.dump_dot (leads out"

# Links and pipes among a run's files.
plant() { # NAME COMMAND...: a fresh run with one of its names replaced
    rm -rf planted && cp -r base planted && rm -rf "planted/$1" && mkdir -p target && mine
    "${@:2}"
}
for name in lock config.yaml metrics.jsonl metrics.csv logs/rank_0.log model_summary.txt home; do
    plant "$name" ln -s "$PWD/precious" "planted/$name"
    try 1 "link_${name//\//_}" "$gradus" train --resume planted --epochs 2
    untouched "$name"
    says "link_${name//\//_}" "'planted/$name' is a link to '.*/precious', and a run writes in its own folder only"
done
for name in logs plots tensorboard wandb checkpoints; do
    plant "$name" ln -s "$PWD/target" "planted/$name"
    [ "$name" != checkpoints ] || cp base/checkpoints/* target
    try 1 "folder_$name" "$gradus" train --resume planted --epochs 2
    says "folder_$name" "'planted/$name' is a link to '.*/target'"
    rm -rf target
done
for name in .probe.tmp config.yaml.tmp checkpoints/.probe.tmp; do # no link is followed
    plant "$name" ln -s "$PWD/precious" "planted/$name"
    timeout 60 "$gradus" train --resume planted --epochs 2 >tmp.log 2>&1 || true
    untouched "$name"
done
for name in lock metrics.jsonl metrics.csv checkpoints/last.safetensors; do
    plant "$name" mkfifo "planted/$name"
    try 1 "pipe_${name//\//_}" "$gradus" train --resume planted --epochs 2
    says "pipe_${name//\//_}" "'planted/$name' is neither a file nor a folder"
done
plant none true
ln -s planted by_link # the folder itself may be reached by one, and may hold links of its own
ln -s last.safetensors planted/checkpoints/newest
try 0 by_link "$gradus" train --resume by_link --epochs 2
mkfifo pipe.safetensors
try 1 pipe "$gradus" train shapes --resume pipe.safetensors
plant predict ln -s "$PWD" planted/predict
try 1 predict "$gradus" predict --checkpoint planted
[ ! -e predictions.csv ] || fail "predictions left the run"

# Text for the terminal: names of tensors, recipes, devices, classes, runs and files.
forge $last recipe.safetensors '' 'train.recipe=\x1b[2Jshapes\x07'
try 2 recipe "$gradus" train shapes --resume recipe.safetensors
says recipe 'the run is of recipe .\\x1b\[2Jshapes\\x07., not'
forge $last device.safetensors '' 'train.device=\x1b]0;x\x07\nDone'
try 0 device "$gradus" train --resume device.safetensors --output_dir device --epochs 2
says device 'the run was on \\x1b\]0;x\\x07\\x0aDone before'
mkdir -p "odd/$(printf 'r\x1b[31m\nn')" && touch "odd/$(printf 'r\x1b[31m\nn')/config.yaml"
try 0 list "$gradus" list runs odd
says list 'r\\x1b\[31m\\x0an'
try 1 name "$gradus" train --resume "$(printf 'no\x1b[2J\x9bwhere')"
says name 'no\\x1b\[2J\\x9bwhere'
cp -r data "$(printf 'd\x1b[2J')" && printf 'x' >"$(printf 'd\x1b[2J/train/a/0.png')"
try 1 data "$gradus" check vision --dataset.root_dir "$(printf 'd\x1b[2J')" "${vision[@]}"
says data 'd\\x1b\[2J'

# Numbers that no run has.
for pair in train.step=9223372036854775807 train.epoch=900000000000000 train.epoch_samples=-1 train.n_samples=1e3; do
    forge $last number.safetensors '' "$pair" train.steps_per_epoch=7
    try 1 number "$gradus" train --resume number.safetensors --output_dir number --epochs 2
done
# A pipe or a link in a folder that is only listed.
mkdir -p odd/pipes && touch odd/pipes/config.yaml && mkfifo odd/pipes/{lock,metrics.jsonl}
mkdir -p odd/endless && touch odd/endless/config.yaml && ln -s /dev/zero odd/endless/metrics.jsonl
try 0 list "$gradus" list runs odd
