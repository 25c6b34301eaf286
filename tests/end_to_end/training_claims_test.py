"""What breaks for users of other trainers: a test for each, of the program. Numbers are those of the list that the fine-tuning was built by;
what its other numbers ask is in training_test.py, training_faults_test.py, tests/runtime/training and tests/models/peft."""

import json
import math
import os

from harness import DATA, SOURCE, main
from safetensors_files import numbers_of
import training_test
from training_test import ON_DEVICE, TRAINING, Training, lora


# Claims of the list whose test stands elsewhere: what broke, the file, and the test there.
ELSEWHERE = {
    4: ("two tokens at the start", "tests/runtime/training/prompt_ids_test.cpp", "TEST_P(PromptIds, AreThoseOfTheCApi)"),
    5: ("a mask of zeros", "tests/runtime/training/rendering_test.cpp", "TEST_P(EveryTemplate, HasSpansThatAreTheAnswersOrRefusesByName)"),
    6: ("earlier turns rewritten", "tests/runtime/training/rendering_test.cpp", "TEST(Qwen3, HasTheAnswersOfThreeTurnsWithAndWithoutThoughts)"),
    12: ("another curve behind a resume", "tests/end_to_end/training_test.py", "def test_ten_and_the_rest_are_the_whole("),
    13: ("killed in a save", "tests/end_to_end/training_faults_test.py", "def test_a_run_that_is_killed_goes_on_from_its_last_save("),
    14: ("unknown keys", "tests/runtime/training/settings_keys_test.cpp", "TEST(Keys, EachMisspeltByOneLetterIsRefusedWithItsName)"),
    15: ("adapters that apply to nothing", "tests/models/peft/malformed_folder_test.cpp", "TEST(PeftMalformed, ARenamedPrefixIsNamed)"),
    18: ("merged models that differ", "tests/end_to_end/training_test.py", "def test_the_divergence_of_a_merged_model_is_what_its_format_rounds("),
    20: ("slow quantised bases", "scripts/training_tiers/large.py", "def check_speed_of_blocks("),
    23: ("thoughts of the template", "tests/runtime/training/rendering_test.cpp", "options.mask_template_text = mask;"),
    24: ("offsets of 32 bits", "conformance/manifest/huge.txt", "attention_ragged_backward 1 "),
    25: ("first and last rates", "tests/runtime/training/schedule_test.cpp", "TEST(Schedule, RatesAreThoseOfTransformers)"),
}


