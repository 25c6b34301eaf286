"""quern monitor with a fake management library, without one, with one that does not start; and the tokens of processes.

    monitor_test.py QUERN FAKE_NVML_FOLDER
"""

import ctypes
import json
import os
import pty
import struct
import subprocess
import sys
import tempfile
import unittest

QUERN, FAKE = sys.argv[1:3]


def monitor(folder, *words, fake=True, **environment):
    env = dict(os.environ, XDG_RUNTIME_DIR=folder, **environment)
    env.pop("LD_LIBRARY_PATH", None)
    if fake:
        env["LD_LIBRARY_PATH"] = FAKE
    return subprocess.run([QUERN, "monitor", "--interval", "0.2", *words], env=env, capture_output=True, text=True, timeout=60)


def has_nvml():
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


class Monitor(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.TemporaryDirectory()
        self.folder = self.work.name

    def tearDown(self):
        self.work.cleanup()

    def activity(self, pid, tokens, model=b"some.gguf", magic=b"qernact1"):
        os.makedirs(f"{self.folder}/quern", mode=0o700, exist_ok=True)
        with open(f"{self.folder}/quern/{pid}.activity", "wb") as file:
            file.write(struct.pack("<8sQ496s", magic, tokens, model))

    def test_what_cards_tell_and_what_not(self):
        result = monitor(self.folder, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        one, two = json.loads(result.stdout)["gpus"]
        self.assertEqual(one, {"index": 0, "name": "NVIDIA Test 100", "uuid": "GPU-00000000-1111", "utilisation_percent": 87,
                               "memory_utilisation_percent": 41, "memory_total_bytes": 85899345920, "memory_used_bytes": 21474836480,
                               "temperature_celsius": 54, "power_watts": 612.5, "power_limit_watts": None})
        self.assertIsNone(two["utilisation_percent"])
        self.assertIsNone(two["power_watts"])
        self.assertEqual(two["temperature_celsius"], 54)

    def test_each_reading_is_a_line_of_each_card(self):
        result = monitor(self.folder, "--count", "2")
        lines = result.stdout.splitlines()
        self.assertEqual(len(lines), 4, result.stdout)
        self.assertEqual(lines[0], "gpu 0  NVIDIA Test 100  busy 87 %, memory 20.0 GiB of 80.0 GiB, 54 C, 612 W of ?")

    @unittest.skipIf(has_nvml(), "this machine has the library that reads cards")
    def test_why_there_are_no_cards_is_written_once(self):
        result = monitor(self.folder, "--count", "4", fake=False, LD_LIBRARY_PATH="/nowhere")
        self.assertEqual(result.stdout.count("no GPU figures"), 1, result.stdout)

    def test_a_process_has_a_line_when_it_made_tokens(self):
        self.activity(os.getpid(), 5)
        result = monitor(self.folder, "--count", "3", fake=False)
        self.assertEqual(result.stdout.count(f"process {os.getpid()}"), 1, result.stdout)

    def test_on_a_terminal_a_reading_takes_the_place_of_the_one_before(self):
        mine, theirs = pty.openpty()
        env = dict(os.environ, XDG_RUNTIME_DIR=self.folder, LD_LIBRARY_PATH=FAKE, TERM="xterm")
        done = subprocess.run([QUERN, "monitor", "--interval", "0.1", "--count", "3"], env=env, stdout=theirs, stderr=theirs, timeout=60)
        os.close(theirs)
        shown = os.read(mine, 65536)
        os.close(mine)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(shown.count(b"\x1b[7A\r\x1b[J"), 2, shown)  # two cards of three rows, and no process, before the second and third reading
        self.assertIn("  busy    [#################...]  87 %", shown.decode())

    def test_a_library_that_does_not_start_is_the_reason(self):
        result = monitor(self.folder, "--json", FAKE_NVML="broken")
        found = json.loads(result.stdout)
        self.assertEqual(found["gpus"], [])
        self.assertIn("Driver Not Loaded", found["gpus_reason"])
        self.assertIn("nvidia-smi", found["gpus_reason"])

    def test_no_library_is_the_reason(self):
        result = monitor(self.folder, "--json", fake=False)
        found = json.loads(result.stdout)
        if found["gpus"]:
            self.skipTest("a driver is installed here")
        self.assertEqual(result.returncode, 0)
        self.assertIn("libnvidia-ml.so.1", found["gpus_reason"])

    def test_tokens_of_living_processes_alone(self):
        dead = subprocess.Popen(["true"])
        dead.wait()
        self.activity(os.getpid(), 1234)
        self.activity(dead.pid, 5)
        self.activity("77777777777", 5)
        found = json.loads(monitor(self.folder, "--json").stdout)["processes"]
        self.assertEqual(found, [{"pid": os.getpid(), "model": "some.gguf", "tokens": 1234, "tokens_per_second": 0.0}])
        self.assertFalse(os.path.exists(f"{self.folder}/quern/{dead.pid}.activity"))

    def test_a_file_that_is_none_of_ours_is_left_out(self):
        self.activity(os.getpid(), 1, magic=b"whatever")
        self.assertEqual(json.loads(monitor(self.folder, "--json").stdout)["processes"], [])

    def test_a_folder_that_others_may_write_is_not_read(self):
        self.activity(os.getpid(), 1)
        os.chmod(f"{self.folder}/quern", 0o777)
        self.assertEqual(json.loads(monitor(self.folder, "--json").stdout)["processes"], [])

    @unittest.skipUnless(os.environ.get("QUERN_TEST_MODEL"), "QUERN_TEST_MODEL is not set")
    def test_a_run_counts_its_tokens(self):
        model = os.environ["QUERN_TEST_MODEL"]
        env = dict(os.environ, XDG_RUNTIME_DIR=self.folder, QUERN_BACKEND="cpu")
        seen = []
        for _ in range(10):  # a busy machine may read only before an answer begins and after it has ended
            run = subprocess.Popen([QUERN, "run", model, "Count to one thousand.", "--max-tokens", "400", "-q"], env=env,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            ended = None
            while ended is None and not seen:
                for process in json.loads(monitor(self.folder, "--json").stdout)["processes"]:
                    self.assertEqual((process["pid"], process["model"]), (run.pid, model))
                    if process["tokens_per_second"]:
                        seen.append(process["tokens_per_second"])
                ended = run.poll()
            run.terminate()
            run.communicate(timeout=60)
            if seen:
                break
        self.assertTrue(seen, "no reading saw the process make tokens")

    def test_an_interval_of_nothing_is_a_usage_error(self):
        result = monitor(self.folder, "--interval", "0")
        self.assertEqual(result.returncode, 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
