#!/usr/bin/env python3
"""check_format.py [--self-test]: fails where scripts/format would change a file of the tree; exits with 77 without clang-format 14.

With --self-test: that the script finds a file that is not formatted, mends it, and leaves alone what it does not format.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
UGLY = "int  twice( int x )\n{ return 2*x ; }\n"


def self_test():
    with tempfile.TemporaryDirectory() as name:
        tree = pathlib.Path(name)
        (tree / "scripts").mkdir()
        for path in ("scripts/format", ".clang-format"):
            shutil.copy(ROOT / path, tree / path)
        for path in ("ugly.cpp", "header.h", "table.def"):
            (tree / path).write_text(UGLY)
        subprocess.run(["git", "init", "--quiet", name], check=True)
        subprocess.run(["git", "-C", name, "add", "."], check=True)

        def run(*arguments):
            return subprocess.run([tree / "scripts/format", *arguments], capture_output=True, text=True, check=False)

        found = run("--check")
        if found.returncode == 77:
            print(found.stderr, end="")
            return 77
        assert found.returncode == 1 and found.stdout == "ugly.cpp\n", found
        assert (tree / "ugly.cpp").read_text() == UGLY
        assert run().returncode == 0
        assert (tree / "ugly.cpp").read_text() == "int twice(int x) { return 2 * x; }\n"
        assert (tree / "header.h").read_text() == UGLY == (tree / "table.def").read_text()
        assert run("--check").returncode == 0
    return 0


if __name__ == "__main__":
    sys.exit(self_test() if sys.argv[1:] == ["--self-test"] else subprocess.run([ROOT / "scripts/format", "--check"], check=False).returncode)
