"""Writes small random directories as the packers do, each with a twin in f32 that has the same numbers. Python without packages.

A packer takes a random generator and the size of a weight and returns its tensors, by what follows the module's name, and what they mean by the
packer's published rule: (code - zero) * scale, in exact arithmetic and rounded to f32 once.
"""
import json
import random
import shutil
import struct

from safetensors_files import write_safetensors

HIDDEN, FFN, LAYERS, HEADS, KV_HEADS, VOCABULARY = 128, 256, 2, 4, 2, 320
HEAD = HIDDEN // HEADS
LINEARS = {"self_attn.q_proj": (HIDDEN, HIDDEN), "self_attn.k_proj": (KV_HEADS * HEAD, HIDDEN), "self_attn.v_proj": (KV_HEADS * HEAD, HIDDEN),
           "self_attn.o_proj": (HIDDEN, HIDDEN), "mlp.gate_proj": (FFN, HIDDEN), "mlp.up_proj": (FFN, HIDDEN), "mlp.down_proj": (HIDDEN, FFN)}


def f32(values):
    return struct.pack(f"<{len(values)}f", *values)


def f16(values):
    return struct.pack(f"<{len(values)}e", *values)


def bf16(values):
    """Of numbers that bf16 has."""
    words = struct.unpack(f"<{len(values)}I", f32(values))
    assert all(word & 0xFFFF == 0 for word in words)
    return struct.pack(f"<{len(values)}H", *(word >> 16 for word in words))


def rounded(form, value):
    """The number that the format has for it: f16, bf16 or f32."""
    if form == "F16":
        return struct.unpack("<e", struct.pack("<e", value))[0]
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return struct.unpack("<f", struct.pack("<I", bits & 0xFFFF0000 if form == "BF16" else bits))[0]


def stored(form, values):
    return {"F16": f16, "BF16": bf16, "F32": f32}[form](values)


def words(numbers, bits):
    """Whole words of numbers, lowest bits first."""
    per = 32 // bits
    return struct.pack(f"<{len(numbers) // per}I", *(sum(code << bits * i for i, code in enumerate(numbers[at:at + per])) for at in range(0, len(numbers), per)))


def columns_of(matrix, width):
    return [[row[c] for row in matrix] for c in range(width)]


