#!/usr/bin/env python3
"""Holds what our binaries need at run time to an allow-list, so that one package serves several releases.

libcurl is not among them: it is opened when a model is first asked for over the network."""
import re
import subprocess
import sys

ALLOWED = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "libstdc++.so.6",
           "libgcc_s.so.1", "libpcre2-8.so.0", "libquern.so.1"}

problems = []
for path in sys.argv[1:]:
    out = subprocess.run(["readelf", "-d", path], check=True, capture_output=True, text=True).stdout
    needed = set(re.findall(r"\(NEEDED\).*\[(.*?)\]", out))
    if not needed:
        problems.append(f"{path}: readelf shows no dependency at all")
    for name in sorted(needed - ALLOWED):
        problems.append(f"{path} needs {name}, which is not on the list in tests/tree/check_dependencies.py")
    if "TEXTREL" in out:
        problems.append(f"{path} has text relocations")
    # What is installed keeps the room of this path, so that its bytes would depend on where it was built.
    for place in re.findall(r"\(RUNPATH\).*\[(.*?)\]", out) + re.findall(r"\(RPATH\).*\[(.*?)\]", out):
        if any(not part.startswith("$ORIGIN") for part in place.strip(":").split(":")):
            problems.append(f"{path} names its build folder in its run path: {place}")
print(*problems, sep="\n")
print(f"{len(sys.argv) - 1} binaries, {len(problems)} problems")
sys.exit(1 if problems or len(sys.argv) < 2 else 0)
