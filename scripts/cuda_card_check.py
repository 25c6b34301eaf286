#!/usr/bin/env python3
"""Check on a machine with an NVIDIA GPU what the tests without one cannot show of the CUDA backend.

    cuda_card_check.py BUNDLE MODELS [--only CHECK,CHECK] [--report FILE]

BUNDLE   bin/quern and lib/libquern.so.1 in one folder: what the target cuda_bundle packs, unpacked
MODELS   a folder for models of random weights, which scripts/make_gguf.py makes where they are missing (needs numpy; small.gguf 150 MB,
         7b.gguf 4 GB, large.gguf 5 GB)

loads     100 loads of a model on one runtime, each with an answer: device memory does not grow
cycles    10,000 tensors of mixed sizes made and released, up to 40 at a time: none overlaps another, and all memory comes back
split     a limit that holds about half of a model's layers: the exact text of cuda alone and of the CPU alone
refusal   a demand that does not fit: exit 5, and each setting that the text names does fit
spill     a 7B shape inside --memory cuda:0=2G: the split, and tokens/s
monitor   quern monitor --json beside a run: figures of the card, tokens/s of the process
backends  the card once in `quern devices`, with cuda; the whole model on vulkan by QUERN_BACKEND: the same exact text
large     one tensor of 4.9 GB, the embedding and the head of 600,000 tokens: text and logits of the CPU

Each check prints what it saw; --report gets the same lines. Exit: 0 all are right, 1 one is not, 2 usage.
"""
import argparse
import array
import ctypes
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

SCRIPTS = pathlib.Path(__file__).resolve().parent
MIB = 1 << 20
EXACT = ("--activations", "f32", "--kv", "f32")
PROMPTS = ("the river of a stone is", "one house and another light", "water over paper in winter")
PRESETS = {"small": ("smollm2-135m", "Q8_0"), "7b": ("llama-7b", "Q4_K_M"),
           "large": ("llama-7b", "F16", "--layers", "1", "--vocab", "600000", "--tied")}


class Wrong(Exception):
    """What a check saw, where it is not what it should be."""


def require(right, *words):
    if not right:
        raise Wrong(" ".join(map(str, words)))


