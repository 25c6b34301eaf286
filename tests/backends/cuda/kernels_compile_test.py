#!/usr/bin/env python3
"""Compiles kernels without a GPU and reads what the assembler says of them.

    kernels_compile_test.py COMPILER NVRTC FOLDER ARCHITECTURE... [--header FILE] [--units NAME,NAME] [--built FOLDER] [--define NAME]

COMPILER is the build's quern_compile_kernel, FOLDER holds the kernels, and --header is one that the build made. Fails where a kernel does not compile, where one of
the hot kernels, or a function that one calls, spills registers to memory, and where one that is to share a multiprocessor takes more than half of its registers.
With --built the reports are read that the build kept beside its cubins, and nothing is compiled. With --define too, units are compiled so, and it is a fault where
one is the same as the build's.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

# Kernels of the decode and the prefill step: a spilled register costs a load in a loop that every token runs.
HOT = re.compile(r"^(mixed_\w+|kquants_\w+|rings|rings_general|stream_1|stream_short_1|stream_quantise_1|stream_general_1|stream_general_quantise_1|stream_(adapted|groups)_\w+|norm_row|tiles_[18]|gemv_[1248]|gemm_dense_(f16|bf16)|attention_pages_\w+|attention_(rows|groups|batch)\w*|quantise|rope_kv\w*)$")
# What is allowed: from 9.0 on gemv is for odd widths alone (stream and tiles do the rest); before that it keeps a few words of a block
# of 512 threads, 128 registers each, in memory (12 to 52 bytes for sm_75 and sm_86); smaller blocks have not been measured on such a card.
GEMV_FROM = re.compile(r"^sm_(9|1)\d")
GEMV_BYTES = 64
# Products of 32 rows keep a few pointers in memory, read once for 256 elements of k; stream_general_1 keeps two words over its front, and
# tiles_8 (sm_100) two of a stage. Three kinds of stream_adapted keep up to twelve words, read once a tile.
MIXED_BYTES = {"mixed_32": 8, "stream_general_1": 8, "tiles_8": 8, "stream_adapted_quantise_1": 32, "stream_adapted_general_1": 48,
               "stream_adapted_general_quantise_1": 48}
# Products of warpgroups run on while their warps do: the assembler says where it makes them wait instead, in a line of its own.
SERIAL = re.compile(r"wgmma.* serialized .*function '(\w+)'")
# A multiprocessor has 65,536 registers, given in steps of 8 a thread. These leave room for a second block, of the same kernel or the next.
REGISTERS = 65536
HALF = {"tiles_1": 288, "tiles_8": 288}
ATTENTION = re.compile(r"^attention_pages_\w+_1$")
ATTENTION_THREADS = 128

ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
PROPERTIES = re.compile(r"Function properties for (\w+)")
SPILL = re.compile(r"(\d+) bytes spill stores")
USED = re.compile(r"Used (\d+) registers")


def report(text):
    """{kernel: (registers, {function: bytes spilled})}: the kernel itself, and what it calls and was not inlined, which is told after it."""
    found, kernel, function = {}, None, None
    for line in text.splitlines():
        if entry := ENTRY.search(line):
            kernel = entry[1]
            found[kernel] = (0, {})
        elif properties := PROPERTIES.search(line):
            function = properties[1]
        elif spill := SPILL.search(line):
            found[kernel][1][function] = int(spill[1])
        elif used := USED.search(line):
            found[kernel] = (int(used[1]), found[kernel][1])
    return found


def faults_of(kernel, registers, spills, architecture):
    for function, spilled in spills.items():
        allowed = MIXED_BYTES.get(function, 0)
        if kernel.startswith("gemv_"):
            allowed = spilled if GEMV_FROM.match(architecture) else GEMV_BYTES
        if HOT.match(kernel) and spilled > allowed:
            yield f"{kernel} for {architecture} spills {spilled} bytes" + ("" if function == kernel else f" in {function}, which it calls")
    threads = ATTENTION_THREADS if ATTENTION.match(kernel) else HALF.get(kernel, 0)
    taken = (registers + 7) // 8 * 8 * threads
    if taken > REGISTERS // 2:
        yield f"{kernel} for {architecture} takes {taken} registers a block, more than half of {REGISTERS}"


def main(compiler, nvrtc, folder, *rest):
    names, architectures, defines, made, built = None, [], [], [], None
    rest = list(rest)
    while rest:
        word = rest.pop(0)
        if word == "--units":
            names = rest.pop(0).split(",")
        elif word == "--header":
            made.append(rest.pop(0))
        elif word == "--built":
            built = pathlib.Path(rest.pop(0))
        elif word == "--define":
            defines.append(f"--define={rest.pop(0)}")
        else:
            architectures.append(word)
    files = sorted(os.listdir(folder))
    headers = [os.path.join(folder, f) for f in files if f.endswith((".cuh", ".hpp"))] + made
    units = [f for f in files if f.endswith(".cu") and (names is None or f[:-3] in names)]
    if not units or not architectures or (names is not None and len(units) != len(names)):
        sys.exit(f"no kernels {names} in {folder}, or no architecture named")
    environment = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(nvrtc))

    def compile_one(job):
        architecture, unit = job
        kept = built and built / f"{unit[:-3]}.{architecture}.cubin"
        if kept and not defines:
            return architecture, unit, 0, pathlib.Path(f"{kept}.report").read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as work:
            cubin = pathlib.Path(work, "cubin")
            result = subprocess.run([compiler, nvrtc, architecture, os.path.join(folder, unit), str(cubin), *headers, *defines, "--verbose"],
                                    env=environment, capture_output=True, text=True)
            if kept and result.returncode == 0 and kept.read_bytes() == cubin.read_bytes():
                return architecture, unit, 1, f"{' '.join(defines)} changes nothing"
        return architecture, unit, result.returncode, result.stderr

    jobs = [(architecture, unit) for architecture in architectures for unit in units]
    faults, kernels, hot, called = [], 0, 0, 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for architecture, unit, code, text in pool.map(compile_one, jobs):
            if code != 0:
                faults.append(f"{unit} does not compile for {architecture}: {text[:400]}")
                continue
            faults += [f"{kernel} for {architecture}: products wait for one another" for kernel in SERIAL.findall(text)]
            for kernel, (registers, spills) in report(text).items():
                kernels += 1
                hot += bool(HOT.match(kernel))
                called += len(spills.keys() - {kernel}) if HOT.match(kernel) else 0
                faults += faults_of(kernel, registers, spills, architecture)
    if hot == 0:
        faults.append("no hot kernel was found: the assembler's report is not what this test reads")
    for fault in faults:
        print(fault)
    print(f"{kernels} kernels for {', '.join(architectures)}, {hot} of them hot, which call {called} functions: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
