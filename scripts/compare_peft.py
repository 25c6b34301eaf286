#!/usr/bin/env python3
"""Load an adapter of `quern train` in peft, and compare the logits with Quern's own.

    compare_peft.py QUERN BASE.gguf ADAPTER [--text "Name a fruit."] [--bound 1e-4]

The base is written as a Hugging Face directory by `quern convert`, in f32, and loaded by transformers; ADAPTER, a folder as peft writes them, is loaded
strictly: no tensor may be missing, and none left over. The logits of the last position are compared with `quern eval BASE --adapter ADAPTER` in exact
numerics, and with those of the base alone, which have to lie further away. Exit: 0 within the bound, 1 not. Needs numpy, torch, transformers and peft.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import peft
import torch
import transformers
from safetensors import safe_open


def load(directory, adapter):
    """The base with the adapter; ends the program where a key of either side has no partner."""
    base = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    model = peft.PeftModel(base, peft.PeftConfig.from_pretrained(adapter))
    with safe_open(pathlib.Path(adapter) / "adapter_model.safetensors", "pt") as file:
        state = {name: file.get_tensor(name) for name in file.keys()}
    wanted = set(peft.get_peft_model_state_dict(model))
    if wanted != set(state):
        sys.exit(f"peft asks for other tensors: {sorted(wanted - set(state))} are missing, {sorted(set(state) - wanted)} are left over")
    result = peft.set_peft_model_state_dict(model, state)
    if result.unexpected_keys:
        sys.exit(f"peft does not know {result.unexpected_keys}")
    return model.eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quern")
    parser.add_argument("base")
    parser.add_argument("adapter")
    parser.add_argument("--text", default="Name a fruit.")
    parser.add_argument("--bound", type=float, default=1e-4)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="quern-compare-") as name:
        folder = pathlib.Path(name)

        def quern(*words):
            done = subprocess.run([arguments.quern, *map(str, words)], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                sys.exit(f"quern {words[0]} ended with {done.returncode}: {done.stderr}")
            return done.stdout

        quern("convert", arguments.base, folder / "base", "--type", "f32", "-q")
        (folder / "text").write_text(arguments.text)
        logits = []
        for flags in (("--adapter", arguments.adapter), ()):
            quern("eval", arguments.base, folder / "text", "--logits", folder / "logits", "--activations", "f32", "--kv", "f32", "-q", *flags)
            logits.append(np.fromfile(folder / "logits", "<f4").astype(np.float64))
        ids = json.loads(quern("tokenize", arguments.base, arguments.text, "--json"))["ids"]
        model = load(folder / "base", arguments.adapter)
        with torch.no_grad():
            theirs = model(torch.tensor([ids])).logits[0, -1].double().numpy()
    far, plain = abs(logits[0] - theirs).max(), abs(logits[1] - theirs).max()
    within = far <= arguments.bound and plain > 10 * arguments.bound
    print(f"peft {peft.__version__}, transformers {transformers.__version__}, {len(ids)} tokens: Quern's logits are at most {far:.3g} from peft's, those of the "
          f"base alone {plain:.3g}: {'within' if within else 'BEYOND'} {arguments.bound:g}")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
