#!/usr/bin/env python3
"""Fails where an op of ops.def has no file of its name in a backend, so that `git ls-files | grep OP` finds where a newcomer starts in each.

backends/BACKEND/src/ops/OP.cpp defines the op's row, or on the CPU its table of kernels, and no other op's. Ops of the group `collective` speak
between devices: no plugin of this tree has them, so none has a file. A build stops at a missing file too (cmake/list_tables.cmake); this check
reads backends that the machine cannot build as well.

Run from anywhere; with each run it proves that it can fail.
"""
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPS = "plugin-api/include/quern/ops.def"
NO_BACKEND = "collective"
# What defines the table or row of an op, whose name is the first group.
DEFINED = {"cpu": r"^const std::span<const Kernel> ([a-z0-9_]+)_kernels =", "cuda": r"^const Op ([a-z0-9_]+)_op\{", "vulkan": r"^const Op ([a-z0-9_]+)_op ="}
# How a row begins, with the op's id as the first group.
ROW = {"cpu": r"[{(]\s*QUERN_OP_([A-Z0-9_]+),\s*\"", "cuda": r"_op\{\s*QUERN_OP_([A-Z0-9_]+),", "vulkan": r"offer\(\s*QUERN_OP_([A-Z0-9_]+),"}


def ops_of(root):
    rows = re.findall(r"^QUERN_OP\(\d+, ([A-Z0-9_]+), ([a-z0-9_]+), ([a-z]+),", (root / OPS).read_text(), re.M)
    return {name: upper for upper, name, group in rows if group != NO_BACKEND}


def faults(root):
    ops = ops_of(root)
    for backend in DEFINED:
        folder = root / "backends" / backend / "src" / "ops"
        for name, upper in ops.items():
            path = folder / f"{name}.cpp"
            shown = path.relative_to(root)
            if not path.exists():
                yield f"{shown}: ops.def has the op {name}, and there is no such file"
                continue
            text = path.read_text()
            if name not in re.findall(DEFINED[backend], text, re.M):
                yield f"{shown}: does not define the row of {name}"
            if upper not in re.findall(ROW[backend], text):
                yield f"{shown}: no row has QUERN_OP_{upper}"
        for path in sorted(folder.glob("*.cpp")):
            for upper in re.findall(ROW[backend], path.read_text()):
                name = upper.lower()
                if ops.get(name) != upper:
                    yield f"{path.relative_to(root)}: has a row of QUERN_OP_{upper}, which ops.def has not"
                elif path.stem != name and not path.stem.startswith(f"{name}_"):
                    yield f"{path.relative_to(root)}: has a row of {name}, whose file is {name}.cpp"


def proves_that_it_fails():
    """A tree of two ops: one file is missing, one has no row, and one has another's."""
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch)
        files = {OPS: 'QUERN_OP(1, ADD, add, elementwise, "a b", "y", "", "-")\nQUERN_OP(2, SUB, sub, elementwise, "a b", "y", "", "-")\n'
                      'QUERN_OP(180, ALL_REDUCE, all_reduce, collective, "x", "y", "", "-")\n',
                 "backends/cpu/src/ops/add.cpp": 'constexpr Kernel t[] = {{QUERN_OP_ADD, "add.portable", run}};\nconst std::span<const Kernel> add_kernels = t;\n',
                 "backends/cuda/src/ops/add.cpp": 'const Op add_op{QUERN_OP_ADD, "add.cuda"};\nconst Op sub_op{QUERN_OP_SUB, "sub.cuda"};\n',
                 "backends/cuda/src/ops/sub.cpp": "// nothing\n",
                 "backends/vulkan/src/ops/add.cpp": 'const Op add_op = offer(QUERN_OP_ADD, "add.vulkan");\n',
                 "backends/vulkan/src/ops/sub.cpp": 'const Op sub_op =\n    offer(QUERN_OP_SUB, "sub.vulkan");\n'}
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        expected = ["backends/cpu/src/ops/sub.cpp: ops.def has the op sub, and there is no such file",
                    "backends/cuda/src/ops/sub.cpp: does not define the row of sub",
                    "backends/cuda/src/ops/sub.cpp: no row has QUERN_OP_SUB",
                    "backends/cuda/src/ops/add.cpp: has a row of sub, whose file is sub.cpp"]
        found = list(faults(root))
        if found != expected:
            sys.exit("check_op_files.py: a tree with faults gives\n" + "\n".join(found))


def main():
    proves_that_it_fails()
    wrong = list(faults(ROOT))
    print("\n".join(wrong) or f"{len(ops_of(ROOT))} ops have a file in each of {len(DEFINED)} backends")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
