#!/usr/bin/env python3
"""Writes plugin-api/MECHANISMS.md: each mechanism of the plugin headers, with its rule, host code that uses it, a plugin that has it, and a case.

mechanisms.py           writes the page
mechanisms.py --check   fails where the page is not what would be written, or a cell would be empty

A mechanism is a function of the table, a flag or enumerator that says what is asked or offered, or a member of a struct that only some plugins or
hosts need. One that no host of ours uses, or no plugin of ours has, must stand in a comment "Experimental [C30]: NAME, NAME." of its header, and in
rule C30.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "plugin-api/MECHANISMS.md"
INCLUDE = ROOT / "plugin-api/include/quern"
HEADERS = ("quern_abi.h", "quern_device.h", "quern_graph.h", "quern_plan.h", "quern_plugin_api.h")
HOST = ("runtime/src", "runtime/graph/src", "runtime/graph/include", "loader/src", "loader/include")
PLUGINS = ("backends/cpu/src", "backends/cuda/src", "backends/vulkan/src", "plugin-api/include/quern/sdk", "plugin-api/include/quern/quern_plugin.hpp",
           "plugin-api/include/quern/quern_device_plugin.hpp", "plugin-api/sample")
SUITE = ("conformance/abi", "conformance/src", "conformance/ops", "tests/plugin-api", "tests/loader", "tests/runtime")
SUFFIXES = (".c", ".cpp", ".hpp", ".cu", ".cuh", ".h")

# What says what a mechanism is for: a function by its name, a constant by the longest beginning.
RULES = {
    "create": 7, "destroy": 27, "probe": 8, "device_count": 23, "device_info": 23, "device_open": 27, "device_close": 27, "heap_info": 23,
    "memory_limit": 23, "buffer_create": 23, "buffer_destroy": 27, "trim": 23, "queue_create": 31, "queue_destroy": 31, "upload": 31, "download": 31,
    "copy": 31, "fill": 31, "fence_create": 31, "fence_destroy": 31, "fence_query": 31, "fence_wait": 18, "fence_signal": 18, "support": 10,
    "weights_plan": 15, "weights_pack": 15, "weights_release": 15, "compile": 26, "plan_info": 29, "plan_destroy": 27, "instance_create": 12,
    "instance_destroy": 27, "prepare": 12, "submit": 12, "run_cancel": 18, "counters": 12, "communicator_create": 19, "communicator_destroy": 19,
    "snapshot": 14, "plan_serialize": 25, "plan_deserialize": 25, "restore": 14, "buffer_address": 16, "fence_info": 18, "kv_page_query": 24,
    "tuning_export": 29, "tuning_import": 29,
    "QUERN_MUST_UNDERSTAND": 2, "QUERN_ERROR_": 22, "QUERN_CAP_": 24, "QUERN_CAP_COLLECTIVES": 19, "QUERN_CAP_INDIRECT_SPANS": 16,
    "QUERN_CAP_SNAPSHOTS": 14, "QUERN_CAP_UNLOADABLE": 27, "QUERN_CAP_PROBE_NEEDS_CHILD": 8, "QUERN_USAGE_": 23, "QUERN_QUEUE_": 31,
    "QUERN_FENCE_": 18, "QUERN_VALUE_": 26, "QUERN_VALUE_USES_": 3, "QUERN_VALUE_USES_SNAPSHOT": 14, "QUERN_VALUE_USES_INDIRECT": 16,
    "QUERN_ATTR_": 4, "QUERN_NODE_USES_": 3, "QUERN_NODE_USES_PREDICATE": 14, "QUERN_CONVERT_": 17, "QUERN_DETERMINISM_": 17, "QUERN_ANSWER_": 10,
    "QUERN_REQUIRE_": 10, "QUERN_TUNING_": 29, "QUERN_ALONE_": 29, "QUERN_ROWS_": 29, "QUERN_FAULT_": 18, "QUERN_FAULT_INDEX_RANGE": 21,
}
# Members that are a mechanism: what a host may leave out, or a plugin.
MEMBERS = {
    "quern_host.log": 9, "quern_host.allocate": 9, "quern_host.option": 9, "quern_host.affinity": 9, "quern_host.cache_directory": 9,
    "quern_probe_report.reasons": 8, "quern_device_info.uuid": 23, "quern_device_info.max_allocation": 23, "quern_sync.wait": 18,
    "quern_sync.signal": 18, "quern_fence_info.poll_word": 18, "quern_value.layout": 15, "quern_value.alias_of": 26, "quern_symbol.extent": 11,
    "quern_symbol.multiple_of": 11, "quern_node.predicate": 14, "quern_graph.bodies": 10, "quern_answer.group": 10, "quern_answer.requirements": 10,
    "quern_answer.kernel": 29, "quern_compile_options.tuning": 29, "quern_compile_options.fusion": 29, "quern_compile_options.force_kernel": 29,
    "quern_compile_options.communicators": 19, "quern_compile_options.progress": 26, "quern_compile_options.refused_nodes": 10,
    "quern_plan_info.kernels": 29, "quern_plan_info.schedules": 29, "quern_plan_info.numerics_key": 17, "quern_instance_options.bounds": 11,
    "quern_instance_info.scratch_bytes": 12, "quern_instance_info.private_bytes": 12, "quern_instance_info.scratch_alignment": 12,
    "quern_instance_info.max_in_flight": 12, "quern_instance_info.slots": 12, "quern_run.patches": 13, "quern_run.bounds": 11, "quern_run.status": 18,
    "quern_run_status.faults": 18, "quern_weight_item.layout_key": 15, "quern_weight_item.essential": 15, "quern_weight_item.source_needed_after": 15,
    "quern_weight_item.benefit": 15,
}
# Constants that are no mechanism: types, versions, limits, and the words of reports (domains, log levels, classes, figures, heaps, CPU features).
NO_MECHANISM = re.compile(r"QUERN_(TYPE_\w+|\w+_USES_ALL|MAX_DIMS|ABI_\w+|PLAN_CACHE_VERSION|PLUGIN_QUERY_NAME|NOTE_\w+|NONE|\w+_H"
                          r"|DOMAIN_\w+|LOG_\w+|DEVICE_\w+|FIGURE_\w+|HEAP_\w+|CPU_\w+)$")


class Source:
    def __init__(self, path):
        self.path, self.text = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
        self.words = set(re.findall(r"\w+", self.text))


def read_all(folders):
    """The sources below some folders, in the order of their paths."""
    found = []
    for folder in folders:
        at = ROOT / folder
        found += [Source(p) for p in ([at] if at.is_file() else sorted(p for p in at.rglob("*") if p.suffix in SUFFIXES))]
    words = {}  # a source and its header name the struct together
    for source in found:
        words.setdefault(source.path.rpartition(".")[0], set()).update(source.words)
    for source in found:
        source.unit = words[source.path.rpartition(".")[0]]
    return found


def experimental(text):
    """Names in comments "Experimental [C30]: a, b." of a header."""
    comments = re.findall(r"/\* Experimental \[C30\]: (.*?)\.\s", text, flags=re.S)
    return {name for comment in comments for name in re.findall(r"[\w.]+\w", comment)}


class Mechanism:
    """How it is found: `owner` is a word that a file has beside the name, so that a common word is not taken for the member."""

    def __init__(self, kind, title, rule):
        self.kind, self.title, self.rule = kind, title, rule
        self.owner, _, self.name = title.rpartition(".")

    def pattern(self, side):
        if self.kind == "constant":
            return rf"\b{self.name}\b"
        if self.kind == "member":
            return rf"(\.|->){self.name}\b"
        if side == "host":
            return rf"quern_plugin_api::{self.name}\b"
        if side == "plugin":
            return rf"\b(api|made|table)(\.|->){self.name} *=|\n *\.{self.name} *= "
        return rf"(api\(\)|api_?|table|given|made)(\.|->){self.name}\b|quern_plugin_api::{self.name}\b"

    def first(self, sources, side):
        wanted = re.compile(self.pattern(side))
        return next((s.path for s in sources if self.name in s.words and (not self.owner or self.owner in s.unit) and wanted.search(s.text)), None)


def mechanisms():
    found = []
    for header in HEADERS:
        text = re.sub(r"/\*.*?\*/", "", (INCLUDE / header).read_text(encoding="utf-8"), flags=re.S)
        table = text.partition("typedef struct quern_plugin_api {")[2]
        found += [Mechanism("function", name, RULES.get(name)) for name in re.findall(r"\(\*(\w+)\)\(", table)]
        for name, value in re.findall(r"\b(QUERN_[A-Z0-9_]+)\s*=\s*(\w+)", text) + re.findall(r"^#define (QUERN_[A-Z0-9_]+) (\S+)", text, flags=re.M):
            if NO_MECHANISM.match(name) or value == "0":  # 0 says that nothing is asked
                continue
            fits = [key for key in RULES if key.startswith("QUERN_") and name.startswith(key)]
            found.append(Mechanism("constant", name, RULES[max(fits, key=len)] if fits else None))
        for struct, body in re.findall(r"typedef struct (\w+) \{(.*?)\n\} \w+;", text, flags=re.S):
            names = re.findall(r"\(\*(\w+)\)\(|\b(\w+)(?:\[\w+\])*;", body)
            found += [Mechanism("member", f"{struct}.{a or b}", MEMBERS[f"{struct}.{a or b}"]) for a, b in names if f"{struct}.{a or b}" in MEMBERS]
    return found


def main():
    host, plugins, suite = read_all(HOST), read_all(PLUGINS), read_all(SUITE)
    contract = (ROOT / "plugin-api/CONTRACT.md").read_text(encoding="utf-8")
    rules = set(map(int, re.findall(r"^### C(\d+) ", contract, flags=re.M)))
    kept_open = contract[contract.index("### C30 "):].split("\n### ")[0].split("\n## ")[0]
    cases = {}
    for rule, case in re.findall(r"QUERN_ABI_\w+\((\d+), \"([\w.]+)\"\)", (ROOT / "conformance/abi/rules.def").read_text(encoding="utf-8")):
        cases.setdefault(int(rule), f"abi.{case}")
    marks = set().union(*(experimental((INCLUDE / header).read_text(encoding="utf-8")) for header in HEADERS))
    found = mechanisms()
    titles = {m.title for m in found}
    wrong = [f"{name}: is marked in a header and no mechanism" for name in sorted(marks - titles)]
    wrong += [f"{name}: MEMBERS has it, and no header does" for name in MEMBERS if name not in titles]
    rows = {"function": [], "constant": [], "member": []}
    for m in found:
        if m.rule not in rules or m.rule not in cases:
            wrong.append(f"{m.title}: the tool has no rule of CONTRACT.md with a case for it")
            continue
        used, had, tried = m.first(host, "host"), m.first(plugins, "plugin"), m.first(suite, "suite")
        if m.title in marks:
            if used and had:
                wrong.append(f"{m.title}: is marked as experimental, but {used} uses it and {had} has it: take the mark away")
            if not re.search(rf"(?<![\w.]){re.escape(m.title)}(?![\w.]*\w)", kept_open):
                wrong.append(f"{m.title}: is marked as experimental, but rule C30 does not name it")
        elif not used or not had:
            lack = " and ".join(w for w, ok in (("no host code of ours uses it", used), ("no plugin of ours has it", had)) if not ok)
            wrong.append(f"{m.title}: {lack}: use it, or mark it as experimental in its header and in rule C30")
        rows[m.kind].append((m.title, f"C{m.rule}", used or "experimental", had or "experimental",
                             f"`{cases[m.rule]}`" + (f", {tried}" if tried else "")))
    page = ["# The mechanisms of the plugin headers", "",
            "Written by `plugin-api/tools/mechanisms.py`; the test `tree.mechanisms` compares it with the tree. Each row begins with the rule of",
            "[CONTRACT.md](CONTRACT.md). Then come host code that uses the mechanism, and code of a plugin or of the SDK that has it. Last are a case of its",
            "rule and a test that names it. The first place of each kind is named. *Experimental*: nobody uses it there yet, and its meaning may still",
            "change (rule C30).", ""]
    for kind, title in (("function", "Functions"), ("constant", "Flags and enumerators"), ("member", "Members of structs")):
        page += [f"## {title}", "| mechanism | rule | host | plugin | case |", "|---|---|---|---|---|"]
        page += ["| " + " | ".join([f"`{row[0]}`", *row[1:]]) + " |" for row in rows[kind]] + [""]
    text = "\n".join(page).rstrip("\n") + "\n"
    if "--check" in sys.argv[1:]:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            wrong.append(f"{PAGE.relative_to(ROOT)} is not what the tree gives: run plugin-api/tools/mechanisms.py")
    else:
        PAGE.write_text(text, encoding="utf-8")
    for sentence in wrong:
        print(sentence)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
