"""Directories that quantize --to writes: read by their formats' published rules here, and by the program."""

import array
import json
import math
import random
import struct

import quantised_directories as packers
from directory_test import DirectoryCase
from harness import DATA, main
from safetensors_files import read_safetensors

FORMS = ("awq", "compressed-tensors", "fp8", "fp8-channel")
TINY = DATA / "training/tiny-llama.gguf"
TEXT = (DATA / "training/val.jsonl").read_bytes()
ON_CPU = {"QUERN_BACKEND": "cpu"}
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


def numbers(tensor):
    """All of a tensor, as Python numbers."""
    form, _, data = tensor
    kind = {"F32": "f", "F16": "e", "I32": "I", "I64": "q", "F8_E4M3": "B", "BF16": "H"}[form]
    values = struct.unpack(f"<{len(data) // struct.calcsize(kind)}{kind}", data)
    if form == "BF16":
        return struct.unpack(f"<{len(values)}f", struct.pack(f"<{len(values)}I", *(value << 16 for value in values)))
    return values


def nibbles(words, order=range(8)):
    """Of each word, number order[i] is nibble i."""
    found = []
    for word in words:
        eight = [0] * 8
        for nibble, place in enumerate(order):
            eight[place] = word >> 4 * nibble & 15
        found += eight
    return found


