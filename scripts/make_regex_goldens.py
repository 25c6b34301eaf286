#!/usr/bin/env python3
"""Makes tests/data/tokenizer/regex.json: the matches that the PyPI package tokenizers (Oniguruma) finds in random strings.

    python3 scripts/make_regex_goldens.py tests/data/tokenizer/regex.json [--strings N] [--seed N]
One entry an expression: the expression, the strings, and for each string the bytes of its pieces, matches and what lies between.
"""

import argparse
import json
import random
import sys

from tokenizers import Regex, pre_tokenizers

import make_piece_goldens as pieces

UPPER, LOWER = pieces.UPPER, pieces.LOWER
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
EXPRESSIONS = {
    "gpt-2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "llama3": pieces.LLAMA3,
    "cl100k": r"(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    "gpt-4o": rf"[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]*[{LOWER}]+{CONTRACTIONS}?|[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]+[{LOWER}]*{CONTRACTIONS}?"
              r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen35": CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "deepseek-v3": r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
                   r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    "kimi-k2": rf"[\p{{Han}}]+|[^\r\n\p{{L}}\p{{N}}]?[{UPPER}&&[^\p{{Han}}]]*[{LOWER}&&[^\p{{Han}}]]+{CONTRACTIONS}?"
               rf"|[^\r\n\p{{L}}\p{{N}}]?[{UPPER}&&[^\p{{Han}}]]+[{LOWER}&&[^\p{{Han}}]]*{CONTRACTIONS}?"
               r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "bloom": r" ?[^(\s|[.,!?…。，、।۔،])]+",
    "numbers from behind": r"\p{N}{1,3}(?=(?:\p{N}{3})*(?:\P{N}|$))",
    "behind": r"(?<=[a-z])(?=[A-Z])|(?<!\s|ab)\d+|(?<=^|[ab])b",
    "words": r"\w+|[^\w\s]+",
    "words of latin": r"\W|[\w]|\w",
    "word bounds": r"\b\w|\B.",
    "lines": r"^.+$|\A\s|\s\Z|\s\z",
    "dot all": r"a(?m:.)b|a.b",
    "lazy": r"a+?b|a*?b?|a{2,3}?|\n+?",
    "intervals": r"a{2}|b{,2}c|d{2,}|[ab]{1,2}+|x{|1{2}?",
    "possessive": r"a++b|[^a]*+a|(?:ab)++c|(?>a|ab)c|(?:ab|a)*+b",
    "loops": r"(?:a*)*b|(?:a|b*)+c|(a|\b)*A|(?:)*",
    "case": r"(?i)kelvin|[k-s]+|\x{e9}|cafe?|(?-i:A)",
    "case of sets": r"(?i:[A-Z\x{10D50}-\x{10D60}\x{A7DC}]x|\p{Lu}y|[^a-z]|σ+)",
    "switch": r"a(?i)b|c",
    "sets": r"[a-c[x-z]]+|[\w&&[^\d_a]]+|[^[a:]&&[^b]]|[\]\-\[]+|[+--]|[a\-z]",
    "scripts": r"\p{Han}+|\p{Hiragana}+|\p{Katakana}+|\p{Hangul}+|\p{Cyrillic}+|\p{Greek}+|\p{Latin}+|\p{Arabic}|\p{Hebrew}|\p{Thai}",
    "categories": r"\p{Lu}+|\p{Ll}+|\p{Lt}|\p{Lm}|\p{Lo}+|\p{Mn}|\p{Mc}|\p{Me}|\p{Nd}|\p{Nl}|\p{No}|\p{Pc}|\p{Pd}|\p{Ps}|\p{Pe}|\p{Pi}|\p{Pf}"
                  r"|\p{Po}|\p{Sm}|\p{Sc}|\p{Sk}|\p{So}|\p{Zs}|\p{Zl}|\p{Zp}|\p{Cc}|\p{Cf}|\p{Cn}|\p{Co}",
    "complements": r"\P{L}+|\p{^Lu}+|[\P{N}&&\p{L}]|\H+",
    "hexadecimal": r"\h+|\u0301|\x41|\t|\e",
    "groups": r"(a)(b)?|((c))|(?#remark)d|(?:e|f|)g",
}
ALPHABETS = pieces.ALPHABETS + [
    "aabbccABxyz", "a\nb\r\nAb ", "kKsS\u212a\u017fEeLVNVin\xe9\xc9\u03c3\u03c2\u03a3\xdf\u1e9e", "ab:[]-+,_^{}1",
    "\u4e00\u3005\u3042\u30a2\u30fc\uac00\u0416\u0394\u0e01\u05d0\u0628\u3400\U00020000\U0002ebf0", "\u200d\ufe0f\U0001f468\u0600\ue000\u0009\x1b\u2028",
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--strings", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    entries = []
    for number, (name, expression) in enumerate(EXPRESSIONS.items()):
        draw = random.Random(arguments.seed * 1000 + number)
        split = pre_tokenizers.Split(Regex(expression), "isolated")
        texts = ["", "abcABC don't I'LL 12345", "  a\n\n b \r\n"]
        while len(texts) < arguments.strings:
            alphabet = "".join(draw.sample(ALPHABETS, draw.randint(1, 4)))
            texts.append("".join(draw.choice(alphabet) for _ in range(draw.randint(1, 24))))
        sizes = [[len(piece.encode()) for piece, _ in split.pre_tokenize_str(text)] for text in texts]
        entries.append({"name": name, "expression": expression, "texts": texts, "pieces": sizes})
    with open(arguments.out, "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries) + "\n]\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
