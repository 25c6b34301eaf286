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


if __name__ == "__main__":
    main()
