"""Standard input, output and error that are closed, full, or a pipe that nobody reads: the exit code, and no byte in a file that it does not belong to."""

import itertools
import json
import os
import pathlib
import signal
import subprocess

from harness import MICRO, PROGRAM, Case, main

SUITE = os.environ["QUERN_TEST_SUITE"]
COMMANDS = (("--help",), ("--version",), ("devices",), ("doctor",), ("show", MICRO), ("tokenize", MICRO, "hi"),
            ("run", MICRO, "hello", "--max-tokens", "2", "--temperature", "0"))
READ_END, WRITE_END = 0, 1


class Streams(Case):
    def closed(self, descriptors, *command):
        """Runs it with these descriptors closed and the others as pipes."""
        def close():
            for descriptor in descriptors:
                os.close(descriptor)
        return subprocess.run(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=close,
                              env=self.environment(), cwd=self.folder, timeout=100)

    def test_a_closed_output_is_an_error_and_other_closed_descriptors_are_none(self):
        for command in COMMANDS:
            open_one = self.closed((), PROGRAM, *command)
            for count in (1, 2, 3):
                for descriptors in itertools.combinations((0, 1, 2), count):
                    with self.subTest(command=command, descriptors=descriptors):
                        done = self.closed(descriptors, PROGRAM, *command)
                        if 1 in descriptors:
                            self.assertEqual(done.returncode, 4)
                            if 2 not in descriptors:
                                self.assertIn(b"standard output: cannot be written", done.stderr)
                        else:
                            self.assertEqual(done.returncode, 0, done.stderr)
                            self.assertEqual(len(done.stdout) > 0, len(open_one.stdout) > 0)

    def test_no_file_gets_the_number_of_a_closed_descriptor(self):
        """A trace and a journal are open while messages are written."""
        for descriptors in ((1,), (2,), (1, 2), (0, 1, 2)):
            with self.subTest(descriptors=descriptors):
                self.closed(descriptors, PROGRAM, "run", MICRO, "hello", "--max-tokens", "2", "--trace", "trace.json")
                if (self.folder / "trace.json").exists():
                    json.loads((self.folder / "trace.json").read_bytes())
                self.closed(descriptors, SUITE, "run", "--filter", "copy.copy.f32*", "--jobs", "1", "--journal", "journal.jsonl")
                lines = (self.folder / "journal.jsonl").read_bytes().splitlines()
                self.assertGreater(len(lines), 1)
                for line in lines:
                    json.loads(line)

    def test_a_pipe_that_nobody_reads_ends_the_command(self):
        for ignored, code in ((False, -signal.SIGPIPE), (True, 4)):
            for command in COMMANDS:
                with self.subTest(command=command, ignored=ignored):
                    ends = os.pipe()
                    os.close(ends[READ_END])
                    done = subprocess.run([PROGRAM, *command], stdin=subprocess.DEVNULL, stdout=ends[WRITE_END], stderr=subprocess.PIPE,
                                          restore_signals=not ignored, env=self.environment(), timeout=100)
                    os.close(ends[WRITE_END])
                    self.assertEqual(done.returncode, code, done.stderr)

    def test_a_full_device_is_told(self):
        for program, command, code in [(PROGRAM, command, 4) for command in COMMANDS] + [(SUITE, ("list",), 2), (SUITE, ("--help",), 2)]:
            with self.subTest(program=pathlib.Path(program).name, command=command), open("/dev/full", "wb") as full:
                done = subprocess.run([program, *command], stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, env=self.environment(), timeout=100)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(b"No space left on device", done.stderr)


if __name__ == "__main__":
    main()
