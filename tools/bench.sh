#!/usr/bin/env bash
# Runs the benchmarks of the release build one after the other, nothing beside them.
#
# usage: bench.sh [NAME...]      all programs of bench/ when none is named
set -euo pipefail
trap 'exit 130' INT
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || set -- $(find bench -maxdepth 1 -name '*.c' -exec basename {} .c \; | sort)
for name in "$@"; do
    echo "bench: $name"
    "build/release/bench/$name"
done
