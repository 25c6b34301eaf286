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

    least = None

    def needed(self):
        """The least limit that fits: the refusal names it to a tenth of a unit, and some runs find the byte."""
        if Refusal.least is None:
            code, words = self.run_with("64K")
            self.assertEqual(code, DOES_NOT_FIT, words)
            value, unit = re.search(r"and ([\d.]+) ([KMG])iB are needed", words).groups()
            middle = float(value) * 1024 ** (1 + "KMG".index(unit))
            low, high = int(middle * 0.9), int(middle * 1.1)
            self.assertEqual(self.run_with(low)[0], DOES_NOT_FIT)
            self.assertNotEqual(self.run_with(high)[0], DOES_NOT_FIT)
            while high - low > 1:
                limit = (low + high) // 2
                if self.run_with(limit)[0] == DOES_NOT_FIT:
                    low = limit
                else:
                    high = limit
            Refusal.least = high
        return Refusal.least

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

    def test_a_card_that_is_opened_halfway_gives_its_memory_back(self):
        refused = 0
        for function, calls in (("cuMemHostAlloc", 2), ("cuMemHostGetDevicePointer_v2", 2), ("cuMemAlloc_v2", 1)):
            for call in range(1, calls + 1):
                found = self.taken_and_given({"FAKE_REFUSED": f"{function}=2@{call}"})
                self.assertGreater(found["code"], 0, f"{function}, call {call}: {found['words']}")
                self.assertEqual(found["taken"], found["given"], f"{function}, call {call}")
                self.assertEqual(found["outside"], 0, f"{function}, call {call}")
                refused += found["refused"] > 0
        self.assertEqual(refused, 5)

    def taken_and_given(self, env):
        """What a run took of pinned memory and of the card's, gave back, and gave back outside of any context."""
        with tempfile.NamedTemporaryFile(prefix="quern-refusal-", suffix=".log") as log:
            code, words = self.run_with("4G", env={"FAKE_LOG": log.name, "QUERN_PROBE_IN_PROCESS": "1", **env})
            lines = [line.split() for line in log.read().decode().splitlines()]
        count = lambda *names: sum(line[0] in names for line in lines)
        return {"code": code, "words": words, "taken": count("host_alloc", "alloc"), "given": count("host_free", "free"), "refused": count("refused_call"),
                "outside": sum(line[0] in ("host_free", "free") and line[1] == "0" for line in lines)}


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