class Matrix:
    """Codes [n][k], zero points and scales [n][groups]."""

    def __init__(self, rng, n, k, group, bits, form, zero=None):
        self.n, self.k, self.group, self.bits, self.form = n, k, group, bits, form
        self.codes = [[rng.randrange(1 << bits) for _ in range(k)] for _ in range(n)]
        middle = 1 << bits - 1
        pick = (lambda: zero) if zero is not None else (lambda: rng.randrange(middle // 2, middle + middle // 2))
        self.zeros = [[pick() for _ in range(k // group)] for _ in range(n)]
        self.scales = [[rounded(form, rng.uniform(0.5, 2) * 0.3 / middle) for _ in range(k // group)] for _ in range(n)]

    def meaning(self):
        return self.meaning_by([c // self.group for c in range(self.k)])

    def meaning_by(self, groups):
        """`groups` has the group of each column."""
        return [(self.codes[r][c] - self.zeros[r][groups[c]]) * self.scales[r][groups[c]] for r in range(self.n) for c in range(self.k)]


def shuffle(rng, group_of, act_order):
    """The groups of columns in the order of activations: an order of this weight's own, or one for all weights of its length."""
    if act_order:
        (random.Random(len(group_of)) if act_order == "alike" else rng).shuffle(group_of)


def awq(group=32, form="F16"):
    order = (0, 2, 4, 6, 1, 3, 5, 7)  # nibble i of a word is column 8 c + order[i]

    def packed(columns):
        return words([column[8 * c + order[i]] for column in columns for c in range(len(column) // 8) for i in range(8)], 4)

    def pack(rng, n, k):
        m = Matrix(rng, n, k, k if group == -1 else group, 4, form)
        groups = k // m.group
        return {"qweight": ("I32", [k, n // 8], packed(columns_of(m.codes, k))), "qzeros": ("I32", [groups, n // 8], packed(columns_of(m.zeros, groups))),
                "scales": (form, [groups, n], stored(form, sum(columns_of(m.scales, groups), [])))}, m.meaning()
    return pack, {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": "gemm", "modules_to_not_convert": None}


def gptq(bits=4, group=32, version=1, sym=False, claims=None, dynamic=None, index=True, act_order=False, rounds=False):
    """`claims` is the version that the field says, where it is not the files'. With act_order the columns of a group lie anywhere: True gives each weight
    an order of its own, "alike" one to all weights of a length. `rounds`: what is meant is what the packer's decoder gives, products in f16."""
    def pack(rng, n, k):
        m = Matrix(rng, n, k, k if group == -1 else group, bits, "F16", zero=1 << bits - 1 if sym else None)
        groups, per, group_of = k // m.group, 32 // bits, [c // m.group for c in range(k)]
        shuffle(rng, group_of, act_order)
        along = [m.codes[r][c + i] for c in range(0, k, per) for r in range(n) for i in range(per)]
        zeros = [z - (version == 1) for column in columns_of(m.zeros, groups) for z in column]
        tensors = {"qweight": ("I32", [k * bits // 32, n], words(along, bits)), "qzeros": ("I32", [groups, n * bits // 32], words(zeros, bits)),
                   "scales": ("F16", [groups, n], f16(sum(columns_of(m.scales, groups), [])))}
        if index:
            tensors["g_idx"] = ("I32", [k], struct.pack(f"<{k}i", *group_of))
        meant = m.meaning_by(group_of)
        return tensors, [rounded("F16", value) for value in meant] if rounds else meant
    says = version if claims is None else claims
    config = {"quant_method": "gptq", "bits": bits, "group_size": group, "sym": sym, "desc_act": bool(act_order), "checkpoint_format": "gptq_v2" if says == 2 else "gptq"}
    return pack, config if dynamic is None else {**config, "dynamic": dynamic}


def compressed(bits=4, group=32, form="BF16", sym=True, act_order=False):
    def pack(rng, n, k):
        m = Matrix(rng, n, k, k if group is None else group, bits, form, zero=1 << bits - 1 if sym else None)
        groups = k // m.group
        tensors = {"weight_packed": ("I32", [n, k * bits // 32], words(sum(m.codes, []), bits)), "weight_shape": ("I64", [2], struct.pack("<2q", n, k)),
                   "weight_scale": (form, [n, groups], stored(form, sum(m.scales, [])))}
        if not sym:
            per = 32 // bits
            along = [m.zeros[r + i][g] for r in range(0, n, per) for g in range(groups) for i in range(per)]
            tensors["weight_zero_point"] = ("I32", [n * bits // 32, groups], words(along, bits))
        group_of = [c // m.group for c in range(k)]
        shuffle(rng, group_of, act_order)
        if act_order:
            tensors["weight_g_idx"] = ("I32", [k], struct.pack(f"<{k}i", *group_of))
        return tensors, m.meaning_by(group_of)
    weights = {"num_bits": bits, "type": "int", "symmetric": sym, "strategy": "group" if group else "channel", "group_size": group}
    return pack, {"quant_method": "compressed-tensors", "format": "pack-quantized",
                  "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": None}}, "ignore": ["lm_head"]}


def integers(form="BF16", sym=True):
    """compressed-tensors, int-quantized: a scale a row."""
    def pack(rng, n, k):
        m = Matrix(rng, n, k, k, 8, form, zero=128 if sym else None)
        tensors = {"weight": ("I8", [n, k], bytes(code ^ 128 for row in m.codes for code in row)), "weight_scale": (form, [n, 1], stored(form, sum(m.scales, [])))}
        tensors["input_zero_point"] = ("I8", [1], b"\0")  # of activations: not read
        if not sym:
            tensors["weight_zero_point"] = ("I8", [n, 1], bytes(row[0] ^ 128 for row in m.zeros))
        return tensors, m.meaning()
    return pack, {"quant_method": "compressed-tensors", "format": "int-quantized",
                  "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "int", "symmetric": sym, "strategy": "channel"}}}}


def e4m3(code):
    exponent, eighths = code >> 3 & 15, code & 7
    size = eighths * 2.0**-9 if exponent == 0 else (8 + eighths) * 2.0**(exponent - 10)
    return -size if code & 128 else size


def fp8(scaling="block", form="F32", compressed_tensors=False):
    """scaling: block (of 128 x 128), channel or tensor."""
    def pack(rng, n, k):
        codes = [rng.randrange(2) << 7 | rng.randrange(127) for _ in range(n * k)]
        block = {"block": (128, 128), "channel": (1, k), "tensor": (n, k)}[scaling]
        shape = [(n + block[0] - 1) // block[0], (k + block[1] - 1) // block[1]]
        scales = [rounded(form, rng.uniform(0.5, 2) * 0.002) for _ in range(shape[0] * shape[1])]
        name = "weight_scale" if compressed_tensors or scaling != "block" else "weight_scale_inv"
        at = lambda r, c: scales[r // block[0] * shape[1] + c // block[1]]  # noqa: E731
        return {"weight": ("F8_E4M3", [n, k], bytes(codes)), name: (form, [1] if scaling == "tensor" else shape, stored(form, scales)),
                "input_scale": ("F32", [1], f32([1.0]))}, [e4m3(codes[r * k + c]) * at(r, c) for r in range(n) for c in range(k)]
    if compressed_tensors:
        weights = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": scaling, "block_structure": [128, 128] if scaling == "block" else None}
        return pack, {"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}}
    return pack, {"quant_method": "fp8", "activation_scheme": "dynamic", **({"weight_block_size": [128, 128]} if scaling == "block" else {})}


NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
       0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
       0.7229568362236023, 1.0]
# Code 8 is -0, as in its kernels.
FP4 = [rounded("F32", sign * twelfths / 12) for sign in (1, -1) for twelfths in (0.0, 0.0625, 8, 12, 4, 6, 2, 3)]


def bitsandbytes(kind="nf4", nested=False):
    table = {"nf4": NF4, "fp4": FP4}[kind]

    def pack(rng, n, k):
        codes = [rng.randrange(16) for _ in range(n * k)]
        blocks, state = n * k // 64, {"quant_type": kind, "blocksize": 64, "dtype": "bfloat16", "shape": [n, k]}
        tensors = {"weight": ("U8", [n * k // 2, 1], bytes(codes[i] << 4 | codes[i + 1] for i in range(0, n * k, 2))), "weight.quant_map": ("F32", [16], f32(table))}
        if nested:
            inner = [rounded("F32", rng.uniform(-1, 1)) for _ in range(256)]
            outer = [rounded("F32", rng.uniform(0.05, 0.1)) for _ in range((blocks + 255) // 256)]
            index, offset = [rng.randrange(256) for _ in range(blocks)], rounded("F32", 0.3)
            # As torch computes: the product and the sum are rounded to f32 each.
            largest = [rounded("F32", rounded("F32", inner[i] * outer[b // 256]) + offset) for b, i in enumerate(index)]
            tensors |= {"weight.absmax": ("U8", [blocks], bytes(index)), "weight.nested_absmax": ("F32", [len(outer)], f32(outer)),
                        "weight.nested_quant_map": ("F32", [256], f32(inner))}
            state |= {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": offset}
        else:
            largest = [rounded("F32", rng.uniform(0.1, 0.5)) for _ in range(blocks)]
            tensors["weight.absmax"] = ("F32", [blocks], f32(largest))
        text = json.dumps(state).encode()
        tensors[f"weight.quant_state.bitsandbytes__{kind}"] = ("U8", [len(text)], text)
        return tensors, [table[code] * largest[i // 64] for i, code in enumerate(codes)]
    return pack, {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": kind, "bnb_4bit_use_double_quant": nested}


def llm_int8():
    def pack(rng, n, k):
        codes = [[rng.randrange(-127, 128) for _ in range(k)] for _ in range(n)]
        largest = [rounded("F32", rng.uniform(0.1, 0.5)) for _ in range(n)]
        scales = [rounded("F32", most / 127) for most in largest]
        return {"weight": ("I8", [n, k], struct.pack(f"{n * k}b", *sum(codes, []))), "SCB": ("F32", [n], f32(largest)), "weight_format": ("U8", [], b"\0")}, \
            [code * scales[r] for r in range(n) for code in codes[r]]
    return pack, {"quant_method": "bitsandbytes", "load_in_8bit": True}


def write_pair(rng, base, quantised, twin, packer, dense=(), biases=False, layers=LAYERS):
    """Two directories with the tokenizer of `base`: as the packer writes it, and in f32. Modules whose names end with one of `dense` stay as they are."""
    pack, config = packer
    ours, plain = {}, {}

    def both(name, form, shape, values):
        ours[name] = (form, shape, stored(form, values))
        plain[name] = ("F32", shape, f32(values))

    def normal(form, count, size, middle=0.0):
        return [rounded(form, middle + rng.gauss(0, size)) for _ in range(count)]

    both("model.embed_tokens.weight", "F16", [VOCABULARY, HIDDEN], normal("F16", VOCABULARY * HIDDEN, 0.5))
    both("model.norm.weight", "F16", [HIDDEN], normal("F16", HIDDEN, 0.1, 1))
    for layer in range(layers):
        front = f"model.layers.{layer}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            both(f"{front}{norm}.weight", "F16", [HIDDEN], normal("F16", HIDDEN, 0.1, 1))
        for module, (n, k) in LINEARS.items():
            if biases and module.startswith("self_attn."):
                both(f"{front}{module}.bias", "F16", [n], normal("F16", n, 0.1))
            if module.endswith(tuple(dense)):
                both(f"{front}{module}.weight", "F16", [n, k], normal("F16", n * k, 0.05))
                continue
            tensors, meaning = pack(rng, n, k)
            ours.update({f"{front}{module}.{part}": tensor for part, tensor in tensors.items()})
            plain[f"{front}{module}.weight"] = ("F32", [n, k], f32(meaning))
    described = json.loads((base / "config.json").read_text())
    described.update(hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=layers, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=HEAD,
                     tie_word_embeddings=True, attention_bias=biases)
    for folder, tensors, more in ((quantised, ours, {"quantization_config": config}), (twin, plain, {})):
        shutil.copytree(base, folder)
        write_safetensors(folder / "model.safetensors", tensors)
        (folder / "config.json").write_text(json.dumps({**described, **more}))
