#!/usr/bin/env python3
"""Measure how models load and how fast they are on one device: directories and GGUF files, each in a line.

    directory_speed.py QUERN MODEL... [--device cuda:0] [--loads 3] [--prompt 2048] [--tokens 64] [--times 2] [--bandwidth 4.3e12] [--cached]

QUERN is the program. scripts/make_directory.py and scripts/make_gguf.py write models of any size. Columns:

GB        files that hold weights
load      seconds to load, from a warm cache: the least of --loads processes, which answer in turn for all models
first     seconds of a whole process that answers one token, likewise
prefill   tokens/s of a prompt of --prompt tokens, and how many times the first model's that is; the best of --times
decode    tokens/s, likewise the best
read      GB/s that the decode reads, and its share of --bandwidth, or of the bandwidth that `quern bench` measures
GB/s      of files at the least time to load, where the speed is not measured
host      MiB of memory that the process holds at most while it loads and answers
device    MiB that the plugin holds at most, likewise
bound     1.10 times the files, and the cache of keys and values and 64 MiB more, for comparison

With --cached each model loads once more with --weights-cache, which writes it, and then --loads times from it; `load` is then that time, and the
speed is not measured. --tokens 0 measures loading only. Exit: 0, or 1 where a model fails, whose line says why.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20


def weight_bytes(model):
    files = model.glob("*.safetensors") if model.is_dir() else [model]
    return sum(file.stat().st_size for file in files)


class Program:
    def __init__(self, path, device):
        self.path, self.device = path, device

    def ask(self, verb, model, *flags):
        """What the verb says in JSON, seconds of the process, and the bytes that it held at most."""
        start = time.monotonic()
        child = subprocess.Popen([self.path, verb, model, "--device", self.device, "--json", "-q", *map(str, flags)], stdout=subprocess.PIPE, text=True)
        text = child.stdout.read()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            raise ValueError(f"{model}: {verb} on {self.device} ended with {child.returncode}")
        return json.loads(text), time.monotonic() - start, used.ru_maxrss * 1024

    def load(self, model, *flags):
        said, seconds, held = self.ask("run", model, "a", "--raw", "--temperature", 0, "--max-tokens", 1, "--context", 512, *flags)
        device = said["statistics"]["devices"]
        return {"load": said["timings"]["load_seconds"], "first": seconds, "host": held, "device": sum(d["peak_bytes"] for d in device),
                "kv": sum(d["kv_bytes"] for d in device)}

    def speed(self, model, prompt, tokens, times):
        said, _, _ = self.ask("bench", model, "-p", prompt, "-n", tokens, "-r", times)
        if not said["valid"]:
            raise ValueError(f"{model}: more than the machine can do was measured; measure again")
        return {"prefill": said["prefill"]["best"], "decode": said["decode"]["best"], "step": said["bytes_per_step"],
                "bandwidth": said["read_bytes_per_second"]}


def line(name, size, loads, speed, first, bandwidth):
    best = {key: min(load[key] for load in loads) for key in ("load", "first")}
    most = {key: max(load[key] for load in loads) for key in ("host", "device", "kv")}
    words = [f"{name:24}", f"{size / 1e9:6.2f}", f"{best['load']:6.2f}", f"{best['first']:6.2f}"]
    if speed is None:
        words.append(f"{size / best['load'] / 1e9:7.2f}")
    else:
        read = speed["step"] * speed["decode"]
        words += [f"{speed['prefill']:9.0f} ({speed['prefill'] / first['prefill']:4.2f})", f"{speed['decode']:7.1f}",
                  f"{read / 1e9:7.1f} ({100 * read / (bandwidth or speed['bandwidth']):3.0f} %)"]
    bound = 1.10 * size + most["kv"] + 64 * MIB
    return " ".join(words + [f"{most['host'] / MIB:7.0f}", f"{most['device'] / MIB:7.0f}", f"{bound / MIB:7.0f}"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quern")
    parser.add_argument("models", nargs="+", type=pathlib.Path, metavar="MODEL")
    parser.add_argument("--device", default="cpu:0")
    parser.add_argument("--loads", type=int, default=3)
    parser.add_argument("--prompt", type=int, default=2048)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--bandwidth", type=float, help="bytes/s of a plain read; default: what bench measures")
    parser.add_argument("--cached", action="store_true")
    a = parser.parse_args()
    program, speaks = Program(a.quern, a.device), a.tokens > 0 and not a.cached
    loads, failed, first = {model: [] for model in a.models}, {}, None

    def attempt(model, step, *arguments):
        """Nothing where it fails, and from then on."""
        try:
            return None if model in failed else step(model, *arguments)
        except (OSError, ValueError) as error:
            failed[model] = error
            return None

    with tempfile.TemporaryDirectory(dir=a.models[0].parent, prefix="weights-cache-") as cache:
        more = ("--weights-cache", "on", "--cache-dir", cache) if a.cached else ()
        for model in a.models:
            attempt(model, program.load, *more)  # warms the cache of files, and writes that of weights
        for _ in range(a.loads):
            for model in a.models:
                loads[model].append(attempt(model, program.load, *more))
    print(f"{a.device}{', loading with --weights-cache' if a.cached else '' if speaks else ', loading'}")
    print(f"{'model':24} {'GB':>6} {'load':>6} {'first':>6} " + (f"{'prefill':>9} {'':6} {'decode':>7} {'read':>7} {'':7} " if speaks else f"{'GB/s':>7} ")
          + f"{'host':>7} {'device':>7} {'bound':>7}")
    for model in a.models:
        speed = attempt(model, program.speed, a.prompt, a.tokens, a.times) if speaks else None
        if model in failed:
            print(f"{model.name:24} {failed[model]}", flush=True)
            continue
        first = first or speed
        print(line(model.name, weight_bytes(model), loads[model], speed, first, a.bandwidth), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
