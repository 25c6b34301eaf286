"""Quantised Hugging Face directories against directories in f32 with the same numbers, and what is refused of them."""

import array
import json
import os
import random
import struct

import quantised_directories as packers
from directory_test import DirectoryCase
from harness import DATA, main
from safetensors_files import read_safetensors, write_safetensors

TEXT = "ABC-abc/0123 the same text"


class QuantisedCase(DirectoryCase):
    def setUp(self):
        super().setUp()
        self.base = self.directory(DATA / "gguf/micro-llama-f32.gguf", name="base")

    def pair(self, packer, name="pair", **how):
        """Both folders have the name "model", so that nothing but the weights differs."""
        folders = self.folder / name / "packed" / "model", self.folder / name / "plain" / "model"
        packers.write_pair(random.Random(name), self.base, *folders, packer, **how)
        return folders

    def logits(self, model, *flags, **how):
        out = self.folder / "logits"
        self.quern_json("eval", model, self.write("text", TEXT), "--logits", out, *flags, **how)
        return array.array("f", out.read_bytes())

    def in_f32(self, model, name):
        out = self.folder / f"{name}.gguf"
        result = self.quern("convert", model, out, "--type", "f32")
        self.assertEqual(result.code, 0, result.err)
        return out.read_bytes()

    def check(self, packer, name, exact=True, **how):
        packed, plain = self.pair(packer, name, **how)
        if exact:
            self.assertEqual(self.in_f32(packed, f"{name}-packed"), self.in_f32(plain, f"{name}-plain"), "weights decode to other bits")
        found, wanted = self.logits(packed, "--activations", "f32"), self.logits(plain, "--activations", "f32")
        self.assertEqual(len(found), len(wanted))
        size = max(abs(value) for value in wanted)
        # Sums of at most 256 products in f32, twice 7 products and norms in a row: 2^-24 * 16 * 14 of the largest logit is 1.4e-5 of it.
        self.assertLess(max(abs(a - b) for a, b in zip(found, wanted)), 1e-4 * max(1, size))

    def each(self, kinds):
        for name, (packer, how) in kinds.items():
            with self.subTest(name):
                self.check(packer, name, **how)


class Awq(QuantisedCase):
    def test_weights_are_those_of_the_rule_and_logits_those_of_f32(self):
        self.each({"group32": (packers.awq(32), {}), "group64": (packers.awq(64), {"biases": True, "layers": 1}),
                   "group128": (packers.awq(128), {"layers": 1}), "whole-rows": (packers.awq(-1, form="BF16"), {"layers": 1}),
                   "skipped": (packers.awq(64), {"dense": ("down_proj", "q_proj"), "layers": 1})})


class Gptq(QuantisedCase):
    def test_weights_are_those_of_the_rule_and_logits_those_of_f32(self):
        self.each({"v1": (packers.gptq(4, 32), {}), "v2": (packers.gptq(4, 64, version=2), {"layers": 1}),
                   "whole-rows": (packers.gptq(4, -1, sym=True), {"layers": 1}), "eight-bits": (packers.gptq(8, 128), {"biases": True, "layers": 1}),
                   "eight-bits-group32": (packers.gptq(8, 32, version=2), {"layers": 1}), "no-index": (packers.gptq(4, 128, index=False), {"layers": 1}),
                   "dynamic": (packers.gptq(8, 64, dynamic={"+:.*down.*": {"bits": 8}}), {"layers": 1})})


    def test_symmetric_zeros_count_by_what_they_are_not_by_what_the_field_says(self):
        self.each({"v2-that-says-v1": (packers.gptq(4, 32, version=2, sym=True, claims=1), {"layers": 1}),
                   "v1-that-says-v2": (packers.gptq(8, 128, version=1, sym=True, claims=2), {"layers": 1})})

    def test_what_was_chosen_for_zero_points_is_said(self):
        for name, packer, words, warns in (
                ("agrees", packers.gptq(4, 32, version=1, sym=True), "7 of its weights store zero points less one (GPTQ v1), by their content", False),
                ("contradicts", packers.gptq(4, 32, version=2, sym=True, claims=1),
                 "7 of its weights store zero points as they are (GPTQ v2), by their content; 'checkpoint_format' has the other version", True),
                ("stated", packers.gptq(4, 32, version=2), "7 of its weights store zero points as they are (GPTQ v2), as 'checkpoint_format' says", False)):
            with self.subTest(name):
                packed, _ = self.pair(packer, name, layers=1)
                self.assertEqual(self.quern_json("show", packed)["notes"], [words])
                self.assertIn(words, self.quern("show", packed).out.decode())
                result = self.quern("run", packed, "a", "--raw", "--max-tokens", "1")
                self.assertEqual(words in result.err, warns, result.err)

    def test_an_old_directory_has_its_fields_in_a_file_of_their_own(self):
        packed, plain = self.pair(packers.gptq(4, 32), "old", layers=1)
        config = json.loads((packed / "config.json").read_text())
        (packed / "quantize_config.json").write_text(json.dumps(config.pop("quantization_config")))
        (packed / "config.json").write_text(json.dumps(config))
        self.assertEqual(self.in_f32(packed, "packed"), self.in_f32(plain, "plain"))


