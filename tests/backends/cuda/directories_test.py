#!/usr/bin/env python3
"""directories_test.py QUERN WRITE_DIRECTORY MODEL PLUGINS DRIVER: kernels a layer of quantised directories, over a driver that runs nothing.

WRITE_DIRECTORY is the build's quern_write_directory, MODEL a GGUF file whose tokenizer the directories have.
"""
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "end_to_end"))
import quantised_directories as packers  # noqa: E402

QUERN, WRITE_DIRECTORY, MODEL, PLUGINS, DRIVER = sys.argv[1:6]


class Directories(unittest.TestCase):
    def test_one_row_takes_five_kernels_a_layer_and_its_products_are_those_of_one_row(self):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("QUERN_", "CUDA_", "FAKE_"))}
        forms = {"awq": packers.awq(128), "awq-group32": packers.awq(32), "gptq-group64": packers.gptq(4, 64), "gptq-eight-bits": packers.gptq(8, 128),
                 "fp8": packers.fp8("block"), "nf4": packers.bitsandbytes("nf4"), "fp4": packers.bitsandbytes("fp4"), "int8": packers.llm_int8()}
        with tempfile.TemporaryDirectory(prefix="quern-directories-") as name:
            folder = pathlib.Path(name)
            subprocess.run([WRITE_DIRECTORY, MODEL, folder / "base", "1"], check=True)
            for form, packer in forms.items():
                with self.subTest(form=form):
                    log = folder / f"{form}.log"
                    packers.write_pair(random.Random(form), folder / "base", folder / form, folder / f"{form}-plain", packer)
                    done = subprocess.run([QUERN, "run", folder / form, "hi", "--raw", "--max-tokens", "4", "--backend", "cuda", "--backend-path", PLUGINS, "--explain"],
                                          env={**kept, "LD_LIBRARY_PATH": DRIVER, "HOME": name, "XDG_CONFIG_HOME": name, "XDG_CACHE_HOME": name,
                                               "FAKE_LOG": str(log)}, capture_output=True, text=True, timeout=100, check=False)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertRegex(done.stdout + done.stderr, r"1 row: \d+ kernels, 5 a layer;")
                    lines = log.read_text()
                    self.assertNotIn("refused_launch", lines)
                    launched = re.findall(r"^(?:captured_)?launch \S+ stream_groups_\w+", lines, re.MULTILINE)
                    self.assertGreaterEqual(len(launched), 4 * packers.LAYERS)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[6:])
