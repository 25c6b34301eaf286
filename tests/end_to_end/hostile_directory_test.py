"""Directories with one thing wrong, two of each class: what refuses them, how soon, and with how much memory. The twin is the directory before."""

import base64
import json
import shutil
import struct

import harness
from directory_test import DirectoryCase
from harness import DATA, main
from limits_test import MIB, Measured

SECOND, THIRD, INDEX = "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors", "model.safetensors.index.json"
SECONDS = 2  # of a processor, for any of them; the slowest takes 0.3


def header_of(content):
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def with_header(text, data):
    return struct.pack("<Q", len(text)) + text.encode() + data


def split(expression):
    return {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}


class Hostile(Measured, DirectoryCase):
    RUN = ("a", "--raw", "--max-tokens", "1")

    def setUp(self):
        super().setUp()
        self.model = self.directory(DATA / "architecture/llama-11.gguf", 3)
        self.sound = self.folder / "sound"
        shutil.copytree(self.model, self.sound)
        code, self.peak, *_, error = self.measure("run", self.model, *self.RUN)
        self.assertEqual(code, 0, error)

    def restore(self):
        shutil.rmtree(self.model)
        shutil.copytree(self.sound, self.model)

    def refuse(self, words, *arguments, code=(4,)):
        verb, *rest = arguments or ("run", *self.RUN)
        size = sum(path.stat().st_size for path in self.model.iterdir())
        found, peak, seconds, _, error = self.measure(verb, self.model, *rest)
        self.assertIn(found, code, error)
        for word in (str(self.model), *words):
            self.assertIn(word, error)
        self.assertLess(seconds, SECONDS)
        if not harness.SANITIZER:  # its own memory hides the program's
            self.assertLess(peak, self.peak + size + 64 * MIB, words)
        self.restore()

    def in_json(self, name, change):
        path = self.model / name
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))

    def in_header(self, change, name=SECOND):
        header, data = header_of((self.model / name).read_bytes())
        change([record for tensor, record in header.items() if tensor != "__metadata__"])
        (self.model / name).write_bytes(with_header(json.dumps(header), data))


class Weights(Hostile):
    def test_a_header_longer_than_its_file(self):
        path = self.model / SECOND
        for length in (path.stat().st_size, 1 << 56):
            path.write_bytes(struct.pack("<Q", length) + path.read_bytes()[8:])
            self.refuse((SECOND, "the header's length is"))

    def test_bytes_that_overlap_or_leave_a_hole(self):
        for words, step in (("inside another tensor", -4), ("leave a gap", 4)):
            def move(records, step=step):
                for record in records:
                    if record["data_offsets"][0] > 0:
                        record["data_offsets"] = [at + step for at in record["data_offsets"]]
            if step > 0:
                with open(self.model / SECOND, "ab") as file:
                    file.write(b"four")
            self.in_header(move)
            self.refuse((SECOND, words))

    def test_types_and_shapes_that_do_not_multiply_to_their_bytes(self):
        for change in (lambda record: record.update(dtype="F64"), lambda record: record.update(shape=[size + 1 for size in record["shape"]])):
            self.in_header(lambda records, change=change: change(records[0]))
            self.refuse((SECOND, "of its shape takes"))

    def test_a_name_twice(self):
        path = self.model / SECOND
        header, data = header_of(path.read_bytes())
        name = next(name for name in header if name != "__metadata__")
        path.write_bytes(with_header(f"{{{json.dumps(name)}: {json.dumps(header[name])}, " + json.dumps(header)[1:], data))
        self.refuse((SECOND, name))
        others, data = header_of((self.model / THIRD).read_bytes())
        gone = next(tensor for tensor in others if tensor != "__metadata__")
        others[name] = others.pop(gone)
        (self.model / THIRD).write_bytes(with_header(json.dumps(others), data))
        self.in_json(INDEX, lambda index: index["weight_map"].pop(gone))
        self.refuse((name, "is there twice"))

    def test_a_shard_that_is_missing_or_of_another_model(self):
        (self.model / SECOND).unlink()
        self.refuse((SECOND, "names it"))
        self.in_json(INDEX, lambda index: index["weight_map"].update({next(iter(index["weight_map"])): "model-00009-of-00003.safetensors"}))
        self.refuse(("model-00009-of-00003.safetensors", "names it"))
        for other in ("qwen3-11", "llama-03"):
            shutil.copy(self.directory(DATA / f"architecture/{other}.gguf", 3, name=other) / SECOND, self.model / SECOND)
            self.refuse((".safetensors",))

    def test_paths_that_leave_the_directory(self):
        for path in (f"../model/{SECOND}", "/etc/passwd"):
            self.in_json(INDEX, lambda index, path=path: index["weight_map"].update({next(iter(index["weight_map"])): path}))
            self.refuse((INDEX, "not a name inside the directory"))

    def test_trees_of_millions_of_values(self):
        zeros, nested = "[" + "0," * 2_400_000 + "0]", "[" + "[0]," * 1_000_000 + "0]"
        for many in (zeros, nested):
            for name in ("config.json", INDEX, "tokenizer_config.json"):
                (self.model / name).write_text('{"a": ' + many + "}")
                self.refuse((name, "more than"))
            path = self.model / SECOND
            path.write_bytes(with_header('{"a": ' + many + "}", b""))
            self.refuse((SECOND, "more than"))


