#!/usr/bin/env bash
# `gradus bench step`: the parts of a step add up to it, two networks in turn are compared step by
# step and node by node, and the scripts in bench/ can read what it prints.
set -euo pipefail

fail() { echo "FAILED: $*" >&2; cat out.txt >&2; exit 1; }
bench() { "$@" "$GR_BIN/gradus" bench step mlp --device cpu --starts 0 >out.txt 2>err.txt "${more[@]}"; }

more=(--steps 40 --threads 2)
bench "$GR_BIN/gradrun" --nproc-per-node 2 || fail "two ranks"
awk '$1 == "step_ms:" { sub(/.*mean /, ""); step = $1 + 0 }
    $1 == "parts_ms:" { own = $2; wait = $5; sub(/ of a step\).*/, ""); exchange = $(NF - 2) }
    END { sum = own + wait + exchange
        exit !(own > 0 && wait >= 0 && step > 0 && sum > 0.99 * step && sum < 1.01 * step) }' \
    out.txt || fail "parts do not add up"

more=(--steps 40 --threads 1 --beside 2)
bench env || fail "two networks"
grep -Eq '^speed_up: [0-9.]+ \(median of 4 pairs; ' out.txt || fail "no pairs"
awk '$1 == "nodes_ms:" { ratio = $(NF - 3); ok = $2 / $4 > 0.99 * ratio && $2 / $4 < 1.01 * ratio }
    END { exit !ok }' out.txt || fail "no nodes"
! grep -q parts_ms out.txt || fail "one rank has parts"
! bench "$GR_BIN/gradrun" --nproc-per-node 2 || fail "--beside with two ranks"
grep -q -- "--beside is for one rank" err.txt || fail "no word about --beside"

# As the scripts read it, which bind ranks to cores.
[ "$(nproc)" -ge 2 ] || { echo "one core: scaling.sh is not tried" >&2; exit 0; }
PYTHON=/bin/false ROUNDS=1 bash "$GR_SOURCE/bench/scaling.sh" 2 1 mlp:none >out.txt || fail scaling.sh
awk '$1 == "mlp:none" { ok = $3 > 0 && $4 > 0 && $7 > 0.05 } END { exit !ok }' out.txt ||
    fail "scaling.sh has no numbers"
PYTHON=/bin/false AMP=none bash "$GR_SOURCE/bench/models.sh" 1 1 mlp >out.txt || fail models.sh
awk '$1 == "mlp" && $3 == 2 { ok = $7 > 0 && $9 > 0 } END { exit !ok }' out.txt ||
    fail "models.sh has no numbers"
