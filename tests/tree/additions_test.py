#!/usr/bin/env python3
"""An op that nobody has is added to a copy of the tree, by the files that CONTRIBUTING.md names and no other.

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
FOLDERS = ("base", "plugin-api", "loader", "runtime/graph", "backends", "conformance", "cmake")
COMPONENTS = "plugin-api;loader;runtime/graph;backends/cpu;backends/cuda;backends/vulkan;conformance"

# kind: [(file, the line in front of which it goes, the lines)]
EDITS = {
    "op": [
        ("plugin-api/include/quern/ops.def", "QUERN_OP(40, COPY,", 'QUERN_OP(34, SOFTSIGN, softsign, activation, "x", "y", "", "-")\n'),
        ("plugin-api/OPS.md", "| 40 | copy |", "| 34 | softsign | activation | x | y |  | f32 f16 bf16 | - | y = x / (1 + \\|x\\|) |\n"),
    ],
}
# Files that a program writes; the fast test counts them, --whole writes them.
WRITTEN = {"op": ["conformance/manifest/quick.txt"]}
NAME = {"op": "softsign"}
VERSION = {"op": ("plugin-api/include/quern/ops.def", "QUERN_OPSET_VERSION")}
CASES = r"\b28 of 28\b"  # three dtypes, three kinds of data, in three layouts; and one of no elements


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


def raise_version(kind, tree):
    """The first addition behind a release raises the version of its table."""
    name, macro = VERSION[kind]
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
        raise_version(kind, self.tree)
        self.assertIn(VERSION[kind][0], files)
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

    def test_an_op(self):
        targets = self.count("op")
        name = NAME["op"]
        self.assertTrue(any(target.endswith(f"quern_graph.dir/src/ops/{name}.cpp.o") for target in targets), "the graph does not have the op's file")
        made = self.compile(
            targets, f"quern_graph.dir/src/ops/{name}.cpp.o", "quern_graph.dir/src/op_table.cpp.o",
            f"backend_cpu_objects.dir/src/ops/{name}.cpp.o", "backend_cpu_objects.dir/src/kernel_table.cpp.o",
            f"backend_vulkan.dir/src/ops/{name}.cpp.o", "backend_vulkan.dir/src/op.cpp.o", f"backends/vulkan/{name}.spv",
            f"backend_cuda.dir/src/ops/{name}.cpp.o", "backend_cuda.dir/src/op.cpp.o", f"backends/cuda/{name}.sm_90a.cubin",
            f"quern_conformance_core.dir/ops/{name}.cpp.o", "quern_conformance_core.dir/src/case_table/case_table.cpp.o")
        self.assertGreaterEqual(len(made), 6, made)
        # Each table names it: nothing has to list it by hand.
        for file, row in (("backends/cpu/tables/cpu_op_tables.def", f"QUERN_CPU_TABLE({name})"),
                          ("backends/vulkan/tables/vulkan_op_tables.def", f"QUERN_VULKAN_OPS({name})"),
                          ("backends/cuda/tables/cuda_op_tables.def", f"QUERN_CUDA_OPS({name})"),
                          ("backends/cuda/tables/kernel_ids.hpp", f'KernelId<UnaryParams> {name}{{"{name}", "{name}"}}'),
                          ("conformance/generated/op_families.def", f"QUERN_CONFORMANCE_FAMILY({name})")):
            path = self.build / file
            if path.exists():
                self.assertIn(row, path.read_text(), file)


class Whole(Additions):
    """The same, built and run."""
    build_type = "Release"

    def test_an_op(self):
        targets = self.count("op")
        there = [target for target in ("quern-conformance", "backend_cpu", "backend_vulkan") if any(t == target for t in targets)]
        run("ninja", "-C", self.build, *there)
        program = self.build / "bin" / "quern-conformance"
        manifest = self.tree / WRITTEN["op"][0]
        run(program, "list", "--profile", "quick", "--write-manifest", manifest)
        run("ninja", "-C", self.build, *there)
        for profile in ("full", "huge"):  # these files stay as they are
            other = self.tree / f"{profile}.txt"
            run(program, "list", "--profile", profile, "--write-manifest", other)
            self.assertEqual(other.read_text(), (self.tree / "conformance" / "manifest" / f"{profile}.txt").read_text())
        plugins = next(self.build.rglob("libbackend_cpu.so")).parent
        for device in ("cpu:0", "vulkan:0"):
            if device.startswith("vulkan") and "backend_vulkan" not in there:
                continue
            out = run(program, "run", "--device", device, "--filter", f"*.{NAME['op']}.*", "--journal", self.tree / "journal",
                      env={**os.environ, "QUERN_BACKEND_PATH": str(plugins)})
            self.assertRegex(out, CASES, out)


if __name__ == "__main__":
    if shutil.which("ninja") is None or len(sys.argv) < 2:
        sys.exit(77 if len(sys.argv) > 1 else __doc__)
    BUILD = pathlib.Path(sys.argv[1]).resolve()
    case = Whole if "--whole" in sys.argv[2:] else Additions
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(case)
    sys.exit(0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1)