class ActOrder(QuantisedCase):
    EXPANDED = "7 of its weights are expanded to f16, since their columns are in the order of their activations ('desc_act')"

    def test_logits_are_those_of_f32_without_expanded_weights(self):
        for name, packer, order, how in (("group32", packers.gptq(4, 32, act_order=True), 7, {}),
                                         ("group64", packers.gptq(4, 64, version=2, act_order="alike"), 7, {"biases": True, "layers": 1}),
                                         ("group128", packers.gptq(4, 128, act_order=True), 1, {"layers": 1}),  # rows of 128 have one group
                                         ("eight-bits", packers.gptq(8, 32, act_order=True), 7, {"layers": 1}),
                                         ("skipped", packers.gptq(4, 32, act_order=True), 5, {"dense": ("down_proj", "q_proj"), "layers": 1}),
                                         ("compressed", packers.compressed(4, 32, act_order=True), 7, {"layers": 1}),
                                         ("compressed-zeros", packers.compressed(8, 32, sym=False, act_order="alike"), 7, {"layers": 1})):
            with self.subTest(name):
                self.check(packer, name, exact=False, **how)
                packed, _ = self.pair(packer, f"{name}-said", **how)
                shown = self.quern_json("show", packed)
                count = order * how.get("layers", packers.LAYERS)
                self.assertIn(f"{count} of its weights have their columns by groups, and 'take' puts their inputs in that order ('desc_act')", shown["notes"])
                self.assertEqual(sum(tensor["dtype"] == "i32" for tensor in shown["tensors"]), count)
                self.assertFalse(any("expanded" in note for note in shown["notes"]), shown["notes"])
                result = self.quern("run", packed, "a", "--raw", "--max-tokens", "1")
                self.assertEqual((result.code, result.err.count("expanded")), (0, 0), result.err)

    def test_products_of_one_input_share_its_order_where_theirs_is_the_same(self):
        for act_order, takes in (("alike", 4), (True, 7)):
            packed, _ = self.pair(packers.gptq(4, 32, act_order=act_order), f"shared-{act_order}", layers=1)
            trace = self.folder / "trace.json"
            self.assertEqual(self.quern("run", packed, "a", "--raw", "--max-tokens", "1", "--trace", trace).code, 0)
            self.assertEqual([node["op"] for node in json.loads(trace.read_text())["nodes"]].count("take"), takes)

    def test_parameters_are_those_of_the_model(self):
        packed, plain = self.pair(packers.gptq(4, 32, act_order=True), "counted", layers=1)
        for verb in ("show", "estimate"):
            self.assertEqual(self.quern_json(verb, packed)["parameters"], self.quern_json(verb, plain)["parameters"])

    def test_other_programs_get_them_expanded_with_the_numbers_of_the_packer(self):
        for name, packer in (("expanded", packers.gptq(4, 32, act_order=True, rounds=True)), ("expanded-eight", packers.gptq(8, 64, act_order=True, rounds=True))):
            packed, plain = self.pair(packer, name, layers=1)
            self.assertEqual(self.in_f32(packed, f"{name}-packed"), self.in_f32(plain, f"{name}-plain"))

    def test_a_plugin_without_take_gets_them_expanded_and_a_line_says_so(self):
        packed, plain = self.pair(packers.gptq(4, 32, act_order=True, rounds=True), "without", layers=1)
        refusing = {"QUERN_BACKEND_PATH": os.environ["QUERN_TEST_REFUSING"], "QUERN_BACKEND": "refusing", "QUERN_DEVICE": "refusing:0", "QUERN_REFUSED": "take"}
        result = self.quern("run", packed, "a", "--raw", "--max-tokens", "1", env=refusing)
        self.assertEqual(result.code, 0, result.err)
        self.assertIn(self.EXPANDED, result.err)
        self.assertIn("refusing:0 does not compute take: it is newer than the op set 2 of this plugin", result.err)
        found, wanted = (self.logits(model, "--activations", "f32", env=refusing) for model in (packed, plain))
        self.assertLess(max(abs(a - b) for a, b in zip(found, wanted)), 1e-4 * max(1, max(map(abs, wanted))))

    def test_groups_that_are_not_alike_in_size_are_expanded(self):
        packed, _ = self.pair(packers.gptq(4, 32, act_order=True), "uneven", layers=1)
        file = packed / "model.safetensors"
        tensors = read_safetensors(file)
        name = "model.layers.0.self_attn.q_proj.g_idx"
        dtype, shape, data = tensors[name]
        groups = list(struct.unpack(f"<{shape[0]}i", data))
        groups[groups.index(1)] = 0
        tensors[name] = (dtype, shape, struct.pack(f"<{shape[0]}i", *groups))
        write_safetensors(file, tensors)
        notes = self.quern_json("show", packed)["notes"]
        self.assertTrue(any(note.startswith("1 of its weights are expanded to f16") for note in notes), notes)
        self.assertTrue(any(note.startswith("6 of its weights have their columns by groups") for note in notes), notes)


