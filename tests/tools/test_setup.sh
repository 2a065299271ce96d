#!/usr/bin/env bash
# tools/setup.sh on pretended machines: a PATH of stubs stands for what is installed, and
# an apt-get that notes its arguments and "installs" stubs stands for the package system.
set -euo pipefail

setup=$GR_SOURCE/tools/setup.sh
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
unset CC CXX

fail() {
    echo "test_setup: $1" >&2
    [ ! -f "$top/out" ] || cat "$top/out" >&2
    exit 1
}

# machine UID: a fresh one with nothing but a shell; its user has that id.
machine() {
    rm -rf "$top/bin" "$top/log"
    mkdir "$top/bin"
    : >"$top/log"
    for tool in bash env grep cat chmod; do
        ln -s "$(command -v $tool)" "$top/bin/$tool"
    done
    stub id "echo $1"
}

# stub NAME [COMMAND]: a program that runs COMMAND.
stub() {
    printf '#!%s\n%s\n' "$(command -v bash)" "${2:-exit 0}" >"$top/bin/$1"
    chmod +x "$top/bin/$1"
}

complete() {
    for tool in cc c++ cmake ninja pkg-config protoc-c python3 clang-format-14 clang-tidy-14; do
        stub $tool
    done
}

# apt BODY: an apt-get that logs; BODY decides what an installation does.
apt() { stub apt-get "echo \"apt-get \$*\" >>$top/log; [ \$1 = update ] || { $1; }"; }
installs_all="for t in cc c++ cmake ninja pkg-config protoc-c; do
    printf '#!/bin/sh\nexit 0\n' >$top/bin/\$t; chmod +x $top/bin/\$t; done"

# expect RC ARGS...: runs setup.sh on the pretended machine.
expect() {
    local want=$1 rc=0
    shift
    PATH=$top/bin bash "$setup" "$@" >"$top/out" 2>&1 || rc=$?
    [ $rc = "$want" ] || fail "setup.sh $* ended with $rc, expected $want"
}
says() { grep -qF -- "$1" "$top/out" || fail "no '$1' in the output"; }
logged() { grep -qF -- "$1" "$top/log" || fail "no '$1' in the log: $(cat "$top/log")"; }
all='gcc libc6-dev g++ cmake ninja-build pkg-config libjansson-dev libyaml-dev libprotobuf-c-dev protobuf-c-compiler libpng-dev libjpeg-dev libdnnl-dev libhwloc-dev'

# Nothing is missing: nothing is said, nothing is called.
machine 0 && complete && apt false
expect 0 lint
[ ! -s "$top/out" ] && [ ! -s "$top/log" ] || fail "a complete machine was touched"

# Everything is missing: all is named, --dry-run and --check install nothing.
machine 0 && apt false
expect 0 --dry-run test
says "missing packages: $all python3"
expect 1 --check
says "apt-get install -y --no-install-recommends $all"
[ ! -s "$top/log" ] || fail "--check called apt-get"

# Root installs what is missing and looks again afterwards.
machine 0 && apt "$installs_all"
expect 0 build
logged "apt-get update"
logged "apt-get install -y --no-install-recommends $all"
machine 0 && complete && rm "$top/bin/ninja" && apt true
expect 1 build
says "still missing after the installation: ninja-build"

# A user goes through sudo; without it, the command is printed.
machine 1000 && apt "$installs_all" && stub sudo "echo sudo >>$top/log; exec \"\$@\""
expect 0 build
logged sudo
machine 1000 && complete && rm "$top/bin/cmake"
stub apt-get "echo called >>$top/log"
expect 1 build
says "neither root nor sudo"
says "apt-get update && apt-get install -y --no-install-recommends cmake"
[ ! -s "$top/log" ] || fail "apt-get was called without rights"

# A failed installation ends with the command to try.
machine 0 && apt "exit 100"
expect 1 build
says "apt-get failed; please run as root:"

# Wrong usage.
expect 2 --nonsense
echo "setup as expected on every machine"
