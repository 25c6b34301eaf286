#!/usr/bin/env python3
"""Write down which kernels of the CUDA backend each conformance case launches: what scripts/cuda_sanitizer.py chooses its cases by.

    cuda_launches.py --conformance PROGRAM --driver FOLDER [--spied FILE] --output FILE [--at-once N] [-- MORE...]

FOLDER has a libcuda.so.1 of ours that writes down what it is asked (build/release/tests/fake_drivers): `counting` computes nothing and needs no
card, whose multiprocessors --multiprocessors tells; `spying` hands on to the card's own driver, which --spied names, and there cases that fail
launch nothing that counts. Without a card products by cuBLASLt are our own kernels; `QUERN_FORCE_KERNEL=cuda:own` has it so on a card.

FILE gets a line of JSON for each case: {"case": name, "ms": how long it took, "kernels": [names]}. MORE goes to `quern-conformance run`:
--profile, --filter, --plugin. Exit: 0 written, 1 a run gave no case, 2 usage.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

LAUNCHES = ("launch", "captured_launch")


def launches_of(lines, only_passed):
    """A shard's file has the journal and what the driver was asked, in the order of both."""
    kernels = None
    for line in lines:
        if line.startswith("{"):
            record = json.loads(line)
            if "begin" in record:
                kernels = set()
            elif "end" in record and kernels is not None:
                if record["status"] == "pass" or not only_passed:
                    yield {"case": record["end"], "ms": record["ms"], "kernels": sorted(kernels)}
                kernels = None
            continue
        words = line.split()
        if kernels is not None and len(words) == 3 and words[0] in LAUNCHES:
            kernels.add(words[2])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conformance", required=True, metavar="PROGRAM")
    parser.add_argument("--driver", required=True, type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--spied", metavar="FILE")
    parser.add_argument("--output", required=True, type=pathlib.Path, metavar="FILE")
    parser.add_argument("--multiprocessors", type=int, default=132, metavar="N")
    parser.add_argument("--at-once", type=int, default=os.cpu_count(), metavar="N")
    parser.add_argument("more", nargs="*")
    arguments = parser.parse_args()
    if not (arguments.driver / "libcuda.so.1").exists():
        print(f"cuda_launches.py: no libcuda.so.1 in {arguments.driver}; `cmake --build build/release --target fake_drivers` makes them", file=sys.stderr)
        return 2
    path = f"{arguments.driver}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":")

    def shard(index):
        with tempfile.TemporaryDirectory(prefix="quern-launches-") as folder:
            log = pathlib.Path(folder, "log")
            kind = {"SPIED_DRIVER": arguments.spied, "SPY_LOG": str(log)} if arguments.spied else {"FAKE_LOG": str(log)}
            done = subprocess.run([arguments.conformance, "run", "--device", "cuda:0", "--jobs", "1", "--shard", f"{index}/{arguments.at_once}", "--journal",
                                   str(log), *arguments.more], capture_output=True, text=True, check=False, errors="replace",
                                  env={**os.environ, "LD_LIBRARY_PATH": path, "QUERN_CACHE_DIR": folder, "FAKE_MULTIPROCESSORS": str(arguments.multiprocessors), **kind})
            lines = log.read_text(errors="replace").splitlines() if log.exists() else []
            return list(launches_of(lines, arguments.spied is not None)), done.stdout[-1000:] + done.stderr[-1000:]

    with concurrent.futures.ThreadPoolExecutor(arguments.at_once) as pool:
        shards = list(pool.map(shard, range(1, arguments.at_once + 1)))
    cases = [case for found, _ in shards for case in found]
    if not any(case["kernels"] for case in cases):
        print(f"cuda_launches.py: no case launched a kernel:\n{shards[0][1]}", file=sys.stderr)
        return 1
    with arguments.output.open("w") as output:
        for case in sorted(cases, key=lambda case: case["case"]):
            output.write(json.dumps(case) + "\n")
    print(f"{len(cases)} cases, {len({kernel for case in cases for kernel in case['kernels']})} kernels")
    return 0


if __name__ == "__main__":
    sys.exit(main())
