#!/usr/bin/env bash
# Builds a preset into build/<preset>, configuring it the first time. Ninja sees by
# itself when files appear or go, so later calls only build.
#
# usage: build.sh PRESET [TARGET...]      JOBS=N limits the parallel jobs
set -euo pipefail
cd "$(dirname "$0")/.."

preset=$1
shift
if [ ! -f "build/$preset/build.ninja" ]; then
    cmake --preset "$preset"
fi
cmake --build "build/$preset" -j "${JOBS:-$(nproc)}" ${1:+--target "$@"}
