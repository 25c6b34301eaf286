#!/usr/bin/env python3
"""One version in every file that states it, and one date once the changelog gives the release one."""
import datetime
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def found(file, pattern):
    text = (ROOT / file).read_text()
    match = re.search(pattern, text, re.M)
    if match is None:
        sys.exit(f"{file} has nothing like {pattern}")
    return match[1]


def main():
    versions = {
        "CMakeLists.txt": found("CMakeLists.txt", r"^project\(quern VERSION ([0-9.]+)"),
        "debian/changelog": found("debian/changelog", r"^quern \(([0-9.]+)-[^)]+\)"),
        "packaging/quern.spec": found("packaging/quern.spec", r"^Version: +([0-9.]+)$"),
        "packaging/quern.spec, %changelog": found("packaging/quern.spec", r"^%changelog\n\* .* - ([0-9.]+)-\d+$"),
        "python/pyproject.toml": found("python/pyproject.toml", r'^version = "([0-9.]+)"$'),
        "CHANGELOG.md": found("CHANGELOG.md", r"^## (?:Unreleased \()?([0-9]+\.[0-9]+\.[0-9]+)"),
    }
    problems = [f"{file} says {version}, CMakeLists.txt {versions['CMakeLists.txt']}" for file, version in versions.items()
                if version != versions["CMakeLists.txt"]]
    dated = re.search(r"^## ([0-9.]+) \((\d{4}-\d\d-\d\d)\)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    if dated is not None and dated[1] == versions["CMakeLists.txt"]:
        day = datetime.date.fromisoformat(dated[2])
        for file, pattern, form in (("debian/changelog", r"^ -- .*>  \w{3}, (\d\d \w{3} \d{4}) ", "%d %b %Y"),
                                    ("packaging/quern.spec", r"^%changelog\n\* \w{3} (\w{3} \d\d \d{4}) ", "%b %d %Y")):
            if found(file, pattern) != day.strftime(form):
                problems.append(f"{file} has the date {found(file, pattern)}, CHANGELOG.md {day.strftime(form)}")
    print(*problems, sep="\n")
    print(f"{len(versions)} places, {len(problems)} problems; " + (f"released {dated[2]}" if dated else "not released yet"))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
