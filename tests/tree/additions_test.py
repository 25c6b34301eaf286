#!/usr/bin/env python3
"""An op and a block format that nobody has are added to a copy of the tree, by the files that CONTRIBUTING.md names and no other.

  additions_test.py BUILD_FOLDER          counts the files, runs the checks of the tables, and compiles what was touched
  additions_test.py BUILD_FOLDER --whole  builds the suite and the plugins of the copy, writes its manifest and runs the new cases; minutes

Below additions/KIND lie the new files; EDITS has the lines that files of the tree get. Exit 77: no ninja.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
FOLDERS = ("base", "plugin-api", "loader", "runtime/graph", "backends", "conformance", "cmake", "models/gguf")
COMPONENTS = "plugin-api;loader;runtime/graph;backends/cpu;backends/cuda;backends/vulkan;conformance"

# kind: [(file, the line in front of which it goes, the lines)]
EDITS = {
    "op": [
        ("plugin-api/include/quern/ops.def", "QUERN_OP(40, COPY,", 'QUERN_OP(34, SOFTSIGN, softsign, activation, "x", "y", "", "-")\n'),
        ("plugin-api/include/quern/ops.def", "QUERN_FORM(COPY,", 'QUERN_FORM(SOFTSIGN, "x:float", "y:float=x", "")\n'),
        ("plugin-api/OPS.md", "| 40 | copy |", "| 34 | softsign | activation | x | y |  | f32 f16 bf16 | - | y = x / (1 + \\|x\\|) |\n"),
    ],
    "format": [
        ("plugin-api/include/quern/quern_dtypes.h", "/* 256 elements a block: */", "#define QUERN_Q3_X 37u\n"),
        ("plugin-api/include/quern/quern_formats.h", "QUERN_FORMAT_TABLE quern_format_piece quern_q4_k_pieces[]", """\
QUERN_FORMAT_TABLE quern_format_piece quern_q3_x_pieces[] = {
    {0, 1, 16, 0, 0, 1, {{1, 0}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 32, 2, 0, 48, 1, {{32, 2}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 32, 1, 2, 16, 1, {{32, 1}, {0, 0}, {0, 0}, {0, 0}}},
};
QUERN_FORMAT_TABLE quern_format_field quern_q3_x_fields[] = {
    {QUERN_ROLE_SUPER_SCALE, QUERN_STORED_F16, 1, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q3_x_pieces + 0)},
    {QUERN_ROLE_CODE, QUERN_STORED_UINT, 32, 4, QUERN_FORMAT_LIST(2, quern_format_piece, quern_q3_x_pieces + 1)},
};

"""),
        ("plugin-api/include/quern/quern_formats.h", "  row(Q4_K, q4_k, with)", "  row(Q3_X, q3_x, with) \\\n"),
        ("plugin-api/include/quern/quern_formats.h", "    {{sizeof(quern_format), QUERN_TYPE_FORMAT, NULL}, QUERN_Q4_K,", """\
    {{sizeof(quern_format), QUERN_TYPE_FORMAT, NULL}, QUERN_Q3_X, 32, 14, 32, QUERN_FORMULA_SYMMETRIC, 0,
     0x41844c56216962a8ull, {"q3_x", 4}, QUERN_FORMAT_LIST(2, quern_format_field, quern_q3_x_fields)},
"""),
        ("models/gguf/src/ggml_types.cpp", "};\n\n// find_ggml_type indexes the table by id.", '    of_format(41, "Q3_X", QUERN_Q3_X),\n'),
    ],
}
# Files that a program writes; the fast test counts them, --whole writes them.
WRITTEN = {"op": ["conformance/manifest/quick.txt"], "format": ["conformance/manifest/quick.txt", "conformance/manifest/full.txt"]}
NAME = {"op": "softsign", "format": "q3_x"}
# Numbers that the first addition behind a release raises, or each.
RAISED = {"op": [("plugin-api/include/quern/ops.def", "QUERN_OPSET_VERSION")],
          "format": [("plugin-api/include/quern/quern_dtypes.h", "QUERN_FORMAT_TABLE_VERSION"),
                     ("plugin-api/include/quern/quern_formats.h", "QUERN_FORMAT_COUNT")]}
CASES = r"activation +28/28\b"  # of the op: three dtypes, three kinds of data, in three layouts; and one of no elements


def allowed(kind):
    """The paths of CONTRIBUTING.md's table, and how many files it grants."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = re.search(rf"<!-- files of an? {kind}: at most (\d+) -->\n(.*?)\n\n", text, re.S)
    if table is None:
        raise AssertionError(f"CONTRIBUTING.md has no table of the files of {kind}")
    paths = re.findall(r"^\| `([^`]+)` \|", table[2], re.M)
    return [path.replace(f"<{kind}>", NAME[kind]) for path in paths], int(table[1])


def overlay(kind):
    folder = HERE / "additions" / kind
    return {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}


def touched(kind):
    return sorted({*overlay(kind), *(edit[0] for edit in EDITS[kind]), *WRITTEN[kind]})


def add(kind, tree):
    for name, path in overlay(kind).items():
        target = tree / name
        assert not target.exists(), f"{name} is there already"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    for name, before, lines in EDITS[kind]:
        text = (tree / name).read_text()
        assert text.count("\n" + before) == 1, f"{name}: '{before}' stands {text.count(before)} times"
        (tree / name).write_text(text.replace("\n" + before, "\n" + lines + before))


def raise_numbers(kind, tree):
    for name, macro in RAISED[kind]:
        text = (tree / name).read_text()
        raised, count = re.subn(rf"(#define {macro} )(\d+)u", lambda found: f"{found[1]}{int(found[2]) + 1}u", text)
        assert count == 1, f"{name}: {macro} is defined {count} times"
        (tree / name).write_text(raised)


def copy_of_tree(tree):
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__", "reports"))
    for name in ("CMakeLists.txt", "packaging", "runtime/include", "LICENSE"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, dirs_exist_ok=True)
        elif source.exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, tree / name)


