#!/usr/bin/env bash
# Sees to it that everything the build needs is installed: finds out by probing what is
# missing, names it, and installs it with apt-get as root or through sudo. When nothing
# is missing it does nothing and needs no network.
#
# usage: setup.sh [--check | --dry-run] [build | test | lint]
#   --check     install nothing; fail with the command to run when something is missing
#   --dry-run   as --check, but always end well
set -euo pipefail

mode=install
goal=build
for arg in "$@"; do
    case $arg in
    --check) mode=check ;;
    --dry-run) mode=dry-run ;;
    build | test | lint) goal=$arg ;;
    *)
        echo "usage: setup.sh [--check | --dry-run] [build | test | lint]" >&2
        exit 2
        ;;
    esac
done

has() { command -v "$1" >/dev/null 2>&1; }
has_header() { "${CC:-cc}" -E -x c - <<<"#include <$1>" >/dev/null 2>&1; }
has_cxx() { "${CXX:-c++}" -E -x c++ - <<<"#include <cstddef>" >/dev/null 2>&1; }
has_pc() { pkg-config --exists "$1" >/dev/null 2>&1; }
has_llvm14() { has "$1-14" || [[ $("$1" --version 2>&1) == *"version 14."* ]]; }

missing=()
# need PACKAGE PROBE...: notes the Debian package when the probe fails.
need() {
    local package=$1
    shift
    "$@" || missing+=("$package")
}

probe() {
    missing=()
    need gcc has "${CC:-cc}"
    need libc6-dev has_header stdio.h
    need g++ has_cxx
    need cmake has cmake
    need ninja-build has ninja
    need pkg-config has pkg-config
    need libjansson-dev has_pc jansson
    need libyaml-dev has_pc yaml-0.1
    need libprotobuf-c-dev has_pc libprotobuf-c
    need protobuf-c-compiler has protoc-c
    need libpng-dev has_pc libpng
    need libjpeg-dev has_pc libjpeg
    need libdnnl-dev has_header oneapi/dnnl/dnnl.h
    need libhwloc-dev has_header hwloc.h
    if [ "$goal" != build ]; then
        need python3 has python3
    fi
    if [ "$goal" = lint ]; then
        need clang-format-14 has_llvm14 clang-format
        need clang-tidy-14 has_llvm14 clang-tidy
    fi
}

probe
[ ${#missing[@]} -gt 0 ] || exit 0
install=(apt-get install -y --no-install-recommends "${missing[@]}")
echo "setup: missing packages: ${missing[*]}"

by_hand() {
    echo "setup: $1; please run as root:" >&2
    echo "    apt-get update && ${install[*]}" >&2
    exit 1
}

if [ $mode = dry-run ]; then
    echo "setup: would run: apt-get update && ${install[*]}"
    exit 0
fi
[ $mode = install ] || by_hand "something is missing"
has apt-get || { echo "setup: no apt-get here; install the packages by other means" >&2; exit 1; }

as_root=()
if [ "$(id -u)" != 0 ]; then
    has sudo || by_hand "neither root nor sudo"
    as_root=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
echo "setup: installing them with ${as_root[*]:-}${as_root:+ }apt-get"
# The lists may be old and still do, so a failed update alone is no reason to stop.
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq ||
    echo "setup: apt-get update failed; trying with the lists that are there" >&2
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "${install[@]}" || by_hand "apt-get failed"

probe
[ ${#missing[@]} -eq 0 ] || by_hand "still missing after the installation: ${missing[*]}"
