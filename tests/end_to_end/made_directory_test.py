"""Directories of scripts/make_directory.py in every format, and the lines that scripts/directory_speed.py has for them. Needs numpy."""

import importlib.util
import subprocess
import sys
import unittest

from harness import PROGRAM, SOURCE, Case, main
from safetensors_files import numbers_of, read_safetensors

FORMATS = ("bf16", "awq", "gptq", "gptq-act-order", "fp8", "nf4")
SMALL = ("--layers", "1", "--vocab", "320")


@unittest.skipIf(importlib.util.find_spec("numpy") is None, "no numpy")
class Made(Case):
    def script(self, name, *arguments, code=0):
        done = subprocess.run([sys.executable, SOURCE / "scripts" / name, *map(str, arguments)], capture_output=True, text=True, env=self.environment())
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr if code == 2 else done.stdout

    def make(self, kind, name, *more):
        self.script("make_directory.py", "tiny", kind, self.folder / name, *SMALL, *more)
        return self.folder / name

    def convert(self, model, out, *flags):
        result = self.quern("convert", model, out, *flags)
        self.assertEqual(result.code, 0, result.err)
        return out

    def test_weights_have_the_deviation_that_the_script_promises(self):
        for kind in FORMATS:
            with self.subTest(kind):
                folder = self.make(kind, kind, "--shards", 3)
                gguf = self.convert(folder, self.folder / f"{kind}.gguf", "--type", "f16")
                written = self.convert(gguf, self.folder / f"{kind}-f16", "--type", "f16")
                tensors = numbers_of(written / "model.safetensors")
                for name, columns in (("self_attn.q_proj", 256), ("mlp.up_proj", 256), ("mlp.down_proj", 768)):
                    values = tensors[f"model.layers.0.{name}.weight"]
                    square = sum(value * value for value in values) / len(values)
                    self.assertAlmostEqual(square * columns, 1, delta=0.08, msg=name)
                answer = self.quern_json("run", folder, "the mill", "--temperature", "0", "--max-tokens", "4")
                self.assertEqual(len(answer["ids"]), 4)

    def test_bytes_depend_on_neither_shards_nor_processes(self):
        one, many = self.make("gptq-act-order", "one", "--jobs", 1), self.make("gptq-act-order", "many", "--shards", 3, "--jobs", 3)
        ask = ("abc", "--raw", "--temperature", "0", "--max-tokens", "8")
        self.assertEqual(self.quern_json("run", one, *ask)["ids"], self.quern_json("run", many, *ask)["ids"])
        files = {name: data for path in many.glob("*.safetensors") for name, data in read_safetensors(path).items()}
        self.assertEqual(read_safetensors(one / "model.safetensors"), files)

    def test_what_cannot_be_made_is_refused(self):
        self.assertIn("multiples of 8 and 128", self.script("make_directory.py", "micro", "awq", self.folder / "no", code=2))
        self.assertIn("--shards is 0", self.script("make_directory.py", "tiny", "bf16", self.folder / "no", "--shards", 0, code=2))
        self.assertIn("the presets of llama", self.script("make_directory.py", "qwen2.5-3b", "bf16", self.folder / "no", code=2))

    def test_speed_has_a_line_for_each_model(self):
        folder = self.make("awq", "model")
        gguf = self.convert(self.make("bf16", "dense"), self.folder / "dense.gguf", "--type", "bf16")
        for flags, columns in ((("--prompt", 8, "--tokens", 4, "--times", 1), "decode"), (("--cached",), "GB/s")):
            lines = self.script("directory_speed.py", PROGRAM, gguf, folder, "--loads", 1, *flags).splitlines()
            self.assertIn("cpu:0", lines[0])
            self.assertIn(columns, lines[1])
            self.assertEqual([line.split()[0] for line in lines[2:]], ["dense.gguf", "model"])
        lines = self.script("directory_speed.py", PROGRAM, self.folder / "none.gguf", gguf, "--loads", 1, "--tokens", 0, code=1).splitlines()
        self.assertIn("ended with 4", lines[2])
        self.assertEqual(lines[3].split()[0], "dense.gguf")


if __name__ == "__main__":
    main()
