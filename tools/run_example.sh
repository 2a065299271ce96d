#!/usr/bin/env bash
# Runs an example and compares what it prints with the file EXPECTED, if there is one.
#
# usage: run_example.sh PROGRAM EXPECTED
set -euo pipefail

"$1" >output.txt || { rc=$?; cat output.txt; echo "$1 ended with $rc"; exit "$rc"; }
if [ -f "$2" ]; then
    diff -u --label expected --label printed "$2" output.txt
else
    cat output.txt
fi
