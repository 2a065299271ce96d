"""Parameters and buffers of layers and models, for tests/nn/test_names.c.

run: python3 tests/golden/make_names.py > tests/golden/names.txt

Lines: "case NAME", then for a small one "param|buffer NAME SHAPE START" each, START being
what PyTorch's construction puts there, from the draws of many: "c VALUE", "u BOUND" (the
greatest) or "n STD"; or for a large one "count PARAMS TENSORS HASH", HASH being the sum over
all tensors of the FNV-1a hash of "NAME SHAPE".
"""
import torch
import torch.nn as nn

import torch_models as m


def shape_text(t):
    return '[' + ', '.join(str(n) for n in t.shape) + ']'


def start(draws):
    """A constant, or the kind and size of a distribution as far as draws tell: within 1 %."""
    x = torch.cat([p.detach().double().flatten() for p in draws])
    if (x == x[0]).all():
        return f'c {x[0].item():g}'
    top, std = x.abs().max().item(), x.std().item()
    # Of a uniform distribution the greatest is sqrt(3) deviations away, of a normal one 3 or so.
    return f'u {top:.4g}' if top / std < 2 else f'n {std:.4g}'


def tensors(net):
    params = dict(net.named_parameters())
    for name, t in net.state_dict().items():
        yield ('param' if name in params else 'buffer'), name, t


def small(case, make):
    nets = [list(tensors(make())) for _ in range(50)]
    print('case', case)
    for all_of_it in zip(*nets):
        kind, name, t = all_of_it[0]
        print(kind, f'it.{name}', shape_text(t), start([t for _, _, t in all_of_it]))


def large(case, net):
    params = sum(p.numel() for p in net.parameters())
    state = list(tensors(net))
    total = sum(m.name_hash(f'{name} {shape_text(t)}') for _, name, t in state) & 0xFFFFFFFF
    print('case', case)
    print('count', params, len(state), total)


def layers():
    big = 64
    small('linear', lambda: nn.Linear(big, 40))
    small('conv', lambda: nn.Conv2d(12, 24, 3, groups=2))
    small('conv_transpose', lambda: nn.ConvTranspose2d(16, 24, 2, groups=2))
    small('batch_norm', lambda: nn.BatchNorm2d(5))
    small('layer_norm', lambda: nn.LayerNorm(6))
    small('rms_norm', lambda: nn.RMSNorm(6))
    small('group_norm', lambda: nn.GroupNorm(2, 6))
    small('embedding', lambda: nn.Embedding(50, big))
    small('attention', lambda: nn.MultiheadAttention(big, 4, batch_first=True))
    for first in (False, True):
        kind = 'pre' if first else 'post'
        small(f'encoder_{kind}', lambda: nn.TransformerEncoderLayer(big, 4, 96, norm_first=first))
        small(f'decoder_{kind}', lambda: nn.TransformerDecoderLayer(big, 4, 96, norm_first=first))
    small('conv_hw', lambda: nn.Conv2d(12, 24, (3, 5), groups=2))
    small('conv_transpose_hw', lambda: nn.ConvTranspose2d(16, 24, (4, 1), groups=2))


def models():
    large('resnet18_gray', m.ResNet(18, 1, 10))
    for depth in m.LAYERS:
        large(f'resnet{depth}', m.ResNet(depth))
    for depth in (18, 34):
        large(f'dilated{depth}', m.ResNet(depth, dilated=True))
    large('dilated50', m.ResNet(50, dilated=True))
    large('aspp', m.Aspp(2048, 21, (6, 12, 18, 24), False))
    large('deeplab50', m.DilatedAspp(50, 21))
    large('unet', m.UNet(1, 1))
    large('unet_bilinear', m.UNet(1, 1, bilinear=True))
    large('unet_colour', m.UNet(3, 1))
    large('jit', m.Jit())
    large('jit_b32', m.Jit(size=256, patch=32))
    large('gpt2', m.Gpt2())
    protein = m.Protein()
    large('protein', protein)
    large('protein_newest', m.Protein(newest=True))
    large('protein_encoder', nn.ModuleDict({'encoder': protein.encoder}))
    large('protein_decoder', nn.ModuleDict({'decoder': protein.decoder}))


torch.manual_seed(1)
print('# made by make_names.py')
layers()
models()
