"""ONNX operators as graphs of ours: MAPPINGS[op_type](test, graph) builds one, or raises LeftOut with the reason."""
import numpy as np

from attention_mapping import attention
from loss_mapping import cross_entropy, negative_log_likelihood
from vector_file import DTYPES, LeftOut, as_ours


def unary(op, **attributes):
    def build(t, g):
        g.make(op, [g.input(t.x)], t.x.shape, expected=t.y, **attributes)
    return build


def binary(op):
    def build(t, g):
        a, b = t.inputs
        if np.broadcast_shapes(a.shape, b.shape) != a.shape:
            raise LeftOut("the first operand is broadcast too")
        g.make(op, [g.input(a), g.input(b)], a.shape, expected=t.y)
    return build


def axis_last(rank, axis):
    axis %= rank
    return [d for d in range(rank) if d != axis] + [axis]


# Copies -------------------------------------------------------------------------------------------------------------------------

def cast(t, g):
    x, y = t.x, t.y
    g.make("cast", [g.input(x, what="casts")], x.shape, expected=as_ours(y, "casts"))


def exact_cast(t, g):
    if np.float64 in (t.x.dtype, t.y.dtype):
        raise LeftOut("f64 has no cast")
    cast(t, g)


def transpose(t, g):
    perm = t.attributes.get("perm", list(range(t.x.ndim))[::-1])
    g.make("copy", [g.input(t.x, perm)], t.y.shape, expected=t.y)


