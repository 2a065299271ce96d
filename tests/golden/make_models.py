"""Loss curves of whole models with PyTorch in f64 and f32, for tests/nn/test_models.c.

run: python3 tests/golden/make_models.py small > tests/golden/models_small.txt
     python3 tests/golden/make_models.py full > tests/golden/models_full.txt

Models, weights and data: torch_models.py. Each line: model, optimiser, step, loss in f64,
loss in f32. Images are drawn channels last, as Gradus has them.
"""
import sys

import torch
import torch.nn.functional as F

import torch_models as m

N_STEPS = 20


def image(name, step, n, side, channels):
    return m.real(name, step, n, side, side, channels).permute(0, 3, 1, 2)


def resnet(side, batch):
    def loss(net, step, t):
        logits = net(image('x', step, batch, side, 3).to(t))
        return F.cross_entropy(logits, m.label('y', step, 10, batch))
    return lambda: m.ResNet(18, 3, 10), loss


def dilated(side, batch):
    def loss(net, step, t):
        logits = net(image('x', step, batch, side, 3).to(t))
        return F.cross_entropy(logits, m.label('y', step, 21, batch, side, side))
    return lambda: m.DilatedAspp(50, 21), loss


def unet(side, batch, base):
    def loss(net, step, t):
        logits = net(image('x', step, batch, side, 1).to(t))
        y = m.label('y', step, 2, batch, side, side, 1).permute(0, 3, 1, 2).to(t)
        return F.binary_cross_entropy_with_logits(logits, y)
    return lambda: m.UNet(1, 1, base=base), loss


def jit(side, batch, **config):
    def loss(net, step, t):
        x = image('x', step, batch, side, 3).to(t)
        mask = m.label('mask', step, 8, batch, (side // 4) ** 2) > 0
        y = net(x, m.label('t', step, 1000, batch), mask)
        return ((y - x) ** 2).mean()
    return lambda: m.Jit(size=side, **config), loss


def gpt2(batch, n, vocab=50257, **config):
    def loss(net, step, t):
        ids = m.label('ids', step, vocab, batch, n)
        return F.cross_entropy(net(ids).flatten(0, 1), m.label('y', step, vocab, batch, n).flatten())
    return lambda: m.Gpt2(vocab=vocab, **config), loss


def encoder(batch, n, **config):
    def loss(net, step, t):
        logits = net(m.label('ids', step, 1000, batch, n))
        return F.cross_entropy(logits.flatten(0, 1), m.label('y', step, 1000, batch, n).flatten())
    return lambda: m.Encoder(length=n, **config), loss


def protein(batch, length, n, **config):
    def loss(net, step, t):
        # Atoms within some 10 of each other: neighbours are no accident of rounding.
        coords = m.real('coords', step, batch, length, 4, 3).to(t) * 8
        mask = torch.arange(length) < length - 4 * torch.arange(batch)[:, None]
        frag, tors = net(coords, m.label('ids', step, 16, batch, n), mask)
        return (F.cross_entropy(frag.flatten(0, 1), m.label('frag', step, 16, batch, n).flatten()) +
                F.cross_entropy(tors.flatten(0, 1), m.label('tors', step, 72, batch, n).flatten()))
    return lambda: m.Protein(**config), loss


def protein_newest(batch, length, n, **config):
    def loss(net, step, t):
        coords = m.real('coords', step, batch, length, 4, 3).to(t) * 8
        mask = torch.arange(length) < length - 4 * torch.arange(batch)[:, None]
        shown = torch.arange(n) < n - 4 * torch.arange(batch)[:, None]
        frag, tors, off = net(coords, m.label('ids', step, 16, batch, n), mask,
                              constants=m.real('constants', step, batch, length, 5).to(t),
                              at=m.label('at', step, length, batch, n),
                              pairs=m.real('pairs', step, batch, n, n, 19).to(t), shown=shown)
        return (F.cross_entropy(frag.flatten(0, 1), m.label('frag', step, 16, batch, n).flatten()) +
                F.cross_entropy(tors.flatten(0, 1), m.label('tors', step, 72, batch, n).flatten()) + off.square().mean())
    return lambda: m.Protein(newest=True, **config), loss


SETS = {
    'small': {
        'resnet18': resnet(48, 4),
        'dilated50': dilated(33, 4),
        'unet': unet(40, 2, 16),
        'jit': jit(32, 2, d=96, depth=2, heads=3, hidden=384),
        'gpt2': gpt2(2, 40, vocab=199, length=64, d=96, depth=2, heads=3),
        'encoder': encoder(2, 40, d=96, depth=2, heads=3),
        'protein': protein(2, 40, 56, d=64, layers=2, heads=2),
        'protein_newest': protein_newest(2, 40, 56, d=64, layers=2, heads=2),
    },
    'full': {
        'resnet18': resnet(64, 16),
        'dilated50': dilated(129, 4),
        'unet': unet(128, 2, 64),
        'jit': jit(64, 1),
        'gpt2': gpt2(1, 64),
        'encoder': encoder(4, 256),
        'protein': protein(2, 128, 320),
    },
}

OPTIMISERS = {
    'sgd': lambda p, lr: torch.optim.SGD(p, 1e-3 * lr, momentum=0.9, weight_decay=1e-4),
    'adamw': lambda p, lr: torch.optim.AdamW(p, 1e-4 * lr, weight_decay=0.01),
}
# Batch norms over few samples make f32 drift from f64 fast: smaller steps there.
SMALL_STEPS = {'resnet18': 0.01, 'dilated50': 0.01, 'unet': 0.01}


def curve(make, loss_of, optimiser, lr, dtype):
    torch.set_default_dtype(torch.float32)
    net = m.fill(make()).to(dtype).train()
    opt = OPTIMISERS[optimiser](net.parameters(), lr)
    losses = []
    for step in range(N_STEPS):
        loss = loss_of(net, step, dtype)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


def main():
    print(f'# made with PyTorch {torch.__version__} by make_models.py')
    models = SETS[sys.argv[1]]
    for name in sys.argv[2:] or models:
        for optimiser in OPTIMISERS:
            lr = SMALL_STEPS.get(name, 1)
            wide = curve(*models[name], optimiser, lr, torch.float64)
            f32 = curve(*models[name], optimiser, lr, torch.float32)
            for step, (a, b) in enumerate(zip(wide, f32)):
                print(name, optimiser, step, repr(a), repr(b), flush=True)


main()
