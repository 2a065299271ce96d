"""Starting values of layers that PyTorch draws one after the other from one seed: draws.txt.

    python make_draws.py

Lines are: name, element, value; the first, a middle and the last element of each tensor.
"""
import pathlib

import torch
from torch import nn

HERE = pathlib.Path(__file__).parent


def main():
    torch.manual_seed(1234)
    net = nn.ModuleDict({
        "conv": nn.Conv2d(4, 6, 3, groups=2),
        "bn": nn.BatchNorm2d(6),
        "up": nn.ConvTranspose2d(6, 4, 2),
        "fc": nn.Linear(4, 12),
        "attn": nn.MultiheadAttention(12, 3, batch_first=True),
        "enc": nn.TransformerEncoderLayer(12, 3, 20, batch_first=True),
        "dec": nn.TransformerDecoderLayer(12, 3, 20, batch_first=True),
        "embed": nn.Embedding(7, 12),
        "last": nn.Linear(12, 3),
        "padded": nn.Embedding(7, 12, padding_idx=-1),
        "wide": nn.Conv2d(4, 6, (1, 3)),
        "high": nn.ConvTranspose2d(6, 4, (3, 2)),
    })
    lines = [f"# made by tests/golden/make_draws.py with PyTorch {torch.__version__}"]
    for name, t in net.named_parameters():
        for i in (0, t.numel() // 2, t.numel() - 1):
            lines.append(f"{name} {i} {t.flatten()[i].item()!r}")
    (HERE / "draws.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
