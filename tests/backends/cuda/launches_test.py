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
    def launches_of(self, *cases, profile="quick"):
        """Cases that ended, names of kernels that were launched, and of those that the card would have refused."""
        with tempfile.TemporaryDirectory(prefix="quern-launches-") as folder:
            log, journal = pathlib.Path(folder, "log"), pathlib.Path(folder, "journal")
            filters = [word for case in cases for word in ("--filter", case)]
            subprocess.run([CONFORMANCE, "run", "--plugin", PLUGIN, "--device", "cuda:0", "--profile", profile, "--journal", str(journal), *filters],
                           capture_output=True, check=False, timeout=250,
                           env={**os.environ, "LD_LIBRARY_PATH": DRIVER, "FAKE_LOG": str(log), "QUERN_CACHE_DIR": folder})
            ended = [json.loads(line) for line in journal.read_text().splitlines() if '"end"' in line]
            asked = [line.split() for line in log.read_text().splitlines()]
        named = [{line[2] for line in asked if line[0] in kinds} for kinds in (("launch", "captured_launch"), ("refused_launch",))]
        return len(ended), *named

    def test_none_is_refused(self):
        ended, launched, refused = self.launches_of(*CASES)
        self.assertGreater(ended, 4)  # nothing is computed there: their values are wrong
        for kernel in ("kquants_8", "mixed_8", "stream", "rings", "attention_batch_f16_64_4"):
            self.assertIn(kernel, launched)
        self.assertEqual(refused, set())

    def test_attention_alone_of_many_rows_runs_on_the_matrix_units(self):
        """As in models whose queries and keys have norms of their own."""
        ended, launched, refused = self.launches_of("attention.attention.f32-f16-f16-*.65x4x64-*.scale=0p125.packed.gaussian-gaussian_unseen_nan-*_0+65")
        self.assertEqual((ended, refused), (1, set()))
        self.assertIn("attention_groups_64_f16", launched)
        self.assertIn("attention_pages_f16_64_4", launched)  # in exact numerics

    def test_attention_that_allows_no_conversion_does_not(self):
        """Though the products beside it, which it is fused with elsewhere, do."""
        ended, launched, refused = self.launches_of("graphs.block.f16.cache_f16.f32.exact_attention", profile="full")
        self.assertEqual((ended, refused), (1, set()))
        self.assertIn("mixed_8", launched)
        self.assertEqual([name for name in sorted(launched) if name.startswith(("attention_groups", "attention_rows", "attention_batch"))], [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
