"""The whole models of src/nn in PyTorch, with the same parameter names and shapes.

Weights, inputs and labels come from a hash of names and indices (tests/nn/models_data.c
has the same one), so that nothing needs to be stored and both sides start from equal bits.
"""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

U32 = np.uint32


def mix(a, b):
    """A hash of two words, on whole arrays."""
    with np.errstate(over='ignore'):
        h = U32(a) * U32(0x9E3779B1) ^ (np.asarray(b, U32) + U32(0x7F4A7C15)) * U32(0x85EBCA6B)
        h ^= h >> U32(15)
        h = h * U32(0x2C1B3C6D)
        h ^= h >> U32(13)
        h = h * U32(0x297A2D39)
        return h ^ h >> U32(16)


def name_hash(name):
    h = 0x811C9DC5
    for c in name.encode():
        h = (h ^ c) * 0x01000193 & 0xFFFFFFFF
    return h


def noise(name, n):
    """n numbers in [-1, 1), whole multiples of 1/1024."""
    return (mix(name_hash(name), np.arange(n)) % U32(2048)).astype(np.float32) / 1024 - 1


def weight(name, shape):
    """Powers of two scale, so that every weight is exact in f32."""
    x = noise(name, int(np.prod(shape))).reshape(shape)
    if len(shape) >= 2:
        fan_in = int(np.prod(shape[1:]))
        return x * np.float32(2.0 ** round(math.log2(0.75 / math.sqrt(fan_in))))
    if name.endswith('bias'):
        return x / 8
    return 1 + x / 8


def real(name, step, *shape):
    return torch.from_numpy(noise(f'{name}.{step}', int(np.prod(shape))).reshape(shape))


def label(name, step, n, *shape):
    h = mix(name_hash(f'{name}.{step}'), np.arange(int(np.prod(shape))))
    return torch.from_numpy((h % U32(n)).astype(np.int64).reshape(shape))


def fill(model):
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.from_numpy(weight(name, tuple(p.shape))))
    return model


# ---- ResNet ----

class Basic(nn.Module):
    """The second convolution alone is dilated."""
    expansion = 1

    def __init__(self, c_in, width, stride, dilation, caffe):
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, dilation, dilation, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = None

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (self.downsample(x) if self.downsample else x))


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, c_in, width, stride, dilation, caffe):
        super().__init__()
        first, second = (stride, 1) if caffe else (1, stride)
        self.conv1 = nn.Conv2d(c_in, width, 1, first, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, second, dilation, dilation, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, width * 4, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width * 4)
        self.downsample = None

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(F.relu(self.bn2(self.conv2(y)))))
        return F.relu(y + (self.downsample(x) if self.downsample else x))


LAYERS = {18: (Basic, (2, 2, 2, 2)), 34: (Basic, (3, 4, 6, 3)), 50: (Bottleneck, (3, 4, 6, 3)),
          101: (Bottleneck, (3, 4, 23, 3)), 152: (Bottleneck, (3, 8, 36, 3))}


class ResNet(nn.Module):
    """dilated: output stride 8, stride on the first 1x1, ceil-mode pool, no classifier."""

    def __init__(self, depth, c_in=3, classes=1000, dilated=False):
        super().__init__()
        block, counts = LAYERS[depth]
        strides = (1, 2, 1, 1) if dilated else (1, 2, 2, 2)
        dilations = (1, 1, 2, (4, 8, 16)) if dilated else (1, 1, 1, 1)
        self.conv1 = nn.Conv2d(c_in, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.pool = nn.MaxPool2d(3, 2, 1, ceil_mode=dilated)
        c = 64
        for i, n in enumerate(counts):
            blocks = []
            for k in range(n):
                d = dilations[i][k] if isinstance(dilations[i], tuple) else dilations[i]
                stride = strides[i] if k == 0 else 1
                b = block(c, 64 << i, stride, d, dilated)
                out = (64 << i) * block.expansion
                if k == 0 and (stride != 1 or c != out):
                    b.downsample = nn.Sequential(nn.Conv2d(c, out, 1, stride, bias=False), nn.BatchNorm2d(out))
                blocks.append(b)
                c = out
            setattr(self, f'layer{i + 1}', nn.Sequential(*blocks))
        self.fc = None if dilated else nn.Linear(c, classes)

    def forward(self, x):
        x = self.pool(F.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3))) if self.fc else x


