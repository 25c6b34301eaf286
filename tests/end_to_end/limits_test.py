"""What a hostile file and a small container cost: time that goes by the layers, memory that goes by the file, refusals before a kill."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import unittest

import harness
from changed_gguf import ARRAY, STRING, Gguf, llama
from harness import MICRO

MIB = 1 << 20
# The program's own peak, apart from this process's, which a fork would carry into it: what it wrote, its status, and what it used.
LAUNCHER = """
import os, resource, sys
child = os.fork()
if child == 0:
    os.execv(sys.argv[2], sys.argv[2:])
_, status, used = os.wait4(child, 0)
with open(sys.argv[1], "w") as out:
    out.write(f"{status} {used.ru_maxrss * 1024} {used.ru_utime + used.ru_stime}")
"""


class Measured(harness.Case):
    def measure(self, *arguments, env=None):
        """Exit code (negative: a signal), peak resident bytes, seconds of the processors, standard output, standard error."""
        figures = self.folder / "figures"
        done = subprocess.run([sys.executable, "-c", LAUNCHER, str(figures), harness.PROGRAM, *map(str, arguments)], capture_output=True,
                              env=self.environment({"QUERN_BACKEND": "cpu", "QUERN_THREADS": "1", **(env or {})}), timeout=100)
        status, peak, seconds = figures.read_text().split()
        return os.waitstatus_to_exitcode(int(status)), int(peak), float(seconds), done.stdout, done.stderr.decode("utf-8", "replace")


class Layers(Measured):
    def test_loading_takes_time_that_goes_by_the_number_of_layers(self):
        # Twice the layers are twice the work, and a little more where tables no longer fit a cache: 2.2 was measured. Where a share q of the
        # work goes by the square, it takes 2 + 2 q times as long. So 2.6 finds 30 % of the work at 2,048 layers; it was 70 %. A noisy
        # neighbour slows one run, so the best of some counts.
        def seconds(layers):
            path = llama(MICRO, layers).write(self.folder / f"{layers}.gguf")
            code, _, taken, _, error = self.measure("run", path, "hi", "--max-tokens", "1", "-q")
            self.assertEqual(code, 0, error)
            return taken

        few, many = [], []
        for _ in range(4):
            few.append(seconds(2048))
            many.append(seconds(4096))
            if min(many) <= 2.6 * min(few):
                return
        self.fail(f"2,048 layers took {few} s and 4,096 took {many} s")


class Files(Measured):
    """Memory of the readers: at most what the file has and 64 MiB, beside what the program takes for a small file."""

    @classmethod
    def setUpClass(cls):
        if harness.SANITIZER:
            raise unittest.SkipTest("a sanitizer's own memory hides the program's")

    def hold_to_the_file(self, path, *verbs):
        size = os.path.getsize(path)
        for verb in verbs:
            small = self.measure(verb[0], MICRO, *verb[1:])
            code, peak, _, out, error = self.measure(verb[0], path, *verb[1:])
            self.assertIn(code, (0, 4), error)
            self.assertLessEqual(peak, small[1] + size + 64 * MIB, verb)
            if code == 0 and "--json" in verb:
                json.loads(out)

    SHOW = (("show",), ("show", "--json"), ("show", "--tensors"))
    ALL = (*SHOW, ("estimate", "--json"), ("tokenize", "hi", "--json"))

    def test_a_string_of_100_mb_is_shown_as_its_type_and_size(self):
        model = Gguf(MICRO)
        model.tensors, model.keys = [], {"general.architecture": [STRING, b"llama"], "general.description": [STRING, b""]}
        path = model.write(self.folder / "sparse.gguf")
        with open(path, "r+b") as file:  # the string's length, and its zeros as a hole
            content = file.read()
            at = content.index(b"general.description") + len("general.description") + 4
            file.seek(at)
            file.write((100 * MIB).to_bytes(8, "little"))
            file.truncate(at + 8 + 100 * MIB)
        small = self.measure("show", MICRO)
        for verb in self.SHOW:
            code, peak, _, out, error = self.measure(verb[0], path, *verb[1:])
            self.assertEqual(code, 0, error)
            self.assertLess(peak, small[1] + 16 * MIB)  # not even the file's own pages are read
            self.assertIn(str(100 * MIB), out.decode().replace(",", ""))
        shown = self.quern_json("show", path)
        self.assertEqual(shown["metadata"]["general.description"], {"type": "string", "bytes": 100 * MIB})

    def test_a_long_template_name_or_architecture_is_shown_as_its_size(self):
        model = Gguf(MICRO)
        text = b"\x01" * (4 * MIB)
        for key in ("tokenizer.chat_template", "general.name", "general.architecture"):
            model.keys[key] = [STRING, text]
        path = model.write(self.folder / "long.gguf")
        shown = self.quern_json("show", path)
        for field in ("chat_template", "name", "architecture"):
            self.assertEqual(shown[field], {"type": "string", "bytes": len(text)})
        self.hold_to_the_file(path, *self.ALL)

    def test_strings_up_to_64_kib_are_shown_whole(self):
        model = Gguf(MICRO)
        for size, whole in ((64 << 10, True), ((64 << 10) + 1, False)):
            model.keys["tokenizer.chat_template"] = [STRING, b"x" * size]
            shown = self.quern_json("show", model.write(self.folder / "edge.gguf"))["chat_template"]
            self.assertEqual(shown, "x" * size if whole else {"type": "string", "bytes": size})

    def test_many_long_keys_and_strings_are_left_out_and_counted(self):
        model = Gguf(MICRO)
        for i in range(4000):
            model.keys[f"{i:04}" + "\x01" * 4000] = [STRING, b"\x01" * 100]
        for i in range(16):
            model.keys[f"array.{i}"] = [ARRAY, (STRING, [b"\xff" * (64 << 10)] * 16)]
        path = model.write(self.folder / "keys.gguf")
        shown = self.quern_json("show", path)
        self.assertEqual(len(shown["metadata"]) + shown["metadata_left_out"], len(model.keys))
        self.assertLess(len(json.dumps(shown)), 12 * MIB)
        self.hold_to_the_file(path, *self.ALL)

    def test_many_long_tensor_names_are_left_out_and_counted(self):
        model = Gguf(MICRO)
        model.tensors = [[f"{i:05}" + "\x01" * 240, [1], 0, b"\0\0\0\0"] for i in range(65536)]
        path = model.write(self.folder / "tensors.gguf")
        shown = self.quern_json("show", path)
        self.assertEqual(len(shown["tensors"]) + shown["tensors_left_out"], 65536)
        self.hold_to_the_file(path, *self.SHOW)

    def test_a_vocabulary_of_a_million_tokens_takes_what_the_file_has_and_a_little(self):
        model = Gguf(MICRO)
        tokens = model.keys["tokenizer.ggml.tokens"][1][1]
        count = (1 << 20) - len(tokens)
        model.keys["tokenizer.ggml.tokens"][1] = (STRING, tokens + [b"%07d" % i for i in range(count)])
        for key, filler in (("tokenizer.ggml.scores", 0.0), ("tokenizer.ggml.token_type", 1)):
            if key in model.keys:
                kind, items = model.keys[key][1]
                model.keys[key][1] = (kind, items + [filler] * count)
        path = model.write(self.folder / "vocabulary.gguf")
        self.hold_to_the_file(path, ("tokenize", "hi", "--json"), *self.SHOW)


class ControlGroup:
    """A group that limits memory and processor time, made by root; version 1 or 2, whichever has the controllers."""

    def __init__(self, memory=None, quota=None, within=None):
        self.name = f"{within.name if within else ''}/quern-test-{os.getpid()}-{id(self)}"
        self.folders = []
        root = "/sys/fs/cgroup"
        try:
            if os.path.isdir(f"{root}/memory"):
                self._make(f"{root}/memory{self.name}", {"memory.limit_in_bytes": memory})
                cpu = next((c for c in ("cpu", "cpu,cpuacct") if os.path.exists(f"{root}/{c}/cgroup.procs")), None)
                if cpu is None:
                    raise unittest.SkipTest("there is no cpu controller of control groups")
                self._make(f"{root}/{cpu}{self.name}", {"cpu.cfs_quota_us": quota and int(quota * 100000)})
            else:
                for above in (root, *([root + within.name] if within else [])):
                    with open(f"{above}/cgroup.subtree_control", "w") as file:
                        file.write("+memory +cpu")
                self._make(root + self.name, {"memory.max": memory, "cpu.max": quota and f"{int(quota * 100000)} 100000"})
        except OSError as error:
            self.remove()
            raise unittest.SkipTest(f"control groups cannot be made here: {error}") from error

    def _make(self, folder, limits):
        os.mkdir(folder)
        self.folders.append(folder)
        for name, value in limits.items():
            if value is not None:
                with open(f"{folder}/{name}", "w") as file:
                    file.write(str(value))

    def enter(self):
        for folder in self.folders:
            with open(f"{folder}/cgroup.procs", "w") as file:
                file.write(str(os.getpid()))

    def remove(self):
        for folder in self.folders:
            os.rmdir(folder)


class Limited(harness.Case):
    def limited(self, prepare, *arguments, env=None):
        done = subprocess.run([harness.PROGRAM, *map(str, arguments)], preexec_fn=prepare, capture_output=True, timeout=100,
                              env=self.environment({"QUERN_BACKEND": "cpu", **(env or {})}))
        self.assertNotEqual(done.returncode, -signal.SIGKILL, "the kernel ended it: " + repr(arguments))
        return harness.Result(done.returncode, done.stdout, done.stderr.decode("utf-8", "replace"))

    def fits_up_to_what_it_says(self, prepare, path, asked):
        """A context that is too long is refused with one that fits; that one runs, and one of 1/32 more does not."""
        arguments = ("run", path, "hi", "--max-tokens", "2", "-q", "--kv", "f32", "--context")
        refused = self.limited(prepare, *arguments, asked)
        self.assertEqual(refused.code, 5, refused.err)
        found = re.search(r"has ([\d.]+ [MG]iB) available .*and ([\d.]+ [MG]iB) are needed .*a context of (\d+) would fit", refused.err)
        self.assertTrue(found, refused.err)
        context = int(found[3])
        self.assertGreater(context, asked // 100)
        # A little less. The kernel charges a group in batches for each processor: 64 pages, so 4 MiB of 300 differ from run to run with 16.
        fits = self.limited(prepare, *arguments, context - context // 32)
        self.assertEqual(fits.code, 0, fits.err)
        above = self.limited(prepare, *arguments, context + context // 32)
        self.assertEqual(above.code, 5, above.err)
        return refused.err


class Containers(Limited):
    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("only root makes control groups")
        if harness.SANITIZER:
            raise unittest.SkipTest("a sanitizer's own memory is more than the container has")

    def group(self, **limits):
        made = ControlGroup(**limits)
        self.addCleanup(made.remove)
        return made

    def wide(self, layers=2, hidden=64, ffn=1, context=1 << 20):
        return llama(MICRO, layers, hidden=hidden, ffn=ffn, context=context).write(self.folder / "model.gguf")

    def test_devices_show_the_memory_of_the_container(self):
        group = self.group(memory=300 * MIB)
        shown = json.loads(self.limited(group.enter, "devices", "--json").out)
        cpu = next(d for d in shown["devices"] if d["name"] == "cpu:0")
        self.assertEqual(cpu["memory_total"], 300 * MIB)
        self.assertLess(cpu["memory_budget"], 300 * MIB)
        self.assertGreater(cpu["memory_budget"], 200 * MIB)

    def test_a_group_within_a_group_has_the_limits_of_both(self):
        outer = self.group(memory=300 * MIB, quota=0.5)
        inner = self.group(within=outer)
        shown = json.loads(self.limited(inner.enter, "devices", "--json").out)
        self.assertEqual(next(d for d in shown["devices"] if d["name"] == "cpu:0")["memory_total"], 300 * MIB)
        refused = self.limited(inner.enter, "run", self.wide(), "hi", "--kv", "f32", "--context", 1 << 20)
        self.assertEqual(refused.code, 5, refused.err)
        self.assertIn(f"the control group '{outer.name}' may have 300.0 MiB", refused.err)

    def test_estimate_says_what_fits_the_container(self):
        group = self.group(memory=300 * MIB)
        path = self.wide()
        for context, fits in ((4096, True), (1 << 20, False)):
            shown = json.loads(self.limited(group.enter, "estimate", path, "--context", context, "--json").out)
            self.assertEqual(shown["fits"], fits)
            self.assertLess(shown["available_bytes"], 300 * MIB)

    def test_a_load_is_refused_before_the_kernel_ends_it_and_what_fits_runs(self):
        group = self.group(memory=300 * MIB)
        error = self.fits_up_to_what_it_says(group.enter, self.wide(), 1 << 20)
        self.assertIn(f"'{group.name}' may have 300.0 MiB", error)

    def test_weights_count_too(self):
        group = self.group(memory=300 * MIB)
        fits = llama(MICRO, 1, hidden=64, ffn=4 * 65536).write(self.folder / "fits.gguf")  # 192 MiB of weights
        self.assertEqual(self.limited(group.enter, "run", fits, "hi", "--max-tokens", "1", "-q", "--context", "256").code, 0)
        above = llama(MICRO, 1, hidden=64, ffn=6 * 65536).write(self.folder / "above.gguf")  # 288 MiB
        refused = self.limited(group.enter, "run", above, "hi", "--max-tokens", "1", "-q", "--context", "256")
        self.assertEqual(refused.code, 5, refused.err)
        self.assertIn("are needed for any context", refused.err)

    def test_bench_and_the_default_threads_go_by_half_a_processor(self):
        group = self.group(memory=300 * MIB, quota=0.5)
        done = self.limited(group.enter, "bench", MICRO, "--prompt-tokens", "8", "--decode-tokens", "4", "--repetitions", "1", "--json")
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(json.loads(done.out)["threads"], 1)


class Ulimits(Limited):
    @unittest.skipIf(harness.SANITIZER, "a sanitizer reserves more address space than any limit")
    def test_a_limit_of_addresses_refuses_a_load_that_it_would_not_hold(self):
        path = llama(MICRO, 2, hidden=64, context=1 << 20).write(self.folder / "model.gguf")
        for limit, words in ((resource.RLIMIT_AS, "ulimit -v"), (resource.RLIMIT_DATA, "ulimit -d")):
            refused = self.limited(lambda: resource.setrlimit(limit, (600 * MIB, 600 * MIB)), "run", path, "hi", "--kv", "f32", "--context", 1 << 20)
            self.assertEqual(refused.code, 5, refused.err)
            self.assertIn("a process may have 600.0 MiB of", refused.err)
            self.assertIn(words, refused.err)


if __name__ == "__main__":
    harness.main()
