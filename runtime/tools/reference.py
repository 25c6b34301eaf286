#!/usr/bin/env python3
"""Writes runtime/REFERENCE.md from runtime/include/quern.h: every function, struct and constant of the C API, with what the header says.

usage: runtime/tools/reference.py [--check]
  --check  write nothing; fail if the page is not what would be written, or if the header leaves something without a word"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = ROOT / "runtime/include/quern.h"
PAGE = ROOT / "runtime/REFERENCE.md"


def prose(comment):
    """A C comment as Markdown: its lines joined, its list kept."""
    lines = [re.sub(r"^\s*\*? ?", "", line).rstrip() for line in comment.strip()[2:-2].split("\n")]
    text = []
    for line in lines:
        item = re.match(r"\s*- ", line)
        if not line.strip():
            text.append("")
        elif text and text[-1] and not item:
            text[-1] += " " + line.strip()
        else:
            text.append(line.strip())
    paragraphs = "\n".join(text).strip()
    paragraphs = re.sub(r'(?<![`"\w])(quern_\w+(?:\(\))?|QUERN_[A-Z0-9_]+(?:_\.\.\.)?)(?![`"\w]|\.h)', r"`\1`", paragraphs)
    return re.sub(r"\n+(?!- )", "\n\n", paragraphs.replace("\n- ", "\n\n- ", 1))


def blocks(section):
    """(comment or None, code) in turn: a comment and the declarations that follow it up to a blank line or the next comment."""
    found, comment, code = [], None, []

    def close():
        if comment or code:
            found.append((comment, "\n".join(code)))

    lines = iter(section.split("\n"))
    depth = 0
    for line in lines:
        if depth == 0 and line.startswith("/*"):
            close()
            comment, code = line, []
            while "*/" not in line:
                line = next(lines)
                comment += "\n" + line
            continue
        if depth == 0 and not line.strip():
            close()
            comment, code = None, []
            continue
        depth += line.count("{") - line.count("}")
        code.append(line)
    close()
    return [(c, k) for c, k in found if c or k.strip()]


def functions(code):
    return re.findall(r"^QUERN_API[^;]*?\b(quern_\w+)\(", code, re.M)


def read_header():
    """The text before the include guard, and (title, blocks) of each section."""
    text = HEADER.read_text()
    introduction = text[:text.index("#ifndef QUERN_H")]
    body = text[text.index('extern "C" {'):text.rindex("#ifdef __cplusplus")]
    parts = re.split(r"^/\* ---- (.+?) -+ \*/$", body, flags=re.M)
    return introduction, [(title.strip(), blocks(section.strip("\n"))) for title, section in zip(parts[1::2], parts[2::2])]


def undocumented(sections):
    """Functions, but those that release, and structs and enums, without a word on or in them."""
    missing = []
    for _, content in sections:
        for comment, code in content:
            if comment or not code:
                continue
            missing += [name for name in functions(code) if not name.endswith("_release")]
            for kind, name in re.findall(r"^typedef (struct|enum) (\w+) \{", code, re.M):
                if "/*" not in code:
                    missing.append(f"{kind} {name}")
    return missing


def page(introduction, sections):
    out = ["<!-- Written by runtime/tools/reference.py from runtime/include/quern.h. Change the header, then run it. -->",
           "# The C API of Quern", "", prose(introduction), ""]
    index = [(name, title) for title, content in sections for _, code in content for name in functions(code)]
    out += ["| function | section |", "|---|---|"]
    anchor = {title: re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title, _ in sections}
    out += [f"| `{name}` | [{title}](#{anchor[title]}) |" for name, title in sorted(index)]
    for title, content in sections:
        out += ["", f"## {title}"]
        for comment, code in content:
            if code.strip():
                out += ["", "```c", code.strip("\n").replace("QUERN_API ", ""), "```"]
            if comment:
                out += ["", prose(comment)]
    return "\n".join(out) + "\n", len(index)


def main():
    introduction, sections = read_header()
    missing = undocumented(sections)
    if missing:
        sys.exit(f"{HEADER}: without a comment: {', '.join(missing)}")
    text, count = page(introduction, sections)
    declared = len(functions(HEADER.read_text()))
    if count != declared or count < 50:
        sys.exit(f"{HEADER}: it declares {declared} functions, and {count} are in its sections")
    if "--check" in sys.argv[1:]:
        if not PAGE.exists() or PAGE.read_text() != text:
            sys.exit(f"{PAGE} is not what the header says; run runtime/tools/reference.py")
        print(f"{count} functions, all documented")
        return
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
