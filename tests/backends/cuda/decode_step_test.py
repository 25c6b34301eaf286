#!/usr/bin/env python3
"""What a decode step asks of the driver, and what `quern run --trace` says of it: one graph, no allocation, no wait, token ids back.

usage: decode_step_test.py QUERN MODEL PLUGIN_FOLDER DRIVER_FOLDER [SPIED_DRIVER]

The driver is tests/backends/cuda/fake_driver with FAKE_ANY_KERNEL: it computes nothing and writes down what it is asked. On a card it is
fake_driver/spying_cuda.cpp, which hands on to SPIED_DRIVER, the card's own libcuda.so.1.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

QUERN, MODEL, PLUGINS, DRIVER = sys.argv[1:5]
SPIED = sys.argv[5] if len(sys.argv) > 5 else None
TOKENS = 24


class DecodeStep(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="quern-decode-step-")
        cls.addClassCleanup(cls.folder.cleanup)
        here = pathlib.Path(cls.folder.name)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("QUERN_", "CUDA_", "FAKE_")) or k == "CUDA_VISIBLE_DEVICES"}
        cls.log_name = "SPY_LOG" if SPIED else "FAKE_LOG"  # one of them writes: a call told twice is two calls
        log = {cls.log_name: str(here / "log"), **({"SPIED_DRIVER": SPIED} if SPIED else {})}
        path = f"{DRIVER}:{kept.get('LD_LIBRARY_PATH', '')}" if SPIED else DRIVER
        environment = {**kept, "LD_LIBRARY_PATH": path, **log, "HOME": str(here), "XDG_CONFIG_HOME": str(here / "config"),
                       "XDG_CACHE_HOME": str(here / "cache")}
        done = subprocess.run([QUERN, "run", MODEL, "--raw", "hello", "--max-tokens", str(TOKENS), "--temperature", "0", "--logit-bias", "2=-inf",
                               "--backend", "cuda", "--backend-path", PLUGINS, "--trace", str(here / "trace.json"), "--json", "-q"],
                              env=environment, capture_output=True, text=True, timeout=120, check=False)
        cls.environment = environment
        assert done.returncode == 0, done.stderr
        cls.answer = json.loads(done.stdout)
        cls.trace = json.loads((here / "trace.json").read_text())
        cls.log = [line.split() for line in (here / "log").read_text().splitlines()]

    def decode_steps(self):
        return [e["args"] for e in self.trace["traceEvents"] if e["ph"] == "X" and e["name"] == "decode step"]

    def test_a_step_is_one_graph_and_one_event_and_waits_for_nothing_and_copies_nothing_but_the_page_of_small_writes(self):
        asked = [line[0] for line in self.log]
        graphs = [i for i, what in enumerate(asked) if what == "graph"]
        steps = asked[graphs[-16]:graphs[-1]]  # the last 16 of the answer
        self.assertEqual(steps, ["graph", "event"] * 15)

    @unittest.skipIf(SPIED, "a card's driver does not say how much a graph has")
    def test_two_of_three_steps_deliver_no_small_writes(self):
        sizes = [int(line[1]) for line in self.log if line[0] == "graph"][-16:-1]
        self.assertEqual(sizes.count(min(sizes)), 10)
        self.assertEqual(sizes.count(min(sizes) + 2), 5)  # a copy and a kernel more

    def test_a_graph_copies_the_start_of_that_page_alone(self):
        copies = [line[1] for line in self.log if line[0] == "captured_copy"]
        self.assertGreater(len(copies), 0)
        self.assertEqual(set(copies), {"2048"})

    def test_writes_beyond_that_start_are_copied_before_the_graph(self):
        log = pathlib.Path(self.folder.name) / "long_log"
        biases = [word for token in range(3, 250) for word in ("--logit-bias", f"{token}=-1")]
        done = subprocess.run([QUERN, "run", MODEL, "--raw", "hello", "--max-tokens", "4", "--temperature", "0", *biases, "--backend", "cuda",
                               "--backend-path", PLUGINS, "-q"], env={**self.environment, self.log_name: str(log)}, capture_output=True,
                              text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line.split() for line in log.read_text().splitlines()]
        before = [lines[i - 1] for i, line in enumerate(lines) if line[0] == "graph" and lines[i - 1][0] != "event"]  # of followers none
        self.assertGreater(len(before), 0)
        for line in before:
            self.assertEqual(line[0], "to_device")
            self.assertGreater(int(line[1]), 0)

    def test_steps_of_more_than_eight_rows_that_come_again_are_graphs(self):
        log = pathlib.Path(self.folder.name) / "batch_log"
        done = subprocess.run([QUERN, "bench", MODEL, "-b", "12", "-p", "2", "-n", "6", "-r", "1", "--backend", "cuda", "--backend-path", PLUGINS, "-q"],
                              env={**self.environment, self.log_name: str(log)}, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 70 or "not to be trusted" not in done.stderr:  # a driver that computes nothing is too fast
            self.assertEqual(done.returncode, 0, done.stderr)
        graphs = [line for line in log.read_text().splitlines() if line.startswith("graph")]
        if "f32" in pathlib.Path(MODEL).name:
            self.assertGreaterEqual(len(graphs), 4)
        else:  # there they read 16-bit copies of weights, which may be given up
            self.assertEqual(graphs, [])

    def test_the_trace_says_the_same(self):
        spans = [e for e in self.trace["traceEvents"] if e["ph"] == "X"]
        decode = self.decode_steps()
        self.assertEqual(len(decode), len(self.answer["ids"]) - 1)
        if SPIED:
            print(f"a decode step, by the trace: {decode[-1]}")
        for step in decode:
            self.assertEqual((step["rows"], step["outputs"], step["bytes_between_devices"]), (1, 1, 0))
            self.assertIn(step["followers"], (0, 3))
            self.assertLess(step["bytes_to_devices"], 256)
        # Each has its own, or those of the one that it puts in flight behind others.
        self.assertEqual(sum(step["bytes_from_devices"] for step in decode), 8 * len(decode))
        runs = [e for e in spans if e["name"].startswith("run ")]
        self.assertEqual(len(runs), len([e for e in spans if e["pid"] == 0]))
        for run in runs:
            self.assertEqual({k: run["args"][k] for k in ("submits", "device_allocations", "host_allocations", "compiles", "recorded_anew")},
                             {"submits": 1, "device_allocations": 0, "host_allocations": 0, "compiles": 0, "recorded_anew": 0})

    def test_every_node_has_a_device_and_kernels_run_on_it(self):
        self.assertGreater(len(self.trace["nodes"]), 16)
        self.assertEqual(sum(k["nodes"] for k in self.trace["kernels"]), len(self.trace["nodes"]))
        self.assertTrue(all(".cuda" in k["kernel"] for k in self.trace["kernels"]), self.trace["kernels"])
        self.assertEqual({n["device"] for n in self.trace["nodes"]}, {"cuda:0"})
        self.assertEqual({k["device"] for k in self.trace["kernels"]}, {"cuda:0"})
        names = [e["args"]["name"] for e in self.trace["traceEvents"] if e["ph"] == "M"]
        self.assertEqual(names[:2], ["host", "cuda:0"])

    def test_steps_follow_one_another(self):
        spans = sorted((e["ts"], e["ts"] + e["dur"]) for e in self.trace["traceEvents"] if e["ph"] == "X" and e["pid"] == 0)
        for (_, end), (start, _) in zip(spans, spans[1:]):
            self.assertLessEqual(end, start)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
