#!/usr/bin/env python3
"""Every launch of whole graphs is one that a card takes: shared memory, threads and grid, over a driver that computes nothing.

usage: launches_test.py CONFORMANCE PLUGIN FOLDER_OF_THE_DRIVER SCRIPT FOLDER_OF_THE_SPY
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

CONFORMANCE, PLUGIN, DRIVER, SCRIPT, SPY = sys.argv[1:6]
FORMATS = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_k", "q5_k", "q4_z32", "q4_z64", "q4_z128", "q8_z128", "q8_128", "f8_128", "nf4_64", "fp4_64")
CASES = ("graphs.block.q4_k_m.*", "graphs.block.f16.*.f32.bias", "graphs.composite.norm_qkv.q4_k.rows*", "graphs.composite.norm_gate_up_down.f16.rows3")


class Launches(unittest.TestCase):
    def launches_of(self, *cases, profile="quick"):
        """Cases that ended, names of kernels that were launched, and of those that the card would have refused."""
        with tempfile.TemporaryDirectory(prefix="quern-launches-") as folder:
            log, journal = pathlib.Path(folder, "log"), pathlib.Path(folder, "journal")
            filters = [word for case in cases for word in ("--filter", case)]
            subprocess.run([CONFORMANCE, "run", "--plugin", PLUGIN, "--device", "cuda:0", "--profile", profile, "--journal", str(journal), *filters],
                           capture_output=True, check=False, timeout=500,
                           env={**os.environ, "LD_LIBRARY_PATH": DRIVER, "FAKE_LOG": str(log), "QUERN_CACHE_DIR": folder})
            ended = [json.loads(line) for line in journal.read_text().splitlines() if '"end"' in line]
            asked = [line.split() for line in log.read_text().splitlines()]
        named = [{line[2] for line in asked if line[0] in kinds} for kinds in (("launch", "captured_launch"), ("refused_launch",))]
        return len(ended), *named

    def test_none_is_refused(self):
        ended, launched, refused = self.launches_of(*CASES)
        self.assertGreater(ended, 4)  # nothing is computed there: their values are wrong
        for kernel in ("kquants_8_q4_k", "mixed_8", "stream_short_1", "rings", "attention_batch_f16_64_4"):
            self.assertIn(kernel, launched)
        self.assertEqual(refused, set())

    def test_attention_alone_of_many_rows_runs_on_the_matrix_units(self):
        """As in models whose queries and keys have norms of their own."""
        ended, launched, refused = self.launches_of("attention.attention.f32-f16-f16-*.65x4x64-*.scale=0p125.packed.gaussian-gaussian_unseen_nan-*_0+65")
        self.assertEqual((ended, refused), (1, set()))
        self.assertIn("attention_groups_64_f16", launched)
        self.assertIn("attention_pages_f16_64_8", launched)  # in exact numerics

    def test_attention_that_allows_no_conversion_does_not(self):
        """Though the products beside it, which it is fused with elsewhere, do."""
        ended, launched, refused = self.launches_of("graphs.block.f16.cache_f16.f32.exact_attention", profile="full")
        self.assertEqual((ended, refused), (1, set()))
        self.assertIn("mixed_8", launched)
        self.assertEqual([name for name in sorted(launched) if name.startswith(("attention_groups", "attention_rows", "attention_batch"))], [])

    def test_transposed_blocks_of_many_rows_run_on_the_matrix_units(self):
        """In bf16, and where f16 alone is allowed in TF32; weights are decoded there, not before."""
        for case, kernel in (("f32-q4_k-f32.65x96-96x512-65x512.transpose_b=1.packed-packed_const-packed.gaussian", "gemm_mma_turned_128"),
                             ("f16-q5_0-f16.40x70-70x512-40x512.transpose_b=1.packed-packed_const-packed.gaussian.f16_alone", "gemm_tf32_turned")):
            ended, launched, refused = self.launches_of(f"matmul.matmul.{case}")
            self.assertEqual((ended, refused), (1, set()))
            self.assertIn(kernel, launched)
            self.assertNotIn("decode_rows", launched)

    def test_few_rows_of_each_format_run_in_its_own_kernels(self):
        """Of one format each, of Q5_K_M, and of formats of one operand that have no kernel in common."""
        ended, launched, refused = self.launches_of("graphs.block.*.cache_f16.f32.batch", profile="full")
        self.assertGreater(ended, 10)
        self.assertEqual(refused, set())
        self.assertEqual({name for name in launched if name.startswith("kquants_")},
                         {f"kquants_{columns}_{formats}" for columns in (8, 16, 32) for formats in FORMATS})

    def test_many_sequences_of_each_format_run_in_its_own_kernels(self):
        """Of which each row has an output, as a session's have."""
        ended, launched, refused = self.launches_of("graphs.sequences.rows64.*", "graphs.sequences.rows72.q4_z128_and_f16", profile="full")
        self.assertGreater(ended, 15)
        self.assertEqual(refused, set())
        self.assertEqual({name for name in launched if name.startswith(("warpgroup_64", "kquants_64"))}, {f"warpgroup_64_{formats}" for formats in FORMATS})
        self.assertLessEqual({"mixed_64", "gemm_mma_32", "attention_groups_64_f16"}, launched)

    def test_the_quick_profile_reaches_kernels_of_many_sequences(self):
        ended, launched, refused = self.launches_of("graphs.sequences.*")
        self.assertEqual((ended, refused), (3, set()))
        self.assertLessEqual({"kquants_8_q4_k", "kquants_16_q4_k", "kquants_32_q4_k", "warpgroup_64_q4_k"}, launched)
        self.assertTrue(launched & {"stream_1", "stream_short_1"}, launched)  # of one row, where a session wants `deterministic`

    def test_long_rows_of_one_token_are_quantised_once_by_the_kernel_that_makes_them(self):
        """Behind a gate by GELU, and beside adapters."""
        ended, launched, refused = self.launches_of("graphs.layers.*.wide_rows", profile="full")
        self.assertEqual((ended, refused), (2, set()))
        self.assertLessEqual({"stream_general_quantise_1", "stream_adapted_quantise_1"}, launched)

    def test_experts_of_each_format_of_the_matrix_units_run_there(self):
        """Of one token, and of more pairs than each output's warp takes."""
        for dtype in ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_k", "q5_k", "q6_k"):
            with self.subTest(dtype=dtype):
                ended, launched, refused = self.launches_of(*(f"moe.matmul_id.f32-{dtype}-i32-f32.{tokens}x1x256-4x33x256-*.plain.packed-packed_const-packed-packed.gaussian-gaussian-spread"
                                                              for tokens in (1, 33)))
                self.assertEqual((ended, refused), (2, set()))
                for columns in (8, 32):
                    self.assertIn(f"experts_kquants_{columns}_{dtype}", launched)

    def test_orders_of_columns_are_part_of_operands_and_of_copies_of_weights(self):
        """Where each column is named once. By another index they would be wrong, and the step runs node by node."""
        for index, puts_back in (("once", True), ("twice", False)):
            ended, launched, refused = self.launches_of(f"graphs.orders.{index}")
            self.assertEqual((ended, refused), (1, set()))
            self.assertEqual("unpack_in_order" in launched, puts_back, index)

    def launches_by_script(self, *arguments, driver=DRIVER, cases=("norm.rms_norm.f32-f32-i32-f32.5x1-*", "copy.copy.f32-i32-f32.3x5x17-*")):
        """What scripts/cuda_launches.py writes down: kernels by case."""
        with tempfile.TemporaryDirectory(prefix="quern-launches-") as folder:
            output = pathlib.Path(folder, "launches")
            done = subprocess.run([sys.executable, SCRIPT, "--conformance", CONFORMANCE, "--driver", driver, "--output", str(output), "--at-once", "2", *arguments,
                                   "--", "--plugin", PLUGIN, *[word for case in cases for word in ("--filter", case)]],
                                  capture_output=True, text=True, check=False, timeout=250)
            cases = [json.loads(line) for line in output.read_text().splitlines()] if output.exists() else []
            return done.returncode, {case["case"]: case["kernels"] for case in cases}, done.stderr

    def test_the_script_says_which_case_launches_which_kernel(self):
        code, cases, said = self.launches_by_script()
        self.assertEqual(code, 0, said)
        self.assertGreater(len(cases), 3)
        for case, kernels in cases.items():  # a node whose predicate is dead launches none
            self.assertEqual("norm_256" in kernels, case.startswith("norm.") and "-live-" in case, case)
            self.assertEqual("copy_elements" in kernels, case.startswith("copy."), case)

    def test_the_quick_profile_reaches_attention_of_batches_on_a_card_of_132_multiprocessors(self):
        code, cases, said = self.launches_by_script(cases=["graphs.block.*.batch_*"])
        self.assertEqual(code, 0, said)
        self.assertIn("attention_batch_f16_64_1", {kernel for kernels in cases.values() for kernel in kernels})

    def test_blocks_of_such_a_card_share_the_keys_behind_few_rows_of_a_prompt(self):
        """Which are on the matrix units then, as more rows are; and of 2 rows the parts become an operand."""
        code, cases, said = self.launches_by_script(cases=["graphs.block.q4_k_m.cache_f16.f32.few_rows"])
        self.assertEqual(code, 0, said)
        self.assertEqual(len(cases), 1)
        for kernel in ("attention_groups_64_f16", "attention_join", "rope_kv_8"):
            self.assertIn(kernel, *cases.values())

    def test_through_the_driver_that_hands_on_it_says_the_same_of_what_passes(self):
        _, cases, _ = self.launches_by_script()
        code, spied, said = self.launches_by_script("--spied", f"{DRIVER}/libcuda.so.1", driver=SPY)
        self.assertEqual(code, 0, said)
        self.assertEqual(spied, {case: kernels for case, kernels in cases.items() if case in spied})
        self.assertEqual({case.split(".")[0] for case in spied if "copy_elements" in spied[case]}, {"copy"})  # that driver computes them
        self.assertEqual([case for case in spied if case.startswith("norm.") and "-live-" in case], [])  # and no norms: wrong values do not count

    def test_a_run_without_a_launch_is_no_answer(self):
        code, cases, said = self.launches_by_script(driver="/nowhere")
        self.assertEqual((code, cases), (2, {}))
        self.assertIn("fake_drivers", said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
