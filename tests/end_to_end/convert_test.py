"""quern convert: directories as GGUF files, GGUF files as directories, and both run."""

import json
import os
import struct
import subprocess

from harness import DATA, Case, main
from safetensors_files import read_safetensors

WRITE_DIRECTORY = os.environ["QUERN_TEST_WRITE_DIRECTORY"]
MODELS = ("architecture/llama-11", "architecture/llama-20", "architecture/qwen2-05", "architecture/qwen3-05", "gguf/micro-llama-f32")
EXACT = ("--activations", "f32")


class ConvertCase(Case):
    def convert(self, source, name, *flags):
        out = self.folder / name
        result = self.quern("convert", source, out, *flags)
        self.assertEqual((result.code, result.err), (0, ""), result.err)
        self.assertEqual(result.out.decode(), f"{out}\n")
        return out

    def logits(self, model, *flags):
        out = self.folder / "logits"
        self.quern_json("eval", model, self.write("text", "ABC-abc/0123 the same text"), "--logits", out, *flags)
        return out.read_bytes()

    def numbers(self, model, *flags):
        data = self.logits(model, *flags)
        return struct.unpack(f"<{len(data) // 4}f", data)


class Models(ConvertCase):
    def test_a_directory_and_its_gguf_file_have_equal_logits(self):
        for number, model in enumerate(MODELS):
            with self.subTest(model):
                folder = self.folder / f"from{number}"
                subprocess.run([WRITE_DIRECTORY, DATA / f"{model}.gguf", folder, "3"], check=True)
                self.assertEqual(self.logits(self.convert(folder, f"{number}.gguf"), *EXACT), self.logits(DATA / f"{model}.gguf", *EXACT))

    def test_a_gguf_file_and_its_directory_have_equal_logits_and_answers(self):
        for number, model in enumerate(MODELS):
            with self.subTest(model):
                gguf = DATA / f"{model}.gguf"
                folder = self.convert(gguf, str(number), *(("--shard-size", "8K") if number % 2 else ()))
                self.assertEqual(len(list(folder.glob("*.safetensors"))) > 1, number % 2 == 1)
                self.assertEqual(self.logits(folder, *EXACT), self.logits(gguf, *EXACT))
                back = self.convert(folder, f"{number}.gguf")
                self.assertEqual(self.logits(back, *EXACT), self.logits(gguf, *EXACT))
                ask = ("abc", "--raw", "--temperature", "0", "--max-tokens", "12")
                found, wanted = self.quern_json("run", folder, *ask), self.quern_json("run", gguf, *ask)
                self.assertEqual((found["prompt_ids"], found["ids"], found["text"]), (wanted["prompt_ids"], wanted["ids"], wanted["text"]))

    def test_block_formats_are_decoded(self):
        for kind in ("q4_0", "q8_0"):
            with self.subTest(kind):
                gguf = DATA / f"gguf/micro-llama-{kind}.gguf"
                folder, single = self.convert(gguf, kind, "--type", "f32"), self.convert(gguf, f"{kind}.gguf", "--type", "f32")
                self.assertEqual(self.logits(folder, *EXACT), self.logits(single, *EXACT))
                # The same weights: in exact numerics the sums alone may go in another order, of 96 products at most.
                wanted = self.numbers(gguf, *EXACT)
                scale = max(map(abs, wanted))
                self.assertLess(max(abs(a - b) for a, b in zip(self.numbers(folder, *EXACT), wanted)), 1e-5 * scale)
                types = {dtype for dtype, _, _ in read_safetensors(self.convert(gguf, f"{kind}-auto") / "model.safetensors").values()}
                self.assertEqual(types - {"F32"}, {"BF16"})  # f32: a vector that bf16 does not hold
                self.assertEqual(json.loads((self.folder / f"{kind}-auto/config.json").read_text())["torch_dtype"], "bfloat16")

    def test_there_and_back_gives_the_same_bytes(self):
        gguf = DATA / "architecture/llama-11.gguf"
        for kind in ("f32", "bf16"):
            with self.subTest(kind):
                first = self.convert(gguf, f"{kind}-first", "--type", kind)
                second = self.convert(self.convert(first, f"{kind}.gguf"), f"{kind}-second")
                self.assertEqual((second / "model.safetensors").read_bytes(), (first / "model.safetensors").read_bytes())
                for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
                    self.assertEqual((second / name).read_text(), (first / name).read_text())

    def test_a_large_gguf_file_is_split(self):
        source = DATA / "gguf/micro-llama-f32.gguf"
        out = self.folder / "split.gguf"
        self.assertEqual(self.quern_json("convert", source, out, "--split-max-size", "100K")["output"], str(self.folder / "split-00001-of-00004.gguf"))
        parts = sorted(path.name for path in self.folder.glob("split*"))
        self.assertEqual(parts, [f"split-0000{no}-of-00004.gguf" for no in (1, 2, 3, 4)])
        self.assertEqual(self.logits(self.folder / parts[0], *EXACT), self.logits(source, *EXACT))

    def test_a_vocabulary_alone_has_the_same_ids(self):
        source = DATA / "gguf/micro-llama-f32.gguf"
        folder = self.convert(source, "whole")
        for model in (source, folder):
            out = self.convert(model, f"{model.stem}-vocabulary.gguf", "--vocab-only")
            self.assertEqual(self.quern_json("show", out, "--tensors")["tensors"], [])
            self.assertEqual(self.quern_json("tokenize", out, "the same text")["ids"], self.quern_json("tokenize", source, "the same text")["ids"])

    def test_the_chat_template_comes_along(self):
        source = DATA / "gguf/micro-llama-f32.gguf"
        messages = self.write_messages(("user", "hello"))
        folder = self.convert(source, "whole")
        for model in (folder, self.convert(folder, "again.gguf")):
            self.assertEqual(self.quern_json("tokenize", model, "--messages", messages), self.quern_json("tokenize", source, "--messages", messages))


