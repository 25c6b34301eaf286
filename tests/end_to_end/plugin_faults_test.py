"""Plugins that fail after they were opened: in which call, in which way, and what the command then says of them.

tests/data/faults/sentences.txt has a line for each: call, fault, exit code, and the last line of standard error with PATH for the plugin's file.
"""

import os
import pathlib
import shutil
import signal
import subprocess

from harness import DATA, MICRO, PROGRAM, SANITIZER, Case, main, unittest

SENTENCES = DATA / "faults/sentences.txt"
BROKEN = pathlib.Path(os.environ["QUERN_TEST_BROKEN"])
RUN = ("run", MICRO, "x", "--raw", "--max-tokens", "2", "--temperature", "0")


def goldens():
    """(call, fault, exit code, sentence) of each line."""
    rows = [line.split(" ", 3) for line in SENTENCES.read_text().splitlines() if line and not line.startswith("#")]
    return [(call, fault, int(code), sentence) for call, fault, code, sentence in rows]


def folder_of(call, fault):
    """Of the plugin; a foreign exception is thrown by one with a C++ library of its own, and a fence is one of a device with queues."""
    if call == "fence_wait":
        return os.environ["QUERN_TEST_QUEUED"]
    return f"{BROKEN}_own" if fault == "foreign-throw" else str(BROKEN)


def broken(call, fault, **more):
    return {"QUERN_BACKEND_PATH": folder_of(call, fault), "QUERN_BACKEND": "queued" if call == "fence_wait" else "broken", "QUERN_TEST_FAULT": f"{call}:{fault.removeprefix('foreign-')}", **more}


def last_line(text):
    return text.splitlines()[-1] if text else ""


@unittest.skipIf(SANITIZER, "a sanitizer handles these signals itself")
class Sentences(Case):
    def test_each_fault_is_named_with_plugin_device_and_call(self):
        for call, fault, code, sentence in goldens():
            if fault.endswith("hang") or fault == "print":
                continue
            with self.subTest(call=call, fault=fault):
                result = self.quern(*RUN, env=broken(call, fault))
                self.assertEqual((result.code, last_line(result.err).replace(folder_of(call, fault), "PATH")), (code, sentence), result.err)

    def test_what_a_plugin_prints_is_named_and_does_not_reach_the_results(self):
        expected = self.quern(*RUN, env={"QUERN_BACKEND": "cpu"}).out
        rows = [row for row in goldens() if row[1] == "print"]
        self.assertEqual(len(rows), 8)
        for call, fault, code, sentence in rows:
            with self.subTest(call=call):
                result = self.quern(*RUN, env=broken(call, fault))
                self.assertEqual((result.code, result.out), (code, expected), result.err)
                self.assertEqual([line.replace(folder_of(call, fault), "PATH") for line in result.err.splitlines() if line.startswith("quern: ")],
                                 [sentence])
        self.quern_json(*RUN, env=broken("submit", "print"))

    def test_there_are_twenty(self):
        self.assertGreaterEqual(len(goldens()), 20)

    def test_a_crash_outside_of_plugins_is_a_bug_of_ours(self):
        process = subprocess.Popen([PROGRAM, "run", MICRO], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=self.environment())
        process.send_signal(signal.SIGSEGV)  # sent by another process: its own business
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGSEGV)
        self.assertNotIn(b"quern:", err)


@unittest.skipIf(SANITIZER, "a sanitizer handles these signals itself")
class Hangs(Case):
    def start(self, call, **more):
        """The running program, when the call hangs."""
        reading, writing = os.pipe()
        self.addCleanup(os.close, reading)
        process = subprocess.Popen([PROGRAM, *RUN], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[writing],
                                   env=self.environment(broken(call, "hang", QUERN_TEST_WAIT=str(writing), **more)))
        os.close(writing)
        self.assertEqual(os.read(reading, 1), b"\0", call)
        return process

    def test_the_first_ctrl_c_ends_a_hang_and_names_it(self):
        rows = [row for row in goldens() if row[1].endswith("hang")]
        self.assertTrue(rows)
        # The first run of the step belongs to the load. Later ones belong to the answer, which the first Ctrl-C asks to end.
        running = [(self.start(call, **({"QUERN_TEST_AFTER": "1"} if fault == "late-hang" else {})), call, code, sentence)
                   for call, fault, code, sentence in rows]
        for process, *_ in running:
            process.send_signal(signal.SIGINT)
        for process, call, code, sentence in running:
            _, err = process.communicate(timeout=60)
            with self.subTest(call=call):
                self.assertEqual((process.returncode, last_line(err.decode()).replace(folder_of(call, "hang"), "PATH")), (code, sentence), err)


@unittest.skipIf(SANITIZER, "a sanitizer handles these signals itself")
class Remembered(Case):
    def setUp(self):
        super().setUp()
        self.plugins = self.folder / "plugins"
        self.plugins.mkdir()
        for file in (BROKEN / "libbackend_broken.so", pathlib.Path(os.environ["QUERN_TEST_PLUGINS"]) / "libbackend_cpu.so"):
            shutil.copy(file, self.plugins)

    def env(self, **more):
        return {"QUERN_BACKEND_PATH": str(self.plugins), **more}

    def entry(self):
        """What doctor's report has about the fault, or None."""
        notes = self.quern_json("doctor", env=self.env())["notes"]
        return next((n for n in notes if n["code"] == "QUERN-L-0503"), None)

    def first(self):
        return next(d["name"] for d in self.quern_json("doctor", env=self.env())["devices"] if d["rank"] == 0)

    def crash(self, fault="submit:crash"):
        return self.quern(*RUN, env=self.env(QUERN_BACKEND="broken", QUERN_TEST_FAULT=fault))

    def test_doctor_names_the_call_and_what_to_type_and_others_come_first(self):
        self.assertEqual(self.first(), "broken:0")  # before cpu in the alphabet
        self.crash()
        entry = self.entry()
        self.assertIn("broken:0 crashed in submit with signal 11 (Segmentation fault) in an earlier run", entry["cause"])
        self.assertEqual(entry["command"], "export QUERN_BACKEND_DISABLE=broken")
        self.assertEqual(self.first(), "cpu:0")
        result = self.quern(*RUN, env=self.env())
        self.assertEqual(result.code, 0, result.err)
        self.assertIn("warning: loader: QUERN-L-0503", result.err)
        self.assertIn("cpu on cpu:0", last_line(result.err))

    def test_an_exit_is_remembered_as_one(self):
        self.crash("device_open:exit")
        self.assertIn("broken:0 ended the program in device_open in an earlier run", self.entry()["cause"])

    def test_another_file_is_another_plugin(self):
        self.crash()
        file = self.plugins / "libbackend_broken.so"
        content = file.read_bytes()
        file.unlink()
        file.write_bytes(content)
        self.assertIsNone(self.entry())

    def test_a_run_in_which_the_call_returned_forgets_it(self):
        self.crash()
        self.assertEqual(self.quern(*RUN, env=self.env(QUERN_BACKEND="broken")).code, 0)
        self.assertIsNone(self.entry())

    def test_a_run_without_that_call_does_not(self):
        self.crash()
        self.assertEqual(self.quern("devices", env=self.env(QUERN_BACKEND="broken")).code, 0)
        self.assertIsNotNone(self.entry())


if __name__ == "__main__":
    main()
