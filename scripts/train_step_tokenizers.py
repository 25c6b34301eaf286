#!/usr/bin/env python3
"""Makes tests/data/tokenizer/steps.json: small tokenizers of every model, normalizer, pre-tokenizer and decoder, and their ids.

    python3 scripts/train_step_tokenizers.py tests/data/tokenizer/steps.json [--strings N] [--seed N]
Needs the PyPI package tokenizers. One entry a tokenizer: its tokenizer.json, and for some strings the ids and the decoded text.
"""

import argparse
import json
import random
import struct
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import make_regex_goldens as regexes
import tokenizer_texts as texts

ADDED = [
    AddedToken("<|word|>", special=True, normalized=False),
    AddedToken("mill", single_word=True, normalized=True),
    AddedToken("<left>", lstrip=True, normalized=False),
    AddedToken("<RIGHT>", rstrip=True, normalized=True),
]
SPECIAL = ["[UNK]", "[CLS]", "[SEP]"]
N, P, D = normalizers, pre_tokenizers, decoders


def charsmap():
    """A table of normalisations as SentencePiece has them: a trie in the form of Darts-clone, one unit a state, and the replacements."""
    table = {"\uff21": "A", "\ufb01": "fi", "e\u0301": "\xe9", "\u3000": " ", "\t": " ", "\xad": "", "\u2460": "1"}
    replacements, values = b"", {}
    for key, value in sorted(table.items()):
        values[key.encode()] = len(replacements)
        replacements += value.encode() + b"\0"
    nodes = {b""}
    for key in values:
        nodes.update(key[: i + 1] for i in range(len(key)))
    # Children of a node lie at its offset xor their byte; every node gets a block of 256 of its own.
    order = sorted(nodes)
    offsets = {node: 256 * (i + 1) for i, node in enumerate(order)}
    units = [0] * (256 * (len(order) + 2))

    def offset_bits(position, target):
        relative = position ^ target
        return (relative >> 8) << 10 | 1 << 9 if relative >= 1 << 21 else relative << 10

    places = {b"": 0}
    for node in order:
        if node:
            places[node] = offsets[node[:-1]] ^ node[-1]
    for node in order:
        leaf = (1 << 8) if node in values else 0
        label = node[-1] if node else 0
        units[places[node]] = label | leaf | offset_bits(places[node], offsets[node])
        if leaf:
            units[offsets[node]] = values[node] | 1 << 31
    trie = b"".join(struct.pack("<I", unit) for unit in units)
    return struct.pack("<I", len(trie)) + trie + replacements


def tokenizer(model, trainer, normalizer=None, pre_tokenizer=None, decoder=None, added=True):
    made = Tokenizer(model)
    if normalizer:
        made.normalizer = normalizer
    if pre_tokenizer:
        made.pre_tokenizer = pre_tokenizer
    if decoder:
        made.decoder = decoder
    made.train_from_iterator(texts.corpus(), trainer)
    parts = json.loads(made.to_str())  # byte tokens belong to the vocabulary alone
    parts["added_tokens"] = [token for token in parts["added_tokens"] if not token["content"].startswith("<0x")]
    made = Tokenizer.from_str(json.dumps(parts))
    if added:
        made.add_tokens(ADDED)
    return made


def bpe(size=300, **options):
    prefix, suffix = options.get("continuing_subword_prefix"), options.get("end_of_word_suffix")
    extra = {key: value for key, value in (("continuing_subword_prefix", prefix), ("end_of_word_suffix", suffix)) if value}
    special = SPECIAL + ([f"<0x{i:02X}>" for i in range(256)] if options.get("byte_fallback") else [])
    return models.BPE(**options), trainers.BpeTrainer(vocab_size=size + len(special), special_tokens=special, show_progress=False,
                                                       limit_alphabet=100, **extra)


def byte_bpe(size=360):
    return models.BPE(), trainers.BpeTrainer(vocab_size=size, show_progress=False, initial_alphabet=P.ByteLevel.alphabet())


def unigram(size=800):
    return models.Unigram(), trainers.UnigramTrainer(vocab_size=size, show_progress=False, unk_token="[UNK]", special_tokens=SPECIAL)


def word_piece(size=330):
    return models.WordPiece(unk_token="[UNK]"), trainers.WordPieceTrainer(vocab_size=size, show_progress=False, special_tokens=SPECIAL,
                                                                            limit_alphabet=100)


def word_level(size=200):
    return models.WordLevel(unk_token="[UNK]"), trainers.WordLevelTrainer(vocab_size=size, show_progress=False, special_tokens=SPECIAL)