class Words(Hostile):
    def config(self, **members):
        self.edit(self.model / "config.json", **members)

    def test_text_for_numbers(self):
        for name, text in (("hidden_size", "64"), ("rms_norm_eps", "small")):
            self.config(**{name: text})
            self.refuse(("config.json", f"'{name}'"))

    def test_a_milliard_of_layers(self):
        for layers in (10**9, 10**30):
            self.config(num_hidden_layers=layers)
            self.refuse(("config.json", "'num_hidden_layers'"))

    def test_merges_that_make_a_part_of_themselves_or_are_millions(self):
        def merges(value):
            self.in_json("tokenizer.json", lambda content: content["model"].update(merges=value))
        for own in ([["", "#"]], ["# "]):
            merges(own)
            self.refuse(("tokenizer.ggml.merges", "entry 0"))
        for one in ("# $", ["#", "$"]):
            merges([one] * ((1 << 20) + 1))
            self.refuse(("tokenizer.json", "'model.merges'", "at most 1048576 are read"))

    def test_vocabularies_of_trees(self):
        for name, text in (("tokenizer.json", '{"a": [%s0], "model": {"vocab": {}}}' % ("0," * 2_400_000)),
                           ("tokenizer.json", '{"model": {"vocab": {"a": [%s0]}}}' % ("0," * 2_400_000)),
                           ("tekken.json", '{"config": [%s0]}' % ("0," * 2_400_000))):
            if name != "tokenizer.json":
                (self.model / "tokenizer.json").unlink()
            (self.model / name).write_text(text)
            self.refuse((name, "more than"))

    def test_ids_twice(self):
        self.in_json("tokenizer.json", lambda content: content["model"]["vocab"].update(another=5))
        self.refuse(("tokenizer.json", "has the id 5 twice"))
        self.in_json("tokenizer.json", lambda content: content["added_tokens"].append({"id": 5, "content": "<|five|>", "special": True}))
        self.refuse(("tokenizer.json", "has the id 5 twice"))

    def test_an_expression_that_backtracks(self):
        for expression in ("(a|a)*b", "(a*)*b"):
            byte_level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
            self.edit(self.model / "tokenizer.json", pre_tokenizer={"type": "Sequence", "pretokenizers": [split(expression), byte_level]})
            self.refuse(("takes more steps than a text of",), "tokenize", "a" * 20000, code=(4, 5))

    def test_base64_that_is_broken(self):
        for table, words in (("AAAA!AAA", "another character at place 4"), (base64.b64encode(b"\0\4\0\0\0").decode(), "its trie would have 1024")):
            self.edit(self.model / "tokenizer.json", normalizer={"type": "Precompiled", "precompiled_charsmap": table})
            self.refuse(("precompiled_charsmap", words))

    def test_a_sentencepiece_model_that_is_cut_off(self):
        def piece(text, kind):
            return b"\x0a" + bytes([len(text) + 4, 10, len(text)]) + text + b"\x18" + bytes([kind])
        model = piece(b"<unk>", 2) + piece(b"a", 1) + piece(b"b", 1)
        for cut in (b"", model[:-3], model + b"\x12"):
            (self.model / "tokenizer.json").unlink()
            self.edit(self.model / "tokenizer_config.json", eos_token=None)
            (self.model / "tokenizer.model").write_bytes(cut or model)
            if cut:
                self.refuse(("tokenizer.model: byte",))
            else:
                self.assertEqual(self.quern("tokenize", self.model, "ab").code, 0)  # the twin
                self.restore()

    def test_a_template_that_loops_for_ever(self):
        for source, words in (("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "steps"),
                              ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nests deeper")):
            (self.model / "chat_template.jinja").write_text(source)
            self.refuse(("chat template, line 1", words), "run", "a")


if __name__ == "__main__":
    main()
