#!/usr/bin/env bash
# The benchmarks of the release build; bench/run.sh says which there are.
#
# usage: bench.sh [NAME...]
set -euo pipefail
exec "$(dirname "$0")/../bench/run.sh" "$@"