def awq(part):
    (k, words), (groups, _) = part("qweight")[1], part("qzeros")[1]
    n = 8 * words
    codes, zeros, scales = nibbles(numbers(part("qweight")), AWQ_ORDER), nibbles(numbers(part("qzeros")), AWQ_ORDER), numbers(part("scales"))
    at = [c // (k // groups) * n for c in range(k)]
    return [n, k], [(codes[c * n + r] - zeros[at[c] + r]) * scales[at[c] + r] for r in range(n) for c in range(k)]


def integers(part):
    n, k = numbers(part("weight_shape"))
    codes, scales = nibbles(numbers(part("weight_packed"))), numbers(part("weight_scale"))
    groups = part("weight_scale")[1][1]
    return [n, k], [(codes[r * k + c] - 8) * scales[r * groups + c * groups // k] for r in range(n) for c in range(k)]


def fp8(part):
    n, k = part("weight")[1]
    codes, scales = numbers(part("weight")), numbers(part("weight_scale_inv"))
    return [n, k], [packers.e4m3(codes[r * k + c]) * scales[r // 128 * ((k + 127) // 128) + c // 128] for r in range(n) for c in range(k)]


def fp8_channel(part):
    n, k = part("weight")[1]
    codes, scales = numbers(part("weight")), numbers(part("weight_scale"))
    return [n, k], [packers.e4m3(codes[r * k + c]) * scales[r] for r in range(n) for c in range(k)]


RULES = {"awq": (awq, "qweight"), "compressed-tensors": (integers, "weight_packed"), "fp8": (fp8, "weight_scale_inv"), "fp8-channel": (fp8_channel, "weight_scale")}


class PackedCase(DirectoryCase):
    def model(self, **how):
        """A directory whose rows are whole blocks of all forms."""
        base, twin = self.directory(DATA / "gguf/micro-llama-f32.gguf", name="base"), self.folder / "model"
        packers.write_pair(random.Random(3), base, self.folder / "dense", twin, packers.awq(), dense=("proj",), layers=1, **how)
        return twin

    def matrix(self, model):
        out = self.folder / "matrix.gguf"
        self.quern_json("imatrix", model, self.write("text", TEXT[:600]), "-o", out, env=ON_CPU)
        return out

    def packed(self, model, form, *flags, name=None):
        out = self.folder / (name or form)
        return out, self.quern_json("quantize", model, out, "--to", form, *flags)

    def tensors(self, folder):
        return read_safetensors(folder / "model.safetensors")

    def decoded(self, folder):
        out = folder.with_name(folder.name + "-decoded")
        self.quern("convert", folder, out, "--type", "f32")
        return out

    def logits(self, model):
        out = self.folder / "logits"
        self.quern_json("eval", model, self.write("text", "ABC-abc/0123 the same text"), "--logits", out, "--activations", "f32", env=ON_CPU)
        return array.array("f", out.read_bytes())

    def divergence(self, model, reference):
        report = self.quern_json("eval", model, self.write("text", TEXT[:600]), "--reference", reference, "--activations", "f32", "--kv", "f32", env=ON_CPU)
        return report["reference"]["kl_mean"]


class Written(PackedCase):
    def test_weights_are_those_of_the_published_rule_and_logits_those_of_the_weights(self):
        model = self.model(biases=True)
        matrix = self.matrix(model)
        for form in FORMS:
            with self.subTest(form):
                out, report = self.packed(model, form, "--imatrix", matrix)
                rule, mark = RULES[form]
                stored, dense = self.tensors(out), self.decoded(out)
                found = self.tensors(dense)
                modules = [name.removesuffix("." + mark) for name in stored if name.endswith("." + mark)]
                self.assertEqual(len(modules), 5 if form == "fp8" else 7)  # keys and values have 64 rows, no whole block
                for module in modules:
                    shape, values = rule(lambda name: stored[f"{module}.{name}"])
                    self.assertEqual(found[module + ".weight"], ("F32", shape, packers.f32(values)), module)
                self.assertEqual(report["bytes"], sum(len(data) for _, _, data in stored.values()))
                self.assertEqual({t["to"] for t in report["tensors"] if t["name"].startswith("blk.0.ffn_") and len(t["shape"]) > 1},
                                 {{"awq": "q4_z128", "compressed-tensors": "q4_z128"}.get(form, "f8_128")})
                ours, wanted = self.logits(out), self.logits(dense)
                # Sums of at most 256 products in f32, 7 products and norms in a row: 2^-24 * 16 * 14 of the largest logit is 1.4e-5 of it.
                self.assertLess(max(abs(a - b) for a, b in zip(ours, wanted)), 1e-4 * max(1, *map(abs, wanted)))

    def test_numbers_are_as_near_as_their_codes_allow(self):
        """Of E4M3: within half a step of 2^-3 of the number, or of the least normal one, and as much as a bf16 scale moves the largest."""
        model = self.model()
        before = self.tensors(model)
        for form in ("fp8", "fp8-channel"):
            out, _ = self.packed(model, form)
            for name, tensor in self.tensors(self.decoded(out)).items():
                if not name.endswith("proj.weight"):
                    continue
                wanted, found = numbers(before[name]), numbers(tensor)
                largest = max(map(abs, wanted))
                for x, y in zip(wanted, found):
                    self.assertLessEqual(abs(x - y), abs(x) * (2**-4 + 2**-8) + largest / 448 * 2**-10, name)

    def test_config_says_what_was_written(self):
        model = self.model()
        matrix = self.matrix(model)
        config = {}
        for form in FORMS:
            out, _ = self.packed(model, form, "--imatrix", matrix)
            config[form] = json.loads((out / "config.json").read_text())
            for file in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
                self.assertTrue((out / file).exists(), file)
        self.assertEqual(config["awq"]["quantization_config"], {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm",
                                                                "modules_to_not_convert": ["lm_head"]})
        plain = [f"model.layers.0.self_attn.{part}_proj" for part in "kv"] + ["lm_head"]
        self.assertEqual(sorted(config["fp8"]["quantization_config"]["modules_to_not_convert"]), sorted(plain))
        self.assertEqual([c["torch_dtype"] for c in config.values()], ["float16", "bfloat16", "bfloat16", "bfloat16"])
        self.assertEqual(config["fp8"]["quantization_config"]["weight_block_size"], [128, 128])
        for form, format, strategy, bits in (("compressed-tensors", "pack-quantized", "group", 4), ("fp8-channel", "float-quantized", "channel", 8)):
            said = config[form]["quantization_config"]
            weights = said["config_groups"]["group_0"]["weights"]
            self.assertEqual((said["quant_method"], said["format"], said["ignore"]), ("compressed-tensors", format, ["lm_head"]))
            self.assertEqual((weights["strategy"], weights["num_bits"], weights["symmetric"]), (strategy, bits, True))

    def test_bytes_do_not_depend_on_threads(self):
        matrix = self.matrix(TINY)
        for form in ("awq", "compressed-tensors"):
            written = [self.packed(TINY, form, "--imatrix", matrix, "--threads", threads, name=f"{form}{threads}")[0] / "model.safetensors"
                       for threads in (1, 3)]
            self.assertEqual(written[0].read_bytes(), written[1].read_bytes())


class Scales(PackedCase):
    def uniform(self, model):
        """A matrix that says nothing: all inputs have one size."""
        shapes = {t["name"]: t["shape"] for t in self.quern_json("show", model)["tensors"] if t["name"].startswith("blk.") and len(t["shape"]) == 2}
        data = struct.pack("<i", len(shapes))
        for name, (columns, _) in shapes.items():
            data += struct.pack("<i", len(name)) + name.encode() + struct.pack("<ii", 1, columns) + packers.f32([1.0] * columns)
        return self.write("uniform.dat", data)

    def test_sizes_of_the_inputs_lower_the_divergence(self):
        rounded, _ = self.packed(TINY, "awq", "--imatrix", self.uniform(TINY), name="rounded")
        scaled, _ = self.packed(TINY, "awq", "--imatrix", self.matrix(TINY), name="scaled")
        self.assertLess(self.divergence(scaled, TINY), self.divergence(rounded, TINY))

    def test_norms_are_scaled_down_where_columns_are_scaled_up(self):
        """Columns of W' are those of W * s up to their codes, and the norm's are divided by s: the product of both stays."""
        model = self.model()
        before, out = self.tensors(model), self.packed(model, "awq", "--imatrix", self.matrix(model))[0]
        found = self.tensors(self.decoded(out))
        norm, weight = "model.layers.0.post_attention_layernorm.weight", "model.layers.0.mlp.gate_proj.weight"
        old, new = numbers(before[norm]), numbers(found[norm])
        self.assertNotEqual(old, new)
        wide = len(old)
        for name, (first, then) in {weight: (numbers(before[weight]), numbers(found[weight]))}.items():
            for column in range(wide):
                x, y = ([w[row * wide + column] * n[column] for row in range(len(first) // wide)] for w, n in ((first, old), (then, new)))
                dot, xx, yy = (sum(a * b for a, b in zip(*pair)) for pair in ((x, y), (x, x), (y, y)))
                # A group of 128 normal numbers has steps of about a third of their deviation: an error of 0.1 of it, a cosine above 0.98.
                self.assertGreater(dot / math.sqrt(xx * yy), 0.95, name)
                self.assertLess(abs(dot / xx - 1), 0.2, name)


class Refusals(PackedCase):
    def test_refusals(self):
        out = self.folder / "out"
        self.assert_fails(2, ("awq scales columns", "importance matrix"), "quantize", TINY, out, "--to", "awq")
        self.assert_fails(2, "no directory is written as", "quantize", TINY, out, "--to", "gptq")
        self.assert_fails(2, "--to awq", "quantize", TINY, out)
        self.assert_fails(2, "--to awq", "quantize", TINY, out, "Q8_0", "--to", "fp8")
        self.assert_fails(2, "types of tensors are those of GGUF files", "quantize", TINY, out, "--to", "fp8", "--pure")
        self.assert_fails(4, "no weight has whole groups of 128 columns and rows", "quantize", DATA / "architecture/llama-11.gguf", out, "--to", "fp8")
        small, _ = self.packed(TINY, "compressed-tensors")
        self.assert_fails(4, "is there already", "quantize", TINY, small, "--to", "compressed-tensors")
        self.assert_fails(2, ("already", "re-quantising"), "quantize", small, out, "--to", "compressed-tensors", "--imatrix", self.matrix(TINY))
        report = self.quern_json("quantize", TINY, out, "--to", "compressed-tensors", "--dry-run")
        self.assertEqual(report["bytes"], sum(len(data) for _, _, data in self.tensors(small).values()))
        self.assertFalse(out.exists())


if __name__ == "__main__":
    main()
