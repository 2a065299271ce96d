#!/usr/bin/env bash
# Checks that the CUDA module finds everything it takes from the program that loads it:
# each gr_ symbol that it leaves open must be exported by libgradus.
#
# usage: check_module.sh MODULE LIBRARY
set -euo pipefail
export LC_ALL=C

open=$(nm -D --undefined-only "$1" | awk '$NF ~ /^gr_/ { print $NF }' | sort -u)
given=$(nm -D --defined-only "$2" | awk '{ sub(/@.*/, "", $NF); print $NF }' | sort -u)
missing=$(comm -23 <(printf '%s\n' "$open") <(printf '%s\n' "$given") | sed '/^$/d')
if [ -n "$missing" ]; then
    echo "the module uses functions that the library does not export (GR_API is missing):"
    printf '    %s\n' $missing
    exit 1
fi
echo "the module's $(printf '%s\n' "$open" | grep -c . || true) open gr_ symbols are all exported"
