"""scripts/training-tiers: its usage, and what its report makes of a program that is right, wrong, slow or broken. That program is this file's
FAKE, which writes what `quern` writes, changed as the environment variable FAKE_CHANGES says. Real tiers run in scripts/test --full."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from harness import DATA, PROGRAM, SOURCE, main

SCRIPT = SOURCE / "scripts/training-tiers"
FAKE = '''import json, os, pathlib, sys, time
changes = json.loads(os.environ.get("FAKE_CHANGES", "{}"))
changes.update(changes.get("on", {}).get(os.environ["QUERN_BACKEND"], {}))
verb, rest = sys.argv[1], sys.argv[2:]
with open(os.environ["FAKE_CALLS"], "a") as calls:
    calls.write(" ".join([verb, *(part for part in rest if part.startswith("-")), os.environ["QUERN_BACKEND"], os.environ["QUERN_FALLBACK"]]) + "\\n")
if verb == "--version":
    print("quern 9.9.9")
elif verb == "devices":
    if "refusal" in changes:
        sys.stderr.write("quern: " + changes["refusal"] + "\\n")
        sys.exit(3)
    print(json.dumps({"devices": [{"name": "cpu:0", "backend": changes.get("backend", "cpu"), "description": "a processor", "selected": True, "driver": "1.2"}]}))
elif "--check-gradients" in rest:
    if "code" in changes:
        sys.stderr.write("quern: it went wrong\\n")
        sys.exit(changes["code"])
    parts = [f"blk.{layer}.{name}" for layer in range(30) for name in ("q", "k", "v", "o", "gate", "up", "down")]
    tensors = [{"name": f"{part}.lora_{kind}", "elements": 8, "first_norm": 0.0 if kind == "a" else 0.5, "norm": 0.25, "fault": ""}
               for part in parts for kind in "ab"]
    tensors[3].update(changes.get("tensor", {}))
    slopes = [{"slope": 2.0, "difference": 2.0 * changes.get("ratio", 1.0), "right": True} for _ in range(20)]
    print(json.dumps({"passed": True, "device": changes.get("device", "cpu:0"), "weights_sha256": "00", "weights_unchanged": changes.get("unchanged", True),
                      "tensors": tensors, "directions": slopes}))
    sys.exit(changes.get("end", 0))
elif verb == "train":
    time.sleep(changes.get("sleep", 0))
    config = json.loads(pathlib.Path(rest[0]).read_text())
    folder = pathlib.Path(config["output_dir"])
    folder.mkdir(parents=True)
    name = folder.name
    closing = {"device": changes.get("backend", "cpu") + ":0", "skipped": 0, "estimate": {"devices_bytes": 100 << 20, "host_bytes": 9}, "peak_bytes": 101 << 20, "allocations": 7}
    if name.startswith("tiny-"):
        golden = json.loads(pathlib.Path(os.environ["FAKE_TINY"]).read_text())[name[5:]]["lora"]
        steps, closing["validation_loss"] = golden["steps"], golden["val_loss_after"]
    else:
        steps = [{"loss": 11.3, "grad_norm": 1.0, "tokens": 9, "labels": 3} for _ in range(config["max_steps"])]
        checkpoint = folder / "checkpoint-10"
        checkpoint.mkdir()
        (checkpoint / "trainer_state.json").write_text(json.dumps({"updates": 10, "micro_batches": 40}))
        closing.update(changes.get("closing", {}))
        for step, loss in changes.get("losses", {}).items():
            steps[int(step)]["loss"] = loss
        steps = steps[:changes.get("steps", len(steps))]
    more = {"seconds": 0.5, "tokens_per_second": 18.0, "learning_rate": 0.1, "memory_bytes": 5}
    (folder / "log.jsonl").write_text("".join(json.dumps({**more, **step, "step": i + 1}) + "\\n" for i, step in enumerate(steps)))
    (folder / "loss.svg").write_text("<svg/>")
    print(json.dumps(closing))
'''


class Script(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="quern-tiers-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.program, self.calls, self.report = self.folder / "quern", self.folder / "calls", self.folder / "report.json"
        self.program.write_text(f"#!{sys.executable} -IS\n{FAKE}")
        self.program.chmod(0o755)
        (self.folder / "models").mkdir()
        (self.folder / "models/smollm2-135m-q4_1-tied.gguf").write_text("weights")

    def run_script(self, *arguments, program=None, **changes):
        """Exit code, the report if one was written, and standard error."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("QUERN_")}
        self.report.unlink(missing_ok=True)
        done = subprocess.run([sys.executable, SCRIPT, *arguments, "--report", self.report, "--models", self.folder / "models"], capture_output=True, text=True,
                              timeout=100, check=False, env={**kept, "QUERN_PROGRAM": str(program or self.program), "FAKE_CALLS": str(self.calls),
                                                             "FAKE_TINY": str(DATA / "training/tiny.json"), "FAKE_CHANGES": json.dumps(changes)})
        return done.returncode, json.loads(self.report.read_text()) if self.report.exists() else None, done.stderr

    def faults(self, *arguments, **changes):
        """The sentences of the checks that failed; the call has to end with 1, and all other checks have passed."""
        code, report, said = self.run_script(*arguments, **changes)
        found = [check["fault"] for check in report["checks"] if not check["passed"]]
        self.assertEqual((code, report["passed"]), (1, False), said)
        for fault in found:
            self.assertIn(f"FAILED: {fault}", said)
            self.assertTrue(fault.endswith("."), fault)
        return found


