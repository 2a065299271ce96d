#!/usr/bin/env bash
# How training scales with ranks, THREADS cores each: samples/s of one rank, of RANKS runs that have
# nothing to do with each other, of RANKS ranks together, and of PyTorch's DDP with as many.
# "efficiency" is together / independent: what the exchange costs, whatever else the machine's
# cores share. "level" is the same against RANKS times the slowest of the independent runs: ranks
# that train together go at the pace of the slowest core. "alike" leaves out that waiting: a step of
# the independent runs, in the mean, / own work + exchange of a rank, as "parts_ms" has them; it is
# the efficiency on cores that are alike. Programs take turns, ROUNDS times; medians, of ratios
# those of what stood side by side: the pace of shared cores changes from minute to minute.
#
# usage: scaling.sh RANKS [STEPS [MODEL:AMP...]]    default: 12 steps (600 of the MLP)
#        THREADS=1           of a rank; 16 cores / 8 ranks = 2 is what gradrun gives
#        CORES="0 2 4 ..."   the cores of each rank, as "0-1 2-3" for two; default: all in order
#        ROUNDS, PYTHON, GR_BIN in the environment; FLAGS="--tune" for gradus bench step;
#        UNDER="chrt -f 50": what every rank is started under, here at real-time priority
set -euo pipefail
trap 'exit 130' INT
cd "$(dirname "$0")/.."

ranks=${1:?how many ranks} steps=${2:-12}
shift $(($# < 2 ? $# : 2))
jobs=("$@")
[ ${#jobs[@]} -gt 0 ] || jobs=(resnet18:none resnet18:bf16 transformer:none transformer:bf16 mlp:none)
threads=${THREADS:-1}
places() { local r; for ((r = 0; r < ranks; r++)); do
    echo "$((r * threads))-$((r * threads + threads - 1))"; done; }
read -r -a cores <<<"${CORES:-$(places | paste -sd ' ')}"
[ ${#cores[@]} -ge "$ranks" ] || { echo "CORES has fewer than $ranks cores" >&2; exit 2; }
bin=$(realpath "${GR_BIN:-build/release/bin}") rounds=${ROUNDS:-3} python=${PYTHON:-python3}
has_torch=1
"$python" -c 'import torch.distributed' 2>/dev/null || has_torch=0
export OMP_NUM_THREADS=$threads OMP_WAIT_POLICY=PASSIVE CORES_OF_RANKS="${cores[*]}"
# Binds a rank to its cores and becomes the program.
pin='set -- $CORES_OF_RANKS -- "$@"; shift ${PLACE:-${LOCAL_RANK:-0}}; core=$1
     while [ "$1" != -- ]; do shift; done; shift; exec ${UNDER:-} taskset -c "$core" "$@"'

slowest() { awk -v n="$ranks" '$1 == "samples_per_s:" && (!k++ || $2 < min) { min = $2 }
    END { print n * min }'; }
mean_ms() { awk '$1 == "step_ms:" { sub(/.*mean /, ""); sum += $1; n++ } END { print n ? sum / n : 0 }'; }
parts_ms() { awk '$1 == "parts_ms:" { sub(/ of a step\).*/, ""); print $2, $(NF - 2) }'; }
rate() { awk '$1 == "samples_per_s:" { sum += $2 } END { print sum + 0 }'; }
over() { awk -v a="$1" -v b="$2" 'BEGIN { print (b > 0 ? a / b : 0) }'; }
median() { tr ' ' '\n' <<<"$*" | sort -g | awk '{ x[NR] = $1 } END {
    print NR ? (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2 : 0 }'; }
alone() { local r=$1; PLACE=$r sh -c "$pin" sh "$bin/gradus" bench step "$model" --device cpu \
    --amp "$amp" --threads "$threads" --starts 0 --steps "$n" ${FLAGS:-}; }
independent() { local r; for ((r = 0; r < ranks; r++)); do alone "$r" & done; wait; }
together() { "$bin/gradrun" --nproc-per-node "$ranks" sh -c "$pin" sh "$bin/gradus" bench step \
    "$model" --device cpu --amp "$amp" --threads "$threads" --starts 0 --steps "$n" ${FLAGS:-} 2>/dev/null; }
ddp() { "$bin/gradrun" --nproc-per-node "$ranks" sh -c "$pin" sh "$python" bench/models_torch.py \
    "$model" --amp "$amp" --threads "$threads" --steps "$n" --ddp 2>/dev/null; }

echo "machine: $(awk -F': ' '/^model name/ { print $2; exit }' /proc/cpuinfo), $(nproc --all) core(s)"
"$bin/gradus" version | head -1
[ "$has_torch" = 0 ] || "$python" -c 'import torch; print("PyTorch", torch.__version__)'
echo "threads: $threads per rank"
printf '%-17s %10s %12s %10s %11s %8s %8s %8s %10s %8s\n' "$ranks ranks" one independent together \
    efficiency level alike '/ one' "PyTorch" ratio
for job in "${jobs[@]}"; do
    model=${job%:*} amp=${job#*:} n=$steps
    [ "$model" != mlp ] || n=$((steps * 50))
    a=() b=() c=() d=() efficiency=() level=() alike=() times=() ratio=()
    for ((i = 0; i < rounds; i++)); do
        a+=("$(alone 0 | rate)")
        text=$(independent)
        b+=("$(rate <<<"$text")")
        slow=$(slowest <<<"$text")
        ms=$(mean_ms <<<"$text")
        text=$(together)
        c+=("$(rate <<<"$text")")
        efficiency+=("$(over "${c[i]}" "${b[i]}")")
        level+=("$(over "${c[i]}" "$slow")")
        alike+=("$(parts_ms <<<"$text" | awk -v ms="$ms" '{ print ms / ($1 + $2) }')")
        times+=("$(over "${c[i]}" "${a[i]}")")
        [ "$has_torch" = 0 ] || d+=("$(ddp | rate || true)")
        if [ "${d[i]:-0}" != 0 ]; then ratio+=("$(over "${c[i]}" "${d[i]}")"); fi
    done
    printf '%-17s %10.1f %12.1f %10.1f %11.2f %8.2f %8.2f %8.2f %10.1f %8s\n' "$job" \
        "$(median "${a[@]}")" "$(median "${b[@]}")" "$(median "${c[@]}")" \
        "$(median "${efficiency[@]}")" "$(median "${level[@]}")" "$(median "${alike[@]}")" \
        "$(median "${times[@]}")" "$(median "${d[@]:-0}")" \
        "$([ ${#ratio[@]} = 0 ] && echo - || printf '%.2f' "$(median "${ratio[@]}")")"
done
