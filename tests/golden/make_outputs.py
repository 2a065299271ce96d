"""Results of transformer layers and of JiT with a condition, for tests/nn/test_outputs.c.

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
