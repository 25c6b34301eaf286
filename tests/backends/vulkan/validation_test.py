"""Vulkan's validation layers (Debian: vulkan-validationlayers) over a model run and a part of the conformance suite: no error, and no hazard
of synchronisation.

That the layers are there at all is shown by their advice on good practice, which they give for any program of ours.
Exits with 77 where there is no Vulkan device or no layer; with CI=true that is a failure.
"""

import os
import pathlib
import re
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).parents[2] / folder) for folder in ("end_to_end", "support")]
import random_model
from harness import MICRO, Case, main

LAYER = "VK_LAYER_KHRONOS_validation"
SETTINGS = """khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG
khronos_validation.report_flags = error,warn,perf
khronos_validation.duplicate_message_limit = 3
khronos_validation.log_filename = {}
khronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT,VK_VALIDATION_FEATURE_ENABLE_BEST_PRACTICES_EXT
"""
ADVICE = "BestPractices"


class Validation(Case):
    def setUp(self):
        super().setUp()
        folders = os.environ.get("VK_LAYER_PATH", "/usr/share/vulkan/explicit_layer.d")
        found = any((pathlib.Path(folder) / "VkLayer_khronos_validation.json").exists() for folder in folders.split(":"))
        missing = "no Vulkan device" if self.quern("devices", "--device", "vulkan:0").code == 3 else "" if found else "no validation layers"
        if missing and os.environ.get("CI") != "true":
            self.skipTest(missing)
        self.log = self.folder / "messages"
        self.write("vk_layer_settings.txt", SETTINGS.format(self.log))
        self.layers = {"VK_INSTANCE_LAYERS": LAYER, "VK_LAYER_SETTINGS_PATH": str(self.folder), "VK_LAYER_PATH": folders}

    def check_messages(self):
        self.assertTrue(self.log.exists(), f"{LAYER} was not loaded")
        text = self.log.read_text(errors="replace")
        kinds = re.findall(r"\[ ([\w-]+) \]", text)
        self.assertTrue(any(ADVICE in kind for kind in kinds), text[:2000])
        faults = sorted({kind for kind in kinds if ADVICE not in kind})
        self.assertEqual(faults, [], text[:4000])

    def test_a_model_runs_without_a_message(self):
        model = str(self.folder / "model.gguf")
        random_model.write(model, MICRO, dim=128, ffn=256, layers=2, heads=4, kv_heads=2)
        for numerics in ((), ("--activations", "f32", "--kv", "f32")):
            result = self.quern("run", model, "Layers", "--raw", "--temperature", "0.7", "--top-p", "0.9", "--seed", "1", "--max-tokens", "3",
                                "--context", "128", "--device", "vulkan:0", *numerics, env=self.layers)
            self.assertEqual(result.code, 0, result.err)
            self.check_messages()

    def test_cooperative_matrices_run_without_a_message(self):
        """Where the device has them: Debian 13's layers and newer know them, 1.3.250 and older call them an error."""
        forced = {"QUERN_FORCE_KERNEL": "vulkan:matrices"}
        model = str(self.folder / "model.gguf")
        random_model.write(model, MICRO, dim=128, ffn=256, layers=1, heads=4, kv_heads=2)
        prompt = "Layers that know matrices. " * 8  # more rows than a batch that decodes has
        arguments = ("run", model, prompt, "--raw", "--temperature", "0", "--max-tokens", "2", "--context", "256", "--device", "vulkan:0")
        if self.quern(*arguments, env=forced).code != 0:
            self.skipTest("the device or this build has no cooperative matrices")
        result = self.quern(*arguments, env={**self.layers, **forced})
        self.assertEqual(result.code, 0, result.err)
        self.check_messages()

    def check_conformance(self, *chosen):
        done = subprocess.run(
            [os.environ["QUERN_CONFORMANCE"], "run", "--device", "vulkan:0", "--profile", "quick", *chosen, "--jobs", "1", "--journal",
             str(self.folder / "journal.jsonl")],
            env=self.environment({**self.layers, "QUERN_BACKEND_PATH": os.environ["QUERN_TEST_PLUGINS"]}), capture_output=True, text=True, timeout=500)
        self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-2000:])
        self.check_messages()

    def test_conformance_cases_run_without_a_message(self):
        self.check_conformance("--shard", "7/150")

    def test_copies_through_staging_memory_run_without_a_message(self):
        """Without the cases of `abi`: those make instances of their own, with each of which the layer begins its log anew."""
        self.check_conformance("--option", "memory=staged", "--filter", "copy.copy.f*", "--filter", "graphs.smollm2_135m.decode.q8_0")


if __name__ == "__main__":
    main()
