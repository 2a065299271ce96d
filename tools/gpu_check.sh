#!/usr/bin/env bash
# Tests on a GPU of another machine: one that has CUDA's libraries and nothing else.
#
#   gpu_check.sh pack [FOLDER]    here: builds in FOLDER (default build/gpu-tree) and
#                                 collects programs and libraries in build/gpu
#   gpu_check.sh run [TEST...]    there, in a copy of this tree: runs the packed tests, or
#                                 those named, and ends with "N passed, N failed"
#
# oneDNN is left out of such a build; it is large, and CPU speed is not looked at there.
set -euo pipefail
cd "$(dirname "$0")/.."

pack()
{
    local tree=${1:-build/gpu-tree} program
    # oneDNN's headers are the only ones that the build looks for in this folder.
    cmake -S . -B "$tree" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_IGNORE_PATH=/usr/include
    cmake --build "$tree" --parallel 2 --target gradus-cuda tests_gpu bench_gpu_mlp bench_gpu_gaps \
        bench_gpu_ops apps
    rm -rf build/gpu
    mkdir -p build/gpu/bin build/gpu/lib/gradus
    cp "$tree"/tests/test_gpu_* "$tree"/bench/gpu_* "$tree"/bin/* build/gpu/bin/
    find "$tree/lib" -name libgradus-cuda.so -exec cp {} build/gpu/lib/gradus/ \;
    for program in build/gpu/bin/*; do
        strip --strip-debug "$program"
        ldd "$program" | awk '/jansson|protobuf-c|libpng|libjpeg|libyaml|libz/ { print $3 }' | xargs -r -I{} cp -L {} build/gpu/lib/
    done
    pwd >build/gpu/root
    du -sh build/gpu
}

run()
{
    local root passed=0 failed=0 skipped=0 test rc start
    local -a tests=("$@")
    export LD_LIBRARY_PATH=$PWD/build/gpu/lib:/usr/local/cuda/lib64:${LD_LIBRARY_PATH:-}
    # Golden data is looked for where the tests were compiled.
    root=$(cat build/gpu/root)
    if [ ! -e "$root" ]; then
        mkdir -p "$(dirname "$root")"
        ln -s "$PWD" "$root"
    fi
    if [ ${#tests[@]} -eq 0 ]; then
        tests=(build/gpu/bin/test_gpu_*)
        tests=("${tests[@]##*/}")
    fi
    for test in "${tests[@]}"; do
        start=$SECONDS
        rc=0
        timeout 240 "build/gpu/bin/$test" || rc=$?
        case $rc in
        0) passed=$((passed + 1)) ;;
        77) skipped=$((skipped + 1)) ;;
        *) failed=$((failed + 1)) ;;
        esac
        echo "== $test: status $rc, $((SECONDS - start)) s"
    done
    echo "$passed passed, $failed failed, $skipped skipped"
    [ $failed -eq 0 ]
}

case ${1:-} in
pack | run)
    command=$1
    shift
    "$command" "$@"
    ;;
*)
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | sed '$d' >&2
    exit 2
    ;;
esac
