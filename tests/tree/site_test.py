#!/usr/bin/env python3
"""The site of the documents builds without a warning, asks nothing of other hosts, and has the pages that a reader is sent to.

Skipped where mkdocs is not installed, but not in CI.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WANTED = ("index.html", "ARCHITECTURE.html", "docs/index.html", "docs/guides/first-answer.html", "docs/reference/codes.html", "docs/man/quern-run.html",
          "docs/lab/cuda.html", "backends/cpu/index.html", "runtime/REFERENCE.html", "runtime/examples/generate.c")


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.made.name)
        cls.log = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", cls.made.name] if not shutil.which("mkdocs") else
                                 ["mkdocs", "build", "--strict", "--site-dir", cls.made.name], cwd=ROOT, capture_output=True, text=True, check=False)

    @classmethod
    def tearDownClass(cls):
        cls.made.cleanup()

    def test_builds_without_a_warning(self):
        self.assertEqual(self.log.returncode, 0, self.log.stdout + self.log.stderr)
        self.assertNotIn("WARNING", self.log.stderr)

    def test_has_the_pages_that_readers_are_sent_to(self):
        self.assertEqual([name for name in WANTED if not (self.folder / name).is_file()], [])

    def test_loads_nothing_from_another_host(self):
        loaded = re.compile(r"<(?:script|img|iframe|source)[^>]* src=\"(?:https?:)?//|<link[^>]* href=\"(?:https?:)?//|@import|url\([\"']?(?:https?:)?//")
        pages = [*self.folder.rglob("*.html"), *self.folder.rglob("*.css")]
        self.assertGreater(len(pages), 50)
        self.assertEqual([str(page) for page in pages if loaded.search(page.read_text(encoding="utf-8", errors="replace"))], [])

    def test_a_list_behind_a_sentence_is_a_list(self):
        self.assertIn("<li>one device that is not the host's processor has the whole model;</li>", (self.folder / "ARCHITECTURE.html").read_text())

    def test_the_manual_pages_have_headings_and_no_roff(self):
        page = (self.folder / "docs/man/quern-run.html").read_text()
        self.assertRegex(page, r"<h2[^>]*>(?:NAME|SYNOPSIS)")
        body = re.search(r'role="main"(.*?)</body>', page, re.S)[1]
        self.assertIsNone(re.search(r"\\f[BIR]|\n\.[A-Z]{2}\b|\\-", body))


if __name__ == "__main__":
    if subprocess.run([sys.executable, "-m", "mkdocs", "--version"], capture_output=True, check=False).returncode and not shutil.which("mkdocs"):
        if os.environ.get("CI") == "true":
            sys.exit("mkdocs is not installed; scripts/test installs it")
        print("skipped: mkdocs is not installed (Debian: mkdocs)")
        sys.exit(77)
    unittest.main()
