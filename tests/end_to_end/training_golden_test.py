"""Gradients, weights, logits and answers of PyTorch's runs of tests/data/training, from settings alone. The curves are in training_test.py."""

import json
import math
import struct

from harness import DATA, main, real_model
from safetensors_files import numbers_of
from training_test import ON_DEVICE, TINY, TRAINING, Training, lora, settings

def size_of(numbers):
    return math.sqrt(sum(number * number for number in numbers))


def apart(a, b):
    return size_of(x - y for x, y in zip(a, b, strict=True))


class Goldens(Training):
    def gradients(self, config, examples, before, name):
        """What a step of SGD at the rate 1 takes away: the gradient itself, rounded as the weights are. `before`: the weights at this step."""
        lines = (TRAINING / "train.jsonl").read_text().splitlines(keepends=True)
        data = self.write(f"{name}.jsonl", "".join(lines[example] for example in examples))
        self.train({**config, "optimizer": "sgd", "sgd_momentum": 0, "learning_rate": 1, "lr_scheduler": "constant", "warmup_steps": 0, "max_steps": 1,
                    "weight_decay": 0, "max_grad_norm": 0, "test_datasets": None, "datasets": [{"path": data}], "save_steps": 1}, name=name)
        behind = numbers_of(self.weights(name, 1))
        return {tensor: [a - b for a, b in zip(before[tensor], behind[tensor])] for tensor in behind}

    def weights(self, name, step):
        (path,) = (path for path in (self.folder / name / f"checkpoint-{step}").glob("*.safetensors") if path.name != "optimizer.safetensors")
        return path

    # The bound of all gradients. PyTorch's f32 differs from its f64 by some 1e-6 of a tensor's largest, and what other orders of sums, other angles
    # and another exp add is below a hundred times that; a wrong factor or a row that is left out is far above it.
    def assert_gradients(self, found, golden, prefix=""):
        for tensor, expected in golden.items():
            numbers = found[tensor.removeprefix(prefix)]
            largest = max(map(abs, expected))
            self.assertLessEqual(max(abs(a - b) for a, b in zip(numbers, expected, strict=True)), 2e-4 * largest, tensor)

    def of_step(self, golden, step):
        return {name: numbers for name, numbers in golden.items() if name.startswith(f"step{step}.")}

    def check_adapter_gradients(self, config, run, golden):
        """At steps 0 and 2 of a run whose first rate is 0."""
        self.train({**config, "save_steps": 1, "test_datasets": None}, name="start")
        for step in (0, 2):
            start = self.folder / f"start/checkpoint-{max(1, step)}"
            wanted = self.of_step(golden, step)
            self.assertTrue(wanted)
            found = self.gradients({**config, "lora_model_dir": str(start)}, run["steps"][step]["examples"],
                                   numbers_of(start / "adapter_model.safetensors"), f"gradients-{step}")
            self.assert_gradients(found, wanted, f"step{step}.")

    def test_gradients_of_adapters(self):
        for model in ("llama", "qwen3"):
            with self.subTest(model):
                self.check_adapter_gradients(lora(model), TINY[model]["lora"], numbers_of(TRAINING / f"tiny-{model}-lora-gradients.safetensors"))

    def full(self, model, **changes):
        how = TINY[model]["full"]["settings"]
        return settings(model, **{"learning_rate": how["lr"], "lr_scheduler": how["schedule"], "warmup_steps": how["warmup"], "max_steps": how["steps"],
                                  "weight_decay": how["weight_decay"], **changes})

    def test_gradients_of_all_weights(self):
        for model in ("llama", "qwen3"):
            with self.subTest(model):
                self.train(self.full(model, save_steps=1, max_steps=3, test_datasets=None), name=model)  # whose first rate is 0
                found = self.gradients(self.full(model), TINY[model]["full"]["steps"][0]["examples"], numbers_of(self.weights(model, 1)), f"{model}-0")
                self.assert_gradients(found, numbers_of(TRAINING / f"tiny-{model}-full-gradient0.safetensors"))

    def test_all_weights_behind_the_last_step(self):
        self.train(self.full("llama", save_steps=20))
        found = numbers_of(self.weights("out", 20))
        for tensor, expected in numbers_of(TRAINING / "tiny-llama-full-final.safetensors").items():
            # As of adapters: one weight in a hundred may have a gradient within rounding of 0, which AdamW divides by its own size.
            differences = sorted(abs(a - b) for a, b in zip(found[tensor], expected, strict=True))
            self.assertLess(differences[-1 - len(differences) // 100], 1e-5, tensor)
            self.assertLess(size_of(differences), 1e-5 * size_of(expected), tensor)

    def test_a_batch_in_parts(self):
        for model in ("llama", "qwen3"):
            golden = TINY[model]["full_accumulated"]["steps"]
            config = self.full(model, micro_batch_size=1, gradient_accumulation_steps=4, max_steps=len(golden), test_datasets=None)
            _, log = self.train(config, name=model)
            for found, expected in zip(self.steps(log), golden, strict=True):
                self.assertLessEqual(abs(found["loss"] - expected["loss"]), 1e-6 * expected["loss"])


class RealGoldens(Goldens):
    """SmolLM2, whose file is fetched: all of PyTorch's run of 60 steps. Minutes."""

    limit = 1000
    test_gradients_of_all_weights = test_all_weights_behind_the_last_step = test_a_batch_in_parts = None

    def setUp(self):
        super().setUp()
        self.model = real_model()
        self.golden = json.loads((TRAINING / "lora.json").read_text())
        self.config = settings("llama", base_model=self.model, adapter="qlora", lora_r=8, lora_alpha=16, learning_rate=1e-3, lr_scheduler="cosine",
                               warmup_steps=6, max_steps=60)

    def test_gradients_of_adapters(self):
        self.check_adapter_gradients({**self.config, "max_steps": 8}, self.golden, numbers_of(TRAINING / "lora-gradients.safetensors"))

    EXACT = ("--activations", "f32", "--kv", "f32")

    def logits(self, model, text, *flags):
        out = self.folder / "logits.f32"
        result = self.quern("eval", model, self.write("prompt.txt", text), "--logits", out, *self.EXACT, *flags, env=ON_DEVICE)
        self.assertEqual(result.code, 0, result.err)
        return struct.unpack(f"<{out.stat().st_size // 4}f", out.read_bytes())

    def prompt(self, answer):
        """The text whose ids PyTorch was given."""
        system = {"role": "system", "content": "You are a helpful AI assistant named SmolLM, trained by Hugging Face"}
        text = "".join(f"<|im_start|>{one['role']}\n{one['content']}<|im_end|>\n" for one in (system, *answer["messages"])) + "<|im_start|>assistant\n"
        self.assertEqual(self.quern_json("tokenize", self.model, text, "--no-bos", "--no-eos")["ids"], answer["prompt_ids"])
        return text

    def check_adapter(self, found, initial):
        """Each tensor against peft's, which are rounded to f16: some 1e-4 of what the run moved, of which 1 % may differ."""
        for tensor, expected in numbers_of(DATA / "peft/lora-peft-f16/adapter_model.safetensors").items():
            self.assertLess(apart(found[tensor], expected), 0.01 * apart(expected, initial[tensor]), tensor)

    def check_logits(self, adapter):
        text = self.prompt(self.golden["answers"][0])
        file = TRAINING / "lora-logits-adapted.f32"
        golden = struct.unpack(f"<{file.stat().st_size // 4}f", file.read_bytes())
        base, adapted = self.logits(self.model, text), self.logits(self.model, text, "--adapter", adapter)
        self.assertLess(apart(adapted, golden), 0.01 * apart(golden, base))  # as adapters may differ
        merged = self.folder / "merged.gguf"
        self.assertEqual(self.quern("merge", self.model, adapter, "-o", merged, "--type", "f32", env=ON_DEVICE).code, 0)
        self.assertLess(max(abs(a - b) for a, b in zip(self.logits(merged, text), adapted)), 1e-3)

    def check_answers(self, adapter):
        for answer in self.golden["answers"]:
            said = self.quern_json("run", self.model, answer["messages"][-1]["content"], "--adapter", adapter, "--temperature", "0", "-n", "40", *self.EXACT,
                                   env=ON_DEVICE)
            self.assertTrue(said["text"].startswith("Short answer:"), said["text"])
            self.assertLess(len(said["ids"]), 40, "it does not end by itself")
            # Adapters may differ by 1 % of what they move, and logits by as much: tokens are the same up to the first near tie.
            same = next((i for i, margin in enumerate(answer["margins"]) if margin < 0.5), len(answer["ids"]))
            self.assertGreater(same, 2)
            self.assertEqual(said["ids"][:same], answer["ids"][:same])

    def test_sixty_steps(self):
        self.train({**self.config, "max_steps": 8, "save_steps": 1, "test_datasets": None}, name="start")
        closing, log = self.train({**self.config, "gradient_checkpointing": True})
        steps, golden = self.steps(log), self.golden["steps"]
        self.assert_curve(steps[:10], golden[:10], loss=5e-5, norm=2e-4)
        self.assert_curve(steps[10:], golden[10:], loss=2e-4, norm=1e-3)
        self.assertLessEqual(abs(closing["validation_loss"] - self.golden["val_loss"][1]), 1e-4 * self.golden["val_loss"][1])
        adapter = self.folder / "out"
        self.check_adapter(numbers_of(adapter / "adapter_model.safetensors"), numbers_of(self.folder / "start/checkpoint-1/adapter_model.safetensors"))
        self.check_logits(adapter)
        self.check_answers(adapter)


if __name__ == "__main__":
    main()
