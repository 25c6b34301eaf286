#!/usr/bin/env python3
"""Write a synthetic Hugging Face directory with random weights: real shapes, the packers' forms, nonsense text.

    make_directory.py PRESET FORMAT OUT [--shards N] [--layers N] [--vocab N] [--seed N] [--jobs N]

For tests and speed comparisons that need no download. Needs numpy only; several processes write into the shards at once.

PRESET  a llama shape of make_gguf.py: tinyllama-1.1b llama-7b mistral-7b tiny micro ...
FORMAT  bf16
        awq             int4, groups of 128, with zero points, words of AWQ's gemm
        gptq            int4, groups of 128, with zero points, columns in order
        gptq-act-order  the same, with columns in the order of activations: one for q, k and v, one for gate and up
        fp8             E4M3 with a scale for each block of 128 x 128
        nf4             bitsandbytes, blocks of 64, scales in f32
        Quantised ones keep the embedding and the head in f16, fp8 in bf16.

Codes are uniform bits. Scales vary by a quarter around the one that gives a weight's numbers a standard deviation of
columns**-0.5, so activations stay near unit variance. Norms are 1 plus a tenth of a normal number. A tensor's bytes
depend on seed, name and shape only, on any machine, however many shards and processes there are. The vocabulary is
that of make_gguf.py.
"""
import argparse
import concurrent.futures
import dataclasses
import functools
import json
import os
import pathlib
import re
import typing

import numpy as np

import make_gguf

GROUP = 128  # of AWQ, GPTQ and a side of FP8's blocks
NF4_BLOCK = 64
CHUNK = 1 << 22
SIZES = {"BF16": 2, "F16": 2, "F32": 4, "I32": 4, "U8": 1, "F8_E4M3": 1}


@dataclasses.dataclass(frozen=True)
class Tensor:
    name: str
    dtype: str
    shape: tuple
    fill: typing.Callable  # (bits, count): the `count` numbers that come next

    @property
    def count(self):
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def bytes(self):
        return self.count * SIZES[self.dtype]


# ---- numbers -------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=8)
def normal_table(dtype, middle, deviation):
    """The 65,536 quantiles of a normal distribution in a format."""
    make_gguf.Bits.normal(make_gguf.Bits(0, ""), 1)  # makes its table
    values = np.float32(middle) + make_gguf.Bits.normal_table * np.float32(deviation)
    return make_gguf.to_bf16(values) if dtype == "BF16" else values.astype({"F16": "<f2", "F32": "<f4"}[dtype])


def normal(dtype, middle, deviation, bits, count):
    return np.take(normal_table(dtype, middle, deviation), bits.take(count, "<u2"))


def scales(dtype, middle, bits, count):
    """Positive, `middle` plus or minus a quarter."""
    return make_gguf.block_scales(bits, count, middle).astype({"F16": "<f2", "F32": "<f4"}[dtype])


def any_bits(dtype, mask, bits, count):
    return bits.take(count, dtype) & np.array(mask, dtype)


def zero_points(lowest, bits, count):
    """Words of eight zero points, each `lowest` or one more."""
    return (bits.take(count, "<u4") & np.uint32(0x11111111)) + np.uint32(0x11111111 * lowest)


def column_groups(order, columns, bits, count):
    """The group of each column; `order` names the shuffle, and the empty name is no shuffle."""
    groups = np.arange(columns, dtype="<i4") // GROUP
    if not order:
        return groups
    return groups[np.argsort(make_gguf.Bits(columns, order).take(columns, "<u8"), kind="stable")]


def constant(data, bits, count):
    return data


# ---- forms of a weight ---------------------------------------------------------------------------------------------


def int4_scale(columns):
    """Codes of 16 levels around a zero point of 7 or 8: their mean square is 85 / 4 and one quarter more."""
    return (columns * (85 / 4 + 1 / 4)) ** -0.5


