#!/usr/bin/env python3
"""The list of kernels that the host code is compiled with has every kernel that was compiled, in its unit, and each is launched.

  kernel_names_test.py SOURCES CUBINS KERNEL_IDS
The host names kernels by constants, `launcher.launch(kernels::NAME, ...)`, with the type of their parameters: a wrong name or type does not
compile. KERNEL_IDS is the header with these constants, which the build reads from the preprocessed sources. It is compared with the symbols
of CUBINS/UNIT.ARCHITECTURE.cubin. A kernel whose constant no file of SOURCES and SOURCES/ops uses is code that nobody runs.
"""
import pathlib
import re
import struct
import sys

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


def main():
    sources, cubins, ids = map(pathlib.Path, sys.argv[1:4])
    compiled = {(cubin.name.split(".")[0], name) for cubin in cubins.glob("*.cubin") for name in kernels_of(cubin)}
    listed = {(unit, name) for constant, unit, name in re.findall(r'KernelId<\w+> (\w+)\{"(\w+)", "(\w+)"\}', ids.read_text()) if constant == name}
    assert len(compiled) > 100, f"{len(compiled)} kernels in {cubins}"
    code = "".join(re.sub(r"//.*", "", path.read_text()) for path in [*sources.glob("*.cpp"), *(sources / "ops").glob("*.[ch]pp")])
    launched = set(re.findall(r"\bkernels::(\w+)", code))
    wrong = [f"{unit}: {name} is compiled and not listed" for unit, name in sorted(compiled - listed)]
    wrong += [f"{unit}: {name} is listed and not compiled" for unit, name in sorted(listed - compiled)]
    wrong += [f"{unit}: {name} is compiled and no host code launches it" for unit, name in sorted(compiled) if name not in launched]
    print("\n".join(wrong) or f"{len(compiled)} kernels in {len({unit for unit, _ in compiled})} units")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