class Compressed(QuantisedCase):
    def test_weights_are_those_of_the_rule_and_logits_those_of_f32(self):
        self.each({"int4-group32": (packers.compressed(4, 32), {}), "int4-zeros": (packers.compressed(4, 128, sym=False), {"layers": 1}),
                   "int4-rows": (packers.compressed(4, None, form="F16"), {"layers": 1}), "int8": (packers.compressed(8, 128, sym=False), {"layers": 1}),
                   "integers": (packers.integers(), {"layers": 1}), "integers-zeros": (packers.integers("F16", sym=False), {"layers": 1}),
                   "integers-f32": (packers.integers("F32"), {"layers": 1}),
                   "floats-rows": (packers.fp8("channel", "BF16", compressed_tensors=True), {"layers": 1}),
                   "floats-blocks": (packers.fp8("block", "BF16", compressed_tensors=True), {"layers": 1}),
                   "floats-tensor": (packers.fp8("tensor", "F32", compressed_tensors=True), {"layers": 1})})


class Fp8(QuantisedCase):
    def test_weights_are_those_of_the_rule_and_logits_those_of_f32(self):
        self.each({"blocks": (packers.fp8("block"), {}), "blocks-bf16": (packers.fp8("block", "BF16"), {"biases": True, "layers": 1}),
                   "rows": (packers.fp8("channel"), {"layers": 1}), "tensor": (packers.fp8("tensor"), {"dense": ("o_proj",), "layers": 1})})


