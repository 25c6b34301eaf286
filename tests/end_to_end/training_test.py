"""quern train: curves against PyTorch in f64, resume, checkpointing, refusals. The goldens are of tests/data/training."""

import json
import math
import os
import pathlib
import signal
import struct
import subprocess
import sys
import time
import unittest

from harness import DATA, PROGRAM, SANITIZER, SOURCE, Case, main, real_model
from safetensors_files import numbers_of

sys.path.insert(0, str(SOURCE / "tests/support"))
import random_model  # noqa: E402

TRAINING = DATA / "training"
TINY = json.loads((TRAINING / "tiny.json").read_text())
DEVICE = os.environ.get("QUERN_TEST_TRAINING_DEVICE", "cpu:0")  # such as "vulkan:0"
ON_DEVICE = {"QUERN_BACKEND": DEVICE.split(":")[0], "QUERN_DEVICE": DEVICE}


def settings(model, **changes):
    """The settings of the goldens for a tiny model; None takes a key away."""
    base = {
        "base_model": str(TRAINING / f"tiny-{model}.gguf"),
        "datasets": [{"path": str(TRAINING / "train.jsonl"), "type": "chat_template"}],
        "test_datasets": [{"path": str(TRAINING / "val.jsonl"), "type": "chat_template"}],
        "micro_batch_size": 4, "max_grad_norm": 1.0, "seed": 42, "float32": True, "logging_steps": 1, "weight_decay": 0.01,
    }
    base.update(changes)
    return {key: value for key, value in base.items() if value is not None}


def lora(model, **changes):
    run = TINY[model]["lora"]["settings"]
    return settings(model, **{"adapter": "lora", "lora_r": run["r"], "lora_alpha": run["alpha"], "learning_rate": run["lr"],
                              "lr_scheduler": run["schedule"], "warmup_steps": run["warmup"], "max_steps": run["steps"], **changes})


ALL = {"adapter": None, "lora_r": None, "lora_alpha": None}  # instead of an adapter


class Training(Case):
    limit = 100  # seconds of one run

    def train(self, config, *arguments, name="out", code=0, env=None):
        """Runs it; the closing JSON and the lines of log.jsonl."""
        out = self.folder / name
        path = self.folder / f"{name}.yaml"
        path.write_text(json.dumps({**config, "output_dir": str(out)}))  # JSON is YAML
        result = self.quern("train", path, "--json", "--quiet", *arguments, env={**ON_DEVICE, **(env or {})}, timeout=self.limit)
        self.assertEqual(result.code, code, result.err)
        log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()] if (out / "log.jsonl").exists() else []
        return (json.loads(result.out) if result.out else result.err), log

    def steps(self, log):
        return [line for line in log if "loss" in line]

    # The goldens of the tiny models are in f64, and PyTorch's own f32 lies 1.5e-7 (losses) and 3e-7 (norms) away from them. Other orders of
    # the sums are allowed some six times that for a loss, which is a mean, and thirty times for a norm, whose gradients pass every layer.
    def assert_curve(self, log, golden, loss=1e-6, norm=1e-5):
        steps = self.steps(log)
        self.assertEqual(len(steps), len(golden))
        for found, expected in zip(steps, golden):
            self.assertEqual((found["tokens"], found["labels"]), (expected["tokens"], expected["labels"]))
            for key, wanted, bound in (("loss", expected["loss"], loss), ("grad_norm", expected["grad_norm"], norm),
                                       ("learning_rate", expected["lr"], 1e-7)):
                self.assertLessEqual(abs(found[key] - wanted), bound * max(1e-12, abs(wanted)), f"step {expected['step']}: {key}")


