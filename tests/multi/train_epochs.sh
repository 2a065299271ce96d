#!/usr/bin/env bash
# The loss of an epoch is the mean over its samples, of all ranks: printed, recorded and plotted, not
# that of a tiny last batch. And a run that is resumed with more epochs says what its learning rate
# does, and does what lr_schedule_on_resume says, once.
. "$GR_SOURCE/tests/launch/lib.sh"

train() { # RANKS WORD...
    expect 0 "$RUN" --nproc-per-node "$1" "$GR_BIN/gradus" train shapes --device cpu --progress plain "${@:2}"
}
values() { # FOLDER NAME: "step value" of each record that has it
    sed -n "s/.*\"step\": *\([0-9]*\),.*\"$2\": *\([0-9.e+-]*\).*/\1 \2/p" "$1/metrics.jsonl"
}
# MEAN_OF FOLDER STEPS BATCH LAST: train_loss is the mean of the steps' losses, by their samples
mean_of() {
    join <(values "$1" loss | sort -k 1b,1) <(values "$1" train_loss | sort -k 1b,1) -a 1 | sort -n |
        awk -v steps="$2" -v batch="$3" -v last="$4" '
            { n = $1 % steps == 0 ? last : batch; sum += $2 * n; all += n }
            $1 % steps == 0 { d = sum / all - $3; count++; sum = all = 0
                if (NF != 3 || d > 1e-7 || d < -1e-7) { print "step " $1 ": " $3 ", off by " d; bad = 1 } }
            END { if (count != 3) { print count " epochs"; bad = 1 } exit bad }' || fail "$1: mean of an epoch"
}

# 2 x 65 samples: two steps of 32 a rank and one of 1 a rank, which is 1/65 of the epoch.
small=(--n_train 130 --n_eval 16 --batch_size 32 --epochs 3 --log_every 1)
train 2 "${small[@]}" --output_dir two
mean_of two 3 64 2
said '^epoch 3/3: train loss [0-9.]*, accuracy'
said '^Train loss of the last epoch [0-9.]*, best [0-9.]* in epoch [1-3]; accuracy last [0-9.]*%, best [0-9.]*% at step [369]\.'
[ -s two/plots/step_loss.png ] && [ -s two/plots/loss.png ] || fail "plots: $(ls two/plots)"
head -n 1 two/metrics.csv | grep -q train_loss || fail "no column: $(head -n 1 two/metrics.csv)"
# Micro-steps, in both ways to reduce a loss: 4 steps of 2 x 2 x 8 samples.
for how in local global; do
    train 2 --n_train 128 --n_eval 16 --batch_size 8 --grad_accumulation_steps 2 --epochs 3 --log_every 1 \
        --loss_reduction "$how" --output_dir "$how"
    mean_of "$how" 4 32 32
done
# Without an evaluation an epoch has a line, and without a record one of its own.
train 1 "${small[@]}" --val_interval 0 --log_every 1000 --save_epochs 0 --output_dir quiet
said '^epoch 2/3: train loss [0-9.]*$'
[ "$(values quiet train_loss | wc -l)" = 3 ] || fail "records: $(cat quiet/metrics.jsonl)"
# Broken off in mid-epoch and resumed: the mean is of the whole epoch.
train 2 "${small[@]}" --output_dir broken --max_steps 5
said 'of the last epoch [0-9.]* \(2 of its 3 steps\), best'
train 2 --resume broken
diff <(values two train_loss) <(values broken train_loss | grep -v '^5 ') || fail "another mean"

# 4 steps an epoch; the cosine of 4 epochs has ended, and 4 more come.
rate=(--n_train 64 --n_eval 16 --batch_size 16 --lr 0.01 --warmup_steps 2 --log_every 1)
train 1 "${rate[@]}" --epochs 4 --output_dir "done"
rates() { # HOW: those of steps 16 to 32 as they should be
    awk -v how="$1" 'BEGIN { pi = atan2(0, -1)
        for (s = 17; s <= 32; s++) {
            from = how == "restart" ? 16 : 0; n = how == "restart" ? 16 : how == "stretch" ? 32 : 16
            at = s - 1 - from; share = (at - 2) / (n - 2); if (share > 1) share = 1
            printf "%d %.12g\n", s, at < 2 ? 0.01 * (at + 1) / 2 : 0.005 * (1 + cos(pi * share)) } }'
}
for how in stretch continue restart; do
    cp -r "done" $how
    train 1 --resume $how --epochs 8 --lr_schedule_on_resume $how --max_steps 25
    said "^  The run had 4 epochs and now has 8: lr_schedule_on_resume $how, the learning rate goes from 1.25e-4 at step 16 to [0-9.e-]* at step 17; "
    train 1 --resume $how --lr_schedule_on_resume $how # as a launcher starts the same command again
    ! grep -q 'The run had 4 epochs' out.txt || fail "$how: planned anew"
    paste -d ' ' <(values $how lr | awk '$1 > 16') <(rates $how) |
        awk '{ d = $2 - $4; if ($1 != $3 || d > 1e-9 || d < -1e-9) { print; bad = 1 } }
             END { exit bad || NR != 16 }' || fail "$how: rates $(values $how lr | tr '\n' ';')"
done
said 'Not used: lr_schedule_on_resume restart'
cp -r "done" silent
train 1 --resume silent --epochs 8 --max_steps 17
said 'lr_schedule_on_resume stretch, the learning rate goes from 1.25e-4 at step 16 to 5.[0-9]*e-3 at step 17; continue: 0, restart: 5e-3'
expect 2 "$GR_BIN/gradus" train shapes --lr_schedule_on_resume sideways
echo "epochs: means and rates are those of the run"
