#!/usr/bin/env python3
"""Run conformance on an NVIDIA GPU under compute-sanitizer, in shards, and write what came of each.

    cuda_sanitizer.py --conformance PROGRAM --report FILE [--tool memcheck] [--shards 1-16/64] [--seconds 300] [-- MORE...]
    cuda_sanitizer.py --conformance PROGRAM --report FILE --tool racecheck --launches FILE --one-case-per-kernel [--shards 1-4/4]

A kernel under compute-sanitizer takes 10 to 100 times as long: the profile goes in shards over as many runs as are needed. A run appends
to the report a line for each shard when it ends; a shard that is in it already, clean, is skipped. With --seconds no shard begins after that
time, and one that is not through at its end counts as not run. --at-once runs so many shards side by side. Few and long shards are best: the
first case of a process waits 2 to 5 s for the tool and the kernels, and processes take turns on the card (one H200, memcheck, a case of
the quick profile: 3 ms alone, 12 ms of four side by side, 22 ms of twelve).

--launches names what scripts/cuda_launches.py wrote: which kernels each case launches, by the card's driver or by one that computes nothing. By it
--one-case-per-kernel takes the fastest case of each kernel, a shard checking only kernels that its cases were taken for; and --kernels checks only
kernels whose name has one of these parts, in cases that launch one. Other kernels run as fast as without the tool. What no case launches is
an error: a kernel that did not run is not clean.

racecheck has products of our own (QUERN_FORCE_KERNEL=cuda:own, where nothing else is forced): those of cuBLASLt lose the device under it, checked or not.
Of a warp that arrives once at a barrier, behind a __syncwarp, it believes lane 0 alone: stages of shared memory that are filled again are hazards to it, unless
the plugin is built with -DQUERN_CUDA_RACECHECK=ON. The fastest case of a kernel seldom fills one again: take longer ones too, by --kernels and --filter.

MORE goes to `quern-conformance run`: --jobs 8, for example. Exit: 0 all shards asked for are clean, 1 one has errors, 2 usage,
3 no compute-sanitizer, 4 some were not run for want of time.
"""
import argparse
import concurrent.futures
import fnmatch
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

SUMMARY = {
    "memcheck": re.compile(r"ERROR SUMMARY: (\d+) error"),
    "initcheck": re.compile(r"ERROR SUMMARY: (\d+) error"),
    "synccheck": re.compile(r"ERROR SUMMARY: (\d+) error"),
    "racecheck": re.compile(r"RACECHECK SUMMARY: (\d+) hazard"),
}
CASES_FAILED = 7  # quern-conformance's code
# memcheck installs a handler while the program runs. Without the tool the same cases pass, so it is not the plugin's.
OF_THE_TOOL = re.compile(r"the plugin changed the process \[C9\]: the handler of signal 15 was '\d+' and is '\d+'$")


def shards_of(text):
    """"3/8" is one shard, "1-8/8" are eight."""
    match = re.fullmatch(r"(\d+)(?:-(\d+))?/(\d+)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}' is no list of shards: 3/8 or 1-8/8")
    first, count = int(match[1]), int(match[3])
    last = int(match[2] or first)
    if not 1 <= first <= last <= count:
        raise argparse.ArgumentTypeError(f"'{text}': shards are 1 to {count}")
    return [(i, count) for i in range(first, last + 1)]


def kernels_of_cases(launches, filters, parts, one_case):
    """Kernels to check by case, of the cases that `filters` leave and the kernels that have one of `parts`."""
    best, cases = {}, {}
    for line in launches.read_text().splitlines():
        record = json.loads(line)
        if filters and not any(fnmatch.fnmatchcase(record["case"], glob) for glob in filters):
            continue
        for kernel in record["kernels"]:
            if parts and not any(part in kernel for part in parts):
                continue
            cases.setdefault(record["case"], []).append(kernel)
            if kernel not in best or record["ms"] < best[kernel][0]:
                best[kernel] = (record["ms"], record["case"])
    if not one_case:
        return cases
    chosen = {}
    for kernel, (_, case) in sorted(best.items()):
        chosen.setdefault(case, []).append(kernel)
    return chosen


def clean_before(report, key):
    return report.exists() and any(line.startswith(key + " ") and line.endswith(" clean") for line in report.read_text().splitlines())


def run(tool, command, limit):
    """Return code and output, or None where the time ended."""
    environment = {**os.environ, "QUERN_PROBE_IN_PROCESS": "1"}  # under the tool a probe takes longer than its helper process may
    if tool == "racecheck":
        environment.setdefault("QUERN_FORCE_KERNEL", "cuda:own")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True, env=environment) as process:
        try:
            return process.communicate(timeout=limit)[0], process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the tool and all that it started
            process.communicate()
            return None


def failures(journal):
    """What the cases that did not pass ended with; a case that ended in no result at all, with its name."""
    texts, begun = [], set()
    for line in journal.read_text().splitlines() if journal.exists() else []:
        record = json.loads(line)
        begun.add(record.get("begin"))
        if "end" in record:
            begun.discard(record["end"])
            if record.get("status", "pass") not in ("pass", "waived"):
                texts.append(f"{record['end']}: {record.get('text', '')}")
    return texts + [f"{name}: no result" for name in begun if name]