class Usage(Script):
    def test_what_is_no_call_ends_with_2(self):
        other = self.folder / "other.gguf"
        other.write_text("no model")
        for arguments, words in (((), "TIER"), (("fast",), "fast"), (("quick", "--backend", "metal"), "metal"), (("quick", "--seconds", "0"), "--seconds"),
                                 (("quick", "--model", self.folder / "none.gguf"), "no such file"), (("quick", "--model", other), "SHA-256")):
            code, report, said = self.run_script(*arguments)
            self.assertEqual((code, report), (2, None), arguments)
            self.assertIn(words, said)
        code, report, said = self.run_script("quick", program=self.folder / "none")
        self.assertEqual((code, report), (2, None))
        self.assertIn("QUERN_PROGRAM", said)

    def test_a_backend_that_does_not_load_ends_with_3_and_no_other_is_taken(self):
        code, report, said = self.run_script("quick", "--backend", "cuda", refusal="cuda: no driver")
        self.assertEqual((code, report), (3, None))
        self.assertIn("the backend cuda does not load: \"quern: cuda: no driver\"", said)
        code, report, said = self.run_script("quick", "--backend", "vulkan")  # the program selects the CPU all the same
        self.assertEqual((code, report), (3, None))
        self.assertNotIn("train", self.calls.read_text())


class Gradients(Script):
    def test_a_program_that_is_right_passes(self):
        code, report, said = self.run_script("gradients")
        self.assertEqual((code, report["passed"]), (0, True), said)
        self.assertEqual((report["quern"], report["device"]["driver"]), (["quern 9.9.9"], "1.2"))
        for check in report["checks"]:
            self.assertEqual(sorted(check), ["asked", "bound", "check", "measured", "passed", "tier"])
        self.assertNotIn("/", self.report.read_text().replace("tokens/s", ""))  # no path of this machine
        calls = self.calls.read_text().splitlines()
        self.assertTrue(all(call.endswith(" cpu strict") for call in calls), calls)
        self.assertEqual(sum("--check-gradients" in call for call in calls), 23)

    def test_what_is_wrong_is_one_sentence_each(self):
        faults = self.faults("gradients", ratio=1.02, tensor={"norm": 0.0}, unchanged=False, device="vulkan:0", end=70)
        words = ("from differences of the loss is 0.02, and at most 0.01 is allowed.", ", is ['blk.0.k.lora_b'], and [] is asked for.",
                 "is changed, and it has to be unchanged.", "is vulkan, and cpu is asked for.")
        self.assertEqual(len(faults), len(words) * 23)
        for fault, expected in zip(faults, words * 23):
            self.assertIn(expected, fault)
        self.assertEqual(len(self.faults("gradients", tensor={"norm": None})), 23)  # how JSON has a norm that is no number

    def test_a_program_that_ends_by_an_error_fails_the_tier(self):
        (fault,) = self.faults("gradients", code=4)
        self.assertEqual(fault, 'quern train ended with 4 and "quern: it went wrong".')


