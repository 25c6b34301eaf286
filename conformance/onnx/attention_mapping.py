"""ONNX Attention and FlexAttention (without modifications) as attention_dense, with concat for the past and matmul for the scores."""
import numpy as np

from vector_file import DTYPES, LeftOut

HEADS_SECOND = (0, 2, 1, 3)  # ONNX's [b, heads, t, d] as our [b, t, heads, d], in ONNX's memory order


class Shapes:
    """Of one test; q, k, v as ONNX's [b, heads, t, d]."""

    def __init__(self, t):
        self.inputs = list(t.inputs) + [None] * (7 - len(t.inputs))
        self.flat = t.x.ndim == 3  # [b, t, heads * d] in memory
        self.heads = t.attributes.get("q_num_heads") if self.flat else t.x.shape[1]
        self.kv_heads = t.attributes.get("kv_num_heads") if self.flat else self.inputs[1].shape[1]
        self.batch, self.queries = t.x.shape[0], t.x.shape[1 if self.flat else 2]
        self.size = t.x.shape[2] // self.heads if self.flat else t.x.shape[3]
        past = self.inputs[4]
        self.past = 0 if past is None else past.shape[2]
        self.keys = self.past + self.inputs[1].shape[1 if self.flat else 2]
        v = self.inputs[2]
        self.value_size = v.shape[2] // self.kv_heads if self.flat else v.shape[3]


def heads_of(g, s, array, heads):
    """An input as our [b, t, heads, d]."""
    if not s.flat:
        return g.input(array, HEADS_SECOND)
    return g.input(array.reshape(array.shape[0], array.shape[1], heads, -1))


def with_past(g, s, past, array, present):
    """past and new rows one after another along t; `present` is ONNX's output for it."""
    rows = heads_of(g, s, array, s.kv_heads)
    if past is None:
        return rows
    size = past.shape[3]
    return g.make("concat", [g.input(past, HEADS_SECOND), rows], (s.batch, s.keys, s.kv_heads, size), DTYPES[array.dtype],
                  expected=None if present is None else present.transpose(HEADS_SECOND), axis=1)


def added_mask(t, s):
    """The mask of ONNX as numbers that are added, [.., queries, keys]; None if there is none."""
    mask = s.inputs[3]
    if mask is None:
        return None
    dtype = t.x.dtype
    missing = s.keys - mask.shape[-1]
    if mask.dtype == np.bool_:
        mask = np.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, missing)], constant_values=False)
        mask = np.where(mask, 0.0, -np.inf)
    elif missing:
        mask = np.pad(mask.astype(np.float64), [(0, 0)] * (mask.ndim - 1) + [(0, missing)], constant_values=-np.inf)
    return (mask if mask.ndim > 1 else mask[None]).astype(dtype)


def hidden(t, s):
    """What attributes of ours cannot say, as -inf in [b, 1, queries, keys]; None if they say all."""
    left, right = t.attributes.get("left_window_size", -1), t.attributes.get("right_window_size", -1)
    lengths = s.inputs[6]
    if lengths is None and right < 0:
        return None
    at = np.arange(s.queries)[:, None] + (np.full(s.batch, s.past) if lengths is None else np.asarray(lengths) - s.queries)[:, None, None]
    key = np.arange(s.keys)[None, None]
    seen = np.ones((s.batch, s.queries, s.keys), bool)
    if t.attributes.get("is_causal", 0):
        seen &= key <= at
    if left >= 0:
        seen &= at - key <= left
    if right >= 0:
        seen &= key - at <= right
    if lengths is not None:
        seen &= key < np.asarray(lengths)[:, None, None]
    return np.where(seen, 0.0, -np.inf)[:, None].astype(t.x.dtype)


def attention(t, g):
    s = Shapes(t)
    if any(name in t.attributes for name in ("score_mod", "prob_mod")):
        raise LeftOut("attention with a graph of its own in the scores")
    present = {name: array for name, array in zip(t.output_names, t.outputs)}
    q = heads_of(g, s, t.x, s.heads)
    k = with_past(g, s, s.inputs[4], s.inputs[1], present.get("present_key"))
    v = with_past(g, s, s.inputs[5], s.inputs[2], present.get("present_value"))
    scale = t.attributes.get("scale", np.float32(1 / np.sqrt(s.size)))
    mask, extra = added_mask(t, s), hidden(t, s)
    attributes = {"scale": scale, "causal": 0}
    if extra is None:
        left = t.attributes.get("left_window_size", -1)
        attributes["causal"] = None if t.attributes.get("is_causal", 0) else 0
        attributes["query_offset"] = s.past or None
        attributes["window"] = left + 1 if left >= 0 else None
    else:
        mask = extra if mask is None else (mask + extra).astype(t.x.dtype)
    attributes["softcap"] = t.attributes.get("softcap", 0.0) or None
    inputs = [q, k, v] + ([] if mask is None else [g.input(mask)])
    dims = (s.batch, s.queries, s.heads, s.value_size)
    y = t.y.reshape(dims) if s.flat else t.y
    g.make("attention_dense", inputs, dims, expected=y, perm=None if s.flat else HEADS_SECOND, **attributes)
    if "qk_matmul_output" in present:
        scores(t, g, s, mask, attributes, present)


def scores(t, g, s, mask, attributes, present):
    """qk_matmul_output: mode 0 the products, 1 after the cap, 2 with the masks added, 3 the probabilities."""
    mode, dtype, expected = t.attributes.get("qk_matmul_output_mode", 0), DTYPES[t.x.dtype], present["qk_matmul_output"]
    dims = (s.batch, s.heads, s.queries, s.keys)
    keys = present.get("present_key", s.inputs[1])

    def head_first(array, heads):
        if array.ndim == 4:
            return g.input(array)
        return g.input(array.reshape(array.shape[0], array.shape[1], heads, -1), HEADS_SECOND)

    at = g.make("matmul", [head_first(t.x, s.heads), head_first(keys, s.kv_heads)], dims, dtype, expected=expected if mode == 0 else None,
                alpha=attributes["scale"])
    if mode == 0:
        return
    cap = attributes["softcap"]
    if mode == 3:
        rest = {name: attributes.get(name) for name in ("query_offset", "window", "softcap")}
        causal = None if attributes["causal"] == 0 else 1
        g.make("softmax", [at] + ([] if mask is None else [g.input(mask)]), dims, expected=expected, causal=causal, **rest)
        return
    if cap:
        at = g.make("tanh", [g.make("scale", [at], dims, dtype, alpha=float(np.float32(1 / cap)))], dims, dtype)
        at = g.make("scale", [at], dims, dtype, expected=expected if mode == 1 else None, alpha=cap)
    if mode == 1:
        if not cap:
            raise LeftOut("the capped scores of an attention without cap")
        return
    if attributes["causal"] is None:  # causal: its part of the mask is added too
        hide = np.arange(s.keys)[None] > np.arange(s.queries)[:, None] + s.past
        mask = (np.where(hide, -np.inf, 0.0) + (0.0 if mask is None else mask)).astype(t.x.dtype)
    g.make("add", [at, g.input(mask)], dims, dtype, expected=expected)
