#!/usr/bin/env python3
"""Compare Quern's logits of a llama model with PyTorch's, both with a computation in f64.

    compare_torch.py QUERN MODEL.gguf [--made-by-transformers PRESET:TYPE] [--backend cuda] [--tokens 200] [--torch-device cuda] [-- MORE...]

MODEL has weights of F32, F16 or BF16 (scripts/make_gguf.py makes one of any size). Both read the same ids; PyTorch computes in the weights'
own type, as its users do, and in f64 from the same weights. Bound: Quern's logits of the last position are no further from those in f64
than twice PyTorch's own, as the root of the mean square and at most. A type's rounding decides PyTorch's distance, so the bound holds for
any type without another number. MORE goes to `quern eval`. Exit: 0 within the bound, 1 not. Needs numpy and torch.

With --made-by-transformers (tinyllama-1.1b:F16) MODEL is written first: a LlamaForCausalLM of transformers with that preset's shape and random
weights. PyTorch's logits are then that model's own, so that names, rotations and shapes of the file are compared with another's too.
"""
import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch

import make_gguf

SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
TYPES = {0: torch.float32, 1: torch.float16, 30: torch.bfloat16}


class Gguf:
    """Keys but for long arrays, and tensors as torch's, of a file that is read where it lies."""

    def __init__(self, path):
        self.data, self.at = np.memmap(path, dtype=np.uint8, mode="r"), 4
        _, tensors, keys = self.take("<I"), self.take("<Q"), self.take("<Q")
        self.keys = {}
        for _ in range(keys):
            name = self.string()
            self.keys[name] = self.value(self.take("<I"))
        infos = []
        for _ in range(tensors):
            name, rank = self.string(), self.take("<I")
            dims = [self.take("<Q") for _ in range(rank)]
            infos.append((name, dims[::-1], self.take("<I"), self.take("<Q")))
        alignment = self.keys.get("general.alignment", 32)
        start = -(-self.at // alignment) * alignment
        self.tensors = {name: self.tensor(shape, kind, start + offset) for name, shape, kind, offset in infos}

    def take(self, form):
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def string(self):
        size = self.take("<Q")
        self.at += size
        return bytes(self.data[self.at - size : self.at]).decode("utf-8", "replace")

    def value(self, kind):
        if kind == 8:
            return self.string()
        if kind != 9:
            return self.take(SCALARS[kind])
        inner, count = self.take("<I"), self.take("<Q")
        return [self.value(inner) for _ in range(count)]

    def tensor(self, shape, kind, at):
        if kind not in TYPES:
            raise ValueError(f"a tensor is of GGML type {kind}; F32, F16 and BF16 are taken")
        dtype = TYPES[kind]
        size = int(np.prod(shape)) * dtype.itemsize
        return torch.from_numpy(np.array(self.data[at : at + size])).view(dtype).reshape(shape)


def last_logits(file, ids, dtype, device):
    """A llama in plain PyTorch; its rotation turns neighbouring elements, as GGUF's llama has them."""
    key = {k.removeprefix("llama."): v for k, v in file.keys.items()}
    heads, kv_heads, size = key["attention.head_count"], key["attention.head_count_kv"], key["rope.dimension_count"]
    weight = lambda name: file.tensors[name + ".weight"].to(device).to(dtype)

    def norm(x, name):
        wide = x.to(torch.float64 if dtype == torch.float64 else torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + key["attention.layer_norm_rms_epsilon"])
        return wide.to(dtype) * weight(name)

    angle = torch.outer(torch.arange(len(ids), dtype=torch.float64), key["rope.freq_base"] ** (-torch.arange(0, size, 2, dtype=torch.float64) / size))
    cos, sin = angle.cos().to(device).to(dtype)[:, None], angle.sin().to(device).to(dtype)[:, None]

    def turn(x):
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)

    x = weight("token_embd")[torch.tensor(ids, device=device)]
    for layer in range(key["block_count"]):
        at = f"blk.{layer}."
        h = norm(x, at + "attn_norm")
        q = turn((h @ weight(at + "attn_q").T).view(len(ids), heads, size))
        k = turn((h @ weight(at + "attn_k").T).view(len(ids), kv_heads, size)).repeat_interleave(heads // kv_heads, 1)
        v = (h @ weight(at + "attn_v").T).view(len(ids), kv_heads, size).repeat_interleave(heads // kv_heads, 1)
        y = torch.nn.functional.scaled_dot_product_attention(q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1), is_causal=True)
        x = x + y.transpose(0, 1).flatten(1) @ weight(at + "attn_output").T
        h = norm(x, at + "ffn_norm")
        x = x + (torch.nn.functional.silu(h @ weight(at + "ffn_gate").T) * (h @ weight(at + "ffn_up").T)) @ weight(at + "ffn_down").T
    head = "output" if "output.weight" in file.tensors else "token_embd"
    return (norm(x[-1:], "output_norm") @ weight(head).T)[0].double().cpu()


class Written:
    """A tensor for make_gguf.write_file, whose bytes are there already."""

    def __init__(self, name, values, kind):
        self.name, self.shape, self.kind = name, tuple(values.shape), kind
        self.data = values.contiguous().cpu()
        self.bytes = values.numel() * values.element_size()

    def write(self, out, _):
        out.write(memoryview(self.data.view(torch.int16 if self.data.element_size() == 2 else self.data.dtype).numpy()).cast("B"))


def made_by_transformers(preset, kind, path, device):
    """Writes a llama of random weights of transformers, and returns it."""
    import transformers

    shape, dtype = make_gguf.PRESETS[preset], {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}[kind]
    if (shape.arch, shape.rope_base) != ("llama", 10000.0):
        raise ValueError(f"{preset} is a {shape.arch} with rotations of base {shape.rope_base}; a llama of base 10000 is made")
    config = transformers.LlamaConfig(vocab_size=shape.vocab, hidden_size=shape.dim, intermediate_size=shape.ffn, num_hidden_layers=shape.layers,
                                      num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads, max_position_embeddings=shape.context,
                                      rms_norm_eps=shape.epsilon, tie_word_embeddings=shape.tied)
    torch.manual_seed(7)
    with torch.device(device):
        model = transformers.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for name, values in model.named_parameters():
            if values.dim() == 1:
                values.add_(torch.randn_like(values), alpha=0.1)  # norms: all 1 would hide that one is missing
            values.data = values.data.to(dtype)  # parameters alone: the angles of its rotations stay f32, as when it loads a file
    ours = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output", "input_layernorm": "attn_norm",
            "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
            "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
    tensors = []
    for name, values in model.named_parameters():
        name, at = name.removesuffix(".weight"), ""
        if name.startswith("model.layers."):
            _, _, layer, name = name.split(".", 3)
            at = f"blk.{layer}."
        if name in ("self_attn.q_proj", "self_attn.k_proj"):  # it turns the halves of a head against each other, the file neighbours
            values = values.view(-1, 2, shape.dim // shape.heads // 2, shape.dim).transpose(1, 2).reshape(values.shape)
        values, own = (values.detach(), kind) if values.dim() == 2 else (values.detach().float(), "F32")
        tensors.append(Written(f"{at}{ours[name]}.weight", values, own))
    make_gguf.write_file(path, make_gguf.metadata(preset, shape, kind, shape.dim // shape.heads), tensors, 0)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quern")
    parser.add_argument("model")
    parser.add_argument("--made-by-transformers", metavar="PRESET:TYPE")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--torch-device", default="cuda" if torch.cuda.is_available() else "cpu")
    own = sys.argv[1:]  # argparse would give what is behind "--" to no one once an option stands between
    own, more = (own[: own.index("--")], own[own.index("--") + 1 :]) if "--" in own else (own, [])
    arguments = parser.parse_args(own)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    made = None
    if arguments.made_by_transformers:
        made = made_by_transformers(*arguments.made_by_transformers.split(":"), arguments.model, arguments.torch_device)
    text = " ".join(f"the {word} of a {word[::-1]} is" for word in ("river", "stone", "house", "light", "paper", "winter", "garden") * 40)
    with tempfile.TemporaryDirectory(prefix="quern-compare-") as folder:
        def ids_of(words):
            done = subprocess.run([arguments.quern, "tokenize", arguments.model, words, "--no-bos", "--json"], capture_output=True, check=True)
            return json.loads(done.stdout)["ids"]

        low, high = 1, len(text)  # the longest start of the text with so many tokens
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if len(ids_of(text[:middle])) <= arguments.tokens else (low, middle - 1)
        ids = ids_of(text[:low])
        (pathlib.Path(folder) / "text").write_text(text[:low])
        done = subprocess.run([arguments.quern, "eval", arguments.model, f"{folder}/text", "--logits", f"{folder}/logits", "--json", "-q", "--backend",
                               arguments.backend, *more], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"quern eval ended with {done.returncode}: {done.stderr}")
        ran = json.loads(done.stdout)
        if ran["tokens"] != len(ids):
            sys.exit(f"quern read {ran['tokens']} tokens, {len(ids)} were meant")
        ours = torch.from_numpy(np.fromfile(f"{folder}/logits", "<f4")).double()
    file = Gguf(arguments.model)
    dtype = file.tensors["blk.0.attn_q.weight"].dtype
    with torch.no_grad():
        exact = last_logits(file, ids, torch.float64, arguments.torch_device)
        if made is None:
            theirs = last_logits(file, ids, dtype, arguments.torch_device)
        else:
            theirs = made(torch.tensor([ids], device=arguments.torch_device)).logits[0, -1].double().cpu()
    far = lambda x: ((x - exact).pow(2).mean().sqrt().item(), (x - exact).abs().max().item())
    own, torchs = far(ours), far(theirs)
    within = own[0] <= 2 * torchs[0] and own[1] <= 2 * torchs[1]
    print(f"{pathlib.Path(arguments.model).name} {dtype}, {ran['device']}, {len(ids)} tokens, logits of deviation {exact.std().item():.3f}: "
          f"quern {own[0]:.3g} (most {own[1]:.3g}), {'PyTorch' if made is None else 'transformers'} {torchs[0]:.3g} (most {torchs[1]:.3g}) from f64: {'within' if within else 'BEYOND'} twice")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
