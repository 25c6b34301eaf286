"""libquern.so.1 as a program meets it: its symbols, what it needs at run time, and the C example under bad luck."""

import os
import pathlib
import re
import resource
import subprocess
import unittest

from harness import MICRO, PROGRAM, SANITIZER, SOURCE, Case, main

LIBRARY = os.environ["QUERN_LIBRARY"]
EXAMPLE = os.environ["QUERN_EXAMPLE"]

# What the library and the program may need at run time; anything else is a package that a user would have to install.
ALLOWED = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "libpcre2-8.so.0", "ld-linux-x86-64.so.2",
           "libdl.so.2", "libpthread.so.0", "libquern.so.1"}


def needed(path):
    out = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"NEEDED.*\[(.+)\]", out))


class Library(Case):
    def test_exports_exactly_the_listed_symbols(self):
        out = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True).stdout
        exported = {line.split()[2].split("@")[0] for line in out.splitlines() if line.split()[1] != "A"}
        listed = set((SOURCE / "runtime/quern.symbols").read_text().split())
        self.assertEqual(exported, listed)

    def test_has_its_soname(self):
        out = subprocess.run(["readelf", "-d", LIBRARY], capture_output=True, text=True, check=True).stdout
        self.assertIn("[libquern.so.1]", out)

    @unittest.skipIf(SANITIZER, "a sanitizer adds its own library")
    def test_library_and_program_need_only_what_every_system_has(self):
        self.assertEqual(needed(LIBRARY) - ALLOWED, set())
        self.assertEqual(needed(PROGRAM) - ALLOWED, set())


class Example(Case):
    def run_example(self, model, limit=None):
        def limited():
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

        return subprocess.run([EXAMPLE, str(model), "hello"], capture_output=True, env=self.environment(), timeout=100,
                              preexec_fn=limited)

    def test_streams_an_answer(self):
        done = self.run_example(MICRO)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout)

    def test_survives_a_missing_file(self):
        done = self.run_example("no/such.gguf")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"QUERN_NOT_FOUND: ", done.stderr)
        self.assertIn(b"no/such.gguf", done.stderr)

    def test_survives_a_truncated_file(self):
        path = self.write("cut.gguf", pathlib.Path(MICRO).read_bytes()[:200000])
        done = self.run_example(path)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"QUERN_BAD_MODEL: ", done.stderr)
        self.assertIn(path.encode(), done.stderr)

    @unittest.skipIf(SANITIZER, "a sanitizer reserves more address space than any limit")
    def test_survives_a_full_heap_at_any_point(self):
        statuses = set()
        for mebibytes in range(8, 400, 8):
            done = self.run_example(MICRO, limit=mebibytes << 20)
            # Below what the loader of shared libraries needs, the program does not begin (127).
            self.assertIn(done.returncode, (0, 1, 127), f"{mebibytes} MiB: {done.returncode} {done.stderr!r}")
            if done.returncode == 1:
                statuses.add(done.stderr.split(b":")[0])
        self.assertTrue(statuses & {b"QUERN_HOST_OUT_OF_MEMORY", b"QUERN_OUT_OF_MEMORY", b"QUERN_DOES_NOT_FIT",
                                    b"QUERN_BACKEND_UNAVAILABLE"}, statuses)


if __name__ == "__main__":
    main()
