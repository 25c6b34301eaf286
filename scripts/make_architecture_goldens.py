#!/usr/bin/env python3
"""Writes tests/data/architecture: small random models as GGUF, and what transformers computes with them.

usage: make_architecture_goldens.py [OUT_FOLDER]
Needs torch and transformers; the folder is committed, so only a change here needs a run.

For each of llama, qwen2 and qwen3: 20 configurations with different widths, heads, layers, biases, tied and separate heads,
epsilons and rotary settings, and two of Mistral (llama with a sliding window). Weights are f16 numbers (norms and biases
f32), so that every runtime starts from the same values. A vocabulary of single characters is in each file: the ids are the
characters of `text`, '!' being 0.

goldens.json  {"models": [{"name", "file", "architecture", "summary", "ids", "text", "vocabulary", "offset", "argmax",
               "margin", "last_logits"}]}; argmax and margin (best minus second best) have one entry a position.
logits.f32    little-endian f32, positions x vocabulary of each model, starting at float number `offset`.
"""
import json
import math
import pathlib
import struct
import sys

import numpy as np
import torch
import transformers

MODELS_EACH = 20
GGUF_F32, GGUF_F16 = 0, 1
ALIGNMENT = 32


# --- GGUF ------------------------------------------------------------------------------------------------------------

def gguf_string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_value(value):
    """Type id and bytes of a metadata value."""
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + gguf_string(value)
    kind = 8 if not value or isinstance(value[0], str) else 5
    body = b"".join(gguf_string(v) if kind == 8 else struct.pack("<i", v) for v in value)
    return struct.pack("<IIQ", 9, kind, len(value)) + body


