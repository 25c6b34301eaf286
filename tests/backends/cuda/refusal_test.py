#!/usr/bin/env python3
"""A model that a card has no room for is refused, and each setting that the refusal names does fit. So is one whose weights the driver does not
let be copied, and nothing is left of the copies. Over a driver that computes nothing.

usage: refusal_test.py QUERN MODEL PLUGIN_FOLDER FAKE_DRIVER_FOLDER
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

QUERN, MODEL, PLUGINS, DRIVER = sys.argv[1:5]
DOES_NOT_FIT = 5


class Refusal(unittest.TestCase):
    def run_with(self, limit, *more, env=None):
        """The exit code and what is said on standard error."""
        with tempfile.TemporaryDirectory(prefix="quern-refusal-") as folder:
            kept = {k: v for k, v in os.environ.items() if not k.startswith(("QUERN_", "CUDA_"))}
            done = subprocess.run([QUERN, "run", MODEL, "--raw", "x", "--max-tokens", "1", "--backend", "cuda", "--backend-path", PLUGINS, "--memory",
                                   f"cuda:0={limit}", "-q", *more], env={**kept, "LD_LIBRARY_PATH": DRIVER, "HOME": folder, "XDG_CACHE_HOME": folder, **(env or {})},
                                  capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stderr

    def needed(self):
        code, words = self.run_with("64K")
        self.assertEqual(code, DOES_NOT_FIT, words)
        return int(re.search(r"and (\d+) are needed", words)[1])

    def test_what_is_named_fits(self):
        limit = self.needed() - 1
        code, words = self.run_with(limit)
        self.assertEqual(code, DOES_NOT_FIT, words)
        named = re.search(r"a context of (\d+) would fit; the limit --memory cuda:0=(\w+) would hold all of it", words)
        self.assertIsNotNone(named, words)
        self.assertNotEqual(self.run_with(limit, "--context", named[1])[0], DOES_NOT_FIT)
        self.assertNotEqual(self.run_with(named[2])[0], DOES_NOT_FIT)

    def test_all_layers_are_not_some_of_them(self):
        code, words = self.run_with(self.needed() - 1)
        self.assertEqual(code, DOES_NOT_FIT, words)
        for fitting, layers in re.findall(r"(\d+) of its (\d+) layers would fit", words):
            self.assertLess(int(fitting), int(layers), words)

    def test_copies_of_weights_that_the_driver_refuses_are_an_error(self):
        for launch in range(1, 14):  # all: the first matrix of a group, and those behind one that is copied already
            code, words = self.run_with("4G", env={"FAKE_REFUSED_KERNEL": f"unpack_rows@{launch}"})
            self.assertGreater(code, 0, f"launch {launch}: {words}")
            self.assertIn("CUDA_ERROR_UNKNOWN", words)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
