#!/usr/bin/env bash
# Format and static analysis: clang-format 14 over all sources, clang-tidy 14 over the C
# files of the dev build. Changes nothing.
#
# usage: lint.sh [FILE...]      only these files; all when none is given
set -euo pipefail
trap 'exit 130' INT
cd "$(dirname "$0")/.."

tool() { command -v "$1-14" || command -v "$1"; }
if [ $# -eq 0 ]; then
    mapfile -t files < <(find src include app bench examples tests -type f \
        \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) | sort)
    set -- "${files[@]}"
fi

failed=0
"$(tool clang-format)" --dry-run --Werror "$@" || failed=1

# Only files that the dev build compiles have the flags that clang-tidy needs.
compiled=()
for f in "$@"; do
    if [[ $f == *.c ]] && grep -qF "\"$PWD/$f\"" build/dev/compile_commands.json; then
        compiled+=("$f")
    fi
done
if [ ${#compiled[@]} -gt 0 ]; then
    printf '%s\0' "${compiled[@]}" | xargs -0 -n 4 -P "${JOBS:-$(nproc)}" \
        "$(tool clang-tidy)" -p build/dev --quiet \
        2> >(grep -v ' generated\.$' >&2) || failed=1
fi
[ $failed = 0 ] && echo "lint: ${#} files formatted, ${#compiled[@]} analysed"
exit $failed
