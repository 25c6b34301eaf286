#!/usr/bin/env python3
"""Write a synthetic GGUF model with random weights: real shapes, real formats, nonsense text.

    make_gguf.py PRESET TYPE OUT.gguf [--arch llama|qwen2|qwen3] [--tied] [--head-dim N] [--layers N] [--vocab N] [--seed N] [--split N]

For tests and speed comparisons that need no download. Needs numpy only and streams: memory stays below 200 MB.

PRESET  smollm2-135m tinyllama-1.1b llama-7b mistral-7b qwen2.5-3b tiny (256 wide) micro (64 wide)
TYPE    of all matrices: F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q4_K Q5_K Q6_K, or
        Q4_K_M: Q4_K, with Q6_K for the head, and for attn_v and ffn_down of half the layers.
        Where a row is no multiple of 256, Q4_K becomes Q5_0, Q5_K becomes Q5_1 and Q6_K becomes Q8_0.
--split writes OUT-00001-of-0000N.gguf and so on; all keys are in the first.

Weights: quantised codes are uniform bits; block scales vary by a quarter around the one that gives a standard
deviation of columns**-0.5, so activations stay near unit variance. Sub-block scales and minimums vary too, and Q6_K
scales have both signs: a kernel that mixes them up gives other results. Norms are 1 and biases 0, each plus a tenth of
a normal number. A tensor's bytes depend on seed, name and shape only, on any machine, however the model is split.

The vocabulary is of the SentencePiece kind ("llama"): three special tokens, 256 bytes, then "_" (U+2581) and words of
lower-case letters, shortest first, so that any text can be tokenized and decoded.
"""
import argparse
import dataclasses
import itertools
import pathlib
import re
import statistics
import struct
import zlib

import numpy as np

ALIGNMENT = 32
CHUNK_BLOCKS = 1 << 14  # of 256 elements


@dataclasses.dataclass(frozen=True)
class Shape:
    dim: int
    ffn: int
    layers: int
    heads: int
    kv_heads: int
    vocab: int
    context: int
    rope_base: float
    epsilon: float = 1e-5
    arch: str = "llama"
    tied: bool = False


PRESETS = {
    "smollm2-135m": Shape(576, 1536, 30, 9, 3, 49152, 8192, 100000.0),
    "tinyllama-1.1b": Shape(2048, 5632, 22, 32, 4, 32000, 2048, 10000.0),
    "llama-7b": Shape(4096, 11008, 32, 32, 32, 32000, 4096, 10000.0),
    "mistral-7b": Shape(4096, 14336, 32, 32, 8, 32000, 32768, 10000.0),
    "qwen2.5-3b": Shape(2048, 11008, 36, 16, 2, 151936, 32768, 1000000.0, 1e-6, "qwen2", True),
    "tiny": Shape(256, 768, 4, 8, 4, 32000, 2048, 10000.0),
    "micro": Shape(64, 96, 2, 4, 2, 320, 256, 10000.0),
}
ARCHITECTURES = ("llama", "qwen2", "qwen3")


@dataclasses.dataclass(frozen=True)
class Format:
    ggml_id: int
    file_type: int  # the value of general.file_type for a file of this format
    block_elements: int
    block_bytes: int


def block_sizes():
    """Elements and bytes of a block of each format, from the descriptors of quern_formats.h."""
    text = (pathlib.Path(__file__).resolve().parents[1] / "plugin-api/include/quern/quern_formats.h").read_text()
    rows = re.findall(r"QUERN_TYPE_FORMAT, NULL}, QUERN_(\w+), (\d+), (\d+),", text)
    return {"F32": (1, 4), "F16": (1, 2), "BF16": (1, 2), **{name: (int(elements), int(size)) for name, elements, size in rows}}


# Numbers of a type and of a file of it, as GGUF has them.
NUMBERS = {"F32": (0, 0), "F16": (1, 1), "BF16": (30, 32), "Q4_0": (2, 2), "Q4_1": (3, 3), "Q5_0": (6, 8), "Q5_1": (7, 9), "Q8_0": (8, 7),
           "Q4_K": (12, 14), "Q5_K": (13, 16), "Q6_K": (14, 18)}
