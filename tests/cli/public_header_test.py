"""quern.h compiles alone in four languages and names exactly the symbols of quern.symbols and libquern.map."""

import pathlib
import re
import subprocess
import sys

source, c_compiler, cxx_compiler = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
header = source / "runtime/include/quern.h"
text = header.read_text()

declared = sorted(re.findall(r"^QUERN_API[^;]*?\b(quern_\w+)\(", text, re.MULTILINE))
listed = (source / "runtime/quern.symbols").read_text().split()
script = (source / "runtime/libquern.map").read_text()
exported = re.findall(r"^\s+(quern_\w+);", script, re.MULTILINE)

failures = []
if len(declared) < 50:
    failures.append(f"only {len(declared)} functions found in {header}; is the pattern still right?")
for name, names in (("quern.symbols", listed), ("libquern.map", exported)):
    missing, extra = set(declared) - set(names), set(names) - set(declared)
    if missing:
        failures.append(f"{name} lacks {sorted(missing)}")
    if extra:
        failures.append(f"{name} has {sorted(extra)}, which quern.h does not declare")
    if len(set(names)) != len(names):
        failures.append(f"{name} names a symbol twice")
if listed != sorted(listed):
    failures.append("quern.symbols is not sorted")
if "*;" not in script:
    failures.append("libquern.map has no `local: *;`")

includes = [f"-I{source}/runtime/include", f"-I{source}/plugin-api/include"]
strict = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"]
program = '#include "quern.h"\n#include "quern/quern_plugin_api.h"\nint main(void) { return 0; }\n'
for compiler, language, standard in (
    (c_compiler, "c", "c99"),
    (c_compiler, "c", "c11"),
    (cxx_compiler, "c++", "c++17"),
    (cxx_compiler, "c++", "c++20"),
):
    command = [compiler, f"-std={standard}", "-x", language, *strict, *includes, "-"]
    done = subprocess.run(command, input=program, text=True, capture_output=True)
    if done.returncode != 0:
        failures.append(f"as {standard}:\n{done.stderr}")
for example in ("generate.c", "tensors.c"):
    command = [c_compiler, "-std=c99", *strict, *includes, str(source / "runtime/examples" / example)]
    done = subprocess.run(command, text=True, capture_output=True)
    if done.returncode != 0:
        failures.append(f"{example}:\n{done.stderr}")

print("\n".join(failures) or f"{len(declared)} functions, all listed")
sys.exit(bool(failures))
