#!/usr/bin/env python3
"""Which kernels are compiled where none are built in: those that a model needs, once.

usage: jit_test.py QUERN MODEL PLUGIN_FOLDER FAKE_DRIVER_FOLDER FAKE_NVRTC_FOLDER KERNEL_FOLDER

Driver and compiler are tests/backends/cuda/fake_driver: nothing is computed or compiled, the names of units are written down.
"""
import concurrent.futures
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import unittest

QUERN, MODEL, PLUGINS, DRIVER, NVRTC, KERNELS = sys.argv[1:7]


class Jit(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="quern-jit-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.log = self.folder / "log"
        self.log.touch()

    def run_model(self, folders=(DRIVER, NVRTC), prepare=None, **more):
        """Exit code, words, and the units that were compiled meanwhile, in their order."""
        before = len(self.log.read_text().split())
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("QUERN_", "CUDA_"))}
        environment = {**kept, "LD_LIBRARY_PATH": ":".join(folders), "FAKE_NVRTC_LOG": str(self.log), "HOME": str(self.folder),
                       "XDG_CONFIG_HOME": str(self.folder / "config"), "QUERN_CACHE_DIR": str(self.folder / "cache"), "QUERN_FORCE_KERNEL": "cuda:jit",
                       **more}
        done = subprocess.run([QUERN, "run", MODEL, "--raw", "hello", "--max-tokens", "3", "--temperature", "0", "--backend", "cuda", "--backend-path",
                               PLUGINS], env=environment, capture_output=True, text=True, timeout=120, check=False, preexec_fn=prepare)
        return done.returncode, done.stderr, [line.removesuffix(".cu") for line in self.log.read_text().split()[before:]]

    def test_a_model_compiles_what_it_needs_and_no_unit_twice(self):
        code, words, units = self.run_model()
        self.assertEqual(code, 0, words)
        for needed in ("mailbox", "rows", "sampling", "rope", "weights"):
            self.assertIn(needed, units)
        there = {file.stem for file in pathlib.Path(KERNELS).glob("*.cu")}
        self.assertLessEqual(set(units), there)
        self.assertNotIn("attention_backward", units)
        self.assertNotIn("optimiser", units)
        self.assertLess(len(set(units)), len(there) // 2 + 2)
        self.assertEqual(len(units), len(set(units)), units)  # the probe, a process of its own, keeps what it compiles
        self.assertEqual({file.name.split("-")[0] for file in (self.folder / "cache").rglob("*.cubin")}, set(units))

    def test_of_processes_that_start_together_one_compiles_a_unit(self):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            done = list(pool.map(lambda _: self.run_model(FAKE_NVRTC_MILLISECONDS="30"), range(4)))
        for code, words, _ in done:
            self.assertEqual(code, 0, words)
        units = self.log.read_text().split()
        self.assertEqual(len(units), len(set(units)), units)

    def test_the_second_start_compiles_nothing_that_is_kept(self):
        _, _, kept = self.run_model()
        code, words, units = self.run_model()  # what a model may want soon and the first process did not begin, it compiles
        self.assertEqual((code, set(units) & set(kept)), (0, set()), words)

    def test_a_unit_that_does_not_compile_is_named_with_the_compilers_words(self):
        code, words, _ = self.run_model(FAKE_NVRTC_REFUSES="sampling.cu")
        self.assertNotEqual(code, 0)
        self.assertIn("kernels 'sampling' do not compile for sm_90a: error: a brace is missing", words)

    @unittest.skipIf(os.environ.get("QUERN_TEST_SANITIZER"), "a sanitizer's own memory has its place among the addresses")
    def test_a_system_without_more_threads_compiles_in_the_one_there_is(self):
        _, _, usual = self.run_model()
        for file in (self.folder / "cache").rglob("*.cubin"):
            file.unlink()
        # The stack of every further thread is as large as all addresses.
        code, words, units = self.run_model(prepare=lambda: resource.setrlimit(resource.RLIMIT_STACK, (1 << 47, resource.RLIM_INFINITY)), QUERN_THREADS="1")
        self.assertEqual(code, 0, words)
        self.assertLessEqual(set(units), set(usual))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
