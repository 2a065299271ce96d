"""Training an embedding with padding_idx, for tests/nn/test_padding.c: padding.txt.

    python make_padding.py

Lines are "case NAME", then all weights after three steps.
"""
import pathlib

import torch
from torch import nn

HERE = pathlib.Path(__file__).parent
INDEX = [[0, 2, 2, 8, 3], [2, 5, 8, 8, 1]]


def train(padding, optimiser):
    torch.manual_seed(7)
    embed = nn.Embedding(9, 4, padding_idx=padding)
    optim = optimiser(embed.parameters())
    for _ in range(3):
        optim.zero_grad()
        (embed(torch.tensor(INDEX)) - 0.5).square().mean().backward()
        optim.step()
    return embed.weight.flatten().tolist()


def main():
    lines = [f"# made by tests/golden/make_padding.py with PyTorch {torch.__version__}"]
    sgd = lambda p: torch.optim.SGD(p, lr=0.5)
    adamw = lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.01)
    for name, padding, optimiser in (("sgd", 2, sgd), ("adamw", 2, adamw), ("end", -1, sgd)):
        lines += [f"case {name}"] + [repr(x) for x in train(padding, optimiser)]
    (HERE / "padding.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
