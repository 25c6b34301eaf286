"""The packages in clean systems, as apt installs them. QUERN_PACKAGES names the folder of the .deb files; QUERN_TEST_SUITES the
systems (default bookworm); QUERN_TEST_SDK=1 adds the tests that install a compiler. QUERN_LATER_PACKAGES: libquern1 and quern of a later version whose
plugin ABI is one minor ahead; QUERN_RPMS: the folder of the .rpm files; QUERN_WHEEL: the wheel that holds the library. What is not given is skipped, and said so."""

import json
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

import roots

PACKAGES = sorted(pathlib.Path(os.environ["QUERN_PACKAGES"]).glob("*.deb"))
SUITES = os.environ.get("QUERN_TEST_SUITES", "bookworm").split()
LATER = sorted(pathlib.Path(os.environ["QUERN_LATER_PACKAGES"]).glob("*.deb")) if os.environ.get("QUERN_LATER_PACKAGES") else []
RPMS = sorted(pathlib.Path(os.environ["QUERN_RPMS"]).glob("*.rpm")) if os.environ.get("QUERN_RPMS") else []
SOURCE = pathlib.Path(__file__).resolve().parents[2]
MODEL = SOURCE / "tests/data/gguf/micro-llama-q4_0.gguf"
MEGABYTE = 1_000_000
MOST_INSTALLED = {("libquern1", "quern", "quern-backend-cpu"): 15 * MEGABYTE, ("quern-backend-vulkan",): 20 * MEGABYTE,
                  ("quern-backend-cuda",): 150 * MEGABYTE}


def names():
    return {package.name.split("_")[0] for package in PACKAGES}


