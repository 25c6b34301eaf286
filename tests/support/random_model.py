"""Writes a llama model of any shape with random weights as GGUF; Python alone. Vocabulary and template are the micro model's.

Attention matrices are Q8_0, those of the feed-forward network Q4_0, table and norms f32. Rows are multiples of 32. The same numbers for
the same shape and seed on any machine.
"""

import array
import pathlib
import random
import struct

F32, Q4_0, Q8_0 = 0, 2, 8
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY, U32 = 8, 9, 4
ALIGNMENT = 32


def _end_of_value(data, kind, at):
    if kind == STRING:
        return at + 8 + struct.unpack_from("<Q", data, at)[0]
    if kind == ARRAY:
        element, count = struct.unpack_from("<IQ", data, at)
        at += 12
        for _ in range(count):
            at = _end_of_value(data, element, at)
        return at
    return at + SIZES[kind]


def _keys(data):
    """Name -> (kind, bytes) of a GGUF file, in order."""
    (count,) = struct.unpack_from("<Q", data, 16)
    keys, at = {}, 24
    for _ in range(count):
        (length,) = struct.unpack_from("<Q", data, at)
        name = data[at + 8 : at + 8 + length].decode()
        (kind,) = struct.unpack_from("<I", data, at + 8 + length)
        begin = at + 12 + length
        at = _end_of_value(data, kind, begin)
        keys[name] = (kind, data[begin:at])
    return keys


def _matrix(generator, kind, rows, columns):
    """Elements near a standard deviation of columns ** -0.5, so that activations keep their size."""
    deviation = columns**-0.5
    if kind == F32:
        return array.array("f", (generator.uniform(-1.7, 1.7) * deviation for _ in range(rows * columns))).tobytes()
    payload = 32 if kind == Q8_0 else 16
    spread = 73.9 if kind == Q8_0 else 4.6  # of codes that are uniform
    codes = generator.randbytes(rows * columns // 32 * payload)
    scales = [struct.pack("<e", deviation / spread * factor) for factor in (0.75, 0.9, 1.1, 1.25)]
    return b"".join(scales[codes[at] & 3] + codes[at : at + payload] for at in range(0, len(codes), payload))


def write(path, source, dim, ffn, layers, heads, kv_heads, seed=1):
    """`source`: the micro model. Returns the number of parameters."""
    keys = _keys(pathlib.Path(source).read_bytes())
    vocabulary = struct.unpack("<I", keys["llama.vocab_size"][1])[0]
    size = dim // heads
    for name, value in {"embedding_length": dim, "block_count": layers, "feed_forward_length": ffn, "attention.head_count": heads,
                        "attention.head_count_kv": kv_heads, "attention.key_length": size, "attention.value_length": size,
                        "rope.dimension_count": size}.items():
        keys[f"llama.{name}"] = (U32, struct.pack("<I", value))

    generator = random.Random(seed)
    tensors = [("token_embd.weight", F32, vocabulary, dim), ("output_norm.weight", F32, 0, dim)]
    for layer in range(layers):
        shapes = (("attn_norm", F32, 0, dim), ("attn_q", Q8_0, dim, dim), ("attn_k", Q8_0, kv_heads * size, dim),
                  ("attn_v", Q8_0, kv_heads * size, dim), ("attn_output", Q8_0, dim, dim), ("ffn_norm", F32, 0, dim),
                  ("ffn_gate", Q4_0, ffn, dim), ("ffn_up", Q4_0, ffn, dim), ("ffn_down", Q4_0, dim, ffn))
        tensors += [(f"blk.{layer}.{name}.weight", kind, rows, columns) for name, kind, rows, columns in shapes]

    head = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(keys))]
    for name, (kind, value) in keys.items():
        head += [struct.pack("<Q", len(name)), name.encode(), struct.pack("<I", kind), value]
    blobs, offset, parameters = [], 0, 0
    for name, kind, rows, columns in tensors:
        dims = (columns, rows) if rows else (columns,)
        data = _matrix(generator, kind, rows, columns) if rows else array.array("f", [1.0] * columns).tobytes()
        data += bytes(-len(data) % ALIGNMENT)
        head += [struct.pack("<Q", len(name)), name.encode(), struct.pack(f"<I{len(dims)}Q", len(dims), *dims), struct.pack("<IQ", kind, offset)]
        blobs.append(data)
        offset += len(data)
        parameters += max(rows, 1) * columns
    content = b"".join(head)
    pathlib.Path(path).write_bytes(content + bytes(-len(content) % ALIGNMENT) + b"".join(blobs))
    return parameters