def verdict(tool, logs, output, code, failed):
    """("clean" or what is wrong, what the tool wrote of it). `failed`: of the cases, see failures()."""
    text = "".join(log.read_text(errors="replace") for log in logs)
    counts = [int(n) for n in SUMMARY[tool].findall(text)]
    if "Internal Sanitizer Error" in text:  # which its summary counts among the program's
        return "the tool itself failed", text
    if sum(counts) > 0:
        return f"{sum(counts)} errors", text
    if not counts:
        return f"no summary of {tool}, exit {code}", output[-2000:]
    if code == CASES_FAILED and failed and all(OF_THE_TOOL.search(text) for text in failed):
        return f"but for {len(failed)} cases in which the tool changed the handler of SIGTERM clean", ""
    return ("clean", "") if code == 0 else (f"conformance ended with {code}", "\n".join([output[-2000:], *failed]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conformance", required=True, metavar="PROGRAM")
    parser.add_argument("--report", required=True, type=pathlib.Path, metavar="FILE")
    parser.add_argument("--tool", choices=SUMMARY, default="memcheck")
    parser.add_argument("--profile", default="quick")
    parser.add_argument("--shards", type=shards_of, default=[(1, 1)], metavar="I-J/N")
    parser.add_argument("--seconds", type=float, default=0, help="0: as long as it takes")
    parser.add_argument("--at-once", type=int, default=1, metavar="N")
    parser.add_argument("--launches", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--one-case-per-kernel", action="store_true")
    parser.add_argument("--kernels", default="", metavar="PART,PART")
    parser.add_argument("--journals", type=pathlib.Path, metavar="FOLDER", help="keeps the journal of each shard, of those that were cut too")
    parser.add_argument("--sanitizer", default=shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer", metavar="PROGRAM")
    parser.add_argument("more", nargs="*")
    arguments = parser.parse_args()
    if shutil.which(arguments.sanitizer) is None:
        print(f"cuda_sanitizer.py: no compute-sanitizer at {arguments.sanitizer}; it comes with the CUDA toolkit, or name it with --sanitizer", file=sys.stderr)
        return 3
    filters = [value for flag, value in zip(arguments.more, arguments.more[1:]) if flag in ("--filter", "--group", "--op")]
    what = " ".join([arguments.tool, arguments.profile, *filters])
    parts, cases = [part for part in arguments.kernels.split(",") if part], None
    if parts or arguments.one_case_per_kernel:
        if arguments.launches is None:
            parser.error("--kernels and --one-case-per-kernel choose by --launches, a file that scripts/cuda_launches.py writes")
        if len(filters) != arguments.more.count("--filter"):
            parser.error("--kernels and --one-case-per-kernel go with --filter, not with --group and --op")
        cases = kernels_of_cases(arguments.launches, filters, parts, arguments.one_case_per_kernel)
        missing = [part for part in parts if not any(part in kernel for kernels in cases.values() for kernel in kernels)]
        if missing or not cases:
            parser.error(f"no case in {arguments.launches} launches {', '.join(missing) or 'a kernel'}" + (f" of {' '.join(filters)}" if filters else ""))
        what += f", kernels {arguments.kernels}" if parts else ""
        what += f", {len(cases)} cases of {len({kernel for kernels in cases.values() for kernel in kernels})} kernels"
    end = time.monotonic() + arguments.seconds if arguments.seconds else None
    # Each run of the tool listens on ports of its own: by itself all share ten from 49152 on, and the eleventh waits.
    ports = itertools.count(10000 + os.getpid() % 30 * 700, 10)

    def shard(index, count):
        """0 clean, 1 with errors, 4 not run to its end."""
        key = f"{what}, shard {index}/{count}:"
        names, more = [], ["--shard", f"{index}/{count}", *arguments.more]
        if cases is not None:  # cases of one kernel are neighbours: taken in turn, shards take as long as each other
            mine = sorted(cases)[index - 1::count]
            if not mine:
                return 0
            names = [word for kernel in sorted({kernel for case in mine for kernel in cases[case]}) for word in ("--kernel-name", f"kns={kernel}")]
            more = [word for case in mine for word in ("--filter", case)]
            more += [word for flag, word in zip(["", *arguments.more], arguments.more) if word != "--filter" and flag != "--filter"]
        if clean_before(arguments.report, key):
            return 0
        left = None if end is None else end - time.monotonic()
        if left is not None and left <= 0:
            return 4
        with tempfile.TemporaryDirectory(prefix="quern-sanitizer-") as folder:
            began = time.monotonic()
            done = run(arguments.tool, [arguments.sanitizer, "--tool", arguments.tool, "--target-processes", "all", "--log-file", f"{folder}/log.%p", "--port", str(next(ports)), *names,
                        arguments.conformance, "run", "--backend", "cuda", "--option", "memory=plain", "--profile", arguments.profile,
                        "--journal", f"{folder}/journal.jsonl", "--deadline", "600", *more], left)
            journal = pathlib.Path(folder, "journal.jsonl")
            if arguments.journals and journal.exists():
                arguments.journals.mkdir(parents=True, exist_ok=True)
                shutil.copy(journal, arguments.journals / f"{arguments.tool}-{index}-of-{count}.jsonl")
            if done is None:
                return 4
            found, words = verdict(arguments.tool, sorted(pathlib.Path(folder).glob("log.*")), *done, failures(journal))
            ended = sum('"end":' in line for line in journal.read_text().splitlines()) if journal.exists() else 0
            seconds = time.monotonic() - began
            if ended == 0 and found.endswith("clean"):
                found = "no case ran"
        line = f"{key} {ended} cases in {seconds:.0f} s, {found}"
        with writing:
            print(line + (f"\n{words}" if words else ""), flush=True)
            with arguments.report.open("a") as report:
                report.write(line + "\n")
        return 0 if found.endswith("clean") else 1

    writing = threading.Lock()
    with concurrent.futures.ThreadPoolExecutor(max(1, arguments.at_once)) as pool:
        ends = list(pool.map(lambda of: shard(*of), arguments.shards))
    return 1 if 1 in ends else max(ends)


if __name__ == "__main__":
    sys.exit(main())
