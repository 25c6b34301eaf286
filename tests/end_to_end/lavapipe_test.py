"""What people do, on Vulkan by Mesa's rasteriser in software: the text, the plan and the training of the CPU. Exit 77 without such a device."""

import json
import os
import sys

import quantised_directories as packers
from harness import MICRO, Case, main
from quantised_directory_test import QuantisedCase
from training_test import settings

ON_VULKAN = {"QUERN_BACKEND": "vulkan", "QUERN_DEVICE": "vulkan:0"}
ON_CPU = {"QUERN_BACKEND": "cpu"}


class Lavapipe(Case):
    def test_exact_text_is_that_of_the_cpu(self):
        answers = [self.quern_json("run", MICRO, "hello there", "--activations", "f32", "--temperature", "0", "--max-tokens", "8", env=where)
                   for where in (ON_CPU, ON_VULKAN)]
        self.assertEqual([answer["backend"] for answer in answers], ["cpu", "vulkan"])
        self.assertEqual(*(answer["ids"] for answer in answers))

    def test_explain_names_what_stands_alone_and_why(self):
        plan = self.quern_json("run", MICRO, "hello", "--max-tokens", "1", "--explain", env=ON_VULKAN)["plan"]
        (device,) = plan["devices"]
        self.assertEqual((device["device"], device["told"]), ("vulkan:0", True))
        for schedule in device["schedules"]:
            self.assertGreaterEqual(schedule["kernels"], 2 * schedule["kernels_a_layer"])  # of two layers, and what is around them
            for group in schedule["alone"]:
                self.assertTrue(group["reason"], group)

    def test_training_takes_the_steps_of_the_cpu(self):
        """One example a step: each row looks at all others there."""
        found = []
        for where in (ON_CPU, ON_VULKAN):
            out = self.folder / where["QUERN_BACKEND"]
            path = self.folder / "cfg.yaml"
            path.write_text(json.dumps(settings("llama", adapter="lora", lora_r=4, lora_alpha=8, lora_dropout=0.1, micro_batch_size=1,
                                                max_steps=2, learning_rate=0.01, test_datasets=None, output_dir=str(out))))
            result = self.quern("train", path, "--json", "--quiet", env=where)
            self.assertEqual(result.code, 0, result.err)
            found.append([json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()])
        for cpu, vulkan in zip(*found, strict=True):
            # Both are in f32 with sums in orders of their own: as in training_test.py, 1e-6 for the loss, a mean, and 1e-5 for the norm.
            self.assertLessEqual(abs(vulkan["loss"] / cpu["loss"] - 1), 1e-6)
            self.assertLessEqual(abs(vulkan["grad_norm"] / cpu["grad_norm"] - 1), 1e-5)


class Directories(QuantisedCase):
    def test_quantised_directories_have_the_logits_of_the_cpu(self):
        for name, packer in {"awq": packers.awq(64), "gptq": packers.gptq(8, 128), "fp8": packers.fp8(), "nf4": packers.bitsandbytes(),
                             "integers": packers.integers("F32")}.items():
            with self.subTest(name):
                packed, _ = self.pair(packer, name, layers=1)
                cpu, vulkan = (self.logits(packed, "--activations", "f32", env=where) for where in (ON_CPU, ON_VULKAN))
                self.assertLess(max(abs(a - b) for a, b in zip(cpu, vulkan, strict=True)), 1e-4 * max(1, *map(abs, cpu)))


def there():
    probe = Case()
    probe.setUp()
    try:
        return probe.quern("run", MICRO, "hello", "--max-tokens", "1", env=ON_VULKAN).code == 0
    finally:
        probe.doCleanups()


if __name__ == "__main__":
    if os.environ.get("CI") != "true" and not there():  # CI without one is a fault
        sys.exit(77)
    main()