class Refusals(ConvertCase):
    SOURCE = DATA / "architecture/llama-11.gguf"

    def files(self):
        return sorted(set(os.listdir(self.folder)) - {"cache"})

    def refused(self, code, words, source, name, *flags):
        before = self.files()
        self.assert_fails(code, words, "convert", source, self.folder / name, *flags)
        self.assertEqual(self.files(), before)

    def test_what_is_there_is_not_replaced(self):
        self.write("there.gguf", "mine")
        (self.folder / "there").mkdir()
        (self.folder / "link").symlink_to("nowhere")
        for name in ("there.gguf", "there", "link"):
            self.refused(4, ("is there already",), self.SOURCE, name)
        self.assertEqual((self.folder / "there.gguf").read_text(), "mine")
        self.write("parts-00002-of-00004.gguf", "mine")
        self.refused(4, ("parts-00002-of-00004.gguf", "is there already"), DATA / "gguf/micro-llama-f32.gguf", "parts.gguf", "--shard-size", "100K")

    def test_a_number_beyond_f16_is_named(self):
        folder = self.convert(self.SOURCE, "large", "--type", "f32")
        path = folder / "model.safetensors"
        tensors = path.read_bytes()
        at = tensors.rindex(read_safetensors(path)["model.layers.1.mlp.up_proj.weight"][2])
        path.write_bytes(tensors[:at] + struct.pack("<f", 1e6) + tensors[at + 4:])
        self.refused(2, ("blk.1.ffn_up.weight", "1e+06"), folder, "out.gguf", "--type", "f16")
        self.refused(2, ("blk.1.ffn_up.weight", "1e+06"), folder, "out", "--type", "f16")
        self.convert(folder, "bf16.gguf", "--type", "bf16")

    def test_a_malformed_source_is_4(self):
        self.refused(4, ("none.gguf",), self.folder / "none.gguf", "out")
        self.write("broken.gguf", "GGUF")
        self.refused(4, ("broken.gguf",), self.folder / "broken.gguf", "out")
        folder = self.convert(self.SOURCE, "model")
        (folder / "config.json").write_text("{}")
        self.refused(4, ("config.json",), folder, "out.gguf")

    def test_a_directory_without_a_tensor_is_4(self):
        folder = self.convert(self.SOURCE, "model", "--shard-size", "4K")
        index = json.loads((folder / "model.safetensors.index.json").read_text())
        lost = index["weight_map"]["model.layers.1.mlp.up_proj.weight"]
        names = [name for name, file in index["weight_map"].items() if file == lost]
        for name in names:
            del index["weight_map"][name]
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        self.refused(4, ("blk.1.",), folder, "out.gguf")

    def test_flags_that_do_not_fit_are_2(self):
        self.refused(2, ("vocabulary alone",), self.SOURCE, "out", "--vocab-only")
        for size in ("0", "much", "-1G"):
            self.refused(2, ("--shard-size",), self.SOURCE, "out", f"--shard-size={size}")
        self.refused(2, ("--type",), self.SOURCE, "out", "--type", "q8_0")


if __name__ == "__main__":
    main()
