#!/usr/bin/env python3
"""Makes tests/data/tokenizer: small vocabularies as GGUF files, and what the reference libraries do with them.

Needs the PyPI packages tokenizers, sentencepiece, protobuf and gguf. Run from the root of the tree:
    python3 scripts/train_tokenizers.py tests/data/tokenizer
Each <name>.gguf holds a vocabulary only. golden.json holds strings and, for each vocabulary, their ids:
    plain     by the reference library, without markers in the text
    markers   with control and user-defined tokens in the text
    unparsed  the same strings where the names of control tokens are plain text
"""

import argparse
import io
import json
import pathlib
import re

import gguf
import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from sentencepiece import sentencepiece_model_pb2

import tokenizer_texts as texts

CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
USER_DEFINED = "<tool_call>"
NORMAL, UNKNOWN, CONTROL_TYPE, USER_TYPE, UNUSED, BYTE = 1, 2, 3, 4, 5, 6

# The expressions of the published tokenizers of these families.
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")

LLAMA3_ONLY_WHOLE = "\u0120millpond"  # a token that no merge makes: taken only where whole pieces are looked up first


def byte_level(use_regex):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), byte_level(False)])


PRE_TOKENIZERS = {
    "gpt-2": (None, byte_level(True)),
    "smollm": (None, pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level(True)])),
    "llama-bpe": (None, split(LLAMA3)),
    "qwen2": (normalizers.NFC(), split(QWEN2)),
}


def train_byte_level(name, vocab_size):
    normalizer, pre_tokenizer = PRE_TOKENIZERS[name]
    tokenizer = Tokenizer(models.BPE())
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=CONTROL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts.corpus(), trainer)
    tokenizer.add_tokens([AddedToken(USER_DEFINED, normalized=False)])
    if name == "llama-bpe":
        state = json.loads(tokenizer.to_str())
        state["model"]["ignore_merges"] = True
        user_defined = state["added_tokens"].pop()
        state["model"]["vocab"][LLAMA3_ONLY_WHOLE] = user_defined["id"]
        tokenizer = Tokenizer.from_str(json.dumps(state))
        tokenizer.add_tokens([AddedToken(USER_DEFINED, normalized=False)])
        assert LLAMA3_ONLY_WHOLE in tokenizer.encode(" millpond").tokens
    return tokenizer


def writer_for(path, model):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    return writer


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def write_byte_level(tokenizer, pre, path):
    state = json.loads(tokenizer.to_str())
    tokens = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]
    kinds = {**{t: CONTROL_TYPE for t in CONTROL}, USER_DEFINED: USER_TYPE}
    writer = writer_for(path, "gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([kinds.get(t, NORMAL) for t in tokens])
    writer.add_token_merges([" ".join(pair) for pair in state["model"]["merges"]])
    writer.add_bos_token_id(tokens.index("<|im_start|>"))
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_add_bos_token(False)
    finish(writer)


def byte_level_goldens(tokenizer, plain, markers):
    def ids(strings):
        return [tokenizer.encode(s, add_special_tokens=False).ids for s in strings]

    result = {"plain": ids(plain), "markers": ids(markers)}
    tokenizer.encode_special_tokens = True
    result["unparsed"] = ids(markers)
    tokenizer.encode_special_tokens = False
    return result


def train_sentencepiece(vocab_size, **options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(line for text in texts.corpus() for line in text.splitlines()),
        model_writer=model, model_type="bpe", vocab_size=vocab_size, normalization_rule_name="identity",
        control_symbols=CONTROL, user_defined_symbols=[USER_DEFINED, "\u2581\u2581", "mill"], minloglevel=2,
        num_threads=1, **options)
    return sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())


def mark_unused(proto, every):
    """Marks every n-th piece that merges make as unused, so that it is taken apart again."""
    made = [p for p in proto.pieces if p.type == NORMAL and len(p.piece) > 1]
    for piece in made[::every]:
        piece.type = UNUSED


