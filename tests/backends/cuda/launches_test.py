#!/usr/bin/env python3
"""Every launch of whole graphs is one that a card takes: shared memory, threads and grid, over a driver that computes nothing.

usage: launches_test.py CONFORMANCE PLUGIN FOLDER_OF_THE_DRIVER
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

CONFORMANCE, PLUGIN, DRIVER = sys.argv[1:4]
CASES = ("graphs.block.q4_k_m.*", "graphs.block.f16.*.f32.bias", "graphs.composite.norm_qkv.q4_k.rows*", "graphs.composite.norm_gate_up_down.f16.rows3")


class Launches(unittest.TestCase):
    def test_none_is_refused(self):
        with tempfile.TemporaryDirectory(prefix="quern-launches-") as folder:
            log, journal = pathlib.Path(folder, "log"), pathlib.Path(folder, "journal")
            filters = [word for case in CASES for word in ("--filter", case)]
            subprocess.run([CONFORMANCE, "run", "--plugin", PLUGIN, "--device", "cuda:0", "--journal", str(journal), *filters], capture_output=True,
                           check=False, timeout=250, env={**os.environ, "LD_LIBRARY_PATH": DRIVER, "FAKE_LOG": str(log), "QUERN_CACHE_DIR": folder})
            ended = [json.loads(line) for line in journal.read_text().splitlines() if '"end"' in line]
            asked = [line.split() for line in log.read_text().splitlines()]
        self.assertGreater(len(ended), 4)  # nothing is computed there: their values are wrong
        launched = {line[2] for line in asked if line[0] in ("launch", "captured_launch")}
        for kernel in ("kquants_8", "mixed_8", "stream", "rings", "attention_batch_f16_64_4"):
            self.assertIn(kernel, launched)
        self.assertEqual({line[2] for line in asked if line[0] == "refused_launch"}, set())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
