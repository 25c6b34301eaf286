#!/usr/bin/env python3
"""Holds the exported symbols of libquern and of a plugin to their lists.

The library exports exactly the names in runtime/quern.symbols, which are exactly the functions that quern.h declares with
QUERN_API, and which debian/libquern1.symbols dates: a function of the node QUERN_1 came with 0.1.0, one of QUERN_1.X with X. A plugin exports its
one entry.
"""
import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def exported(path):
    out = subprocess.run(["nm", "-D", "--defined-only", path], check=True, capture_output=True, text=True).stdout
    names = set()
    for line in out.splitlines():
        kind, name = line.split()[-2:]
        if kind == "A":  # the version node itself
            continue
        if kind == "u":
            names.add(f"{name} (a GNU_UNIQUE symbol)")
        names.add(name.split("@")[0])
    return names


def compare(what, found, wanted):
    problems = [f"{what} exports {name}, which is not in its list" for name in sorted(found - wanted)]
    return problems + [f"{what} lacks {name}" for name in sorted(wanted - found)]


parser = argparse.ArgumentParser()
parser.add_argument("--library", required=True)
parser.add_argument("--plugin", required=True)
arguments = parser.parse_args()

listed = set((ROOT / "runtime/quern.symbols").read_text().split())
header = (ROOT / "runtime/include/quern.h").read_text()
declared = set(re.findall(r"QUERN_API[^;]*?\b(quern_\w+)\s*\(", header))
nodes = re.findall(r"^(QUERN_1[.0-9]*) \{(.*?)^\}", (ROOT / "runtime/libquern.map").read_text(), re.M | re.S)
releases = {name: node for node, body in nodes for name in re.findall(r"\b(quern_\w+);", body)}
mapped = set(releases)
problems = compare("quern.h", declared, listed) + compare("libquern.map", mapped, listed)
dated = set(re.findall(r"^ (\S+@\S+ \S+)$", (ROOT / "debian/libquern1.symbols").read_text(), re.M))
versions = {node: node.removeprefix("QUERN_1").removeprefix(".") or "0.1.0" for node, _ in nodes}
problems += compare("debian/libquern1.symbols", dated, {f"{name}@{node} {versions[node]}" for name, node in [*releases.items(), *zip(versions, versions)]})
problems += compare("libquern.so", exported(arguments.library), listed)
problems += compare(arguments.plugin, exported(arguments.plugin), {"quern_plugin_query_v1"})
print(*problems, sep="\n")
print(f"{len(listed)} symbols of the library, {len(problems)} problems")
sys.exit(1 if problems or not listed else 0)
