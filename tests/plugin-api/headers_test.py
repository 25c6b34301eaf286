#!/usr/bin/env python3
"""Compiles each public header alone in every dialect that plugin authors may use, with every warning an error.

  headers_test.py HEADERS_FOLDER     (the folder that holds quern/)
Compilers: gcc 12 or the default gcc, and clang 16. A missing clang skips its half (exit 77) with the reason; where CI is
set it fails.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

FLAGS = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"]
C_DIALECTS = ["c99", "c11"]
CXX_DIALECTS = ["c++17", "c++20"]


def first(*names):
    return next((shutil.which(n) for n in names if shutil.which(n)), None)


def compile_alone(compiler, dialect, header, folder, scratch):
    # Twice, so that the include guard is tested too.
    source = pathlib.Path(scratch, "alone.c" if dialect in C_DIALECTS else "alone.cpp")
    source.write_text(f'#include "quern/{header}"\n#include "quern/{header}"\ntypedef int quern_not_empty;\n')
    done = subprocess.run([compiler, f"-std={dialect}", *FLAGS, f"-I{folder}", source], capture_output=True, text=True)
    if done.returncode != 0:
        print(f"{header} alone as {dialect} with {compiler}:\n{done.stderr}", file=sys.stderr)
    return done.returncode == 0


def main():
    folder = pathlib.Path(sys.argv[1])
    c_headers = sorted(h.name for h in (folder / "quern").glob("*.h"))
    sdk = ["quern_plugin.hpp"] + sorted(h.relative_to(folder / "quern").as_posix() for h in (folder / "quern" / "sdk").rglob("*.hpp"))
    pairs = {"gcc": (first("gcc-12", "gcc"), first("g++-12", "g++")), "clang": (first("clang-16"), first("clang++-16"))}
    good = count = 0
    skipped = [name for name, found in pairs.items() if None in found]
    with tempfile.TemporaryDirectory() as scratch:
        for name, (c, cxx) in pairs.items():
            if name in skipped:
                continue
            for header in c_headers:
                for dialect in C_DIALECTS + CXX_DIALECTS:
                    good += compile_alone(c if dialect in C_DIALECTS else cxx, dialect, header, folder, scratch)
                    count += 1
            for header, dialect in [(h, "c++17") for h in sdk] + [("quern_plugin.hpp", "c++20")]:
                good += compile_alone(cxx, dialect, header, folder, scratch)
                count += 1
    print(f"{good} of {count} compilations of {len(c_headers)} C headers and {len(sdk)} SDK headers are clean")
    if good != count or count == 0 or "gcc" in skipped:
        return 1
    if skipped:
        print("clang-16 is not installed: install the package clang-16 to check the headers under it")
        return 1 if os.environ.get("CI") else 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
