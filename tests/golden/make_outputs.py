"""Results of layers, blocks and forms of models, for tests/nn/test_outputs.c.

run: python3 tests/golden/make_outputs.py > tests/golden/outputs.txt

Weights and inputs: torch_models.py. Lines: "case NAME N", then N numbers (every fifth element
of the result, in f64).
"""
import torch
import torch.nn as nn

import torch_models as m

B, N, NK, D, HEADS, HIDDEN = 2, 9, 7, 40, 2, 56


def show(case, y):
    numbers = y.detach().double().flatten()[::5].tolist()
    print('case', case, len(numbers))
    for i in range(0, len(numbers), 8):
        print(' '.join(f'{x:.9g}' for x in numbers[i:i + 8]))


def shorter(n, by):
    """True for tokens that are there: sample i lacks its last i * by."""
    return torch.arange(n) < n - by * torch.arange(B)[:, None]


def layer(decoder, first, activation, **what):
    """what: causal, key_mask, memory_mask, bias."""
    kind = nn.TransformerDecoderLayer if decoder else nn.TransformerEncoderLayer
    net = nn.ModuleDict({'it': kind(D, HEADS, HIDDEN, 0.3, activation, batch_first=True, norm_first=first)})
    it = m.fill(net).double().eval()['it']
    x = m.real('x', 0, B, N, D).double()
    mask = torch.zeros(N, N, dtype=torch.float64)
    if what.get('causal'):
        mask = mask.masked_fill(torch.ones(N, N).triu(1) > 0, float('-inf'))
    mask = mask.expand(B * HEADS, N, N)
    if what.get('bias'):
        mask = mask + m.real('bias', 0, B, HEADS, N, N).double().flatten(0, 1)
    keys = torch.zeros(B, N, dtype=torch.float64)
    if what.get('key_mask'):
        keys = keys.masked_fill(~shorter(N, 3), float('-inf'))
    if not decoder:
        return it(x, src_mask=mask, src_key_padding_mask=keys)
    hidden = ~shorter(NK, 2) if what.get('memory_mask') else None
    return it(x, m.real('memory', 0, B, NK, D).double(), tgt_mask=mask, tgt_key_padding_mask=keys,
              memory_key_padding_mask=hidden)


def jit_with_condition():
    net = m.fill(m.Jit(d=40, depth=2, heads=2, hidden=56, size=16, patch=4)).double().eval()
    image = lambda name: m.real(name, 0, B, 16, 16, 3).permute(0, 3, 1, 2).double()
    mask = lambda name: m.label(name, 0, 4, B, 16) > 0
    y = net(image('x'), m.label('step', 0, 1000, B), mask('mask'), image('condition'), mask('condition_mask'))
    return y.permute(0, 2, 3, 1).contiguous()


def convolutions(transposed):
    """Everything differs between rows and columns."""
    where = dict(stride=(2, 1), padding=(1, 2), dilation=(1, 3))
    it = nn.ConvTranspose2d(4, 6, (4, 2), output_padding=(1, 2), **where) if transposed else \
        nn.Conv2d(4, 6, (3, 2), **where)
    net = m.fill(nn.ModuleDict({'it': it})).double()
    y = net['it'](m.real('x', 0, B, 7, 9, 4).permute(0, 3, 1, 2).double())
    return y.permute(0, 2, 3, 1).contiguous()


def on_image(net, *shape):
    """An image NHWC through a net that wants NCHW; a map comes back as NHWC."""
    y = m.fill(net).double().eval()(m.real('x', 0, *shape).permute(0, 3, 1, 2).double())
    return y.permute(0, 2, 3, 1).contiguous() if y.dim() == 4 else y


def norms():
    """Small numbers, so that eps counts."""
    x = m.real('x', 0, B, 3, 5, 12).double() / 1024
    group = m.fill(nn.ModuleDict({'it': nn.GroupNorm(3, 12)})).double()['it']
    show('group_norm', group(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1).contiguous())
    for case, eps in (('rms_norm', 1e-6), ('rms_norm_usual', torch.finfo(torch.float32).eps)):
        show(case, m.fill(nn.ModuleDict({'it': nn.RMSNorm(12, eps)})).double()['it'](x))


def vit(later):
    it = m.fill(nn.ModuleDict({'it': m.VitBlock(D, HEADS, HIDDEN, later)})).double()['it']
    x = m.real('x', 0, B, N, D).double()
    if not later:
        return it(x, shorter(N, 3))
    places = torch.arange(N)
    return it(x, at=torch.stack([places // 3, places % 3], 1).double())


def forms():
    """Options of models that no training of test_models.c has."""
    for depth in (34, 50, 101, 152):
        show(f'resnet{depth}', on_image(m.ResNet(depth, 3, 40), B, 33, 41, 3))
    for depth in (18, 34):
        show(f'dilated{depth}', on_image(m.DilatedAspp(depth, 6, (1, 2, 3, 5), resize=False), B, 33, 41, 3))
    show('unet_bilinear', on_image(m.UNet(1, 1, True, 8), B, 17, 23, 1))
    show('aspp_relu', on_image(m.Aspp(8, 6, (1, 2, 3, 5), True), B, 9, 7, 8))


print('# made by make_outputs.py')
for decoder in (False, True):
    for first in (False, True):
        kind = ('decoder' if decoder else 'encoder') + ('_pre' if first else '_post')
        show(f'{kind}_plain', layer(decoder, first, 'relu'))
        show(f'{kind}_causal', layer(decoder, first, 'gelu', causal=True))
        show(f'{kind}_masks', layer(decoder, first, 'gelu', key_mask=True, memory_mask=True))
        show(f'{kind}_bias', layer(decoder, first, 'relu', bias=True, memory_mask=True))
show('jit', jit_with_condition())
show('conv_hw', convolutions(False))
show('conv_transpose_hw', convolutions(True))
norms()
show('vit', vit(False))
show('vit_later', vit(True))
forms()
