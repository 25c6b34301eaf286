#!/usr/bin/env python3
"""Fails if a folder other than base/ opens a file by itself.

What base/files.hpp does for all (kinds, limits, links, 0600, sync and rename) a stream or an open() of one's own lacks. Exceptions have a
reason. Run from anywhere; with every run it proves that it can fail.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("cli", "loader", "models", "runtime", "conformance", "backends", "plugin-api")
SUFFIXES = {".h", ".hpp", ".c", ".cpp", ".cu", ".cuh"}

OPENS = re.compile(r"""\b(?:basic_)?(?:if|of|f)stream\b(?!>)|\b(?:fopen|fopen64|freopen|tmpfile|creat|mkstemp|mkostemp|mkstemps|openat)\s*\(
                       |\bO_(?:RDONLY|WRONLY|RDWR|CREAT|TRUNC)\b""", re.X)

# file -> why it opens files by itself
ALLOWED = {
    "conformance/mutant/src/run.cpp": "its fault is that submit opens a file",
    "loader/src/host.cpp": "the processor's quota, a file of the kernel",
    "runtime/src/runtime.cpp": "/proc/meminfo, a file of the kernel",
    "runtime/src/machine_peaks.cpp": "/proc/self/status, a file of the kernel",
    "conformance/src/worker/host_memory.cpp": "/proc and /sys, files of the kernel",
    "conformance/mutant/src/plugin.cpp": "a mutant marks in the suite's own temporary folder that it was probed",
    "backends/cuda/tools/compile_kernel.cpp": "a tool of the build, run in its own folder",
    "loader/src/child.cpp": "/dev/null as the helper's standard input",
}


def without_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)


def openings(text):
    """(line number, line) of each place that opens a file by itself."""
    return [(number, line.strip()) for number, line in enumerate(without_comments(text).split("\n"), 1) if OPENS.search(line)]


def self_test():
    for bad in ("std::ifstream in(path);", "#include <fstream>\nstd::basic_ofstream<char> o;", "int f = ::open(p, O_RDONLY);", "mkostemp(name, 0)",
                "FILE* f = fopen(p, \"r\");", "openat(folder, name, flags)"):
        assert openings(bad), bad
    for good in ("// std::ifstream reads", "/* fopen( */", "base::open_file(path, file)", "Driver::open(name)", "std::ostringstream text;"):
        assert not openings(good), good


def main():
    self_test()
    problems, files = [], 0
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in SUFFIXES or not path.is_file():
                continue
            files += 1
            name = path.relative_to(ROOT).as_posix()
            for number, line in openings(path.read_text(errors="replace")):
                if name not in ALLOWED:
                    problems.append(f"{name}:{number}: opens a file by itself; quern/base/files.hpp does it for all: {line}")
    print(*problems, sep="\n")
    if files == 0:
        sys.exit("no source file was found")
    print(f"{files} files, {len(problems)} violations")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
