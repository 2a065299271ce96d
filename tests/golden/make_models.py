"""Loss curves of whole models with PyTorch in f64 and f32, for tests/nn/test_models.c.

run: python3 tests/golden/make_models.py small > tests/golden/models_small.txt
     python3 tests/golden/make_models.py full > tests/golden/models_full.txt

Models, weights and data: torch_models.py. Each line: model, optimiser, step, loss in f64,
losses of runs() in f32. These differ in the order of their sums only, so that how far PyTorch's
f32 is from f64 is not one throw of dice. Images are drawn channels last, as Gradus has them.
"""
import contextlib
import itertools
import multiprocessing
import sys

import torch
import torch.nn.functional as F

import torch_models as m

N_STEPS = 20
ORDER = {'turned': False, 'layout': torch.contiguous_format}


def turn(batch):
    return batch.flip(0) if ORDER['turned'] else batch


def real(*args):
    return turn(m.real(*args))


def label(*args):
    return turn(m.label(*args))


def shorter(n, batch):
    """True before the end of each sample."""
    return turn(torch.arange(n) < n - 4 * torch.arange(batch)[:, None])


def image(name, step, n, side, channels):
    pixels = real(name, step, n, side, side, channels).permute(0, 3, 1, 2)
    return pixels.contiguous(memory_format=ORDER['layout'])


def resnet(side, batch):
    def loss(net, step, t):
        logits = net(image('x', step, batch, side, 3).to(t))
        return F.cross_entropy(logits, label('y', step, 10, batch))
    return lambda: m.ResNet(18, 3, 10), loss


def dilated(side, batch):
    def loss(net, step, t):
        logits = net(image('x', step, batch, side, 3).to(t))
        return F.cross_entropy(logits, label('y', step, 21, batch, side, side))
    return lambda: m.DilatedAspp(50, 21), loss


def unet(side, batch, base):
    def loss(net, step, t):
        logits = net(image('x', step, batch, side, 1).to(t))
        y = label('y', step, 2, batch, side, side, 1).permute(0, 3, 1, 2).to(t)
        return F.binary_cross_entropy_with_logits(logits, y)
    return lambda: m.UNet(1, 1, base=base), loss


def jit(side, batch, **config):
    def loss(net, step, t):
        x = image('x', step, batch, side, 3).to(t)
        mask = label('mask', step, 8, batch, (side // 4) ** 2) > 0
        y = net(x, label('t', step, 1000, batch), mask)
        return ((y - x) ** 2).mean()
    return lambda: m.Jit(size=side, **config), loss


def gpt2(batch, n, vocab=50257, **config):
    def loss(net, step, t):
        ids = label('ids', step, vocab, batch, n)
        return F.cross_entropy(net(ids).flatten(0, 1), label('y', step, vocab, batch, n).flatten())
    return lambda: m.Gpt2(vocab=vocab, **config), loss


def encoder(batch, n, **config):
    def loss(net, step, t):
        logits = net(label('ids', step, 1000, batch, n))
        return F.cross_entropy(logits.flatten(0, 1), label('y', step, 1000, batch, n).flatten())
    return lambda: m.Encoder(length=n, **config), loss


def protein(batch, length, n, **config):
    def loss(net, step, t):
        # Atoms within some 10 of each other: neighbours are no accident of rounding.
        coords = real('coords', step, batch, length, 4, 3).to(t) * 8
        mask = shorter(length, batch)
        m.MessageLayer.turned = ORDER['turned']
        frag, tors = net(coords, label('ids', step, 16, batch, n), mask)
        return (F.cross_entropy(frag.flatten(0, 1), label('frag', step, 16, batch, n).flatten()) +
                F.cross_entropy(tors.flatten(0, 1), label('tors', step, 72, batch, n).flatten()))
    return lambda: m.Protein(**config), loss


def protein_newest(batch, length, n, **config):
    def loss(net, step, t):
        coords = real('coords', step, batch, length, 4, 3).to(t) * 8
        mask = shorter(length, batch)
        m.MessageLayer.turned = ORDER['turned']
        shown = shorter(n, batch)
        frag, tors, off = net(coords, label('ids', step, 16, batch, n), mask,
                              constants=real('constants', step, batch, length, 5).to(t),
                              at=label('at', step, length - 4, batch, n),
                              pairs=real('pairs', step, batch, n, n, 19).to(t), shown=shown)
        return (F.cross_entropy(frag.flatten(0, 1), label('frag', step, 16, batch, n).flatten()) +
                F.cross_entropy(tors.flatten(0, 1), label('tors', step, 72, batch, n).flatten()) + off.square().mean())
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
        'jit': jit(64, 1, slots=False),
        'gpt2': gpt2(1, 64),
        'encoder': encoder(4, 256),
        'protein': protein(2, 128, 320),
    },
}

