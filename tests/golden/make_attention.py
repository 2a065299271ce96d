#!/usr/bin/env python3
"""Makes tests/golden/attention.txt, as make.py does for other families.

    python3 tests/golden/make_attention.py
"""
import make
import torch
from make import rand, randint, record


def attention(causal=False, mask=False, bias=False, packing="", heads=None, scale=None):
    """PyTorch's scaled_dot_product_attention on token-major tensors, and the log-sum-exp."""

    def run(*src):
        src = list(src)
        if packing == "qkv":
            x, = src[:1]
            q, k, v = x[:, :, :heads], x[:, :, heads:2 * heads], x[:, :, 2 * heads:]
            rest = src[1:]
        elif packing == "kv":
            q, x = src[:2]
            k, v = x.chunk(2, dim=2)
            rest = src[2:]
        else:
            q, k, v = src[:3]
            rest = src[3:]
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        add = torch.zeros(q.shape[0], q.shape[1], q.shape[2], k.shape[2], dtype=q.dtype)
        if mask:
            add = add.masked_fill(~rest.pop(0)[:, None, None, :], -torch.inf)
        if causal:
            seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril()
            add = add.masked_fill(~seen, -torch.inf)
        if bias:
            add = add + rest.pop(0)
        o = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=add, scale=scale, enable_gqa=q.shape[1] != k.shape[1])
        k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
        s = q @ k.transpose(2, 3) * (scale or q.shape[3] ** -0.5) + add
        return o.transpose(1, 2).contiguous(), s.logsumexp(-1).detach()

    return run


def some_keys(b, n):
    """True for the first keys of each sample, at least one."""
    return torch.arange(n)[None, :] < randint(b, 1, lo=1, hi=n)


def attention_family():
    def q(n, heads, d, b=2):
        return rand(b, n, heads, d)

    yield record("self", attention(), [q(7, 2, 8), q(7, 2, 8), q(7, 2, 8)], grad=[0, 1, 2])
    yield record("cross", attention(), [q(5, 3, 6), q(9, 3, 6), q(9, 3, 6)], grad=[0, 1, 2])
    yield record("causal", attention(causal=True), [q(9, 2, 8), q(9, 2, 8), q(9, 2, 8)],
                 grad=[0, 1, 2])
    yield record("grouped", attention(), [q(6, 4, 5), q(8, 2, 5), q(8, 2, 5)], grad=[0, 1, 2])
    yield record("masked", attention(mask=True),
                 [q(6, 2, 4), q(8, 2, 4), q(8, 2, 4), some_keys(2, 8)], grad=[0, 1, 2])
    yield record("bias", attention(bias=True),
                 [q(6, 3, 4), q(8, 3, 4), q(8, 3, 4), rand(3, 6, 8)], grad=[0, 1, 2, 3])
    yield record("packed", attention(packing="qkv", heads=2), [q(7, 6, 8)], grad=[0])
    yield record("packed kv", attention(packing="kv"), [q(5, 2, 8), q(9, 4, 8)], grad=[0, 1])
    yield record("scaled", attention(scale=1.5), [q(5, 1, 8), q(9, 1, 8), q(9, 1, 8)],
                 grad=[0, 1, 2])


make.FAMILIES = {"attention": attention_family}

if __name__ == "__main__":
    make.main()
