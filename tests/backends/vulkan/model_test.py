"""A model of 5 M parameters on the first Vulkan device, whole and split with the CPU: the CPU's greedy tokens in exact numerics.

Exits with 77 where there is no Vulkan device; with CI=true that is a failure.
"""

import fcntl
import json
import os
import pathlib
import re
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).parents[2] / folder) for folder in ("end_to_end", "support")]
import random_model
from harness import DATA, MICRO, Case, main

EXACT = ("--activations", "f32", "--kv", "f32")
RUN = ("--raw", "--temperature", "0", "--max-tokens", "16", "--context", "128")
DEMAND = ("--device", "vulkan:0")
SHARED = ("--backend", "vulkan,cpu", *DEMAND)
PROMPT = "The layers of a model may lie apart."
LAYERS = 6


class Model(Case):
    def setUp(self):
        super().setUp()
        if self.quern("devices", *DEMAND).code == 3 and os.environ.get("CI") != "true":
            self.skipTest("no Vulkan device")
        self.model = str(self.folder / "model.gguf")
        parameters = random_model.write(self.model, MICRO, dim=256, ffn=768, layers=LAYERS, heads=8, kv_heads=4)
        self.assertGreater(parameters, 4_500_000)
        self.expected = self.answer("--backend", "cpu")

    def answer(self, *arguments):
        return self.quern_json("run", self.model, PROMPT, *RUN, *EXACT, *arguments)

    def refused(self, *arguments):
        result = self.quern("run", self.model, PROMPT, *RUN, *EXACT, *arguments)
        self.assertEqual(result.code, 5, result.err)
        return result.err

    def test_the_whole_model_gives_the_cpus_tokens(self):
        answer = self.answer(*DEMAND)
        self.assertEqual(answer["ids"], self.expected["ids"])
        self.assertEqual(answer["statistics"]["cuts"], [])

    def test_dispatches_that_wait_for_each_other_give_the_tokens_of_dispatches_with_barriers(self):
        run = ("hello", "--raw", "--temperature", "0", "--max-tokens", "12", *DEMAND)
        for name in ("llama-q4_0", "qwen3-q8_0", "qwen2-f16"):
            with self.subTest(name):
                ids = [self.quern_json("run", DATA / f"gguf/micro-{name}.gguf", *run, env={"QUERN_FORCE_KERNEL": forced})["ids"] for forced in ("vulkan:persistent", "vulkan:dot")]
                self.assertEqual(ids[0], ids[1])

    def test_models_narrower_than_a_workgroup_give_the_cpus_tokens(self):
        run = ("hello", "--raw", "--temperature", "0", "--max-tokens", "8", *EXACT)
        for name in ("llama-f32", "llama-q4_0", "llama-q8_0", "qwen2-f16", "qwen3-q8_0"):
            with self.subTest(name):
                ids = [self.quern_json("run", DATA / f"gguf/micro-{name}.gguf", *run, *where)["ids"] for where in (DEMAND, ("--backend", "cpu"))]
                self.assertEqual(ids[0], ids[1])

    def test_what_a_step_costs_the_host_is_logged(self):
        began = time.monotonic()
        result = self.quern("run", DATA / "gguf/micro-llama-q4_0.gguf", "hello", "--raw", "--temperature", "0", "--max-tokens", "9", "--verbose", *DEMAND)
        took = (time.monotonic() - began) * 1e6
        self.assertEqual(result.code, 0, result.err)
        line = re.search(r"vulkan: (\d+) runs of extents 1(?:, 1)*: ([\d.]+) us of the host a run \(([\d.]+) before the submit, ([\d.]+) submit, "
                         r"([\d.]+) behind\), ([\d.]+) us wait for the device", result.err)
        self.assertIsNotNone(line, result.err)
        runs, (host, before, submit, behind, wait) = int(line[1]), map(float, line.groups()[1:])
        self.assertEqual(runs, 8)  # the prompt gives the first token
        self.assertAlmostEqual(host, before + submit + behind, delta=0.21)  # four figures, each rounded to a tenth
        self.assertGreater(wait, 0)
        self.assertLess(runs * (host + wait), took)

    def test_a_pipeline_cache_that_another_process_has_locked_is_waited_for_two_seconds(self):
        cache = self.folder / "cache"
        run = ("run", DATA / "gguf/micro-llama-q8_0.gguf", "hello", "--raw", "--temperature", "0", "--max-tokens", "2", "--json", *DEMAND)

        def timed():
            began = time.monotonic()
            result = self.quern(*run, env={"QUERN_CACHE_DIR": str(cache)})
            self.assertEqual(result.code, 0, result.err)
            return time.monotonic() - began, result

        _, first = timed()
        self.assertNotIn("not kept", first.err)
        name, = cache.glob("vulkan/vulkan-pipelines/*.bin.lock")
        with open(name, "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            took, held = timed()
        self.assertRegex(held.err, rf"vulkan: \d+ pipelines are not kept for the next start: another process has had {re.escape(str(name))} for 2000 ms")
        self.assertEqual(json.loads(held.out)["ids"], json.loads(first.out)["ids"])
        self.assertGreater(took, 2)
        self.assertNotIn("not kept", timed()[1].err)

    def test_a_pipeline_cache_that_is_no_file_stops_nothing(self):
        cache = self.folder / "cache"
        run = ("run", DATA / "gguf/micro-llama-q8_0.gguf", "hello", "--raw", "--temperature", "0", "--max-tokens", "2", "--json", *DEMAND)
        env = {"QUERN_CACHE_DIR": str(cache)}
        first = self.quern(*run, env=env)
        self.assertEqual(first.code, 0, first.err)
        lock, = cache.glob("vulkan/vulkan-pipelines/*.bin.lock")
        kept = lock.with_suffix("")  # lavapipe has nothing to keep in it
        victim = pathlib.Path(self.write("victim", "precious"))
        for make in (kept.mkdir, lambda: os.mkfifo(kept), lambda: kept.symlink_to(victim)):
            kept.unlink(missing_ok=True)
            make()
            result = self.quern(*run, env=env)
            self.assertEqual(result.code, 0, result.err)
            self.assertEqual(json.loads(result.out)["ids"], json.loads(first.out)["ids"])
            if kept.is_dir():
                kept.rmdir()
        self.assertEqual(victim.read_bytes(), b"precious")

    def test_layers_that_do_not_fit_go_to_the_cpu(self):
        sentence = self.refused(*DEMAND, "--memory", "vulkan:0=64K")
        value, unit = re.search(r"and ([\d.]+) ([KMG])iB are needed", sentence).groups()
        needed = int(float(value) * 1024 ** (1 + "KMG".index(unit)))
        layer = 3 * 768 * 256 * 18 // 32 + (2 * 256 + 2 * 128) * 256 * 34 // 32 + 2 * 4 * 32 * 128 * 4  # matrices, keys and values
        limit = needed - 5 * layer // 2
        sentence = self.refused(*DEMAND, "--memory", f"vulkan:0={limit}")
        fit = int(re.search(rf"; (\d+) of its {LAYERS} layers would fit", sentence)[1])
        self.assertIn(fit, range(2, 5), sentence)

        split = ("run", self.model, PROMPT, *RUN, *EXACT, *SHARED, "--memory", f"vulkan:0={limit}")
        answer = self.quern_json(*split)
        self.assertEqual(answer["ids"], self.expected["ids"])
        self.assertEqual({(cut["from"], cut["to"]) for cut in answer["statistics"]["cuts"]}, {("cpu:0", "vulkan:0")})
        printed = self.quern(*split).err
        words = re.search(rf"layers 0 to (\d+) on cpu:0, layers? (\d+)( to {LAYERS - 1})? and the head on vulkan:0", printed)
        self.assertTrue(words, printed)
        self.assertEqual(int(words[1]) + 1, int(words[2]))
        self.assertIn(LAYERS - int(words[2]), (fit - 1, fit))

    def test_a_strict_refusal_names_a_limit_that_fits(self):
        for strict in (DEMAND, (*SHARED, "--fallback", "strict")):
            sentence = self.refused(*strict, "--memory", "vulkan:0=2M")
            limit = re.search(r"--memory (vulkan:0=\w+) would hold all of it", sentence)[1]
            answer = self.answer(*strict, "--memory", limit)
            self.assertEqual(answer["ids"], self.expected["ids"])


if __name__ == "__main__":
    main()