class Machine:
    def __init__(self, bundle, models):
        self.bundle, self.models = pathlib.Path(bundle).resolve(), pathlib.Path(models)
        self.program = self.bundle / "bin/quern"
        self.models.mkdir(parents=True, exist_ok=True)

    def model(self, name):
        path = self.models / f"{name}.gguf"
        if not path.exists():
            part = path.with_suffix(f".{os.getpid()}.part")
            preset, kind, *more = PRESETS[name]
            subprocess.run([sys.executable, SCRIPTS / "make_gguf.py", preset, kind, part, *more], check=True)
            part.rename(path)
        return path

    def quern(self, *arguments, settings=None):
        """Exit code, standard output and standard error."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("QUERN_") or k == "QUERN_CACHE_DIR"}
        done = subprocess.run([self.program, *map(str, arguments)], env={**kept, **(settings or {})}, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def answer(self, name, prompt, *more, tokens=48, settings=None):
        """The JSON of greedy text, with what was said on standard error."""
        code, out, err = self.quern("run", self.model(name), "--raw", prompt, "--temperature", "0", "--max-tokens", tokens, "--context", "512",
                                    "--logit-bias", "2=-inf", "--json", *more, settings=settings)
        require(code == 0, "quern run ended with", code, err)
        return {**json.loads(out), "said": err}


def same_text(machine, name, ways, tokens=48):
    """Lines about exact greedy text, which must be equal whichever way it was made: {what: (arguments, settings)}."""
    for prompt in PROMPTS:
        answers = {what: machine.answer(name, prompt, *EXACT, *arguments, tokens=tokens, settings=settings)
                   for what, (arguments, settings) in ways.items()}
        for what, answer in answers.items():
            devices = {d["device"].split(":")[0] for d in answer["statistics"]["devices"]}
            require(devices == set(what.split("+")), what, "ran on", devices, answer["said"])
        first = next(iter(answers.values()))["ids"]
        require(len(first) == tokens, "only", len(first), "tokens")
        for what, answer in answers.items():
            require(answer["ids"] == first, f"'{prompt}': {what} gives {answer['ids']} and {next(iter(answers))} gives {first}")
    return f"{len(PROMPTS)} prompts, {tokens} tokens each: equal ids of {', '.join(ways)}"


class Card:
    """Memory of the card that the driver lists first."""

    def __init__(self):
        self.driver = ctypes.CDLL("libcuda.so.1")
        context, device = ctypes.c_void_p(), ctypes.c_int()
        for call in (lambda: self.driver.cuInit(0), lambda: self.driver.cuDeviceGet(ctypes.byref(device), 0),
                     lambda: self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), lambda: self.driver.cuCtxPushCurrent_v2(context)):
            require(call() == 0, "the driver does not start")

    def taken(self):
        """Bytes, and whose they are: of this process where nvidia-smi lists it, else of all processes on the card."""
        try:
            listed = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"], capture_output=True,
                                    text=True, check=False).stdout
        except OSError:
            listed = ""
        own = [line.split(",") for line in listed.splitlines()]
        own = [words[1].strip() for words in own if len(words) == 2 and words[0].strip() == str(os.getpid())]
        if own and all(words.isdigit() for words in own):
            return sum(map(int, own)) * MIB, "of this process"
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        require(self.driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0, "the driver does not say what is free")
        return total.value - free.value, "of the card"


def python_package(machine):
    os.environ["QUERN_LIBRARY"] = str(machine.bundle / "lib/libquern.so.1")
    sys.path.insert(0, str(SCRIPTS.parent / "python"))
    import quern

    return quern


def host_memory():
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path("/proc/self/status").read_text())[1]) * 1024


def check_loads(machine):
    quern, path, card, looked = python_package(machine), machine.model("small"), Card(), (2, 10, 40, 70, 100)
    loaded, released, host, began = {}, {}, {}, time.monotonic()
    with quern.Runtime(backend="cuda") as runtime:
        for load in range(1, looked[-1] + 1):
            with runtime.load(path, context=256) as model, model.session() as session:
                session.generate(PROMPTS[0], max_tokens=4, ignore_end=True)
                if load in looked:
                    loaded[load] = card.taken()[0]
            if load in looked:
                released[load], host[load] = card.taken()[0], host_memory()
    said = lambda bytes_at: ", ".join(f"{value // MIB} after {load}" for load, value in bytes_at.items())
    text = (f"{looked[-1]} loads in {time.monotonic() - began:.0f} s; MiB {card.taken()[1]}: with a model {said(loaded)}; when it is released {said(released)}; "
            f"of the process on the host {said(host)}")
    # A piece of the driver's is 2 MiB: one lost a load would be 180.
    require(loaded[100] - loaded[10] <= 2 * MIB and released[100] - released[10] <= 2 * MIB, "device memory grows:", text)
    require(host[100] - host[10] <= 64 * MIB, "host memory grows:", text)
    return [text]


def check_cycles(machine):
    quern, card, rng, cycles = python_package(machine), Card(), random.Random(1), 10000
    with quern.Runtime(backend="cuda") as runtime:
        with runtime.tensor([1], "u8", "cuda:0"):
            before, whose = card.taken()
        live, most, taken, began, serial = [], 0, 0, time.monotonic(), 0

        def release(index):
            tensor, mark = live.pop(index)
            end = ctypes.create_string_buffer(8)
            for at in (0, tensor.nbytes - 8):
                quern._abi.call("quern_tensor_read", tensor.handle, at, end, 8)
                require(end.raw == mark, "another tensor wrote into one of", tensor.nbytes, "bytes")
            size = tensor.nbytes
            tensor.close()
            return size

        for _ in range(cycles):
            if len(live) == 40 or (live and rng.random() < 0.5):
                taken -= release(rng.randrange(len(live)))
                continue
            size, serial = 16 + rng.randrange(1 << rng.randrange(1, 28)), serial + 1
            tensor, mark = runtime.tensor([size], "u8", "cuda:0"), serial.to_bytes(8, "little")
            tensor.write(mark).write(mark, offset=size - 8)
            live.append((tensor, mark))
            taken += size
            most = max(most, taken)
        while live:
            release(0)
        after = card.taken()[0]
        seconds = time.monotonic() - began
    text = f"{cycles} cycles in {seconds:.1f} s, at most {most // MIB} MiB at a time; memory {whose} in MiB before {before // MIB}, after {after // MIB}"
    require(after - before <= 64 * MIB, "it does not come back:", text)  # what the pool keeps for the next taker
    return [text]


def layers_that_fit(machine, limit):
    """By the refusal of a strict demand; None where all of it fits."""
    code, _, err = machine.quern("run", machine.model("small"), "--raw", "x", "--max-tokens", "1", "--context", "512", *EXACT, "--backend", "cuda", "--memory",
                                 f"cuda:0={limit}", "-q")
    require(code in (0, 5), "quern run ended with", code, err)
    found = re.search(r"(\d+) of its (\d+) layers would fit", err)
    return None if code == 0 else (int(found[1]) if found else 0)


def half_limit(machine):
    """A limit that 15 of the 30 layers fit in."""
    low, high = 0, 512 * MIB
    while high - low > MIB // 4:
        middle = (low + high) // 2
        fitting = layers_that_fit(machine, middle)
        if fitting == 15:
            return middle
        low, high = (middle, high) if fitting is not None and fitting < 15 else (low, middle)
    raise Wrong(f"no limit holds 15 layers: {low} holds fewer and {high} more")


def check_split(machine):
    limit = half_limit(machine)
    line = same_text(machine, "small", {"cuda": (("--backend", "cuda"), None), "cpu": (("--backend", "cpu"), None),
                                        "cuda+cpu": (("--memory", f"cuda:0={limit}"), None)})
    answer = machine.answer("small", PROMPTS[0], *EXACT, "--memory", f"cuda:0={limit}", tokens=4)
    found = re.search(r"layers? (?:\d+ to )?(\d+) on cpu:0, layers? (\d+) to (\d+) and the head on cuda:0", answer["said"])
    require(found is not None, "the split is not printed:", answer["said"])
    on_card = int(found[3]) - int(found[2]) + 1
    require(12 <= on_card <= 18, "not about half of the layers:", answer["said"])
    return [line, f"--memory cuda:0={limit}: {answer['said'].strip().splitlines()[0].split('needed: ')[-1]}"]


def check_refusal(machine):
    def run(limit, *more):
        return machine.quern("run", machine.model("small"), "--raw", "x", "--max-tokens", "1", "--memory", f"cuda:0={limit}", "--backend", "cuda", "--json", "-q", *more)

    code, _, err = run("4K")
    require(code == 5, "exit", code, err)
    value, unit = re.search(r"and ([\d.]+) ([KMG])iB are needed", err).groups()
    needed = int(float(value) * 1024 ** (1 + "KMG".index(unit)))
    lines = []
    for share, want in ((0.5, ("limit", "layers")), (0.95, ("limit", "context"))):
        limit = int(needed * share)
        code, _, err = run(limit)
        require(code == 5, "exit", code, err)
        named = {"limit": re.search(r"--memory (cuda:0=\w+) would hold all of it", err), "context": re.search(r"a context of (\d+) would fit", err),
                 "layers": re.search(r"(\d+) of its 30 layers would fit", err)}
        require(all(named[kind] for kind in want), "the nearest setting is not named:", err)
        require(named["layers"] is None or int(named["layers"][1]) < 30, "all layers are some of them:", err)
        code, _, why = run(named["limit"][1].split("=")[1])
        require(code == 0, "the limit that was named does not do:", why)
        if "context" in want:
            code, _, why = run(limit, "--context", named["context"][1])
            require(code == 0, "the context that was named does not do:", why)
        if "layers" in want:
            code, _, why = machine.quern("run", machine.model("small"), "--raw", "x", "--max-tokens", "1", "--memory", f"cuda:0={limit}", "--backend", "cuda,cpu",
                                         "--fallback", "warn", "--json", "-q")
            require(code == 0, "the backends that were named do not do:", why)
        lines.append(f"exit 5: {err.strip().splitlines()[-1]}; what it names fits")
    return lines


def check_spill(machine):
    answers = {what: machine.answer("7b", PROMPTS[0], *more, tokens=64) for what, more in (("cuda:0=2G", ("--memory", "cuda:0=2G")), ("no limit", ()))}
    require(len(answers["cuda:0=2G"]["statistics"]["devices"]) == 2, "no split:", answers["cuda:0=2G"]["said"])
    require("layers" in answers["cuda:0=2G"]["said"], "the split is not printed")
    lines = [answers["cuda:0=2G"]["said"].strip().splitlines()[0].split("needed: ")[-1]]
    for what, answer in answers.items():
        lines.append(f"7B Q4_K_M, {what}: decode {answer['timings']['decode_tokens_per_second']:.1f} tokens/s, prompt of {answer['timings']['prompt_tokens']} "
                     f"{answer['timings']['prompt_tokens_per_second']:.0f}, {os.cpu_count()} CPUs")
    return lines


def check_monitor(machine):
    path = machine.model("small")
    with subprocess.Popen([machine.program, "run", path, "--raw", PROMPTS[0], "--temperature", "0", "--max-tokens", "8000", "--context", "8192", "--logit-bias", "2=-inf",
                           "--backend", "cuda", "-q"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as beside:
        try:
            code, out, err = machine.quern("monitor", "--json", "--count", "8", "--interval", "0.4")
        finally:
            beside.terminate()
    require(code == 0, "quern monitor ended with", code, err)
    readings = [json.loads(line) for line in out.splitlines()]
    require(len(readings) == 8, len(readings), "readings")
    cards = [card for reading in readings for card in reading["gpus"]]
    require(cards, "no card:", readings[0]["gpus_reason"])
    busy = max(card["utilisation_percent"] for card in cards)
    for card in cards:
        require(all(value is not None for value in card.values()), "a figure is missing:", card)
        require(0 < card["memory_used_bytes"] <= card["memory_total_bytes"] and 5 < card["temperature_celsius"] < 110 and card["power_watts"] > 10, "figures:", card)
    require(busy > 0, "no reading shows the card at work")
    speeds = [process["tokens_per_second"] for reading in readings for process in reading["processes"] if process["pid"] == beside.pid]
    require(any(speeds), "no tokens/s of the process beside it:", readings)
    card = cards[-1]
    return [f"{len(readings)} readings of {card['name']}: busy up to {busy} %, {card['memory_used_bytes'] // MIB} MiB, {card['temperature_celsius']} C, "
            f"{card['power_watts']:.0f} of {card['power_limit_watts']:.0f} W; the process beside it up to {max(filter(None, speeds)):.0f} tokens/s"]


def check_backends(machine):
    code, out, err = machine.quern("devices", "--json")
    require(code == 0, "quern devices ended with", code, err)
    devices = json.loads(out)["devices"]
    cards = [d for d in devices if d["usable"] and d["backend"] in ("cuda", "vulkan") and d["device_class"] == "discrete"]
    require(len(cards) == len({d["pci"].lower() for d in cards}) >= 1, "a card is there twice:", out)
    require(devices[0]["backend"] == "cuda" and devices[0]["selected"], "cuda is not chosen:", out)
    text = same_text(machine, "small", {"cuda": ((), {"QUERN_BACKEND": "cuda"}), "vulkan": ((), {"QUERN_BACKEND": "vulkan"}), "cpu": ((), {"QUERN_BACKEND": "cpu"})})
    return [f"devices: {'; '.join(d['name'] + ' ' + d['description'] + (' (' + d['reason'] + ')' if d['reason'] else '') for d in devices)}", text]


def check_large(machine):
    path, texts = machine.model("large"), ("noth nota naei iath iran aoin oina inoa oter ater inet", "atin ores iter neth")
    code, out, err = machine.quern("tokenize", path, texts[0], "--no-bos", "--json")
    require(code == 0, err)
    beyond = [token for token in json.loads(out)["ids"] if token * 8192 >= 1 << 32]
    require(len(beyond) >= 3, "the text has no tokens beyond 4 GiB of the embedding:", out)
    lines = [f"ids of which {len(beyond)} lie beyond 4 GiB of the table: {json.loads(out)['ids']}"]
    with tempfile.TemporaryDirectory(prefix="quern-card-") as folder:
        text = pathlib.Path(folder, "text")
        text.write_text(texts[0])

        def logits(backend, *more):
            code, _, err = machine.quern("eval", path, text, "--logits", f"{folder}/logits", "--json", "-q", "--backend", backend, *more)
            require(code == 0, "quern eval ended with", code, err)
            return array.array("f", pathlib.Path(folder, "logits").read_bytes())

        cpu = logits("cpu", *EXACT)
        deviation = (sum(x * x for x in cpu) / len(cpu)) ** 0.5
        # Exact: two orders of f32 sums of 4,096 products, deviation sqrt(4096) 2^-24 each of 1: 4e-6; of 600,000 the largest is 5 times that, and
        # the layer's own products have added theirs. Fast: activations rounded to f16, 2^-12 each, of the last and three earlier products.
        for what, more, bound in (("exact", EXACT, 1e-4 * deviation), ("fast", (), 1e-2 * deviation)):
            cuda = logits("cuda", *more)
            far = [abs(a - b) for a, b in zip(cpu, cuda, strict=True)]
            lines.append(f"logits of {len(cpu)} tokens, {what}: of deviation {deviation:.3f}, furthest from the CPU's {max(far):.2e}, of those beyond 4 GiB "
                         f"{max(far[(1 << 32) // 8192:]):.2e}")
            require(max(far) <= bound, "beyond", bound, ":", lines[-1])
    answers = [machine.answer("large", texts[1], *EXACT, "--backend", backend, tokens=16)["ids"] for backend in ("cuda", "cpu")]
    require(answers[0] == answers[1], "greedy ids differ:", answers)
    lines.append(f"16 greedy tokens, exact, equal on both; {sum(token * 8192 >= 1 << 32 for token in answers[0])} of them beyond 4 GiB")
    return lines


CHECKS = {name.removeprefix("check_"): check for name, check in list(globals().items()) if name.startswith("check_")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle")
    parser.add_argument("models")
    parser.add_argument("--only", default=",".join(CHECKS), metavar="CHECK,CHECK")
    parser.add_argument("--report", type=pathlib.Path, metavar="FILE")
    arguments = parser.parse_args()
    chosen = arguments.only.split(",")
    if unknown := set(chosen) - set(CHECKS):
        parser.error(f"no check is called {', '.join(sorted(unknown))}; there are {', '.join(CHECKS)}")
    machine, right = Machine(arguments.bundle, arguments.models), True
    for name in chosen:
        began = time.monotonic()
        try:
            lines, verdict = CHECKS[name](machine), "right"
        except Wrong as wrong:
            lines, verdict, right = [str(wrong)], "WRONG", False
        text = "\n".join([f"{name}: {verdict}, {time.monotonic() - began:.0f} s", *(f"  {line}" for line in lines)])
        print(text, flush=True)
        if arguments.report:
            with arguments.report.open("a") as report:
                report.write(text + "\n")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
