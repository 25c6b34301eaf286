#!/usr/bin/env python3
"""Checks a plugin's file as a host sees it before loading: the ELF note, the one exported symbol, what it links.

  plugin_file_test.py LIBRARY [HEADER_HASH]
"""
import pathlib
import re
import struct
import subprocess
import sys

ALLOWED = {"libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6", "ld-linux-x86-64.so.2", "libasan.so.8", "libubsan.so.1",
           "libtsan.so.2"}
HEADER = pathlib.Path(__file__).resolve().parents[2] / "plugin-api/include/quern/quern_abi.h"
NOTE = struct.Struct("<IIIIIIQQII32s32s")


def notes(data):
    """(name, type, descriptor) of every note in the PT_NOTE segments of an ELF64 file."""
    offset, = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for i in range(count):
        kind, _, at, _, _, length = struct.unpack_from("<IIQQQQ", data, offset + i * size)
        end = at + length
        while kind == 4 and at + 12 <= end:
            name_size, desc_size, note_type = struct.unpack_from("<III", data, at)
            name_at = at + 12
            desc_at = name_at + (name_size + 3) // 4 * 4
            at = desc_at + (desc_size + 3) // 4 * 4
            assert at <= end, "a note reaches beyond its segment"
            yield data[name_at:name_at + name_size], note_type, data[desc_at:desc_at + desc_size]


def main():
    path = pathlib.Path(sys.argv[1])
    ours = [d for name, kind, d in notes(path.read_bytes()) if name == b"Quern\0" and kind == 1]
    assert len(ours) == 1, f"{len(ours)} Quern notes"
    fields = NOTE.unpack_from(ours[0])
    magic, size, epochs, minor, min_host, device_class, features, header_hash, _, deps, name, version = fields
    # A stored plugin of a release, whose hash is 0, has that release's minor.
    own = int(re.search(r"^#define QUERN_ABI_MINOR (\d+)u", HEADER.read_text(), re.M)[1])
    assert magic == 0x314E5251 and size == NOTE.size and epochs == 2 and min_host == 0, fields
    assert minor == own or (header_hash == 0 and minor < own), fields
    # Behind the note of a plugin in C, which has no empty array, are four zeros.
    assert device_class == 6 and features == 0 and deps == 0 and ours[0][NOTE.size:] in (b"", bytes(4)), fields
    assert f"libbackend_{name.rstrip(bytes(1)).decode()}.so" == path.name and version.rstrip(b"\0") == b"1.0.0", fields
    if len(sys.argv) > 2:
        assert header_hash == int(sys.argv[2], 0), f"header hash {header_hash:#x}, wanted {sys.argv[2]}"

    symbols = subprocess.run(["nm", "-D", "--defined-only", path], check=True, capture_output=True, text=True).stdout.split("\n")
    exported = [s.split()[-1] for s in symbols if s]
    assert exported == ["quern_plugin_query_v1"], exported
    dynamic = subprocess.run(["readelf", "-dW", path], check=True, capture_output=True, text=True).stdout
    needed = {line.split("[")[1].rstrip("]") for line in dynamic.splitlines() if "(NEEDED)" in line}
    assert needed <= ALLOWED, f"links {needed - ALLOWED}"
    assert "TEXTREL" not in dynamic and "RUNPATH" not in dynamic and "STATIC_TLS" not in dynamic, dynamic
    print(f"{path.name}: note, {len(exported)} exported symbol and {len(needed)} libraries are as they should be")


if __name__ == "__main__":
    main()
