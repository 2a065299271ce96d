"""Golden values of the metrics, written with numpy from the definitions (those of
scikit-learn, whose defaults they match), not from a confusion matrix.

    python3 make_metric.py > metric.txt

A case: its name and numbers; targets; predictions; scores (rows of n); then `name value`
lines. Targets may be 255 (ignored). Class 4 of `absent` never occurs; class 2 of `never` is a
target that is never predicted.
"""
import numpy as np


def by_class(target, predicted, n):
    out = {k: [] for k in ("precision", "recall", "f1", "iou", "dice")}
    for c in range(n):
        t, p = target == c, predicted == c
        tp, fp, fn = np.sum(t & p), np.sum(~t & p), np.sum(t & ~p)
        there = t.any() or p.any()

        def share(a, b):
            return float("nan") if not there else (a / b if b else 0.0)

        out["precision"].append(share(tp, tp + fp))
        out["recall"].append(share(tp, tp + fn))
        out["f1"].append(share(2 * tp, 2 * tp + fp + fn))
        out["iou"].append(share(tp, tp + fp + fn))
        out["dice"].append(share(2 * tp, np.sum(t) + np.sum(p)))
    return out


def area(yes, no):
    """By all pairs."""
    if len(yes) == 0 or len(no) == 0:
        return float("nan")
    d = yes[:, None] - no[None, :]
    return float(np.mean((d > 0) + 0.5 * (d == 0)))


def case(name, rng, n, rows, hide=None, never=None):
    target = rng.integers(0, n, rows)
    if hide is not None:
        target[target == hide] = 0
    score = rng.random((rows, n)).astype(np.float32)
    score[np.arange(rows), target] += np.float32(0.4)
    for c in (hide, never):
        if c is not None:
            score[:, c] = -1
    score = np.round(score * 64) / 128  # ties, and values that text holds exactly
    predicted = score.argmax(1)
    target[rng.random(rows) < 0.1] = 255
    kept = target != 255
    t, p, s = target[kept], predicted[kept], score[kept]
    print("case", name, n, rows)
    print("target", *target)
    print("predicted", *predicted)
    for row in score:
        print("score", *(repr(float(v)) for v in row))
    print("accuracy", repr(float(np.mean(t == p))))
    for key, values in by_class(t, p, n).items():
        print(key, *(repr(float(v)) for v in values))
        print("mean_" + key, repr(float(np.nanmean(values))))
    for k in (1, 2, 3):
        order = np.argsort(-s, axis=1, kind="stable")[:, :k]
        print("top%d" % k, repr(float(np.mean((order == t[:, None]).any(1)))))
    print("auc", *(repr(area(s[t == c, c], s[t != c, c])) for c in range(n)))
    print("end")


rng = np.random.default_rng(11)
case("plain", rng, 3, 60)
case("absent", rng, 5, 80, hide=4)
case("never", rng, 4, 50, never=2)
case("binary", rng, 2, 90)
