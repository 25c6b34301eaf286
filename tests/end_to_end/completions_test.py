"""The completion scripts as a shell runs them: each loads, and offers every verb, every flag of every verb and the words a flag takes.

zsh offers completions in a terminal alone, so that there the script is loaded and its table is read."""

import os
import pathlib
import re
import shutil
import subprocess

from harness import PROGRAM, VERBS, Case, main

ALSO = {"chat", "ls", "remove", "download", "perplexity", "help", "version"}  # other names of verbs, and verbs that only print
SCRIPTS = pathlib.Path(os.environ["QUERN_TEST_COMPLETIONS"])
SUITE = pathlib.Path(os.environ.get("QUERN_TEST_SUITE", ""))  # quern-conformance, where it is built
SUITE_SCRIPTS = pathlib.Path(os.environ.get("QUERN_TEST_SUITE_COMPLETIONS", ""))


class ShellCase(Case):
    shell = ""

    def setUp(self):
        super().setUp()
        if shutil.which(self.shell) is None:
            self.skipTest(f"{self.shell} is not installed")
        (self.folder / "bin").mkdir()
        (self.folder / "bin/quern").symlink_to(PROGRAM)

    def suite(self):
        """Verbs and flags of quern-conformance as its help has them; skips the test where the program is not built."""
        if not SUITE.is_file():
            self.skipTest("quern-conformance is not built")
        (self.folder / "bin/quern-conformance").symlink_to(SUITE)
        page = subprocess.run([SUITE, "--help"], capture_output=True, text=True, check=True).stdout
        verbs = set(re.findall(r"(?m)^  ([a-z]+) ", page))
        flags = set(re.findall(r"(?m)^  (--[a-z-]+) ", page))
        self.assertGreater(len(flags), 25)
        self.assertIn("verify", verbs)
        return verbs, flags

    def run_shell(self, *arguments, script=None):
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        done = subprocess.run([self.shell, *arguments], input=script, capture_output=True, text=True, cwd=self.folder,
                              env=self.environment({"PATH": path}), timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout

    def flags(self, *verb):
        """As the program's help has them."""
        page = self.quern(*verb, "--help-all").out.decode()
        found = {word for line in page.splitlines() if line.startswith("  -")
                 for word in re.findall(r"--?[a-z][a-z0-9-]*", line[:line.find("  ", 2) if "  " in line[2:] else None])}
        self.assertIn("--help", found)
        return found


class Bash(ShellCase):
    shell = "bash"

    def complete(self, *lines, scripts=SCRIPTS, program="quern"):
        """What readline would offer at the end of each line."""
        script = f"set -u\nsource {scripts}/{program}.bash\ncomplete -p {program} >/dev/null\n"
        for line in lines:
            script += f"COMP_LINE='{line}' COMP_POINT={len(line)}\n_{program.replace('-', '_')}\nprintf '%s\\n' \"${{COMPREPLY[@]-}}\" END\n"
        answers = self.run_shell("--norc", "--noprofile", "-s", script=script).split("END\n")
        self.assertEqual(len(answers), len(lines) + 1)
        return [set(answer.split("\n")) - {""} for answer in answers[:-1]]

    def test_offers_every_verb_and_every_flag(self):
        verbs, outer, *of_verbs = self.complete("quern ", "quern -", *(f"quern {verb} -" for verb in VERBS))
        self.assertEqual(verbs, set(VERBS) | ALSO)
        self.assertEqual(outer, self.flags())
        for verb, offered in zip(VERBS, of_verbs):
            self.assertEqual(offered, self.flags(verb), verb)

    def test_offers_the_words_that_a_flag_takes(self):
        kv, log, start, joined, free, after = self.complete(
            "quern run m --kv ", "quern -v doctor --log ", "quern bench --fall", "quern run --kv=f1", "quern run --top-k ",
            "quern run --raw --ra")
        self.assertEqual(kv, {"f16", "f32"})
        self.assertEqual(log, {"trace", "debug", "info", "warn", "error", "off"})
        self.assertEqual(start, {"--fallback"})
        self.assertEqual(joined, {"f16"})
        self.assertEqual(free, set())
        self.assertEqual(after, {"--raw"})

    def test_offers_files_folders_and_models_that_were_pulled(self):
        self.write("model.gguf", "")
        (self.folder / "models").mkdir()
        snapshot = "cache/huggingface/hub/models--owner--name/snapshots/" + "a" * 40
        self.write(snapshot + "/name-Q4_K_M.gguf", b"GGUF")
        self.write("cache/huggingface/hub/models--owner--name/refs/main", "a" * 40)
        files, folders, names, quantised = self.complete("quern run mod", "quern run --cache-dir mod", "quern run own",
                                                         "quern run owner/name:Q")
        self.assertEqual(files, {"model.gguf", "models"})
        self.assertEqual(folders, {"models"})
        self.assertEqual(names, {"owner/name:Q4_K_M"})
        self.assertEqual(quantised, {"Q4_K_M"})  # readline keeps what is in front of the colon

    def test_offers_what_the_conformance_suite_takes(self):
        verbs, flags = self.suite()
        self.write("run.jsonl", "")
        (self.folder / "mutants").mkdir()
        lines = ("", "-", "run --profile ", "verify run.", "run --mutants m", "run --filter ")
        first, dashed, profiles, journals, folders, free = self.complete(*(f"quern-conformance {line}" for line in lines),
                                                                         scripts=SUITE_SCRIPTS, program="quern-conformance")
        self.assertEqual(first, verbs)
        self.assertEqual(dashed, flags | {"-h"})
        self.assertEqual(profiles, {"quick", "full", "huge"})
        self.assertEqual(journals, {"run.jsonl"})
        self.assertEqual(folders, {"mutants"})
        self.assertEqual(free, set())


class Zsh(ShellCase):
    shell = "zsh"

    def test_loads_and_names_every_verb_and_every_flag(self):
        text = (SCRIPTS / "_quern").read_text()
        self.run_shell("-f", "-n", str(SCRIPTS / "_quern"))
        loaded = self.run_shell("-f", "-c", f"fpath=({SCRIPTS} $fpath); autoload -Uz compinit; compinit -u -D; "
                                            "autoload +X -Uz _quern; print -r -- $_comps[quern]; functions _quern")
        self.assertTrue(loaded.startswith("_quern\n"), loaded[:200])
        for verb in VERBS:
            self.assertRegex(text, rf"(?m)^        '{verb}:")
            part = re.split(rf"(?m)^        {verb}(?:\|[a-z|]+)?\)\n", text)[1].split(";;")[0]
            names = set(re.findall(r"(?m)^            '(?:\*|\([^)]*\))?(--?[a-z][a-z0-9-]*)[=+]?\[", part))
            self.assertEqual(names, self.flags(verb), verb)


    def test_offers_what_the_conformance_suite_takes(self):
        verbs, flags = self.suite()
        script = SUITE_SCRIPTS / "_quern-conformance"
        self.run_shell("-f", "-n", str(script))
        loaded = self.run_shell("-f", "-c", f"fpath=({SUITE_SCRIPTS} $fpath); autoload -Uz compinit; compinit -u -D; "
                                            "autoload +X -Uz _quern-conformance; print -r -- $_comps[quern-conformance]; functions _quern-conformance")
        self.assertTrue(loaded.startswith("_quern-conformance\n"), loaded[:200])
        text = script.read_text()
        self.assertEqual(set(re.findall(r"(?m)^    (?:'\*?|\{-h,)(--[a-z-]+)", text)), flags)
        self.assertEqual(set(re.findall(r"(?m)^        '([a-z]+):", text)), verbs)


class Fish(ShellCase):
    shell = "fish"

    def complete(self, line, script=SCRIPTS / "quern.fish"):
        out = self.run_shell("--no-config", "-c", f"source {script}; complete -C '{line}'")
        return {row.split("\t")[0] for row in out.splitlines()}

    def test_offers_every_verb_and_every_flag(self):
        self.assertEqual(self.complete("quern "), set(VERBS) | ALSO)
        for verb in VERBS:
            long = {flag for flag in self.flags(verb) if flag.startswith("--")}
            self.assertEqual(self.complete(f"quern {verb} --"), long, verb)

    def test_offers_the_words_that_a_flag_takes(self):
        self.assertEqual(self.complete("quern run --kv "), {"f16", "f32"})
        self.assertEqual(self.complete("quern doctor --log "), {"trace", "debug", "info", "warn", "error", "off"})

    def test_offers_what_the_conformance_suite_takes(self):
        verbs, flags = self.suite()
        script = SUITE_SCRIPTS / "quern-conformance.fish"
        self.assertEqual(self.complete("quern-conformance ", script), verbs)
        self.assertEqual(self.complete("quern-conformance run --", script), flags)
        self.assertEqual(self.complete("quern-conformance run --profile ", script), {"quick", "full", "huge"})


if __name__ == "__main__":
    main()
