#!/usr/bin/env python3
"""PyTorch's side of bench/attention_torch.sh: scaled_dot_product_attention, forward and
backward, on the shapes of bench/attention.c; the best of many rounds counts.

usage: attention_torch.py [--threads N] [--rounds N]
"""

import argparse
import time

import torch

FORMS = [
    ("b4_h6_n256_d64", 4, 6, 256, 256, 64, False),
    ("b4_h6_n256_d64_causal", 4, 6, 256, 256, 64, True),
    ("b4_h8_n640_d32", 4, 8, 640, 640, 32, False),
    ("b4_h8_n640x256_d32", 4, 8, 640, 256, 32, False),
]


def run(form, dtype, rounds):
    name, b, heads, nq, nk, d, causal = form
    # token-major in memory, as a projection leaves it
    q, k, v = ((torch.rand(b, n, heads, d) * 2 - 1).to(dtype).requires_grad_()
               for n in (nq, nk, nk))
    grad = (torch.rand(b, nq, heads, d) * 2 - 1).to(dtype)
    best = [1e9, 1e9]
    for _ in range(rounds):
        q.grad = k.grad = v.grad = None
        began = time.perf_counter()
        o = torch.nn.functional.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=causal)
        o = o.transpose(1, 2)
        middle = time.perf_counter()
        o.backward(grad)
        ended = time.perf_counter()
        best = [min(best[0], middle - began), min(best[1], ended - middle)]
    product = 2 * b * heads * nq * nk * d * (0.5 if causal else 1)
    kind = "f32" if dtype == torch.float32 else "bf16"
    print(f"{name:22} {kind:4} torch     forward {best[0] * 1e3:8.3f} ms "
          f"{2 * product / best[0] * 1e-9:7.1f} GF/s backward {best[1] * 1e3:8.3f} ms "
          f"{5 * product / best[1] * 1e-9:7.1f} GF/s", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rounds", type=int, default=30)
    args = p.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    print(f"PyTorch {torch.__version__}, {args.threads} thread(s)")
    for form in FORMS:
        for dtype in (torch.float32, torch.bfloat16):
            run(form, dtype, args.rounds)


if __name__ == "__main__":
    main()
