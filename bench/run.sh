#!/usr/bin/env bash
# All benchmarks, one after the other, nothing beside them: the scripts of this folder,
# then its programs. What is measured, and against what, stands at the head of each.
#
# Those called gpu_* run where there is a GPU.
#
# usage: run.sh [NAME...]      GR_BIN: folder of the programs, default build/release/bin
set -euo pipefail
trap 'exit 130' INT
cd "$(dirname "$0")/.."

export GR_BIN=${GR_BIN:-build/release/bin}
has_gpu() { command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU '; }

if [ $# -eq 0 ]; then
    for file in bench/*.sh bench/*.c; do
        [ -e "$file" ] || continue
        name=$(basename "$file")
        [ "$name" != run.sh ] || continue
        if [[ $name == gpu_* ]] && ! has_gpu; then
            echo "bench: ${name%.*} is left out, there is no GPU"
            continue
        fi
        set -- "$@" "${name%.*}"
    done
fi
for name in "$@"; do
    echo "bench: $name"
    rc=0
    if [ -e "bench/$name.sh" ]; then
        bash "bench/$name.sh" || rc=$?
    elif [ "$name" = allreduce ]; then # between ranks, so it needs some
        "$GR_BIN/gradrun" --nproc-per-node "$(nproc)" "$(dirname "$GR_BIN")/bench/$name" || rc=$?
    else
        "$(dirname "$GR_BIN")/bench/$name" || rc=$?
    fi
    case $rc in
    0) ;;
    77) echo "bench: $name cannot run on this machine" ;;
    *) exit "$rc" ;;
    esac
done
