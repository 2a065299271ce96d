"""Learning rates of torch.optim.lr_scheduler, for tests/optim/test_schedule.c.

run: python3 tests/golden/make_schedules.py > tests/golden/schedules.txt

Each line: schedule, step, rate. The base rate is 0.1, runs have 40 steps.
"""
import torch
from torch.optim import lr_scheduler as S

N = 40


def optimizer():
    return torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.1)


def rates(make):
    opt = optimizer()
    schedule = make(opt)
    for step in range(N):
        yield step, opt.param_groups[0]['lr']
        opt.step()
        schedule.step()


MAKERS = {
    'cosine': lambda o: S.CosineAnnealingLR(o, N, eta_min=0.01),
    'restarts': lambda o: S.CosineAnnealingWarmRestarts(o, 7, T_mult=1, eta_min=0.01),
    'restarts2': lambda o: S.CosineAnnealingWarmRestarts(o, 5, T_mult=2),
    'step': lambda o: S.StepLR(o, 9, gamma=0.5),
    'multistep': lambda o: S.MultiStepLR(o, [3, 17, 30], gamma=0.1),
    'polynomial': lambda o: S.PolynomialLR(o, N, power=0.9),
    'exponential': lambda o: S.ExponentialLR(o, 0.9),
}

# What the plateau sees: better, worse, nearly equal values.
SEEN = [1.0, 0.9, 0.9, 0.95, 0.89999, 0.91, 0.9, 0.9, 0.9, 0.5, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6,
        0.4, 0.5, float('nan'), 0.5, 0.5, 0.5, 0.5]

print(f'# made with PyTorch {torch.__version__} by make_schedules.py')
for name, make in MAKERS.items():
    for step, lr in rates(make):
        print(name, step, repr(lr))
for name, sign in (('plateau', 1), ('plateau_max', -1)):
    opt = optimizer()
    plateau = S.ReduceLROnPlateau(opt, 'min' if sign > 0 else 'max', factor=0.5, patience=2,
                                  cooldown=1, min_lr=0.02)
    for step, x in enumerate(SEEN):
        # The share of a negative best has the other sign: 2 - x stays positive.
        plateau.step(x if sign > 0 else 2 - x)
        print(name, step, repr(opt.param_groups[0]['lr']))