def run(*command, **settings):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **settings)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def cache_entry(build, name):
    found = re.search(rf"^{name}:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)
    return found[1] if found else ""


def configure(tree, build, given, kind):
    options = [f"-D{name}={value}" for name in ("CMAKE_C_COMPILER", "CMAKE_CXX_COMPILER", "CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER",
                                               "QUERN_CUDA_TOOLKIT", "QUERN_NVRTC")
               if (value := cache_entry(given, name)) and not value.endswith("NOTFOUND")]
    run("cmake", "-S", tree, "-B", build, "-G", "Ninja", f"-DCMAKE_BUILD_TYPE={kind}", f"-DQUERN_COMPONENTS={COMPONENTS}", "-DQUERN_PARTIAL=ON",
        "-DCMAKE_C_COMPILER_WORKS=1", "-DCMAKE_CXX_COMPILER_WORKS=1", *options)
    return set(re.findall(r"^([^/\s]\S*): ", run("ninja", "-C", build, "-t", "targets", "all"), re.M))


class Additions(unittest.TestCase):
    build_type = "None"  # not optimised: nothing of it runs

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.tree, self.build = pathlib.Path(scratch.name, "tree"), pathlib.Path(scratch.name, "build")
        copy_of_tree(self.tree)

    def count(self, kind):
        paths, most = allowed(kind)
        files = touched(kind)
        self.assertEqual(files, sorted(paths), f"the files of this {kind} are not those of CONTRIBUTING.md")
        self.assertLessEqual(len(files), most)
        add(kind, self.tree)
        raise_numbers(kind, self.tree)
        self.assertLessEqual({name for name, _ in RAISED[kind]}, set(files))
        tools = self.tree / "plugin-api" / "tools"
        for check in (["check_ops.py"], ["layout.py", "--check"], ["check_abi_append.py", "--released"]):
            run(sys.executable, tools / check[0], *check[1:], env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
        return configure(self.tree, self.build, BUILD, self.build_type)

    def compile(self, targets, *wanted):
        """Each of the objects and files, by how they end; those of a backend that this machine cannot build are not there."""
        chosen = []
        for end in wanted:
            found = [target for target in targets if target.endswith(end)]
            self.assertLessEqual(len(found), 1, found)
            chosen += found
        run("ninja", "-C", self.build, *chosen)
        return chosen

    def check_source(self, source, *folders):
        includes = [f"-I{self.tree / part}" for part in ("plugin-api/include", "base/include", *folders)]
        run(cache_entry(self.build, "CMAKE_CXX_COMPILER"), "-std=c++20", "-fsyntax-only", *includes, self.tree / source)

    def check_cuda(self, *sources):
        """Of the CUDA plugin no object: they wait for all kernels."""
        for source in sources:
            self.check_source(f"backends/cuda/src/{source}", "backends/cuda/src", self.build / "backends/cuda/tables")

    def test_an_op(self):
        targets = self.count("op")
        name = NAME["op"]
        self.assertTrue(any(target.endswith(f"quern_graph.dir/src/ops/{name}.cpp.o") for target in targets), "the graph does not have the op's file")
        made = self.compile(
            targets, f"quern_graph.dir/src/ops/{name}.cpp.o", "quern_graph.dir/src/op_table.cpp.o",
            f"backend_cpu_objects.dir/src/ops/{name}.cpp.o", "backend_cpu_objects.dir/src/kernel_table.cpp.o",
            f"backend_vulkan.dir/src/ops/{name}.cpp.o", "backend_vulkan.dir/src/op.cpp.o", f"backends/vulkan/{name}.spv",
            "backends/cuda/tables/kernel_ids.hpp", "backends/cuda/tables/cuda_op_tables.def", f"backends/cuda/{name}.sm_90a.cubin",
            f"quern_conformance_core.dir/ops/{name}.cpp.o", "quern_conformance_core.dir/src/case_table/case_table.cpp.o")
        self.assertGreaterEqual(len(made), 6, made)
        if (self.build / "backends/cuda/tables/kernel_ids.hpp").exists():
            self.check_cuda(f"ops/{name}.cpp", "op.cpp")
        # Each table names it: nothing has to list it by hand.
        for file, row in (("backends/cpu/tables/cpu_op_tables.def", f"QUERN_CPU_TABLE({name})"),
                          ("backends/vulkan/tables/vulkan_op_tables.def", f"QUERN_VULKAN_OP({name})"),
                          ("backends/cuda/tables/cuda_op_tables.def", f"QUERN_CUDA_OP({name})"),
                          ("backends/cuda/tables/kernel_ids.hpp", f'KernelId<UnaryParams> {name}{{"{name}", "{name}"}}'),
                          ("conformance/generated/op_families.def", f"QUERN_CONFORMANCE_FAMILY({name})")):
            path = self.build / file
            if path.exists():
                self.assertIn(row, path.read_text(), file)

    def test_a_format(self):
        targets = self.count("format")
        name = NAME["format"]
        made = self.compile(
            targets, "quern_graph.dir/src/dtype.cpp.o", "quern_graph.dir/src/ops/matmul.cpp.o",
            f"backend_cpu_objects.dir/src/formats/{name}.cpp.o", "backend_cpu_objects.dir/src/formats.cpp.o",
            "backend_cpu_objects.dir/src/ops/matmul.cpp.o", "backend_cpu_portable.dir/src/simd/rows.cpp.o",
            "backend_vulkan.dir/src/weights.cpp.o", "backends/vulkan/decode.spv", "backends/vulkan/encode.spv", "backends/vulkan/get_rows.spv",
            "backends/vulkan/matmul.spv", "backends/cuda/cast.sm_90a.cubin",
            "quern_conformance_core.dir/ops/encode_bound.cpp.o")
        self.assertGreaterEqual(len(made), 7, made)
        self.check_cuda("tensor.cpp")
        self.check_source("models/gguf/src/ggml_types.cpp", "runtime/graph/include", "models/gguf/include")
        for file, row in (("backends/vulkan/shaders/further_formats.glsl", f"row({name.upper()}, 32u, 14u, open_{name}, pair_{name}, encode_{name})"),
                          ("backends/cuda/tables/further_formats.cuh", f"row({name.upper()}, 32)")):
            path = self.build / file
            if path.exists():
                self.assertIn(row, path.read_text(), file)

    def test_a_format_that_a_backend_does_not_read_stops_the_configuration(self):
        add("format", self.tree)
        for backend, file in (("cuda", f"kernels/format_{NAME['format']}.cuh"), ("vulkan", f"shaders/format_{NAME['format']}.glsl")):
            path = self.tree / "backends" / backend / "src" / file
            text = path.read_text()
            path.unlink()
            script = self.tree / "check.cmake"
            folder, suffix = path.parent, path.suffix
            built_in = folder / ("dtypes.hpp" if backend == "cuda" else "blocks.glsl")
            script.write_text(f'cmake_minimum_required(VERSION 3.25)\nset(PROJECT_SOURCE_DIR "{self.tree}")\ninclude("{self.tree}/cmake/QuernTables.cmake")\n'
                              f'quern_further_formats(found "{folder}/format_" {suffix} "{self.tree}/further" "{built_in}" "NAME" "row(NAME)")\n')
            done = subprocess.run(["cmake", "-P", str(script)], capture_output=True, text=True)
            self.assertNotEqual(done.returncode, 0, backend)
            self.assertIn(f"format_{NAME['format']}{suffix}", done.stderr)
            path.write_text(text)


class Whole(Additions):
    """The same, built and run."""
    build_type = "Release"

    def run_all(self, kind, filters, expected):
        """Builds what runs cases, writes the manifests that change, and runs the new cases on each device that this machine has."""
        targets = self.count(kind)
        there = [target for target in ("quern-conformance", "quern-probe", "backend_cpu", "backend_vulkan") if any(t == target for t in targets)]
        run("ninja", "-C", self.build, *there)
        program = self.build / "bin" / "quern-conformance"
        for profile in ("quick", "full", "huge"):
            manifest = self.tree / "conformance" / "manifest" / f"{profile}.txt"
            before = manifest.read_text()
            run(program, "list", "--profile", profile, "--write-manifest", manifest)
            changed = manifest.read_text() != before
            self.assertEqual(changed, f"conformance/manifest/{profile}.txt" in WRITTEN[kind], f"the manifest of profile {profile}")
        run("ninja", "-C", self.build, *there)
        plugins = next(self.build.rglob("libbackend_cpu.so")).parent
        for device in ("cpu:0", "vulkan:0"):
            if device.startswith("vulkan") and "backend_vulkan" not in there:
                continue
            out = run(program, "run", "--device", device, "--filter", filters, "--journal", self.tree / f"journal-{device[:3]}",
                      env={**os.environ, "QUERN_BACKEND_PATH": str(plugins)})
            self.assertRegex(out, expected, out)

    def test_an_op(self):
        self.run_all("op", f"*.{NAME['op']}.*", CASES)

    def test_a_format(self):
        # Every case that names the format: casts both ways, rows, copies, products, experts.
        self.run_all("format", f"*{NAME['format']}*", r"\ball +([1-9]\d*)/\1\b")

    def test_a_format_that_a_backend_does_not_read_stops_the_configuration(self):
        pass  # the quick variant has it


if __name__ == "__main__":
    if shutil.which("ninja") is None or len(sys.argv) < 2:
        sys.exit(77 if len(sys.argv) > 1 else __doc__)
    BUILD = pathlib.Path(sys.argv[1]).resolve()
    case = Whole if "--whole" in sys.argv[2:] else Additions
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(case)
    sys.exit(0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1)
