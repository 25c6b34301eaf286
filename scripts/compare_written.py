#!/usr/bin/env python3
"""Opens the directories that `quern quantize --to` writes in transformers, and compares the logits with Quern's own.

    compare_written.py QUERN MODEL TEXT [--to awq,compressed-tensors,fp8,fp8-channel] [--imatrix FILE] [--characters 200] [--bound 1e-2]

MODEL is an f32, f16 or bf16 GGUF file, whose context has room for TEXT; without --imatrix the matrix is of TEXT. Each form has a line: the largest difference of the logits behind
so many characters of TEXT between transformers, in f32, and Quern, in exact numerics; the largest logit; and the mean KL of Quern's predictions of TEXT from
MODEL's.
A last line has the KL of four bits rounded to the nearest, without a matrix. Exit: 0, or 1 where a difference is above the bound, or the KL of awq is not
below that of rounding.

Needs torch, transformers, accelerate, compressed-tensors and gptqmodel. transformers opens AWQ by gptqmodel, which compiles its kernels for the processor at
the first start: five minutes on one core, kept in ~/.cache/gptqmodel. Where that was ended on the way, a file `lock` is left in it, and later starts wait
for it without end: delete it. scripts/make_gguf.py makes a model that takes seconds: `tiny F16`, whose weights are whole blocks of 128 x 128, as transformers wants them for
fp8.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers


class Quern:
    def __init__(self, program):
        self.program = program

    def call(self, *arguments):
        done = subprocess.run([self.program, *map(str, arguments), "-q", "--json"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"quern {arguments[0]} ended with {done.returncode}: {done.stderr}")
        return json.loads(done.stdout)

    def logits(self, model, text, out):
        """Those of the last position, in f32."""
        self.call("eval", model, text, "--logits", out, "--activations", "f32", "--kv", "f32")
        return torch.frombuffer(bytearray(out.read_bytes()), dtype=torch.float32)

    def divergence(self, model, text, reference):
        found = self.call("eval", model, text, "--reference", reference, "--activations", "f32", "--kv", "f32")
        return found["reference"]["kl_mean"]


def peer_logits(directory, ids):
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, device_map="cpu").eval()
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0, -1].float()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quern")
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--to", default="awq,compressed-tensors,fp8,fp8-channel")
    parser.add_argument("--imatrix", type=pathlib.Path)
    parser.add_argument("--characters", type=int, default=200)
    parser.add_argument("--bound", type=float, default=1e-2)
    a = parser.parse_args()
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    quern, passed, divergences = Quern(a.quern), True, {}
    with tempfile.TemporaryDirectory(prefix="quern-written-") as folder:
        folder = pathlib.Path(folder)
        matrix = a.imatrix or folder / "imatrix"
        if a.imatrix is None:
            quern.call("imatrix", a.model, a.text, "-o", matrix)
        beginning = a.text.read_text(encoding="utf-8")[:a.characters]
        (folder / "beginning").write_text(beginning, encoding="utf-8")
        ids = quern.call("tokenize", a.model, beginning, "--no-bos")["ids"]
        for form in a.to.split(","):
            directory = folder / form
            quern.call("quantize", a.model, directory, "--to", form, "--imatrix", matrix)
            ours, theirs = quern.logits(directory, folder / "beginning", folder / "logits"), peer_logits(directory, ids)
            differs, divergences[form] = float((ours - theirs).abs().max()), quern.divergence(directory, a.text, a.model)
            passed = passed and differs <= a.bound
            print(f"{form:20} differs by {differs:.1e} of {float(theirs.abs().max()):.2f}, KL {divergences[form]:.4f}", flush=True)
        if "awq" in divergences:
            quern.call("quantize", a.model, folder / "rounded", "--to", "compressed-tensors")
            rounded = quern.divergence(folder / "rounded", a.text, a.model)
            passed = passed and divergences["awq"] < rounded
            print(f"{'rounded to nearest':20} KL {rounded:.4f}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
