#!/usr/bin/env python3
"""Which cases cover each model of conformance/ops/models.def, and each limit of conformance/limits.txt.

    coverage.py [--verbose] build/bin/quern-conformance [REPOSITORY]

Prints a line a model and a line a limit; exit code 1 if a model lacks a case of its shape, if a limit has no case at it, below it or above it, if a
constant in a backend's source has the name of a limit and limits.txt has no line for it, or if a line of limits.txt is about nothing.
"""
import collections
import fnmatch
import json
import pathlib
import re
import subprocess
import sys
import tempfile

NAMES = re.compile("most|max|largest|least|few|limit|tile|block|part|rows|tokens|stage|slot|heads|span|panel|chunk|pages|warps|threads|splits|depth|keys|"
                   "queries|share|group|wide_k|capacity|count|mirror", re.IGNORECASE)
DECLARATION = re.compile(r"\b(?:constexpr|const)\s+(?:static\s+)?[\w:<> ]*?\b(?:int|uint|unsigned|auto|(?:std::)?size_t|(?:std::)?u?int\d+_t)\s+([^;(){}]*);")
ONE = re.compile(r"\b([A-Za-z_]\w*)\s*=\s*([0-9][^,;]*)")
DEFINE = re.compile(r"^#define\s+([A-Za-z_]\w*)\s+([0-9]+)u?\s*(?://.*)?$", re.MULTILINE)
SUFFIXES = {".hpp", ".cpp", ".cu", ".cuh", ".comp", ".glsl"}
FOLDERS = {backend: f"backends/{backend}/src" for backend in ("cpu", "cuda", "vulkan")} | {"sdk": "plugin-api/include/quern/sdk"}
NEAR = 256  # a block of the widest format: how far below or above a limit a case may lie
ROW_OPS = {"copy", "cast", "add", "sub", "mul", "silu", "gelu", "relu", "glu", "scale", "rms_norm", "layer_norm", "softmax"}


def positions(case):
    """Past and fresh rows of the sequences that a paged case's note lists."""
    return [(int(a), int(b)) for a, b in re.findall(r"_(\d+)\+(\d+)", case["note"])]


def dims(case, i):
    value = case["inputs"][i] if i < len(case["inputs"]) else None
    return value["dims"] if value else None


def longest(case):
    return max((past + fresh for past, fresh in positions(case)), default=None)


def last_position(case):
    return max((past + fresh - 1 for past, fresh in positions(case)), default=None)


def whole_length(case):
    """Keys that a row reads: all positions, unless a window has passed most of them."""
    return None if "_passed" in case["note"] else longest(case)


def product(case):
    a, b = dims(case, 0), dims(case, 1)
    return a and b and len(a) == 2 and len(b) == 2 and a[1] == b[1]


def elements(case):
    count = 1
    for d in dims(case, 0):
        count *= d
    return count


def of(op, get):
    ops = {op} if isinstance(op, str) else op
    return lambda case: get(case) if case.get("op") in ops else None


