#!/usr/bin/env python3
"""The committed SPIR-V of the kernels for cooperative matrices is what their sources give, where a glslc that knows them is found.

  spirv_test.py SOURCE_TREE [GLSLC]...
"""
import pathlib
import subprocess
import sys
import tempfile

PROBE = """#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#pragma use_vulkan_memory_model
void main() {}
"""
SKIPPED = 77


def knows_matrices(glslc, folder):
    source = pathlib.Path(folder, "probe.comp")
    source.write_text(PROBE)
    command = [glslc, "--target-env=vulkan1.2", "-o", pathlib.Path(folder, "probe.spv"), source]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def main():
    tree = pathlib.Path(sys.argv[1])
    kernels = tree / "backends/vulkan/src/shaders/spirv"
    rows = [line for line in (kernels / "sources.txt").read_text().splitlines() if not line.startswith("#")]
    named = {row.split()[0] for row in rows}
    assert named == {path.stem for path in kernels.glob("*.spv")}, f"sources.txt names {sorted(named)}"
    with tempfile.TemporaryDirectory() as folder:
        glslc = next((g for g in sys.argv[2:] if knows_matrices(g, folder)), None)
    if glslc is None:
        print(f"skipped: of {sys.argv[2:]} none knows GL_KHR_cooperative_matrix (2025.2 does)")
        sys.exit(SKIPPED)
    make = tree / "backends/vulkan/tools/make_spirv.cmake"
    subprocess.run(["cmake", f"-DGLSLC={glslc}", "-DCHECK=ON", "-P", make], check=True)


if __name__ == "__main__":
    main()