class AsppBranch(nn.Module):
    def __init__(self, c_in, planes, k, dilation):
        super().__init__()
        self.atrous_conv = nn.Conv2d(c_in, planes, k, 1, 0 if k == 1 else dilation, dilation, bias=False)
        self.bn = nn.BatchNorm2d(planes)

    def forward(self, x):
        return F.relu(self.bn(self.atrous_conv(x)))


class Aspp(nn.Module):
    def __init__(self, c_in, planes, dilations, relu):
        super().__init__()
        for i, d in enumerate(dilations):
            setattr(self, f'aspp{i + 1}', AsppBranch(c_in, planes, 1 if i == 0 else 3, 1 if i == 0 else d))
        self.global_avg_pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c_in, planes, 1, bias=False),
                                             nn.BatchNorm2d(planes), nn.ReLU())
        self.conv1 = nn.Conv2d(planes * 5, planes, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = relu

    def forward(self, x):
        y = [getattr(self, f'aspp{i}')(x) for i in range(1, 5)]
        y.append(F.interpolate(self.global_avg_pool(x), x.shape[2:], mode='bilinear', align_corners=True))
        y = self.bn1(self.conv1(torch.cat(y, 1)))
        return F.relu(y) if self.relu else y


class DilatedAspp(nn.Module):
    """The segmentation network of guide 000 without its extra branch."""

    def __init__(self, depth=50, classes=21, dilations=(6, 12, 18, 24), resize=True):
        super().__init__()
        self.backbone = ResNet(depth, dilated=True)
        self.aspp = Aspp(2048 if depth >= 50 else 512, classes, dilations, False)
        self.resize = resize

    def forward(self, x):
        y = self.aspp(self.backbone(x))
        return F.interpolate(y, x.shape[2:], mode='bilinear', align_corners=True) if self.resize else y


# ---- U-Net ----

def double_conv(c_in, c_out):
    return nn.Sequential(nn.Conv2d(c_in, c_out, 3, 1, 1), nn.BatchNorm2d(c_out), nn.ReLU(),
                         nn.Conv2d(c_out, c_out, 3, 1, 1), nn.BatchNorm2d(c_out), nn.ReLU())


class DoubleConv(nn.Module):
    def __init__(self, c_in, c_out):
        super().__init__()
        self.double_conv = double_conv(c_in, c_out)

    def forward(self, x):
        return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, c_in, c_out):
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(c_in, c_out))

    def forward(self, x):
        return self.maxpool_conv(x)


