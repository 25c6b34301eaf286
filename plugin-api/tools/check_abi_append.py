#!/usr/bin/env python3
"""Fails on a change of the plugin ABI that is not an append.

  check_abi_append.py OLD.inc NEW.inc     two files written by layout.py --all
  check_abi_append.py --released          each file of layout/released against the present headers

An append is: a new struct, new members behind the old ones of a struct that is not held by value in another, a new constant,
a new op, a new format. A function table or struct that grew needs a greater QUERN_ABI_MINOR, a new op a greater
QUERN_OPSET_VERSION, a new format a greater QUERN_FORMAT_TABLE_VERSION, once OLD is a release.
Exit 0: only appends. 1: something else, one line each on stderr. 2: usage, or a file that cannot be read.
"""
import pathlib
import re
import sys
import tempfile

import headers
import layout

# Constants that count or cover the others, and so may grow.
GROWING = {"QUERN_ABI_MINOR", "QUERN_OPSET_VERSION", "QUERN_FORMAT_TABLE_VERSION", "QUERN_PLAN_CACHE_VERSION",
           "QUERN_FORMAT_COUNT", "QUERN_VALUE_USES_ALL", "QUERN_NODE_USES_ALL"}
MASKS = {"QUERN_VALUE_USES_ALL", "QUERN_NODE_USES_ALL"}


class Layout:
    def __init__(self, path):
        text = pathlib.Path(path).read_text()
        self.sizes = {n: int(s) for n, s in re.findall(r"^QUERN_LAYOUT_STRUCT\((\w+), (\d+)\)", text, flags=re.M)}
        self.members = {name: [] for name in self.sizes}
        for struct, member, offset, size, type_ in re.findall(
                r'^QUERN_LAYOUT_MEMBER\((\w+), (\w+), (\d+), (\d+), "(.*)"\)$', text, flags=re.M):
            self.members[struct].append((member, int(offset), int(size), type_))
        self.values = {n: int(v) for n, v in re.findall(r"^QUERN_LAYOUT_VALUE\((\w+), (-?\d+)(?:ull)?\)", text, flags=re.M)}
        self.rows = {(k, n): t for k, n, t in re.findall(r"^QUERN_LAYOUT_ROW\((\w+), (\w+), (.*)\)$", text, flags=re.M)}
        if not self.sizes:
            raise ValueError(f"{path}: holds no QUERN_LAYOUT_STRUCT line; is it a file of layout.py?")

    def held_by_value(self):
        return {type_.split("[")[0] for members in self.members.values() for _, _, _, type_ in members} & set(self.sizes)


def struct_changes(old, new, frozen):
    for struct, members in old.members.items():
        if struct not in new.members:
            yield f"{struct}: removed"
            continue
        now = new.members[struct]
        for index, was in enumerate(members):
            if index >= len(now):
                yield f"{struct}.{was[0]}: removed"
            elif now[index][0] != was[0]:
                yield f"{struct}.{was[0]}: at its place stands {now[index][0]}; new members go to the end"
            elif now[index] != was:
                yield (f"{struct}.{was[0]}: was '{was[3]}' at {was[1]} with {was[2]} bytes, "
                       f"is '{now[index][3]}' at {now[index][1]} with {now[index][2]}")
        if struct in frozen and new.sizes[struct] != old.sizes[struct]:
            yield f"{struct}: is held by value in another struct and grew from {old.sizes[struct]} to {new.sizes[struct]} bytes"
        elif new.sizes[struct] < old.sizes[struct]:
            yield f"{struct}: shrank from {old.sizes[struct]} to {new.sizes[struct]} bytes"


def value_changes(old, new):
    for name, value in old.values.items():
        if name not in new.values:
            yield f"{name}: removed; a number is never given up"
        elif name in MASKS and new.values[name] & value != value:
            yield f"{name}: lost bits, was {value:#x}, is {new.values[name]:#x}"
        elif name in GROWING and new.values[name] < value:
            yield f"{name}: went back from {value} to {new.values[name]}"
        elif name not in GROWING and new.values[name] != value:
            yield f"{name}: renumbered from {value} to {new.values[name]}"


def row_changes(old, new):
    for key, text in old.rows.items():
        if key not in new.rows:
            yield f"{key[0]} {key[1]}: removed"
        elif new.rows[key] != text:
            yield f"{key[0]} {key[1]}: was {text}, is {new.rows[key]}; another meaning is another id or revision"


def missing_bumps(old, new):
    def grew(name):
        return new.values.get(name, 0) > old.values.get(name, 0)
    new_rows = {kind for kind, name in new.rows if (kind, name) not in old.rows}
    bigger = any(new.sizes.get(s, 0) > size for s, size in old.sizes.items()) or set(new.sizes) - set(old.sizes)
    if bigger and not grew("QUERN_ABI_MINOR"):
        yield "a struct grew or was added, and QUERN_ABI_MINOR did not grow"
    if "op" in new_rows and not grew("QUERN_OPSET_VERSION"):
        yield "an op was added, and QUERN_OPSET_VERSION did not grow"
    if "format" in new_rows and not grew("QUERN_FORMAT_TABLE_VERSION"):
        yield "a format was added, and QUERN_FORMAT_TABLE_VERSION did not grow"


def compare(old_path, new_path):
    old, new = Layout(old_path), Layout(new_path)
    found = [*struct_changes(old, new, old.held_by_value()), *value_changes(old, new), *row_changes(old, new),
             *missing_bumps(old, new)]
    for line in found:
        print(f"{new_path} against {old_path}: {line}", file=sys.stderr)
    return 1 if found else 0


def main(arguments):
    layouts = layout.ROOT / "layout"
    try:
        if arguments == ["--released"]:
            releases = sorted((layouts / "released").glob("*.inc"))
            print(f"{len(releases)} released layouts to compare with")
            with tempfile.TemporaryDirectory() as scratch:
                present = pathlib.Path(scratch, "present.inc")
                present.write_text(layout.layout(headers.include_folder())[0])
                return max([compare(old, present) for old in releases], default=0)
        if len(arguments) != 2:
            print(__doc__, file=sys.stderr)
            return 2
        return compare(*arguments)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
