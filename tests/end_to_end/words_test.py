"""What a vocabulary file may leave out or hold, as a user meets it: rules of pre-tokenizers, chat templates, messages."""

import json
import pathlib
import struct

from harness import Case, main

# The byte alphabet of GPT-2: 256 tokens that spell one byte each.
SHOWN = [*range(33, 127), *range(161, 173), *range(174, 256)]
LETTER = {b: chr(b) for b in SHOWN}
LETTER.update({b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in LETTER)})
TOKENS = ["<|end|>", "<|im_start|>", "<|im_end|>", *(LETTER[b] for b in range(256)), "12"]
STRING, ARRAY, U32, I32, BOOL = 8, 9, 4, 5, 7
CHATML = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"


def packed(kind, value):
    if kind == STRING:
        raw = value.encode()
        return struct.pack("<Q", len(raw)) + raw
    if kind == ARRAY:
        return struct.pack("<IQ", value[0], len(value[1])) + b"".join(packed(value[0], one) for one in value[1])
    return struct.pack({U32: "<I", I32: "<i", BOOL: "<?"}[kind], value)


def model(folder, name="model.gguf", architecture="llama", **changes):
    """A file with a vocabulary and no weights. A key whose value is None is left out."""
    keys = {
        "general.architecture": (STRING, architecture), f"{architecture}.context_length": (U32, 64),
        f"{architecture}.block_count": (U32, 1), f"{architecture}.embedding_length": (U32, 32),
        "tokenizer.ggml.model": (STRING, "gpt2"), "tokenizer.ggml.pre": (STRING, "gpt-2"),
        "tokenizer.ggml.tokens": (ARRAY, (STRING, TOKENS)),
        "tokenizer.ggml.token_type": (ARRAY, (I32, [3, 3, 3] + [1] * (len(TOKENS) - 3))),
        "tokenizer.ggml.merges": (ARRAY, (STRING, ["1 2"])), "tokenizer.ggml.bos_token_id": (U32, 1),
        "tokenizer.ggml.eos_token_id": (U32, 2), "tokenizer.ggml.add_bos_token": (BOOL, False),
    }
    keys.update({key.replace("__", "."): value for key, value in changes.items()})
    keys = {key: value for key, value in keys.items() if value is not None}
    path = pathlib.Path(folder) / name
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys)) + b"".join(
        packed(STRING, key) + struct.pack("<I", kind) + packed(kind, value) for key, (kind, value) in keys.items()))
    return path


class Words(Case):
    def templated(self, source):
        return model(self.folder, tokenizer__chat_template=(STRING, source))

    def rendered(self, path, messages):
        return self.quern_json("tokenize", path, "--messages", "-", stdin=json.dumps(messages).encode())["text"]

    def test_another_name_of_a_rule_gives_its_ids(self):
        ids = {pre: self.quern_json("tokenize", model(self.folder, tokenizer__ggml__pre=(STRING, pre)), "a 12")["ids"]
               for pre in ("qwen2", "deepseek-r1-qwen", "megrez", "gpt-2", "mellum", "tekken", "deepseek-coder", "smaug-bpe")}
        self.assertEqual(ids["deepseek-r1-qwen"], ids["qwen2"])
        self.assertEqual(ids["megrez"], ids["qwen2"])
        self.assertEqual(ids["mellum"], ids["gpt-2"])
        self.assertEqual(len(ids["qwen2"]), len(ids["tekken"]))
        self.assertEqual(len(ids["gpt-2"]) + 1, len(ids["deepseek-coder"]))

    def test_a_file_without_a_rule_gets_one_with_a_warning_and_another_when_it_is_asked_for(self):
        path = model(self.folder, tokenizer__ggml__pre=None)
        result = self.quern("tokenize", path, "12")
        self.assertEqual(result.code, 0)
        self.assertEqual(result.out.split(), [b"259"])
        self.assertIn("warning", result.err)
        self.assertIn("tokenizer.ggml.pre is missing; the rule 'default'", result.err)
        self.assertEqual(self.quern("tokenize", path, "12", "--log", "error").err, "")
        self.assertIn(b"the rule 'default'", self.quern("show", path).out)
        self.assertEqual(len(self.quern_json("show", path)["warnings"]), 1)
        chosen = self.quern("tokenize", path, "12", "--tokenizer-pre", "qwen2")
        self.assertEqual(len(chosen.out.split()), 2)
        self.assertEqual(chosen.err, "")
        self.assert_fails(2, "nonsense", "tokenize", path, "12", "--tokenizer-pre", "nonsense")

    def test_the_token_behind_a_text_is_added_where_the_file_says_so_and_not_behind_a_chat(self):
        path = model(self.folder, tokenizer__ggml__add_eos_token=(BOOL, True), tokenizer__chat_template=(STRING, CHATML))
        plain = self.quern_json("tokenize", path, "12")["ids"]
        self.assertEqual(plain, [259, 2])
        self.assertEqual(self.quern_json("tokenize", path, "12", "--no-eos")["ids"], [259])
        self.assertEqual(self.quern_json("tokenize", path, "")["ids"], [])
        chat = self.quern_json("tokenize", path, "--messages", "-", stdin=b'[{"role": "user", "content": "12"}]')
        self.assertNotEqual(chat["ids"][-1], 2)

    def test_a_filter_that_no_message_reaches_is_no_matter(self):
        source = ("{% for m in messages %}{% if m.tool_calls is defined %}{{ m.tool_calls | from_json }}{% endif %}"
                  "[{{ m.role }}] {{ m.content }}\n{% endfor %}")
        path = self.templated(source)
        self.assertEqual(self.rendered(path, [{"role": "user", "content": "hi"}]), "[user] hi\n")
        called = [{"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}]
        self.assert_fails(4, "filter 'from_json' is not offered", "tokenize", path, "--messages", "-",
                          stdin=json.dumps(called).encode())

    def test_a_format_is_filled_in(self):
        path = self.templated("{% for m in messages %}{{ '<{}|{n}>'.format(m.role, n=loop.index) }}{{ m.content }}{% endfor %}")
        self.assertEqual(self.rendered(path, [{"role": "user", "content": "hi"}]), "<user|1>hi")

    def test_messages_may_have_parts_names_and_an_object_around_them(self):
        path = self.templated(CHATML)
        parts = [{"role": "user", "name": "ann", "content": [{"type": "text", "text": "hi "}, {"type": "text", "text": "abc"}]}]
        self.assertEqual(self.rendered(path, parts), "[user] hi abc\n")
        self.assertEqual(self.rendered(path, {"messages": parts}), "[user] hi abc\n")
        image = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]
        self.assert_fails(4, "type 'image_url'", "tokenize", path, "--messages", "-", stdin=json.dumps(image).encode())

    def test_a_template_that_is_empty_or_reads_no_message_is_refused(self):
        chat = b'[{"role": "user", "content": "hi"}]'
        for source in ("", " \n"):
            self.assert_fails(4, "empty", "tokenize", self.templated(source), "--messages", "-", stdin=chat)
        self.assert_fails(4, "puts the text of no message", "tokenize", self.templated("<|im_start|>assistant\n"), "--messages", "-",
                          stdin=chat)

    def test_an_architecture_that_is_not_known_is_named_before_the_lack_of_a_template_and_whole(self):
        path = model(self.folder, architecture="gemma3")
        for verb in (("run", path, "hi"), ("run", path, "--raw", "hi"), ("eval", path, path)):
            self.assert_fails(4, "architecture", *verb)
        shown = self.quern("show", path).out.decode()
        self.assertIn("this version runs llama", shown)


if __name__ == "__main__":
    main()