FORMATS = {name: Format(*numbers, *block_sizes()[name]) for name, numbers in NUMBERS.items()}
SMALL_ROW = {"Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}
TYPES = (*FORMATS, "Q4_K_M")


# ---- random numbers ------------------------------------------------------------------------------------------------


class Bits:
    """Random bits that depend on seed and name only (numpy promises the streams of its bit generators)."""

    normal_table = None

    def __init__(self, seed, name):
        self.generator = np.random.PCG64(np.random.SeedSequence([seed, zlib.crc32(name.encode())]))

    def take(self, count, dtype):
        """`count` uniform unsigned integers."""
        words = -(-count * np.dtype(dtype).itemsize // 8)
        return self.generator.random_raw(words).astype("<u8", copy=False).view(dtype)[:count]

    def between(self, low, high, shape):
        """Uniform integers in [low, high], as int32."""
        raw = self.take(int(np.prod(shape)), "<u2").astype(np.int32)
        return (low + raw * (high - low + 1) // 65536).reshape(shape)

    def normal(self, count):
        """Normal numbers from a table of 65,536 quantiles: fast, and the same everywhere."""
        if Bits.normal_table is None:
            quantile = statistics.NormalDist().inv_cdf
            Bits.normal_table = np.array([quantile((i + 0.5) / 65536) for i in range(65536)], np.float32)
        return Bits.normal_table[self.take(count, "<u2")]


# ---- formats -------------------------------------------------------------------------------------------------------


def scale_bytes(values):
    return values.astype("<f2").view(np.uint8).reshape(-1, 2)


def block_scales(bits, blocks, mean):
    """One positive scale a block, `mean` plus or minus a quarter, with the root mean square of `mean`."""
    jitter = bits.between(768, 1280, blocks).astype(np.float64) / 1024
    return mean * jitter / np.sqrt(1 + 0.25 ** 2 / 3)


def pack_six_bits(scales, minimums):
    """The 12 bytes of eight 6-bit scales and eight 6-bit minimums of Q4_K and Q5_K."""
    packed = np.empty((len(scales), 12), np.uint8)
    packed[:, 0:4] = scales[:, :4] | (scales[:, 4:] >> 4) << 6
    packed[:, 4:8] = minimums[:, :4] | (minimums[:, 4:] >> 4) << 6
    packed[:, 8:12] = (scales[:, 4:] & 15) | (minimums[:, 4:] & 15) << 4
    return packed


def symmetric_blocks(kind, bits, blocks, std):
    """Q4_0, Q5_0, Q8_0: value = scale * (code - middle). A uniform code of n levels has deviation n / sqrt(12)."""
    levels = {"Q4_0": 16, "Q5_0": 32, "Q8_0": 256}[kind]
    out = bits.take(blocks * FORMATS[kind].block_bytes, np.uint8).reshape(blocks, -1).copy()
    out[:, 0:2] = scale_bytes(block_scales(bits, blocks, std * 12 ** 0.5 / levels))
    return out


def affine_blocks(kind, bits, blocks, std):
    """Q4_1, Q5_1: value = scale * code + minimum, with the minimum at minus half the range."""
    levels = {"Q4_1": 16, "Q5_1": 32}[kind]
    out = bits.take(blocks * FORMATS[kind].block_bytes, np.uint8).reshape(blocks, -1).copy()
    scales = block_scales(bits, blocks, std * 12 ** 0.5 / levels)
    out[:, 0:2] = scale_bytes(scales)
    out[:, 2:4] = scale_bytes(-scales * (levels - 1) / 2)
    return out


def super_blocks(kind, bits, blocks, std):
    """Q4_K, Q5_K: value = d * scale * code - dmin * minimum; scales and minimums from 24 to 40 around 32."""
    levels = {"Q4_K": 16, "Q5_K": 32}[kind]
    middle, spread, half = 32, (17 ** 2 - 1) / 12, (levels - 1) / 2
    # Variance over d^2: E[scale^2] * var(code) + half^2 * var(scale - minimum).
    unit = ((middle ** 2 + spread) * (levels ** 2 - 1) / 12 + half ** 2 * 2 * spread) ** 0.5
    out = bits.take(blocks * FORMATS[kind].block_bytes, np.uint8).reshape(blocks, -1).copy()
    d = block_scales(bits, blocks, std / unit)
    out[:, 0:2], out[:, 2:4] = scale_bytes(d), scale_bytes(d * half)
    out[:, 4:16] = pack_six_bits(bits.between(24, 40, (blocks, 8)), bits.between(24, 40, (blocks, 8)))
    return out


def six_bit_blocks(bits, blocks, std):
    """Q6_K: value = d * scale * (code - 32), with signed scales of 24 to 40."""
    unit = ((32 ** 2 + (17 ** 2 - 1) / 12) * (64 ** 2 - 1) / 12) ** 0.5
    out = bits.take(blocks * 210, np.uint8).reshape(blocks, -1).copy()
    sign = 1 - 2 * bits.between(0, 1, (blocks, 16))
    out[:, 192:208] = (sign * bits.between(24, 40, (blocks, 16))).astype(np.int8).view(np.uint8)
    out[:, 208:210] = scale_bytes(block_scales(bits, blocks, std / unit))
    return out


def to_bf16(values):
    """Round to nearest even; the values are finite."""
    raw = values.astype("<f4").view("<u4")
    return ((raw + 0x7FFF + ((raw >> 16) & 1)) >> 16).astype("<u2")


def weights(kind, bits, blocks, std):
    """The bytes of `blocks` blocks of format `kind`."""
    if kind in ("F32", "F16", "BF16"):
        values = bits.normal(blocks) * np.float32(std)
        return {"F32": lambda: values.astype("<f4"), "F16": lambda: values.astype("<f2"), "BF16": lambda: to_bf16(values)}[kind]()
    if kind in ("Q4_0", "Q5_0", "Q8_0"):
        return symmetric_blocks(kind, bits, blocks, std)
    if kind in ("Q4_1", "Q5_1"):
        return affine_blocks(kind, bits, blocks, std)
    return six_bit_blocks(bits, blocks, std) if kind == "Q6_K" else super_blocks(kind, bits, blocks, std)


# ---- the model -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Tensor:
    name: str
    shape: tuple  # rows, columns; or columns alone
    kind: str
    role: str = "weight"  # or norm, bias

    @property
    def bytes(self):
        form = FORMATS[self.kind]
        return int(np.prod(self.shape)) // form.block_elements * form.block_bytes

    def write(self, out, seed):
        bits = Bits(seed, self.name)
        if self.role != "weight":
            out.write((bits.normal(self.shape[0]) * np.float32(0.1) + np.float32(self.role == "norm")).astype("<f4").tobytes())
            return
        form = FORMATS[self.kind]
        blocks = int(np.prod(self.shape)) // form.block_elements
        chunk = CHUNK_BLOCKS * 256 // form.block_elements
        for start in range(0, blocks, chunk):
            out.write(weights(self.kind, bits, min(chunk, blocks - start), self.shape[-1] ** -0.5).tobytes())


def kind_of(requested, name, layer, layers, columns, tied):
    kind = requested
    if requested == "Q4_K_M":
        more = layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2
        head = name == "output" or (tied and name == "token_embd")
        kind = "Q6_K" if head or (name in ("attn_v", "ffn_down") and more) else "Q4_K"
    return kind if columns % FORMATS[kind].block_elements == 0 else SMALL_ROW[kind]


def tensors_of(shape, requested, head_dim):
    def matrix(name, rows, columns, layer=None):
        kind = kind_of(requested, name, layer or 0, shape.layers, columns, shape.tied)
        prefix = "" if layer is None else f"blk.{layer}."
        return Tensor(f"{prefix}{name}.weight", (rows, columns), kind)

    def norm(name, columns, layer=None):
        prefix = "" if layer is None else f"blk.{layer}."
        return Tensor(f"{prefix}{name}.weight", (columns,), "F32", "norm")

    q, kv = shape.heads * head_dim, shape.kv_heads * head_dim
    tensors = [matrix("token_embd", shape.vocab, shape.dim), norm("output_norm", shape.dim)]
    if not shape.tied:
        tensors.append(matrix("output", shape.vocab, shape.dim))
    for i in range(shape.layers):
        tensors += [norm("attn_norm", shape.dim, i), norm("ffn_norm", shape.dim, i)]
        for name, rows, columns in (("attn_q", q, shape.dim), ("attn_k", kv, shape.dim), ("attn_v", kv, shape.dim),
                                    ("attn_output", shape.dim, q), ("ffn_gate", shape.ffn, shape.dim),
                                    ("ffn_up", shape.ffn, shape.dim), ("ffn_down", shape.dim, shape.ffn)):
            tensors.append(matrix(name, rows, columns, i))
        if shape.arch == "qwen2":
            tensors += [Tensor(f"blk.{i}.{name}.bias", (rows,), "F32", "bias")
                        for name, rows in (("attn_q", q), ("attn_k", kv), ("attn_v", kv))]
        if shape.arch == "qwen3":
            tensors += [norm("attn_q_norm", head_dim, i), norm("attn_k_norm", head_dim, i)]
    return tensors


# ---- metadata ------------------------------------------------------------------------------------------------------

TEMPLATE = ("{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}")


def text(value):
    value = value.encode()
    return struct.pack("<Q", len(value)) + value


def u16(value):
    return struct.pack("<IH", 2, value)


def u32(value):
    return struct.pack("<II", 4, value)


def i32(value):
    return struct.pack("<Ii", 5, value)


def f32(value):
    return struct.pack("<If", 6, value)


def boolean(value):
    return struct.pack("<IB", 7, value)


def string(value):
    return struct.pack("<I", 8) + text(value)


def array(type_id, count, data):
    return struct.pack("<IIQ", 9, type_id, count) + data


def words():
    """The word mark, then letters and words, with and without the mark in front, shortest first."""
    yield "\u2581"
    for length in itertools.count(1):
        for mark in ("", "\u2581"):
            for letters in itertools.product("etaoinshrdlcumwfgypbvkjxqz", repeat=length):
                yield mark + "".join(letters)


def vocabulary(size):
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    tokens += itertools.islice(words(), size - len(tokens))
    types = [2, 3, 3] + [6] * 256 + [1] * (size - 259)
    return tokens, types


def metadata(preset, shape, requested, head_dim):
    tokens, types = vocabulary(shape.vocab)
    arch, size = shape.arch, shape.vocab
    file_type = 15 if requested == "Q4_K_M" else FORMATS[requested].file_type
    return {
        "general.architecture": string(arch),
        "general.name": string(f"{preset} with random weights"),
        "general.alignment": u32(ALIGNMENT),
        "general.file_type": u32(file_type),
        "general.quantization_version": u32(2),
        f"{arch}.context_length": u32(shape.context),
        f"{arch}.embedding_length": u32(shape.dim),
        f"{arch}.block_count": u32(shape.layers),
        f"{arch}.feed_forward_length": u32(shape.ffn),
        f"{arch}.attention.head_count": u32(shape.heads),
        f"{arch}.attention.head_count_kv": u32(shape.kv_heads),
        f"{arch}.attention.key_length": u32(head_dim),
        f"{arch}.attention.value_length": u32(head_dim),
        f"{arch}.attention.layer_norm_rms_epsilon": f32(shape.epsilon),
        f"{arch}.rope.dimension_count": u32(head_dim),
        f"{arch}.rope.freq_base": f32(shape.rope_base),
        f"{arch}.vocab_size": u32(size),
        "tokenizer.ggml.model": string("llama"),
        "tokenizer.ggml.tokens": array(8, size, b"".join(map(text, tokens))),
        "tokenizer.ggml.scores": array(6, size, np.arange(0, -size, -1).astype("<f4").tobytes()),
        "tokenizer.ggml.token_type": array(5, size, np.array(types, "<i4").tobytes()),
        "tokenizer.ggml.bos_token_id": u32(1),
        "tokenizer.ggml.eos_token_id": u32(2),
        "tokenizer.ggml.unknown_token_id": u32(0),
        "tokenizer.ggml.add_bos_token": boolean(True),
        "tokenizer.ggml.add_eos_token": boolean(False),
        "tokenizer.chat_template": string(TEMPLATE),
    }


# ---- the file ------------------------------------------------------------------------------------------------------


def padded(size):
    return -(-size // ALIGNMENT) * ALIGNMENT


def write_file(path, keys, tensors, seed):
    with open(path, "wb") as out:
        out.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)))
        for key, value in keys.items():
            out.write(text(key) + value)
        offset = 0
        for tensor in tensors:
            dims = tensor.shape[::-1]
            out.write(text(tensor.name) + struct.pack(f"<I{len(dims)}Q", len(dims), *dims))
            out.write(struct.pack("<IQ", FORMATS[tensor.kind].ggml_id, offset))
            offset += padded(tensor.bytes)
        for tensor in tensors:
            out.write(b"\0" * (padded(out.tell()) - out.tell()))
            start = out.tell()
            tensor.write(out, seed)
            if out.tell() - start != tensor.bytes:
                raise RuntimeError(f"{tensor.name}: wrote {out.tell() - start} bytes, declared {tensor.bytes}")


def parts_of(tensors, count):
    """The tensors in `count` runs of about equal bytes, none of them empty."""
    total, done, parts = sum(t.bytes for t in tensors), 0, [[] for _ in range(count)]
    for i, tensor in enumerate(tensors):
        parts[max(min(done * count // total, i), count - (len(tensors) - i))].append(tensor)
        done += tensor.bytes
    return parts


def make(preset, requested, out, arch=None, tied=None, head_dim=None, layers=None, vocab=None, seed=7, split=1):
    """Writes the model; returns the paths written."""
    shape = PRESETS[preset]
    shape = dataclasses.replace(shape, arch=arch or shape.arch, tied=shape.tied if tied is None else tied,
                                layers=shape.layers if layers is None else layers, vocab=shape.vocab if vocab is None else vocab)
    if shape.layers < 1 or shape.vocab < 320:
        raise ValueError(f"{shape.layers} layers and {shape.vocab} tokens were asked for; a model has at least 1 and 320")
    head_dim = head_dim or shape.dim // shape.heads
    tensors = tensors_of(shape, requested, head_dim)
    if not 1 <= split <= min(len(tensors), 99999):
        raise ValueError(f"--split is {split}; the model has {len(tensors)} tensors")
    keys, out = metadata(preset, shape, requested, head_dim), pathlib.Path(out)
    if split == 1:
        write_file(out, keys, tensors, seed)
        return [out]
    paths = []
    for i, part in enumerate(parts_of(tensors, split)):
        own = {"split.no": u16(i), "split.count": u16(split), "split.tensors.count": i32(len(tensors))}
        paths.append(out.with_name(f"{out.stem}-{i + 1:05d}-of-{split:05d}.gguf"))
        write_file(paths[-1], {**(keys if i == 0 else {}), **own}, part, seed)
    return paths


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset", choices=PRESETS, metavar="PRESET")
    parser.add_argument("type", choices=TYPES, metavar="TYPE")
    parser.add_argument("out", metavar="OUT.gguf")
    parser.add_argument("--arch", choices=ARCHITECTURES, help="default: the preset's")
    parser.add_argument("--tied", action="store_true", default=None, help="the head is the embedding")
    parser.add_argument("--head-dim", type=int, help="default: width / heads")
    parser.add_argument("--layers", type=int, help="default: the preset's")
    parser.add_argument("--vocab", type=int, help="default: the preset's; 600000 of llama-7b in F16 make one tensor of 4.9 GB")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--split", type=int, default=1, help="number of files")
    arguments = parser.parse_args()
    try:
        make(arguments.preset, arguments.type, arguments.out, arguments.arch, arguments.tied, arguments.head_dim,
             arguments.layers, arguments.vocab, arguments.seed, arguments.split)
    except (OSError, ValueError) as error:
        parser.exit(2, f"make_gguf.py: {error}\n")


if __name__ == "__main__":
    main()