def write_sentencepiece(proto, path):
    writer = writer_for(path, "llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([p.piece for p in proto.pieces])
    writer.add_token_scores([p.score for p in proto.pieces])
    writer.add_token_types([p.type for p in proto.pieces])
    pieces = [p.piece for p in proto.pieces]
    writer.add_unk_token_id(pieces.index("<unk>"))
    writer.add_bos_token_id(pieces.index("<s>"))
    writer.add_eos_token_id(pieces.index("</s>"))
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(proto.normalizer_spec.add_dummy_prefix)
    writer.add_bool("tokenizer.ggml.remove_extra_whitespaces", proto.normalizer_spec.remove_extra_whitespaces)
    finish(writer)


def as_fast_tokenizer(proto, strips):
    """The same model in the tokenizers library, as published tokenizer.json files of Llama 2 and Phi-3 hold it.

    It says what sentencepiece cannot: what happens around control tokens in a text. `strips` are the control tokens
    that swallow the white space after them.
    """
    ranks = {p.piece: i for i, p in enumerate(proto.pieces) if p.type in (NORMAL, USER_TYPE, UNUSED)}
    merges = []
    for piece in proto.pieces:
        if piece.type != NORMAL:
            continue
        text = piece.piece
        pairs = [(text[:i], text[i:]) for i in range(1, len(text)) if text[:i] in ranks and text[i:] in ranks]
        pairs.sort(key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))
        merges += [(piece.score, pair) for pair in pairs]
    merges = [pair for _, pair in sorted(merges, key=lambda m: m[0], reverse=True)]
    vocab = {p.piece: i for i, p in enumerate(proto.pieces)}
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.add_special_tokens(
        [AddedToken(t, normalized=False, special=True, rstrip=t in strips) for t in ["<s>", "</s>", *CONTROL]])
    return tokenizer


def sentencepiece_goldens(proto, plain, markers):
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
    result = {"plain": [processor.encode(s) for s in plain], "decoded": [processor.decode(processor.encode(s)) for s in plain]}
    result["unparsed"] = [processor.encode(s) for s in markers]
    spec = proto.normalizer_spec
    if proto.trainer_spec.byte_fallback and spec.add_dummy_prefix and not spec.remove_extra_whitespaces:
        # No user-defined token in these: the two libraries treat those differently.
        own = [p.piece for p in proto.pieces if p.type == USER_TYPE]

        def is_plain(text):
            segments = ["\u2581" + s.replace(" ", "\u2581") for s in re.split("|".join(map(re.escape, CONTROL)), text)]
            return not any(u in s for u in own for s in segments)

        usable = [s for s in markers if is_plain(s)]
        for key, strips in (("markers", []), ("stripped", ["</s>", "<|im_start|>", "<|im_end|>"])):
            fast = as_fast_tokenizer(proto, strips)
            result[key] = {s: fast.encode(s, add_special_tokens=False).ids for s in usable}
        for s in plain:
            if is_plain(s):
                assert fast.encode(s).ids == processor.encode(s), f"the reference libraries disagree on {s!r}"
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    out = parser.parse_args().out
    plain, markers = texts.plain_strings(), texts.MARKERS
    golden = {"plain_strings": plain, "marker_strings": markers, "models": {}}
    for name in PRE_TOKENIZERS:
        tokenizer = train_byte_level(name, vocab_size=1600)
        write_byte_level(tokenizer, name, out / f"{name}.gguf")
        golden["models"][name] = byte_level_goldens(tokenizer, plain, markers)
    variants = {
        "sentencepiece": dict(vocab_size=1200, byte_fallback=True, remove_extra_whitespaces=False),
        "sentencepiece-unk": dict(vocab_size=900, byte_fallback=False, remove_extra_whitespaces=True, character_coverage=0.98),
        "sentencepiece-unused": dict(vocab_size=1000, byte_fallback=True, remove_extra_whitespaces=True, add_dummy_prefix=False),
    }
    for name, options in variants.items():
        proto = train_sentencepiece(**options)
        if name == "sentencepiece-unused":
            mark_unused(proto, every=3)
        write_sentencepiece(proto, out / f"{name}.gguf")
        golden["models"][name] = sentencepiece_goldens(proto, plain, markers)
    with open(out / "golden.json", "w", encoding="ascii", newline="\n") as file:
        json.dump(golden, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
