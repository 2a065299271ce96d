#!/usr/bin/env python3
"""Makes tests/golden/attention.txt, cosine.txt and rotary.txt, as make.py does for other families.

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


def cosine(scale=1.0, heads=None, least=0.0):
    """softmax of cosines; with `heads` the sources have three dimensions. Rows may be masked. Norms
    are at least `least`; what is shorter has no gradient, as the library has it."""

    def run(q, k, v, *rows):
        shape = q.shape
        if heads:
            q, k, v = (t.unflatten(2, (heads, -1)) for t in (q, k, v))
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        if least:
            q, k = (torch.where(t.norm(dim=-1, keepdim=True) > least, t, t.detach()) for t in (q, k))
        nq, nk = (t.norm(dim=-1).clamp(min=least) for t in (q, k))
        s = q @ k.transpose(2, 3) / (nq[..., None] * nk[:, :, None, :])
        o = ((s * scale).softmax(-1) @ v).transpose(1, 2)
        return (o * rows[0][:, :, None, None] if rows else o).reshape(shape)

    return run


def cosine_family():
    def flat(n, d):
        return rand(2, n, d)

    yield record("cosine", cosine(), [rand(2, 5, 2, 6), rand(2, 9, 2, 6), rand(2, 9, 2, 6)],
                 grad=[0, 1, 2])
    yield record("cosine of rows", cosine(heads=1),
                 [flat(7, 5), flat(7, 5), flat(7, 5), randint(2, 7, hi=1).to(torch.float32)],
                 grad=[0, 1, 2])
    yield record("cosine, scaled", cosine(scale=4.0, heads=3), [flat(6, 12), flat(8, 12), flat(8, 12)],
                 grad=[0, 1, 2])
    q, k = flat(7, 10), flat(9, 10)
    q[0, 2] = k[1, 3] = k[1, 4, :5] = 0
    yield record("cosine of zeros", cosine(heads=2, least=1e-12), [q, k, flat(9, 10)], grad=[0, 1, 2])


def rotary(base=10000.0, axes=1, interleaved=False, heads=None):
    """As Llama (halves), GPT-J (interleaved) and RoPE2D (two axes) write it."""

    def turn(x, pos):
        s = x.shape[-1]
        freq = base ** (-torch.arange(0, s, 2, dtype=x.dtype) / s)
        angle = pos.to(x.dtype)[:, :, None, None] * freq
        if interleaved:
            cos, sin = (t.repeat_interleave(2, -1) for t in (angle.cos(), angle.sin()))
            other = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
        else:
            cos, sin = (torch.cat((t, t), -1) for t in (angle.cos(), angle.sin()))
            a, b = x.chunk(2, -1)
            other = torch.cat((-b, a), -1)
        return x * cos + other * sin

    def run(x, *pos):
        n = x.shape[2] if heads is None else heads
        if not pos:
            pos = torch.arange(x.shape[1]).expand(x.shape[:2])
        else:
            pos = pos[0].expand(*x.shape[:2], 2) if axes == 2 else pos[0].expand(x.shape[:2])
        y = x[:, :, :n]
        if axes == 2:
            a, b = y.chunk(2, -1)
            y = torch.cat((turn(a, pos[..., 0]), turn(b, pos[..., 1])), -1)
        else:
            y = turn(y, pos)
        return torch.cat((y, x[:, :, n:]), 2)

    return run


def rotary_family():
    x = rand(2, 5, 3, 8)
    yield record("halves", rotary(), [x], grad=[0])
    yield record("interleaved", rotary(interleaved=True), [x], grad=[0])
    yield record("some heads", rotary(heads=2), [x], grad=[0])
    yield record("positions", rotary(), [x, randint(2, 5, hi=99, dtype=torch.int32)], grad=[0])
    yield record("two axes", rotary(base=100.0, axes=2), [x, randint(5, 2, hi=36)], grad=[0])
    yield record("two axes of samples", rotary(base=100.0, axes=2),
                 [x, randint(2, 5, 2, hi=36, dtype=torch.int32)], grad=[0])


make.FAMILIES = {"attention": attention_family, "cosine": cosine_family, "rotary": rotary_family}

if __name__ == "__main__":
    make.main()
