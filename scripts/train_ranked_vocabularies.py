#!/usr/bin/env python3
"""Makes tests/data/tokenizer/ranked: small vocabularies of ranked tokens, and the ids that their packages give.

    python3 scripts/train_ranked_vocabularies.py tests/data/tokenizer/ranked [--strings N] [--seed N] [--more FILE ...]
Needs the PyPI packages tokenizers, tiktoken and mistral-common. A folder each: tekken.json, or words.tiktoken with tokenizer_config.json, and
golden.json with strings, their ids and the text of the ids. --more adds folders of larger files (tekken.json, or *.tiktoken with Qwen's rule).
"""

import argparse
import base64
import json
import pathlib
import random
import shutil
import sys

import tiktoken
from mistral_common.tokens.tokenizers.tekken import Tekkenizer
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

import make_regex_goldens as regexes
import tokenizer_texts as texts

QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LETTERS = r"\p{L}+|\p{N}{1,2}"  # what it does not match is left out
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
          r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def alphabet():
    """The bytes that the characters of byte-level vocabularies stand for."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + i): byte for i, byte in enumerate(rest)}


def trained_tokens(count):
    """Single bytes in their order, then tokens of several bytes, the first merge first."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=256 + count, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator(texts.corpus(), trainer)
    byte_of = alphabet()
    spelled = sorted(made.get_vocab().items(), key=lambda item: item[1])
    longer = [bytes(byte_of[c] for c in text) for text, _ in spelled if len(text) > 1]
    return [bytes([byte]) for byte in range(256)] + longer


def shuffled(tokens, draw):
    """Ranks that no training gives: some tokens come about by no merge, or by later ones."""
    longer = tokens[256:]
    draw.shuffle(longer)
    return tokens[:256] + longer


def strings(count, draw):
    planned = texts.plain_strings()
    draw.shuffle(planned)
    made = ["", " "] + planned[: count // 3]
    words = [word for group in texts.CORPUS.values() for line in group for word in line.split()]
    while len(made) < count:
        if draw.random() < 0.4:
            made.append(" ".join(draw.choice(words) for _ in range(draw.randint(1, 8))))
        else:
            chosen = "".join(draw.sample(regexes.ALPHABETS, draw.randint(1, 4)))
            made.append("".join(draw.choice(chosen) for _ in range(draw.randint(1, 24))))
    return made[:count]


def write_tiktoken(folder, tokens, expression, special):
    lines = [b"%s %d" % (base64.b64encode(token), rank) for rank, token in enumerate(tokens)]
    (folder / "words.tiktoken").write_bytes(b"\n".join(lines) + b"\n")
    added = {str(number): {"content": text, "special": True} for text, number in special.items()}
    config = {"pat_str": expression, "added_tokens_decoder": added}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")
    ranks = {token: rank for rank, token in enumerate(tokens)}
    return tiktoken.Encoding(folder.name, pat_str=expression, mergeable_ranks=ranks, special_tokens=special)


def write_tekken(folder, tokens, special, version):
    vocabulary = [{"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None} for rank, token in enumerate(tokens)]
    count, unused = 30, 20  # the last tokens are beyond the vocabulary's size
    config = {"pattern": TEKKEN, "num_vocab_tokens": len(tokens), "default_vocab_size": len(tokens) - unused + count,
              "default_num_special_tokens": count, "version": version}
    whole = {"config": config, "vocab": vocabulary}
    if special:
        whole["special_tokens"] = [{"rank": rank, "token_str": text, "is_control": True} for rank, text in enumerate(special)]
    (folder / "tekken.json").write_text(json.dumps(whole, separators=(",", ":")).replace('{"rank"', '\n{"rank"') + "\n")
    return Tekkenizer.from_file(folder / "tekken.json")


def write_golden(folder, encode, decode, chosen):
    ids = [encode(text) for text in chosen]
    entry = {"strings": chosen, "ids": ids, "decoded": [decode(one) for one in ids]}
    (folder / "golden.json").write_text(json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--strings", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--more", nargs="*", type=pathlib.Path, default=[])
    arguments = parser.parse_args()
    shutil.rmtree(arguments.out, ignore_errors=True)
    tokens = trained_tokens(400)

    def folder(name):
        made = arguments.out / name
        made.mkdir(parents=True)
        return made, strings(arguments.strings, random.Random(f"{arguments.seed} {name}"))

    special = {"<|endoftext|>": len(tokens), "<|im_start|>": len(tokens) + 5}
    for name, ranked, expression in [("tiktoken-qwen2", tokens, QWEN2), ("tiktoken-letters", tokens, LETTERS),
                                     ("tiktoken-shuffled", shuffled(tokens, random.Random(2)), QWEN2)]:
        made, chosen = folder(name)
        encoding = write_tiktoken(made, ranked, expression, special)
        write_golden(made, encoding.encode_ordinary, encoding.decode, chosen)
    for name, own, version in [("tekken-v3", None, "v3"), ("tekken-v13", ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[THINK]"], "v13")]:
        made, chosen = folder(name)
        tekken = write_tekken(made, tokens, own, version)
        write_golden(made, lambda text: tekken.encode(text, bos=False, eos=False), lambda ids: tekken.decode(ids), chosen)
    for path in arguments.more:
        made, chosen = folder(path.stem)
        if path.suffix == ".json":
            shutil.copy(path, made / "tekken.json")
            tekken = Tekkenizer.from_file(path)
            write_golden(made, lambda text: tekken.encode(text, bos=False, eos=False), lambda ids: tekken.decode(ids), chosen)
        else:
            ranked = [base64.b64decode(line.split()[0]) for line in path.read_bytes().splitlines() if line]
            encoding = write_tiktoken(made, ranked, QWEN2, {})
            write_golden(made, encoding.encode_ordinary, encoding.decode, chosen)
    return 0


if __name__ == "__main__":
    sys.exit(main())
