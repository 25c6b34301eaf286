#!/usr/bin/env python3
"""The C ABI of libquern.so and of the plugins, as debuggers see it, against that of each stored release (libabigail).

  abi_gate.py BUILD                  every difference has to be an append: a new function, members behind the last one of a struct
  abi_gate.py --write FOLDER BUILD   describes what BUILD holds as FOLDER/*.abi.xz
  abi_gate.py --pair OLD NEW         two libraries

The suppressions of abidiff 2.2 let more pass than they say, so its report is read here: a line that is not known as an append fails.
Exit 77: abidiff is not installed, or nothing is stored.
"""
import lzma
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# What each description is made from: the file in a build, and the folder of the headers whose types count.
SUBJECTS = {"libquern": ("lib/libquern.so.1.0.0", ROOT / "runtime/include"),
            "plugin": ("lib/quern/sample/libbackend_sample.so", ROOT / "plugin-api/include")}
HARMLESS = re.compile(r"(Leaf changes summary|Changed leaf types summary|Functions changes summary|Variables changes summary):"
                      r"|Removed/Changed/Added (functions|variables) summary: 0 Removed, 0 Changed, \d+ Added"
                      r"|\d+ Added functions?:|  \[A\] |$")


def describe(library, headers, out):
    subprocess.run(["abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--drop-private-types", "--headers-dir", headers,
                    "--out-file", out, library], check=True)


def refusals(report):
    """The lines of abidiff's report that are no append."""
    size = None
    for line in report.splitlines():
        if HARMLESS.match(line):
            continue
        if re.match(r"'(struct|enum) \w+.*' changed:$", line):
            size = None
        elif found := re.match(r"  type size changed from (\d+) to (\d+) \(in bits\)$", line):
            size = int(found[1])
            if int(found[2]) < size:
                yield line
        elif re.match(r"  (\d+ data member insertions?|\d+ enumerator insertions?|type size hasn't changed)", line):
            pass
        elif found := re.match(r"    '.*', at offset (\d+) \(in bits\)$", line):
            if size is None or int(found[1]) < size:
                yield line
        elif not re.match(r"    '\w+::\w+' value '\d+'$", line):
            yield line


def difference(old, new, headers):
    done = subprocess.run(["abidiff", "--leaf-changes-only", "--no-show-locs", "--drop-private-types", "--headers-dir1", headers, "--headers-dir2",
                           headers, old, new], capture_output=True, text=True)
    if done.returncode & 3:
        return [f"abidiff ended with {done.returncode}: {done.stderr.strip()}"]
    return list(refusals(done.stdout))


def main(arguments):
    for tool in ("abidiff", "abidw"):
        if shutil.which(tool) is None:
            print(f"skipped: {tool} is not installed (Debian: abigail-tools)")
            return 77
    if len(arguments) == 3 and arguments[0] == "--pair":
        found = difference(arguments[1], arguments[2], SUBJECTS["plugin"][1])
        print(*found, sep="\n")
        return 1 if found else 0
    with tempfile.TemporaryDirectory() as folder:
        if len(arguments) == 3 and arguments[0] == "--write":
            for name, (library, headers) in SUBJECTS.items():
                description = pathlib.Path(folder) / name
                describe(pathlib.Path(arguments[2]) / library, headers, description)
                (pathlib.Path(arguments[1]) / f"{name}.abi.xz").write_bytes(lzma.compress(description.read_bytes(), preset=9 | lzma.PRESET_EXTREME))
            return 0
        if len(arguments) != 1:
            sys.exit(__doc__)
        releases = sorted(path.parent for path in HERE.glob("*/libquern.abi.xz"))
        if not releases:
            print("skipped: no release is stored yet")
            return 77
        problems = 0
        for release in releases:
            for name, (library, headers) in SUBJECTS.items():
                stored = pathlib.Path(folder) / f"{release.name}-{name}.abi"
                stored.write_bytes(lzma.decompress((release / f"{name}.abi.xz").read_bytes()))
                for line in difference(stored, pathlib.Path(arguments[0]) / library, headers):
                    problems += 1
                    print(f"{name} against {release.name}: {line.strip()}")
    print(f"{len(releases)} releases, {problems} changes that are no append")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
