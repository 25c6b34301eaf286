#!/usr/bin/env python3
"""Writes plugin-api/REFERENCE.md from the C headers of the plugin ABI: every struct, function and constant, with its comment.

usage: plugin-api/tools/reference.py [--check]
  --check  write nothing; fail if the page is not what would be written"""
import importlib.util
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = ROOT / "plugin-api/include/quern"
PAGE = ROOT / "plugin-api/REFERENCE.md"
ORDER = ("plugin_api", "device", "graph", "plan", "abi", "dtypes", "formats", "ops", "status")  # quern_<name>.h, from the table down


def c_api_reference():
    """The script that writes the page of quern.h: comments become Markdown in the same way."""
    path = ROOT / "runtime/tools/reference.py"
    spec = importlib.util.spec_from_file_location("reference", path)
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    spec.loader.exec_module(module)
    return module


def declarations(text):
    """What a header declares: without its guard, its includes, and the lines for C++."""
    body = re.sub(r"#ifdef __cplusplus\n.*?#endif\n", "", text, flags=re.S)
    body = re.sub(r"^#include .*\n|^#ifndef QUERN_\w+_H\n|^#define QUERN_\w+_H\n", "", body, flags=re.M)
    # Ids and tables of block formats: quern_formats.h itself is read better, and a new one does not change the page.
    body = re.sub(r"/\* Block formats, .*?(?=\n#endif)", "", body, flags=re.S)
    body = re.sub(r"^QUERN_FORMAT_TABLE .*?^\};\n", "", body, flags=re.S | re.M)
    body = re.sub(r"^/\* All of them, in the order of their ids.*\*/\n(#define (.*\\\n)*.*\n)*", "", body, flags=re.M)
    return re.sub(r"#endif\s*$", "", body.rstrip()).strip("\n")


def page():
    api = c_api_reference()
    out = ["<!-- Written by plugin-api/tools/reference.py from the headers in include/quern. Change them, then run it. -->",
           "# The plugin ABI, header by header", "",
           "[CONTRACT.md](CONTRACT.md) has the rules that the comments name like [C12]. [OPS.md](OPS.md) has the ops.",
           "The ids of block formats are in [quern_dtypes.h](include/quern/quern_dtypes.h), their tables in [quern_formats.h](include/quern/quern_formats.h).", "", "| header | declares |", "|---|---|"]
    sections, count = [], 0
    for name in ORDER:
        text = (HEADERS / f"quern_{name}.h").read_text()
        introduction = text[:text.index("#ifndef")]
        title = f"quern_{name}.h"
        found = re.findall(r"^typedef (?:struct|enum) (\w+) \{", text, re.M)
        count += len(found)
        out.append(f"| [{title}](#{title.replace('.', '')}) | {', '.join(f'`{one}`' for one in found) or 'constants'} |")
        sections += ["", f"## {title}", "", api.prose(introduction) if introduction.strip() else ""]
        for comment, code in api.blocks(declarations(text[len(introduction):])):
            if code.strip():
                sections += ["", "```c", code.strip("\n"), "```"]
            if comment:
                sections += ["", api.prose(comment)]
    if count < 15:
        sys.exit(f"plugin-api/tools/reference.py understood {count} structs")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out + sections)) + "\n"


def main():
    text = page()
    if "--check" in sys.argv[1:]:
        if not PAGE.exists() or PAGE.read_text() != text:
            sys.exit(f"{PAGE} is not what the headers say; run plugin-api/tools/reference.py")
        return
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