def tokenizers():
    split = lambda pattern, behavior, invert=False: P.Split(pattern, behavior, invert)
    expressions = regexes.EXPRESSIONS
    byte_level = P.ByteLevel(add_prefix_space=False, use_regex=False)
    table = {
        "bytes-gpt4o": (byte_bpe(), None, P.Sequence([split(Regex(expressions["gpt-4o"]), "isolated"), byte_level]), D.ByteLevel()),
        "bytes-prefix-nfkc": (byte_bpe(), N.NFKC(), P.ByteLevel(add_prefix_space=True), D.ByteLevel()),
        "bytes-deepseek-v3": (byte_bpe(), None, P.Sequence([split(Regex(r"\p{N}{1,3}"), "isolated"), split(Regex("[\u4e00-\u9fa5\u3040-\u309f]+"), "isolated"),
                              split(Regex(expressions["deepseek-v3"]), "isolated"), byte_level]), D.ByteLevel()),
        "bytes-then-digits": (bpe(unk_token="[UNK]"), N.NFD(), P.Sequence([P.ByteLevel(add_prefix_space=False), P.Digits(True)]), D.ByteLevel()),
        "bytes-normalizer": (bpe(unk_token="[UNK]"), N.Sequence([N.NFC(), N.ByteLevel()]), None, D.ByteLevel()),
        "bpe-metaspace": (bpe(unk_token="[UNK]", fuse_unk=True), None, P.Metaspace(), D.Metaspace()),
        "bpe-fallback": (bpe(byte_fallback=True, unk_token="[UNK]"), N.Sequence([N.Prepend("\u2581"), N.Replace(" ", "\u2581")]), None,
                         D.Sequence([D.Replace("\u2581", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])),
        "bpe-affixes": (bpe(unk_token="[UNK]", continuing_subword_prefix="##", end_of_word_suffix="</w>"), N.Lowercase(), P.Whitespace(), D.BPEDecoder()),
        "bpe-digits": (bpe(unk_token="[UNK]"), N.StripAccents(), P.Sequence([P.WhitespaceSplit(), P.Digits(False)]), D.Fuse()),
        "bpe-no-unknown": (bpe(), N.Nmt(), P.Metaspace(prepend_scheme="first", split=True), D.Metaspace(prepend_scheme="first")),
        "unigram-metaspace": (unigram(), N.Sequence([N.Nmt(), N.NFKC(), N.Replace(Regex(" {2,}"), " ")]), P.Metaspace(), D.Metaspace()),
        "unigram-never": (unigram(), N.Strip(), P.Metaspace(prepend_scheme="never", split=False), D.Metaspace(prepend_scheme="never")),
        "unigram-charsmap": (unigram(), N.Precompiled(charsmap()), P.Sequence([P.WhitespaceSplit(), P.Metaspace()]), D.Metaspace()),
        "unigram-whole": (unigram(), N.Sequence([N.Strip(True, False), N.NFKD()]), P.Punctuation(), None),
        "wordpiece-bert": (word_piece(), N.BertNormalizer(), P.BertPreTokenizer(), D.WordPiece()),
        "wordpiece-cased": (word_piece(), N.BertNormalizer(True, True, False, False), P.BertPreTokenizer(), D.WordPiece(cleanup=False)),
        "wordpiece-delimiter": (word_piece(), None, P.CharDelimiterSplit("a"), D.WordPiece()),
        "wordlevel": (word_level(), N.Lowercase(), P.Whitespace(), None),
        "wordlevel-punctuation": (word_level(), N.Replace(Regex("[aeiou]"), "*"), P.Sequence([P.WhitespaceSplit(), P.Punctuation("merged_with_next")]), D.CTC()),
    }
    for name, behavior, invert, pattern in [
        ("removed", "removed", False, " "), ("isolated", "isolated", False, Regex(r"\s+")), ("with-previous", "merged_with_previous", False, Regex("[,.;]")),
        ("with-next", "merged_with_next", False, Regex(r"\s")), ("contiguous", "contiguous", False, Regex("[aeiou]")),
        ("inverted", "removed", True, Regex(r"\w+")), ("inverted-next", "merged_with_next", True, Regex(r"\w")),
    ]:
        table["split-" + name] = (word_piece(250), None, split(pattern, behavior, invert), D.WordPiece())
    return {name: tokenizer(*parts[0], *parts[1:]) for name, parts in table.items()}


def strings(count, draw):
    alphabets = regexes.ALPHABETS + ["mill <left> <RIGHT> <right> <|word|>", "\ufb01\uff21\u2460\xad\u3000e\u0301\u0130\u1e9e\ufffd\u200b"]
    planned = texts.plain_strings() + ["the mill, a mill.mill windmill", "a <left> b <RIGHT>  c", "x  <right> y<|word|>  z", "MILL Mill m\u0131ll mi\u0301ll"]
    draw.shuffle(planned)
    made = planned[: count // 2]
    words = [word for group in texts.CORPUS.values() for line in group for word in line.split()]
    while len(made) < count:
        if draw.random() < 0.4:
            made.append(" ".join(draw.choice(words) for _ in range(draw.randint(1, 8))))
        else:
            alphabet = "".join(draw.sample(alphabets, draw.randint(1, 4)))
            made.append("".join(draw.choice(alphabet) for _ in range(draw.randint(1, 24))))
        if draw.random() < 0.3:
            made[-1] += draw.choice(["mill", " mill ", "<left>", " <RIGHT> ", "<|word|>", "  <left>  "]) + draw.choice(["", "x", " ", "."])
        if draw.random() < 0.1:
            code = draw.randrange(0x110000)
            made[-1] += "" if 0xD800 <= code < 0xE000 else chr(code)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--strings", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    lines = []
    for number, (name, made) in enumerate(tokenizers().items()):
        chosen = strings(arguments.strings, random.Random(arguments.seed * 1000 + number))
        ids = [made.encode(text, add_special_tokens=False).ids for text in chosen]
        entry = {"name": name, "tokenizer": json.loads(made.to_str()), "strings": chosen, "ids": ids,
                 "decoded": [made.decode(one, skip_special_tokens=False) for one in ids]}
        lines.append(json.dumps(entry, ensure_ascii=False, separators=(",", ":")))
    with open(arguments.out, "w") as file:
        file.write("[\n" + ",\n".join(lines) + "\n]\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