class Claims(Training):
    def test_each_of_the_27_claims_has_a_test(self):
        here = {int(name.split("_")[1]) for one in (Claims, Scales) for name in dir(one) if name.startswith("test_") and name.split("_")[1].isdigit()}
        self.assertEqual(sorted(here | ELSEWHERE.keys()), list(range(1, 28)))
        self.assertFalse(here & ELSEWHERE.keys())
        for number, (_, file, test) in ELSEWHERE.items():
            self.assertIn(test, (SOURCE / file).read_text(), number)

    def data(self, *examples, name="data.jsonl"):
        return [{"path": self.write(name, "".join(json.dumps(example) + "\n" for example in examples))}]

    def shown(self, config, count=1):
        """The first examples as ids and weights."""
        path = self.folder / "shown.yaml"
        path.write_text(json.dumps(config))
        return self.quern_json("train", path, "--show-data", str(count), env=ON_DEVICE)["examples"]

    def curve(self, name, env=None, **changes):
        _, log = self.train(lora("llama", warmup_steps=0, test_datasets=None, **changes), name=name, env={"QUERN_THREADS": "1", **(env or {})})
        return [(step["loss"], step["grad_norm"]) for step in self.steps(log)]

    def assert_close(self, found, expected, bound):
        self.assertEqual(len(found), len(expected))
        for a, b in zip(sum(found, ()), sum(expected, ())):
            self.assertLessEqual(abs(a - b), bound * abs(b))

    # Of examples of 1, 9 and 3 labels a mean of means would differ by some per cent.
    UNEQUAL = ({"input_ids": [3, 4, 5], "labels": [-100, -100, 5]}, {"input_ids": [*range(20, 30)]}, {"input_ids": [7, 8, 9, 10]},
               {"input_ids": [40, 41, 42, 43, 44, 45]})

    def test_01_accumulation_is_the_big_batch(self):
        data = self.data(*self.UNEQUAL)
        whole = self.curve("whole", datasets=data, micro_batch_size=4, max_steps=3)
        for size in (1, 2):
            parts = self.curve(f"parts-{size}", datasets=data, micro_batch_size=size, gradient_accumulation_steps=4 // size, max_steps=3)
            # Another order of f32 sums: 1e-6 for a loss; a norm passes AdamW twice, whose quotients of small gradients move ten times as much.
            self.assert_close([(loss,) for loss, _ in parts], [(loss,) for loss, _ in whole], 1e-6)
            self.assert_close(parts, whole, 1e-5)

    def test_02_validation_is_one_number_for_every_batch(self):
        losses = []
        for name, changes in (("1", {"micro_batch_size": 1}), ("4", {"micro_batch_size": 4}), ("packed", {"micro_batch_size": 4, "sample_packing": True})):
            closing, _ = self.train(lora("llama", max_steps=1, warmup_steps=0, learning_rate=1e-9, **changes), name=name)
            losses.append(closing["validation_loss"])
        self.assertLess(max(losses) - min(losses), 1e-6 * losses[0])

    def test_03_every_end_of_a_turn_is_learnt(self):
        end = self.quern_json("tokenize", TRAINING / "tiny-llama.gguf", "<|im_end|>", "--no-bos", "--no-eos")["ids"]
        self.assertEqual(len(end), 1)
        for example in self.shown(lora("llama"), 104):
            counted = [id_ for id_, weight in zip(example["ids"], example["weights"]) if weight]
            self.assertEqual(counted[-1], end[0], example["source"])

    def test_07_an_example_may_be_cut_at_each_of_its_tokens(self):
        config = lora("llama", test_datasets=None, datasets=self.data({"messages": [
            {"role": "user", "content": "a b"}, {"role": "assistant", "content": "c d"}, {"role": "user", "content": "e"}, {"role": "assistant", "content": "f"}]}))
        whole = self.shown(config)[0]
        first = next(i for i, weight in enumerate(whole["weights"]) if weight)
        for length in range(2, len(whole["ids"]) + 1):
            cut = {**config, "sequence_len": length, "excess_length_strategy": "truncate"}
            if length <= first:
                self.assertIn("data.jsonl", self.train(cut, code=4)[0])
                continue
            found = self.shown(cut)[0]
            self.assertEqual((found["ids"], found["weights"]), (whole["ids"][:length], whole["weights"][:length]))

    def test_08_data_whose_labels_are_all_cut_off_is_refused_with_the_count(self):
        said, _ = self.train(lora("llama", sequence_len=4, excess_length_strategy="truncate"), code=4)
        self.assertIn("104", said)

    def test_09_packed_examples_do_not_see_each_other(self):
        unpacked = self.curve("unpacked", datasets=self.data(*self.UNEQUAL), micro_batch_size=1, gradient_accumulation_steps=4, max_steps=3)
        packed = self.curve("packed", datasets=self.data(*self.UNEQUAL), micro_batch_size=4, sequence_len=32, sample_packing=True, max_steps=3)
        self.assert_close(packed, unpacked, 1e-5)
        seen = []
        for number, ids in enumerate(([11, 12, 13, 14], [90, 80, 70, 60])):
            # The first example's loss counts so little that adding it changes no bit of the second one's.
            data = self.data({"input_ids": ids, "weights": [0, 1e-30, 1e-30, 1e-30]}, {"input_ids": [30, 31, 32], "weights": [0, 1, 1]}, name=f"{number}.jsonl")
            seen.append(self.curve(str(number), datasets=data, micro_batch_size=2, sequence_len=32, sample_packing=True, max_steps=1))
        self.assertEqual(*seen)

    def first_op_set(self):
        """A device that answers to what is new in op set 2 as a plugin of op set 1 does."""
        return {"QUERN_BACKEND_PATH": os.environ["QUERN_TEST_REFUSING"], "QUERN_BACKEND": "refusing", "QUERN_DEVICE": "refusing:0", "QUERN_REFUSED": "op_set_2"}

    def test_09_a_plugin_without_attention_of_packed_examples_gives_the_same_curve(self):
        packed = {"datasets": self.data(*self.UNEQUAL), "micro_batch_size": 4, "sequence_len": 32, "sample_packing": True, "max_steps": 3}
        self.assert_close(self.curve("masked", env=self.first_op_set(), **packed), self.curve("ragged", **packed), 1e-5)

    def test_a_plugin_of_the_first_op_set_trains_blocks_and_all_weights_alike(self):
        blocks = self.folder / "blocks.gguf"
        merged = self.quern("merge", TRAINING / "tiny-llama.gguf", DATA / "peft/tiny-llama-lora", "-o", blocks, "--type", "q8_0", env=ON_DEVICE)
        self.assertEqual(merged.code, 0, merged.err)
        parts = {"micro_batch_size": 2, "gradient_accumulation_steps": 2, "max_steps": 3}
        for name, changes, words in (("blocks", {"base_model": str(blocks)}, "frozen weights are decoded for their gradients: matmul: "),
                                     ("full", training_test.ALL, "gradients of weights are made before they are added: matmul: ")):
            with self.subTest(name):
                self.assert_close(self.curve(f"{name}-first", env=self.first_op_set(), **parts, **changes), self.curve(name, **parts, **changes), 1e-5)
                for env, said in ((self.first_op_set(), True), (ON_DEVICE, False)):
                    log = self.quern("estimate", "--train", self.folder / f"{name}.yaml", env={**env, "QUERN_LOG": "info"}).err
                    self.assertEqual(words in log, said, log)
                    self.assertEqual("gradients of logits take memory of their own: cross_entropy_backward: " in log, said, log)

    def test_more_rows_than_a_mask_has_are_refused_where_a_mask_is_needed(self):
        config = lora("llama", datasets=self.data(*[{"input_ids": [*range(3, 203)]}] * 45), test_datasets=None, micro_batch_size=45)
        path = self.folder / "many.yaml"
        path.write_text(json.dumps({**config, "output_dir": str(self.folder / "many")}))
        self.assertEqual(self.quern("estimate", "--train", path, env=ON_DEVICE).code, 0)
        refused = self.quern("estimate", "--train", path, env=self.first_op_set())
        self.assertNotEqual(refused.code, 0)
        for words in ("may have 9000 rows, and 8192 are possible on refusing:0", "lower micro_batch_size"):
            self.assertIn(words, refused.err)

    def test_10_checkpointing_reaches_every_adapter(self):
        for kind in (False, True, "selective"):
            self.train(lora("llama", gradient_checkpointing=kind, warmup_steps=0, save_steps=1, max_steps=3), name=str(kind))
            first, second, third = (numbers_of(self.folder / f"{kind}/checkpoint-{step}/adapter_model.safetensors") for step in (1, 2, 3))
            for name in first:
                if ".lora_B." in name:
                    self.assertTrue(any(first[name]), (kind, name))
                else:
                    self.assertNotEqual(first[name], third[name], (kind, name))

    def test_11_f16_stays_finite_and_a_batch_that_is_not_changes_no_bit(self):
        config = lora("llama", float32=False, fp16=True, max_steps=200, micro_batch_size=1, save_steps=199, test_datasets=None)
        closing, log = self.train(config)
        losses = [step["loss"] for step in self.steps(log)]
        self.assertEqual((len(losses), closing["skipped"]), (200, 0))
        self.assertTrue(all(math.isfinite(number) for step in self.steps(log) for number in (step["loss"], step["grad_norm"])))
        self.assertLess(sum(losses[-20:]), 0.9 * sum(losses[:20]))
        before, last = (self.folder / "out" / f"checkpoint-{step}" for step in (199, 200))
        state = json.loads((before / "trainer_state.json").read_text())
        (before / "trainer_state.json").write_text(json.dumps({**state, "loss_scale": 2 ** 40}))  # f16 has no such gradients
        self.train(config, f"resume_from_checkpoint={before}")
        state = json.loads((last / "trainer_state.json").read_text())
        self.assertEqual((state["step"], state["updates"], state["loss_scale"]), (200, 199, 2 ** 39))
        for name in ("adapter_model.safetensors", "optimizer.safetensors"):
            self.assertEqual((before / name).read_bytes(), (last / name).read_bytes())

    def test_17_rates_below_the_last_bit_of_bf16_move_what_is_trained(self):
        # 100 updates of 1e-6 are 1e-4 at most. The initial A is up to 1/8, where bf16 has steps of 2^-11 to 2^-10, so that in bf16 nothing would move.
        def adapter(name, **changes):
            self.train(lora("llama", **{"max_steps": 100, "learning_rate": 1e-6, "warmup_steps": 0, "lr_scheduler": "constant", "test_datasets": None,
                                        "micro_batch_size": 1, "weight_decay": 0, **changes}), name=name)
            return sum(numbers_of(self.folder / name / "adapter_model.safetensors").values(), ())
        first = adapter("first", max_steps=1, learning_rate=1e-30)
        exact, rounded = ([b - a for a, b in zip(first, adapter(name, **changes))]
                          for name, changes in (("f32", {}), ("bf16", {"float32": False, "bf16": True})))
        norm = lambda numbers: math.sqrt(sum(number * number for number in numbers))
        self.assertGreater(norm(exact), 1e-5 * math.sqrt(len(exact)))
        self.assertLess(abs(norm(rounded) / norm(exact) - 1), 0.01)
        self.assertGreater(sum(a * b for a, b in zip(exact, rounded)), 0.9 * norm(exact) * norm(rounded))

    def test_19_a_matrix_that_no_adapter_file_can_hold_is_refused_at_the_start(self):
        for module in ("lm_head", "embed_tokens"):
            said, _ = self.train(lora("llama", lora_target_modules=["q_proj", module]), code=2)
            self.assertIn(module, said)

    def test_22_steps_are_those_of_the_optimiser(self):
        _, log = self.train(lora("llama", max_steps=10, micro_batch_size=1, gradient_accumulation_steps=4, test_datasets=None))
        state = json.loads((self.folder / "out/checkpoint-10/trainer_state.json").read_text())
        self.assertEqual((len(self.steps(log)), state["updates"], state["micro_batches"]), (10, 10, 40))

    def test_21_a_device_that_lacks_a_gradient_is_refused_or_named(self):
        if not training_test.DEVICE.startswith("cpu"):
            self.skipTest("of the sample plugin and the CPU")
        sample = {"QUERN_BACKEND": "sample,cpu", "QUERN_DEVICE": "", "QUERN_BACKEND_EXTRA_PATH": os.environ["QUERN_TEST_SAMPLE"]}
        config = lora("llama", max_steps=1, warmup_steps=0, test_datasets=None)
        said, _ = self.train(config, env={**sample, "QUERN_FALLBACK": "strict"}, code=4)
        for words in ("sample:0 does not compute", "nodes of 'training step'", "get_rows 'token_embd'"):
            self.assertIn(words, said)
        # Numbers that one device updates and another reads would be learnt from no more.
        said, _ = self.train(config, env=sample, code=4)
        for words in ("sample:0 computes a part of the training step", "cpu:0 the update", "choose cpu:0 alone"):
            self.assertIn(words, said)
        self.assertEqual(self.train(config, env={**sample, "QUERN_BACKEND": "cpu"})[0]["device"], "cpu:0")

    def test_26_nothing_is_allocated_behind_the_first_step(self):
        # Every micro-batch has another length, and a long one comes late.
        data = self.data(*({"input_ids": list(range(3, 6 + 5 * (7 * i % 11)))} for i in range(12)))
        runs = [self.train(lora("llama", datasets=data, test_datasets=data, max_steps=steps, eval_steps=1, micro_batch_size=1, warmup_steps=0,
                                save_strategy="no"), name=str(steps)) for steps in (1, 12)]
        self.assertEqual(runs[0][0]["allocations"], runs[1][0]["allocations"])
        self.assertEqual(runs[0][0]["peak_bytes"], runs[1][0]["peak_bytes"])
        estimate = runs[1][0]["estimate"]["devices_bytes"]
        self.assertEqual({step["memory_bytes"] for step in self.steps(runs[1][1])}, {estimate})
        self.assertLessEqual(runs[1][0]["peak_bytes"], 1.05 * estimate)

    def test_27_broken_text_is_named_with_its_line(self):
        good = b'{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n'
        for bad in (b'{"messages": [{"role": "user", "content": "\xff"}]}\n', b'{"messages": \x00}\n', b"[" * 1000 + b"\n", b'{"messages": "', b"nonsense\n",
                    b'{"messages": [{"role": "user", "content": "' + b"x" * (20 << 20)):
            said, _ = self.train(lora("llama", datasets=[{"path": self.write("bad.jsonl", good + good + bad)}]), code=4)
            self.assertIn("bad.jsonl:3", said)
        for name, content in (("empty.jsonl", b""), ("blank.jsonl", b"\n\r\n")):
            self.assertIn(name, self.train(lora("llama", datasets=[{"path": self.write(name, content)}]), code=4)[0])
        fine = b"\xef\xbb\xbf" + good.replace(b"\n", b"\r\n") * 4
        self.train(lora("llama", datasets=[{"path": self.write("fine.jsonl", fine)}], max_steps=1, warmup_steps=0), name="fine")


class Scales(training_test.Adapters):
    # The inherited tests are those of training_test.py.
    test_a_merged_model_has_the_logits_of_peft = test_an_adapter_goes_to_gguf_and_back = test_an_adapter_of_another_model_is_4 = None

    def test_16_the_scale_of_rslora_survives_every_file(self):
        base, adapter = TRAINING / "tiny-llama.gguf", DATA / "peft/tiny-llama-lora_rslora"
        gguf, text = self.folder / "adapter.gguf", self.prompt("llama")
        self.assertEqual(self.quern("export", base, adapter, "-o", gguf, "--format", "gguf").code, 0)
        found = []
        for number, source in enumerate((adapter, gguf)):
            out = self.folder / f"{number}.gguf"
            self.assertEqual(self.quern("merge", base, source, "-o", out, "--type", "f32", env=ON_DEVICE).code, 0)
            found.append(self.logits(out, text))
        plain = self.logits(base, text)
        moved = max(abs(a - b) for a, b in zip(found[0], plain))
        # alpha sqrt(r) is rounded to f32 in the GGUF file.
        self.assertLess(max(abs(a - b) for a, b in zip(*found)), 1e-5 * moved + 1e-5)
        self.assertGreater(moved, 1e-2)


if __name__ == "__main__":
    main()
