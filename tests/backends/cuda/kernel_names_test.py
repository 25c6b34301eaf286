#!/usr/bin/env python3
"""Every kernel that the host launches is in the unit that it names, and every kernel that was compiled is launched.

  kernel_names_test.py SOURCES CUBINS
The host names kernels by two strings, `launch("unit", "kernel", ...)`. They are read from SOURCES/*.cpp and SOURCES/ops/*.cpp and compared
with the symbols of CUBINS/UNIT.ARCHITECTURE.cubin, so that a wrong letter needs no card to show. A name that is chosen at run time is
followed to the strings of the nearest definition above: of a variable, a table or a function of the same file.
"""
import pathlib
import re
import struct
import sys

LITERAL = re.compile(r'"([a-z0-9_]+)"')
FUNC = 2  # STT_FUNC


def kernels_of(cubin):
    """The functions in the symbol table of an ELF file that the driver can find by name."""
    data = cubin.read_bytes()
    start, size, count = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, start + i * size) for i in range(count)]
    names = set()
    for _, kind, _, _, offset, length, link, _, _, entry in sections:
        if kind != 2:  # SHT_SYMTAB
            continue
        strings = sections[link][4]
        for at in range(offset, offset + length, entry):
            name, info = struct.unpack_from("<IB", data, at)
            if info & 15 == FUNC:
                names.add(data[strings + name:data.index(b"\0", strings + name)].decode())
    return {name for name in names if "$" not in name}  # what the compiler calls inside


def arguments(text, at):
    """The arguments of the call whose bracket opens at `at`, split at its own commas."""
    found, depth, begin, i = [], 0, at + 1, at
    while True:
        if text[i] == '"':
            i = text.index('"', i + 1)
        elif text[i] in "([{":
            depth += 1
        elif text[i] in ")]}":
            depth -= 1
            if depth == 0:
                return found + [text[begin:i]]
        elif text[i] == "," and depth == 1:
            found.append(text[begin:i])
            begin = i + 1
        i += 1


def definition(text, name):
    """The last definition of a name in the text: a statement, or a function with its body."""
    found = list(re.finditer(rf"\b{name}(?:\[\w*\])*\s*(?:=(?!=)|\{{)|^[\w:&*<> ]+\b{name}\([^;]*?\) (?:const )?(?:noexcept )?\{{", text, re.M))
    if not found:
        return ""
    last = text[found[-1].end() - 1]
    if last == "{" and ")" in found[-1].group():
        return ",".join(arguments(text, found[-1].end() - 1))
    end = text.find(";", found[-1].start())
    return text[found[-1].end():end if end >= 0 else len(text)]


def named(text, expression, depth=3):
    """The strings that an expression may be, behind so much of the text."""
    found = set(LITERAL.findall(expression))
    if found or depth == 0:
        return found
    for word in dict.fromkeys(re.findall(r"[A-Za-z_]\w*", expression)):
        found |= named(text, definition(text, word), depth - 1)
    return found


def main():
    sources, cubins = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    units = {}
    for cubin in sorted(cubins.glob("*.cubin")):
        units.setdefault(cubin.name.split(".")[0], set()).update(kernels_of(cubin))
    assert units, f"no cubins in {cubins}"
    wrong, launched, calls = [], set(), 0
    for path in sorted(sources.glob("*.cpp")) + sorted((sources / "ops").glob("*.cpp")):
        text = re.sub(r"//.*", "", path.read_text())
        for call in re.finditer(r"(?<![\w:])launch\(", text):
            given = arguments(text, call.end() - 1)
            if len(given) < 4:  # another function of that name
                continue
            calls += 1
            place = f"{path.name}: launch({given[0].strip()}, {' '.join(given[1].split())}"
            names, those = named(text[:call.start()], given[1]), set(LITERAL.findall(given[0]))
            if not names:
                wrong.append(f"{place}: no string was found for the kernel's name")
            if not those:  # the unit of a kernel "unit_4"
                those = {name.rpartition("_")[0] for name in names}
            wrong += [f"{place}: there is no unit {unit}" for unit in those - units.keys()]
            wrong += [f"{place}: {name} is not in {', '.join(sorted(those))}" for name in names
                      if not any(name in units.get(unit, ()) for unit in those)]
            launched |= names
    assert calls > 60, f"{calls} launches were found: the pattern is out of date"
    idle = sorted(f"{unit}: {name}" for unit, names in units.items() for name in names - launched)
    wrong += [f"{name} is compiled and no host code launches it" for name in idle]
    print("\n".join(wrong) or f"{calls} launches of {len(launched)} kernels in {len(units)} units")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
