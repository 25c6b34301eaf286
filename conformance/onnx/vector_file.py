"""The case file that import_vectors.py writes: vectors.txt (names, values, nodes) and vectors.bin (their data).

A line of vectors.txt is one of
    case NAME RTOL ATOL             opens a case; the tolerances are ONNX's, |r - e| <= atol + rtol |e|
    in ID DTYPE DIMS ORDER AT       an input; AT is where its packed data begin in vectors.bin
    state ID DTYPE DIMS ORDER AT E  read and written by a node: what it holds before, and what ONNX expects after
    out ID DTYPE DIMS ORDER E       an output; E is where ONNX's values for it begin, or - for one that only the next node reads
    view ID DIMS OF                 the packed value OF under other dims
    node OP INPUTS OUTPUTS [KEY=VALUE ...]      ids with commas between, - for one that is absent
DIMS is 2x3x4, or scalar. ORDER is the memory order of the dimensions, outermost first, or - where it is theirs. Data are packed in
the order of DIMS, little-endian.
"""
import numpy as np
import ml_dtypes

DTYPES = {np.dtype(np.float32): "f32", np.dtype(np.float16): "f16", np.dtype(ml_dtypes.bfloat16): "bf16", np.dtype(np.int32): "i32"}


class LeftOut(Exception):
    """The reason that our ops cannot express a test."""


def as_ours(array, what="values"):
    """f64 becomes f32: its rounding, 2^-24, is four orders below ONNX's tolerance of 1e-3. Other dtypes stay or are refused."""
    array = np.asarray(array)
    if array.dtype == np.float64:
        array = array.astype(np.float32)
    if array.dtype not in DTYPES:
        size = "8 bits and fewer" if array.dtype.itemsize == 1 else str(array.dtype)
        raise LeftOut(f"{what} of {size}: no op takes them")
    return array


def dims_text(dims):
    return "x".join(str(d) for d in dims) if dims else "scalar"


class Data:
    """The bytes of vectors.bin, equal arrays once."""

    def __init__(self):
        self.bytes, self.known = bytearray(), {}

    def add(self, array):
        raw = np.ascontiguousarray(array).tobytes()
        if raw not in self.known:
            self.bytes += b"\0" * (-len(self.bytes) % 4)
            self.known[raw] = len(self.bytes)
            self.bytes += raw
        return self.known[raw]


class Graph:
    """One test as values and nodes of ours. Values are ids."""

    def __init__(self):
        self.values, self.nodes = [], []

    def _add(self, **value):
        self.values.append(value)
        return len(self.values) - 1

    @staticmethod
    def _order(perm):
        return "-" if list(perm) == sorted(perm) else "".join(str(list(perm).index(d)) for d in range(len(perm)))

    def input(self, array, perm=None, what="values"):
        """`perm`: our dimension i is ONNX's perm[i]; the memory keeps ONNX's order."""
        array = as_ours(array, what)
        perm = list(range(array.ndim)) if perm is None else list(perm)
        data = array.transpose(perm)
        return self._add(role="in", dtype=DTYPES[array.dtype], dims=data.shape, order=self._order(perm), data=data)

    def indices(self, array):
        return self.input(np.asarray(array).astype(np.int32))

    def state(self, before, after):
        before, after = as_ours(before), as_ours(after)
        return self._add(role="state", dtype=DTYPES[before.dtype], dims=before.shape, order="-", data=before, expected=after)

    def view(self, of, dims):
        value = self.values[of]
        dims = [int(d) for d in np.empty(value["dims"], np.bool_).reshape(dims).shape]
        assert value["order"] == "-" and value["role"] != "view"
        return of if tuple(dims) == tuple(value["dims"]) else self._add(role="view", dims=dims, of=of, dtype=value["dtype"], order="-")

    def out(self, dims, dtype="f32", expected=None, perm=None):
        """`expected` is ONNX's array (any shape of as many elements); with `perm` the memory keeps its order, as of an input."""
        order = "-"
        if expected is not None:
            expected = as_ours(expected)
            dtype = DTYPES[expected.dtype]
            if perm is not None:
                expected, order = expected.transpose(perm), self._order(perm)
            expected = expected.reshape(dims)
        return self._add(role="out", dtype=dtype, dims=list(dims), order=order, expected=expected)

    def node(self, op, inputs, outputs, **attributes):
        self.nodes.append((op, inputs, outputs, {k: v for k, v in attributes.items() if v is not None}))
        return outputs[0]

    def make(self, op, inputs, dims, dtype="f32", expected=None, perm=None, **attributes):
        """A node with one output; returns it."""
        return self.node(op, inputs, [self.out(dims, dtype, expected, perm)], **attributes)

    def lines(self, data):
        text = []
        for i, v in enumerate(self.values):
            if v["role"] == "view":
                text.append(f"view {i} {dims_text(v['dims'])} {v['of']}")
                continue
            parts = [v["role"], str(i), v["dtype"], dims_text(v["dims"]), v["order"]]
            if "data" in v:
                parts.append(str(data.add(v["data"])))
            if v["role"] != "in":
                parts.append("-" if v["expected"] is None else str(data.add(v["expected"])))
            text.append(" ".join(parts))
        ids = lambda list_: ",".join("-" if i is None else str(i) for i in list_)
        for op, inputs, outputs, attributes in self.nodes:
            words = [f"{k}={float(v):.9g}" for k, v in attributes.items()]
            text.append(" ".join(["node", op, ids(inputs), ids(outputs)] + words))
        return text