class Up(nn.Module):
    def __init__(self, c_in, c_skip, c_out, bilinear):
        super().__init__()
        if bilinear:
            self.up = nn.Upsample(scale_factor=2, mode='bilinear', align_corners=True)
        else:
            self.up = nn.ConvTranspose2d(c_in, c_in, 2, 2)
        self.conv = DoubleConv(c_in + c_skip, c_out)

    def forward(self, x, skip):
        x = self.up(x)
        dy, dx = skip.shape[2] - x.shape[2], skip.shape[3] - x.shape[3]
        x = F.pad(x, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return self.conv(torch.cat([skip, x], 1))


class UNet(nn.Module):
    def __init__(self, c_in=1, classes=1, bilinear=False, base=64):
        super().__init__()
        w = [base, base * 2, base * 4, base * 8, base * 8]
        self.inc = DoubleConv(c_in, w[0])
        for i in range(4):
            setattr(self, f'down{i + 1}', Down(w[i], w[i + 1]))
        out = [base * 4, base * 2, base, base]
        c = w[4]
        for i in range(4):
            setattr(self, f'up{i + 1}', Up(c, w[3 - i], out[i], bilinear))
            c = out[i]
        self.outc = nn.Module()
        self.outc.conv = nn.Conv2d(base, classes, 1)

    def forward(self, x):
        s = [self.inc(x)]
        for i in range(4):
            s.append(getattr(self, f'down{i + 1}')(s[-1]))
        x = s[4]
        for i in range(4):
            x = getattr(self, f'up{i + 1}')(x, s[3 - i])
        return self.outc.conv(x)


# ---- JiT ----

SLOTS = 16  # rows and columns of places for a condition, whatever the image


class AdaptiveNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.Module()
        self.norm.weight = nn.Parameter(torch.ones(d))
        self.scale_mlp = nn.Sequential(nn.SiLU(), nn.Linear(d, d))
        self.shift_mlp = nn.Sequential(nn.SiLU(), nn.Linear(d, d))

    def forward(self, x, t):
        rms = x.norm(dim=-1, keepdim=True) / math.sqrt(x.shape[-1])
        y = self.norm.weight * x / rms.clamp(min=1e-6)
        return y * (1 + self.scale_mlp(t)).clamp(0.1, 10)[:, None] + self.shift_mlp(t)[:, None]


class SwiGlu(nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, -1)
        return F.silu(a) * b


class JitBlock(nn.Module):
    def __init__(self, d, heads, hidden):
        super().__init__()
        self.heads = heads
        self.attn = nn.Module()
        self.attn.qkv = nn.Linear(d, 3 * d, bias=False)
        self.attn.proj = nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * hidden), SwiGlu(), nn.Dropout(0.0), nn.Linear(hidden, d))
        self.adaLN = AdaptiveNorm(d)

    def attend(self, x, mask):
        b, n, d = x.shape
        q, k, v = self.attn.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        return self.attn.proj(y.transpose(1, 2).reshape(b, n, d))

    def forward(self, x, t, mask):
        x = x + self.attend(self.adaLN(x, t), mask)
        return x + self.mlp(self.adaLN(x, t))


class Jit(nn.Module):
    """The sequence is 256 slots of a condition, then the target's patches. A slot without a patch is
    zeros, and its key is masked. Without slots=True they are all left out where there is no condition,
    which changes no result: for networks so large that zeros take too long."""

    def __init__(self, d=768, depth=12, heads=12, hidden=3072, size=64, patch=4, slots=True):
        super().__init__()
        self.d, self.size, self.patch, self.slots, side = d, size, patch, slots, size // patch
        self.patch_embed = nn.Linear(3 * patch * patch, d, bias=False)
        self.condition_embed = nn.Linear(3 * patch * patch, d, bias=False)
        self.pos_embed_h = nn.Parameter(torch.zeros(1, side, d))
        self.pos_embed_w = nn.Parameter(torch.zeros(1, side, d))
        self.cond_pos_embed_h = nn.Parameter(torch.zeros(1, SLOTS, d))
        self.cond_pos_embed_w = nn.Parameter(torch.zeros(1, SLOTS, d))
        self.blocks = nn.ModuleList(JitBlock(d, heads, hidden) for _ in range(depth))
        self.output_proj = nn.Linear(d, 3 * patch * patch)

    def patchify(self, x):
        b, p, s = x.shape[0], self.patch, self.size // self.patch
        return x.view(b, 3, s, p, s, p).permute(0, 2, 4, 1, 3, 5).reshape(b, s * s, 3 * p * p)

    def unpatchify(self, x):
        b, p, s = x.shape[0], self.patch, self.size // self.patch
        return x.view(b, s, s, 3, p, p).permute(0, 3, 1, 4, 2, 5).reshape(b, 3, self.size, self.size)

    def time(self, t):
        half = self.d // 2
        f = torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float64) / (half - 1))
        a = t[:, None].double() * f
        return torch.cat([a.sin(), a.cos()], 1).to(self.pos_embed_h.dtype)

    @staticmethod
    def places(h, w):
        """[1, rows, d] and [1, columns, d] to [1, rows * columns, d], row by row."""
        return (h[:, :, None] + w[:, None]).flatten(1, 2)

    def in_slots(self, cond, cond_mask):
        """Patch i of the condition lies in slot i."""
        x = self.condition_embed(self.patchify(cond))
        n, rest = x.shape[1], SLOTS * SLOTS - x.shape[1]
        x = x + self.places(self.cond_pos_embed_h, self.cond_pos_embed_w)[:, :n]
        return F.pad(x, (0, 0, 0, rest)), F.pad(cond_mask, (0, rest))

    def forward(self, x, t, mask, cond=None, cond_mask=None):
        h, keys = self.patch_embed(self.patchify(x)) + self.places(self.pos_embed_h, self.pos_embed_w), mask
        if cond is not None or self.slots:
            c = torch.zeros(len(x), SLOTS * SLOTS, self.d, dtype=h.dtype)
            shown = torch.zeros(c.shape[:2], dtype=torch.bool)
            if cond is not None:
                c, shown = self.in_slots(cond, cond_mask)
            h, keys = torch.cat([c, h], 1), torch.cat([shown, mask], 1)
        e = self.time(t)
        for b in self.blocks:
            h = b(h, e, keys)
        h = h[:, -mask.shape[1]:]
        return self.unpatchify(self.output_proj(h) * mask[..., None])


