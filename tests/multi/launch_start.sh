#!/usr/bin/env bash
# How long a start takes, how much memory the launcher needs, and 256 ranks. The times are printed;
# what is checked leaves room for a busy machine.
. "$GR_SOURCE/tests/launch/lib.sh"

# start_us N: microseconds from the start of gradrun until the last of N ranks has passed a barrier.
start_us() {
    local begin=${EPOCHREALTIME/./}
    "$RUN" --nproc-per-node "$1" "$WORKER" store >out.txt 2>err.txt || fail "$1 ranks"
    [ "$(grep -c "of $1 .* met the others" out.txt)" = "$1" ] || fail "not all of $1 ranks"
    echo $(($(sed 's/.* at \([0-9]*\) us$/\1/' out.txt | sort -n | tail -1) - begin))
}
best=
for _ in 1 2 3 4 5 6 7 8; do
    us=$(start_us 2)
    [ -n "$best" ] && [ "$best" -le "$us" ] || best=$us
done
echo "two ranks passed a barrier $best us after the start (best of 8)"
[ "$best" -lt 10000000 ] || fail "two ranks took $best us"
begin=$(milliseconds)
us=$(start_us 256)
took=$(($(milliseconds) - begin))
echo "256 ranks passed a barrier after $((us / 1000)) ms and had ended after $took ms"
grep -qE '__(asan|tsan)_init' "$RUN" && exit 0 # memory and time are other ones there
[ "$took" -lt 100000 ] || fail "256 ranks took $took ms"

"$RUN" --nproc-per-node 256 sh -c 'yes | head -c 50000; echo up >>ups; exec sleep 1000' >/dev/null 2>&1 &
job=$!
ups() { [ "$(wc -l <ups)" = 256 ]; }
touch ups
wait_for ups
read -r -a agent <"/proc/$job/task/$job/children" || true
kb=0
for p in $job "${agent[0]}"; do
    kb=$((kb + $(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$p/status")))
done
echo "launcher and agent of 256 ranks: $kb kB"
[ "$kb" -lt 10240 ] || fail "the launcher needs $kb kB"
kill -KILL $job
wait $job 2>/dev/null || true
