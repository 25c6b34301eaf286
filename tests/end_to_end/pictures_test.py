"""What quern draws: plots of a bench, pages of a trace, a tree of devices. Each file is checked for being well formed and asking for nothing."""

import csv
import fcntl
import io
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
import unittest

from harness import MICRO, PROGRAM, SANITIZER, SOURCE, Case, main

sys.path.insert(0, str(SOURCE / "tests/support"))
import check_page  # noqa: E402
import tiny_model  # noqa: E402


@unittest.skipIf(SANITIZER, "a sanitizer's speed says nothing")
class Plot(Case):
    def test_lists_are_measured_and_plotted(self):
        plot = self.folder / "speed.svg"
        result = self.quern("bench", MICRO, "-p", "8,16", "-n", "4", "-d", "0,32", "-t", "1,2", "-r", "1", "-q", "--format", "csv", "--plot", plot)
        rows = list(csv.DictReader(io.StringIO(result.out.decode())))
        self.assertEqual([(r["threads"], r["depth"], r["prompt_tokens"]) for r in rows],
                         [(t, d, p) for t in "12" for d in ("0", "32") for p in ("8", "16")], result.err)
        check_page.check(plot)

    def test_a_plot_that_cannot_be_written_is_refused_before_the_bench(self):
        os.mkdir(self.folder / "folder")
        self.assert_fails(4, "the plot cannot be written", "bench", MICRO, "--plot", self.folder / "folder")


class TracePage(Case):
    def test_a_traced_run_has_words_json_and_a_page_beside_it(self):
        trace, page = self.folder / "t.json", self.folder / "t.html"
        self.assertEqual(self.quern("run", MICRO, "hi", "--max-tokens", "4", "--temperature", "0", "-q", "--trace", trace).code, 0)
        self.assertEqual(self.quern_json("trace", trace)["decode"]["rows"], 3)
        self.assertFalse(page.exists())  # JSON was all that was asked for
        words = self.quern("trace", trace)
        self.assertEqual(words.code, 0, words.err)
        for expected in ("4 steps in", "decode steps", "computing on cpu:0", f"Timeline: {page}"):
            self.assertIn(expected, words.out.decode())
        check_page.check(page)
        self.assertEqual(self.quern("trace", trace).code, 0)  # over its own page

    def test_a_file_that_is_no_page_of_a_trace_is_left_alone(self):
        trace, page = SOURCE / "tests/data/trace/two_steps.json", self.write("two_steps.html", "mine")
        other = self.write("two_steps.json", trace.read_bytes())
        self.assert_fails(4, [page, "--html"], "trace", other)
        self.assertEqual((self.folder / "two_steps.html").read_text(), "mine")

    def test_what_is_no_trace_is_refused(self):
        self.assert_fails(4, "is no JSON", "trace", MICRO)
        self.assert_fails(4, "no.json", "trace", "no.json")
        self.assert_fails(4, "a folder", "trace", self.folder)


