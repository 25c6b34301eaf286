#!/usr/bin/env python3
"""Installs the headers, builds the sample plugin with nothing else, and runs the sample's tests on what was built.

  installed_sample_test.py SOURCE_DIR WORK_DIR SAMPLE_TEST_PROGRAM
Three ways: the installed CMake package, the compiler with pkg-config's flags, and C99 with the include path alone.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CC = os.environ.get("CC", "cc")
CXX = os.environ.get("CXX", "c++")


def run(*command, **extra):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **extra)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def check(library, test_program, header_hash):
    print(run(sys.executable, HERE / "plugin_file_test.py", library, header_hash).strip())
    out = run(test_program, env={**os.environ, "QUERN_SAMPLE_PLUGIN": str(library)})
    print(f"{library.parent.name}: {re.findall(r'.*suites? ran.*', out)[-1]}")


def main():
    source, work, test_program = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    os.environ["CMAKE_GENERATOR"] = "Ninja"  # which scripts/test installs; a fresh system has no make
    run("cmake", "-S", source, "-B", work / "tree", "-DQUERN_COMPONENTS=plugin-api", "-DQUERN_PARTIAL=ON",
        "-DQUERN_BUILD_TESTS=OFF", "-DCMAKE_INSTALL_PREFIX=/opt/quern")
    run("cmake", "--install", work / "tree", "--component", "dev", env={**os.environ, "DESTDIR": str(work / "stage")})
    prefix = work / "stage" / "opt" / "quern"
    doc = next(prefix.glob("share/doc/*/plugin-api"))
    for name in ("CONTRACT.md", "OPS.md", "sample/README.md"):
        assert (doc / name).stat().st_size > 0, name

    # From here on only what was installed: the sample is copied out of the installed documents.
    sample = work / "sample"
    shutil.copytree(doc / "sample", sample)
    pc = next(prefix.glob("lib*/**/pkgconfig/quern-plugin-api.pc"))
    flags = run("pkg-config", "--cflags", "quern-plugin-api", env={**os.environ, "PKG_CONFIG_PATH": str(pc.parent)}).split()
    assert str(source / "plugin-api") not in " ".join(flags), flags
    found = [f.split("=")[1] for f in flags if f.startswith("-DQUERN_HEADER_HASH=")]
    assert len(found) == 1, flags
    header_hash = re.sub("[uU]?[lL]*$", "", found[0])

    run("cmake", "-S", sample, "-B", work / "by_cmake", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", work / "by_cmake")
    check(work / "by_cmake" / "libbackend_sample.so", test_program, header_hash)

    # The one without the SDK's device classes, as its own folder.
    run("cmake", "-S", sample / "raw", "-B", work / "raw_by_cmake", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", work / "raw_by_cmake")
    check(work / "raw_by_cmake" / "libbackend_sample_raw.so", test_program, header_hash)

    # The one in C, as strict C99, behind queues; the suite runs it (conformance.c99_sample).
    run("cmake", "-S", sample / "c99", "-B", work / "c99_by_cmake", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", work / "c99_by_cmake")
    print(run(sys.executable, HERE / "plugin_file_test.py", work / "c99_by_cmake" / "libbackend_sample_c99.so", header_hash).strip())

    # The line of the sample's README, as it is written there.
    as_written = re.search(r"^    (g\+\+ (?:.*\\\n)*.*)", (sample / "README.md").read_text(), re.M).group(1)
    assert "--variable=map" in as_written, as_written
    run("sh", "-euc", as_written, cwd=sample, env={**os.environ, "PKG_CONFIG_PATH": str(pc.parent)})
    check(sample / "libbackend_sample.so", test_program, header_hash)
    for page in ("README.md", "BOUNDS.md"):
        assert (doc.parent / "conformance" / page).stat().st_size > 0, page

    # A note in C, packed: the name and the magic stand side by side.
    (work / "note.c").write_text('#include "quern/sdk/note.h"\n#include "quern/quern_device.h"\n'
                                 'QUERN_PLUGIN_NOTE("plain", "1.0.0", QUERN_DEVICE_OTHER, 0, "libnone.so.1=none");\n')
    run(CC, "-std=c99", "-pedantic-errors", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", *flags, work / "note.c", "-o", work / "libbackend_plain.so")
    assert b"Quern\0\0\0" + (0x314E5251).to_bytes(4, "little") in (work / "libbackend_plain.so").read_bytes()

    by_hand = work / "by_hand"
    by_hand.mkdir()
    version_script = next(prefix.glob("lib*/**/quern_plugin.map"))
    run(CXX, "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-fvisibility=hidden", "-fno-gnu-unique", "-shared",
        *flags, f"-Wl,--version-script={version_script}", "-Wl,-Bsymbolic", "-Wl,-z,defs", "-Wl,-z,now",
        sample / "sample_plugin.cpp", "-o", by_hand / "libbackend_sample.so")
    check(by_hand / "libbackend_sample.so", test_program, header_hash)

    (work / "plain.c").write_text('#include "quern/quern_plugin_api.h"\n#include "quern/quern_ops.h"\n'
                                  '#include "quern/quern_formats.h"\nint main(void) { return QUERN_OP_ADD - 1; }\n')
    run(CC, "-std=c99", "-pedantic", "-Werror", f"-I{prefix}/include", work / "plain.c", "-o", work / "plain")
    run(work / "plain")


if __name__ == "__main__":
    main()
