#!/usr/bin/env bash
# Links that are cut for a while between hosts that have nothing but the network in common (network,
# process, memory and name spaces), and come back. Shorter than what is set: everything waits, says
# so and goes on. Longer: both hosts end alike, or, with restarts left, meet again and go on from
# the last checkpoint, to the bits of a run that nobody cut. All cases at once, on hosts of their own.
#
# usage: outage.sh [short | long] [CASE...]
#        long: 12 s and 60 s, of either host, and again while they restart. CASE: only these
. "$GR_SOURCE/tests/launch/lib.sh"
. "$GR_SOURCE/tests/launch/netns.sh"

words=(train shapes --device cpu --n_train 64 --n_eval 16 --batch_size 4 --epochs 100000
       --max_steps 300 --val_interval 0 --save_every 10 --keep 2 --log_every 50 --progress plain
       --resume auto)
# A case that failed shows its own hosts and no others.
fail() {
    echo "FAILED: $*" >&2
    local h
    for h in ${head:-} ${other:-}; do echo "--- host $h"; grep -v '^epoch ' "$h.txt" | tail -n 25; done >&2
    exit 1
}
say() { echo "$name: $*"; }
has() { grep -qE -- "$2" "$1.txt" || fail "$name: nothing like '$2' in $1.txt"; }
has_not() { ! grep -E -- "$2" "$1.txt" || fail "$name: '$2' in $1.txt"; }
# comes HOST TEXT: until it is there, or the host has ended without it.
comes() {
    local ended= end=$((SECONDS + 180))
    until grep -qE -- "$2" "$1.txt"; do
        [ -z "$ended" ] || fail "$name: host $1 has ended without '$2'"
        [ "$SECONDS" -lt "$end" ] || fail "$name: waited in vain for '$2' of host $1"
        sleep 0.02
        ! is_gone "${pid[0]}" || ended=1
    done
}
now() { date +%s%3N; }
address() { # HOST
    local i
    for i in "${!hosts[@]}"; do [ "${hosts[i]}" != "$1" ] || echo "192.168.1.$((100 + i))"; done
}
# begin WORD...: a launcher on each host of the case; `more` has words for gradus, `late_words`
# those for the second host's launcher alone.
begin() {
    local h r=0
    for h in "$head" "$other"; do
        [ $r = 0 ] || set -- "$@" "${late_words[@]}"
        on_own "$h" "$RUN" --nnodes=2 --node_rank=$r --master_addr="$(address "$head")" \
            --master_port=29500 "$@" "$GR_BIN/gradus" "${words[@]}" --output_dir "$name" \
            "${more[@]}" >"$h.txt" 2>&1 &
        pid[$r]=$!
        r=$((r + 1))
    done
    wait_for test -e "$name/checkpoints/last.safetensors"
}
# cut HOST [SECONDS]: for ever without a number. Every second case has its interface taken down,
# which its own system knows of; for the others frames get lost somewhere.
link() { # HOST up|down
    case $how$2 in
    taken*) ip -n "$n$1" link set eth0 "$2" ;;
    lostup) ip -n "${n}bridge" link set "port$1" master br0 ;;
    lostdown) ip -n "${n}bridge" link set "port$1" nomaster ;;
    esac
}
cut() {
    link "$1" down
    [ $# = 1 ] || { sleep "$2" && link "$1" up; }
    healed=$(now)
}
end() { # CODE: both
    local r rc
    for r in 0 1; do
        rc=0
        wait "${pid[$r]}" || rc=$?
        [ "$rc" = "$1" ] || fail "$name: host $r ended with $rc, expected $1"
    done
}
same() {
    cmp whole/checkpoints/last.safetensors "$name/checkpoints/last.safetensors" ||
        fail "$name: other bits than an unbroken run has"
}

# ---- cases: HEAD OTHER NAME, then their own words ----

# survive HOST SECONDS: the limit is longer.
survive() {
    begin --rdzv-conf heartbeat_timeout=$limit
    cut "$1" "$2"
    comes "$head" 'goes on after'
    say "training went on $(($(now) - healed)) ms after an outage of $2 s"
    end 0
    has "$head" "nothing was heard of host '$other' \(.*\) for [0-9]+ s; after $limit s it is lost"
    has "$head" "has waited [0-9]+ s for rank 1 \(process [0-9]+ on '$other'; its host has not answered for"
    has "$head" "host '$other' \(.*\) is heard of again after"
    has "$other" "nothing was heard of host '.*' port 29500, which has the store, for [0-9]+ s"
    has_not "$head" 'Restart|lost:|was lost'
    same
}
# survive_alone HOST SECONDS: ranks that no launcher watches.
survive_alone() {
    local h r=0
    for h in "$head" "$other"; do
        RANK=$r WORLD_SIZE=2 MASTER_ADDR=$(address "$head") MASTER_PORT=29500 GR_TIMEOUT=$limit \
            on_own "$h" "$GR_BIN/gradus" "${words[@]}" --output_dir "$name" >"$h.txt" 2>&1 &
        pid[$r]=$!
        r=$((r + 1))
    done
    wait_for test -e "$name/checkpoints/last.safetensors"
    cut "$1" "$2"
    comes "$head" 'goes on after'
    say "training went on $(($(now) - healed)) ms after an outage of $2 s"
    end 0
    has "$other" "has waited [0-9]+ s for rank 0 \(.*; its host has not answered for [0-9]+ of at most $((limit + 2)) s"
    same
}
# lost HOST: for good. Both have the same story and the same code.
lost() {
    local start
    begin --rdzv-conf heartbeat_timeout=4
    start=$(now)
    cut "$1"
    end 1
    say "both hosts have given up $(($(now) - start)) ms after a cut, with heartbeat_timeout=4"
    has "$head" "gradrun: host '$other' \(.*\) was lost after .* s: nothing was heard of it for 4 s"
    has "$other" "gradrun: .*port 29500, which has the store, is lost and the job with it: nothing was heard of it for 4 s"
}
# late HOST SECONDS: ranks wait for less than their hosts do, and the hosts are there to tell.
late() {
    more=(--timeout 4)
    begin --rdzv-conf heartbeat_timeout=$limit
    cut "$1" "$2"
    wait "${pid[0]}" || codes[0]=$?
    wait "${pid[1]}" || codes[1]=$?
    [ "${codes[*]}" = '1 1' ] || fail "$name: the hosts ended with ${codes[*]}"
    grep -A20 '^gradrun: ' "$head.txt" >"$head.story"
    grep -A20 '^gradrun: ' "$other.txt" >"$other.story"
    diff "$head.story" "$other.story" || fail "$name: the hosts tell two stories"
    say "both hosts ended with code 1 and one story after ranks had waited 4 s"
    has "$head" "waited [4-9].[0-9] s for rank 1 \(.*its host has not answered for [0-9]+ of at most 7 s\); --timeout"
}
# rejoin HOST SECONDS [HEARTBEAT]: longer than the limit, with restarts left.
rejoin() {
    begin --max-restarts 3 --restart-delay 0.5 --rdzv-conf "heartbeat_timeout=${3:-8}"
    cut "$1" "$2"
    comes "$head" 'Resumed at step [1-9]'
    say "training went on $(($(now) - healed)) ms after an outage of $2 s, in restart 1"
    end 0
    has "$head" "host '$other' \(.*\) was lost after .* s: nothing was heard of it for ${3:-8} s"
    has "$head" 'restart 1 of 3'
    has "$other" 'this host joins again as soon as it can be reached, within 600 s'
    has "$other" 'is reached again'
    has_not "$head" 'restart 2 of 3'
    same
}
# rejoin_unseen HOST SECONDS: a host has given up, and comes again before the other one has.
rejoin_unseen() {
    late_words=(--rdzv-conf heartbeat_timeout=4)
    begin --max-restarts 3 --restart-delay 0.5 --rdzv-conf heartbeat_timeout=$limit
    cut "$1" "$2"
    comes "$head" 'Resumed at step [1-9]'
    say "training went on $(($(now) - healed)) ms after an outage of $2 s that one host took for a loss"
    end 0
    has "$head" "host '$other' \(.*\) was lost after .* s: it(s launcher ended or)? was cut off"
    same
}
# rejoin_twice HOST SECONDS WHO TEXT: the link goes again as soon as WHO has said this.
rejoin_twice() {
    begin --max-restarts 3 --restart-delay 0.5
    cut "$1" "$2"
    comes "$3" "$4"
    cut "$other" "$2"
    end 0
    say "training went on after two outages of $2 s, in $(grep -c 'Resumed at' "$head.txt") start(s) from a checkpoint"
    same
}

# run NAME COMMAND WORD...: a case in the background, on the next two hosts. `HEAD` and `OTHER`
# among the words stand for them.
names=()
run() {
    [ ${#only[@]} = 0 ] || [[ " ${only[*]} " = *" $1 "* ]] || return 0
    local how=lost name=$1 head=${hosts[2 * ${#names[@]}]} other=${hosts[2 * ${#names[@]} + 1]} w list=()
    shift
    for w in "$@"; do
        case $w in HEAD) w=$head ;; OTHER) w=$other ;; esac
        list+=("$w")
    done
    [ $((${#names[@]} % 2)) = 0 ] || how=taken
    names+=("$name")
    (
        pid=(0 0) codes=(0 0) more=() late_words=()
        "${list[@]}"
    ) >"case_$name.txt" 2>&1 &
    cases+=($!)
}
cases=()
only=("${@:2}")
if [ "${1:-}" = long ]; then
    limit=150
    make_hosts a b c d e f g h i j k l m n o p q r
else
    limit=30
    make_hosts a b c d e f g h i j k l
fi
on_own a true 2>net.txt || skip "hosts with processes of their own are not permitted: $(head -1 net.txt)"
"$RUN" --nproc-per-node 2 "$GR_BIN/gradus" "${words[@]}" --output_dir whole >whole.txt 2>&1 ||
    fail "two ranks of one host"
if [ "${1:-}" = long ]; then
    run other12 rejoin OTHER 12
    run other60 rejoin OTHER 60
    run head12 rejoin HEAD 12
    run head60 rejoin HEAD 60
    run twice12 rejoin_twice OTHER 12 OTHER 'is reached again'
    run twice60 rejoin_twice HEAD 60 HEAD 'Resumed at step [1-9]'
    run wait60 survive HEAD 60
    run alone60 survive_alone OTHER 60
    run gone lost HEAD
else
    run wait survive OTHER 11
    run alone survive_alone OTHER 11
    run gone lost OTHER
    run late late OTHER 8
    run again rejoin OTHER 8 4
    run unseen rejoin_unseen OTHER 8
fi
for i in "${!names[@]}"; do
    rc=0
    wait "${cases[i]}" || rc=$?
    cat "case_${names[i]}.txt"
    [ $rc = 0 ] || fail "${names[i]}"
done
