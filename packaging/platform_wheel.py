#!/usr/bin/env python3
"""Makes a platform wheel: the pure wheel of python/, with the library, its helper and the backends in quern/_native.

usage: platform_wheel.py PURE.whl PREFIX FOLDER

PREFIX is an installed tree with lib/libquern.so.1, lib/quern/backends-1 and libexec/quern. The wheel is tagged for this machine's
processor and for systems at least as new as this one. Times are SOURCE_DATE_EPOCH's, so that two builds give the same bytes.
"""

import base64
import hashlib
import os
import pathlib
import platform
import re
import sys
import time
import zipfile

PARTS = ("lib/libquern.so.1", "lib/quern/backends-1/*.so", "libexec/quern/*")


def native_files(prefix):
    """The files of the tree as (name in the wheel, path)."""
    found = []
    for part in PARTS:
        matches = sorted(prefix.glob(part))
        if not matches:
            sys.exit(f"{prefix} has no {part}; install the components runtime and backend_... there")
        found += [(f"quern/_native/{path.relative_to(prefix)}", path.resolve()) for path in matches]
    return found


def tag_here():
    """This processor, and this system's glibc: a later system has what the compiler here has linked, libstdc++ among it."""
    major, minor = re.fullmatch(r"glibc (\d+)\.(\d+)", os.confstr("CS_GNU_LIBC_VERSION")).groups()
    return f"py3-none-manylinux_{major}_{minor}_{platform.machine()}"


def main():
    pure, prefix, folder = (pathlib.Path(argument) for argument in sys.argv[1:])
    natives = native_files(prefix)
    tag = tag_here()
    contents = {}
    with zipfile.ZipFile(pure) as archive:
        for name in archive.namelist():
            contents[name] = (archive.read(name), 0o644)
    for name, path in natives:
        contents[name] = (path.read_bytes(), 0o755)
    (record,) = [name for name in contents if name.endswith(".dist-info/RECORD")]
    about = record.replace("RECORD", "WHEEL")
    text = contents[about][0].decode()
    text = re.sub(r"(?m)^Root-Is-Purelib: .*$", "Root-Is-Purelib: false", re.sub(r"(?m)^Tag: .*$", f"Tag: {tag}", text))
    contents[about] = (text.encode(), 0o644)
    contents[record.replace("RECORD", "LICENSE")] = ((pathlib.Path(__file__).parents[1] / "LICENSE").read_bytes(), 0o644)
    rows = [f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}"
            for name, (data, _) in sorted(contents.items()) if name != record]
    contents[record] = ("\n".join(rows + [f"{record},,"]) + "\n", 0o644)

    when = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315532800))[:6]  # zip knows no year before 1980
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"{pure.name.removesuffix('py3-none-any.whl')}{tag}.whl"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(contents, key=lambda name: (".dist-info/" in name, name)):  # what is about the rest comes last
            data, mode = contents[name]
            entry = zipfile.ZipInfo(name, when)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    print(made)


if __name__ == "__main__":
    main()
