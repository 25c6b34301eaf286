"""SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss as graphs of ours.

ONNX has the classes in dimension 1 and reduces over all others: a copy brings them to the end, cross_entropy makes a loss a row, and
weights, masks and means are nodes behind it.
"""
import numpy as np


def rows(t, g):
    """The logits as [t, n], the labels of the rows, and how ONNX's [N, C, ..] becomes [t, n]."""
    x, label = t.inputs[:2]
    perm = [0] + list(range(2, x.ndim)) + [1]
    to_rows = lambda array: np.asarray(array).transpose(perm).reshape(-1, x.shape[1])
    if x.ndim == 2:
        return g.input(x), label.reshape(-1), to_rows
    moved = g.make("copy", [g.input(x, perm)], [x.shape[d] for d in perm])
    return g.view(moved, (label.size, x.shape[1])), label.reshape(-1), to_rows


def reduce_loss(t, g, loss, label, ignore):
    """Weights and the reduction, from a loss a row that is 0 where the label is ignored."""
    count, reduction = label.size, t.attributes.get("reduction", b"mean")
    seen = np.ones(count, np.int32) if ignore is None else (label != ignore).astype(np.int32)
    weights = None
    if len(t.inputs) > 2:
        classes = t.inputs[2].size  # a further row of 0 for what is ignored
        table = g.input(np.append(t.inputs[2], np.float32(0)).reshape(classes + 1, 1))
        weights = g.view(g.make("get_rows", [table, g.indices(np.where(seen, label, classes))], (count, 1)), (count,))
        loss = g.make("mul", [loss, weights], (count,), expected=t.y if reduction == b"none" else None)
    if reduction == b"none":
        return
    if reduction == b"sum":
        g.make("sum", [loss], (1,), expected=t.y)
    elif weights is not None:
        g.make("div", [g.make("sum", [loss], (1,)), g.make("sum", [weights], (1,))], (1,), expected=t.y)
    elif ignore is None:
        g.make("mean", [loss], (1,), expected=t.y)
    else:
        g.node("masked_mean", [loss, g.input(seen)], [g.out((1,), expected=t.y), g.out((1,))])


def cross_entropy(t, g):
    x, label, to_rows = rows(t, g)
    ignore = t.attributes.get("ignore_index")
    plain = t.attributes.get("reduction", b"mean") == b"none" and len(t.inputs) < 3
    loss, lse = g.out((label.size,), expected=t.y if plain else None), g.out((label.size,))
    g.node("cross_entropy", [x, g.indices(label)], [loss, lse], ignore=-100 if ignore is None else ignore)
    if not plain:
        reduce_loss(t, g, loss, label, ignore)
    if len(t.outputs) > 1:
        dims = (label.size, t.x.shape[1])
        g.make("sub", [x, g.view(lse, (label.size, 1))], dims, expected=to_rows(t.outputs[1]))


def negative_log_likelihood(t, g):
    """-x[label]: the loss of cross_entropy less its lse; 0 where the label is ignored."""
    x, label, _ = rows(t, g)
    ignore = t.attributes.get("ignore_index")
    plain = t.attributes.get("reduction", b"mean") == b"none" and len(t.inputs) < 3
    loss, lse, count = g.out((label.size,)), g.out((label.size,)), label.size
    g.node("cross_entropy", [x, g.indices(label)], [loss, lse], ignore=-100 if ignore is None else ignore)
    picked = g.make("sub", [loss, lse], (count,), expected=t.y if plain and ignore is None else None)
    if ignore is not None:
        seen = g.input((label != ignore).astype(np.float32))
        picked = g.make("mul", [picked, seen], (count,), expected=t.y if plain else None)
    if not plain:
        reduce_loss(t, g, picked, label, ignore)