class Curves(Training):
    def test_lora(self):
        for model in TINY:
            if model == "seed":
                continue
            for run, changes in (("lora", {}), ("lora_rslora", {"peft_use_rslora": True}), ("lora_dropout", {"lora_dropout": 0.1}),
                                 ("lora_q_v", {"lora_target_modules": ["q_proj", "v_proj"]})):
                with self.subTest(model=model, run=run):
                    golden = TINY[model][run]
                    closing, log = self.train(lora(model, **changes), name=f"{model}-{run}")
                    self.assert_curve(log, golden["steps"])
                    self.assertLessEqual(abs(closing["validation_loss"] - golden["val_loss_after"]), 1e-5 * golden["val_loss_after"])
                    folder = DATA / f"peft/tiny-{model}-{run}"
                    if not folder.exists():
                        continue
                    expected, found = numbers_of(folder / "adapter_model.safetensors"), numbers_of(self.folder / f"{model}-{run}/adapter_model.safetensors")
                    self.assertEqual(sorted(found), sorted(expected))
                    for tensor, numbers in expected.items():
                        # AdamW divides a gradient by its own size. So where one lies within rounding of 0, single weights move by another
                        # share of the rate (0.01), here one weight of all: one in a hundred is bounded by 2e-2 of it. Of the others the largest
                        # difference is bounded by 2e-3 of it, the root of the mean square by 1e-4.
                        differences = sorted(abs(a - b) for a, b in zip(numbers, found[tensor]))
                        others = differences[:-max(1, len(differences) // 100)]
                        self.assertLess(differences[-1], 2e-4, tensor)
                        self.assertLess(others[-1], 2e-5, tensor)
                        self.assertLess((sum(d * d for d in others) / len(others)) ** 0.5, 1e-6, tensor)

    def test_all_weights(self):
        for model in ("llama", "qwen3"):
            for run, changes in (("full", {}), ("full_sgd", {"optimizer": "sgd", "sgd_momentum": 0.9})):
                with self.subTest(model=model, run=run):
                    how = TINY[model][run]["settings"]
                    config = settings(model, learning_rate=how["lr"], lr_scheduler=how["schedule"], warmup_steps=how["warmup"],
                                      max_steps=how["steps"], weight_decay=how["weight_decay"], **changes)
                    _, log = self.train(config, name=f"{model}-{run}")
                    self.assert_curve(log, TINY[model][run]["steps"])
            answer = self.quern_json("run", self.folder / f"{model}-full/model.gguf", "hello", "--max-tokens", "3", "--raw",
                                     env=ON_DEVICE)
            self.assertTrue(answer["ids"])

    # A number of bf16 is off by 2^-9 at most, one of f16 by 2^-12. A loss of some 5 is made of logits of that size, and steps of AdamW differ
    # where its moments are small; PyTorch's own bf16 lies 4.8 % (one step) and 1.25 % (the mean) from its f32. Rounding in another order gets less than
    # twice that: 8 % and 2.5 %. f16 rounds an eighth as much, and gets an eighth of both. A run in f32 is 1e-6 from it.
    def test_bf16_and_fp16_follow_the_exact_curve(self):
        golden = TINY["qwen3"]["lora"]
        how = settings("llama", learning_rate=1e-3, lr_scheduler="constant", max_steps=8)
        exact = [step["loss"] for step in self.steps(self.train(how, name="exact")[1])]
        for kind, most, mean in (("bf16", 0.08, 0.025), ("fp16", 0.01, 0.003)):
            for name, config, losses, validation in (
                    ("lora", lora("qwen3"), [step["loss"] for step in golden["steps"]], golden["val_loss_after"]), ("full", how, exact, None)):
                with self.subTest(kind=kind, name=name):
                    closing, log = self.train({**config, "float32": False, kind: True}, name=f"{name}-{kind}")
                    apart = [abs(step["loss"] / wanted - 1) for step, wanted in zip(self.steps(log), losses, strict=True)]
                    self.assertLessEqual(max(apart), most)
                    self.assertLessEqual(sum(apart) / len(apart), mean)
                    self.assertGreater(max(apart), 1e-5, "computed in f32")
                    if validation is not None:
                        self.assertLessEqual(abs(closing["validation_loss"] / validation - 1), most / 4)

    def test_a_batch_that_overflows_f16_halves_the_scale_and_changes_no_weight(self):
        config = lora("llama", float32=False, fp16=True, max_steps=3, learning_rate=1e-3, warmup_steps=0, lr_scheduler="constant", save_steps=1)
        _, log = self.train(config, name="out")
        self.assertLess(max(step["grad_norm"] for step in self.steps(log)), 100)  # the scale is taken out again
        first, last = (self.folder / "out" / f"checkpoint-{step}" for step in (1, 3))
        state = json.loads((last / "trainer_state.json").read_text())
        self.assertEqual((state["loss_scale"], state["updates_at_scale"]), (2 ** 15, 3))
        state = json.loads((first / "trainer_state.json").read_text())
        (first / "trainer_state.json").write_text(json.dumps({**state, "loss_scale": 2 ** 40}))
        self.train(config, f"resume_from_checkpoint={first}", name="out")
        state = json.loads((last / "trainer_state.json").read_text())
        self.assertEqual((state["loss_scale"], state["updates_at_scale"], state["updates"], state["step"]), (2 ** 38, 0, 1, 3))
        self.assertEqual((first / "adapter_model.safetensors").read_bytes(), (last / "adapter_model.safetensors").read_bytes())

    def test_parts_of_a_batch_change_nothing_but_rounding(self):
        golden = TINY["llama"]["lora"]["steps"]
        for name, changes in (("accumulated", {"micro_batch_size": 1, "gradient_accumulation_steps": 4}),
                              ("halves", {"micro_batch_size": 2, "gradient_accumulation_steps": 2})):
            with self.subTest(name):
                _, log = self.train(lora("llama", **changes), name=name)
                self.assert_curve(log, golden)

    def test_checkpointing_gives_the_same_bits(self):
        found = []
        for kind in (False, "selective", True):
            _, log = self.train(lora("qwen3", gradient_checkpointing=kind, lora_dropout=0.1), name=str(kind))
            found.append(([(s["loss"], s["grad_norm"]) for s in self.steps(log)],
                          (self.folder / str(kind) / "adapter_model.safetensors").read_bytes()))
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0], found[2])

    def test_threads_change_no_bit(self):
        curves = []
        for threads in ("1", "3"):
            _, log = self.train(lora("llama", max_steps=3), "--threads", threads, name=threads)
            curves.append([s["loss"] for s in self.steps(log)])
        self.assertEqual(*curves)


