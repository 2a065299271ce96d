#!/usr/bin/env bash
# A run that is interrupted, and a run that loses a rank, both go on later as if nothing
# had been: the last checkpoint equals that of an unbroken run.
set -euo pipefail

fail() { echo "FAILED: $*" >&2; tail -n 20 ./*.log >&2; exit 1; }
settings=(--device cpu --n_train 2048 --n_eval 256 --batch_size 16 --epochs 1000 --save_every 100
    --log_every 10 --keep 0 --progress plain)
last=checkpoints/last.safetensors
# launch FOLDER OPTION...: in place of this shell, so that $! is the launcher. It does not ignore
# $signals, whatever this test was started under.
launch() {
    exec env ${signals:+--default-signal=$signals} "$GR_BIN/gradrun" --nproc-per-node 2 \
        "$GR_BIN/gradus" train shapes --output_dir "$1" "${@:2}" >>"$1.log" 2>&1
}
wait_for() { # PATTERN FILE
    local end=$((SECONDS + 120))
    until grep -qs -- "$1" "$2"; do
        [ "$SECONDS" -lt "$end" ] || fail "nothing like '$1' in $2"
        sleep 0.02
    done
}
children_of() { # PID
    local children=()
    read -r -a children <"/proc/$1/task/$1/children" || true # the line has no end
    echo "${children[@]}"
}
pid_of_rank() { # RANK LAUNCHER: the launcher's child watches the ranks
    local agent child
    for agent in $(children_of "$2"); do
        for child in $(children_of "$agent"); do
            tr '\0' '\n' <"/proc/$child/environ" | grep -x "RANK=$1" >child.txt && echo "$child"
        done
    done
}

folder=$(mktemp -d "$PWD/run.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"
(launch whole "${settings[@]}" --max_steps 400) || fail "unbroken run"

# Ctrl-C: the step is finished, the state saved, the command to go on told.
launch stopped "${settings[@]}" --max_steps 400000 &
pid=$!
wait_for ' step 20/' stopped.log
kill -INT "$pid"
rc=0
wait "$pid" || rc=$?
[ "$rc" = 130 ] || fail "exit code $rc after SIGINT, expected 130"
grep -q '^Stopped by SIGINT after step [0-9]* of' stopped.log || fail "no word of the stop"
grep -q '^Go on with: .* train shapes --resume stopped$' stopped.log ||
    fail "no resume command"
(launch stopped --resume last --max_steps 400 --progress plain) || fail "resume after SIGINT"
cmp "whole/$last" "stopped/$last" || fail "other bits after SIGINT"

# A terminal that goes away is a request to stop too, unless it is ignored (nohup).
signals=HUP launch hung "${settings[@]}" --max_steps 400000 &
pid=$!
wait_for ' step 20/' hung.log
kill -HUP "$pid"
rc=0
wait "$pid" || rc=$?
[ "$rc" = 129 ] || fail "exit code $rc after SIGHUP, expected 129"
grep -q '^Stopped by SIGHUP after step' hung.log || fail "no word of the SIGHUP"
(trap '' HUP; launch nohup "${settings[@]}" --max_steps 400000) &
pid=$!
wait_for ' step 20/' nohup.log
kill -HUP "$pid"
lines=$(wc -l <nohup.log)
for _ in $(seq 1 5000); do # it goes on
    [ "$(wc -l <nohup.log)" -lt $((lines + 10)) ] || break
    sleep 0.02
done
kill -TERM "$pid"
rc=0
wait "$pid" || rc=$?
[ "$rc" = 143 ] || fail "exit code $rc after SIGTERM, expected 143: the ignored SIGHUP counted"
grep -q '^Stopped by SIGTERM after step' nohup.log || fail "no word of the SIGTERM"

# One rank is told: all stop and save together, and that is no failure.
launch told "${settings[@]}" --max_steps 400000 &
pid=$!
wait_for ' step 20/' told.log
kill -TERM "$(pid_of_rank 1 "$pid")"
rc=0
wait "$pid" || rc=$?
[ "$rc" = 143 ] || fail "exit code $rc after SIGTERM to rank 1, expected 143"
grep -q '^gradrun: stopped; rank [01]: exit code 143' told.log || fail "not 'stopped'"
! grep -q 'failed first' told.log || fail "an orderly stop is called a failure"

# Slurm's --signal=USR1@60, with restarts allowed: a clean stop, and nothing starts again.
(exec "$GR_BIN/gradrun" -n 2 --max-restarts 2 "$GR_BIN/gradus" train shapes --output_dir slurm \
    "${settings[@]}" --max_steps 400000 >slurm.log 2>&1) &
pid=$!
wait_for ' step 20/' slurm.log
kill -USR1 "$pid"
rc=0
wait "$pid" || rc=$?
[ "$rc" = 138 ] || fail "exit code $rc after SIGUSR1, expected 138"
grep -q '^Stopped by SIGUSR1 after step' slurm.log || fail "no word of the SIGUSR1"
grep -q '^gradrun: stopped; rank [01]: exit code 138' slurm.log || fail "SIGUSR1 is not 'stopped'"
! grep -qE 'failed first|restart 1' slurm.log || fail "a stop by SIGUSR1 is called a failure"

# A rank dies: its peer says which one, and the launcher names it.
launch killed "${settings[@]}" --max_steps 400000 &
pid=$!
wait_for . killed/checkpoints/last.safetensors
kill -KILL "$(pid_of_rank 1 "$pid")"
rc=0
wait "$pid" || rc=$?
[ "$rc" = 137 ] || fail "exit code $rc after SIGKILL, expected 137"
grep -q 'gradus: another rank failed: .*rank 1' killed.log || fail "rank 0 does not name rank 1"
grep -q 'gradrun: rank 1 .*signal 9' killed.log || fail "gradrun does not name rank 1"
grep -q '^The last checkpoint is of step [1-9][0-9]*\. Go on with: .*gradrun --nproc-per-node 2 .*gradus train shapes --resume killed$' \
    killed.log || fail "no resume command after SIGKILL"
[ "$(grep -c 'Go on with' killed.log)" = 1 ] || fail "the resume command is told twice"
(launch killed --resume last --max_steps 400 --progress plain) || fail "resume after SIGKILL"
cmp "whole/$last" "killed/$last" || fail "other bits after SIGKILL"

# In the middle of a long validation: it is left at once, without scores, and comes first in a
# resume; best model, plateau and bits are those of an unbroken run. By a signal, then by a file.
long=(--device cpu --n_train 64 --n_eval 40000 --valid_batch_size 1 --batch_size 8 --epochs 2
    --max_steps 8 --lr_schedule plateau --lr_patience 0 --val_interval 4 --progress plain)
(launch long "${long[@]}") || fail "unbroken run with long validations"
for how in signal file; do
    for _ in 1 2 3 4 5; do # a busy machine may be late
        rm -rf left left.log
        launch left "${long[@]}" &
        pid=$!
        wait_for ' step 4/4' left.log
        rc=0
        if [ $how = signal ]; then kill -TERM "$pid"; else touch left/STOP; fi
        wait "$pid" || rc=$?
        ! grep -q validation.loss left.log || continue
        break
    done
    [ "$rc" = "$([ $how = signal ] && echo 143 || echo 0)" ] || fail "exit code $rc: validation left"
    grep -q 'after step 4 of 8; the state is saved' left.log || fail "no stop in a validation"
    grep -q '^The validation was left; it comes first' left.log || fail "no word of the validation"
    ! grep -q val_loss left/metrics.jsonl || fail "scores of half a validation"
    [ ! -e left/checkpoints/best_model.safetensors ] || fail "half a validation was the best"
    (launch left --resume last --max_steps 8 --progress plain) || fail "resume after a validation left"
    cmp "long/$last" "left/$last" || fail "other bits after a validation was left ($how)"
    cmp {long,left}/checkpoints/best_model.safetensors || fail "another best model"
    diff <(grep -o '"step": *[0-9]*,.*val_loss[^,]*' long/metrics.jsonl | sed 's/"time[^,]*,//') \
        <(grep -o '"step": *[0-9]*,.*val_loss[^,]*' left/metrics.jsonl | sed 's/"time[^,]*,//') ||
        fail "other validations"
done

# Told to stop before its first step after a resume: nothing new to save, on any rank.
launch early "${settings[@]}" --max_steps 30 &
wait $! || fail early
(launch early --resume last --max_steps 30 --progress plain) || fail "a resume with nothing left to do"
grep -q '^Done after 30 steps' early.log || fail "nothing left to do"