class Installed(unittest.TestCase):
    suite = SUITES[0]

    def setUp(self):
        self.root = roots.Root(self.suite, PACKAGES)
        self.addCleanup(self.root.close)
        shutil.copy(MODEL, self.root.path / "srv/model.gguf")

    def quern(self, arguments, **how):
        return self.root.run(f"quern {arguments}", **how)

    def json(self, arguments, **how):
        return json.loads(self.root.run(f"quern {arguments} --json 2>/dev/null", **how))

    def backends(self):
        return {device["backend"] for device in self.json("devices")["devices"] if device["usable"]}

    def need(self, package):
        if package not in names():
            self.skipTest(f"there is no package {package} in {os.environ['QUERN_PACKAGES']}")

    def assert_nothing_is_left(self, before):
        """No file that no package has, and no package of ours, not even its configuration."""
        self.assertEqual(sorted(self.root.files_of_nobody() - before), [])
        left = self.root.run("dpkg-query -W -f '${db:Status-Abbrev} ${Package}\\n'").splitlines()
        self.assertEqual([line for line in left if "quern" in line], [])

    def test_the_command_brings_what_it_needs_and_answers(self):
        self.root.install("quern", recommends=False)
        answer = self.json("run /srv/model.gguf hello --max-tokens 4 --temperature 0")
        self.assertEqual(answer["backend"], "cpu")
        self.assertEqual(len(answer["ids"]), 4)
        self.assertIn("cpu", self.quern("doctor"))

    def test_a_missing_backend_is_3_and_names_its_package(self):
        self.root.install("quern", recommends=False)
        for backend in ("cuda", "vulkan"):
            text = self.quern("run /srv/model.gguf hello", code=3, env={"QUERN_BACKEND": backend})
            self.assertIn(f"quern-backend-{backend}", text)

    def test_the_readme_walks_a_user_through_it(self):
        section = re.search(r"^## Installing\n(.*?)^## ", (SOURCE / "README.md").read_text(), re.M | re.S)[1]
        commands = re.findall(r"^\$ (.+)$", section[:section.index("A packager")], re.M)
        self.assertGreaterEqual(len(commands), 5)
        before = self.root.files_of_nobody()
        for command in commands:
            command = command.replace("sudo ", "").replace("MODEL.gguf", "/srv/model.gguf").replace("apt ", "apt-get --no-install-recommends ")
            self.assertTrue(self.root.run(f"cd /srv/packages && {command}"))
        self.assert_nothing_is_left(before)

    def test_purge_leaves_nothing(self):
        before = self.root.files_of_nobody()
        ours = [name for name in sorted(names()) if name != "libquern-dev"]
        self.root.install(*ours, recommends=False)
        self.json("run /srv/model.gguf hello --max-tokens 1")
        self.quern("doctor")
        self.root.run("apt-get purge -y -q --autoremove " + " ".join(ours))
        self.assert_nothing_is_left(before)

    def test_libraries_of_the_network_are_not_needed_to_run_models(self):
        self.root.install("libquern1", "quern-backend-cpu", recommends=False)
        self.assertNotIn("libcurl", self.root.run("dpkg-query -W"))
        self.root.install("quern", recommends=False)
        self.root.run("dpkg --purge --force-depends libcurl4 libcurl4t64 2>/dev/null || true")
        self.assertIn("apt install libcurl4", self.quern("pull a/b", code=3))

    def test_any_subset_installs(self):
        subsets = [("libquern1",), ("quern-backend-cpu",), ("quern-conformance",), ("libquern-dev",)]
        subsets += [(name,) for name in sorted(names()) if name.startswith("quern-backend-") and name != "quern-backend-cpu"]
        for subset in subsets:
            with self.subTest(subset):
                self.root.install(*subset, recommends=False)
                self.root.run("apt-get purge -y -q --autoremove " + " ".join(subset))

    def test_sizes_stay_below_their_limits(self):
        for group, most in MOST_INSTALLED.items():
            if not set(group) <= names():
                continue
            self.root.install(*group, recommends=False)
            with self.subTest(group):
                files = self.root.run("dpkg -L " + " ".join(group)).splitlines()
                paths = [self.root.path / f[1:] for f in sorted(set(files))]
                total = sum(p.lstat().st_size for p in paths if p.is_file() and not p.is_symlink())
                print(f"{' + '.join(group)}: {total / MEGABYTE:.1f} MB installed, {most / MEGABYTE:.0f} MB allowed")
                self.assertLessEqual(total, most)

    def test_another_backend_comes_is_explained_and_goes(self):
        others = [name for name in sorted(names()) if name.startswith("quern-backend-") and name != "quern-backend-cpu"]
        if not others:
            self.skipTest("only the CPU backend was built")
        self.root.install("quern", recommends=False)
        for package in others:
            with self.subTest(package):
                backend = package.removeprefix("quern-backend-")
                self.root.install(package, recommends=False)
                plugins = {p["backend"]: p for p in self.json("doctor")["plugins"]}
                self.assertIn(backend, plugins)
                if not plugins[backend]["usable"]:
                    self.assertTrue(plugins[backend]["cause"] and plugins[backend]["remedy"], plugins[backend])
                self.root.run(f"apt-get purge -y -q {package}")
                self.assertIn(package, self.quern("run /srv/model.gguf hello", code=3, env={"QUERN_BACKEND": backend}))
                self.assertEqual(self.json("run /srv/model.gguf hello --max-tokens 1")["backend"], "cpu")

    def test_vulkan_comes_computes_and_goes(self):
        self.need("quern-backend-vulkan")
        self.root.install("quern", recommends=False)
        alone = self.json("run /srv/model.gguf hello --raw --max-tokens 4 --temperature 0 --activations f32 --kv f32")
        self.root.install("quern-backend-vulkan", recommends=False)
        refused = {p["backend"]: p for p in self.json("doctor")["plugins"]}["vulkan"]
        self.assertFalse(refused["usable"])
        self.assertIn("libvulkan", refused["cause"])
        self.assertIn("apt install libvulkan1", refused["command"])
        self.root.install("libvulkan1", "mesa-vulkan-drivers", recommends=False)
        software = [d for d in self.json("doctor")["devices"] if d["backend"] == "vulkan"]
        self.assertEqual([d["code"] for d in software], ["QUERN-L-0605"], "a rasteriser that nobody named serves nobody")
        said = self.json("run /srv/model.gguf hello --raw --max-tokens 4 --temperature 0 --activations f32 --kv f32", env={"QUERN_DEVICE": "vulkan:0"})
        self.assertEqual((said["backend"], said["ids"]), ("vulkan", alone["ids"]))
        self.root.run("apt-get purge -y -q quern-backend-vulkan")
        self.assertIn("quern-backend-vulkan", self.quern("run /srv/model.gguf hello", code=3, env={"QUERN_DEVICE": "vulkan:0"}))
        self.assertEqual(self.json("run /srv/model.gguf hello --max-tokens 1")["backend"], "cpu")

    def test_the_runtime_alone_is_upgraded_over_an_older_backend(self):
        stored = sorted((SOURCE / "tests/compatibility").glob("*/libbackend_cpu.so.xz"))
        if not LATER or not stored:
            self.skipTest("QUERN_LATER_PACKAGES is not set" if stored else "no release is stored yet")
        later = int(re.search(r"^#define QUERN_ABI_MINOR (\d+)u", (SOURCE / "plugin-api/include/quern/quern_abi.h").read_text(), re.M)[1]) + 1
        for file in stored:
            if json.loads((file.parent / "release.json").read_text())["abi_minor"] < later - 2:  # QUERN_ABI_MINOR_SUPPORTED
                continue
            with self.subTest(file.parent.name):
                older = roots.make_backend_package(self.root.path / "srv", "cpu", file.parent.name, lzma.decompress(file.read_bytes()))
                self.root.add_packages([older])
                self.root.install(f"quern-backend-cpu={file.parent.name}", "quern", recommends=False)
                ask = "run /srv/model.gguf hello --raw --max-tokens 8 --temperature 0 --activations f32 --kv f32"
                before, version = self.json(ask), self.quern("--version")
                self.root.add_packages(LATER)
                self.root.install("libquern1", "quern", recommends=False)
                self.assertIn(file.parent.name, self.root.run("dpkg-query -W -f '${Version}' quern-backend-cpu"))
                minors = [int(re.search(r"plugin ABI 1\.(\d+)", text)[1]) for text in (version, self.quern("--version"))]
                self.assertEqual(minors[1], minors[0] + 1)
                entry = {p["backend"]: p for p in self.json("doctor")["plugins"]}["cpu"]
                self.assertTrue(entry["usable"], entry)
                self.assertLess(entry["abi_minor"], minors[1])
                self.assertEqual(self.json(ask)["ids"], before["ids"])

    def test_programs_and_libraries_are_hardened(self):
        """Position-independent, relocations read-only from the start, no executable stack, stack protector and checked functions."""
        seen = 0
        for package in PACKAGES:
            with tempfile.TemporaryDirectory() as folder:
                subprocess.run(["dpkg-deb", "--extract", package, folder], check=True)
                for path in sorted(pathlib.Path(folder).rglob("*")):
                    if path.is_symlink() or not path.is_file() or path.read_bytes()[:4] != b"\x7fELF":
                        continue
                    name, seen = path.relative_to(folder), seen + 1
                    text = subprocess.run(["readelf", "--wide", "--file-header", "--program-headers", "--dynamic", "--dyn-syms", path],
                                          capture_output=True, text=True, check=True).stdout
                    self.assertRegex(text, r"Type: +DYN", name)
                    self.assertRegex(text, r"GNU_RELRO", name)
                    self.assertRegex(text, r"FLAGS_1.*NOW", name)
                    self.assertRegex(text, r"GNU_STACK.* RW +0x", name)
                    self.assertNotRegex(text, r"\((RPATH|RUNPATH|TEXTREL)\)", name)
                    self.assertIn("__stack_chk_fail", text, name)
        self.assertGreaterEqual(seen, 5)

    def test_conformance_runs_from_its_package(self):
        self.root.install("quern-conformance", "quern-backend-cpu", recommends=False)
        text = self.root.run("quern-conformance run --filter 'elementwise.add.f32.*' --journal /tmp/j.jsonl --jobs 2")
        self.assertIn("cpu:0", text)


