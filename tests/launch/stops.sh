#!/usr/bin/env bash
# Stops jobs as people, service managers, batch systems and timeout(1) do: a signal to the front, to
# front and agent, to every process of the job, to the process group, or more than once. Whatever the
# way, it is one stop: the state is saved and can be gone on from, the exit code is 128 plus the signal,
# nothing is started again, and no process and no file in TMPDIR is left.
#
# usage: stops.sh [TRIALS [FIRST]]       168 in a row have all combinations; SEED=N repeats a sequence
. "$GR_SOURCE/tests/launch/lib.sh"

n_trials=${1:-12}
first=${2:-0}
SEED=${SEED:-$RANDOM}
RANDOM=$SEED
echo "stops: $n_trials trials from $first on, SEED=$SEED"
mkdir tmp
export TMPDIR=$PWD/tmp
mark=STOPS_MARK=stops_$$ # in the environment of everything that belongs to a job

# Numbers without common factors: counting up visits all combinations.
signals=(TERM:143 INT:130 HUP:129)
ways=(front agent all reversed group twice timeout)
jobs=(gradus other gradus:restarts other:restarts gradus:hosts other:hosts
    gradus:hosts:restarts other:hosts:restarts)

# Not of Gradus: takes its time to save, ends with 0, and a second signal kills it.
cat >rank.sh <<'END'
#!/bin/bash
save() { trap - TERM INT HUP; sleep 0.4; echo saved >>"saved$RANK"; exit 0; }
trap save TERM INT HUP
echo "start $TORCHELASTIC_RESTART_COUNT" >>"up$RANK"
while :; do sleep 0.02; done
END
chmod +x rank.sh
settings=(--device cpu --n_train 2048 --n_eval 256 --batch_size 16 --epochs 100000 --log_every 10
    --save_every 1000000 --progress plain --output_dir run)

tree() { # PID: itself, then all below it
    local p children
    echo "$1"
    cat "/proc/$1/task/"*/children 2>/dev/null >children.tmp || true
    read -r -a children <children.tmp || true
    for p in "${children[@]}"; do tree "$p"; done
}
# launch NAME OPTION...: a launcher in a process group of its own; output in NAME.txt.
launch() {
    local name=$1 before=()
    shift
    [ "$way" != timeout ] || before=(timeout --preserve-status 1000)
    setsid env --default-signal=INT,QUIT,HUP "$mark" "${before[@]}" "$RUN" "$@" "${program[@]}" \
        >"$name.txt" 2>&1 &
    pid[$name]=$!
}
begin() {
    local options=() port
    declare -gA pid=()
    rm -rf run saved* up* ./*.txt
    program=("$GR_BIN/gradus" train shapes "${settings[@]}")
    [[ $job == gradus* ]] || program=("$PWD/rank.sh")
    [[ $job != *restarts ]] || options=(--max-restarts 2 --restart-delay 0)
    if [[ $job == *hosts* ]]; then
        port=$(free_port)
        for n in 0 1; do
            launch host$n --nnodes 2 --node-rank $n --master-addr 127.0.0.1 --master-port "$port" \
                --nproc-per-node 1 "${options[@]}"
        done
    else
        launch host0 --nproc-per-node 2 "${options[@]}"
    fi
    if [[ $job == gradus* ]]; then
        wait_for grep -q ' step 20/' host0.txt
    else
        wait_for test -s up0 -a -s up1
    fi
}
send() { # WORD...: pids or groups; some may be gone
    kill -"$name" -- "$@" 2>/dev/null || true
}
stop() {
    local one=${pid[host$((RANDOM % ${#pid[@]}))]} all p
    sleep "0.$(printf %03d $((RANDOM % 200)))"
    case $way in
    front | timeout) send "$one" ;;
    agent) send "$one" "$(tree "$one" | sed -n 2p)" ;;
    all | reversed) # of all hosts, as a batch system does
        for p in "${pid[@]}"; do tree "$p"; done >all.tmp
        [ $way = all ] || { tac all.tmp >reversed.tmp && mv reversed.tmp all.tmp; }
        mapfile -t all <all.tmp
        send "${all[@]}"
        ;;
    group) send "-$one" ;;
    twice)
        send "$one"
        for p in 0.005 "0.$(printf %03d $((RANDOM % 1000)))" 0.9; do sleep $p; send "$one"; done
        ;;
    esac
}
check_gradus() {
    local step
    step=$(sed -n "s/^Stopped by SIG$name after step \([0-9]*\) of .*; the state is saved.$/\1/p" host0.txt)
    [ "$step" ] || fail "$what: no word of the stop"
    "$GR_BIN/gradrun" --nproc-per-node 2 "$GR_BIN/gradus" train shapes --resume run \
        --max_steps $((step + 2)) --progress plain >resume.txt 2>&1 || fail "$what: it does not go on"
    grep -q " Resumed at step $step from run/checkpoints/last.safetensors" resume.txt ||
        fail "$what: it goes on elsewhere than after step $step"
}
check() {
    local h rc
    for h in "${!pid[@]}"; do
        wait_for is_gone "${pid[$h]}"
        rc=0
        wait "${pid[$h]}" || rc=$?
        [ $rc = "$code" ] || fail "$what: $h ended with $rc"
        grep -q "^gradrun: stopped by SIG$name; " "$h.txt" || fail "$what: $h does not say 'stopped'"
        ! grep -qE 'restart 1|failed first' "$h.txt" || fail "$what: a failure on $h"
    done
    no_survivors "$mark" || fail "$what: processes are left: $(survivors "$mark" | tr '\n' ' ')"
    [ -z "$(ls tmp)" ] || fail "$what: files are left: $(ls tmp)"
    if [[ $job == gradus* ]]; then
        check_gradus
        return
    fi
    for h in 0 1; do
        [ "$(cat "up$h" "saved$h" 2>/dev/null)" = $'start 0\nsaved' ] ||
            fail "$what: rank $h did not start once and save once"
    done
}

for ((i = first; i < first + n_trials; i++)); do
    IFS=: read -r name code <<<"${signals[i % 3]}"
    way=${ways[i % 7]}
    job=${jobs[i % 8]}
    what="trial $i (SIG$name, $way, $job)"
    [ -z "${VERBOSE:-}" ] || echo "$what"
    begin
    stop
    check
done
echo "stops: $n_trials trials, none lost"
