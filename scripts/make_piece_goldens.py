#!/usr/bin/env python3
"""Makes tests/data/tokenizer/pieces.json: the pieces that the PyPI package tokenizers cuts random strings into.

    python3 scripts/make_piece_goldens.py tests/data/tokenizer/pieces.json [--strings N] [--seed N]
One entry a string: the string, and for each rule the bytes of its pieces.
"""

import argparse
import json
import random
import sys

from tokenizers import Regex, pre_tokenizers

# The expressions of the published tokenizers of these families. Each works on the pieces of the one before.
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
EAST_ASIAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
LETTERS = (
    "A-Za-z\xb5\xc0-\xd6\xd8-\xf6\xf8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377"
    "\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556"
    "\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a"
    "\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4"
    "\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc"
    "\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f"
    "\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b"
    "\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a"
    "\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2"
    "\U000118a0-\U000118df\U0001e900-\U0001e943"
)
RULES = {
    "tekken": [
        rf"[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]*[{LOWER}]+|[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]+[{LOWER}]*|\p{{N}}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ],
    "smaug-bpe": [LLAMA3],
    "deepseek-llm": [r"[\r\n]", rf"\s?[{LETTERS}]+", "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
                     r"\s+$", EAST_ASIAN, r"\p{N}+"],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", EAST_ASIAN, r"\p{N}"],
}
# Characters of every class that an expression asks for, the ends of its ranges, and their neighbours.
ALPHABETS = [
    "aZ'sS1 \n",
    "abcABC",
    " \t\n\r\u3000\xa0\u2003\x85",
    "0129\xb2\u0664\u2167\U0001d7d8",
    ".,!?'\"-/:;<=>@[\\]^_`{|}~$+\u2018\u201f\u3001\u3002\xab\u2026\u20ac\u2603\U0001f600",
    "\xe9\xc9\xdf\u01c5\u02b0\u0294\u0301\u0903\u20dd\u05d0\u0628\u4f60\u597d\u9fa5\u9fa6\u0800\u07ff\uac00\ud7fb\u3042\u30a2\uff21\u0e01",
    "\u1c89\u1c8a\ua7dc\U00010d50\U00010d70\U00010d4e\U000105c0\U0001e5ee\u1b4e\U00016d40\u0378\ufffd",
]


def strings(count, seed):
    draw = random.Random(seed)
    made = ["", "HelloWorld", "caf\xe9 HTMLParser", "don't I'LL", "a  b   \n c ", "x = 12345;\r\n\r\n\treturn", " ", "\n \n"]
    while len(made) < count:
        chosen = draw.sample(ALPHABETS, draw.randint(1, 4))
        alphabet = "".join(chosen)
        made.append("".join(draw.choice(alphabet) for _ in range(draw.randint(1, 28))))
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--strings", type=int, default=160)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rules = {name: pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(e), "isolated") for e in expressions])
             for name, expressions in RULES.items()}
    entries = []
    for text in strings(arguments.strings, arguments.seed):
        cut = {name: [piece for piece, _ in rule.pre_tokenize_str(text)] for name, rule in rules.items()}
        assert all("".join(pieces) == text for pieces in cut.values())
        entries.append({"text": text, **{name: [len(piece.encode()) for piece in pieces] for name, pieces in cut.items()}})
    with open(arguments.out, "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries) + "\n]\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
