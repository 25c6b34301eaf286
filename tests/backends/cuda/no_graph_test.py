#!/usr/bin/env python3
"""Where the driver makes no graph of a step, or does not start one, the step's kernels are launched one by one, and one line says so.

usage: no_graph_test.py LIBRARY MODEL PLUGIN_FOLDER FAKE_DRIVER_FOLDER PYTHON_FOLDER

The driver is tests/backends/cuda/fake_driver with FAKE_ANY_KERNEL, of which FAKE_REFUSED lets one function fail. It computes nothing, so
results are the same where the kernels are: these are compared too.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

LIBRARY, MODEL, PLUGINS, DRIVER, PYTHON = sys.argv[1:6]
CAPTURING = ("cuStreamBeginCapture_v2", "captured", "cuStreamEndCapture", "cuGraphInstantiateWithFlags")
OUT_OF_MEMORY, NOT_SUPPORTED, CAPTURE_UNSUPPORTED, LAUNCH_FAILED = 2, 801, 900, 719
# A session for 16 sequences: graphs of 1 to 8 and of 16 rows are made at once, and one of one row by each of three followers; of one row each has
# another that delivers no small writes. One of 12 comes with the second step of 12 rows.
PREPARED, WITHOUT_WRITES = 12, 4
ANSWER = """
import json, sys, quern
log = []
def answers(session, count):
    return [a.ids for a in session.generate_many([quern.Request([5, 6, 7], sequence=s, max_tokens=6, ignore_end=True) for s in range(count)])]
try:
    with quern.Runtime(backend="cuda", backend_path=sys.argv[1], log=lambda level, part, text: log.append([level, part, text]), log_level="warn") as runtime, \\
         runtime.load(sys.argv[2], context=64, sequences=16) as model, model.session(sequences=16) as session:
        print(json.dumps({"ids": answers(session, int(sys.argv[3])), "log": log}))
except quern.Error as error:
    print(json.dumps({"failed": [error.status, str(error)], "log": log}))
"""


class NoGraph(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="quern-no-graph-")
        self.addCleanup(folder.cleanup)
        self.here = pathlib.Path(folder.name)

    def answer(self, sequences, fault=None):
        """What the answers are, and what the driver was asked, as (what, kernel)."""
        log = self.here / "log"
        log.unlink(missing_ok=True)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("QUERN_", "CUDA_", "FAKE_"))}
        if fault:
            kept["FAKE_REFUSED"] = fault
        done = subprocess.run([sys.executable, "-c", ANSWER, PLUGINS, MODEL, str(sequences)], capture_output=True, text=True, timeout=60, check=False,
                              env={**kept, "LD_LIBRARY_PATH": DRIVER, "FAKE_LOG": str(log), "QUERN_LIBRARY": LIBRARY, "PYTHONPATH": PYTHON,
                                   "QUERN_CACHE_DIR": str(self.here)})
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout), [tuple(line.split()[::2]) for line in log.read_text().splitlines()]

    @staticmethod
    def steps(asked, launch):
        """The kernels from each delivery of small writes to the end of what was launched together, of launches of that kind."""
        found, step = [], None
        for what, *kernel in asked:
            if what == launch and kernel[0] == "deliver":
                step = []
                found.append(step)
            elif what != launch:
                step = None
            if step is not None:
                step += kernel
            if step and step[-1] == "publish":  # what follows is another's: a step that delivers nothing, or the next
                step = None
        return found

    def check_without_graph(self, sequences, fault, good, step):
        """`step`: the kernels that are launched one by one and no graph has."""
        with self.subTest(sequences=sequences, fault=fault):
            answer, asked = self.answer(sequences, fault)
            self.assertEqual(answer.get("ids"), good["ids"], answer)
            self.assertEqual(len(answer["log"]), 1, answer["log"])
            level, part, text = answer["log"][0]
            self.assertEqual((level, part), ("warn", "cuda"))
            self.assertIn("its kernels are launched one by one", text)
            self.assertIn(f", {fault.split('=')[1].split('@')[0]})", text)  # the driver's own number
            self.assertEqual([what for what, *_ in asked if what in ("graph", "refused_call")], ["refused_call"])  # no other is tried
            self.assertIn(step, self.steps(asked, "launch"))

    def test_steps_of_one_row(self):
        good, asked = self.answer(1)
        self.assertEqual(good["log"], [])
        self.assertIn("graph", [what for what, *_ in asked])
        captured = self.steps(asked, "captured_launch")
        self.assertEqual(len(captured), PREPARED)
        self.assertGreater(len(captured[0]), 8)
        for call in (*CAPTURING, "cuGraphLaunch"):
            for error in (OUT_OF_MEMORY, NOT_SUPPORTED, CAPTURE_UNSUPPORTED):
                self.check_without_graph(1, f"{call}={error}", good, captured[0])

    def test_steps_of_twelve_rows(self):
        good, asked = self.answer(12)
        self.assertEqual(good["log"], [])
        captured = self.steps(asked, "captured_launch")
        self.assertEqual(len(captured), PREPARED + 1)
        launches = len([what for what, *_ in asked if what == "captured_launch"])
        for call in CAPTURING:
            nth = launches - len(captured[-1]) + 3 if call == "captured" else PREPARED + WITHOUT_WRITES + 1
            self.check_without_graph(12, f"{call}={OUT_OF_MEMORY}@{nth}", good, captured[-1])
        self.check_without_graph(12, f"cuGraphLaunch={OUT_OF_MEMORY}", good, captured[-1])

    def test_a_lost_device_ends_the_step(self):
        for call in (*CAPTURING, "cuGraphLaunch"):
            with self.subTest(call=call):
                answer, _ = self.answer(1, f"{call}={LAUNCH_FAILED}")
                self.assertEqual(answer["failed"][0], "DEVICE_LOST", answer)
                self.assertEqual(answer["log"], [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
