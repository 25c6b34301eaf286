#!/usr/bin/env python3
"""Writes the tables of docs/models.md: families, formats and backends, from the sources that have them.

usage: docs/tools/models.py [--check]
  --check  write nothing; fail if the page differs"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/models.md"
# Where a backend has what decodes a format: a file of the format's own, or a place in the file of the formats that came first.
BACKENDS = {
    "CPU": ("backends/cpu/src/formats/{lower}.cpp", None, None),
    "CUDA": ("backends/cuda/src/kernels/format_{lower}.cuh", "backends/cuda/src/kernels/blocks.cuh", "struct Format<{name}>"),
    "Vulkan": ("backends/vulkan/src/shaders/format_{lower}.glsl", "backends/vulkan/src/shaders/blocks.glsl", "#define {name} "),
}
# What puts inputs in the order of columns (`desc_act`).
TAKE = {"CPU": ("backends/cpu/src/ops/take.cpp", "QUERN_OP_TAKE"), "CUDA": ("backends/cuda/src/ops/take.cpp", "QUERN_OP_TAKE"),
        "Vulkan": ("backends/vulkan/src/ops/take.cpp", "QUERN_OP_TAKE")}
PLAIN = {"F32": 32, "F16": 16, "BF16": 16}  # types of weights without blocks


def read(path):
    return (ROOT / path).read_text()


def families():
    """[(model_type, class, architecture of GGUF files)]"""
    rows = re.findall(r'^    \{"([a-z0-9_]+)", "(\w+)", "([a-z0-9_]+)", (?:true|false), Window::', read("models/directory/src/families.cpp"), re.M)
    architectures = set(re.findall(r'\{\.name = "(\w+)"', "".join(path.read_text() for path in sorted((ROOT / "models/architecture/src").glob("*.cpp")))))
    if not rows or {architecture for _, _, architecture in rows} - architectures:
        sys.exit("models/directory/src/families.cpp has families that docs/tools/models.py does not understand")
    return rows


def formats():
    """{name: (block elements, block bytes)} of quern_formats.h"""
    text = read("plugin-api/include/quern/quern_formats.h")
    rows = re.findall(r"QUERN_TYPE_FORMAT, (?:NULL|&\w+)\}, QUERN_(\w+), (\d+), (\d+),", text)
    (count,) = re.findall(r"#define QUERN_FORMAT_COUNT (\d+)u", text)
    if len(rows) != int(count):
        sys.exit(f"quern_formats.h: {len(rows)} of {count} formats were understood")
    return {name: (int(elements), int(size)) for name, elements, size in rows}


def gguf_types():
    """([names that are read], [names that are refused]) of GGUF files"""
    text = read("models/gguf/src/ggml_types.cpp")
    rows = re.findall(r'^    (?:of_format\(\d+|\{\d+), "([^"]+)", .*?(QUERN_\w+)[)}],', text, re.M)
    taken = [name for name, dtype in rows if dtype != "QUERN_DTYPE_NONE"]
    return taken, [name for name, dtype in rows if dtype == "QUERN_DTYPE_NONE" and "given up" not in name]


def runs_on(name):
    cells = []
    for own, shared, words in BACKENDS.values():
        here = (ROOT / own.format(lower=name.lower())).exists() or (shared and words.format(name=name) in read(shared))
        cells.append("yes" if here else "no")
    return cells


def table(head, rows):
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] + ["| " + " | ".join(row) + " |" for row in rows]


def family_table():
    return table(["`model_type`", "class in config.json", "directory of safetensors", "`general.architecture`", "GGUF"],
                 [[f"`{kind}`", f"`{name}`", "runs", f"`{architecture}`", "runs"] for kind, name, architecture in families()])


def format_table():
    taken, refused = gguf_types()
    known = formats()
    rows = [[name, str(bits), "yes", "yes", "yes", "yes", "yes"] for name, bits in PLAIN.items()]
    for name, (elements, size) in known.items():
        in_gguf = name in taken
        rows.append([name, f"{8 * size / elements:g}", "yes" if in_gguf else "no", "no" if in_gguf else "yes", *runs_on(name)])
    rows.append(["Q4_Z*, Q8_Z* with `desc_act`", "as above", "no", "yes", *("yes" if words in read(path) else "expanded" for path, words in TAKE.values())])
    missing = [name for name in taken if name not in known and name not in PLAIN and name not in ("I32", "I64")]
    if missing:
        sys.exit(f"ggml_types.cpp takes {missing}, which docs/tools/models.py does not know")
    return table(["format", "bits a weight", "in GGUF files", "in directories", *BACKENDS], rows) + ["", "Refused by name in GGUF files: " + ", ".join(refused) + "."]


TABLES = {"families": family_table, "formats": format_table}


def page(text):
    for name, make in TABLES.items():
        begin, end = f"<!-- {name}: written by docs/tools/models.py -->\n", f"<!-- end of {name} -->\n"
        if text.count(begin) != 1 or text.count(end) != 1:
            sys.exit(f"{PAGE} has no place for the table of {name}")
        head, rest = text.split(begin)
        text = head + begin + "\n".join(make()) + "\n" + end + rest.split(end)[1]
    return text


def main():
    text = PAGE.read_text()
    made = page(text)
    if "--check" in sys.argv[1:]:
        if made != text:
            sys.exit(f"{PAGE} differs from its sources; run docs/tools/models.py")
        print(f"{len(families())} families, {len(formats())} formats")
        return
    PAGE.write_text(made)


if __name__ == "__main__":
    main()
