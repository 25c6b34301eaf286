#!/usr/bin/env python3
"""Writes docs/reference/codes.md: exit codes, status codes and loader codes, from the files that define them.

usage: docs/tools/codes.py [--check]
  --check  write nothing; fail if the page differs"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/reference/codes.md"
EXITS = {
    0: "success",
    2: "usage: a flag, a setting or a line of the configuration cannot be read",
    3: "the backend or device is unavailable",
    4: "the model or other data is refused",
    5: "it does not fit into memory",
    6: "the context limit",
    7: "conformance failed (`quern-conformance` only)",
    8: "a training run that its watchdog ended (`quern train` only)",
    70: "a bug, or a measurement that contradicts itself",
}
STATUSES = {  # those without a comment in the header
    "QUERN_OK": "success",
    "QUERN_TIMEOUT": "the device did not answer in time",
    "QUERN_CANCELLED": "the caller ended the call",
    "QUERN_DRIVER_MISSING": "the driver of the device is not installed",
    "QUERN_DRIVER_TOO_OLD": "the driver of the device is too old for the plugin",
    "QUERN_PERMISSION": "this user may not open the file or the device",
}
STAGES = {
    "00": ("Search", "The loader looks for plugin files. Nothing has been opened yet."),
    "01": ("Inspection (S0)", "The loader reads the file. No code of the plugin runs."),
    "02": ("Loading (S1)", "A helper process loads the library."),
    "03": ("Negotiation (S2)", "The helper asks the plugin for its table of functions."),
    "04": ("Probe (S3)", "The helper creates the plugin and asks for its devices."),
    "05": ("Opening (S4)", "The program itself opens a device."),
    "06": ("Devices", "One device of a plugin that works is not used."),
    "07": ("The machine and the demand", "A card, a driver, the cache, or the user's demand."),
}


def read(path):
    return (ROOT / path).read_text()


def exit_codes():
    """[(number, meaning)]; the program's enumeration has the same numbers."""
    numbers = {int(number) for number in re.findall(r"^  exit_\w+ = (\d+),", read("cli/src/exit_code.hpp"), re.M)}
    if set(EXITS) != numbers:
        sys.exit(f"docs/tools/codes.py has the exit codes {sorted(EXITS)}, cli/src/exit_code.hpp has {sorted(numbers)}")
    return list(EXITS.items())


def statuses():
    """[(number, name, meaning, exit code)] of the C API."""
    named = {name: int(number) for name, number in re.findall(r"^  (exit_\w+) = (\d+),", read("cli/src/exit_code.hpp"), re.M)}
    exits = {}
    for cases, result in re.findall(r"((?:case QUERN_\w+:\s*(?://[^\n]*\s*)?)+)return (exit_\w+);", read("cli/src/exit_code.cpp")):
        exits.update((name, named[result]) for name in re.findall(r"QUERN_\w+", cases))
    rows = re.findall(r"^#define (QUERN_\w+) (\d+)(?:\s*/\* (.+?) \*/)?$", read("plugin-api/include/quern/quern_status.h"), re.M)
    return [(int(number), name, meaning, exits.get(name, named["exit_bug"])) for name, number, meaning in rows]


def loader_codes():
    rows = re.findall(r'^QUERN_LOADER_CODE\(\w+, "([^"]+)", "([^"]+)", "(.*)"\)$', read("loader/src/codes.def"), re.M)
    if len(rows) < 60:
        sys.exit(f"loader/src/codes.def: {len(rows)} codes were understood")
    return rows


def page():
    out = ["<!-- Written by docs/tools/codes.py. Change the sources that it names, then run it. -->", "# Codes", "",
           "Codes are never renumbered or reused. [Troubleshooting](../troubleshooting.md) explains causes and remedies.", "",
           "## Exit codes", "", "| code | meaning |", "|---|---|"]
    out += [f"| {number} | {meaning} |" for number, meaning in exit_codes()]
    out += ["", "## Status codes of the C API", "",
            "Functions return them, and `quern_status_name` gives the name without `QUERN_`. The last column is the command's exit code.", "",
            "| code | name | meaning | exit |", "|---|---|---|---|"]
    out += [f"| {number} | `{name}` | {meaning or STATUSES[name]} | {code} |" for number, name, meaning, code in statuses()]
    out += ["", "## Loader codes", "", "`quern doctor` prints them. Words in braces stand for a path, an id, a device or a package of your machine."]
    rows = loader_codes()
    for stage, (title, meaning) in STAGES.items():
        out += ["", f"### {title}", meaning, "", "| code | meaning | next command |", "|---|---|---|"]
        of_stage = [row for row in rows if row[0].startswith(f"QUERN-L-{stage}")]
        rows = [row for row in rows if row not in of_stage]
        commands = {"": "", "=": "the remedy that doctor prints"}
        out += [f"| {code} | {words} | " + commands.get(command, "`" + command.replace("|", "\\|") + "`") + " |" for code, words, command in of_stage]
    if rows:
        sys.exit(f"loader/src/codes.def has stages that docs/tools/codes.py does not know: {rows[0][0]}")
    return "\n".join(out) + "\n"


def main():
    text = page()
    if "--check" in sys.argv[1:]:
        if not PAGE.exists() or PAGE.read_text() != text:
            sys.exit(f"{PAGE} differs from its sources; run docs/tools/codes.py")
        print(f"{text.count('QUERN-L-')} loader codes, {text.count('| `QUERN_')} status codes")
        return
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
