"""Loss curves of a small MLP with PyTorch, in f32 and f64, for tests/step/test_curve.c.

run: python3 tests/golden/make_curve.py > tests/golden/mlp_curve.txt

The data comes from the formula in tests/step/world.c, the starting weights from
torch.manual_seed, which Gradus draws alike. Each line: optimiser, step, loss in f64,
loss in f32.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

M = 0xFFFFFFFF


def mix(a, b, c):
    h = (a * 0x9E3779B1 & M) ^ ((b + 0x7F4A7C15) * 0x85EBCA6B & M) ^ ((c + 1) * 0xC2B2AE35 & M)
    h ^= h >> 15
    h = h * 0x2C1B3C6D & M
    return h ^ h >> 13


def batch(step, n):
    x = [[(mix(step, i, k) % 2048) / 1024 - 1 for k in range(12)] for i in range(n)]
    return torch.tensor(x, dtype=torch.float32), torch.tensor([mix(step, i, 200) % 5 for i in range(n)])


def curve(kind, dtype):
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 5)).to(dtype)
    if kind == 'sgd':
        opt = torch.optim.SGD(net.parameters(), 0.125, momentum=0.9, weight_decay=0.01)
    else:
        opt = torch.optim.AdamW(net.parameters(), 0.125, weight_decay=0.01)
    losses = []
    for step in range(20):
        x, y = batch(step, 16)
        loss = F.cross_entropy(net(x.to(dtype)), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


print(f'# made with PyTorch {torch.__version__} by make_curve.py')
for kind in ('sgd', 'adamw'):
    for step, (a, b) in enumerate(zip(curve(kind, torch.float64), curve(kind, torch.float32))):
        print(kind, step, repr(a), repr(b))
