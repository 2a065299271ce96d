#!/usr/bin/env bash
# A run outlives its output: stdout closed, full, or a reader that leaves.
set -euo pipefail

fail() { echo "FAILED: $*" >&2; tail -n 20 ./*.txt >&2; exit 1; }
gradus=$GR_BIN/gradus
folder=$(mktemp -d "$PWD/run.XXXXXX")
trap 'jobs -p | xargs -r kill -KILL 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
train() { # FOLDER OPTION...
    "$gradus" train shapes --output_dir "$1" --device cpu --n_train 2048 --n_eval 64 --batch_size 32 \
        --epochs 2 --log_every 1 --progress plain "${@:2}"
}
whole() { # FOLDER: its last checkpoint is there, and records are all that its metrics hold
    [ -s "$1/logs/rank_0.log" ] && grep -q '^epoch 1/' "$1/logs/rank_0.log" || fail "$1: no log"
    [ -s "$1/checkpoints/last.safetensors" ] || fail "$1: no last checkpoint"
    ! grep -qv '^{"step": .*}$' "$1/metrics.jsonl" || fail "$1: text between the records"
}

train closed >&- 2>closed.txt || fail "closed stdout"
whole closed
train all_closed <&- >&- 2>&- || fail "all closed"
whole all_closed

train full >/dev/full 2>full.txt || fail "full disk"
whole full
[ "$(grep -c 'No space left' full.txt)" = 1 ] || fail "a full disk is not told once"
"$gradus" check shapes --device cpu --n_train 64 --n_eval 8 >/dev/full 2>check.txt || fail "check on a full disk"
grep -q "No space left on device; the run goes on without it" check.txt || fail "check: $(cat check.txt)"

# Without pipefail: what counts is the trainer's own exit code.
{ train left 2>left.txt; echo $? >left.code; } | head -n 1 >head.txt
[ "$(cat left.code)" = 0 ] || fail "exit code $(cat left.code) after the reader left"
whole left
[ ! -s left.txt ] || fail "a reader that leaves is no news"

for words in "--help" "train --help" "version"; do
    rc=0
    # shellcheck disable=SC2086
    "$gradus" $words >/dev/full 2>help.txt || rc=$?
    [ "$rc" = 1 ] || fail "$words to a full disk: exit code $rc"
    grep -q 'gradus: .*No space left' help.txt || fail "$words to a full disk: no message"
done

# A terminal gets a line that redraws itself; a dumb one plain lines.
if command -v script >where.txt && script -qec true /dev/null >where.txt 2>&1 </dev/null; then
    for term in xterm dumb; do
        TERM=$term script -qec "$gradus train shapes --output_dir $term --device cpu --n_train 2048 \
            --n_eval 64 --epochs 1" /dev/null >"$term.out" </dev/null || fail "terminal $term"
    done
    grep -q $'\033' xterm.out || fail "no live line on a terminal"
    grep -q 'step 1/' xterm.out || fail "no live line of the first step"
    ! grep -q 'loss nan' xterm.out || fail "a loss that is not known yet is shown as nan"
    ! grep -q $'\033' dumb.out || fail "codes on a dumb terminal"
else
    echo "no script(1), or no terminals for it: not tried" >&2
fi
