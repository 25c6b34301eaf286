"""Hugging Face directories in place of GGUF files, in every verb that takes a model."""

import json
import os
import pathlib
import shutil
import subprocess

from harness import DATA, Case, main

WRITE_DIRECTORY = os.environ["QUERN_TEST_WRITE_DIRECTORY"]
MODELS = ("architecture/llama-11", "architecture/llama-20", "architecture/qwen2-05", "architecture/qwen3-05", "gguf/micro-llama-f32")


class DirectoryCase(Case):
    def directory(self, gguf, files=1, name="model"):
        folder = self.folder / name
        subprocess.run([WRITE_DIRECTORY, gguf, folder, str(files)], check=True)
        return folder

    def edit(self, path, **members):
        path.write_text(json.dumps({**json.loads(path.read_text()), **members}))


class Models(DirectoryCase):
    def logits(self, model, *flags):
        out = self.folder / "logits"
        self.quern_json("eval", model, self.write("text", "ABC-abc/0123 the same text"), "--logits", out, *flags)
        return out.read_bytes()

    def test_logits_and_answers_are_those_of_the_gguf_file_bit_for_bit(self):
        for number, model in enumerate(MODELS):
            with self.subTest(model):
                gguf = DATA / f"{model}.gguf"
                folder = self.directory(gguf, 1 + 2 * (number % 2), name=str(number))
                for flags in (("--activations", "f32"), ()):
                    self.assertEqual(self.logits(folder, *flags), self.logits(gguf, *flags))
                ask = ("abc", "--raw", "--temperature", "0", "--max-tokens", "12")
                found, wanted = self.quern_json("run", folder, *ask), self.quern_json("run", gguf, *ask)
                self.assertEqual((found["prompt_ids"], found["ids"], found["text"]), (wanted["prompt_ids"], wanted["ids"], wanted["text"]))

    def test_a_chat_has_the_template_of_the_directory(self):
        folder = self.directory(DATA / "gguf/micro-llama-f32.gguf")
        messages = self.write_messages(("user", "hello"))
        wanted = self.quern_json("tokenize", DATA / "gguf/micro-llama-f32.gguf", "--messages", messages)
        self.assertEqual(self.quern_json("tokenize", folder, "--messages", messages), wanted)
        (folder / "chat_template.jinja").write_text("{% for m in messages %}<{{ m.content }}>{% endfor %}")
        self.assertEqual(self.quern_json("tokenize", folder, "--messages", messages)["text"], "<hello>")

    def test_show_and_estimate_have_the_numbers_of_the_gguf_file(self):
        gguf, folder = DATA / "architecture/qwen3-05.gguf", self.directory(DATA / "architecture/qwen3-05.gguf", 3)
        found, wanted = self.quern_json("show", folder), self.quern_json("show", gguf)
        self.assertEqual((found["kind"], found["format"], found["version"], found["refusal"]), ("model", "safetensors", None, None))
        for member in ("architecture", "parameters", "context_length", "vocabulary_size", "shape", "weights"):
            self.assertEqual(found[member], wanted[member], member)
        self.assertGreater(found["file_bytes"], sum(path.stat().st_size for path in folder.glob("*.safetensors")))
        self.assertEqual(self.quern_json("estimate", folder)["parameters"], self.quern_json("estimate", gguf)["parameters"])

    def test_merged_weights_of_a_directory_are_those_of_its_gguf_file(self):
        base = DATA / "training/tiny-llama.gguf"
        folder = self.directory(base)
        outs = [self.folder / "of-gguf.gguf", self.folder / "of-folder.gguf"]
        for model, out in zip((base, folder), outs):
            result = self.quern("merge", model, DATA / "peft/tiny-llama-lora", "-o", out)
            self.assertEqual(result.code, 0, result.err)
        self.assertEqual(self.logits(outs[1]), self.logits(outs[0]))


    def test_training_follows_the_losses_of_the_gguf_file(self):
        base = DATA / "training/tiny-llama.gguf"
        losses = []
        for number, model in enumerate((base, self.directory(base))):
            out = self.folder / f"out{number}"
            settings = {"base_model": str(model), "output_dir": str(out), "adapter": "lora", "lora_r": 4, "lora_alpha": 8, "max_steps": 3,
                        "learning_rate": 0.01, "micro_batch_size": 4, "seed": 42, "float32": True, "logging_steps": 1,
                        "datasets": [{"path": str(DATA / "training/train.jsonl"), "type": "chat_template"}]}
            result = self.quern("train", self.write("settings.yaml", json.dumps(settings)), "--quiet")
            self.assertEqual(result.code, 0, result.err)
            log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
            losses.append([line["loss"] for line in log if "loss" in line])
        self.assertEqual(len(losses[0]), 3)
        self.assertEqual(losses[0], losses[1])