class Rpms(Installed):
    """The rpms, unpacked into a root: nothing is resolved there, so what they ask for is compared with what is there."""

    def setUp(self):
        if not RPMS:
            self.skipTest("QUERN_RPMS is not set")
        self.root = roots.Root(self.suite, [])
        self.addCleanup(self.root.close)
        shutil.copy(MODEL, self.root.path / "srv/model.gguf")
        (self.root.path / "etc/ld.so.conf.d/lib64.conf").write_text("/usr/lib64\n")  # where the systems of rpm look

    def unpack(self, *wanted):
        for rpm in RPMS:
            if re.match("|".join(f"{name}-[0-9]" for name in wanted), rpm.name):
                self.root.unpack_rpm(rpm)
        self.root.run("ldconfig")

    def test_runtime_and_cpu_run_a_model_and_more_is_explained(self):
        self.unpack("quern", "libquern1", "quern-backend-cpu")
        self.assertEqual(self.json("run /srv/model.gguf hello --max-tokens 4")["backend"], "cpu")
        for backend in ("cuda", "vulkan"):
            self.assertIn(f"quern-backend-{backend}", self.quern("run /srv/model.gguf hello", code=3, env={"QUERN_BACKEND": backend}))
        self.unpack("quern-backend-vulkan")
        entry = {p["backend"]: p for p in self.json("doctor")["plugins"]}["vulkan"]
        self.assertFalse(entry["usable"])
        self.assertIn("libvulkan", entry["cause"])

    def test_backends_ask_for_the_epoch_and_for_no_version(self):
        for rpm in RPMS:
            if "-backend-" in rpm.name:
                asked = roots.rpm_requires(rpm)
                self.assertIn("quern-abi-1", asked)
                self.assertEqual([line for line in asked if "quern" in line and line != "quern-abi-1"], [])


