#!/usr/bin/env python3
"""Makes tests/data/tokenizer/sentencepiece: small models of SentencePiece, and the ids and texts that the package gives.

    python3 scripts/train_sentencepiece_models.py tests/data/tokenizer/sentencepiece [--strings N] [--seed N] [--more MODEL ...]
Needs the PyPI packages sentencepiece and protobuf. <name>.model is a model, <name>.json has strings in base64 (some are no UTF-8), their ids,
and the text of the ids that have one. --more adds goldens of further models, and of two with the package's large tables.
"""

import argparse
import base64
import io
import json
import pathlib
import random
import sys
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

import make_regex_goldens as regexes
import tokenizer_texts as texts

UNUSED = 5
# What is replaced by what, as code points: a ligature, full width, a space of another kind, what is left out, what grows.
RULES = "\n".join(["FB01\t66 69", "FF21\t41", "3000\t20", "9\t20", "A\t20", "AD\t", "200B\t", "65 301\tE9", "2460\t31", "FDFA\t635 20 644", "2026\t2E 2E 2E"]) + "\n"
SYMBOLS = ["<tool>", "\u2581\u2581", "mill", "\ufb01x", "a\u3000b"]


def train(rules, **options):
    made = io.BytesIO()
    # The trainer takes one sentence a line, and a rule may stand for the end of it.
    sentences = [line for text in texts.corpus() for line in text.splitlines() if line.strip()]
    settings = {"hard_vocab_limit": False, "minloglevel": 2, "num_threads": 1, "control_symbols": ["<|turn|>"], "user_defined_symbols": SYMBOLS,
                "character_coverage": 0.98, **options}
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as table:
        table.write(RULES)
        table.flush()
        if rules:
            settings["normalization_rule_tsv"] = table.name
        else:
            settings.setdefault("normalization_rule_name", "identity")
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(sentences), model_writer=made, **settings)
    model = sentencepiece_model_pb2.ModelProto.FromString(made.getvalue())
    model.trainer_spec.ClearField("input")
    return model


def with_unused(model):
    """Every seventh piece of several characters is unused, as where a vocabulary was restricted."""
    longer = [piece for piece in model.pieces if piece.type == 1 and len(piece.piece) > 1]
    for piece in longer[::7]:
        piece.type = UNUSED
    return model


def models(large):
    plain = {"add_dummy_prefix": False, "remove_extra_whitespaces": False}
    table = {
        "bpe-llama": train(False, model_type="bpe", vocab_size=1000, byte_fallback=True, split_digits=True, remove_extra_whitespaces=False),
        "bpe-rules": train(True, model_type="bpe", vocab_size=800),
        "bpe-unused": with_unused(train(True, model_type="bpe", vocab_size=900, byte_fallback=True, **plain)),
        "unigram-t5": train(False, model_type="unigram", vocab_size=800),
        "unigram-rules": train(True, model_type="unigram", vocab_size=1000, byte_fallback=True),
        "unigram-plain": train(True, model_type="unigram", vocab_size=800, **plain),
        "unigram-unused": with_unused(train(False, model_type="unigram", vocab_size=1000, byte_fallback=True, split_by_whitespace=False)),
    }
    if large:
        table["bpe-nmt-nfkc"] = train(False, model_type="bpe", vocab_size=900, normalization_rule_name="nmt_nfkc")
        table["unigram-nmt-nfkc-cf"] = train(False, model_type="unigram", vocab_size=900, normalization_rule_name="nmt_nfkc_cf")
    return table


def strings(count, draw):
    alphabets = regexes.ALPHABETS + ["mill <tool> a\u3000b \ufb01x <|turn|> <s> \u2581", "\ufb01\uff21\u2460\xad\u3000e\u0301\u2026\ufdfa\u200b\t\n \ufffd"]
    planned = [text.encode() for text in texts.plain_strings()]
    draw.shuffle(planned)
    made = [b"", b" ", b"   ", b"\xff", b"a\xc3", b"\xf0\x9f a", b"\0", b"\xed\xa0\x80x"] + planned[: count // 3]
    words = [word for group in texts.CORPUS.values() for line in group for word in line.split()]
    while len(made) < count:
        kind = draw.random()
        if kind < 0.4:
            text = " ".join(draw.choice(words) + draw.choice(["", "", " ", ","]) for _ in range(draw.randint(1, 8))).encode()
        elif kind < 0.8:
            alphabet = "".join(draw.sample(alphabets, draw.randint(1, 4)))
            text = "".join(draw.choice(alphabet) for _ in range(draw.randint(1, 24))).encode()
        else:
            text = bytes(draw.choice([draw.randrange(256), draw.randrange(32, 127)]) for _ in range(draw.randint(1, 24)))
        if draw.random() < 0.3:
            at = draw.randint(0, len(text))
            text = text[:at] + draw.choice(["mill", "  ", "<tool>", "\ufb01x", "a\u3000b", "\u2581\u2581"]).encode() + text[at:]
        made.append(text)
    return made[:count]


def goldens(serialized, chosen):
    processor = sentencepiece.SentencePieceProcessor(model_proto=serialized)
    ids = [processor.encode(text) for text in chosen]
    # The package writes unknown tokens as " \u2047 ", and leaves control tokens away. Of several spaces at the start it drops one of each
    # token where it removes extra ones; a decoder that prints token by token drops the first.
    def has_text(one):
        spaces = sum(processor.id_to_piece(i).startswith("\u2581") for i in one[:2])
        return spaces < 2 and not any(processor.is_unknown(i) or processor.is_control(i) for i in one)

    spelled = [processor.decode(one) if has_text(one) else None for one in ids]
    return {"strings": [base64.b64encode(text).decode() for text in chosen], "ids": ids, "decoded": spelled}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--strings", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--more", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    made = {name: model.SerializeToString() for name, model in models(arguments.more is not None).items()}
    made |= {path.name.replace(".", "-"): path.read_bytes() for path in arguments.more or []}
    for number, (name, serialized) in enumerate(made.items()):
        (arguments.out / f"{name}.model").write_bytes(serialized)
        entry = goldens(serialized, strings(arguments.strings, random.Random(arguments.seed * 1000 + number)))
        (arguments.out / f"{name}.json").write_text(json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