class Bitsandbytes(QuantisedCase):
    def test_weights_are_those_of_the_rule_and_logits_those_of_f32(self):
        self.each({"nf4": (packers.bitsandbytes("nf4"), {}), "nf4-nested": (packers.bitsandbytes("nf4", nested=True), {"layers": 1}),
                   "fp4": (packers.bitsandbytes("fp4"), {"layers": 1}), "int8": (packers.llm_int8(), {"layers": 1})})


class Refusals(QuantisedCase):
    """For each class of malformed files two of them, and a twin that passes: the directory before the change."""

    def changed(self, packer, name, edits):
        """edits: [(words of the refusal, exit code, change of config or of tensors by name)]."""
        packed, _ = self.pair(packer, name, layers=1)
        self.assertEqual(self.quern("run", packed, "a", "--raw", "--max-tokens", "1").code, 0)
        file, config = packed / "model.safetensors", packed / "config.json"
        whole, text = file.read_bytes(), config.read_text()
        for words, code, change in edits:
            with self.subTest(words):
                described, tensors = json.loads(text), read_safetensors(file)
                change(described["quantization_config"], tensors)
                config.write_text(json.dumps(described))
                write_safetensors(file, tensors)
                self.assert_fails(code, words, "run", packed, "a", "--raw", "--max-tokens", "1")
            file.write_bytes(whole)
            config.write_text(text)

    Q = "model.layers.0.self_attn.q_proj."

    def test_groups_that_make_no_sense(self):
        def group(value):
            return lambda config, tensors: config.update(group_size=value)
        self.changed(packers.awq(32), "awq", [
            (("config.json", "'quantization_config.group_size' is not -1 or a whole number"), 4, group(-5)),
            (("config.json", "'quantization_config.group_size' is not -1 or a whole number"), 4, group("many")),
            (("model.safetensors", "qweight'", "no whole groups of 48"), 4, group(48)),
            (("model.safetensors", "qzeros'", "has the shape [4, "), 4, group(64))])

    def test_parts_that_do_not_fit_each_other(self):
        def cut(part, rows):
            def change(config, tensors):
                dtype, shape, data = tensors[self.Q + part]
                tensors[self.Q + part] = (dtype, [rows, *shape[1:]], data[:len(data) // shape[0] * rows])
            return change
        self.changed(packers.awq(32), "parts", [
            (("q_proj.scales'", "has the shape [3, 128]", "[4, 128]"), 4, cut("scales", 3)),
            (("q_proj.qzeros'", "has the shape [2, 16]", "[4, 16]"), 4, cut("qzeros", 2)),
            (("q_proj.qweight'", "is there without", "q_proj.scales'"), 4, lambda config, tensors: tensors.pop(self.Q + "scales")),
            (("q_proj.qzeros'", "is part of a quantised weight that is not there"), 4, lambda config, tensors: tensors.pop(self.Q + "qweight"))])

    def test_groups_of_columns_out_of_range(self):
        def index(place, value):
            def change(config, tensors):
                dtype, shape, data = tensors[self.Q + "g_idx"]
                tensors[self.Q + "g_idx"] = (dtype, shape, data[:4 * place] + struct.pack("<i", value) + data[4 * place + 4:])
            return change
        def length(count):
            def change(config, tensors):
                dtype, shape, data = tensors[self.Q + "g_idx"]
                tensors[self.Q + "g_idx"] = (dtype, [count], (data + data)[:4 * count])
            return change
        for act_order in (False, True):
            self.changed(packers.gptq(4, 32, act_order=act_order), f"index-{act_order}", [
                (("q_proj.g_idx'", "has the group 4 at index 7; there are 4 groups"), 4, index(7, 4)),
                (("q_proj.g_idx'", "has the group -1 at index 0"), 4, index(0, -1)),
                (("q_proj.g_idx'", "has the shape [64]", "[128]"), 4, length(64)),
                (("q_proj.g_idx'", "has the shape [192]", "[128]"), 4, length(192))])

    def test_zeros_beyond_what_the_first_version_stores(self):
        def stored(word):
            def change(config, tensors):
                dtype, shape, data = tensors[self.Q + "qzeros"]
                tensors[self.Q + "qzeros"] = (dtype, shape, struct.pack("<I", word) + data[4:])
            return change
        self.changed(packers.gptq(4, 32), "zeros", [(("q_proj.qzeros'", "has 15 for row 0, group 0"), 4, stored(0x7777777F)),
                                                    (("q_proj.qzeros'", "has 15 for row 7, group 0"), 4, stored(0xF7777777))])

    def test_scales_of_blocks_of_another_size(self):
        def change(shape):
            return lambda config, tensors: tensors.update({"model.layers.0.mlp.down_proj.weight_scale_inv": ("F32", shape, packers.f32([1.0] * shape[0] * shape[1]))})
        self.changed(packers.fp8("block"), "fp8", [
            (("down_proj.weight_scale_inv'", "has 3 x 2 scales, which do not fit the 128 x 256 weights"), 4, change([3, 2])),
            (("down_proj.weight_scale_inv'", "has 1 x 5 scales"), 4, change([1, 5])),
            (("config.json", "'quantization_config.weight_block_size' is not two whole numbers"), 4,
             lambda config, tensors: config.update(weight_block_size=[128])),
            (("q_proj.weight'", "is there without", "q_proj.weight_scale'"), 4, lambda config, tensors: tensors.pop(self.Q + "weight_scale_inv"))])

    def test_largest_magnitudes_of_another_length(self):
        def absmax(count):
            return lambda config, tensors: tensors.update({self.Q + "weight.absmax": ("F32", [count], packers.f32([1.0] * count))})

        def state(**members):
            def change(config, tensors):
                name = self.Q + "weight.quant_state.bitsandbytes__nf4"
                text = json.dumps({**json.loads(tensors[name][2]), **members}).encode()
                tensors[name] = ("U8", [len(text)], text)
            return change
        self.changed(packers.bitsandbytes("nf4"), "nf4", [
            (("q_proj.weight.absmax'", "has the shape [255]", "[256]"), 4, absmax(255)), (("q_proj.weight.absmax'", "has the shape [1]"), 4, absmax(1)),
            (("bitsandbytes__nf4'", "its 'shape' is not a whole number"), 4, state(shape=[128, 10**12])),
            (("bitsandbytes__nf4'", "its 'shape' is not two numbers"), 4, state(shape=[128])),
            (("bitsandbytes__nf4'", "its 'blocksize' is 128; blocks of 64 are read"), 4, state(blocksize=128))])

    def test_sizes_that_are_not_those_of_the_codes(self):
        def shape(*sizes):
            return lambda config, tensors: tensors.update({self.Q + "weight_shape": ("I64", [2], struct.pack("<2q", *sizes))})
        self.changed(packers.compressed(4, 32), "sizes", [
            (("q_proj.weight_shape'", "has -1 x 128 weights"), 4, shape(-1, 128)),
            (("q_proj.weight_packed'", "has the shape [128, 16]", "[64, 16]"), 4, shape(64, 128)),
            (("config.json", "'quantization_config.config_groups.group_0.weights.group_size' is not -1"), 4,
             lambda config, tensors: config["config_groups"]["group_0"]["weights"].update(group_size=-3))])

    def test_methods_and_forms_that_are_not_read_are_named(self):
        def fields(**members):
            return lambda config, tensors: config.update(members)
        self.changed(packers.awq(32), "methods", [
            (("config.json", "quantised by 'hqq'", "AWQ"), 4, fields(quant_method="hqq")), (("'gemv_fast'", "of AWQ the version gemm is read"), 4, fields(version="gemv_fast")),
            (("bits' is 3",), 4, fields(bits=3)), (("'nvfp4-pack-quantized'",), 4, fields(quant_method="compressed-tensors", format="nvfp4-pack-quantized")),
            (("checkpoint_format' is 'marlin'",), 4, fields(quant_method="gptq", checkpoint_format="marlin")), (("bits' is missing",), 4, lambda config, tensors: config.pop("bits"))])


if __name__ == "__main__":
    main()