class Resume(Training):
    def test_ten_and_the_rest_are_the_whole(self):
        config = lora("llama", save_steps=5, lora_dropout=0.1)
        _, whole = self.train(config, name="whole")
        path = self.folder / "parts.yaml"
        out = self.folder / "parts"
        path.write_text(json.dumps({**config, "output_dir": str(out)}))
        # The first part ends by SIGTERM, behind whatever step it is in.
        process = subprocess.Popen([PROGRAM, "train", path, "--quiet"], env=self.environment(ON_DEVICE),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 60
        while not (out / "checkpoint-5").exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        self.assertIn(process.returncode, (143, 0), err)
        _, log = self.train(config, "--resume", name="parts")
        numbers = lambda lines: [(s["step"], s["loss"], s["grad_norm"], s["learning_rate"]) for s in self.steps(lines)]
        self.assertEqual(numbers(log), numbers(whole))
        for name in ("adapter_model.safetensors", "checkpoint-12/optimizer.safetensors", "checkpoint-12/adapter_model.safetensors"):
            self.assertEqual((out / name).read_bytes(), (self.folder / "whole" / name).read_bytes(), name)

    def test_what_changed_is_refused_by_name(self):
        config = lora("llama", save_steps=2, max_steps=2, warmup_steps=0)
        self.train(config)
        self.assertIn("other settings", self.train({**config, "learning_rate": 1e-3}, "--resume", code=2)[0])
        data = self.folder / "other.jsonl"
        data.write_text("\n".join((TRAINING / "train.jsonl").read_text().splitlines()[1:]))
        self.assertIn("other data", self.train({**config, "datasets": [{"path": str(data)}]}, "--resume", code=2)[0])

    def test_a_checkpoint_that_is_not_whole_is_passed_over(self):
        config = lora("llama", save_steps=4)
        _, whole = self.train(config)
        (self.folder / "out/checkpoint-12/trainer_state.json").unlink()
        with open(self.folder / "out/checkpoint-8/optimizer.safetensors", "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"\x7f")
        _, log = self.train(config, "--resume")
        self.assertEqual([s["loss"] for s in self.steps(log)], [s["loss"] for s in self.steps(whole)])
        for step in (4, 8, 12):
            (self.folder / f"out/checkpoint-{step}/trainer_state.json").unlink()
        self.assertIn("no whole checkpoint", self.train(config, "--resume", code=4)[0])


class Words(Training):
    def test_a_key_with_a_fault_is_refused_with_its_line(self):
        path = self.folder / "cfg.yaml"
        path.write_text("base_model: m.gguf\nlearning_rate: 2e-4\nlora_alfa: 16\n")
        result = self.quern("train", path)
        self.assertEqual(result.code, 2)
        self.assertIn("cfg.yaml:3", result.err)
        self.assertIn("lora_alpha", result.err)

    def test_the_file_of_init_trains(self):
        text = self.quern("train", "--init", "lora", TRAINING / "tiny-llama.gguf").out.decode()
        path = self.folder / "cfg.yaml"
        path.write_text(text)
        result = self.quern("train", path, f"datasets[0].path={TRAINING / 'train.jsonl'}", "learning_rate=1e-3", "max_steps=1",
                            f"output_dir={self.folder / 'out'}", env=ON_DEVICE)
        self.assertEqual(result.code, 0, result.err)
        self.assertTrue((self.folder / "out/adapter_config.json").exists())

    def test_show_data_marks_what_counts(self):
        path = self.folder / "cfg.yaml"
        path.write_text(json.dumps(lora("llama")))
        shown = self.quern("train", path, "--show-data", "1", env=ON_DEVICE)
        self.assertEqual(shown.code, 0, shown.err)
        first = json.loads((TRAINING / "train.jsonl").read_text().splitlines()[0])
        self.assertIn("[[" + first["messages"][-1]["content"], shown.out.decode())
        dry = self.quern_json("train", path, "--dry-run", env=ON_DEVICE)
        self.assertEqual((dry["train"]["examples"], dry["steps"]), (104, 12))

    def test_data_without_a_label_is_4(self):
        data = self.folder / "none.jsonl"
        data.write_text('{"messages": [{"role": "user", "content": "hello"}]}\n')
        self.assertIn("none.jsonl", self.train(lora("llama", datasets=[{"path": str(data)}]), code=4)[0])

    def test_the_watchdog_ends_with_8(self):
        error, log = self.train(lora("llama", loss_watchdog_threshold=0.1, loss_watchdog_patience=2), code=8)
        self.assertEqual(len(self.steps(log)), 2)


class Adapters(Training):
    """merge and export, by adapters and logits of peft."""

    def logits(self, model, text, *flags):
        path = self.folder / "prompt.txt"
        path.write_text(text)
        out = self.folder / "logits.f32"
        result = self.quern("eval", model, path, "--logits", out, "--activations", "f32", "--kv", "f32", *flags, env=ON_DEVICE)
        self.assertEqual(result.code, 0, result.err)
        return struct.unpack(f"<{out.stat().st_size // 4}f", out.read_bytes())

    def prompt(self, model):
        text = "<|im_start|>user\nName a fruit.<|im_end|>\n<|im_start|>assistant\n"
        ids = self.quern_json("tokenize", TRAINING / f"tiny-{model}.gguf", text, "--no-bos", "--no-eos")["ids"]
        self.assertEqual(ids, TINY[model]["prompt_ids"])
        return text

    def test_a_merged_model_has_the_logits_of_peft(self):
        for model in ("llama", "qwen3"):
            with self.subTest(model):
                text = self.prompt(model)
                golden_file = TRAINING / f"tiny-{model}-lora-logits.f32"
                golden = struct.unpack(f"<{golden_file.stat().st_size // 4}f", golden_file.read_bytes())
                base, adapter = TRAINING / f"tiny-{model}.gguf", DATA / f"peft/tiny-{model}-lora"
                for kind, bound in (("f32", 1e-4), ("f16", 2e-2), ("q8_0", 0.2)):
                    out = self.folder / f"{model}-{kind}.gguf"
                    result = self.quern("merge", base, adapter, "-o", out, "--type", kind, env=ON_DEVICE)
                    self.assertEqual(result.code, 0, result.err)
                    difference = max(abs(a - b) for a, b in zip(self.logits(out, text), golden))
                    self.assertLess(difference, bound, kind)
                nothing = self.folder / "nothing.gguf"  # the adapter taken away again
                self.assertEqual(self.quern("merge", self.folder / f"{model}-f32.gguf", f"{adapter}:-1", "-o", nothing, "--type", "f32",
                                            env=ON_DEVICE).code, 0)
                self.assertLess(max(abs(a - b) for a, b in zip(self.logits(nothing, text), self.logits(base, text))), 1e-4)

    def test_a_model_with_an_adapter_has_the_logits_of_peft(self):
        for model in ("llama", "qwen3"):
            text = self.prompt(model)
            golden_file = TRAINING / f"tiny-{model}-lora-logits.f32"
            golden = struct.unpack(f"<{golden_file.stat().st_size // 4}f", golden_file.read_bytes())
            base, adapter = TRAINING / f"tiny-{model}.gguf", DATA / f"peft/tiny-{model}-lora"
            for form in (adapter, adapter / "adapter_model.safetensors", f"{adapter}.gguf"):
                with self.subTest(form):  # some 1e-6 on the CPU: logits of up to 10 in f32, as for a merged model
                    self.assertLess(max(abs(a - b) for a, b in zip(self.logits(base, text, "--adapter", form), golden)), 1e-4)

    def test_a_model_with_an_adapter_answers_as_the_merged_one(self):
        exact = ("--activations", "f32", "--kv", "f32", "--temperature", "0", "-n", "16", "--raw")
        for model in ("llama", "qwen3"):
            base, adapter, merged = TRAINING / f"tiny-{model}.gguf", DATA / f"peft/tiny-{model}-lora", self.folder / f"{model}.gguf"
            self.assertEqual(self.quern("merge", base, f"{adapter}:0.5", "-o", merged, "--type", "f32", env=ON_DEVICE).code, 0)
            answers = [self.quern_json("run", path, "Name a", *exact, *flags, env=ON_DEVICE)["ids"]
                       for path, *flags in ((merged,), (base, "--adapter", f"{adapter}:0.5"), (base,))]
            self.assertEqual(answers[1], answers[0])
            self.assertNotEqual(answers[1], answers[2])

    def test_an_adapter_that_does_not_fit_is_4_and_a_scale_of_0_is_2(self):
        base = TRAINING / "tiny-qwen3.gguf"
        text = self.folder / "text.txt"
        text.write_text("hello")
        for verb, *more in (("run", "hello"), ("eval", text), ("bench", "-p", "16", "-n", "8")):
            for adapter, code, words in ((DATA / "peft/tiny-llama-lora", 4, "does not fit the base"), (DATA / "peft/tiny-qwen3-lora:0", 2, "scale"),
                                         (DATA / "peft/none", 4, "no such file")):
                result = self.quern(verb, base, *more, "--adapter", adapter, env=ON_DEVICE)
                self.assertEqual(result.code, code, result.err)
                self.assertIn(words, result.err)

    def test_an_adapter_goes_to_gguf_and_back(self):
        for model in ("llama", "qwen3"):
            base, adapter = TRAINING / f"tiny-{model}.gguf", DATA / f"peft/tiny-{model}-lora"
            gguf, back = self.folder / f"{model}.gguf", self.folder / f"{model}-back"
            for source, out, kind in ((adapter, gguf, "gguf"), (gguf, back, "peft")):
                result = self.quern("export", base, source, "-o", out, "--format", kind)
                self.assertEqual(result.code, 0, result.err)
            self.assertEqual(numbers_of(back / "adapter_model.safetensors"), numbers_of(adapter / "adapter_model.safetensors"))

    def test_an_adapter_of_another_model_is_4(self):
        out = self.folder / "out.gguf"
        for verb in (("merge",), ("export", "--format", "gguf")):
            result = self.quern(*verb, TRAINING / "tiny-qwen3.gguf", DATA / "peft/tiny-llama-lora", "-o", out, env=ON_DEVICE)
            self.assertEqual(result.code, 4, result.err)
            self.assertFalse(out.exists())


class Trace(Training):
    """quern train --trace."""

    def traced(self, **changes):
        file = self.folder / "steps.json"
        config = lora("llama", **{"max_steps": 3, "warmup_steps": 0, **changes})
        self.train(config, "--trace", file)
        return json.loads(file.read_text()), file

    def test_a_run_moves_ids_labels_and_three_numbers(self):
        trace, file = self.traced(lora_dropout=0.1)
        spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        args = {name: [span["args"] for span in spans if span["name"] == name] for name in ("micro-batch", "update", "evaluation")}
        self.assertEqual(len(args["update"]), 3)
        for batch in args["micro-batch"]:
            # Of 4 bytes: ids and positions, where examples begin and the last ends, row, id and weight of each label, seed and micro-batch.
            self.assertEqual(batch["bytes_to_devices"], 4 * (2 * batch["rows"] + batch["examples"] + 1 + 3 * batch["labels"] + 3))
            self.assertEqual((batch["bytes_from_devices"], batch["bytes_between_devices"]), (0, 0))
        for update in args["update"]:  # step, rate and a loss of 0; the norm, whether all was finite, and the loss
            self.assertEqual((update["bytes_to_devices"], update["bytes_from_devices"], update["bytes_between_devices"]), (12, 12, 0))
        for evaluation in args["evaluation"]:
            self.assertEqual(evaluation["bytes_from_devices"], 4)
        words = self.quern("trace", file).out.decode()
        for word in ("micro-batches", "updates", "evaluations", "All graphs of the run: "):
            self.assertIn(word, words)
        self.assertEqual(self.quern_json("trace", file)["updates"]["times"], 3)

    def test_each_node_of_a_run_has_a_device_and_a_kernel(self):
        trace, _ = self.traced()
        nodes, kernels = ({name: [one for one in trace[kind] if one["graph"] == name] for name in {one["graph"] for one in trace["nodes"]}}
                          for kind in ("nodes", "kernels"))
        self.assertEqual(len(nodes), 3)  # step, update, evaluation
        for graph, of_graph in nodes.items():
            self.assertEqual(sum(kernel["nodes"] for kernel in kernels[graph]), len(of_graph), graph)
        self.assertEqual(len({one["device"] for kind in ("nodes", "kernels") for one in trace[kind]}), 1)


class DataLoss(Training):
    """quern eval --data."""

    def loss(self, *flags, model="llama", data=TRAINING / "val.jsonl"):
        return self.quern_json("eval", TRAINING / f"tiny-{model}.gguf", "--data", data, *flags, env=ON_DEVICE)

    def test_the_loss_of_a_data_set_is_the_validation_loss_of_the_run(self):
        # One sum over the same labels. Batches differ, so that f32 sums over up to some 100 labels of a batch do in their order alone.
        for model in ("llama", "qwen3"):
            for name, changes in (("lora", {}), ("rslora", {"peft_use_rslora": True, "lora_target_modules": ["q_proj", "v_proj"]})):
                with self.subTest(model=model, name=name):
                    closing, log = self.train(lora(model, max_steps=3, warmup_steps=0, **changes), name=f"{model}-{name}")
                    found = self.loss("--adapter", self.folder / f"{model}-{name}", model=model)
                    self.assertLess(abs(found["loss"] - closing["validation_loss"]), 1e-6 * found["loss"])
                    self.assertLess(abs(found["perplexity"] - math.exp(found["loss"])), 1e-9 * found["perplexity"])
                    validation = [line for line in log if "validation_loss" in line][-1]
                    self.assertEqual(found["data"]["labels"], validation["labels"])

    def test_the_base_alone_has_the_loss_of_an_adapter_that_changes_nothing(self):
        closing, _ = self.train(lora("llama", max_steps=1, learning_rate=1e-30, weight_decay=0))
        base = self.loss()["loss"]
        self.assertLess(abs(base - closing["validation_loss"]), 1e-6 * base)
        self.assertEqual(self.loss("micro_batch_size=4")["data"], self.loss()["data"])

    def test_a_scale_counts_and_a_gguf_adapter_is_the_same(self):
        adapter = DATA / "peft/tiny-llama-lora"
        whole = self.loss("--adapter", adapter)["loss"]
        self.assertEqual(self.loss("--adapter", f"{adapter}.gguf")["loss"], whole)
        self.assertNotEqual(self.loss("--adapter", f"{adapter}:0.5")["loss"], whole)
        self.assertLess(abs(self.loss("--adapter", f"{adapter}:1e-30")["loss"] - self.loss()["loss"]), 1e-6 * whole)

    def test_settings_say_how_the_data_are_read(self):
        alpaca = self.write("a.json", json.dumps([{"instruction": "Name a fruit.", "output": "Short answer: apple."}] * 3))
        counted = self.loss(data=alpaca)["data"]
        self.assertEqual(counted["examples"], 3)
        self.assertLess(counted["labels"], self.loss("train_on_inputs=true", data=alpaca)["data"]["labels"])
        base = TRAINING / "tiny-llama.gguf"
        page = self.quern("eval", "-m", base, "datasets[0].type=alpaca", "micro_batch_size=2", "--data", alpaca, env=ON_DEVICE).out.decode()
        for words in ("3 examples", "loss", "perplexity"):
            self.assertIn(words, page)
        self.assert_fails(2, "sequence_len", "eval", base, "--data", alpaca, "sequence_lem=8")
        self.assert_fails(2, "--logits", "eval", base, "--data", alpaca, "--logits", self.folder / "l")
        self.assert_fails(2, "--data", "eval", base, alpaca, "sequence_len=8")
        self.assert_fails(4, "no such file", "eval", base, "--data", self.folder / "none.jsonl")
        self.assert_fails(4, "does not fit the base", "eval", base, "--data", alpaca, "--adapter", DATA / "peft/tiny-qwen3-lora")


class ServedAdapter(Training):
    def test_the_divergence_of_a_merged_model_is_what_its_format_rounds(self):
        base, adapter = TRAINING / "tiny-llama.gguf", DATA / "peft/tiny-llama-lora"
        text = self.write("text.txt", (TRAINING / "val.jsonl").read_bytes()[:600])
        found = {}
        for name in ("f32", "f16", "q8_0", "keep"):
            merged = self.folder / f"{name}.gguf"
            self.assertEqual(self.quern("merge", base, adapter, "-o", merged, "--type", name, "-q").code, 0)
            report = self.quern_json("eval", merged, text, "--reference", base, "--reference-adapter", adapter, "--activations", "f32", "--kv", "f32",
                                     env=ON_DEVICE)["reference"]
            found[name] = report["kl_mean"]
            self.assertLessEqual(report["kl_mean"], report["kl_max"])
            self.assertGreater(report["same_best"], 0.9)
        print("KL of a merge from base and adapter, in nats:", {name: f"{kl:.1e}" for name, kl in found.items()}, file=sys.stderr)
        # A divergence is half the variance of what the logits moved, which are of the order of 5. Of a weight f16 rounds away 2^-11 at most, and
        # q8_0 2^-8 of the largest in its block, of which a weight is a third. In f32, as the base is kept, sums have another order: 30 times 2^-24.
        for name, share in (("f32", 2e-6), ("f16", 2 ** -11), ("q8_0", 3 * 2 ** -8), ("keep", 2e-6)):
            self.assertLess(found[name], (5 * share) ** 2 / 2, name)
        self.assertGreater(found["q8_0"], found["f16"])
        without = self.quern_json("eval", self.folder / "f32.gguf", text, "--reference", base, env=ON_DEVICE)["reference"]["kl_mean"]
        self.assertGreater(without, 100 * found["q8_0"])
        self.assert_fails(2, "--reference-adapter", "eval", base, text, "--reference-adapter", adapter)
        self.assert_fails(4, "other tokens", "eval", base, text, "--reference", DATA / "gguf/micro-llama-f32.gguf")

    def test_the_estimate_of_an_adapter_is_what_serving_it_takes(self):
        for model in ("llama", "qwen3"):
            base, adapter = TRAINING / f"tiny-{model}.gguf", DATA / f"peft/tiny-{model}-lora"
            for form in (adapter, f"{adapter}.gguf"):
                with self.subTest(form):
                    estimates, peaks = [], []
                    for flags in ((), ("--adapter", form)):
                        estimates.append(self.quern_json("estimate", base, "--context", "128", *flags, env=ON_DEVICE))
                        served = self.quern_json("run", base, "Name a", "--raw", "-n", "4", "--context", "128", *flags, env=ON_DEVICE)
                        peaks.append(sum(device["peak_bytes"] for device in served["statistics"]["devices"]))
                    plain, adapted = estimates
                    self.assertEqual(plain["adapter_bytes"], 0)
                    self.assertGreaterEqual(adapted["adapter_bytes"], 4 * self.quern_json("show", adapter)["parameters"])
                    on_device = [sum(one[part] for part in ("weights_bytes", "kv_bytes", "scratch_bytes", "adapter_bytes")) for one in estimates]
                    self.assertEqual(on_device[1] - on_device[0], peaks[1] - peaks[0])
                    self.assertEqual(adapted["total_bytes"], on_device[1] + adapted["overhead_bytes"])
        self.assert_fails(4, "does not fit the base", "estimate", TRAINING / "tiny-qwen3.gguf", "--adapter", DATA / "peft/tiny-llama-lora")
        self.assert_fails(2, "--adapter", "estimate", "--train", "cfg.yaml", "--adapter", DATA / "peft/tiny-llama-lora")


class Memory(Training):
    """What the plans need against what a run takes."""

    def estimate(self, config, *arguments):
        path = self.folder / "estimate.yaml"
        path.write_text(json.dumps({**config, "output_dir": str(self.folder / "none")}))
        return self.quern_json("estimate", "--train", path, *arguments, env=ON_DEVICE)

    def test_the_peak_of_a_run_is_the_estimate(self):
        for model, kind in (("llama", "lora"), ("qwen3", "full")):
            for checkpointing in (False, "selective", True):
                with self.subTest(model=model, kind=kind, checkpointing=checkpointing):
                    config = lora(model, gradient_checkpointing=checkpointing, max_steps=3, warmup_steps=0, **(ALL if kind == "full" else {}))
                    wanted = self.estimate(config)
                    parts = wanted["estimate"]
                    self.assertEqual(parts["devices_bytes"], sum(parts[name + "_bytes"] for name in ("weights", "trained", "activations", "evaluation")))
                    closing, log = self.train(config, name=f"{model}-{kind}-{checkpointing}")
                    self.assertEqual(closing["estimate"], parts)
                    # The rest is what loading takes for a moment: tables of angles, parts of a tensor that is decoded.
                    self.assertGreaterEqual(closing["peak_bytes"], parts["devices_bytes"])
                    self.assertLessEqual(closing["peak_bytes"], 1.05 * parts["devices_bytes"])
                    self.assertEqual({step["memory_bytes"] for step in self.steps(log)}, {parts["devices_bytes"]})

    def most_of_the_process(self, name, **changes):
        """The largest resident set of a run of two steps, in bytes."""
        path = self.folder / f"{name}.yaml"
        path.write_text(json.dumps({**lora("llama", base_model=str(self.folder / "wide.gguf"), max_steps=2, warmup_steps=0, micro_batch_size=1,
                                           test_datasets=None, **ALL, **changes), "output_dir": str(self.folder / name)}))
        process = subprocess.Popen([PROGRAM, "train", path, "--quiet"], env=self.environment(ON_DEVICE), stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0)
        return 1024 * usage.ru_maxrss

    @unittest.skipIf(SANITIZER, "a sanitizer keeps what was freed")
    def test_a_save_has_a_part_of_its_numbers_in_memory(self):
        elements = random_model.write(self.folder / "wide.gguf", DATA / "gguf/micro-llama-q8_0.gguf", dim=512, ffn=2048, layers=2, heads=8, kv_heads=4)
        without = self.most_of_the_process("without", save_strategy="no")
        # Both moments would be 8 bytes an element. What is there at a time is a tensor of a million, or as large a part of a moment.
        self.assertLess(self.most_of_the_process("with", save_steps=1) - without, 2 * elements)

    def test_checkpointing_needs_less(self):
        sizes = [self.estimate(lora("llama", gradient_checkpointing=kind))["estimate"]["activations_bytes"] for kind in (False, "selective", True)]
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        self.assertEqual(len(set(sizes)), 3)

    def test_an_evaluation_shares_what_is_trained(self):
        # All weights are trained here: they and their gradients and moments are four states, and the evaluation has no fifth.
        parts = self.estimate(lora("llama", micro_batch_size=1, **ALL))["estimate"]
        limit = parts["devices_bytes"] + parts["trained_bytes"] // 8
        if DEVICE.startswith("cpu"):
            self.assertTrue(self.estimate(lora("llama", micro_batch_size=1, **ALL), "--memory", f"cpu={limit}B")["fits"])

    def test_a_run_that_does_not_fit_names_settings_that_do(self):
        if not DEVICE.startswith("cpu"):
            self.skipTest("the limit is of the device cpu")
        config = lora("llama", max_steps=2, warmup_steps=0)
        for limit, words in (("6500K", ("gradient_checkpointing",)), ("4M", ("micro_batch_size: 2", "gradient_accumulation_steps: 2")),
                             ("2M", ("sequence_len",))):
            error, _ = self.train(config, "--memory", f"cpu={limit}", name=limit, code=5)
            for word in words:
                self.assertIn(word, error)
            self.assertIn(error[error.index("training needs"):].strip(), self.estimate(config, "--memory", f"cpu={limit}")["lack"] + "\n")
            changes = [part.replace(": ", "=") for part in error.split("these settings fit: ")[1].strip().split(", ")]
            self.assertTrue(self.estimate(config, *changes, "--memory", f"cpu={limit}")["fits"])
        self.assertIn("no smaller batch fits", self.train(config, "--memory", "cpu=300K", name="none", code=5)[0])


class Gradients(Training):
    def test_the_gradients_of_a_model_are_right(self):
        for model, kind, changes in (("qwen3", "full", ALL), ("qwen3", "lora", {}), ("llama", "lora", {"lora_dropout": 0.1})):
            with self.subTest(model=model, kind=kind):
                path = self.folder / f"{model}-{kind}.yaml"
                path.write_text(json.dumps({**lora(model, micro_batch_size=1, **changes), "output_dir": str(self.folder / "none")}))
                found = self.quern_json("train", path, "--check-gradients", "--quiet", env=ON_DEVICE)
                self.assertTrue(found["passed"])
                self.assertTrue(found["weights_unchanged"])
                self.assertEqual(len(found["directions"]), 20)
                for one in found["directions"]:
                    self.assertLess(abs(one["difference"] / one["slope"] - 1), 0.01)
                for tensor in found["tensors"]:
                    self.assertGreater(tensor["norm"], 0, tensor["name"])
                    self.assertEqual(tensor["first_norm"] == 0, tensor["name"].endswith(".lora_a"), tensor["name"])
        page = self.quern("train", path, "--check-gradients", "--quiet", env=ON_DEVICE)
        self.assertIn("by differences", page.out.decode())
        self.assertFalse((self.folder / "none").exists())


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def fields(data):
    """Number, value of each field of a protobuf message; bytes, integers, and floats as they lie."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            value |= (data[at] & 0x7f) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 0x80:
                return value
    found = []
    while at < len(data):
        key = varint()
        if key & 7 == 0:
            found.append((key >> 3, varint()))
            continue
        size = {1: 8, 5: 4}.get(key & 7) or varint()
        found.append((key >> 3, data[at:at + size]))
        at += size
    return found


def events(path):
    """The events of a file whose sums are right: the step, and tags with their values."""
    data, at, found = pathlib.Path(path).read_bytes(), 0, []
    while at < len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        for begin, end in ((at, at + 8), (at + 12, at + 12 + size)):
            crc = crc32c(data[begin:end])
            if struct.unpack_from("<I", data, end)[0] != ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff:
                raise AssertionError(f"a wrong sum at {begin}")
        event = dict(fields(data[at + 12:at + 12 + size]))
        scalars = [dict(fields(value)) for number, value in fields(event.get(5, b"")) if number == 1]
        found.append((event, {one[1].decode(): struct.unpack("<f", one[2])[0] for one in scalars}))
        at += 16 + size
    return found


class Events(Training):
    def test_tensorboard_gets_the_numbers_of_the_log(self):
        config = lora("llama", max_steps=4, warmup_steps=0, eval_steps=2, save_steps=2, report_to=["tensorboard"])
        _, log = self.train(config)
        (path,) = (self.folder / "out").glob("events.out.tfevents.*")
        first, *rest = events(path)
        self.assertEqual(first[0][3], b"brain.Event:2")
        steps = [(event[2], scalars) for event, scalars in rest if "train/loss" in scalars]
        tags = {"train/loss": "loss", "train/learning_rate": "learning_rate", "train/grad_norm": "grad_norm", "train/tokens_per_second": "tokens_per_second"}
        single = lambda x: struct.unpack("<f", struct.pack("<f", x))[0]
        self.assertEqual(steps, [(line["step"], {tag: single(line[name]) for tag, name in tags.items()}) for line in self.steps(log)])
        evaluated = [(event[2], scalars["eval/loss"]) for event, scalars in rest if "eval/loss" in scalars]
        self.assertEqual(evaluated, [(line["step"], single(line["validation_loss"])) for line in log if "validation_loss" in line])
        # A run that goes on begins a second file, whose start takes away what the first has behind the checkpoint.
        (self.folder / "out/checkpoint-4/trainer_state.json").unlink()
        self.train(config, "--resume")
        (second,) = [one for one in (self.folder / "out").glob("events.out.tfevents.*") if one != path]
        self.assertGreater(second.name, path.name)
        begun = events(second)
        self.assertEqual((begun[1][0][2], fields(begun[1][0][7])), (3, [(1, 1)]))
        self.assertEqual([event[2] for event, scalars in begun if "train/loss" in scalars], [3, 4])

    def test_there_is_none_unless_asked_for(self):
        self.train(lora("llama", max_steps=1, warmup_steps=0))
        self.assertFalse(list((self.folder / "out").glob("events.*")))


class RealModel(Training):
    """The goldens of SmolLM2, whose file is fetched: five steps of sixty."""

    def test_first_steps(self):
        model = real_model()
        golden = json.loads((TRAINING / "lora.json").read_text())
        config = settings("llama", base_model=model, adapter="qlora", lora_r=8, lora_alpha=16, learning_rate=1e-3, lr_scheduler="cosine",
                          warmup_steps=6, max_steps=60, test_datasets=None)
        path = self.folder / "cfg.yaml"
        out = self.folder / "out"
        path.write_text(json.dumps({**config, "output_dir": str(out)}))
        process = subprocess.Popen([PROGRAM, "train", path, "--quiet"], env=self.environment(ON_DEVICE),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        log = out / "log.jsonl"
        while process.poll() is None and (not log.exists() or log.read_text().count("\n") < 4):
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 130, err)
        steps = [json.loads(line) for line in log.read_text().splitlines()][:5]
        # PyTorch's f32 here: twenty times what two of its runs with other attention code differ by (2.3e-6 and 3.9e-6).
        self.assert_curve(steps, golden["steps"][:len(steps)], loss=5e-5, norm=2e-4)
        self.assertGreaterEqual(len(steps), 4)


if __name__ == "__main__":
    main()