class Refusals(DirectoryCase):
    def setUp(self):
        super().setUp()
        self.model = self.directory(DATA / "architecture/llama-11.gguf", 3)
        self.assertEqual(self.quern("run", self.model, "a", "--raw", "--max-tokens", "1").code, 0)

    def refused(self, *words):
        self.assert_fails(4, words, "run", self.model, "a", "--raw")

    def test_a_number_out_of_range_is_named(self):
        self.edit(self.model / "config.json", num_hidden_layers=1000000000)
        self.refused("config.json", "'num_hidden_layers' is 1000000000")

    def test_a_shard_that_is_missing_is_named(self):
        (self.model / "model-00002-of-00003.safetensors").unlink()
        self.refused("model-00002-of-00003.safetensors", "model.safetensors.index.json names it")

    def test_quantised_weights_are_named(self):
        self.edit(self.model / "config.json", quantization_config={"quant_method": "hqq"})
        self.refused("config.json", "quantised by 'hqq'")

    def test_an_unknown_type_is_named(self):
        self.edit(self.model / "config.json", model_type="mamba", architectures=["MambaForCausalLM"])
        self.refused("config.json", "'model_type' is 'mamba'")

    def test_a_template_that_does_not_end_is_refused(self):
        template = self.model / "chat_template.jinja"
        template.write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
        self.assertEqual(self.quern("run", self.model, "a", "--max-tokens", "1").code, 0)
        for source, words in (("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "steps"),
                              ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nests deeper"),
                              ("{% for m in messages recursive %}{{ loop(messages) }}{% endfor %}", "nests deeper")):
            with self.subTest(source):
                template.write_text(source)
                self.assert_fails(4, ("chat template, line 1", words), "run", self.model, "a")

    def test_an_expression_that_backtracks_is_refused(self):
        file = self.model / "tokenizer.json"
        plain = json.loads(file.read_text())
        for expression in ("(a|a)*b", "(a*)*b", "a*a*a*b"):
            with self.subTest(expression):
                split = {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}
                byte_level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
                file.write_text(json.dumps({**plain, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]}}))
                self.assertEqual(self.quern("tokenize", self.model, "bbb").code, 0)
                self.assert_fails(4, ("takes more steps than a text of",), "tokenize", self.model, "a" * 20000)

    def test_a_folder_of_something_else_is_named(self):
        shutil.rmtree(self.model)
        self.model.mkdir()
        self.refused("is a folder, not a file, and has no config.json")


class Snapshots(DirectoryCase):
    COMMIT = "0123456789" * 4

    def test_a_repository_of_the_cache_is_run_by_its_name(self):
        whole = self.directory(DATA / "architecture/llama-11.gguf", 3)
        repository = self.folder / "hub/models--owner--name"
        for part in ("blobs", "refs", f"snapshots/{self.COMMIT}"):
            (repository / part).mkdir(parents=True)
        for number, path in enumerate(sorted(whole.iterdir())):
            shutil.move(path, repository / f"blobs/{number}")
            (repository / f"snapshots/{self.COMMIT}/{path.name}").symlink_to(pathlib.Path(f"../../blobs/{number}"))
        (repository / "refs/main").write_text(self.COMMIT)
        ask = ("abc", "--raw", "--temperature", "0", "--max-tokens", "12")
        how = {"env": {"HF_HUB_CACHE": str(self.folder / "hub")}}
        found = self.quern_json("run", "owner/name", *ask, **how)
        self.assertEqual(found["text"], self.quern_json("run", DATA / "architecture/llama-11.gguf", *ask)["text"])
        (repository / f"snapshots/{self.COMMIT}/config.json").unlink()
        self.assert_fails(4, "owner/name", "run", "owner/name", *ask, **how)


if __name__ == "__main__":
    main()
