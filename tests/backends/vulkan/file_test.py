#!/usr/bin/env python3
"""libbackend_vulkan.so as a host sees it before loading: it links nothing of Vulkan's, exports one symbol, and holds kernels.

  file_test.py LIBRARY
"""
import struct
import subprocess
import sys

ALLOWED = {"libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6", "ld-linux-x86-64.so.2"}
ENTRY = "quern_plugin_query_v1"
SPIRV_1_5 = struct.pack("<II", 0x07230203, 0x00010500)


def main():
    path = sys.argv[1]
    dynamic = subprocess.run(["readelf", "-dW", path], check=True, capture_output=True, text=True).stdout
    needed = {line.split("[")[1].rstrip("]") for line in dynamic.splitlines() if "(NEEDED)" in line}
    assert needed <= ALLOWED, f"links {sorted(needed - ALLOWED)}"
    symbols = subprocess.run(["nm", "-D", "--defined-only", path], check=True, capture_output=True, text=True).stdout
    names = {line.split()[-1].split("@")[0] for line in symbols.splitlines()}
    assert names == {ENTRY}, f"exports {sorted(names)}"
    with open(path, "rb") as file:
        content = file.read()
    assert content.count(SPIRV_1_5) > 20, "holds no kernels in SPIR-V 1.5"


if __name__ == "__main__":
    main()
