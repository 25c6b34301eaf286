#!/usr/bin/env python3
"""check_headers.py BUILD_FOLDER [NAME...]: compiles each C++ header of the tree by itself, as a file that includes it alone.

A header that needs another one in front of it compiles wherever that is there by chance: in a joined file, behind a precompiled header, behind its
neighbour's includes. The flags are those of the nearest source, from compile_commands.json. Warnings are errors. Part of scripts/test --separate;
tests of plugin-api compile the C headers in every dialect of C and C++.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Headers that are no translation unit by themselves, and why.
NOT_ALONE = {
    "backends/cpu/src/simd/vectors.hpp": "",
}


def nearest(header, sources):
    """The source whose path shares the most folders with the header: a header in include/ is compiled as the sources beside it."""
    parts = [part for part in header.parent.parts if part != "include"]

    def shared(source):
        return len(os.path.commonprefix([parts, [part for part in source.parent.parts if part != "src"], ])), len(
            os.path.commonprefix([header.parent.parts, source.parent.parts])), -len(source.parts)

    return max(sources, key=shared)


def command_for(entry, header):
    """The entry's command with the header's text in place of its source, checked and not compiled."""
    words, command, skip = shlex.split(entry["command"]), [], False
    for word in words:
        if skip:
            skip = False
        elif word in ("-o", "-MF", "-MT", "-MQ"):
            skip = True
        elif word not in ("-c", "-MD", entry["file"], "ccache") and not word.endswith("/ccache"):
            command.append(word)
    return [*command, "-fsyntax-only", "-Werror", "-Wno-unused", "-Wno-unused-function", "-x", "c++", "-"]


def check(header, entry):
    done = subprocess.run(command_for(entry, header), cwd=entry["directory"], text=True, capture_output=True, check=False,
                          input=f'#include "{ROOT / header}"\n#include "{ROOT / header}"\n')
    return "" if done.returncode == 0 else f"{header} does not compile by itself, with the flags of {os.path.relpath(entry['file'], ROOT)}:\n{done.stderr[:2000]}"


def main():
    entries = {}
    for entry in json.loads((pathlib.Path(sys.argv[1]) / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        if path.is_relative_to(ROOT) and path.suffix == ".cpp":
            entries[path.relative_to(ROOT)] = entry
    tracked = subprocess.run(["git", "-C", str(ROOT), "ls-files", "*.hpp"], capture_output=True, text=True, check=True).stdout.split()
    headers = [pathlib.Path(name) for name in sys.argv[2:] or tracked]
    sources = list(entries)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = [text for text in pool.map(lambda header: check(header, entries[nearest(header, sources)]), headers) if text]
    print(*problems, sep="\n")
    print(f"{len(headers)} headers, {len(problems)} problems")
    return 1 if problems or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
