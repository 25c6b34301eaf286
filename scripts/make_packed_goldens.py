#!/usr/bin/env python3
"""Packs weights with the packers' own programs: goldens of single weights, and whole tiny models whose logits are compared.

    python3 scripts/make_packed_goldens.py                          rewrites tests/data/packed
    python3 scripts/make_packed_goldens.py --models DIR --quern P   writes tiny models, and compares the logits of the program P with
                                                                    transformers' on the weights that the packer decodes

A golden is a folder: config.json with what the packer writes about itself, and model.safetensors with the tensors of one weight, `m.*`. The
tensor `decoded` has the numbers that the packer's own decoder gives for them, in its type. For logits it gets the scales in f32.

Needs torch, transformers, compressed-tensors 0.15, bitsandbytes 0.50, gptqmodel 7.7 and autoawq 0.2.9; a processor is enough. Of
autoawq only the module that packs is loaded, since its others need more packages.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import types

import torch
from safetensors.torch import save_file

DATA = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "packed"


def grouped(weight, group, bits, symmetric, dtype, order=None):
    """Scales and zero points [n, groups] by the usual rounding to the nearest; `order` has the group of each column."""
    n, k = weight.shape
    groups = k // group
    of = torch.arange(k) // group if order is None else order
    scales, zeros = torch.empty(n, groups), torch.empty(n, groups)
    for g in range(groups):
        part = weight[:, of == g]
        low, high = part.min(1).values.clamp(max=0), part.max(1).values.clamp(min=0)
        if symmetric:
            scales[:, g] = torch.maximum(-low, high) * 2 / (2**bits - 1)
            zeros[:, g] = 2**(bits - 1)
        else:
            scales[:, g] = (high - low) / (2**bits - 1)
            zeros[:, g] = torch.round(-low / scales[:, g].to(dtype).float()).clamp(1, 2**bits - 1)
    return scales.to(dtype), zeros


def linear_of(weight):
    linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    linear.weight.data = weight.clone()
    return linear


def awq(group):
    """WQLinear_GEMM of AutoAWQ packs, dequantize_gemm decodes."""
    if "awq" not in sys.modules:
        folder = pathlib.Path(importlib.util.find_spec("awq").submodule_search_locations[0])
        for name in ("awq", "awq.modules", "awq.modules.linear", "awq.utils"):
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].__path__ = [str(folder.joinpath(*name.split(".")[1:]))]
    from awq.modules.linear.gemm import WQLinear_GEMM
    from awq.utils.packing_utils import dequantize_gemm

    def pack(weight, wide=lambda scales: scales):
        width = weight.shape[1] if group == -1 else group
        scales, zeros = grouped(weight, width, 4, False, torch.float16)
        made = WQLinear_GEMM.from_linear(linear_of(weight.half()), 4, width, scales=scales.T.contiguous(), zeros=zeros.T.contiguous())
        tensors = {name: getattr(made, name) for name in ("qweight", "qzeros", "scales")}
        return tensors, dequantize_gemm(made.qweight, made.qzeros, wide(made.scales), 4, width).T
    return pack, {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": "gemm"}


def gptq(bits, group, version, symmetric=False, act_order=False, says=None):
    """TorchLinear of GPTQModel packs and decodes; files of the first version come from its own conversion."""
    from gptqmodel import QuantizeConfig
    from gptqmodel.nn_modules.qlinear.torch import TorchLinear
    from gptqmodel.utils.model import convert_gptq_v2_to_v1_format_module

    def pack(weight, wide=lambda scales: scales):
        n, k = weight.shape
        width = k if group == -1 else group
        order = torch.arange(k) // width
        if act_order:
            order = order[torch.randperm(k, generator=torch.Generator().manual_seed(7))]
        scales, zeros = grouped(weight, width, bits, symmetric, torch.float16, order)
        made = TorchLinear(bits=bits, group_size=width, sym=symmetric, desc_act=act_order, in_features=k, out_features=n, bias=False)
        made.pack_original(linear_of(weight.half()), scales, zeros, order.int())
        made.eval()
        kept, made.scales = made.scales, wide(made.scales)
        decoded, made.scales = made.dequantize_weight().T, kept
        if version == 1:
            convert_gptq_v2_to_v1_format_module(made, QuantizeConfig(bits=bits, group_size=group))
        return {name: getattr(made, name) for name in ("qweight", "qzeros", "scales", "g_idx")}, decoded
    form = "gptq_v2" if (says or version) == 2 else "gptq"
    return pack, {"quant_method": "gptq", "bits": bits, "group_size": group, "sym": symmetric, "desc_act": act_order, "checkpoint_format": form}


def compressed(form, bits, strategy, kind="int", symmetric=True, group=None, dtype=torch.bfloat16, act_order=False):
    """The compressor of the format, both ways."""
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.lifecycle.forward import dequantize
    from compressed_tensors.quantization.utils import calculate_qparams
    more = {"group_size": group} if strategy == "group" else {"block_structure": [8, 128]} if strategy == "block" else {}
    if act_order:
        more["actorder"] = "group"
    arguments = QuantizationArgs(num_bits=bits, type=kind, symmetric=symmetric, strategy=strategy, **more)
    scheme = QuantizationScheme(targets=["Linear"], weights=arguments)
    compressor = BaseCompressor.get_value_from_registry(form)

    def pack(weight, wide=lambda scales: scales):
        weight = weight.to(dtype)
        n, k = weight.shape
        order = torch.arange(k) // (group or k)
        if act_order:
            order = order[torch.randperm(k, generator=torch.Generator().manual_seed(9))]
        if strategy == "block":
            tiles = [[weight[r:r + 8, c:c + 128] for c in range(0, k, 128)] for r in range(0, n, 8)]
        elif strategy == "tensor":
            tiles = [[weight]]
        else:
            tiles = [[weight[r:r + 1, order == g] for g in range(int(order.max()) + 1)] for r in range(n)]
        pairs = [[calculate_qparams(tile.min()[None], tile.max()[None], arguments) for tile in row] for row in tiles]
        scale = torch.stack([torch.cat([pair[0] for pair in row]) for row in pairs])
        zero = torch.stack([torch.cat([pair[1] for pair in row]) for row in pairs])
        if strategy == "tensor":
            scale, zero = scale.reshape(1), zero.reshape(1)
        state = {"weight": weight, "weight_scale": scale.to(dtype), "weight_zero_point": zero}
        if act_order:
            state["weight_g_idx"] = order.int()
        tensors = compressor.compress(state, scheme)
        scale = wide(tensors["weight_scale"])
        if strategy == "block":  # its decoder guesses the blocks from the shape of the scales unless it is told
            return tensors, dequantize(x_q=tensors["weight"], scale=scale, args=arguments)
        return tensors, compressor.decompress({**tensors, "weight_scale": scale}, scheme)["weight"]
    weights = json.loads(arguments.model_dump_json(exclude_none=True))
    return pack, {"quant_method": "compressed-tensors", "format": form, "ignore": ["lm_head"],
                  "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}}


def bitsandbytes(kind, nested=False):
    """quantize_4bit and dequantize_4bit on the processor."""
    from bitsandbytes import functional

    def pack(weight, wide=lambda scales: scales):
        packed, state = functional.quantize_4bit(weight.clone(), blocksize=64, compress_statistics=nested, quant_type=kind)
        tensors = {"weight": packed, **{f"weight.{name}": tensor for name, tensor in state.as_dict(packed=True).items()}}
        return tensors, functional.dequantize_4bit(packed, state)
    return pack, {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": kind, "bnb_4bit_use_double_quant": nested}


def llm_int8():
    from bitsandbytes import functional

    def pack(weight, wide=lambda scales: scales):
        codes, largest, _ = functional.int8_vectorwise_quant(weight.half())
        return {"weight": codes, "SCB": largest, "weight_format": torch.tensor(0, dtype=torch.uint8)}, functional.int8_vectorwise_dequant(codes, largest)
    return pack, {"quant_method": "bitsandbytes", "load_in_8bit": True}


# By name: the packer, and the rows and columns of the golden weight. AutoAWQ and GPTQModel pack no fewer rows than 32.
PACKERS = {
    "awq-group32": (lambda: awq(32), 32, 64), "awq-group64": (lambda: awq(64), 32, 128), "awq-group128": (lambda: awq(128), 32, 256),
    "awq-rows": (lambda: awq(-1), 32, 64),
    "gptq-v1": (lambda: gptq(4, 32, 1), 32, 64), "gptq-v2": (lambda: gptq(4, 64, 2), 32, 128),
    "gptq-v2-says-v1": (lambda: gptq(4, 64, 2, symmetric=True, says=1), 32, 64), "gptq-rows": (lambda: gptq(4, -1, 1, symmetric=True), 32, 64),
    "gptq-eight-bits": (lambda: gptq(8, 32, 1), 32, 64), "gptq-act-order": (lambda: gptq(4, 32, 1, act_order=True), 32, 64),
    "gptq-group128": (lambda: gptq(4, 128, 1), 32, 256),
    "ct-int4": (lambda: compressed("pack-quantized", 4, "group", group=32), 8, 128),
    "ct-int4-zeros": (lambda: compressed("pack-quantized", 4, "group", symmetric=False, group=128), 8, 256),
    "ct-int4-act-order": (lambda: compressed("pack-quantized", 4, "group", group=32, act_order=True, dtype=torch.float16), 8, 128),
    "ct-int8-rows": (lambda: compressed("pack-quantized", 8, "channel"), 8, 128),
    "ct-integers": (lambda: compressed("int-quantized", 8, "channel"), 8, 128),
    "ct-floats-rows": (lambda: compressed("float-quantized", 8, "channel", kind="float"), 8, 128),
    "ct-floats-blocks": (lambda: compressed("float-quantized", 8, "block", kind="float"), 16, 256),
    "ct-floats-tensor": (lambda: compressed("float-quantized", 8, "tensor", kind="float"), 8, 128),
    "bnb-nf4": (lambda: bitsandbytes("nf4"), 8, 128), "bnb-nf4-nested": (lambda: bitsandbytes("nf4", nested=True), 8, 128),
    "bnb-fp4": (lambda: bitsandbytes("fp4"), 8, 128), "bnb-int8": (llm_int8, 8, 128),
}


def whole(tensors):
    return {name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()}


def write_goldens():
    for number, (name, (packer, rows, columns)) in enumerate(PACKERS.items()):
        torch.manual_seed(number)
        pack, config = packer()
        tensors, decoded = pack(torch.randn(rows, columns) * 0.05)
        folder = DATA / name
        folder.mkdir(parents=True, exist_ok=True)
        save_file(whole({**{f"m.{part}": tensor for part, tensor in tensors.items()}, "decoded": decoded}), folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps({"quantization_config": config}, indent=1) + "\n", encoding="utf-8")


def tiny_model():
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.manual_seed(1)
    config = LlamaConfig(vocab_size=320, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                         max_position_embeddings=256, attention_bias=True, tie_word_embeddings=True, initializer_range=0.08)
    model = LlamaForCausalLM(config).eval()
    for name, tensor in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(tensor, std=0.1)
        tensor.data = tensor.data.half().float()
    return model


def compare_model(name, packer, folder, program):
    """The largest difference of logits between the program on packed weights and transformers on decoded ones, as a share of the largest logit."""
    model, (pack, described) = tiny_model(), packer()
    tensors = {}
    for module_name, module in model.named_modules():
        skipped = name == "awq-group64" and module_name.endswith("layers.1.mlp.down_proj")
        if isinstance(module, torch.nn.Linear) and module_name != "lm_head" and not skipped:
            # f32 holds the products of codes and scales. Those of groups that no block has are rounded here as there.
            parts, decoded = pack(module.weight.data) if name.endswith("act-order") else pack(module.weight.data, torch.Tensor.float)
            tensors.update({f"{module_name}.{part}": tensor for part, tensor in parts.items()})
            module.weight.data = decoded.float()
        elif isinstance(module, torch.nn.Linear) and module_name != "lm_head":
            tensors[f"{module_name}.weight"] = module.weight.data.half()
    tensors.update({key: value.half() for key, value in model.state_dict().items() if key.endswith("bias") or "proj" not in key and key != "lm_head.weight"})
    at = folder / name
    model.config.save_pretrained(at)
    config = json.loads((at / "config.json").read_text())
    (at / "config.json").write_text(json.dumps({**config, "architectures": ["LlamaForCausalLM"], "quantization_config": described}))
    save_file(whole(tensors), at / "model.safetensors")
    # A tokenizer whose ids are bytes, so that a text is its own ids.
    letters = sorted(chr(c) for c in range(33, 127))
    vocabulary = {letter: i for i, letter in enumerate(letters)}
    (at / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
        "decoder": {"type": "ByteLevel"}, "post_processor": None, "model": {"type": "BPE", "vocab": vocabulary, "merges": []}}))
    text = "ABC-abc/0123-the-same-text"
    (at / "text").write_text(text)
    subprocess.run([program, "eval", at, at / "text", "--logits", at / "logits", "--activations", "f32", "--kv", "f32"], check=True, capture_output=True)
    found = torch.frombuffer(bytearray((at / "logits").read_bytes()), dtype=torch.float32).reshape(-1, 320)
    with torch.no_grad():
        wanted = model.double()(torch.tensor([[vocabulary[letter] for letter in text]])).logits[0].float()
    return float((found - wanted[-len(found):]).abs().max() / wanted.abs().max())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=pathlib.Path, metavar="DIR", help="write tiny models there and compare logits, in place of the goldens")
    parser.add_argument("--quern", default="build/release/bin/quern", help="the program to compare")
    arguments = parser.parse_args()
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    if arguments.models is None:
        return write_goldens()
    worst = 0.0
    for name, (packer, _, _) in PACKERS.items():
        differs = compare_model(name, packer, arguments.models, arguments.quern)
        worst = max(worst, differs)
        print(f"{name:20} {differs:.2e}", flush=True)
    # Sums of at most 256 products in f32, 14 in a row: 2^-24 * 16 * 14 of the largest logit is 1.4e-5 of it.
    return 0 if worst < 1e-4 else f"{worst} of the largest logit is more than 1e-4"


if __name__ == "__main__":
    sys.exit(main())
