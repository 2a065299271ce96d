#!/usr/bin/env bash
# What settings do, on 1, 2, 3 and 4 ranks: batch and rate as the guides count them (P37, P44),
# as many steps on every rank (P3), stopping and judging together (P5, P35), warm-up within the
# run (P38), and refusals with numbers.
set -euo pipefail

fail() { echo "FAILED: $*" >&2; tail -n 25 ./*.log >&2; exit 1; }
gradus=$GR_BIN/gradus
folder=$(mktemp -d "$PWD/run.XXXXXX")
trap 'jobs -p | xargs -r kill -KILL 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
small=(--device cpu --n_eval 61 --progress plain --save_every 0)
train() { # RANKS FOLDER OPTION...
    timeout 300 "$GR_BIN/gradrun" --nproc-per-node "$1" "$gradus" train shapes --output_dir "$2" \
        "${small[@]}" "${@:3}" >"$2.log" 2>&1
}
says() { grep -q -- "$2" "$1.log" || fail "$1: no '$2'"; }

# The number of samples divides by nothing; steps are the same on every rank.
for ranks in 1 2 3 4; do
    train "$ranks" "lr$ranks" --n_train 101 --batch_size 8 --epochs 2 --lr 1e-3 --lr_scaling linear \
        --clip_norm 1 --log_every 1 --warmup_steps 1000 || fail "$ranks ranks"
    says "lr$ranks" "Learning rate: 1e-3 x $ranks (linear) = ${ranks}e-3"
    says "lr$ranks" "batch 8 x $ranks ranks\? x 1 accumulation = $((8 * ranks))"
    [ "$(grep -c "^  Rank $((ranks - 1)): .*CPU" "lr$ranks.log")" = 1 ] || fail "no line of the last rank"
    steps=$(((101 + ranks - 1) / ranks))
    steps=$(((steps + 7) / 8))
    says "lr$ranks" "Done after $((2 * steps)) steps"
    says "lr$ranks" "warm-up $((2 * steps)) steps"
    [ "$(grep -c '"data_share": .*"compute_share": .*"exchange_share": ' "lr$ranks/metrics.jsonl")" = \
        $((2 * steps)) ] || fail "shares of time of $ranks"
    [ "$(grep -c grad_norm "lr$ranks/metrics.jsonl")" = $((2 * steps)) ] || fail "norms of $ranks"
done
# Loader threads: 4, at most the rank's cores; or as many as are asked for.
threads=$(($(nproc) / 2 < 4 ? $(nproc) / 2 : 4))
says lr2 "samples, $((threads > 1 ? threads : 1)) loader threads\? per rank, 2 batches ahead"
train 2 none --n_train 64 --batch_size 8 --epochs 1 --lr 1e-4 --workers 3 || fail none
says none "samples, 3 loader threads per rank"
says none "Learning rate: 1e-4 (not scaled; by 2 ranks linear would be 2e-4, sqrt 1.41e-4)"
train 4 effective --n_train 512 --effective_batch 128 --accumulate 2 --epochs 1 || fail effective
says effective "batch 16 x 4 ranks x 2 accumulation = 128"
! train 3 uneven --n_train 512 --effective_batch 128 --epochs 1 || fail "128 for 3 ranks"
says uneven "126 and 129 are"

# Too few samples, and many that are taken twice.
! train 4 few --n_train 3 --batch_size 1 || fail "3 samples on 4 ranks"
says few "3 training samples for 4 ranks; use at most 3"
train 4 padded --n_train 5 --batch_size 1 --epochs 1 || fail padded
says padded "5 samples on 4 ranks: 3 are taken twice"

# More loader threads than cores are taken as asked for, and one line says what fits.
share=$(($(nproc) / 2 > 0 ? $(nproc) / 2 : 1))
train 2 many --n_train 64 --batch_size 8 --epochs 1 --num_workers $((share + 3)) || fail "many workers"
says many "num_workers $((share + 3)): the suggested most is $share, the cores\? of a rank; more"
says many " $((share + 3)) loader threads per rank"
[ "$(grep -c 'suggested most' many.log)" = 1 ] || fail "said by both ranks"
train 2 few_workers --n_train 64 --batch_size 8 --epochs 1 --num_workers "$share" || fail "as many as cores"
! grep -q 'suggested most' few_workers.log || fail "as many workers as cores are too many"

# Steps that are skipped are counted in every record, although their norm is no number.
train 2 skipped --n_train 64 --batch_size 8 --epochs 1 --amp fp16 --init_scale 1e30 --log_every 1 ||
    fail skipped
says skipped "^4 of 4 steps skipped: their gradients were not finite"
[ "$(grep -c '"loss_scale": .*"skipped": [1-4]' skipped/metrics.jsonl)" = 4 ] || fail "not 4 records"

# Early stopping: nothing is ever better by 10, so the run ends after 1 + 2 evaluations, on
# all ranks together; and stays ended.
for ranks in 1 3; do
    train "$ranks" "early$ranks" --n_train 96 --batch_size 8 --epochs 50 --patience 2 --min_delta 10 \
        --best_by loss || fail "early stop on $ranks"
    says "early$ranks" "loss has not improved by min_delta 10 in 2 evaluations"
    # Behind the line that may call the same evaluation the best.
    grep -A1 '^epoch 3/50: ' "early$ranks.log" | grep -q '^loss has not improved' || fail "order of lines"
    [ "$(grep -c '^epoch ' <(grep validation "early$ranks.log"))" = 3 ] || fail "not 3 evaluations"
done
timeout 300 "$gradus" train shapes --resume early1 >again.log 2>&1 || fail "resume of an ended run"
says again "Done after 36 steps"
# What is proposed then does train on.
says again "Nothing was left to train"
says again "To train on from here: .*--resume early1 --patience 0$"
timeout 300 "$gradus" train shapes --resume early1 --patience 0 --epochs 4 >more.log 2>&1 || fail "on after an early stop"
says more "Done after 48 steps"
timeout 300 "$gradus" train shapes --resume early1 --patience 0 --epochs 2 >past.log 2>&1 || fail "past the last epoch"
says past "Nothing was left to train"
says past "--resume early1 --epochs 6"
train 1 unsaved --n_train 96 --batch_size 8 --max_steps 1 --save_last false --save_best false || fail unsaved
! grep -q "To train on" unsaved.log || fail "a command to go on from nothing"

# Settings that act on nothing are told, one line each, and only when they were given.
train 1 idle --n_train 64 --batch_size 8 --effective_batch 16 --epochs 1 --patience 3 --val_interval 0 \
    --lr_milestones 3 --pretrained_map a=b --init_scale 4 --zero 1 --sync_bn || fail idle
says idle "Not used: train.batch_size 8: effective_batch 16 makes it 16"
for key in train.early_stopping.patience train.lr_scheduler.milestones model.pretrained_map \
    train.init_scale ddp.zero ddp.sync_bn; do
    says idle "Not used: $key: "
done
train 2 idle2 --n_train 64 --batch_size 8 --epochs 1 --min_delta 1 --sync_bn || fail idle2
says idle2 "Not used: train.early_stopping.min_delta: "
says idle2 "Not used: ddp.sync_bn: the model has no batch norm"
# So are those of another optimiser, with the place; a file that lists defaults says nothing.
printf 'train:\n  optimizer:\n    eps: 1e-8\n    betas: [0.8, 0.9]\n    momentum: 0.5\n' >adam.yaml
train 1 idle3 --n_train 64 --batch_size 8 --epochs 1 --optim adamw --momentum 0.9 --beta1 0.8 || fail idle3
says idle3 "Not used: train.optimizer.momentum: it is for sgd, and the optimiser is adamw (flag '--momentum')"
[ "$(grep -c "Not used" idle3.log)" = 1 ] || fail "more than momentum: $(grep "Not used" idle3.log)"
train 1 idle4 --config adam.yaml --n_train 64 --batch_size 8 --epochs 1 --optim sgd || fail idle4
says idle4 "Not used: train.optimizer.betas: it is for adam and adamw, and the optimiser is sgd (adam.yaml:4)"
[ "$(grep -c "Not used" idle4.log)" = 1 ] || fail "more than betas: $(grep "Not used" idle4.log)"
train 1 idle5 --config idle3/config.yaml --momentum 0 --optim sgd --epochs 1 || fail idle5
[ "$(grep -c "Not used" idle5.log)" = 1 ] || fail "not beta1 alone: $(grep "Not used" idle5.log)"
! grep -q "Not used" more.log || fail "told of what nobody gave: $(grep "Not used" more.log)"
! train 1 limit --n_train 64 --memory_limit 1000 || fail "memory_limit does nothing"
says limit "and memory_limit is 1000 B"

# Flags before the command, as launchers put them; names of another recipe.
timeout 300 "$gradus" --local-rank=0 --epochs 1 train shapes --n_train 64 --device cpu --n_eval 8 \
    --output_dir front >front.log 2>&1 || fail "flags before the command"
! "$gradus" train shapes --model.name x >other.log 2>&1 || fail "a name of vision"
says other "recipe 'shapes' has no such setting; recipe 'vision' has"
! train 1 metric --n_train 96 --best_by acuracy || fail "unknown metric"
says metric "no metric 'acuracy'; it has accuracy"
! train 1 metrics --n_train 96 --best_by nosuch || fail "a metric like none"
says metrics "no metric 'nosuch'; it has accuracy, loss"
! train 1 steps --n_train 96 --lr_schedule multistep || fail "multistep without steps"
says steps "there are none: give them, as in --lr_milestones"

# Averages, value clipping, all optimisers and schedules, the norm without clipping.
train 2 ema --n_train 96 --batch_size 8 --epochs 2 --ema_decay 0.9 --clip_value 0.5 --optimizer adam \
    --lr_schedule plateau --lr_patience 0 --lr_gamma 0.5 --best_by accuracy --best_direction min \
    --log_grad_norm --log_every 1 || fail ema
grep -q grad_norm ema/metrics.jsonl || fail "no norm without clipping"
train 2 sched --n_train 96 --batch_size 8 --epochs 2 --optimizer sgd --momentum 0.9 --nesterov \
    --lr_schedule multistep --lr_milestones 1 --lr_by_epoch --warmup_steps 0 --lr 0.1 --log_every 1 \
    --decay_all=false --no_decay 'fc1.*' || fail sched
printf 'train:\n  optimizer:\n    no_decay: ["*.bias", "fcl.*"]\n' >typo.yaml
! train 2 typo --config typo.yaml --n_train 96 --batch_size 8 || fail "a pattern without a parameter"
says typo "typo.yaml:3: train.optimizer.no_decay: no parameter is called 'fcl.\*'; the nearest: 'fc1.weight'"
[ "$(grep -c '"lr": 0.01' sched/metrics.jsonl)" = 6 ] || fail "milestones: $(cat sched/metrics.jsonl)"
train 1 amp --n_train 96 --batch_size 8 --epochs 1 --use_amp || fail amp
says amp "Precision: bf16"
GR_CPU=avx2 train 1 slow --n_train 96 --batch_size 8 --epochs 1 --use_amp || fail "bf16 without instructions for it"
says slow "Precision: bf16 activations; no faster than f32 here, often slower: there is neither AMX nor AVX512_BF16"

# The exchange: optimiser state cut up gives the same numbers, half floats others; parameters
# are compared (P34).
numbers() { sed 's/, "\(samples_per_s\|[a-z]*_share\)": [^,}]*//g' "$1/metrics.jsonl"; }
wire=(--n_train 96 --batch_size 8 --epochs 2 --log_every 1 --check_every 3)
train 3 whole "${wire[@]}" || fail whole
train 3 zero "${wire[@]}" --zero 1 || fail zero
train 3 half "${wire[@]}" --grad_dtype bf16 --sync_bn || fail half
diff <(numbers whole) <(numbers zero) || fail "zero: other numbers"
! diff <(numbers whole) <(numbers half) >diff.log || fail "grad_dtype does nothing"

# Where every sample counts, the mean over all is the mean of means, in the log too.
losses() { sed 's/.*"loss": \([0-9.]*\).*/\1/' "$1/metrics.jsonl" | cut -c1-5; }
train 2 local "${wire[@]}" --accumulate 2 || fail local
train 2 global "${wire[@]}" --accumulate 2 --loss_reduction global || fail global
diff <(losses local) <(losses global) || fail "loss_reduction: other losses"

# The file STOP ends a run in order, on all ranks, and is gone afterwards.
train 2 stop --n_train 96 --batch_size 8 --epochs 100000000 --log_every 1000000 &
pid=$!
end=$((SECONDS + 120))
until grep -qs '^epoch 3/' stop.log; do
    [ "$SECONDS" -lt "$end" ] || fail "no epoch 3"
    sleep 0.02
done
touch stop/STOP
wait "$pid" || fail "STOP is no failure"
says stop "Stopped by the file stop/STOP after step"
[ ! -e stop/STOP ] || fail "STOP stays"
timeout 300 "$GR_BIN/gradrun" --nproc-per-node 2 "$gradus" train shapes --resume stop \
    --max_steps 1 >on.log 2>&1 || fail "resume after STOP"
says on "Resumed at step"

# The log's level is that of all ranks; GR_LOG wins over it.
train 2 level --n_train 64 --batch_size 8 --epochs 1 --log_level debug || fail level
grep -q " D r1 " level.log || fail "no debug lines of rank 1"
GR_LOG=warn train 2 quiet --n_train 64 --batch_size 8 --epochs 1 --log_level DEBUG || fail quiet
! grep -q " [DI] r[01] " quiet.log || fail "GR_LOG does not win over log_level"
