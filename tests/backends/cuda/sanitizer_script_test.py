#!/usr/bin/env python3
"""What scripts/cuda_sanitizer.py makes of its tools' answers. Both tools are programs of this test.

usage: sanitizer_script_test.py SCRIPT
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SCRIPT = sys.argv[1]
SANITIZER = """#!/bin/sh
# compute-sanitizer ... --log-file F ... PROGRAM ARGUMENTS: runs the program, then writes ANSWER as its log
echo "$@" >> "$CALLS.tool"
while [ "$1" != --log-file ]; do shift; done
log=$2; shift 2
while [ "$1" = --port ] || [ "$1" = --kernel-name ]; do shift 2; done
"$@"; code=$?
printf '%s\\n' "$ANSWER" > "$(echo "$log" | sed s/%p/1/)"
exit $code
"""
CONFORMANCE = """#!/bin/sh
echo "$@" >> "$CALLS"
echo "$QUERN_FORCE_KERNEL" >> "$CALLS.forced"
while [ "$1" != --journal ]; do shift; done
[ -n "$NO_CASES" ] || echo "$JOURNAL" > "$2"
[ -z "$SLEEP" ] || exec sleep "$SLEEP"
[ -z "$MEET" ] || { : > "$CALLS.here.$$"; while [ "$(ls "$CALLS".here.* | wc -l)" -lt "$MEET" ]; do sleep 0.01; done; }
exit ${CODE:-0}
"""


class Script(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="quern-sanitizer-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name, text in (("sanitizer", SANITIZER), ("conformance", CONFORMANCE)):
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o755)
        self.report = self.folder / "report"

    def script(self, *arguments, answer="========= ERROR SUMMARY: 0 errors", **environment):
        done = subprocess.run([sys.executable, SCRIPT, "--conformance", str(self.folder / "conformance"), "--sanitizer", str(self.folder / "sanitizer"),
                               "--report", str(self.report), *arguments], capture_output=True, text=True, timeout=50, check=False,
                              env={"PATH": "/usr/bin:/bin", "ANSWER": answer, "CALLS": str(self.folder / "calls"), "JOURNAL": '{"end":"a"}', **environment})
        return done.returncode, self.report.read_text() if self.report.exists() else "", done.stdout + done.stderr

    def calls(self):
        return (self.folder / "calls").read_text().splitlines()

    def test_a_handler_of_the_tool_is_not_the_plugins_fault(self):
        handler = "the plugin changed the process [C9]: the handler of signal 15 was '0' and is '140230'"
        ended = [{"begin": "a"}, {"end": "a", "status": "pass"}, {"begin": "b"}, {"end": "b", "status": "fail", "text": handler}]
        for more, expected in (([], 0), ([{"begin": "c"}, {"end": "c", "status": "fail", "text": "wrong"}], 1), ([{"begin": "c"}], 1)):
            self.report.unlink(missing_ok=True)
            code, report, words = self.script(CODE="7", JOURNAL="\n".join(json.dumps(record) for record in ended + more))
            self.assertEqual(code, expected, words)
            if expected == 0:
                self.assertRegex(report, r"2 cases in \d+ s, but for 1 cases in which the tool changed the handler of SIGTERM clean\n")
            else:
                self.assertIn("c: " + more[-1].get("text", "no result"), words)
        self.assertEqual(self.script(CODE="6", JOURNAL="\n".join(json.dumps(record) for record in ended))[0], 1)

    def test_each_shard_is_run_once_and_written_down(self):
        code, report, _ = self.script("--shards", "1-2/3")
        self.assertEqual((code, len(self.calls())), (0, 2))
        self.assertRegex(report, r"memcheck quick, shard 1/3: 1 cases in \d+ s, clean\nmemcheck quick, shard 2/3: 1 cases in \d+ s, clean\n")
        self.assertEqual(self.script("--shards", "1-3/3")[0], 0)
        self.assertEqual(len(self.calls()), 3)  # 1 and 2 are there already

    def test_each_buffer_is_an_allocation_of_its_own(self):
        # A bulk copy from one piece of the pool into the next is no error, and memcheck knows pieces alone.
        self.script("--shards", "1-2/3")
        for call in self.calls():
            self.assertIn("--option memory=plain", call)

    def test_errors_are_errors(self):
        for what, arguments in ({"answer": "ERROR SUMMARY: 2 errors"}, "2 errors"), ({"answer": ""}, "no summary"), ({"CODE": "7"}, "ended with 7"), (
                {"NO_CASES": "1"}, "no case ran"):
            with self.subTest(arguments):
                self.report.unlink(missing_ok=True)
                code, report, _ = self.script(**what)
                self.assertEqual(code, 1)
                self.assertIn(arguments, report)

    def test_racecheck_has_its_own_words(self):
        self.assertEqual(self.script("--tool", "racecheck", answer="RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)")[0], 0)
        self.report.unlink()
        self.assertEqual(self.script("--tool", "racecheck", answer="RACECHECK SUMMARY: 3 hazards displayed (1 error, 2 warnings)")[0], 1)

    def test_racecheck_has_products_of_our_own(self):
        # Those of cuBLASLt lose the device under it.
        for tool, environment in (("memcheck", {}), ("racecheck", {}), ("racecheck", {"QUERN_FORCE_KERNEL": "cuda:jit"})):
            self.script("--tool", tool, **environment)
        self.assertEqual((self.folder / "calls.forced").read_text().splitlines(), ["", "cuda:own", "cuda:jit"])

    def test_a_fault_of_the_tool_is_not_called_a_hazard(self):
        answer = "Internal Sanitizer Error: The Sanitizer failed to handle a hardware exception.\nRACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)"
        code, report, _ = self.script("--tool", "racecheck", answer=answer)
        self.assertEqual(code, 1)
        self.assertIn("the tool itself failed", report)
        self.assertNotIn("2 errors", report)

    def test_a_shard_that_is_cut_is_not_written_down(self):
        code, report, _ = self.script("--seconds", "1", "--shards", "1-2/2", SLEEP="30")
        self.assertEqual((code, report), (4, ""))

    def test_shards_side_by_side(self):
        code, report, _ = self.script("--at-once", "4", "--shards", "1-4/4", MEET="4")  # each waits until four are there
        self.assertEqual(code, 0)
        self.assertEqual(len(report.splitlines()), 4)
        self.assertEqual(len(self.calls()), 4)

    def test_each_run_of_the_tool_has_ports_of_its_own(self):
        # Eleven at once would share the tool's ten, and the last would wait for the first.
        self.script("--at-once", "4", "--shards", "1-4/4")
        ports = [int(re.search(r"--port (\d+)", line)[1]) for line in (self.folder / "calls.tool").read_text().splitlines()]
        self.assertEqual(len(ports), 4)
        self.assertTrue(all(b - a >= 10 for a, b in zip(sorted(ports), sorted(ports)[1:])), ports)

    def launches(self):
        path = self.folder / "launches"
        lines = [("slow", 9, ["mixed_8", "norm"]), ("graphs.a", 1, ["mixed_8"]), ("graphs.b", 2, ["stream", "norm"]), ("graphs.c", 3, ["stream", "norm"])]
        path.write_text("".join(json.dumps({"case": case, "ms": ms, "kernels": kernels}) + "\n" for case, ms, kernels in lines))
        return str(path)

    def test_kernels_by_part_of_their_name(self):
        code, report, _ = self.script("--launches", self.launches(), "--kernels", "mixed,stream", "--", "--jobs", "1", "--filter", "graphs.*")
        self.assertEqual(code, 0)
        self.assertIn("--kernel-name kns=mixed_8 --kernel-name kns=stream ", (self.folder / "calls.tool").read_text())
        self.assertIn("--filter graphs.a --filter graphs.b --filter graphs.c --jobs 1", self.calls()[0])
        self.assertIn("memcheck quick graphs.*, kernels mixed,stream, 3 cases of 2 kernels, shard 1/1:", report)

    def test_a_kernel_that_no_case_launches_is_not_clean(self):
        for words, filters in (("attention_rows", []), ("mixed,attention_rows", []), ("mixed", ["--", "--filter", "graphs.b"])):
            code, report, said = self.script("--launches", self.launches(), "--kernels", words, *filters)
            self.assertEqual((code, report), (2, ""))
            self.assertIn("no case in", said)
        self.assertEqual(self.script("--kernels", "mixed")[0], 2)
        self.assertEqual(self.script("--launches", self.launches(), "--kernels", "mixed", "--", "--group", "graphs")[0], 2)

    def test_journals_are_kept(self):
        self.script("--seconds", "1", "--shards", "1/2", "--journals", str(self.folder / "kept"), SLEEP="30")
        self.assertEqual((self.folder / "kept/memcheck-1-of-2.jsonl").read_text(), '{"end":"a"}\n')

    def test_one_case_a_kernel(self):
        """The fastest of each; a shard checks the kernels that its cases were taken for."""
        self.assertEqual(self.script("--launches", self.launches(), "--one-case-per-kernel", "--shards", "1-3/3")[0], 0)
        self.assertEqual([re.search(r"(--filter.*)", call)[1] for call in self.calls()], ["--filter graphs.a", "--filter graphs.b"])
        self.assertEqual([re.findall(r"kns=(\w+)", call) for call in (self.folder / "calls.tool").read_text().splitlines()], [["mixed_8"], ["norm", "stream"]])
        self.assertIn("2 cases of 3 kernels", self.report.read_text())

    def test_bad_shards_and_no_sanitizer(self):
        self.assertEqual(self.script("--shards", "0/3")[0], 2)
        self.assertEqual(self.script("--shards", "4/3")[0], 2)
        self.assertEqual(self.script("--sanitizer", "/nowhere")[0], 3)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
