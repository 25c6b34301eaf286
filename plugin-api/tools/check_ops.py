#!/usr/bin/env python3
"""Holds OPS.md, ops.def with its forms, and keys.def equal, and each row sound. Exit 1 with one line for each difference.

  check_ops.py [--def FOLDER] [--table OPS.md]
"""
import argparse
import pathlib
import re
import sys

import headers

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = ["id", "op", "group", "inputs", "outputs", "attributes", "dtypes", "gradient", "meaning"]


def table_rows(path):
    rows = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not re.match(r"\| \d+ \|", line):
            continue
        cells = [c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) != len(COLUMNS):
            raise headers.HeaderError(f"{path.name}:{number}: {len(cells)} cells, not {len(COLUMNS)}")
        rows.append(dict(zip(COLUMNS, cells)))
    return rows


def without_shapes(names):
    """'x[t,h] weight[h]?' -> 'x weight?'"""
    return " ".join(re.sub(r"\[[^\]]*\]", "", names).split())


def differences(rows, table):
    in_table = {int(r["id"]): r for r in table}
    for row in rows:
        other = in_table.pop(row["id"], None)
        if other is None:
            yield f"op {row['id']} {row['name']}: in ops.def, not in OPS.md"
            continue
        pairs = [("op", row["name"], other["op"]), ("group", row["group"], other["group"]),
                 ("inputs", row["inputs"], without_shapes(other["inputs"])),
                 ("outputs", row["outputs"], without_shapes(other["outputs"])),
                 ("attributes", row["attributes"], other["attributes"]), ("gradient", row["gradient"], other["gradient"])]
        for column, left, right in pairs:
            if left != right:
                yield f"op {row['id']} {row['name']}: {column} is '{left}' in ops.def and '{right}' in OPS.md"
        if not other["dtypes"] or not other["meaning"]:
            yield f"op {row['id']} {row['name']}: OPS.md gives no dtypes or no meaning"
    for other in in_table.values():
        yield f"op {other['id']} {other['op']}: in OPS.md, not in ops.def"
    order = [int(r["id"]) for r in table]
    if order != sorted(set(order)):
        yield "OPS.md: ids do not ascend, or stand twice"


def form_problems(rows, forms, table):
    """Each op has a form, its operands are those of the row, and a shape in brackets is that of OPS.md."""
    if list(forms) != [row["NAME"] for row in rows]:
        missing = sorted({row["NAME"] for row in rows} ^ set(forms))
        yield f"ops.def: forms and ops differ: {', '.join(missing) or 'in their order'}"
    in_table = {r["op"]: r for r in table}
    for row in rows:
        for side, form in zip(("inputs", "outputs"), forms.get(row["NAME"], ())):
            where = f"ops.def: the form of {row['name']}"
            operands = [re.match(r"(\*?\w+):([\w|~]+)(\[.*\]|[=<]\w+|)$", word) for word in form.split()]
            if None in operands:
                yield f"{where}: cannot read '{form}'"
                continue
            names = [name.rstrip("?") for name in row[side].split()]
            if [o[1] for o in operands] != names:
                yield f"{where} has the {side} {' '.join(o[1] for o in operands)}, its row {' '.join(names)}"
            told = in_table[row["name"]][side].replace("\\|", "|") if row["name"] in in_table else ""
            shapes = dict(re.findall(r"(\w+)(\[[^\]]*\])", told))
            for o in operands:
                shape = o[3].replace("!", "")
                whole = shapes.get(o[1], shape)
                # A form may name fewer dims: softmax takes rows, whose queries are one of the leading dims.
                if shape.startswith("[") and whole != shape and not (shape.startswith("[..") and whole.endswith(shape[3:])):
                    yield f"{where}: {o[1]} is {shape}, and {shapes[o[1]]} in OPS.md"


def default_problem(text, kind):
    if kind == "I64":
        return None if re.fullmatch(r"-?\d+", text) else "is not an integer"
    if re.fullmatch(r"-?inf", text) or re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", text):
        return None
    return "is not a number"


def row_problems(rows, keys):
    names = {r["name"] for r in rows}
    types = {k["name"]: k["type"] for k in keys}
    used = set()
    last = 0
    for row in rows:
        where = f"ops.def: op {row['id']} {row['name']}"
        if row["id"] <= last:
            yield f"{where}: ids do not ascend"
        last = row["id"]
        if row["NAME"] != row["name"].upper():
            yield f"{where}: its NAME is {row['NAME']}"
        if row["gradient"] not in names | {"composite", "-"}:
            yield f"{where}: its gradient '{row['gradient']}' is no op"
        for side in ("inputs", "outputs"):
            entries = row[side].split()
            for entry in entries:
                if not re.fullmatch(r"\*?[a-z]\w*\??", entry):
                    yield f"{where}: cannot read '{entry}' in {side}"
            if sum(e.startswith("*") for e in entries) and len(entries) != 1:
                yield f"{where}: a '*' stands alone in {side}, else positions are not known"
        for attribute in row["attributes"].split():
            name, _, default = attribute.partition("=")
            used.add(name)
            if name not in types:
                yield f"{where}: attribute '{name}' has no key in keys.def"
            elif default and default_problem(default, types[name]):
                yield f"{where}: default of '{name}', '{default}', {default_problem(default, types[name])}"
    if len(names) != len(rows):
        yield "ops.def: a name stands twice"
    last = 0
    for key in keys:
        if key["id"] <= last:
            yield f"keys.def: key {key['id']} {key['name']}: ids do not ascend"
        last = key["id"]
        if key["NAME"] != key["name"].upper():
            yield f"keys.def: key {key['name']}: its NAME is {key['NAME']}"
        if key["name"] not in used:
            yield f"keys.def: key '{key['name']}' is used by no op"
    if len(types) != len(keys):
        yield "keys.def: a name stands twice"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--def", dest="folder", type=pathlib.Path, default=headers.include_folder())
    arguments.add_argument("--table", type=pathlib.Path, default=ROOT / "OPS.md")
    options = arguments.parse_args()
    try:
        rows, keys, forms, table = headers.ops(options.folder), headers.keys(options.folder), headers.forms(options.folder), table_rows(options.table)
    except headers.HeaderError as error:
        print(error, file=sys.stderr)
        return 1
    found = [*differences(rows, table), *form_problems(rows, forms, table), *row_problems(rows, keys)]
    for line in found:
        print(line, file=sys.stderr)
    print(f"{len(rows)} ops, {len(keys)} attribute keys, {len(found)} differences")
    return 1 if found or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
