#!/usr/bin/env bash
# Attention of gradus and of PyTorch in turns on one machine, forward and backward, one thread
# and two, f32 and bf16: milliseconds, GF/s, and the ratio of times (above 1: gradus is faster).
#
# PYTHON=... chooses the interpreter whose PyTorch is measured; without one only gradus is.
# oneDNN, which PyTorch uses for bf16, takes AMX for granted on some virtual machines that do
# not have it and dies; TORCH_ISA=AVX512_CORE_BF16 (the default here) keeps it from that, and
# TORCH_ISA=ALL lets it have its way.
#
# usage: attention_torch.sh [ROUNDS]      default 3: of each the best of 20 runs, the best counts
set -euo pipefail
trap 'exit 130' INT
cd "$(dirname "$0")/.."

rounds=${1:-3}
bin=${GR_BIN:-build/release/bin}
program=$(dirname "$bin")/bench/attention
python=${PYTHON:-python3}
n_cores=$(nproc) # before OMP_NUM_THREADS, which nproc heeds

[ -x "$program" ] || { echo "attention_torch.sh: no $program; run 'make bench' first" >&2; exit 1; }
has_torch=1
"$python" -c 'import torch' 2>/dev/null || {
    has_torch=0
    echo "attention_torch.sh: '$python' cannot import torch; PyTorch is left out (set PYTHON=...)"
}

echo "machine: $(awk -F': ' '/^model name/ { print $2; exit }' /proc/cpuinfo), $n_cores core(s)"
"$bin/gradus" version
[ "$has_torch" = 1 ] && "$python" -c 'import torch; print("PyTorch", torch.__version__)'
for threads in 1 2; do
    [ "$threads" -le "$n_cores" ] || continue
    for ((i = 0; i < rounds; i++)); do
        "$program" --threads "$threads" --rounds 20 --best
        if [ "$has_torch" = 1 ]; then
            OMP_NUM_THREADS=$threads ONEDNN_MAX_CPU_ISA=${TORCH_ISA:-AVX512_CORE_BF16} \
                "$python" bench/attention_torch.py --threads "$threads" --rounds 20
        fi
    done | awk -v threads="$threads" '
        $4 == "forward" {
            key = $1 " " $2
            who = $3 == "torch" ? "torch" : "gradus"
            if (who == "gradus") kernel[key] = $3
            if (!(key in seen)) { seen[key] = 1; order[++n] = key }
            if (!((key, who) in f) || $5 < f[key, who]) { f[key, who] = $5; f_gf[key, who] = $7 }
            if (!((key, who) in b) || $10 < b[key, who]) { b[key, who] = $10; b_gf[key, who] = $12 }
        }
        END {
            printf "%d thread(s)%39s forward%22s backward%15s both\n", threads, "", "", ""
            for (i = 1; i <= n; i++) {
                k = order[i]
                split(k, part, " ")
                printf "%-22s %-4s %-7s %8.3f ms %6.0f GF/s", part[1], part[2], kernel[k], \
                    f[k, "gradus"], f_gf[k, "gradus"]
                if ((k, "torch") in f)
                    printf " torch %8.3f ms %5.2f x", f[k, "torch"], f[k, "torch"] / f[k, "gradus"]
                printf "  %8.3f ms %6.0f GF/s", b[k, "gradus"], b_gf[k, "gradus"]
                if ((k, "torch") in f)
                    printf " torch %8.3f ms %5.2f x   %5.2f x", b[k, "torch"], \
                        b[k, "torch"] / b[k, "gradus"], \
                        (f[k, "torch"] + b[k, "torch"]) / (f[k, "gradus"] + b[k, "gradus"])
                printf "\n"
            }
        }'
done