AXES = {
    "attention.rows": of("attention", lambda c: dims(c, 0)[0]),
    "attention.heads": of("attention", lambda c: dims(c, 0)[1]),
    "attention.group": of("attention", lambda c: dims(c, 0)[1] // dims(c, 1)[1]),
    "attention.size": of("attention", lambda c: dims(c, 0)[2]),
    "attention.value": of("attention", lambda c: dims(c, 2)[3]),
    "attention.keys": of("attention", whole_length),
    "attention.position": of("attention", last_position),
    "attention.pages": of("attention", lambda c: dims(c, 1)[0]),
    "attention.pages_a_sequence": of("attention", lambda c: dims(c, 3)[1] - 1),
    "attention.sequences": of("attention", lambda c: dims(c, 3)[0]),
    "attention_dense.size": of("attention_dense", lambda c: dims(c, 0)[-1]),
    "attention_dense.value": of("attention_dense", lambda c: dims(c, 2)[-1]),
    "attention_dense.keys": of("attention_dense", lambda c: dims(c, 1)[1]),
    "attention_ragged.rows": of("attention_ragged", lambda c: dims(c, 0)[0]),
    "kv_write.position": of("kv_write", last_position),
    "kv_write.sequences": of("kv_write", lambda c: dims(c, 1)[0]),
    "kv_write.size": of("kv_write", lambda c: dims(c, 0)[2]),
    "rope.heads": of("rope", lambda c: dims(c, 0)[1]),
    "rope.size": of("rope", lambda c: dims(c, 0)[2]),
    "rope.table": of("rope", lambda c: dims(c, 2)[0]),
    "matmul.m": of("matmul", lambda c: dims(c, 0)[0] if product(c) else None),
    "matmul.n": of("matmul", lambda c: dims(c, 1)[0] if product(c) else None),
    "matmul.k": of("matmul", lambda c: dims(c, 0)[1] if product(c) else None),
    "matmul_id.pairs": of("matmul_id", lambda c: dims(c, 2)[0] * dims(c, 2)[1]),
    "matmul_id.n": of("matmul_id", lambda c: dims(c, 1)[1]),
    "matmul_id.k": of("matmul_id", lambda c: dims(c, 1)[2]),
    "matmul_id_backward.tokens": of("matmul_id_backward", lambda c: dims(c, 0)[0]),
    "sample.rows": of("sample", lambda c: dims(c, 0)[0]),
    "sample.length": of("sample", lambda c: dims(c, 0)[1]),
    "argmax.length": of("argmax", lambda c: dims(c, 0)[-1]),
    "sum_rows.length": of({"sum_rows", "sum_all", "mean_rows"}, lambda c: dims(c, 0)[-1]),
    "set_rows.length": of("set_rows", lambda c: dims(c, 0)[-1]),
    "fill.length": of("fill", lambda c: case_output(c)),
    "get_rows.rows": of("get_rows", lambda c: dims(c, 1)[0]),
    "take.count": of("take", lambda c: dims(c, 1)[0]),
    "elements": of(ROW_OPS, lambda c: elements(c)),
    "elements.rows": of(ROW_OPS, lambda c: elements(c) // max(1, dims(c, 0)[-1])),
}


# Of the graphs of a ranged number of rows, and of rows whose outputs are wanted: from the pairs that a case runs with.
STEP_AXES = {"step.sequences": lambda rows, outputs: rows if rows == outputs else None}
ABI_AXES = ("runs_a_list", "patches_a_run", "bytes_a_patch", "bytes_of_patches", "outputs_a_plan")  # of conformance/abi/counts.def


def case_output(case):
    count = 1
    for d in case["outputs"][0]["dims"]:
        count *= d
    return count


def cases(program, profile):
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run([program, "list", "--profile", profile, "--json", file.name], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return [json.loads(line) for line in pathlib.Path(file.name).read_text().splitlines()]


def number(text):
    """The value of "32 << 20", "8 * 32", "8u", "0x10"; None where it is no number."""
    text = re.sub(r"(?<=[0-9a-fA-F])[uUlL]+\b", "", text.split("//")[0]).strip()
    return eval(text, {"__builtins__": {}}) if re.fullmatch(r"[0-9xa-fA-F <*+()-]+", text) else None  # noqa: S307: digits and operators alone


def constants(repository):
    """(backend, file, name, value) of each constant with the name of a limit."""
    found = []
    for backend, path in FOLDERS.items():
        folder = repository / path
        for path in sorted(p for p in folder.rglob("*") if p.suffix in SUFFIXES):
            text = path.read_text()
            pairs = [pair for declaration in DECLARATION.finditer(text) for pair in ONE.findall(declaration.group(1))] + DEFINE.findall(text)
            for name, expression in pairs:
                value = number(expression)
                if NAMES.search(name) and value is not None and value > 1:
                    found.append((backend, str(path.relative_to(folder)), name, value))
    return found


class Row:
    """A line of limits.txt."""

    def __init__(self, line, at):
        words = line.split()
        if len(words) < 4:
            sys.exit(f"limits.txt:{at}: a line has a backend, a file, a constant and an axis")
        self.at, (self.backend, self.file, self.constant, self.axis), self.rest = at, words[:4], words[4:]
        self.times = next((int(w[6:]) for w in self.rest if w.startswith("times=")), 1)
        self.refused = "refused" in self.rest
        self.used = self.constant.startswith("=")
        if self.axis != "-" and self.axis not in (*AXES, *STEP_AXES, *ABI_AXES):
            sys.exit(f"limits.txt:{at}: there is no axis {self.axis}")

    def has(self, backend, file, name):
        return self.backend == backend and fnmatch.fnmatchcase(file, self.file) and fnmatch.fnmatchcase(name, self.constant)


def limits(repository, problems):
    """(what, axis, value, refused) of each limit that is a count of cases."""
    lines = (repository / "conformance" / "limits.txt").read_text().splitlines()
    rows = [Row(line, at) for at, line in enumerate(lines, 1) if line.strip() and not line.startswith("#")]
    wanted = {}
    for backend, file, name, value in constants(repository):
        row = next((r for r in rows if r.has(backend, file, name)), None)
        if row is None:
            problems.append(f"{FOLDERS[backend]}/{file}: {name} = {value} has no line in conformance/limits.txt")
            continue
        row.used = True
        if row.axis != "-":
            wanted[f"{backend} {file} {name}", row.axis, value * row.times, row.refused] = None
    for row in rows:
        if not row.used:
            problems.append(f"conformance/limits.txt:{row.at}: {row.constant} is in no source that the line names")
        if row.constant.startswith("="):
            wanted[row.backend, row.axis, int(row.constant[1:]), row.refused] = None
    return list(wanted)


def show_limits(repository, all_cases, verbose, problems):
    counts = {axis: collections.defaultdict(list) for axis in (*AXES, *STEP_AXES)}
    for case in all_cases:
        for axis, get in STEP_AXES.items():
            for value in {get(*run) for run in case.get("runs", [])} - {None}:
                counts[axis][value].append(case["name"])
        if case["kind"] != "node":
            continue
        for axis, get in AXES.items():
            value = get(case)
            if value is not None:
                counts[axis][value].append(case["name"])
    for axis, value in re.findall(r"^QUERN_ABI_COUNT\((\w+), (\d+)\)", (repository / "conformance/abi/counts.def").read_text(), re.MULTILINE):
        counts.setdefault(axis, collections.defaultdict(list))[int(value)].append("abi." + axis)
    for what, axis, limit, refused in limits(repository, problems):
        have = counts[axis]
        at = [n for v in (limit,) for n in have.get(v, [])]
        below = [n for v in have if max(0, limit - NEAR) <= v < limit and (limit - v == 1 or v >= limit - NEAR) for n in have[v]]
        above = [n for v in have if limit < v <= limit + NEAR for n in have[v]]
        next_to = (limit - 1 in have, limit + 1 in have or refused)
        print(f"limit {what}: {axis} {limit}: {len(below)} below, {len(at)} at, {len(above)} above" + (", more is refused" if refused else ""))
        if verbose:
            for name in (have.get(limit - 1, [])[:1] + at[:1] + have.get(limit + 1, [])[:1]):
                print(f"  {name}")
        if not at:
            problems.append(f"{what}: no case has {axis} = {limit}")
        for side, fine in (("below", next_to[0]), ("above", next_to[1])):
            if not fine:
                problems.append(f"{what}: no case has {axis} = {limit + (1 if side == 'above' else -1)}, next {side} its limit of {limit}")


def models(repository):
    columns = ("name", "heads", "kv_heads", "key", "value", "width", "ffn", "vocab", "experts", "used", "rope", "context")
    text = (repository / "conformance" / "ops" / "models.def").read_text()
    rows = re.findall(r"^QUERN_MODEL\(([^)]*)\)", text, re.MULTILINE)
    return [dict(zip(columns, [w if i == 0 else int(w) for i, w in enumerate(re.split(r",\s*", row))])) for row in rows]


def show_models(repository, all_cases, verbose, problems):
    by_op = collections.defaultdict(list)
    for case in all_cases:
        if case["kind"] == "node":
            by_op[case["op"]].append(case)
    longest_keys = max(whole_length(c) or 0 for c in by_op["attention"])
    longest_position = max(last_position(c) or 0 for c in by_op["attention"])
    for m in models(repository):
        turned = m["rope"] if m["key"] != m["value"] else m["key"]
        wanted = {
            "attention": lambda c: dims(c, 0)[1:] == [m["heads"], m["key"]] and dims(c, 1)[1] == m["kv_heads"] and dims(c, 2)[3] == m["value"],
            "kv_write": lambda c: dims(c, 0)[1:] == [m["kv_heads"], m["key"]],
            "rope": lambda c: dims(c, 0)[1:] == [m["heads"], turned] and dims(c, 2)[1] * 2 == m["rope"],
            "get_rows": lambda c: dims(c, 0)[0] == m["vocab"],
            "moe_router": lambda c: dims(c, 0)[1] == m["experts"] and c["outputs"][0]["dims"][1] == m["used"],
            "matmul_id": lambda c: dims(c, 1)[0] == m["experts"] and dims(c, 2)[1] == m["used"],
        }
        if m["rope"] == 0:
            del wanted["rope"]
        if m["experts"] == 0:
            del wanted["moe_router"], wanted["matmul_id"]
        found = {op: [c["name"] for c in by_op[op] if match(c)] for op, match in wanted.items()}
        for part, k in (("width", m["width"]), ("ffn", m["ffn"]), ("heads", m["heads"] * m["value"])):
            found[f"matmul k={part}"] = [c["name"] for c in by_op["matmul"] if product(c) and dims(c, 0)[1] == k]
        for part, n in (("ffn", m["ffn"]), ("vocab", m["vocab"])):
            found[f"matmul n={part}"] = [c["name"] for c in by_op["matmul"] if product(c) and dims(c, 1)[0] == n]
        print(f"model {m['name']}: " + ", ".join(f"{what} {len(names)}" for what, names in found.items()))
        for what, names in found.items():
            if verbose and names:
                print(f"  {what}: {names[0]}")
            if not names:
                problems.append(f"{m['name']}: no case of {what} has its shape")
        if longest_position < min(m["context"], 1 << 20) or longest_keys < min(m["context"], 1 << 17):
            problems.append(f"{m['name']}: no case of attention reaches its {m['context']} positions")


def main():
    arguments = [a for a in sys.argv[1:] if a != "--verbose"]
    if not 1 <= len(arguments) <= 2:
        sys.exit(__doc__)
    repository = pathlib.Path(arguments[1] if len(arguments) == 2 else ".")
    verbose, problems = "--verbose" in sys.argv, []
    all_cases = cases(arguments[0], "full")
    show_models(repository, all_cases, verbose, problems)
    show_limits(repository, all_cases, verbose, problems)
    for problem in problems:
        print(f"lacking: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