def write_gguf(path, metadata, tensors):
    """tensors: name -> numpy array, f32 or f16, rows first."""
    head = struct.pack("<IIQQ", 0x46554747, 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        head += gguf_string(key) + gguf_value(value)
    data = b""
    for name, array in tensors.items():
        kind = {np.dtype(np.float32): GGUF_F32, np.dtype(np.float16): GGUF_F16}[array.dtype]
        dims = array.shape[::-1]
        head += gguf_string(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims)
        head += struct.pack("<IQ", kind, len(data))
        data += array.tobytes()
        data += bytes(-len(data) % ALIGNMENT)
    path.write_bytes(head + bytes(-len(head) % ALIGNMENT) + data)


# --- configurations --------------------------------------------------------------------------------------------------

def random_rope(rng, scaling):
    """rope_parameters of transformers."""
    rope = {"rope_type": scaling, "rope_theta": float(rng.choice([10000.0, 100000.0, 500000.0, 1000000.0, 777.0]))}
    if scaling == "linear":
        rope["factor"] = float(rng.choice([2.0, 4.0, 2.5]))
    elif scaling == "llama3":
        rope |= {"factor": float(rng.choice([8.0, 32.0])), "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                 "original_max_position_embeddings": int(rng.choice([16, 64, 512]))}
    elif scaling == "yarn":
        rope |= {"factor": float(rng.choice([2.0, 4.0, 8.0])),
                 "original_max_position_embeddings": int(rng.choice([64, 256, 1024]))}
        if rng.random() < 0.5:
            rope |= {"beta_fast": 16.0, "beta_slow": 2.0}
        if rng.random() < 0.5:
            rope["attention_factor"] = float(np.float32(rng.uniform(0.8, 1.3)))
    return rope


def random_settings(rng, architecture, index):
    kv_heads = int(rng.choice([1, 2, 3]))
    heads = kv_heads * int(rng.choice([1, 2, 3]))
    hidden = heads * round(int(rng.choice([16, 24, 32, 40])) / heads)  # transformers insists on a multiple
    head_dim = int(rng.choice([8, 10, 16]))
    if architecture == "qwen2":  # its configuration has no head size of its own
        heads, kv_heads = [(4, 2), (2, 1), (4, 4), (4, 1)][int(rng.integers(4))]
        hidden = int(rng.choice([24, 32, 40]))
        head_dim = hidden // heads
    rope = random_rope(rng, ["default", "default", "linear", "llama3", "yarn"][index % 5])
    return {
        "hidden_size": hidden,
        "intermediate_size": int(rng.choice([24, 40, 56, 72])),
        "num_hidden_layers": [1, 2, 1, 3, 1, 2, 1, 2][index % 8],
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "vocab_size": int(rng.integers(64, 101)),
        "tie_word_embeddings": index % 3 == 0,
        "rms_norm_eps": float(np.float32(rng.choice([1e-5, 1e-6, 1e-3]))),
        "max_position_embeddings": int(rope.get("original_max_position_embeddings", 512) * rope.get("factor", 1)),
        "rope_parameters": rope,
        "attention_bias": architecture != "qwen2" and index % 4 == 1,
    }


def make_model(architecture, settings, window):
    settings = dict(settings)
    if architecture == "qwen2":
        settings.pop("attention_bias")
        settings.pop("head_dim")
        config = transformers.Qwen2Config(**settings, use_sliding_window=False)
        kind = transformers.Qwen2ForCausalLM
    elif architecture == "qwen3":
        config, kind = transformers.Qwen3Config(**settings, use_sliding_window=False), transformers.Qwen3ForCausalLM
    elif window:
        settings.pop("attention_bias")
        config, kind = transformers.MistralConfig(**settings, sliding_window=window), transformers.MistralForCausalLM
    else:
        config, kind = transformers.LlamaConfig(**settings, mlp_bias=False), transformers.LlamaForCausalLM
    config._attn_implementation = "eager"
    return kind(config).eval()


def randomise(model, rng):
    """Weights that keep activations near unit variance and differ enough that a swapped one shows."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            shape = tuple(parameter.shape)
            if len(shape) == 2:
                values = rng.standard_normal(shape) * (1.0 if "embed" in name else 1.3 * shape[1] ** -0.5)
                values = values.astype(np.float16).astype(np.float32)
            elif name.endswith("bias"):
                values = (rng.standard_normal(shape) * 0.4).astype(np.float32)
            else:
                values = (1 + 0.25 * rng.standard_normal(shape)).astype(np.float32)
            parameter.copy_(torch.from_numpy(values))
    model.tie_weights()


# --- from transformers' names to GGUF's ------------------------------------------------------------------------------

def interleave(array, heads):
    """Rows of each head from (i, i + d / 2) pairs to neighbours, as llama files hold q and k."""
    rows = array.reshape(heads, 2, array.shape[0] // heads // 2, *array.shape[1:])
    return np.ascontiguousarray(rows.swapaxes(1, 2)).reshape(array.shape)


PARTS = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
         "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
WHOLE = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
         "lm_head.weight": "output.weight"}


def tensors_of(model, architecture, settings):
    tensors = {}
    for name, value in model.state_dict().items():
        if name == "lm_head.weight" and settings["tie_word_embeddings"]:
            continue
        array = value.to(torch.float32).numpy()
        if name not in WHOLE:
            _, _, layer, *part, what = name.split(".")
            part = PARTS[".".join(part)]
            if architecture == "llama" and part in ("attn_q", "attn_k"):
                array = interleave(array, settings["num_attention_heads" if part == "attn_q" else "num_key_value_heads"])
            target = f"blk.{layer}.{part}.{what}"
        else:
            target = WHOLE[name]
        tensors[target] = array.astype(np.float16) if array.ndim == 2 else np.ascontiguousarray(array)
    rope = settings["rope_parameters"]
    if rope["rope_type"] == "llama3":
        size = settings["head_dim"]
        plain = rope["rope_theta"] ** (-np.arange(0, size, 2, dtype=np.float64) / size)
        tensors["rope_freqs.weight"] = np.array([1.0 / llama3_share(f, rope) for f in plain], np.float32)
    return tensors


def llama3_share(frequency, rope):
    """What is left of a frequency: 1 for short waves, 1 / factor for long ones, a mixture between."""
    turns = rope["original_max_position_embeddings"] * frequency / (2 * math.pi)
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    if turns < low:
        return 1 / rope["factor"]
    if turns > high:
        return 1.0
    smooth = (turns - low) / (high - low)
    return (1 - smooth) / rope["factor"] + smooth


def metadata_of(name, architecture, settings, window):
    rope = settings["rope_parameters"]
    a = architecture + "."
    keys = {
        "general.architecture": architecture,
        "general.name": name,
        a + "block_count": settings["num_hidden_layers"],
        a + "context_length": settings["max_position_embeddings"],
        a + "embedding_length": settings["hidden_size"],
        a + "feed_forward_length": settings["intermediate_size"],
        a + "attention.head_count": settings["num_attention_heads"],
        a + "attention.head_count_kv": settings["num_key_value_heads"],
        a + "attention.layer_norm_rms_epsilon": settings["rms_norm_eps"],
        a + "rope.freq_base": rope["rope_theta"],
        a + "vocab_size": settings["vocab_size"],
    }
    if architecture != "qwen2":
        keys |= {a + "attention.key_length": settings["head_dim"], a + "attention.value_length": settings["head_dim"],
                 a + "rope.dimension_count": settings["head_dim"]}
    if window:
        keys[a + "attention.sliding_window"] = window
    if rope["rope_type"] in ("linear", "yarn"):
        keys |= {a + "rope.scaling.type": rope["rope_type"], a + "rope.scaling.factor": rope["factor"]}
    if rope["rope_type"] == "yarn":
        keys[a + "rope.scaling.original_context_length"] = rope["original_max_position_embeddings"]
        for theirs, ours in (("beta_fast", "yarn_beta_fast"), ("beta_slow", "yarn_beta_slow"),
                             ("attention_factor", "yarn_attn_factor")):
            if theirs in rope:
                keys[a + "rope.scaling." + ours] = rope[theirs]
    return keys | vocabulary_of(settings["vocab_size"])


def vocabulary_of(size):
    """'!' is 0, '"' is 1 and so on; what printable ASCII does not reach is never used."""
    tokens = [chr(33 + i) if i < 94 else f"<unused{i}>" for i in range(size)]
    return {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": [1 if i < 94 else 5 for i in range(size)], "tokenizer.ggml.merges": [],
            "tokenizer.ggml.eos_token_id": size - 1, "tokenizer.ggml.add_bos_token": False}


# --- all of it -------------------------------------------------------------------------------------------------------

def summary_of(settings, window):
    s = settings
    text = (f"hidden {s['hidden_size']}, ffn {s['intermediate_size']}, layers {s['num_hidden_layers']}, heads "
            f"{s['num_attention_heads']}/{s['num_key_value_heads']} of {s['head_dim']}, rope {s['rope_parameters']['rope_type']}")
    for flag, word in ((s["tie_word_embeddings"], "tied"), (s["attention_bias"], "biases"), (window, f"window {window}")):
        text += ", " + word if flag else ""
    return text


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent / "tests/data/architecture")
    out.mkdir(parents=True, exist_ok=True)
    goldens, all_logits, offset = [], [], 0
    wanted = [(a, i, 0) for a in ("llama", "qwen2", "qwen3") for i in range(MODELS_EACH)]
    wanted += [("llama", 20, 5), ("llama", 21, 9)]
    for architecture, index, window in wanted:
        rng = np.random.default_rng([ord(c) for c in architecture] + [index])
        settings = random_settings(rng, architecture, index)
        if window:
            settings["attention_bias"] = False
        name = f"{architecture}-{index:02}"
        model = make_model(architecture, settings, window)
        randomise(model, rng)
        ids = [int(i) for i in rng.integers(0, min(settings["vocab_size"], 94), int(rng.integers(10, 20)))]
        tensors = tensors_of(model, architecture, settings)
        with torch.no_grad():
            logits = model.double()(torch.tensor([ids])).logits[0].to(torch.float64).numpy()
        write_gguf(out / f"{name}.gguf", metadata_of(name, architecture, settings, window), tensors)
        best = np.sort(logits, axis=1)
        goldens.append({
            "name": name, "file": f"{name}.gguf", "architecture": architecture, "summary": summary_of(settings, window),
            "ids": ids, "text": "".join(chr(33 + i) for i in ids), "vocabulary": settings["vocab_size"], "offset": offset,
            "argmax": [int(i) for i in logits.argmax(axis=1)],
            "margin": [round(float(m), 6) for m in best[:, -1] - best[:, -2]],
            "last_logits": [float(f"{v:.8g}") for v in logits[-1]],
        })
        all_logits.append(logits.astype("<f4").tobytes())
        offset += logits.size
        print(name, goldens[-1]["summary"], f"largest logit {np.abs(logits).max():.2f}")
    (out / "logits.f32").write_bytes(b"".join(all_logits))
    lines = ",\n".join(json.dumps(g) for g in goldens)
    (out / "goldens.json").write_text('{"models": [\n' + lines + "\n]}\n")


main()
