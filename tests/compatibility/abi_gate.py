#!/usr/bin/env python3
"""The C ABI of libquern.so and of the plugins against that of each stored release, by abidiff (libabigail).

  abi_gate.py LIBQUERN            every difference has to be an append: a new function, members behind the last one of a struct; and the library
                                  exports with each symbol version of the stored one what that does, no less and no more
  abi_gate.py --write FOLDER      describes the present headers as FOLDER/*.abi.xz
  abi_gate.py --pair OLD NEW      two libraries

Described is what a C compiler makes of the public headers: a library of their functions with no bodies, so that types behind opaque pointers
play no part. That the real library exports these functions and no others is tests/tree/check_symbols.py's. The suppressions of abidiff 2.2
let more pass than they say, so its report is read here: a line that is not known as an append fails.
Exit 77: abidiff is not installed, or nothing is stored.
"""
import lzma
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
INCLUDES = (ROOT / "runtime/include", ROOT / "plugin-api/include")
ENTRY = "quern_status quern_plugin_query_v1(const quern_query *query, quern_plugin_api *out, quern_error *error) {{ {} }}\n"
BODY = "__builtin_unreachable();"


def sources():
    """name -> a C file that defines each function of that interface."""
    header = re.sub(r"/\*.*?\*/", "", (ROOT / "runtime/include/quern.h").read_text(), flags=re.S)
    functions = re.findall(r"^QUERN_API\s+([^;{]+\))\s*;", header, re.M)
    assert len(functions) == len(re.findall(r"^QUERN_API\b", header, re.M)) > 50, "quern.h has declarations that are not read here"
    return {"libquern": '#include "quern.h"\n' + "".join(f"{f} {{ {BODY} }}\n" for f in functions),
            "plugin": '#include "quern/quern_plugin_api.h"\n#include "quern/quern_ops.h"\n' + ENTRY.format(BODY)}


def build(folder):
    """name -> a library of that interface's functions, with their types."""
    made = {}
    for name, text in sources().items():
        source = pathlib.Path(folder) / f"{name}.c"
        source.write_text(text)
        made[name] = source.with_suffix(".so")
        subprocess.run(["cc", "-w", "-g", "-O1", "-fPIC", "-shared", *(f"-I{i}" for i in INCLUDES), source, "-o", made[name]], check=True)
    return made


HARMLESS = re.compile(r"(Leaf changes summary|Changed leaf types summary|Functions changes summary|Variables changes summary):"
                      r"|Removed/Changed/Added (functions|variables) summary: 0 Removed, 0 Changed, \d+ Added"
                      r"|\d+ Added functions?:|  \[A\] |$")


def describe(library, out):
    subprocess.run(["abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--out-file", out, library], check=True)


def exported(library):
    """name@version of each function that the library exports."""
    out = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in out.splitlines() if line.split()[-2] != "A"}  # A: a version itself


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


def difference(old, new):
    done = subprocess.run(["abidiff", "--leaf-changes-only", "--no-show-locs", old, new], capture_output=True, text=True)
    if done.returncode < 0 or done.returncode & 3:
        return [f"abidiff ended with {done.returncode}: {done.stderr.strip()}"]
    return list(refusals(done.stdout))


def moved(stored, present, release):
    """A line for each name@version that is gone, or that came later under a version of the release."""
    versions = {symbol.partition("@")[2] for symbol in stored}
    for symbol in sorted(stored - present):
        yield f"libquern.so no longer exports {symbol}, which {release} did"
    for symbol in sorted(present - stored):
        if symbol.partition("@")[2] in versions:
            yield f"libquern.so exports {symbol}, which {release} did not: libquern.map has to name it in the node of a later release"


def check_releases(releases, library, folder):
    """A line for each difference that is no append."""
    present = build(folder)
    for release in releases:
        for name, new in present.items():
            stored = pathlib.Path(folder) / f"{release.name}-{name}.abi"
            stored.write_bytes(lzma.decompress((release / f"{name}.abi.xz").read_bytes()))
            for line in difference(stored, new):
                yield f"{name} against {release.name}: {line.strip()}"
        with tarfile.open(release / "host.tar.xz") as archive:
            file = archive.extractfile(next(m for m in archive if m.isfile() and "/libquern.so." in m.name))
            (pathlib.Path(folder) / "stored.so").write_bytes(file.read())
        yield from moved(exported(pathlib.Path(folder) / "stored.so"), exported(library), release.name)


def main(arguments):
    for tool in ("abidiff", "abidw"):
        if shutil.which(tool) is None:
            print(f"skipped: {tool} is not installed (Debian: abigail-tools)")
            return 77
    if len(arguments) == 3 and arguments[0] == "--pair":
        found = difference(arguments[1], arguments[2])
        print(*found, sep="\n")
        return 1 if found else 0
    with tempfile.TemporaryDirectory() as folder:
        if len(arguments) == 2 and arguments[0] == "--write":
            for name, library in build(folder).items():
                description = pathlib.Path(folder) / f"{name}.abi"
                describe(library, description)
                (pathlib.Path(arguments[1]) / f"{name}.abi.xz").write_bytes(lzma.compress(description.read_bytes(), preset=9 | lzma.PRESET_EXTREME))
            return 0
        if len(arguments) != 1:
            sys.exit(__doc__)
        releases = sorted(path.parent for path in HERE.glob("*/release.json"))
        if not releases:
            print("skipped: no release is stored yet")
            return 77
        problems = list(check_releases(releases, arguments[0], folder))
    print(*problems, sep="\n")
    print(f"{len(releases)} releases, {len(problems)} changes that are no append")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
