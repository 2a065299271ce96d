"""Loss curves of a small MLP with PyTorch, in f32 and f64, for tests/step/test_curve.c.

run: python3 tests/golden/make_curve.py > tests/golden/mlp_curve.txt

The data comes from the formula in tests/step/world.c, the starting weights from
torch.manual_seed, which Gradus draws alike. Each line: optimiser, step, loss in f64,
loss in f32. "ema" is the loss of averaged weights on the batch that was just trained.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_avg_fn

M = 0xFFFFFFFF


def mix(a, b, c):
    h = (a * 0x9E3779B1 & M) ^ ((b + 0x7F4A7C15) * 0x85EBCA6B & M) ^ ((c + 1) * 0xC2B2AE35 & M)
    h ^= h >> 15
    h = h * 0x2C1B3C6D & M
    return h ^ h >> 13


def batch(step, n):
    x = [[(mix(step, i, k) % 2048) / 1024 - 1 for k in range(12)] for i in range(n)]
    return torch.tensor(x, dtype=torch.float32), torch.tensor([mix(step, i, 200) % 5 for i in range(n)])


def groups(net):
    """The last layer at half the rate without decay; of the others only matrices decay."""
    last = list(net[4].parameters())
    rest = [p for layer in net[:4] for p in layer.parameters()]
    return [{'params': last, 'lr': 0.0625, 'weight_decay': 0.0},
            {'params': [p for p in rest if p.dim() > 1], 'weight_decay': 0.01},
            {'params': [p for p in rest if p.dim() <= 1], 'weight_decay': 0.0}]


OPTIMISERS = {
    'sgd': lambda net: torch.optim.SGD(net.parameters(), 0.125, momentum=0.9, weight_decay=0.01),
    'adamw': lambda net: torch.optim.AdamW(net.parameters(), 0.125, weight_decay=0.01),
    'adam': lambda net: torch.optim.Adam(net.parameters(), 0.125, weight_decay=0.01),
    'nesterov': lambda net: torch.optim.SGD(net.parameters(), 0.125, momentum=0.9, weight_decay=0.01,
                                            nesterov=True),
    'clip_value': lambda net: torch.optim.SGD(net.parameters(), 0.125, momentum=0.9, weight_decay=0.01),
    'clip_norm': lambda net: torch.optim.SGD(net.parameters(), 0.125, momentum=0.9, weight_decay=0.01),
    'groups': lambda net: torch.optim.AdamW(groups(net), 0.125),
    'ema': lambda net: torch.optim.SGD(net.parameters(), 0.125, momentum=0.9, weight_decay=0.01),
}


def curve(kind, dtype):
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 5)).to(dtype)
    opt = OPTIMISERS[kind](net)
    ema = AveragedModel(net, avg_fn=get_ema_avg_fn(0.75)) if kind == 'ema' else None
    losses = []
    for step in range(20):
        x, y = batch(step, 16)
        loss = F.cross_entropy(net(x.to(dtype)), y)
        opt.zero_grad()
        loss.backward()
        if kind == 'clip_value':
            nn.utils.clip_grad_value_(net.parameters(), 0.01)
        if kind == 'clip_norm':
            nn.utils.clip_grad_norm_(net.parameters(), 0.25)
        opt.step()
        if ema:
            ema.update_parameters(net)
            loss = F.cross_entropy(ema(x.to(dtype)), y)
        losses.append(loss.item())
    return losses


print(f'# made with PyTorch {torch.__version__} by make_curve.py')
for kind in OPTIMISERS:
    for step, (a, b) in enumerate(zip(curve(kind, torch.float64), curve(kind, torch.float32))):
        print(kind, step, repr(a), repr(b))