class Quick(Script):
    def test_a_program_that_is_right_passes(self):
        code, report, said = self.run_script("quick")
        self.assertEqual((code, report["passed"]), (0, True), said)
        runs = {run["run"]: run for run in report["runs"]}
        self.assertEqual(sorted(runs), ["smollm2", "tiny-llama", "tiny-qwen3"])
        self.assertEqual((runs["smollm2"]["device_peak_bytes"], runs["smollm2"]["tokens_per_second"]), (101 << 20, 18.0))

    def test_what_is_wrong_is_one_sentence_each(self):
        limit = 256 << 20
        for changes, words in (({"closing": {"peak_bytes": limit + 1, "estimate": {"devices_bytes": 240 << 20, "host_bytes": 9}, "device": "vulkan:0",
                                             "skipped": 1}, "steps": 9, "losses": {"0": 14.0}},
                                ["logged steps of smollm2 is 9, and 10 is asked for.", "skipped steps of smollm2 is 1, and 0 is asked for.",
                                 "finite losses of smollm2 is 9, and 10 is asked for.", "smollm2 is vulkan, and cpu is asked for.",
                                 "ln(vocabulary) + 1/2 is 2.69733, and at most 1.26491 is allowed.",
                                 f"the peak of smollm2 on the device, in bytes, is {limit + 1}, and at most {limit} is allowed.",
                                 "beside its estimate is 1.06667, and at most 1.05 is allowed."]),
                               ({"closing": {"peak_bytes": 94 << 20}, "losses": {"3": float("nan")}},
                                ["finite losses of smollm2 is 9, and 10 is asked for.", "beside its estimate is 0.94, and at least 0.95 is asked for."])):
            faults = self.faults("quick", **changes)
            self.assertEqual(len(faults), len(words), faults)
            for fault, expected in zip(faults, words):
                self.assertIn(expected, fault)

    def test_a_tier_that_takes_too_long_fails_and_is_reported(self):
        (fault,) = self.faults("quick", "--seconds", "0.5", sleep=30)
        self.assertIn("the run tiny-llama did not end within the time of the tier.", fault)


class Agreement(Script):
    CALL = ("agreement", "--beside", "vulkan:0", "cuda")
    THERE = {"vulkan": {"backend": "vulkan"}, "cuda": {"backend": "cuda"}}

    def test_what_is_no_call_ends_with_2(self):
        for arguments in ((), ("--beside", "cpu"), ("--beside", "vulkan", "vulkan:1"), ("--beside", "metal")):
            code, report, said = self.run_script("agreement", *arguments)
            self.assertEqual((code, report), (2, None), arguments)
            self.assertIn("--beside", said)

    def test_a_backend_beside_that_does_not_load_ends_with_3(self):
        code, report, said = self.run_script(*self.CALL, on={"cuda": {"backend": "cuda"}})
        self.assertEqual((code, report), (3, None))
        self.assertIn("the backend vulkan does not load", said)

    def test_backends_that_agree_pass_and_leave_their_curves(self):
        code, report, said = self.run_script(*self.CALL, "--curves", self.folder / "curves", on=self.THERE)
        self.assertEqual((code, report["passed"]), (0, True), said)
        self.assertEqual([one["backend"] for one in report["beside"]], ["vulkan", "cuda"])
        self.assertEqual({path.name for path in (self.folder / "curves").iterdir()},
                         {f"{name}-{backend}.svg" for name in ("tiny-llama-lora", "tiny-qwen3-full") for backend in ("cpu", "vulkan", "cuda")})
        pairs = [check["check"] for check in report["checks"] if "distance" in check["check"]]
        self.assertEqual(len(pairs), 2 * 3, pairs)

    def test_a_loss_that_is_away_at_any_step_fails_with_both_backends_that_are_right(self):
        faults = self.faults(*self.CALL, on={**self.THERE, "cuda": {"backend": "cuda", "losses": {"199": 11.3 * 1.0006}}})
        self.assertEqual(len(faults), 2 * 2, faults)
        for fault, words in zip(faults, 2 * ("cpu and cuda is 0.00059964", "vulkan and cuda is 0.00059964")):
            self.assertIn(words, fault)
            self.assertIn("at most 0.0005 is allowed", fault)
        faults = self.faults(*self.CALL, on={**self.THERE, "vulkan": {"backend": "vulkan", "steps": 150}})
        self.assertIn("the number of steps of tiny-llama-lora on vulkan is 150, and 200 is asked for.", faults)


class Real(unittest.TestCase):
    """With the program itself: minutes."""

    def test_quick_and_gradients_pass_on_the_cpu(self):
        for tier in ("quick", "gradients"):
            done = subprocess.run([sys.executable, SCRIPT, tier, "--backend", "cpu"], capture_output=True, text=True, check=False,
                                  env={**os.environ, "QUERN_PROGRAM": PROGRAM})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(json.loads(done.stdout)["passed"])

    def test_the_cpu_and_vulkan_agree_over_200_steps(self):
        done = subprocess.run([sys.executable, SCRIPT, "agreement", "--backend", "cpu", "--beside", "vulkan:0"], capture_output=True, text=True, check=False,
                              env={**os.environ, "QUERN_PROGRAM": PROGRAM})
        if done.returncode == 3:
            self.skipTest(done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    main()
