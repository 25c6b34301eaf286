#!/usr/bin/env python3
"""Names everything of others that a build compiles in or needs at run time, and fails for what is not on the list.

usage: licence_audit.py BUILD [--notices FILE]

Compiled in: every header and static library outside of the tree that an object or link of an installed target used (Ninja's own
record). Needed: the NEEDED entries of what is installed. Opened: names of libraries
in its text. Each is traced to its Debian package; packaging/licences.json says under
which licence it may be there, and the package's own copyright file must name that licence. --notices writes the copyright files of
what is compiled in, for packages of distributions that do not carry them.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAMS = ("bin/quern", "bin/quern-probe", "bin/quern-conformance", "lib/quern/conformance/quern-session", "lib/libquern.so.1.0.0")
PLUGINS = "lib/quern/**/libbackend_*.so"


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def headers_and_archives(build):
    """Files outside of the tree that the objects and links behind the installed files used."""
    used = set()
    output = None
    for line in run("ninja", "-C", str(build), "-t", "deps").splitlines():
        if line and not line[0].isspace():
            output = line.split(":")[0]
        elif line.strip() and not output.startswith("tests/") and "/bench" not in output:
            used.add(line.strip())
    target = ""
    for line in (build / "build.ninja").read_text().splitlines():
        if line.startswith("build "):
            target = line.split()[1]
        elif line.strip().startswith("LINK_LIBRARIES =") and not target.startswith("tests/"):
            used |= set(re.findall(r"(?<!\S)(/\S+\.a)(?!\S)", line))
    outside = set()
    for name in used:
        path = (build / name).resolve()
        if not path.is_relative_to(ROOT) and not path.is_relative_to(build):
            outside.add(str(path))
    return outside


def installed(build):
    return [path for path in [build / program for program in PROGRAMS] + sorted(build.glob(PLUGINS)) if path.is_file()]


def needed(build):
    names = set()
    for path in installed(build):
        names |= set(re.findall(r"NEEDED.*\[(.+)\]", run("readelf", "-d", str(path))))
    return names - {"libquern.so.1"}


def opened(build):
    """Names of libraries in the text of the files: what they open themselves, if it is there."""
    names = set()
    for path in installed(build):
        names |= {name.decode() for name in re.findall(rb"(?<![\w-])lib[A-Za-z0-9_+-]+\.so\.\d+(?=\0)", path.read_bytes())}
    return names - needed(build) - {"libquern.so.1"}


def package_of(paths):
    """path -> the Debian package that has it."""
    found = {}
    paths = sorted(paths)
    for start in range(0, len(paths), 500):
        out = subprocess.run(["dpkg-query", "--search", *paths[start:start + 500]], capture_output=True, text=True).stdout
        for line in out.splitlines():
            packages, _, path = line.partition(": ")
            found[path] = packages.split(",")[0].split(":")[0]
    return found


def copyright_file(package):
    return pathlib.Path("/usr/share/doc") / package / "copyright"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--notices", type=pathlib.Path)
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    known = json.loads((ROOT / "packaging/licences.json").read_text())

    inside = headers_and_archives(build)
    if not inside:
        sys.exit(f"{build}: no object was recorded; is it a finished Ninja build?")
    owners = package_of(inside)
    problems = [f"{path} belongs to no package" for path in sorted(inside - set(owners))]
    compiled = {}
    for path, package in owners.items():
        compiled.setdefault(package, []).append(path)
    rows = []
    for package, paths in sorted(compiled.items()):
        entry = next((e for e in known["compiled_in"] if re.fullmatch(e["package"], package)), None)
        if entry is None:
            problems.append(f"{package} is compiled in ({min(paths)} and {len(paths) - 1} more) and not in packaging/licences.json")
            continue
        text = copyright_file(package).read_text(errors="replace") if copyright_file(package).exists() else ""
        if entry["named"] not in text:
            problems.append(f"{package}: its copyright file does not say '{entry['named']}'")
        rows.append((package, entry["licence"], "static library" if any(p.endswith(".a") for p in paths) else f"{len(paths)} headers"))
    for name in sorted(needed(build)):
        licence = known["needed"].get(name)
        if licence is None:
            problems.append(f"{name} is needed at run time and not in packaging/licences.json")
        else:
            rows.append((name, licence, "shared library, not shipped"))

    for name in sorted(opened(build)):
        licence = known["opened"].get(name)
        if licence is None:
            problems.append(f"{name} is opened at run time and not in packaging/licences.json")
        else:
            rows.append((name, licence, "opened if it is there, not shipped"))

    for row in rows:
        print("{:32} {:40} {}".format(*row))
    print(*problems, sep="\n")
    print(f"{len(rows)} parts of others, {len(problems)} problems")
    if arguments.notices:
        parts = [f"==== {package} ({licence}, {how})\n\n{copyright_file(package).read_text(errors='replace')}"
                 for package, licence, how in rows if copyright_file(package).exists() and known_notice(known, package)]
        arguments.notices.write_text("Parts of these are compiled into the files of Quern.\n\n" + "\n\n".join(parts))
    sys.exit(1 if problems else 0)


def known_notice(known, package):
    """Whether its licence asks that the notice goes with compiled copies."""
    return next((e.get("notice", True) for e in known["compiled_in"] if re.fullmatch(e["package"], package)), False)


if __name__ == "__main__":
    main()