class Wheel(unittest.TestCase):
    """The platform wheel, where nothing of ours is installed: pip alone puts it into an environment."""

    suite = SUITES[0]

    def setUp(self):
        if not os.environ.get("QUERN_WHEEL"):
            self.skipTest("QUERN_WHEEL is not set")
        self.wheel = pathlib.Path(os.environ["QUERN_WHEEL"])
        self.root = roots.Root(self.suite, [])
        self.addCleanup(self.root.close)
        shutil.copy(MODEL, self.root.path / "srv/model.gguf")
        shutil.copy(self.wheel, self.root.path / "srv")

    def test_the_wheel_alone_answers_and_brings_every_backend(self):
        self.root.install("python3-venv", recommends=False)
        self.root.run(f"python3 -m venv /srv/venv && /srv/venv/bin/pip install --quiet --no-index /srv/{self.wheel.name}")
        program = ("import json, quern\n"
                   "runtime = quern.Runtime()\n"
                   "with runtime.load('/srv/model.gguf') as model, model.session() as session:\n"
                   "    answer = session.generate('hello', max_tokens=4)\n"
                   "    print(json.dumps([len(answer.ids), session.statistics()['backend'], runtime.report()]))\n")
        (self.root.path / "srv/program.py").write_text(program)
        tokens, backend, report = json.loads(self.root.run("/srv/venv/bin/python /srv/program.py 2>/dev/null"))
        self.assertTrue(0 < tokens <= 4)
        self.assertEqual(backend, "cpu")
        self.assertTrue(all(path.startswith("/srv/venv/") for path in report["searched"]), report["searched"])
        plugins = {plugin["backend"]: plugin for plugin in report["plugins"]}
        held = set(re.findall(r"libbackend_(\w+)\.so", " ".join(zipfile.ZipFile(self.wheel).namelist())))
        self.assertGreaterEqual(held, {"cpu", "vulkan"})  # and cuda, where NVRTC was
        for name in held:
            self.assertIn(name, plugins)
            self.assertTrue(plugins[name]["usable"] or plugins[name]["remedy"], plugins[name])
        self.root.run("/srv/venv/bin/pip uninstall --quiet --yes quern")
        self.assertEqual(self.root.run("find /srv/venv -name '*quern*'"), "")