class Doctor(Case):
    def test_the_first_line_is_the_verdict_and_no_reason_is_said_twice(self):
        good = self.quern("doctor")
        self.assertRegex(good.out.decode(), r"^\[ok\] Quern works here, on \w+:0\.")
        bad = self.quern("doctor", "--backend", "nonesuch")
        self.assertEqual(bad.code, 3)
        self.assertRegex(bad.out.decode(), r"^\[no\] Quern runs no model here: .*nonesuch.* cannot be met")
        self.assertNotIn("nonesuch", bad.err)  # the report has said it

    def test_a_terminal_gets_lines_of_its_width_and_colours_and_a_pipe_neither(self):
        for no_color in ("", "1"):
            shown = on_terminal(["doctor"], {**self.environment(), "TERM": "xterm", "NO_COLOR": no_color}, columns=60)
            self.assertEqual("\x1b[32m[ok]\x1b[0m" in shown, not no_color, shown)
            plain = re.sub(r"\x1b\[[0-9]*m", "", shown)
            long = [line for line in plain.splitlines() if len(line) > 60 and " " in line.strip()]
            self.assertEqual(long, [])
        self.assertNotIn(b"\x1b", self.quern("doctor").out)

    def test_try_compares_a_product_and_a_model_with_what_they_must_give(self):
        tried = self.quern_json("doctor", "--try", "--backend", "cpu")["tried"]
        self.assertEqual([one["device"] for one in tried], ["cpu:0"])
        self.assertTrue(tried[0]["right"], tried)
        self.assertLess(tried[0]["model"]["nats_apart"], 1e-4)
        words = self.quern("doctor", "--try", "--backend", "cpu", env={"TMPDIR": str(self.folder)})
        self.assertTrue(words.out.startswith(b"[ok] The device computes what it must.\n[ok] cpu:0: a product of"), words.out)
        self.assertEqual(list(self.folder.glob("quern-try-*")), [])
        self.assert_fails(4, "set TMPDIR", "doctor", "--try", env={"TMPDIR": str(self.folder / "none")})

    def test_what_the_model_must_compute_is_what_f64_gives(self):
        source = (SOURCE / "cli/src/tiny_model.cpp").read_text()
        listed = re.search(r"tiny_model_nll = \{([^}]*)\}", source).group(1)
        for found, expected in zip(map(float, listed.split(",")), tiny_model.expected(), strict=True):
            self.assertLess(abs(found - expected), 1e-8)

    def test_the_tree_has_the_processor_with_its_device(self):
        for locale, branch in (("C.UTF-8", "├─"), ("C", "|-")):
            tree = self.quern("devices", "--tree", "--backend", "cpu", env={"LC_ALL": locale}).out.decode()
            self.assertRegex(tree, rf"^this machine\n({branch}|└─|`-) .+\n.*[└`]─?-? cpu:0: used, ")


class Browser(Case):
    """In Chromium, where it is installed: the policy of a page lets its own script run, and nothing is wider than a telephone."""

    WIDE = """<script>addEventListener('load', () => { const page = document.querySelector('iframe').contentDocument.documentElement;
document.title = page.scrollWidth > page.clientWidth ? 'too wide' : 'fits' })</script><iframe src="page.html" width="400" height="800" style="border:0"></iframe>"""

    def dom(self, path):
        program = shutil.which("chromium")
        if not program:
            self.skipTest("chromium is not installed")
        done = subprocess.run([program, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--virtual-time-budget=3000",
                               f"--user-data-dir={self.folder}/browser", "--dump-dom", f"file://{path}"], capture_output=True, timeout=100)
        return done.stdout.decode()

    def test_the_filters_of_a_conformance_page_work_and_400_pixels_are_enough(self):
        suite = os.environ.get("QUERN_TEST_SUITE", "")
        page = self.folder / "page.html"
        subprocess.run([suite, "run", "--backend", "cpu", "--op", "copy", "--jobs", "1", "--journal", self.folder / "j", "--html", page],
                       env=self.environment(), check=True, capture_output=True)
        self.assertIn('<div id="filters" class="">', self.dom(page))
        self.write("wide.html", self.WIDE)
        self.assertIn("<title>fits</title>", self.dom(self.folder / "wide.html"))

    def test_the_page_of_a_trace_fits_400_pixels(self):
        self.assertEqual(self.quern("trace", SOURCE / "tests/data/trace/two_steps.json", "--html", self.folder / "page.html").code, 0)
        self.write("wide.html", self.WIDE)
        self.assertIn("<title>fits</title>", self.dom(self.folder / "wide.html"))


def on_terminal(words, environment, columns):
    """What the program writes to a terminal of so many columns."""
    mine, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen([PROGRAM, *words], env=environment, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            more = os.read(mine, 65536)
        except OSError:  # the other end is closed
            break
        if not more:
            break
        shown += more
    process.wait(timeout=60)
    os.close(mine)
    return shown.decode().replace("\r\n", "\n")


if __name__ == "__main__":
    main()
