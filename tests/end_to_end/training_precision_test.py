"""Numbers that a run computes with: bf16: auto, gradients that are checked in f32, and QLoRA over each block format."""

import json
import os

from harness import DATA, main
from training_test import DEVICE, TRAINING, Training, lora, random_model


class Precision(Training):
    """bf16: auto. The card is the CPU's plugin under another name, which answers to what it is asked."""

    def card(self, refused):
        return {"QUERN_BACKEND_PATH": os.environ["QUERN_TEST_REFUSING"], "QUERN_BACKEND": "refusing", "QUERN_DEVICE": "refusing:0", "QUERN_REFUSED": refused}

    def losses(self, name, env=None, **changes):
        closing, log = self.train(lora("llama", **{"max_steps": 3, "float32": None, **changes}), name=name, env=env)
        return closing["precision"], closing["precision_reason"], [(step["loss"], step["grad_norm"]) for step in self.steps(log)]

    def test_auto_is_bf16_on_a_card_and_f32_elsewhere(self):
        bf16, reason, rounded = self.losses("card", self.card("card"))
        self.assertEqual((bf16, reason), ("bf16", "refusing:0 is a graphics card"))
        self.assertEqual(self.losses("bf16", self.card("card"), bf16=True), ("bf16", "the settings ask for it", rounded))
        exact = self.losses("exact", self.card("card"), float32=True)
        self.assertEqual(exact[:2], ("f32", "the settings ask for it"))
        self.assertNotEqual(exact[2], rounded)
        # A card that has no bf16 computes as the exact run does.
        f32, reason, losses = self.losses("none", self.card("card_without_bf16"), bf16="auto")
        self.assertEqual((f32, losses), ("f32", exact[2]))
        self.assertRegex(reason, r"^refusing:0 does not compute \w+ in bf16: this card has no bf16$")

    def test_auto_is_f32_on_a_processor_and_in_software(self):
        if DEVICE.split(":")[0] not in ("cpu", "vulkan"):
            self.skipTest("of processors")
        precision, reason, _ = self.losses("auto")
        self.assertEqual(precision, "f32")
        self.assertRegex(reason, f"^{DEVICE} (is a processor|computes in software), where rows of 16 bits are no faster$")

    def test_the_plan_and_the_log_say_what_was_chosen_and_why(self):
        path = self.folder / "cfg.yaml"
        path.write_text(json.dumps({**lora("llama", max_steps=1, warmup_steps=0, float32=None), "output_dir": str(self.folder / "out")}))
        for refused, words in (("card", "bf16, since refusing:0 is a graphics card"), ("card_without_bf16", "f32, since refusing:0 does not compute ")):
            env = {**self.card(refused), "QUERN_LOG": "info"}
            for verb in (("train", path, "--dry-run"), ("estimate", "--train", path)):
                said = self.quern(*verb, env=env)
                self.assertEqual(said.code, 0, said.err)
                self.assertIn(f"precision   {words}", said.err + said.out.decode())
                self.assertIn(f"rows are {words}", said.err)
        self.assertIn("precision   f32, since the settings ask for it", self.quern("train", path, "float32=true", "--dry-run", env=self.card("card")).err)

    def test_gradients_are_checked_in_f32(self):
        path = self.folder / "cfg.yaml"
        for changes in ({"float32": None}, {"float32": None, "fp16": True}):
            path.write_text(json.dumps({**lora("llama", micro_batch_size=1, **changes), "output_dir": str(self.folder / "out")}))
            found = self.quern_json("train", path, "--check-gradients", "--quiet", env=self.card("card"))
            self.assertEqual((found["passed"], found["precision"]), (True, "f32"))
        exact = self.quern_json("train", path, "fp16=", "float32=true", "--check-gradients", "--quiet", env=self.card("card"))
        self.assertEqual(found["directions"], exact["directions"])

    def test_a_data_set_is_evaluated_as_a_run_evaluates_it(self):
        closing, _ = self.train(lora("llama", max_steps=1, warmup_steps=0, float32=None), env=self.card("card"))
        found = self.quern_json("eval", TRAINING / "tiny-llama.gguf", "--data", TRAINING / "val.jsonl", "--adapter", self.folder / "out", env=self.card("card"))
        self.assertEqual(found["precision"], "bf16")
        self.assertLess(abs(found["loss"] - closing["validation_loss"]), 1e-3 * found["loss"])  # Sums of rows of bf16 in another order: steps of 2^-9, whose mean over the labels is smaller.


class QuantisedBases(Training):
    """QLoRA computes with the decoded numbers: its losses are those of LoRA on the same base in f32."""

    def losses(self, base, adapter, name):
        _, log = self.train(lora("llama", base_model=str(base), adapter=adapter, max_steps=4, warmup_steps=1, micro_batch_size=2, test_datasets=None), name=name)
        return [step["loss"] for step in self.steps(log)]

    def check(self, source, kinds):
        for kind in kinds:
            with self.subTest(source=source.name, kind=kind):
                blocks, decoded = self.folder / f"{source.stem}-{kind}.gguf", self.folder / f"{source.stem}-{kind}-f32.gguf"
                for arguments in ((source, blocks, kind, "--pure"), (blocks, decoded, "F32")):
                    made = self.quern("quantize", *arguments, "--allow-requantize", "-q")
                    self.assertEqual(made.code, 0, made.err)
                found, expected = self.losses(blocks, "qlora", f"{blocks.stem}-out"), self.losses(decoded, "lora", f"{decoded.stem}-out")
                # Both decode to the same numbers. Sums in another order move a loss by some 1e-6 of it (Curves); ten times that.
                for a, b in zip(found, expected, strict=True):
                    self.assertLessEqual(abs(a - b), 1e-5 * b)

    def test_of_rows_of_32(self):
        for model in ("llama", "qwen3"):
            self.check(TRAINING / f"tiny-{model}.gguf", ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"))

    def test_of_rows_of_256(self):
        wide = self.folder / "wide.gguf"
        random_model.write(wide, DATA / "gguf/micro-llama-q8_0.gguf", dim=256, ffn=256, layers=2, heads=4, kv_heads=2)
        self.check(wide, ("Q4_K_S", "Q5_K_S", "Q6_K"))


if __name__ == "__main__":
    main()