# ---- ViT ----

def turn(x, at, base):
    """Rotary places of x [.., n, s]: pairs are (i, i + s / 2), turned by at[n] base^(-2 i / s)."""
    half = x.shape[-1] // 2
    angle = at[:, None] * base ** (-torch.arange(half, dtype=torch.float64) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


class VitBlock(nn.Module):
    """timm's pre-norm block; `later`: with what DINOv2 and VGGT added, and no bias of qkv."""

    def __init__(self, d, heads, hidden, later):
        super().__init__()
        self.heads, self.later, size = heads, later, d // heads
        self.norm1 = nn.LayerNorm(d, eps=1e-6)
        self.attn = nn.Module()
        self.attn.qkv = nn.Linear(d, 3 * d, bias=not later)
        if later:
            self.attn.q_norm = nn.LayerNorm(size, eps=1e-6)
            self.attn.k_norm = nn.LayerNorm(size, eps=1e-6)
            for name in ('ls1', 'ls2'):
                setattr(self, name, nn.Module())
                getattr(self, name).gamma = nn.Parameter(torch.ones(d))
        self.attn.proj = nn.Linear(d, d)
        self.norm2 = nn.LayerNorm(d, eps=1e-6)
        self.mlp = nn.Module()
        self.mlp.fc1 = nn.Linear(d, hidden)
        self.mlp.fc2 = nn.Linear(hidden, d)

    def place(self, x, at):
        half = x.shape[-1] // 2
        return torch.cat([turn(x[..., :half], at[:, 0], 100), turn(x[..., half:], at[:, 1], 100)], -1)

    def forward(self, x, mask=None, at=None):
        b, n, d = x.shape
        q, k, v = self.attn.qkv(self.norm1(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        if self.later:
            q, k = self.place(self.attn.q_norm(q), at), self.place(self.attn.k_norm(k), at)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=None if mask is None else mask[:, None, None, :])
        y = self.attn.proj(y.transpose(1, 2).reshape(b, n, d))
        x = x + (y * self.ls1.gamma if self.later else y)
        y = self.mlp.fc2(F.gelu(self.mlp.fc1(self.norm2(x))))
        return x + (y * self.ls2.gamma if self.later else y)


# ---- GPT-2 ----

class Conv1d(nn.Module):
    """A linear layer whose weight is stored [in, out], as GPT-2's checkpoints have it."""

    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_in, n_out))
        self.bias = nn.Parameter(torch.zeros(n_out))

    def forward(self, x):
        return x @ self.weight + self.bias


