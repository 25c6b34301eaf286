"""A GGUF file read whole, changed anywhere and written again; Python alone."""

import pathlib
import struct

U32, STRING, ARRAY, F32, Q8_0 = 4, 8, 9, 0, 8
_FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}
_ALIGNMENT = 32


class Zeros(int):
    """So many bytes of zeros, which take no room on the disk."""


class _Reader:
    def __init__(self, data):
        self.data, self.at = data, 4

    def number(self, form):
        value = struct.unpack_from("<" + form, self.data, self.at)[0]
        self.at += struct.calcsize("<" + form)
        return value

    def text(self):
        size = self.number("Q")
        self.at += size
        return self.data[self.at - size : self.at]

    def value(self, kind):
        if kind == STRING:
            return self.text()
        if kind != ARRAY:
            return self.number(_FORMATS[kind])
        element, count = self.number("I"), self.number("Q")
        return element, [self.value(element) for _ in range(count)]


def _text(value):
    return struct.pack("<Q", len(value)) + value


def _value(kind, value):
    if kind == STRING:
        return _text(value)
    if kind != ARRAY:
        return struct.pack("<" + _FORMATS[kind], value)
    element, items = value
    return struct.pack("<IQ", element, len(items)) + b"".join(_value(element, item) for item in items)


class Gguf:
    """`keys`: name -> [kind, value], an array's value being (kind, list); `tensors`: [name, dims, type, bytes or Zeros]."""

    def __init__(self, path):
        data = pathlib.Path(path).read_bytes()
        reader = _Reader(data)
        self.version, tensors, keys = reader.number("I"), reader.number("Q"), reader.number("Q")
        self.keys, self.tensors = {}, []
        for _ in range(keys):
            name, kind = reader.text().decode(), reader.number("I")
            self.keys[name] = [kind, reader.value(kind)]
        heads = [(reader.text().decode(), [reader.number("Q") for _ in range(reader.number("I"))], reader.number("I"), reader.number("Q"))
                 for _ in range(tensors)]
        base = -(-reader.at // _ALIGNMENT) * _ALIGNMENT
        ends = sorted(head[3] for head in heads) + [len(data) - base]
        for name, dims, kind, offset in heads:
            self.tensors.append([name, dims, kind, data[base + offset : base + min(end for end in ends if end > offset)]])

    def write(self, path):
        head = [b"GGUF", struct.pack("<IQQ", self.version, len(self.tensors), len(self.keys))]
        head += [_text(name.encode()) + struct.pack("<I", kind) + _value(kind, value) for name, (kind, value) in self.keys.items()]
        offsets, end = [], 0
        for name, dims, kind, data in self.tensors:
            offsets.append(end)
            head.append(_text(name.encode()) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, end))
            end += -(-(data if isinstance(data, Zeros) else len(data)) // _ALIGNMENT) * _ALIGNMENT
        head = b"".join(head)
        base = -(-len(head) // _ALIGNMENT) * _ALIGNMENT
        with open(path, "wb") as file:
            file.write(head)
            for offset, tensor in zip(offsets, self.tensors):
                if not isinstance(tensor[3], Zeros):
                    file.seek(base + offset)
                    file.write(tensor[3])
            file.truncate(base + end)
        return str(path)


def llama(like, layers, hidden=2, ffn=1, vocabulary=320, context=None, heads=1, kv_heads=1, head_size=None, weights=F32):
    """A llama whose norms are f32, and matrices `weights` (F32 or Q8_0): small numbers where a tensor has few, zeros in a large one."""
    model = Gguf(like)
    head_size = head_size or hidden // heads
    numbers = {"embedding_length": hidden, "block_count": layers, "feed_forward_length": ffn, "attention.head_count": heads,
               "attention.head_count_kv": kv_heads, "attention.key_length": head_size, "attention.value_length": head_size,
               "rope.dimension_count": head_size}
    if context is not None:
        numbers["context_length"] = context
    for name, number in numbers.items():
        model.keys["llama." + name] = [U32, number]

    def tensor(name, *dims):
        count = dims[0] * (dims[1] if len(dims) > 1 else 1)
        if len(dims) > 1 and weights == Q8_0:
            return [name, list(dims), Q8_0, Zeros(count // 32 * 34)]
        return [name, list(dims), F32, struct.pack("<f", 0.01) * count if count < 65536 else Zeros(4 * count)]

    model.tensors = [tensor("token_embd.weight", hidden, vocabulary), tensor("output_norm.weight", hidden),
                     tensor("output.weight", hidden, vocabulary)]
    rows, kv_rows = heads * head_size, kv_heads * head_size
    for layer in range(layers):
        for name, dims in (("attn_norm", (hidden,)), ("attn_q", (hidden, rows)), ("attn_k", (hidden, kv_rows)), ("attn_v", (hidden, kv_rows)),
                           ("attn_output", (rows, hidden)), ("ffn_norm", (hidden,)), ("ffn_gate", (hidden, ffn)), ("ffn_up", (hidden, ffn)),
                           ("ffn_down", (ffn, hidden))):
            model.tensors.append(tensor(f"blk.{layer}.{name}.weight", *dims))
    return model
