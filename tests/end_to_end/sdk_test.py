"""The SDK as it is installed: the examples, from where they are installed, are built by pkg-config and by CMake, and run on a tiny model.

Environment: QUERN_BUILD (the build folder), QUERN_TEST_SOURCE, QUERN_TEST_CC, QUERN_TEST_CXX."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

MICRO = pathlib.Path(os.environ["QUERN_TEST_SOURCE"]) / "tests/data/gguf/micro-llama-f32.gguf"


def run(*command, env=None, stdin=""):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=env, input=stdin, timeout=150)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Sdk(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="quern-sdk-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        prefix = cls.folder / "prefix"
        for component in ("dev", "runtime", "backend_cpu"):
            run("cmake", "--install", os.environ["QUERN_BUILD"], "--prefix", prefix, "--component", component)
        (cls.library,) = prefix.glob("**/libquern.so")
        (generate,) = prefix.glob("**/examples/generate.c")
        cls.examples = generate.parent
        kept = {name: value for name, value in os.environ.items() if not name.startswith("QUERN_")}
        # Nothing of the build folder: the installed library finds the installed plugin from its own place.
        cls.env = {**kept, "LD_LIBRARY_PATH": str(cls.library.parent), "XDG_CACHE_HOME": str(cls.folder / "cache"), "QUERN_BACKEND": "cpu",
                   "PKG_CONFIG_PATH": str(cls.library.parent / "pkgconfig"), "CMAKE_PREFIX_PATH": str(prefix)}

    def check_programs(self, programs):
        self.assertTrue(run(programs / "generate", MICRO, "hello", env=self.env))
        self.assertRegex(run(programs / "tensors", env=self.env), r"rms_norm\S* on cpu:0: 0\.4629 0\.9258 1\.3887 .*\nas f16: 12 bytes\n")
        data = MICRO.parents[1] / "training"
        trained = run(programs / "train", data / "tiny-llama.gguf", data / "train.jsonl", self.folder / "trained", "Name a fruit.", env=self.env)
        self.assertEqual(len(re.findall(r"(?m)^step \d+ of 10: loss \d\.\d{4}$", trained)), 10, trained)
        chat = run(programs / "chat", MICRO, env=self.env, stdin="hello\n")
        self.assertTrue(chat.startswith("> "), chat)
        self.assertGreater(len(chat), 6)

    def test_pkg_config(self):
        flags = run("pkg-config", "--cflags", "--libs", "quern", env=self.env).split()
        for name, compiler in (("generate.c", "CC"), ("tensors.c", "CC"), ("train.c", "CC"), ("chat.cpp", "CXX")):
            standard = "-std=c99" if compiler == "CC" else "-std=c++17"
            run(os.environ[f"QUERN_TEST_{compiler}"], standard, "-Wall", "-Wextra", "-Werror", self.examples / name, "-o",
                self.folder / name.split(".")[0], *flags, env=self.env)
        self.assertEqual(run("pkg-config", "--modversion", "quern", env=self.env).strip(),
                         re.search(r"project\(quern VERSION (\S+)", (MICRO.parents[3] / "CMakeLists.txt").read_text())[1])
        self.check_programs(self.folder)

    def test_cmake(self):
        build = self.folder / "build"
        run("cmake", "-S", self.examples, "-B", build, f"-DCMAKE_C_COMPILER={os.environ['QUERN_TEST_CC']}",
            f"-DCMAKE_CXX_COMPILER={os.environ['QUERN_TEST_CXX']}", env=self.env)
        run("cmake", "--build", build, env=self.env)
        self.check_programs(build)


class Readme(unittest.TestCase):
    def test_its_one_line_builds_the_example_in_the_tree(self):
        source = pathlib.Path(os.environ["QUERN_TEST_SOURCE"])
        build, start = re.findall(r"(?m)^  \$ (.*generate.*)$", (source / "README.md").read_text())
        self.assertTrue(build.startswith("cc runtime/examples/generate.c "), build)
        with tempfile.TemporaryDirectory(prefix="quern tree ") as folder:  # with a space
            tree = pathlib.Path(folder)
            (tree / "build").mkdir()
            (tree / "build/release").symlink_to(os.environ["QUERN_BUILD"])
            for name in ("runtime", "plugin-api"):
                (tree / name).symlink_to(source / name)
            environment = {"PATH": os.environ["PATH"], "HOME": folder, "QUERN_BACKEND": "cpu"}
            run("sh", "-c", f"cd '{folder}' && {build.replace('cc ', os.environ['QUERN_TEST_CC'] + ' ', 1)}", env=environment)
            self.assertTrue(run("sh", "-c", f"cd '{folder}' && {start.replace('MODEL.gguf', str(MICRO))}", env=environment))


if __name__ == "__main__":
    unittest.main(verbosity=2)
