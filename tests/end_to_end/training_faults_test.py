"""quern train while it is killed, or while the disk refuses, at each call that touches a file of its output folder."""

import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import time
import unittest
from errno import EACCES, EIO, ENOSPC

from harness import PROGRAM, SANITIZER, main
from training_test import ON_DEVICE, Training, lora

STEPS = os.environ["QUERN_TEST_STEPS"]
# A run of three steps, each with a save, of which two are kept: so a save also removes.
RUN = {"max_steps": 3, "warmup_steps": 0, "save_steps": 1, "save_total_limit": 2, "lora_dropout": 0.1, "micro_batch_size": 1, "lora_r": 2, "test_datasets": None}
RESULTS = ("adapter_model.safetensors", "checkpoint-3/adapter_model.safetensors", "checkpoint-3/optimizer.safetensors")


@unittest.skipIf(SANITIZER, "a sanitized program takes no preloaded library")
class Faults(Training):
    """`every`: at each call, not at a few of them."""

    every = False

    def setUp(self):
        super().setUp()
        self.out = self.folder / "out"
        self.train(lora("llama", **RUN), name="whole", env={"QUERN_THREADS": "1"})
        self.config = self.folder / "whole.yaml"
        self.whole = [(self.folder / "whole" / name).read_bytes() for name in RESULTS]
        self.log = self.curve(self.folder / "whole")

    def curve(self, folder):
        """What the log has of each step, but times."""
        return [(line["step"], line["loss"], line["grad_norm"], line["learning_rate"])
                for line in map(json.loads, (folder / "log.jsonl").read_text().splitlines()) if "loss" in line]

    def command(self, *arguments):
        return [PROGRAM, "train", str(self.config), f"output_dir={self.out}", *arguments]

    def run_program(self, *arguments, below=None, **steps):
        env = self.environment({**ON_DEVICE, "QUERN_THREADS": "1", "LD_PRELOAD": STEPS, "QUERN_STEP_FOLDER": str(below or self.out),
                                **{f"QUERN_STEP_{name.upper()}": str(value) for name, value in steps.items()}})
        return subprocess.run(self.command(*arguments), stdin=subprocess.DEVNULL, capture_output=True, text=True, env=env, timeout=60)

    def calls_of(self, *arguments, prepare=lambda: None, below=None):
        """How many calls there are to fail in a run."""
        count = self.folder / "count"
        count.unlink(missing_ok=True)
        self.begin(prepare)
        self.assertEqual(self.run_program(*arguments, count=count, below=below).returncode, 0)
        return count.stat().st_size

    def begin(self, prepare):
        shutil.rmtree(self.out, ignore_errors=True)
        prepare()

    def places(self, calls):
        self.assertGreater(calls, 60)
        return range(1, calls + 1) if self.every else sorted(random.Random(calls).sample(range(1, calls + 1), 6))

    def left(self):
        return sorted(path.name for path in self.out.rglob(".*"))

    def saved(self, result):
        """Steps of the checkpoints that the program said are whole."""
        return [int(step) for step in re.findall(r"^step (\d+): saved", result, re.MULTILINE)]

    def assert_goes_on(self, said, when, logged=True):
        """Resumed, the run loses no step before the last save, ends with the bits of the undisturbed one, and leaves nothing aside."""
        last = max([0, *self.saved(said)])
        resumed = self.run_program("--resume")
        if resumed.returncode == 4 and last == 0:
            self.assertIn("no whole checkpoint", resumed.stderr, when)
            resumed = self.run_program()
        self.assertEqual(resumed.returncode, 0, (when, resumed.stderr))
        done = re.search(r"; (\d+) are done", resumed.stderr)
        self.assertGreaterEqual(int(done.group(1)) if done else 0, last, (when, resumed.stderr))
        self.assert_is_whole(when, logged)

    def assert_is_whole(self, when, logged):
        for name, expected in zip(RESULTS, self.whole):
            self.assertEqual((self.out / name).read_bytes(), expected, (when, name))
        if logged:
            self.assertEqual(self.curve(self.out), self.log, when)
        self.assertEqual(self.left(), [], when)
        self.assertLessEqual(len(list(self.out.glob("checkpoint-*"))), 2, when)

    def test_a_run_that_is_killed_goes_on_from_its_last_save(self):
        for at in self.places(self.calls_of()):
            self.begin(lambda: None)
            killed = self.run_program(kill=at)
            self.assertEqual(killed.returncode, -signal.SIGKILL, at)
            self.assert_goes_on(killed.stderr, at)

    def test_a_save_may_end_at_each_of_its_calls(self):
        """The second save, in the folder that it has until it is whole: the run goes on from the first one if it is killed. A full disk costs this save alone."""
        aside = self.out / ".checkpoint-2.partial"
        calls = self.calls_of(below=aside)
        self.assertGreater(calls, 30)
        for at in range(1, calls + 1):
            self.begin(lambda: None)
            killed = self.run_program(kill=at, below=aside)
            self.assertEqual((killed.returncode, self.saved(killed.stderr)), (-signal.SIGKILL, [1]), at)
            self.assert_goes_on(killed.stderr, at)
        writes = 0
        while True:
            self.begin(lambda: None)
            full = self.run_program(full=writes + 1, below=aside)
            self.assertEqual(full.returncode, 0, full.stderr)
            if self.saved(full.stderr) == [1, 2, 3]:
                break
            writes += 1
            self.assertEqual(self.saved(full.stderr), [1, 3], writes)
            self.assertRegex(full.stderr, "warning: .*No space left")
            self.assert_is_whole(writes, logged=True)
        self.assertGreater(writes, 8)

    def replace(self):
        """A run of one step; the next one replaces its only checkpoint."""
        self.assertEqual(self.run_program("max_steps=1").returncode, 0)

    def test_a_save_that_replaces_a_checkpoint_and_is_killed_leaves_one(self):
        calls = self.calls_of("max_steps=1", prepare=self.replace)
        first = 1 if self.every else calls - 30  # from the last files of the checkpoint to the end
        for at in range(first, calls + 1):
            self.begin(self.replace)
            killed = self.run_program("max_steps=1", kill=at)
            self.assertEqual(killed.returncode, -signal.SIGKILL, at)
            resumed = self.run_program("max_steps=1", "--resume")
            self.assertEqual(resumed.returncode, 0, (at, resumed.stderr))
            self.assertIn("1 are done", resumed.stderr, at)

    def test_a_call_that_fails_costs_a_save_and_no_step(self):
        calls = self.calls_of()
        for error in (ENOSPC, EACCES, EIO):
            for at in self.places(calls):
                self.begin(lambda: None)
                failed = self.run_program(fail=at, errno=error)
                when = (at, error, failed.stderr)
                if failed.returncode == 0:
                    steps = self.saved(failed.stderr)
                    if "no checkpoint of step 3" not in failed.stderr:
                        self.assertEqual((self.out / RESULTS[1]).read_bytes(), self.whole[1], when)
                    self.assertEqual((self.out / RESULTS[0]).read_bytes(), self.whole[0], when)
                    if len(steps) < 3:
                        self.assertRegex(failed.stderr, r"warning: .*(No space left|may not be|ermission|Input/output)", when)
                else:  # at the start, where a folder cannot be written into, and at the end, for the result
                    self.assertIn(failed.returncode, (4, 5), when)
                    self.assertRegex(failed.stderr, r"quern: .*out", when)
                self.assert_goes_on(failed.stderr, when, logged=False)  # a line of the log that fails is told, and is lost

    def test_a_full_disk_leaves_the_run_going_and_what_was_saved(self):
        count = self.folder / "count"
        self.begin(lambda: None)
        self.assertEqual(self.run_program(count=count).returncode, 0)
        for at in self.places(count.stat().st_size):
            self.begin(lambda: None)
            full = self.run_program(full=at)
            self.assertIn(full.returncode, (0, 4, 5), full.stderr)
            self.assertEqual([name for name in self.left() if "checkpoint" in name], [], (at, full.stderr))
            if "step 3/3" in full.stderr or full.returncode == 0:
                self.assertIn("step 3/3", full.stderr)
            self.assert_goes_on(full.stderr, at)


class EveryFault(Faults):
    every = True

    def test_a_run_that_is_killed_at_any_time_goes_on(self):
        self.begin(lambda: None)
        began = time.monotonic()
        self.assertEqual(self.run_program().returncode, 0)
        whole = time.monotonic() - began
        for number in range(30):
            self.begin(lambda: None)
            process = subprocess.Popen(self.command(), env=self.environment({**ON_DEVICE, "QUERN_THREADS": "1"}), stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE, text=True)
            time.sleep(random.Random(number).uniform(0, whole))
            process.kill()
            _, said = process.communicate(timeout=60)
            self.assert_goes_on(said, number)


if __name__ == "__main__":
    main()