OPTIMISERS = {
    'sgd': lambda p, lr: torch.optim.SGD(p, 1e-3 * lr, momentum=0.9, weight_decay=1e-4),
    'adamw': lambda p, lr: torch.optim.AdamW(p, 1e-4 * lr, weight_decay=0.01),
}
# Batch norms over few samples make f32 drift from f64 fast: smaller steps there. In the protein model
# units that are active for one residue or none get gradients now and then, which AdamW makes whole steps.
SMALL_STEPS = {'resnet18': 0.01, 'dilated50': 0.01, 'unet': 0.01, 'protein': 0.1}

# How the runs in f32 differ: in the order of sums alone. All ways of choosing are run: those of the
# first four where there are convolutions, else of the last two, since the others change no bit.
# NNPACK is off in all of them: where oneDNN is off it would convolve by Winograd's method, which
# has ten times the error.
CHOICES = {
    'layout': (torch.contiguous_format, torch.channels_last),
    'onednn': (True, False),
    'threads': (1, 2),
    'turned': (False, True),
}
HAVE_CONVOLUTIONS = {'resnet18', 'dilated50', 'unet'}


def runs(name):
    choices = [(key, of if name in HAVE_CONVOLUTIONS or key in ('threads', 'turned') else of[:1])
               for key, of in CHOICES.items()]
    return [dict(zip(CHOICES, how)) for how in itertools.product(*(of for _, of in choices))]


@contextlib.contextmanager
def run_as(layout=torch.contiguous_format, onednn=True, threads=1, turned=False):
    torch.set_num_threads(threads)
    ORDER.update(turned=turned, layout=layout)
    with torch.backends.mkldnn.flags(enabled=onednn), torch.backends.nnpack.flags(enabled=False):
        yield


def curve(make, loss_of, optimiser, lr, dtype):
    torch.set_default_dtype(torch.float32)
    net = m.fill(make()).to(dtype).train()
    if ORDER['layout'] == torch.channels_last:
        net = net.to(memory_format=torch.channels_last)
    opt = OPTIMISERS[optimiser](net.parameters(), lr)
    losses = []
    for step in range(N_STEPS):
        loss = loss_of(net, step, dtype)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


def run(task):
    """The losses of one run: of (set, model, optimiser, type, how)."""
    kind, name, optimiser, dtype, how = task
    with run_as(**how):
        return curve(*SETS[kind][name], optimiser, SMALL_STEPS.get(name, 1), dtype)


def tasks(kind, name, optimiser):
    """In f64, then runs() in f32."""
    return ([(kind, name, optimiser, torch.float64, {})] +
            [(kind, name, optimiser, torch.float32, how) for how in runs(name)])


def main():
    kind, names = sys.argv[1], sys.argv[2:] or SETS[sys.argv[1]]
    print(f'# made with PyTorch {torch.__version__} by make_models.py')
    print('# model optimiser step f64, then f32 by', ' x '.join(CHOICES), '(make_models.py: runs)')
    lines = [(name, optimiser) for name in names for optimiser in OPTIMISERS]
    with multiprocessing.get_context('spawn').Pool() as pool:
        done = [pool.map_async(run, tasks(kind, *line), chunksize=1) for line in lines]
        for line, losses in zip(lines, done):
            for step, row in enumerate(zip(*losses.get())):
                print(*line, step, *map(repr, row), flush=True)


if __name__ == '__main__':
    main()
