#!/usr/bin/env python3
"""Fails where a document has sentences that a reader has to decode: one longer than MOST_WORDS, or a median above MOST_MEDIAN.

    check_prose.py [FILE...]      default: every Markdown file of the tree but EXEMPT, and every man page

A sentence ends at . ! ? : or ; before a capital letter, a code span, a parenthesis or a quotation; an item of a list begins one. Tables, headings
and code are left out. Run it on one file to see its longest sentences.
"""
import pathlib
import re
import sys

from tree_pages import pages

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_WORDS = 35
MOST_MEDIAN = 15
# Notes of the laboratory are kept as they were written. The changelog is of its days. References are made from headers.
EXEMPT = re.compile(r"docs/lab/(?!README)|CHANGELOG\.md$|(?:runtime|plugin-api)/REFERENCE\.md$")
# Pages whose median is still higher, with what it is. A number here may only fall.
HIGHER_MEDIAN = {"runtime/COMMANDS.md": 20}


def paragraphs(text):
    """(first line, text) of each paragraph and item."""
    fenced, start, part = False, 0, []
    for number, line in enumerate(text.split("\n") + [""], 1):
        opens = line.lstrip().startswith("```")
        item = re.match(r"\s*(?:[-*]|\d+\.)\s+", line)
        fenced ^= opens
        body = "" if fenced or opens or re.match(r"\s*(?:\||#|<!--)", line) else re.sub(r"^\s*(?:[-*]|\d+\.)\s+", "", line).strip()
        if (not body or item) and part:
            yield start, " ".join(part)
            part = []
        if body:
            start = start if part else number
            part.append(body)


def prose_of_man_page(source):
    """The running text of a man page as Markdown, line by line. Synopses, examples and the heads of options are left out."""
    lines, example, head, section = [], False, False, ""
    for line in source.split("\n"):
        name, _, rest = line.partition(" ")
        if name in (".nf", ".EX", ".TS", ".fi", ".EE", ".TE"):
            example = name in (".nf", ".EX", ".TS")
        joined = "".join(re.findall(r'"[^"]*"|\S+', rest)) if name in (".BR", ".RB", ".BI", ".IB", ".IR", ".RI") else rest  # as troff sets them
        plain = re.sub(r'\\f[A-Z]|\\&|"', "", joined if name.startswith(".") else line).replace("\\-", "-")
        if name in (".SH", ".SS"):
            section = plain.strip()
        breaks = name in (".SH", ".SS", ".PP", ".P", ".IP", ".br", ".TH")
        shown = not name.startswith(".") or name in (".B", ".I", ".BR", ".RB", ".BI", ".IB", ".IR", ".RI")
        text = shown and not example and not head and not breaks and section not in ("NAME", "SYNOPSIS", "")
        lines.append(plain.strip() if text else "")
        if name == ".TP":
            head = True
        elif head and name != ".TQ":
            head = False
    return "\n".join(lines)


def sentences(text):
    """[(words, line, sentence)]"""
    found = []
    for line, paragraph in paragraphs(text):
        for sentence in re.split(r"(?<=[.!?:;])\s+(?=[A-Z`(*\"])", paragraph):
            found.append((len(sentence.split()), line, sentence))
    return found


def problems(name, text):
    found = sentences(text)
    for words, line, sentence in sorted(found, reverse=True):
        if words > MOST_WORDS and not sentence.startswith("JSON"):  # a list of an object's members
            yield f"{name}:{line}: {words} words, at most {MOST_WORDS}: {sentence[:90]}"
    lengths = sorted(words for words, _, _ in found)
    median = lengths[len(lengths) // 2] if lengths else 0
    most = HIGHER_MEDIAN.get(name, MOST_MEDIAN)
    if median > most:
        yield f"{name}: a median of {median} words a sentence, at most {most}"


def prove_that_it_can_fail():
    long = "A sentence " + "of many words " * 12 + "ends."
    assert [p for p in problems("a", long) if "words, at most" in p]
    assert [p for p in problems("a", "One two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen.") if "median" in p]
    assert not list(problems("a", "```\n" + long + "\n```\n| " + long + " |\n# " + long))
    assert [p for p in problems("a", prose_of_man_page(".SH OPTIONS\n.TP\n.BI \\-\\-flag \" N\"\n" + long)) if "words, at most" in p and ":4:" in p]
    page = ".SH USE\nA\n.B word\nand\n.BR one (1)\n.TP\n.B head\nmore.\n.EX\nquern\n.EE\n"
    assert sentences(prose_of_man_page(page)) == [(4, 2, "A word and one(1)"), (1, 8, "more.")]
    assert len(sentences("- one two\n- three\n\nFour. Five; Six.")) == 5


def main():
    prove_that_it_can_fail()
    names = sys.argv[1:] or [name for name in pages(ROOT) if not EXEMPT.match(name)]
    if not sys.argv[1:]:
        names += sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "packaging/man").glob("*.1"))
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in names}
    found = [problem for name, text in texts.items() for problem in problems(name, prose_of_man_page(text) if name.endswith(".1") else text)]
    print("".join(problem + "\n" for problem in found), end="")
    print(f"{len(names)} pages, {len(found)} problems")
    return 1 if found or not names else 0


if __name__ == "__main__":
    sys.exit(main())