def awq(name, rows, columns, order):
    groups = columns // GROUP
    return [Tensor(f"{name}.qweight", "I32", (columns, rows // 8), functools.partial(any_bits, "<u4", 0xFFFFFFFF)),
            Tensor(f"{name}.qzeros", "I32", (groups, rows // 8), functools.partial(zero_points, 7)),
            Tensor(f"{name}.scales", "F16", (groups, rows), functools.partial(scales, "F16", int4_scale(columns)))]


def gptq(name, rows, columns, order):
    """Zero points are stored less one."""
    groups = columns // GROUP
    return [Tensor(f"{name}.qweight", "I32", (columns // 8, rows), functools.partial(any_bits, "<u4", 0xFFFFFFFF)),
            Tensor(f"{name}.qzeros", "I32", (groups, rows // 8), functools.partial(zero_points, 6)),
            Tensor(f"{name}.scales", "F16", (groups, rows), functools.partial(scales, "F16", int4_scale(columns))),
            Tensor(f"{name}.g_idx", "I32", (columns,), functools.partial(column_groups, order, columns))]


def fp8(name, rows, columns, order):
    """Codes below 2, so that none is a NaN."""
    eighths, exponent = np.arange(64) & 7, np.arange(64) >> 3
    sizes = np.where(exponent == 0, eighths * 2.0 ** -9, (8 + eighths) * 2.0 ** (exponent - 10))
    middle = (columns * np.mean(sizes ** 2)) ** -0.5
    return [Tensor(f"{name}.weight", "F8_E4M3", (rows, columns), functools.partial(any_bits, np.uint8, 0xBF)),
            Tensor(f"{name}.weight_scale_inv", "F32", (-(-rows // GROUP), columns // GROUP), functools.partial(scales, "F32", middle))]


def nf4_values():
    """The table of quern_formats.h, in f32."""
    text = (pathlib.Path(__file__).resolve().parents[1] / "plugin-api/include/quern/quern_formats.h").read_text()
    numbers = re.search(r"quern_nf4_values\[\] = \{(.*?)\}", text, re.DOTALL).group(1)
    return np.array([np.float32(number.rstrip("f")) for number in re.findall(r"-?[\d.]+f", numbers)], "<f4")


def nf4(name, rows, columns, order):
    table = nf4_values()
    state = json.dumps({"quant_type": "nf4", "blocksize": NF4_BLOCK, "dtype": "bfloat16", "shape": [rows, columns]}).encode()
    state = np.frombuffer(state, np.uint8)
    middle = float(columns * np.mean(table.astype(np.float64) ** 2)) ** -0.5
    return [Tensor(f"{name}.weight", "U8", (rows * columns // 2, 1), functools.partial(any_bits, np.uint8, 0xFF)),
            Tensor(f"{name}.weight.absmax", "F32", (rows * columns // NF4_BLOCK,), functools.partial(scales, "F32", middle)),
            Tensor(f"{name}.weight.quant_map", "F32", (16,), functools.partial(constant, table)),
            Tensor(f"{name}.weight.quant_state.bitsandbytes__nf4", "U8", state.shape, functools.partial(constant, state))]


def dense(dtype, name, rows, columns, order=""):
    return [Tensor(f"{name}.weight", dtype, (rows, columns), functools.partial(normal, dtype, 0.0, columns ** -0.5))]


@dataclasses.dataclass(frozen=True)
class Form:
    weight: typing.Callable
    columns: int  # a row is whole multiples of so many
    dtype: str = "F16"  # of embedding, head and norms
    config: dict | None = None


INT4 = {"bits": 4, "group_size": GROUP}
GPTQ = {"quant_method": "gptq", **INT4, "sym": False, "checkpoint_format": "gptq"}
FORMS = {
    "bf16": Form(functools.partial(dense, "BF16"), 1, "BF16"),
    "awq": Form(awq, GROUP, config={"quant_method": "awq", **INT4, "zero_point": True, "version": "gemm"}),
    "gptq": Form(gptq, GROUP, config={**GPTQ, "desc_act": False}),
    "gptq-act-order": Form(gptq, GROUP, config={**GPTQ, "desc_act": True}),
    "fp8": Form(fp8, GROUP, "BF16", {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [GROUP, GROUP]}),
    "nf4": Form(nf4, NF4_BLOCK, config={"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4",
                                        "bnb_4bit_use_double_quant": False}),
}


def tensors_of(shape, kind):
    form, head_dim = FORMS[kind], shape.dim // shape.heads
    q, kv = shape.heads * head_dim, shape.kv_heads * head_dim
    norm = functools.partial(normal, form.dtype, 1.0, 0.1)
    tensors = dense(form.dtype, "model.embed_tokens", shape.vocab, shape.dim)
    for layer in range(shape.layers):
        front = f"model.layers.{layer}."
        tensors.append(Tensor(f"{front}input_layernorm.weight", form.dtype, (shape.dim,), norm))
        for module, rows, columns, reads in (("self_attn.q_proj", q, shape.dim, "attention"), ("self_attn.k_proj", kv, shape.dim, "attention"),
                                             ("self_attn.v_proj", kv, shape.dim, "attention"), ("self_attn.o_proj", shape.dim, q, "heads"),
                                             ("mlp.gate_proj", shape.ffn, shape.dim, "mlp"), ("mlp.up_proj", shape.ffn, shape.dim, "mlp"),
                                             ("mlp.down_proj", shape.dim, shape.ffn, "gated")):
            if columns % form.columns != 0 or (form.config is not None and rows % 8 != 0):
                raise ValueError(f"{module} has {rows} rows of {columns}; {kind} needs multiples of 8 and {form.columns}")
            tensors += form.weight(front + module, rows, columns, f"{layer}.{reads}" if kind == "gptq-act-order" else "")
        tensors.append(Tensor(f"{front}post_attention_layernorm.weight", form.dtype, (shape.dim,), norm))
    tensors.append(Tensor("model.norm.weight", form.dtype, (shape.dim,), norm))
    return tensors if shape.tied else tensors + dense(form.dtype, "lm_head", shape.vocab, shape.dim)


# ---- the other files -----------------------------------------------------------------------------------------------


def config_of(shape, kind):
    form = FORMS[kind]
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": shape.dim,
              "intermediate_size": shape.ffn, "num_hidden_layers": shape.layers, "num_attention_heads": shape.heads,
              "num_key_value_heads": shape.kv_heads, "head_dim": shape.dim // shape.heads, "vocab_size": shape.vocab,
              "max_position_embeddings": shape.context, "rms_norm_eps": shape.epsilon, "tie_word_embeddings": shape.tied, "attention_bias": False,
              "rope_theta": shape.rope_base, "rope_scaling": None, "bos_token_id": 1, "eos_token_id": 2,
              "torch_dtype": {"BF16": "bfloat16", "F16": "float16"}[form.dtype]}
    return config if form.config is None else {**config, "quantization_config": form.config}


def tokenizer_of(vocab):
    """The vocabulary of make_gguf.py in the form of tokenizer.json: a word of it is made of one that is a letter shorter."""
    tokens, types = make_gguf.vocabulary(vocab)
    known = set(tokens)
    merges = [[token[:-1], token[-1]] for token, kind in zip(tokens, types) if kind == 1 and len(token) > 1 and token[:-1] in known]
    mark, start = "\u2581", {"id": "<s>", "type_id": 0}
    added = [{"id": i, "content": tokens[i], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
             for i in range(3)]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": mark},
                                                               {"type": "Replace", "pattern": {"String": " "}, "content": mark}]},
            "pre_tokenizer": None,
            "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": start}, {"Sequence": {"id": "A", "type_id": 0}}],
                               "pair": [{"SpecialToken": start}, {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                               "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
            "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": mark}, "content": " "}, {"type": "ByteFallback"},
                                                         {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
            "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                      "vocab": {token: i for i, token in enumerate(tokens)}, "merges": merges}}


def header_of(tensors):
    """The safetensors header, and where each tensor lies behind it."""
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for tensor in tensors:
        header[tensor.name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [at, at + tensor.bytes]}
        at += tensor.bytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text, at


def write_tensor(path, offset, tensor, seed):
    bits, left = make_gguf.Bits(seed, tensor.name), tensor.count
    with open(path, "r+b", buffering=0) as out:
        out.seek(offset)
        while left > 0:
            part = np.ascontiguousarray(tensor.fill(bits, min(left, CHUNK)))
            out.write(part.data.cast("B"))
            left -= len(part)
        if out.tell() - offset != tensor.bytes:
            raise RuntimeError(f"{tensor.name}: wrote {out.tell() - offset} bytes, declared {tensor.bytes}")


def make(preset, kind, out, shards=1, layers=None, vocab=None, seed=7, jobs=None):
    """Writes the directory, which must not exist."""
    shape = make_gguf.PRESETS[preset]
    if shape.arch != "llama":
        raise ValueError(f"{preset} is a {shape.arch}; the presets of llama are written")
    shape = dataclasses.replace(shape, layers=shape.layers if layers is None else layers, vocab=shape.vocab if vocab is None else vocab)
    if shape.layers < 1 or shape.vocab < 320:
        raise ValueError(f"{shape.layers} layers and {shape.vocab} tokens were asked for; a model has at least 1 and 320")
    tensors = tensors_of(shape, kind)
    if not 1 <= shards <= min(len(tensors), 99999):
        raise ValueError(f"--shards is {shards}; the model has {len(tensors)} tensors")
    out = pathlib.Path(out)
    out.mkdir(parents=True)
    writes, index = [], {}
    for number, part in enumerate(make_gguf.parts_of(tensors, shards), 1):
        path = out / ("model.safetensors" if shards == 1 else f"model-{number:05d}-of-{shards:05d}.safetensors")
        header, size = header_of(part)
        with open(path, "wb") as file:
            file.write(header)
            file.truncate(len(header) + size)
        at = len(header)
        for tensor in part:
            index[tensor.name] = path.name
            writes.append((path, at, tensor, seed))
            at += tensor.bytes
    if shards > 1:
        total = sum(tensor.bytes for tensor in tensors)
        (out / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": index}, indent=1))
    (out / "config.json").write_text(json.dumps(config_of(shape, kind), indent=1))
    (out / "tokenizer.json").write_text(json.dumps(tokenizer_of(shape.vocab), ensure_ascii=False), encoding="utf-8")
    (out / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "add_bos_token": True,
        "add_eos_token": False, "model_max_length": shape.context, "chat_template": make_gguf.TEMPLATE}, indent=1))
    with concurrent.futures.ProcessPoolExecutor(jobs or len(os.sched_getaffinity(0))) as pool:
        for done in [pool.submit(write_tensor, *write) for write in writes]:
            done.result()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset", choices=make_gguf.PRESETS, metavar="PRESET")
    parser.add_argument("format", choices=FORMS, metavar="FORMAT")
    parser.add_argument("out", metavar="OUT")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--layers", type=int, help="default: the preset's")
    parser.add_argument("--vocab", type=int, help="default: the preset's")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--jobs", type=int, help="processes; default: one for each usable processor")
    a = parser.parse_args()
    try:
        make(a.preset, a.format, a.out, a.shards, a.layers, a.vocab, a.seed, a.jobs)
    except (OSError, ValueError) as error:
        parser.exit(2, f"make_directory.py: {error}\n")


if __name__ == "__main__":
    main()
