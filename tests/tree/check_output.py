#!/usr/bin/env python3
"""Fails if anything but base/src/terminal_output.cpp writes to standard output or standard error, or makes a sequence of a terminal.

Text of a file, a server or a driver then reaches a terminal through one gate. Programs that only a developer of Quern starts, on files of the
tree, are listed with their reason. Run from anywhere; with each run it proves that it can fail.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("base", "backends", "cli", "conformance", "loader", "models", "plugin-api", "python", "runtime")
GATE = "base/src/terminal_output.cpp"
READS_KEYS = "cli/src/key_parser.cpp"  # what a terminal sends, not what it gets

# What writes to a stream of the process, in C++ and C, and in Python.
STREAM = r"\b(?:stdout|stderr|STDOUT_FILENO|STDERR_FILENO|[12])\b"
WRITES = re.compile("|".join([
    r"std::c(?:out|err|log)\b",
    r"(?<![\w.>:])(?:std::)?(?:v?printf|puts|putchar|perror|psignal)\s*\(",
    rf"\bv?[df]printf\s*\(\s*{STREAM}",
    r"\bf(?:puts|putc|write)\s*\([^;]*\bstd(?:out|err)\b",
    r"\bput[cw]\s*\([^;]*\bstd(?:out|err)\b",
    rf"(?<![\w.>])(?:::)?(?:p?write|writev|send)\s*\(\s*{STREAM}\s*,",
    r"std(?:out|err)(?:_color)?_(?:sink|logger)",
    r"<err\.h>", r"/dev/(?:tty|std(?:out|err)|fd/[12])\b"]))
PYTHON_WRITES = re.compile(r"(?<![\w.])print\s*\(|\bsys\.(?:__)?std(?:out|err)|os\.write\s*\(\s*[12]\b")
SEQUENCES = re.compile(r"\\x1[bB]|\\033|\\e\[|\\u00(?:1[bB]|9[bB])")
HEADER = re.compile(r'#\s*include\s*"quern/base/terminal_output\.hpp"')

# Places that may, and why.
MAY_WRITE = {
    "backends/cpu/bench": "measures kernels for a developer; prints figures of its own",
    "backends/cuda/tools": "compiles the kernels of the tree while Quern is built",
    "conformance/mutant": "a plugin that prints on purpose; the suite has to find it",
    "runtime/examples": "shows the C API in few lines; quern.h says what a host does with text for a terminal",
}
MAY_HAVE_THE_GATE = ("base/", "cli/src/output.", "conformance/src/cli/output.", "loader/src/probe_main.cpp")


def problems_of(path, text):
    """Sentences about one file, whose path is relative to the tree."""
    found = []
    python = path.endswith(".py")
    excused = path == GATE or path.startswith(tuple(folder + "/" for folder in MAY_WRITE))
    for number, line in enumerate(text.splitlines(), 1):
        code = re.sub(r"(?:^|\s)#.*" if python else r"(?:^|\s)//.*|^\s*\*.*", "", line)
        if (PYTHON_WRITES if python else WRITES).search(code) and not excused:
            found.append(f"{path}:{number}: writes to a stream of the process; use the program's output.hpp, or throw: {line.strip()}")
        if SEQUENCES.search(code) and path not in (GATE, READS_KEYS):
            found.append(f"{path}:{number}: has a sequence of a terminal; only quern::Drawing makes them: {line.strip()}")
        if HEADER.search(code) and not path.startswith(MAY_HAVE_THE_GATE):
            found.append(f"{path}:{number}: a library never prints, and a program has one file that does: {line.strip()}")
    return found


def self_test():
    bad = {
        "cli/src/a.cpp": ['std::cout << text;', 'std::fprintf(stderr, "%s", text);', '::write(STDOUT_FILENO, data, size);', 'fputs(text, stdout);',
                          'out += "\\x1b[K";', 'printf("x");', 'std::fwrite(data, 1, n, stderr);', 'perror("x");', '#include "quern/base/terminal_output.hpp"'],
        "loader/src/a.cpp": ['std::cerr << 1;', 'write(2, text, n);', 'spdlog::sinks::stderr_sink_mt sink;'],
        "python/quern/a.py": ['print("x")', 'sys.stdout.write(x)'],
    }
    good = {
        "cli/src/a.cpp": ['std::snprintf(buffer, n, "x");', 'file.write(data, n);', '// std::cout would be wrong', 'write_out(text);', 'isatty(STDOUT_FILENO)'],
        "models/a.cpp": ['::write(fd_, data, n);', 'program.write(1, 2);', 'throw Error(code, text);', 'std::fwrite(data, 1, n, file);'],
        "cli/src/output.cpp": ['#include "quern/base/terminal_output.hpp"'],
        "python/quern/a.py": ['fingerprint(x)'],
    }
    for path, lines in bad.items():
        for line in lines:
            assert problems_of(path, line), (path, line)
    for path, lines in good.items():
        for line in lines:
            assert not problems_of(path, line), (path, line, problems_of(path, line))


if __name__ == "__main__":
    self_test()
    found, count = [], 0
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in ({".py"} if folder == "python" else {".h", ".hpp", ".c", ".cpp", ".cu"}) and path.is_file():
                count += 1
                found += problems_of(path.relative_to(ROOT).as_posix(), path.read_text(errors="replace"))
    print(*found, sep="\n")
    stale = [folder for folder in MAY_WRITE if not (ROOT / folder).is_dir()]
    if count == 0 or stale:
        sys.exit(f"nothing to check: {stale or 'no file was found'}")
    print(f"{count} files, {len(found)} problems")
    sys.exit(1 if found else 0)
