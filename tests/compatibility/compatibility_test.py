"""Binaries of releases against the present tree: stored plugins on this host, this tree's plugins on the stored hosts, plugins of a minor
that is still to come on both.

What is stored is in <version>/, made by scripts/store-release from the tag. All programs run as a user's: each finds its library from where
it lies. A host of a later minor is a build with -DQUERN_ABI_LATER=1; QUERN_LATER_HOST names its folder, and its tests are skipped without.
"""

import json
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
BUILD = pathlib.Path(os.environ["QUERN_BUILD"])
PLUGINS = BUILD / "lib/quern/backends-1"
MODELS = sorted((SOURCE / "tests/data/gguf").glob("micro-*.gguf"))
RELEASES = sorted(path.parent for path in HERE.glob("*/release.json"))
STEPS = 16
CLOSE = 0.01  # design.md 5: in exact mode texts are equal but where the two best logits are closer than this


SUPPORTED = int(re.search(r"^#define QUERN_ABI_MINOR_SUPPORTED (\d+)u", (SOURCE / "plugin-api/include/quern/quern_abi.h").read_text(), re.M)[1])


def facts(release):
    return json.loads((release / "release.json").read_text())


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="quern-compatibility-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.plugins, cls.hosts = {}, {}
        for release in RELEASES:
            folder = cls.folder / release.name
            (folder / "plugins").mkdir(parents=True)
            for packed in release.glob("libbackend_*.so.xz"):
                plugin = folder / "plugins" / packed.name.removesuffix(".xz")
                plugin.write_bytes(lzma.decompress(packed.read_bytes()))
                plugin.chmod(0o755)
            cls.plugins[release.name] = folder / "plugins"
            with tarfile.open(release / "host.tar.xz") as archive:
                archive.extractall(folder / "host", filter="data") if hasattr(tarfile, "data_filter") else archive.extractall(folder / "host")
            cls.hosts[release.name] = folder / "host"

    def run_program(self, *command, codes=(0,), **settings):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("QUERN_", "LD_"))}
        environment = {**kept, "HOME": str(self.folder), "QUERN_CACHE_DIR": "", "LC_ALL": "C.UTF-8", **settings}
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=environment, timeout=300)
        self.assertIn(done.returncode, codes, f"{command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def doctor(self, program, plugins, **settings):
        """backend -> its entry, of the plugins that lie in this folder. Exit 3: none of them can be used."""
        report = json.loads(self.run_program(program, "doctor", "--json", "--backend-path", plugins, codes=(0, 3), **settings))
        return {plugin["backend"]: plugin for plugin in report["plugins"]}

    def minor(self, program):
        return int(re.search(r"plugin ABI \d+\.(\d+)", self.run_program(program, "--version")).group(1))

    def answer(self, program, model, plugins, **settings):
        """[(token, its log-probability, that of the next best)] of a greedy answer in exact numerics."""
        said = json.loads(self.run_program(program, "run", model, "The capital of", "--raw", "--max-tokens", STEPS, "--temperature", 0, "--json",
                                           "--activations", "f32", "--kv", "f32", "--logprobs", 2, "--backend", "cpu", "--backend-path", plugins,
                                           **settings))
        self.assertEqual(said["backend"], "cpu")
        self.assertGreater(len(said["ids"]), 0)
        return said

    def assert_same_answers(self, old, new):
        """(program, plugins, settings) each."""
        self.assertGreater(len(MODELS), 3)
        compared = 0
        for model in MODELS:
            if "-00002-of-" in model.name:
                continue
            a, b = (self.answer(program, model, plugins, **settings) for program, plugins, settings in (old, new))
            for step, (was, now) in enumerate(zip(a["ids"], b["ids"])):
                if was != now:
                    best = a["logprobs"][step]["top"]
                    self.assertLess(best[0]["logprob"] - best[1]["logprob"], CLOSE, f"{model.name}, token {step}")
                    break
                compared += 1
        self.assertGreater(compared, STEPS * (len(MODELS) - 2))


@unittest.skipUnless(RELEASES, "no release is stored yet")
class Stored(Case):
    def test_files_are_those_that_were_stored(self):
        import hashlib

        for release in RELEASES:
            self.assertEqual(facts(release)["version"], release.name)
            for name, digest in facts(release)["sha256"].items():
                self.assertEqual(hashlib.sha256((release / name).read_bytes()).hexdigest(), digest, f"{release.name}/{name}")

    def test_plugins_carry_no_hash_of_development_headers(self):
        for release in RELEASES:
            out = self.run_program(sys.executable, SOURCE / "tests/plugin-api/plugin_file_test.py", self.plugins[release.name] / "libbackend_sample.so", "0")
            self.assertIn("as they should be", out)


@unittest.skipUnless(RELEASES, "no release is stored yet")
class StoredPlugins(Case):
    """Plugins of a release on the host of this tree."""

    program = BUILD / "bin/quern"
    suite = BUILD / "bin/quern-conformance"
    settings = {}

    def served(self):
        """Releases whose minor the host still takes."""
        least = self.minor(self.program) - SUPPORTED
        found = [release for release in RELEASES if facts(release)["abi_minor"] >= least]
        self.assertTrue(found)
        return found

    def test_earlier_ones_are_refused_by_their_minor(self):
        for release in set(RELEASES) - set(self.served()):
            entry = self.doctor(self.program, self.plugins[release.name], **self.settings)["cpu"]
            self.assertEqual((entry["usable"], entry["code"]), (False, "QUERN-L-0110"))

    def test_are_accepted_by_their_range(self):
        for release in self.served():
            found = self.doctor(self.program, self.plugins[release.name], **self.settings)
            for backend in ("cpu", "sample"):
                self.assertTrue(found[backend]["usable"], found[backend])
                self.assertEqual(found[backend]["abi_minor"], facts(release)["abi_minor"])

    def test_say_nothing_of_schedules_and_are_explained_as_such(self):
        """quern_plan_info.schedules came with minor 1."""
        for release in self.served():
            if facts(release)["abi_minor"] >= 1:
                continue
            said = json.loads(self.run_program(self.program, "run", MODELS[0], "The capital of", "--raw", "--max-tokens", 1, "--json", "--explain",
                                               "--backend", "cpu", "--backend-path", self.plugins[release.name], **self.settings))
            (device,) = said["plan"]["devices"]
            self.assertEqual((device["told"], device["schedules"]), (False, []))
            self.assertGreater(device["nodes"], 0)

    def test_compute_what_the_plugin_of_this_tree_does(self):
        for release in self.served():
            self.assert_same_answers((self.program, self.plugins[release.name], self.settings), (BUILD / "bin/quern", PLUGINS, {}))

    def test_pass_the_conformance_suite_of_this_tree(self):
        groups = [word for group in ("elementwise", "norm", "matmul", "rope", "attention", "softmax", "rows") for word in ("--group", group)]
        for release in self.served():
            not_yet = release / "not_yet.txt"  # written once the suite asks for more than the release has
            excluded = ["--exclusions", not_yet] if not_yet.exists() else []
            self.run_program(self.suite, "run", "--backend", "cpu", "--profile", "quick", *groups, "--jobs", "2", *excluded,
                             "--journal", self.folder / f"{release.name}.jsonl", QUERN_BACKEND_PATH=str(self.plugins[release.name]))

    def test_sample_passes_its_own_tests(self):
        for release in self.served():
            out = self.run_program(BUILD / "tests/plugin_api_sample_test", QUERN_SAMPLE_PLUGIN=str(self.plugins[release.name] / "libbackend_sample.so"),
                                   QUERN_SAMPLE_OP_SET=str(facts(release)["op_set"]))
            self.assertRegex(out, r"\[  PASSED  \] \d\d+ tests")


@unittest.skipUnless(RELEASES, "no release is stored yet")
class PresentPlugins(Case):
    """Plugins of this tree on the host of a release; they carry the hash of development headers, which that host has to be told to accept."""

    def test_without_leave_they_are_refused_by_their_hash(self):
        for host in self.hosts.values():
            entry = self.doctor(host / "bin/quern", PLUGINS)["cpu"]
            if not entry["usable"]:
                self.assertEqual(entry["code"], "QUERN-L-0112")

    def test_are_accepted_by_their_range(self):
        for name, host in self.hosts.items():
            found = self.doctor(host / "bin/quern", PLUGINS, QUERN_ALLOW_DEV_PLUGINS="1")
            self.assertTrue(found["cpu"]["usable"], found["cpu"])
            for backend, entry in found.items():  # a graphics card may be missing, the ABI may not
                self.assertIn(entry["stage"], ("probe", "open"), f"{backend} on {name}: {entry}")

    def test_compute_what_the_stored_plugin_does(self):
        for name, host in self.hosts.items():
            self.assert_same_answers((host / "bin/quern", self.plugins[name], {}), (host / "bin/quern", PLUGINS, {"QUERN_ALLOW_DEV_PLUGINS": "1"}))


    @unittest.skipUnless((BUILD / "tests/fake_drivers/counting/libcuda.so.1").exists(), "the driver of the CUDA plugin's tests is not built")
    def test_cuda_waits_for_a_host_that_makes_no_queues(self):
        """Its devices take work on queues, which hosts of minor 0 do not have."""
        settings = {"QUERN_ALLOW_DEV_PLUGINS": "1", "LD_LIBRARY_PATH": str(BUILD / "tests/fake_drivers/counting")}
        for name, host in self.hosts.items():
            if facts(HERE / name)["abi_minor"] >= 1:
                continue
            said = json.loads(self.run_program(host / "bin/quern", "run", SOURCE / "tests/data/gguf/micro-llama-q8_0.gguf", "The capital of", "--raw",
                                               "--max-tokens", STEPS, "--temperature", 0, "--logit-bias", "2=-inf", "--json", "--backend", "cuda",
                                               "--backend-path", PLUGINS, **settings))
            self.assertEqual((said["backend"], len(said["ids"])), ("cuda", STEPS), name)


class LaterPlugin(Case):
    """A plugin of headers that are one minor later than this tree's, on this host and on stored ones."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        subprocess.run([sys.executable, SOURCE / "plugin-api/tools/next_minor.py", "1", cls.folder / "later"], check=True)
        cls.later = cls.folder / "plugin"
        cls.later.mkdir()
        subprocess.run(["c++", "-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden", "-fno-gnu-unique", "-shared", "-DQUERN_HEADER_HASH=0ull",
                        f"-I{cls.folder}/later", f"-Wl,--version-script={SOURCE}/plugin-api/cmake/quern_plugin.map", "-Wl,-Bsymbolic", "-Wl,-z,now",
                        SOURCE / "plugin-api/sample/sample_plugin.cpp", "-o", cls.later / "libbackend_sample.so"], check=True)

    def test_serves_with_the_minor_of_the_host(self):
        for host in (BUILD, *self.hosts.values()):
            entry = self.doctor(host / "bin/quern", self.later)["sample"]
            self.assertTrue(entry["usable"], entry)
            self.assertEqual(entry["abi_minor"], self.minor(host / "bin/quern"))

    def test_a_later_host_in_its_smallest_form_takes_what_is_stored_and_what_is_here(self):
        subprocess.run(["c++", "-std=c++17", "-O1", "-DQUERN_HEADER_HASH=0ull", f"-I{self.folder}/later", HERE / "later_host.cpp", "-ldl",
                        "-o", self.folder / "later_host"], check=True)
        present = self.minor(BUILD / "bin/quern")
        plugins = [(PLUGINS / "libbackend_cpu.so", present), (BUILD / "lib/quern/sample/libbackend_sample.so", present)]
        for release in RELEASES:
            plugins += [(file, facts(release)["abi_minor"]) for file in self.plugins[release.name].iterdir()]
        for plugin, minor in plugins:
            if minor >= present + 1 - SUPPORTED:
                self.assertEqual(self.run_program(self.folder / "later_host", plugin, minor), f"minor {minor} under {present + 1}\n", plugin)
            else:
                self.assertEqual(self.run_program(self.folder / "later_host", plugin, minor, codes=(1,)), "it refuses a later host\n", plugin)

    def test_passes_the_tests_of_the_sample(self):
        # But for one, which offers a table longer than its own headers' and takes any plugin that fills more for a fault.
        out = self.run_program(BUILD / "tests/plugin_api_sample_test", "--gtest_filter=-*FillsNoMoreThanItIsGiven",
                               QUERN_SAMPLE_PLUGIN=str(self.later / "libbackend_sample.so"))
        self.assertRegex(out, r"\[  PASSED  \] \d\d+ tests")


@unittest.skipUnless(shutil.which("abidiff"), "abidiff is not installed")
class Gate(unittest.TestCase):
    """abi_gate.py passes appends and nothing else."""

    program = """#include "quern/quern_plugin_api.h"
    quern_status entry(const quern_query *query, quern_plugin_api *out, quern_error *error) { return query && out && error ? QUERN_OK : QUERN_OK; }
    """
    appends = (("quern_plugin_api.h", "} quern_plugin_api;", "  void (*later)(void);\n} quern_plugin_api;"),)
    breaks = (("quern_plugin_api.h", "  uint32_t opset_version;", "  uint64_t inserted;\n  uint32_t opset_version;"),
              ("quern_plugin_api.h", "  uint32_t opset_version;", "  uint64_t opset_version;"),
              ("quern_plugin_api.h", "  void (*destroy)(quern_plugin *plugin);", ""),
              ("quern_plugin_api.h", "  void (*destroy)(quern_plugin *plugin);", "  int (*destroy)(quern_plugin *plugin);"),
              ("quern_plugin_api.h", "(quern_plugin *plugin, uint32_t *count,", "(quern_plugin *plugin, uint64_t *count,"))

    def library(self, name, change=None):
        folder = self.folder / name
        shutil.copytree(SOURCE / "plugin-api/include/quern", folder / "quern")
        if change:
            file = folder / "quern" / change[0]
            self.assertIn(change[1], file.read_text())
            file.write_text(file.read_text().replace(change[1], change[2], 1))
        (folder / "entry.c").write_text(self.program)
        subprocess.run(["cc", "-g", "-fPIC", "-shared", f"-I{folder}", folder / "entry.c", "-o", folder / "entry.so"], check=True)
        return folder / "entry.so"

    def test_appends_pass_and_nothing_else(self):
        with tempfile.TemporaryDirectory() as folder:
            self.folder = pathlib.Path(folder)
            old = self.library("old")
            for number, change in enumerate(((None,) + self.appends + self.breaks)):
                done = subprocess.run([sys.executable, HERE / "abi_gate.py", "--pair", old, self.library(str(number), change)], capture_output=True, text=True)
                self.assertEqual(done.returncode, 1 if change in self.breaks else 0, f"{change}: {done.stdout}{done.stderr}")


    def test_functions_stay_and_come_with_the_version_of_their_release(self):
        sys.path.insert(0, str(HERE))
        import abi_gate

        released = {"one@@QUERN_1", "two@@QUERN_1"}
        self.assertEqual(list(abi_gate.moved(released, released | {"three@@QUERN_1.9"}, "R")), [])
        for present, name in ((released - {"two@@QUERN_1"}, "two"), (released | {"three@@QUERN_1"}, "three"),
                              ({"one@@QUERN_1", "two@@QUERN_1.9"}, "two")):
            (said,) = abi_gate.moved(released, present, "R")
            self.assertIn(name, said)


@unittest.skipUnless(os.environ.get("QUERN_LATER_HOST"), "QUERN_LATER_HOST is not set: a build with -DQUERN_ABI_LATER=1")
class StoredPluginsOnALaterHost(StoredPlugins):
    program = pathlib.Path(os.environ.get("QUERN_LATER_HOST", "/")) / "bin/quern"
    suite = program.parent / "quern-conformance"

    def test_the_host_is_of_a_later_minor(self):
        self.assertEqual(self.minor(self.program), self.minor(BUILD / "bin/quern") + 1)


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=2).result
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if len(result.skipped) >= result.testsRun else 0)
