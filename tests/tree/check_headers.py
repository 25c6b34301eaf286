#!/usr/bin/env python3
"""check_headers.py BUILD_FOLDER [NAME...]: compiles each C++ header of the tree by itself, as a file that includes it alone.

A header that needs another one in front of it compiles wherever that is there by chance: in a joined file, behind a precompiled header, behind its
neighbour's includes. The flags are those of a source that includes it or lies near, from compile_commands.json. Warnings are errors. With each run
it proves that it can fail. Part of scripts/test --separate; tests of plugin-api compile the C headers in every dialect of C and C++.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

MOST_TRIES = 4  # of sets of folders and definitions: a folder may have sources of several targets


def candidates(header, entries, included):
    """The entries whose flags may be the header's: sources that include it, then those that share the most folders with it; one a set of flags."""
    parts = [part for part in header.parent.parts if part != "include"]

    def nearness(source):
        return (source in included.get(header.name, ()), len(os.path.commonprefix([parts, [part for part in source.parent.parts if part != "src"]])),
                len(os.path.commonprefix([header.parent.parts, source.parent.parts])), -len(source.parts))

    seen, chosen = set(), []
    for source in sorted(entries, key=nearness, reverse=True):
        flags = tuple(word for word in shlex.split(entries[source]["command"]) if word.startswith(("-I", "-isystem", "-D", "-m")))
        if flags not in seen:
            seen.add(flags)
            chosen.append(entries[source])
        if len(chosen) == MOST_TRIES:
            break
    return chosen


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


def check(header, entries):
    """"" if it compiles with the flags of one of the entries, else what the first of them said."""
    said = ""
    for entry in entries:
        done = subprocess.run(command_for(entry, header), cwd=entry["directory"], text=True, capture_output=True, check=False,
                              input=f'#include "{ROOT / header}"\n#include "{ROOT / header}"\n')
        if done.returncode == 0:
            return ""
        said = said or f"{header} does not compile by itself, with the flags of {os.path.relpath(entry['file'], ROOT)}:\n{done.stderr[:2000]}"
    return said


def self_test(entry):
    with tempfile.TemporaryDirectory() as folder:
        header = pathlib.Path(folder, "planted.hpp")
        header.write_text("#pragma once\n#include <string>\ninline std::string planted() { return {}; }\n")
        assert not check(header, [entry]), check(header, [entry])
        header.write_text("#pragma once\ninline std::string planted() { return {}; }\n")
        assert "planted.hpp does not compile by itself" in check(header, [entry])


def main():
    entries = {}
    for entry in json.loads((pathlib.Path(sys.argv[1]) / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        if path.is_relative_to(ROOT) and path.suffix == ".cpp":
            entries[path.relative_to(ROOT)] = entry
    tracked = subprocess.run(["git", "-C", str(ROOT), "ls-files", "*.hpp"], capture_output=True, text=True, check=True).stdout.split()
    self_test(next(iter(entries.values())))
    headers = [pathlib.Path(name) for name in sys.argv[2:] or tracked]
    included = {}  # a header's name: the sources that include one of that name
    for source in entries:
        for name in re.findall(r'^#include "([^"]+)"', (ROOT / source).read_text(errors="replace"), re.MULTILINE):
            included.setdefault(pathlib.PurePath(name).name, set()).add(source)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = [text for text in pool.map(lambda header: check(header, candidates(header, entries, included)), headers) if text]
    print(*problems, sep="\n")
    print(f"{len(headers)} headers, {len(problems)} problems")
    return 1 if problems or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
