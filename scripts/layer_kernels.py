#!/usr/bin/env python3
"""How many kernels one layer of each kind takes, over a driver that computes nothing: the tables that the backends' pages have.

    layer_kernels.py --program FILE --device LABEL --table FILE [--write] [--log-variable NAME] [FAMILY ...]

PROGRAM is of conformance/tools/layer_kernels.cpp. The environment chooses the driver, which appends a line for each kernel to the file that the variable
NAME gives (FAKE_LOG). Without --write the table of the file, between its markers, is compared with what was counted. All tables of a build tree anew:
`cmake --build build/release --target layer_kernel_tables`. Exit: 0 equal or written, 1 they differ, 2 usage, 77 there is no such device.
"""
import argparse
import collections
import os
import pathlib
import subprocess
import sys
import tempfile

ROWS = (1, 8, 32, 64, 512)
BEGIN, END = "<!-- kernels a layer: generated -->", "<!-- end of the kernels a layer -->"


def count(lines):
    """Kernels of each (family, rows, layers)."""
    counted, mark = collections.Counter(), None
    for line in lines:
        words = line.split()
        if not words:
            continue
        if words[0] == "mark":
            mark = (words[1], int(words[2]), int(words[3]))
            counted[mark] = 0
        elif words[0] == "end":
            mark = None
        elif mark is not None and words[0] == "launch":
            counted[mark] += 1
        elif mark is not None and words[0] == "graph":  # of steps that were captured before or during the run; copies cancel out
            counted[mark] += int(words[1])
        elif mark is not None and words[0] == "refused_launch":
            raise ValueError(f"{mark}: the driver refused {words[-1]}")
    return counted


def a_layer(counted):
    """(family, rows) -> kernels a layer: the difference of the two depths, over the layers between them."""
    families = list(dict.fromkeys(family for family, _, _ in counted))
    few, many = (f(layers for _, _, layers in counted) for f in (min, max))
    return {(family, rows): (counted[family, rows, many] - counted[family, rows, few]) / (many - few) for family in families for rows in ROWS}


def words_of(number):
    return f"{number:g}"


def table_of(kernels):
    lines = ["| layer | " + " | ".join(f"{rows} row{'s' if rows > 1 else ''}" for rows in ROWS) + " |", "|---" * (len(ROWS) + 1) + "|"]
    for family in dict.fromkeys(family for family, _ in kernels):
        lines.append(f"| {family} | " + " | ".join(words_of(kernels[family, rows]) for rows in ROWS) + " |")
    return lines


def kernels_in(lines):
    """What a table says: (family, rows) -> words."""
    rows = [[cell.strip() for cell in line.strip("| \n").split("|")] for line in lines if line.startswith("|")]
    return {(row[0], number): cell for row in rows[2:] for number, cell in zip(ROWS, row[1:])}


def differences(path, committed, found):
    for key in dict.fromkeys([*committed, *found]):
        expected, now = committed.get(key, "none"), found.get(key, "none")
        if expected != now:
            yield f"{path}: {key[0]}, {key[1]} rows: expected {expected} kernels a layer, found {now}"


def split(path):
    """The page before the table, the table, and the page behind it."""
    text = path.read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"{path}: needs one line '{BEGIN}' and one line '{END}'")
    before, rest = text.split(BEGIN)
    table, behind = rest.split(END)
    return before, table, behind


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--table", required=True, type=pathlib.Path)
    parser.add_argument("--log-variable", default="FAKE_LOG")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("families", nargs="*")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="quern-layer-kernels-") as folder:
        log = pathlib.Path(folder, "log")
        with log.open("a") as output:  # as the driver opens it, so that the lines of both keep their order
            done = subprocess.run([arguments.program, arguments.device, *arguments.families], stdout=output, stderr=subprocess.PIPE, text=True, check=False,
                                  env={**os.environ, arguments.log_variable: str(log), "QUERN_CACHE_DIR": folder})
        if done.returncode != 0:
            print(done.stderr, file=sys.stderr)
            return 77 if done.returncode == 3 else 1
        kernels = a_layer(count(log.read_text().splitlines()))
    lines = table_of(kernels)
    before, table, behind = split(arguments.table)
    if arguments.write:
        arguments.table.write_text(before + BEGIN + "\n" + "\n".join(lines) + "\n" + END + behind)
        return 0
    wrong = list(differences(arguments.table, {key: cell for key, cell in kernels_in(table.splitlines()).items()
                                               if not arguments.families or key[0].split(".")[0] in arguments.families}, kernels_in(lines)))
    for line in wrong:
        print(line)
    if wrong:
        print("a rule of fusion matches other layers than before; where that is meant, write the tables anew:\n"
              "  cmake --build build/release --target layer_kernel_tables")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