def depth_to_space(t, g):
    n, c, h, w = t.x.shape
    b = t.attributes["blocksize"]
    crd = t.attributes.get("mode", b"DCR") == b"CRD"
    x = t.x.reshape((n, c // (b * b), b, b, h, w) if crd else (n, b, b, c // (b * b), h, w))
    perm = (0, 1, 4, 2, 5, 3) if crd else (0, 3, 4, 1, 5, 2)
    g.make("copy", [g.input(x, perm)], x.transpose(perm).shape, expected=t.y)


def space_to_depth(t, g):
    n, c, h, w = t.x.shape
    b = t.attributes["blocksize"]
    x = t.x.reshape(n, c, h // b, b, w // b, b)
    perm = (0, 1, 3, 5, 2, 4) if t.attributes.get("mode", b"DCR") == b"CRD" else (0, 3, 5, 1, 2, 4)
    g.make("copy", [g.input(x, perm)], x.transpose(perm).shape, expected=t.y)


def concat(t, g):
    g.make("concat", [g.input(x) for x in t.inputs], t.y.shape, expected=t.y, axis=t.attributes["axis"] % t.x.ndim)


def pad(t, g):
    if t.attributes.get("mode", b"constant") != b"constant":
        raise LeftOut("padding by edge, reflection or wrap")
    pads = np.asarray(t.inputs[1])
    if (pads < 0).any():
        raise LeftOut("negative padding")
    value = float(t.inputs[2]) if len(t.inputs) > 2 and t.inputs[2] is not None else 0.0
    axes = [int(a) % t.x.ndim for a in t.inputs[3]] if len(t.inputs) > 3 else list(range(t.x.ndim))
    steps = [(a, int(pads[i]), int(pads[i + len(axes)])) for i, a in enumerate(axes) if pads[i] or pads[i + len(axes)]]
    at, dims = g.input(t.x), list(t.x.shape)
    for i, (axis, before, after) in enumerate(steps):
        dims[axis] += before + after
        last = i + 1 == len(steps)
        at = g.make("pad", [at], list(dims), expected=t.y if last else None, axis=axis, before=before, after=after, value=value)


def repeat(t, g):
    x = t.x.reshape((1,) * (t.y.ndim - t.x.ndim) + t.x.shape)
    g.make("repeat", [g.input(x)], t.y.shape, expected=t.y)


# Rows ---------------------------------------------------------------------------------------------------------------------------

def rows_of(array, width):
    return array.reshape(-1, width)


def gather(t, g):
    x, index = t.inputs
    axis = t.attributes.get("axis", 0) % x.ndim
    outer, n, width = int(np.prod(x.shape[:axis])), x.shape[axis], int(np.prod(x.shape[axis + 1:]))
    rows = (np.arange(outer)[:, None] * n + index.reshape(-1) % n).reshape(-1)
    g.make("get_rows", [g.input(rows_of(as_ours(x), width)), g.indices(rows)], (len(rows), width), expected=t.y)


def element_rows(shape, index, axis):
    grid = list(np.indices(index.shape))
    grid[axis] = index % shape[axis]
    return np.ravel_multi_index(grid, shape).reshape(-1)


def gather_elements(t, g):
    x, index = t.inputs
    rows = element_rows(x.shape, index, t.attributes.get("axis", 0) % x.ndim)
    g.make("get_rows", [g.input(rows_of(as_ours(x), 1)), g.indices(rows)], (len(rows), 1), expected=t.y)


def nd_rows(shape, index):
    depth = index.shape[-1]
    parts = index.reshape(-1, depth) % np.array(shape[:depth])
    return np.ravel_multi_index(parts.T, shape[:depth]), int(np.prod(shape[depth:]))


def gather_nd(t, g):
    x, index = t.inputs
    if t.attributes.get("batch_dims", 0):
        raise LeftOut("gathering of integers")
    rows, width = nd_rows(x.shape, index)
    if x.dtype != np.float32:
        raise LeftOut("gathering of integers")
    g.make("get_rows", [g.input(rows_of(x, width)), g.indices(rows)], (len(rows), width), expected=t.y)


def scatter(t, g, rows, width):
    op = {b"none": "set_rows", b"add": "index_add"}.get(t.attributes.get("reduction", b"none"))
    if op is None:
        raise LeftOut("scattering by product, least or largest")
    table = g.state(rows_of(as_ours(t.x), width), rows_of(as_ours(t.y), width))
    g.node(op, [g.input(rows_of(as_ours(t.inputs[2]), width)), g.indices(rows)], [table])


def scatter_elements(t, g):
    scatter(t, g, element_rows(t.x.shape, t.inputs[1], t.attributes.get("axis", 0) % t.x.ndim), 1)


def scatter_nd(t, g):
    scatter(t, g, *nd_rows(t.x.shape, t.inputs[1]))


def tensor_scatter(t, g):
    past, update, start = t.inputs
    axis = t.attributes.get("axis", -2) % past.ndim
    n, width = past.shape[axis], int(np.prod(past.shape[axis + 1:]))
    batch, middle = past.shape[0], int(np.prod(past.shape[1:axis]))
    rows = [(b * middle + m) * n + (int(start[b]) + i) % n
            for b in range(batch) for m in range(middle) for i in range(update.shape[axis])]
    table = g.state(rows_of(past, width), rows_of(t.y, width))
    g.node("set_rows", [g.input(rows_of(update, width)), g.indices(rows)], [table])


# Elementwise graphs ---------------------------------------------------------------------------------------------------------------

def clip(t, g):
    low, high = (list(t.inputs[1:]) + [None, None])[:2]
    if low is not None and high is not None and low > high:
        raise LeftOut("a least value above the largest, which clamp refuses")
    bounds = {}
    if low is not None:
        bounds["min"] = float(low)
    if high is not None:
        bounds["max"] = float(high)
    g.make("clamp", [g.input(t.x)], t.x.shape, expected=t.y, **bounds)


def cumsum(t, g):
    perm = axis_last(t.x.ndim, int(t.inputs[1]))
    exclusive, reverse = t.attributes.get("exclusive", 0), t.attributes.get("reverse", 0)
    x = g.input(t.x, perm)
    dims = g.values[x]["dims"]
    y = as_ours(t.y).transpose(perm)
    result = g.make("cumsum", [x], dims, expected=None if exclusive or reverse else y)
    if reverse:  # from i to the end: all - up to i + x
        total = g.make("sum_rows", [x], list(dims[:-1]) + [1])
        less = g.make("neg", [result], dims)
        after = g.make("add", [less, total], dims, expected=y if exclusive else None)
        if not exclusive:
            g.make("add", [after, x], dims, expected=y)
    elif exclusive:
        g.make("sub", [result, x], dims, expected=y)


def gelu(t, g):
    g.make("gelu", [g.input(t.x)], t.x.shape, expected=t.y, kind=1 if t.attributes.get("approximate", b"none") == b"tanh" else None)


def swish(t, g):
    if t.attributes.get("alpha", 1.0) != 1.0:
        raise LeftOut("swish with a factor in the exponent")
    unary("silu")(t, g)


def swiglu(t, g):
    gate, up = t.inputs
    dtype = DTYPES[gate.dtype]
    alpha = t.attributes.get("alpha", 1.0)
    if alpha == 1.0:
        g.make("glu", [g.input(gate), g.input(up)], gate.shape, expected=t.y)
        return
    x = g.input(gate)
    scaled = g.make("scale", [x], gate.shape, dtype, alpha=alpha)
    s = g.make("sigmoid", [scaled], gate.shape, dtype)
    act = g.make("mul", [x, s], gate.shape, dtype)
    g.make("mul", [act, g.input(up)], gate.shape, expected=t.y)


def hard_sigmoid(t, g):
    line = g.make("scale", [g.input(t.x)], t.x.shape, alpha=t.attributes.get("alpha", 0.2), beta=t.attributes.get("beta", 0.5))
    g.make("clamp", [line], t.x.shape, expected=t.y, min=0, max=1)


def hard_swish(t, g):
    x = g.input(t.x)
    line = g.make("scale", [x], t.x.shape, alpha=float(np.float32(1 / 6)), beta=0.5)
    g.make("mul", [x, g.make("clamp", [line], t.x.shape, min=0, max=1)], t.x.shape, expected=t.y)


def leaky(t, g):
    x = g.input(t.x)
    above = g.make("relu", [x], t.x.shape)
    below = g.make("relu", [g.make("neg", [x], t.x.shape)], t.x.shape)
    if len(t.inputs) > 1:  # PRelu: a slope an element
        g.make("sub", [above, g.make("mul", [below, g.input(t.inputs[1])], t.x.shape)], t.x.shape, expected=t.y)
    else:
        g.make("add", [above, below], t.x.shape, expected=t.y, alpha=-t.attributes.get("alpha", np.float32(0.01)))


def softsign(t, g):
    x = g.input(t.x)
    below = g.make("scale", [g.make("abs", [x], t.x.shape)], t.x.shape, beta=1)
    g.make("div", [x, below], t.x.shape, expected=t.y)


def reciprocal(t, g):
    g.make("div", [g.input(np.ones_like(t.x)), g.input(t.x)], t.x.shape, expected=t.y)


def add_all(t, g, then=None):
    if len(t.inputs) == 1:
        raise LeftOut("a view: nothing is computed")
    at = g.input(t.x)
    for i, x in enumerate(t.inputs[1:]):
        last = i + 2 == len(t.inputs) and then is None
        at = g.make("add", [at, g.input(x)], t.x.shape, expected=t.y if last else None)
    if then:
        then(at)


def mean_all(t, g):
    add_all(t, g, lambda at: g.make("scale", [at], t.x.shape, expected=t.y, alpha=float(np.float32(1 / len(t.inputs)))))


# Reductions -----------------------------------------------------------------------------------------------------------------------

def reduced_rows(t, g):
    """x with the reduced axes last, as [.., n], and the dims of what remains."""
    axes = t.inputs[1] if len(t.inputs) > 1 else t.attributes.get("axes")
    if axes is None or len(axes) == 0:
        if t.attributes.get("noop_with_empty_axes", 0):
            raise LeftOut("a view: nothing is computed")
        axes = range(t.x.ndim)
    axes = sorted(int(a) % t.x.ndim for a in axes)
    kept = [d for d in range(t.x.ndim) if d not in axes]
    n = int(np.prod([t.x.shape[a] for a in axes]))
    if n == 0 or t.y.size == 0:
        raise LeftOut("a sum over no element: OPS.md says that a dimension of 0 launches nothing")
    outer = [t.x.shape[d] for d in kept]
    if len(axes) == 1:
        return g.input(t.x, kept + axes), outer, n
    x = as_ours(t.x)
    if kept + axes == list(range(t.x.ndim)):
        return g.input(x.reshape(outer + [n])), outer, n
    moved = g.make("copy", [g.input(x, kept + axes)], outer + [x.shape[a] for a in axes], DTYPES[x.dtype])
    return g.view(moved, outer + [n]), outer, n


def reduce(before=(), after=(), op="sum_rows"):
    def build(t, g):
        x, outer, n = reduced_rows(t, g)
        dtype = g.values[x]["dtype"]
        for name in before:
            x = g.make(name, [x], outer + [n], dtype)
        dims = outer + [1] if op == "sum_rows" else outer
        steps = [(op, {})] + [(name, {"alpha": float(np.float32(1 / n))} if name == "scale" else {}) for name in after]
        for i, (name, attributes) in enumerate(steps):
            x = g.make(name, [x], dims, dtype, expected=t.y if i + 1 == len(steps) else None, **attributes)
    return build


def arg(lowest):
    def build(t, g):
        axis = t.attributes.get("axis", 0)
        perm = axis_last(t.x.ndim, axis)
        ours = t.x.argmin(axis) if lowest else t.x.argmax(axis)
        if not np.array_equal(ours.reshape(-1), t.y.reshape(-1)):
            raise LeftOut("the last of equal values is asked for")
        x = g.input(t.x, perm)
        dims = g.values[x]["dims"]
        if lowest:
            x = g.make("neg", [x], dims)
        g.make("argmax", [x], dims[:-1], expected=t.y.astype(np.int32))
    return build


def top_k(t, g):
    if t.x.dtype != np.float32:
        raise LeftOut("sorting of integers")
    perm = axis_last(t.x.ndim, t.attributes.get("axis", -1))
    k = int(np.asarray(t.inputs[1]).reshape(-1)[0])
    value, index = (np.asarray(y).transpose(perm) for y in t.outputs)
    x = g.input(t.x, perm)
    dims = g.values[x]["dims"]
    largest = t.attributes.get("largest", 1)
    if not largest:
        x = g.make("neg", [x], dims)
    out = g.out(value.shape, expected=value if largest else None)
    g.node("top_k", [x], [out, g.out(index.shape, expected=index.astype(np.int32))], k=k)
    if not largest:
        g.make("neg", [out], value.shape, expected=value)


# Norms and softmax ----------------------------------------------------------------------------------------------------------------

def norm(op):
    def build(t, g):
        axis = t.attributes.get("axis", -1) % t.x.ndim
        h = int(np.prod(t.x.shape[axis:]))
        parameters = [g.input(np.asarray(p).reshape(h)) for p in t.inputs[1:]]
        epsilon = t.attributes.get("epsilon", np.float32(1e-5))
        g.make(op, [g.input(t.x.reshape(-1, h))] + parameters, (t.x.size // h, h), expected=t.y, epsilon=epsilon)
    return build


def channel_norm(t, g):
    """GroupNormalization and InstanceNormalization: layer_norm of each group, then scale and bias of each channel."""
    n, c = t.x.shape[:2]
    groups = t.attributes.get("num_groups", c)
    epsilon = t.attributes.get("epsilon", np.float32(1e-5))
    h = t.x.size // (n * groups)
    y = g.make("layer_norm", [g.input(t.x.reshape(n * groups, h))], (n * groups, h), epsilon=epsilon)
    dims = (n, c, t.x.size // (n * c))
    y = g.view(y, dims)
    y = g.make("mul", [y, g.input(t.inputs[1].reshape(c, 1))], dims)
    g.make("add", [y, g.input(t.inputs[2].reshape(c, 1))], dims, expected=t.y)


def batch_norm(t, g):
    if t.attributes.get("training_mode", 0):
        raise LeftOut("batch normalisation in training")
    x, scale, bias, mean, variance = t.inputs
    c, dims = x.shape[1], x.shape[:2] + (int(np.prod(x.shape[2:])),)
    root = g.make("sqrt", [g.make("scale", [g.input(variance)], (c,), beta=t.attributes.get("epsilon", np.float32(1e-5)))], (c,))
    factor = g.view(g.make("div", [g.input(scale), root], (c,)), (c, 1))
    centred = g.make("sub", [g.input(x.reshape(dims)), g.input(mean.reshape(c, 1))], dims)
    g.make("add", [g.make("mul", [centred, factor], dims), g.input(bias.reshape(c, 1))], dims, expected=t.y)


def lp_norm(t, g):
    perm = axis_last(t.x.ndim, t.attributes.get("axis", -1))
    x = g.input(t.x, perm)
    dims, y = g.values[x]["dims"], as_ours(t.y).transpose(perm)
    if t.attributes.get("p", 2) == 2:
        g.make("l2_norm", [x], dims, expected=y, epsilon=float(np.float32(1e-12)))
        return
    size = g.make("sum_rows", [g.make("abs", [x], dims)], list(dims[:-1]) + [1])
    if not np.abs(t.x).sum(t.attributes.get("axis", -1)).all():
        raise LeftOut("the l1 norm of zeros is divided by")
    g.make("div", [x, size], dims, expected=y)


def softmax(t, g):
    perm = axis_last(t.x.ndim, t.attributes.get("axis", -1))
    x = g.input(t.x, perm)
    g.make("softmax", [x], g.values[x]["dims"], expected=t.y, perm=perm)


def log_softmax(t, g):
    perm = axis_last(t.x.ndim, t.attributes.get("axis", -1))
    x = g.input(t.x, perm)
    dims = list(g.values[x]["dims"])
    lse = g.view(g.make("logsumexp", [x], dims[:-1]), dims[:-1] + [1])
    g.make("sub", [x, lse], dims, expected=t.y.transpose(perm))


# Products -------------------------------------------------------------------------------------------------------------------------

def matmul_of(g, a, b, y):
    """a [.., m, k] times b [.., k, n], whose leading dimensions may be 1."""
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    at = g.input(a)
    if a.shape[:-2] != lead:
        at = g.make("repeat", [at], lead + a.shape[-2:], DTYPES[as_ours(a).dtype])
    g.make("matmul", [at, g.input(b)], lead + (a.shape[-2], b.shape[-1]), expected=y, transpose_b=1)


def matmul(t, g):
    a, b = t.inputs
    if a.ndim == 1 and b.ndim > 2:
        a = np.broadcast_to(a, b.shape[:-2] + (1, a.size)).copy()
    a = a[None] if a.ndim == 1 else a
    b = b[:, None] if b.ndim == 1 else b
    lead = (1,) * (a.ndim - b.ndim)
    matmul_of(g, a, b.reshape(lead + b.shape), t.y)


def gemm(t, g):
    a, b = t.inputs[:2]
    ta, tb = t.attributes.get("transA", 0), t.attributes.get("transB", 0)
    alpha, beta = t.attributes.get("alpha", 1.0), t.attributes.get("beta", 1.0)
    m, n = t.y.shape
    inputs, attributes = [g.input(a), g.input(b)], {"transpose_a": ta or None, "transpose_b": None if tb else 1}
    if alpha != 1.0:
        attributes["alpha"] = alpha
    if len(t.inputs) > 2:
        c = np.asarray(t.inputs[2])
        if c.size == n and beta == 1.0 and c.shape[-1] == n:
            inputs.append(g.input(c.reshape(n)))
        elif c.size == 1 and beta == 1.0:
            inputs.append(g.make("repeat", [g.input(c.reshape(1))], (n,)))
        else:
            whole = g.input(c.reshape((1,) * (2 - c.ndim) + c.shape))
            if c.shape != (m, n):
                whole = g.make("repeat", [whole], (m, n))
            inputs += [None, whole]
            if beta != 1.0:
                attributes["beta"] = beta
    g.make("matmul", inputs, (m, n), expected=t.y, **attributes)


def einsum(t, g):
    equation = t.attributes["equation"].decode().replace(" ", "")
    if equation == "ij->ji":
        g.make("copy", [g.input(t.x, (1, 0))], t.y.shape, expected=t.y)
    elif equation == "ij->i":
        x = as_ours(t.x)
        g.make("sum_rows", [g.input(x)], (x.shape[0], 1), expected=t.y)
    elif equation == "bij,bjk->bik":
        matmul_of(g, t.inputs[0], t.inputs[1], t.y)
    elif equation == "i,i":
        matmul_of(g, t.inputs[0][None], t.inputs[1][:, None], t.y)
    else:
        raise LeftOut("an Einstein sum that is no copy, sum or product of ours")


# Rotary embedding and optimisers ----------------------------------------------------------------------------------------------------

def rotary(t, g):
    x, cos, sin = t.inputs[:3]
    position = np.asarray(t.inputs[3]).reshape(-1) if len(t.inputs) > 3 else np.arange(cos.shape[0] * cos.shape[1])
    table = np.stack([cos, sin], -1).reshape(-1, cos.shape[-1], 2)
    if x.ndim == 3:
        heads = t.attributes["num_heads"]
        dims = (x.shape[0] * x.shape[1], heads, x.shape[2] // heads)
        at, y = g.input(x.reshape(dims)), t.y
    else:
        batch, heads, length, size = x.shape
        dims = (batch * length, heads, size)
        at = g.view(g.make("copy", [g.input(x, (0, 2, 1, 3))], (batch, length, heads, size)), dims)
        y = t.y.transpose(0, 2, 1, 3)
    mode = None if t.attributes.get("interleaved", 0) else 1
    g.make("rope", [at, g.indices(position), g.input(table)], dims, expected=y.reshape(dims), mode=mode)


def momentum(t, g):
    if t.attributes["mode"] != b"standard":
        raise LeftOut("Nesterov's momentum")
    rate, step = t.inputs[:2]
    count = (len(t.inputs) - 2) // 3
    beta = t.attributes["beta"] if int(step) > 0 else 1.0
    for i in range(count):
        x, gradient, v = (t.inputs[2 + i + j * count] for j in range(3))
        whole = g.make("add", [g.input(gradient), g.input(x)], x.shape, alpha=t.attributes["norm_coefficient"])
        scale = g.input(np.array([beta], np.float32))
        g.node("sgd", [whole, g.input(np.asarray(rate, np.float32).reshape(1)), scale],
               [g.state(x, t.outputs[i]), g.state(v, t.outputs[i + count])], momentum=t.attributes["alpha"])


def adam(t, g):
    rate, step = t.inputs[:2]
    if int(step) != 0:
        raise LeftOut("Adam with a step other than 0")
    count = (len(t.inputs) - 2) // 4
    for i in range(count):
        x, gradient, m, v = (t.inputs[2 + i + j * count] for j in range(4))
        whole = g.make("add", [g.input(gradient), g.input(x)], x.shape, alpha=t.attributes.get("norm_coefficient", 0.0))
        # ONNX corrects no bias at step 0; ours does so at each step, by factors that are 1 after a million of them.
        steps = g.input(np.array([1000000], np.int32))
        g.node("adamw", [whole, steps, g.input(np.asarray(rate, np.float32).reshape(1))],
               [g.state(x, t.outputs[i]), g.state(m, t.outputs[i + count]), g.state(v, t.outputs[i + 2 * count])],
               beta1=t.attributes["alpha"], beta2=t.attributes["beta"], epsilon=t.attributes["epsilon"])


def global_pool(t, g, build):
    t.inputs.append(np.arange(2, t.x.ndim))
    build(t, g)


MAPPINGS = {
    "Abs": unary("abs"), "Neg": unary("neg"), "Sqrt": unary("sqrt"), "Relu": unary("relu"), "Sigmoid": unary("sigmoid"),
    "Tanh": unary("tanh"), "Add": binary("add"), "Sub": binary("sub"), "Mul": binary("mul"), "Div": binary("div"), "Gelu": gelu,
    "Swish": swish, "SwiGLU": swiglu, "Clip": clip, "CumSum": cumsum, "HardSigmoid": hard_sigmoid, "HardSwish": hard_swish,
    "LeakyRelu": leaky, "PRelu": leaky, "Softsign": softsign, "Reciprocal": reciprocal, "Sum": add_all, "Mean": mean_all,
    "Cast": exact_cast, "CastLike": exact_cast, "Transpose": transpose, "DepthToSpace": depth_to_space, "SpaceToDepth": space_to_depth,
    "Concat": concat, "Pad": pad, "Tile": repeat, "Expand": repeat, "Gather": gather, "GatherElements": gather_elements,
    "GatherND": gather_nd, "ScatterElements": scatter_elements, "ScatterND": scatter_nd, "TensorScatter": tensor_scatter,
    "ReduceSum": reduce(), "ReduceMean": reduce(after=["scale"]), "ReduceMax": reduce(op="max"),
    "ReduceMin": reduce(["neg"], ["neg"], "max"), "ReduceL1": reduce(["abs"]), "ReduceL2": reduce(["sqr"], ["sqrt"]),
    "ReduceSumSquare": reduce(["sqr"]), "ReduceLogSumExp": reduce(op="logsumexp"), "ArgMax": arg(False), "ArgMin": arg(True),
    "TopK": top_k, "GlobalAveragePool": lambda t, g: global_pool(t, g, reduce(after=["scale"])),
    "GlobalMaxPool": lambda t, g: global_pool(t, g, reduce(op="max")), "LayerNormalization": norm("layer_norm"),
    "RMSNormalization": norm("rms_norm"), "GroupNormalization": channel_norm, "InstanceNormalization": channel_norm,
    "BatchNormalization": batch_norm, "LpNormalization": lp_norm, "Softmax": softmax, "LogSoftmax": log_softmax, "MatMul": matmul,
    "Gemm": gemm, "Einsum": einsum, "RotaryEmbedding": rotary, "Attention": attention, "FlexAttention": attention,
    "SoftmaxCrossEntropyLoss": cross_entropy, "NegativeLogLikelihoodLoss": negative_log_likelihood, "Momentum": momentum, "Adam": adam,
}
