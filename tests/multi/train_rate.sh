#!/usr/bin/env bash
# One loop owns schedule and optimiser: the rate of every step is the warm-up's, then the
# schedule's, taken once per step whatever the accumulation, ranks and precision; a resumed run
# goes on in the middle of it, and the loss scale is not begun anew. P39.
. "$GR_SOURCE/tests/launch/lib.sh"

words=(train shapes --device cpu --n_train 512 --n_eval 32 --batch_size 16 --epochs 2 --log_every 1
       --grad_accumulation_steps 2 --amp fp16 --lr 0.01 --warmup_steps 4 --lr_schedule cosine
       --progress plain --output_dir run)
expect 0 "$RUN" --nproc-per-node 2 "$GR_BIN/gradus" "${words[@]}" --max_steps 7
expect 0 "$RUN" --nproc-per-node 2 "$GR_BIN/gradus" train shapes --device cpu --resume run --max_steps 0
# 512 samples / (16 x 2 ranks x 2 micro-steps) = 8 steps per epoch, 16 in all.
grep '"lr"' run/metrics.jsonl | sed 's/.*"step": *\([0-9]*\).*"lr": *\([0-9.e-]*\).*/\1 \2/' >rates.txt
awk 'function near(a, b) { return a - b < 1e-6 && b - a < 1e-6 }
     { step = $1; want = step <= 4 ? 0.01 * step / 4 : 0
       if (step != NR) { print "step " step " where " NR " comes"; bad = 1 }
       if (step <= 4 && !near($2, want)) { print "step " step ": rate " $2 ", not " want; bad = 1 }
       if (step > 5 && !($2 < before)) { print "step " step ": the rate does not fall"; bad = 1 }
       before = $2 }
     END { if (NR != 16) { print NR " steps, not 16"; bad = 1 } exit bad }' rates.txt ||
    fail "rates: $(tr '\n' ';' <rates.txt)"