class Sdk(Installed):
    """Programs and a plugin built from the installed headers."""

    def setUp(self):
        if os.environ.get("QUERN_TEST_SDK") != "1":
            self.skipTest("QUERN_TEST_SDK is not 1: these tests install a compiler")
        super().setUp()
        self.root.install("libquern-dev", "quern", "g++", "cmake", "make", "pkgconf", recommends=False)
        for folder in ("examples", "sample"):
            self.root.run(f"cp -r $(find /usr/share/doc/*quern* -type d -name {folder}) /srv/{folder}")

    def test_the_examples_build_with_pkg_config_and_with_cmake(self):
        self.root.run("cd /srv/examples && cc -std=c99 generate.c $(pkg-config --cflags --libs quern) -o /srv/generate")
        self.root.run("cd /srv/examples && c++ -std=c++17 chat.cpp $(pkg-config --cflags --libs quern) -o /srv/chat")
        self.root.run("cd /srv/examples && cmake -B /srv/build . && cmake --build /srv/build")
        for program in ("/srv/generate", "/srv/build/generate"):
            self.assertTrue(self.root.run(f"{program} /srv/model.gguf hello"))
        self.assertIn(">", self.root.run("echo hello | /srv/build/chat /srv/model.gguf"))

    def test_the_sample_plugin_builds_and_is_loaded(self):
        self.root.run("cd /srv/sample && cmake -B /srv/plugin . && cmake --build /srv/plugin")
        found = self.root.run("dirname $(find /srv/plugin -name 'libbackend_sample.so')").strip()
        plugins = {p["backend"]: p for p in self.json("doctor", env={"QUERN_BACKEND_EXTRA_PATH": found})["plugins"]}
        self.assertTrue(plugins["sample"]["usable"], plugins)


class Tarball(unittest.TestCase):
    """The relocatable tarball, where nothing is installed: root is not needed."""

    def test_it_runs_from_any_folder(self):
        if not os.environ.get("QUERN_TARBALL"):
            self.skipTest("QUERN_TARBALL is not set")
        with tempfile.TemporaryDirectory(prefix="quern tarball ") as folder:  # with a space
            subprocess.run(["tar", "-xzf", os.environ["QUERN_TARBALL"], "-C", folder], check=True)
            program, = pathlib.Path(folder).glob("**/bin/quern")
            environment = {"PATH": "/usr/bin:/bin", "HOME": folder}
            said = subprocess.run([program, "run", MODEL, "hello", "--max-tokens", "4", "--json"], env=environment, capture_output=True, text=True)
            self.assertEqual(said.returncode, 0, said.stderr)
            self.assertEqual(json.loads(said.stdout)["backend"], "cpu")
            report = json.loads(subprocess.run([program, "doctor", "--json"], env=environment, capture_output=True, text=True).stdout)
            self.assertTrue(all(path.startswith(folder) for path in report["searched"]), report["searched"])


# What fits the budget of scripts/test: a minute on two cores, once the clean system is there.
QUICK = {"test_the_readme_walks_a_user_through_it", "test_the_command_brings_what_it_needs_and_answers", "test_a_missing_backend_is_3_and_names_its_package", "test_purge_leaves_nothing",
         "test_another_backend_comes_is_explained_and_goes", "test_sizes_stay_below_their_limits", "test_it_runs_from_any_folder"}


def load_tests(loader, standard_tests, pattern):
    suite = unittest.TestSuite()
    suite.addTests(loader.loadTestsFromTestCase(Tarball))
    for number, name in enumerate(SUITES):
        for case in (Installed, Rpms, Wheel, Sdk):
            one = type(f"{case.__name__}On{name.capitalize()}", (case,), {"suite": name})
            methods = [m for m in loader.getTestCaseNames(one) if m in vars(case) and (m in QUICK or not quick)]
            suite.addTests(one(method) for method in methods)
    return suite


quick = "--quick" in sys.argv

if __name__ == "__main__":
    roots.in_own_mounts()
    if quick:
        sys.argv.remove("--quick")
    if not PACKAGES:
        raise SystemExit(f"there is no .deb file in {os.environ['QUERN_PACKAGES']}")
    unittest.main(verbosity=2)
