"""What quern draws: plots of a bench, pages of a trace, a tree of devices. Each file is checked for being well formed and asking for nothing."""

import csv
import io
import os
import sys
import unittest

from harness import MICRO, SANITIZER, SOURCE, Case, main

sys.path.insert(0, str(SOURCE / "tests/support"))
import check_page  # noqa: E402


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


if __name__ == "__main__":
    main()