class Gpt2Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(d)
        self.attn = nn.Module()
        self.attn.c_attn = Conv1d(d, 3 * d)
        self.attn.c_proj = Conv1d(d, d)
        self.ln_2 = nn.LayerNorm(d)
        self.mlp = nn.Module()
        self.mlp.c_fc = Conv1d(d, 4 * d)
        self.mlp.c_proj = Conv1d(4 * d, d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.attn.c_attn(self.ln_1(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn.c_proj(y.transpose(1, 2).reshape(b, n, d))
        return x + self.mlp.c_proj(F.gelu(self.mlp.c_fc(self.ln_2(x)), approximate='tanh'))


class Gpt2(nn.Module):
    def __init__(self, vocab=50257, length=1024, d=768, depth=12, heads=12):
        super().__init__()
        self.wte = nn.Embedding(vocab, d)
        self.wpe = nn.Embedding(length, d)
        self.h = nn.ModuleList(Gpt2Block(d, heads) for _ in range(depth))
        self.ln_f = nn.LayerNorm(d)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for b in self.h:
            x = b(x)
        return self.ln_f(x) @ self.wte.weight.T


# ---- pre-norm transformer, the row (d) of the benchmarks ----

class Encoder(nn.Module):
    def __init__(self, d=384, depth=6, heads=6, vocab=1000, length=256):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.pos = nn.Parameter(torch.zeros(length, d))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(d, heads, 4 * d, 0.0, 'gelu', batch_first=True, norm_first=True)
            for _ in range(depth))
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, vocab)

    def forward(self, ids):
        x = self.embed(ids) + self.pos[:ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


# ---- protein side chains ----

class MessageLayer(nn.Module):
    """One message per edge, from source to destination; destinations add up what they get. With
    `turned` the same in another order of sums: that over the edges comes before the last product."""
    turned = False

    def __init__(self, d, edge):
        super().__init__()
        self.msg_mlp = nn.Sequential(nn.Linear(d + edge, d), nn.LayerNorm(d), nn.ReLU(), nn.Dropout(0.0), nn.Linear(d, d))
        self.update_mlp = nn.Sequential(nn.Linear(2 * d, d), nn.LayerNorm(d), nn.ReLU(), nn.Dropout(0.0), nn.Linear(d, d))

    def messages(self, h, src, dst, e):
        m = self.msg_mlp(torch.cat([h[src], e], -1))
        return torch.zeros_like(h).index_add_(0, dst, m)

    def turned_messages(self, h, src, dst, e):
        first, last, d = self.msg_mlp[0], self.msg_mlp[-1], h.shape[1]
        m = (h @ first.weight[:, :d].T + first.bias)[src] + e @ first.weight[:, d:].T
        m = torch.zeros_like(h).index_add_(0, dst.flip(0), self.msg_mlp[1:-1](m).flip(0))
        return m @ last.weight.T + dst.bincount(minlength=len(h))[:, None] * last.bias

    def forward(self, h, src, dst, e):
        sums = (self.turned_messages if self.turned else self.messages)(h, src, dst, e)
        return self.update_mlp(torch.cat([h, sums], -1))


def dihedral(a, b, c, d):
    v1, v2, v3 = b - a, c - b, d - c
    n1, n2 = torch.linalg.cross(v1, v2), torch.linalg.cross(v2, v3)
    n1 = n1 / (n1.norm(dim=-1, keepdim=True) + 1e-8)
    n2 = n2 / (n2.norm(dim=-1, keepdim=True) + 1e-8)
    return torch.acos((n1 * n2).sum(-1).clamp(-1, 1)) * torch.sign((n1 * v3).sum(-1))


def dihedral_features(x):
    """Of one structure [l, 4, 3] of true residues; the ends of the chain have substitutes."""
    n, ca, c = x[:, 0], x[:, 1], x[:, 2]
    phi = dihedral(torch.cat([c[:1], c[:-1]]), n, ca, c)
    psi = dihedral(n, ca, c, torch.cat([n[1:], n[-1:]]))
    omega = dihedral(ca, c, torch.cat([n[1:], ca[-1:]]), torch.cat([ca[1:], ca[-1:]]))
    a = torch.stack([phi, psi, omega], -1)
    return torch.cat([a.sin(), a.cos()], -1)


def edges_of(ca, k):
    """Each residue's edges to its nearest min(k, residues - 1), and their 35 features."""
    n = len(ca)
    k = min(k, n - 1)
    dist = (ca[:, None] - ca[None]).norm(dim=-1)
    dist.fill_diagonal_(float('inf'))
    dst = dist.topk(k, largest=False).indices.reshape(-1)
    src = torch.arange(n)[:, None].expand(n, k).reshape(-1)
    v = ca[dst] - ca[src]
    r = v.norm(dim=-1, keepdim=True)
    centres = torch.linspace(0, 20, 32, dtype=ca.dtype)
    return src, dst, torch.cat([torch.exp(-0.5 * ((r - centres) / (20 / 32)) ** 2), v / (r + 1e-8)], -1)


class ProteinEncoder(nn.Module):
    """Structures one by one, in their true lengths: no padding can take part."""

    def __init__(self, d=256, layers=3, k=30, newest=False):
        super().__init__()
        self.d, self.k = d, k
        self.dihedral_encoder = nn.Module()
        self.dihedral_encoder.proj = nn.Linear(6, 64)
        self.node_proj = nn.Linear(64, d)
        if newest:
            self.physicochemical_proj = nn.Linear(5, d)
        self.gnn_layers = nn.ModuleList(MessageLayer(d, 35) for _ in range(layers))
        self.layer_norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(layers))

    def one(self, x, constants):
        h = self.node_proj(self.dihedral_encoder.proj(dihedral_features(x)))
        if constants is not None:
            h = h + self.physicochemical_proj(constants)
        edges = edges_of(x[:, 1], self.k)
        for layer, norm in zip(self.gnn_layers, self.layer_norms):
            h = norm(layer(h, *edges) + h)
        return h

    def forward(self, x, mask, constants=None):
        out = torch.zeros(*x.shape[:2], self.d, dtype=x.dtype)
        for i, n in enumerate(mask.sum(1).tolist()):
            out[i, :n] = self.one(x[i, :n], None if constants is None else constants[i, :n])
        return out


class ProteinDecoder(nn.Module):
    def __init__(self, d=256, layers=3, heads=8, dropout=0.0, newest=False):
        super().__init__()
        self.d = d
        self.fragment_embedding = nn.Embedding(16, d)
        self.encoder_proj = nn.Linear(d, d)
        self.transformer_layers = nn.Module()
        self.transformer_layers.layers = nn.ModuleList(
            nn.TransformerDecoderLayer(d, heads, 4 * d, dropout, 'gelu', batch_first=True) for _ in range(layers))
        if newest:
            self.spatial_bias = nn.Module()
            self.spatial_bias.mlp = nn.Sequential(nn.Linear(19, 32), nn.GELU(), nn.Linear(32, heads))
        for name, n in (('type', 16), ('torsion', 72)) + ((('offset', 72),) if newest else ()):
            setattr(self, f'{name}_head', nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.GELU(), nn.Dropout(dropout), nn.Linear(d, n)))

    def positions(self, n):
        f = torch.exp(torch.arange(0, self.d, 2, dtype=torch.float64) * (-math.log(10000.0) / self.d))
        a = torch.arange(n, dtype=torch.float64)[:, None] * f
        return torch.stack([a.sin(), a.cos()], -1).reshape(n, self.d).to(self.fragment_embedding.weight.dtype)

    def forward(self, ids, memory, memory_mask, at=None, pairs=None, shown=None):
        x = self.fragment_embedding(ids) + self.positions(ids.shape[1])
        m = self.encoder_proj(memory)
        masks = {}
        if pairs is not None:
            x = x + m[torch.arange(len(ids))[:, None], at]
            # Both masks as numbers: PyTorch wants them of one type.
            hidden = torch.zeros(shown.shape, dtype=x.dtype).masked_fill(~shown, float('-inf'))
            masks = {'tgt_mask': self.spatial_bias.mlp(pairs).permute(0, 3, 1, 2).flatten(0, 1), 'tgt_key_padding_mask': hidden}
        for layer in self.transformer_layers.layers:
            x = layer(x, m, memory_key_padding_mask=~memory_mask, **masks)
        heads = self.type_head(x), self.torsion_head(x)
        return heads if pairs is None else (*heads, self.offset_head(x))


class Protein(nn.Module):
    def __init__(self, d=256, layers=3, heads=8, newest=False):
        super().__init__()
        self.encoder = ProteinEncoder(d, layers, newest=newest)
        self.decoder = ProteinDecoder(d, layers, heads, newest=newest)

    def forward(self, coords, ids, mask, constants=None, **newest):
        return self.decoder(ids, self.encoder(coords, mask, constants), mask, **newest)
