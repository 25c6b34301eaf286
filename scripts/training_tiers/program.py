"""Runs `quern` for the tiers: one backend, settings of its own, and figures of each run."""
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import time

from .report import Wrong

SCRIPTS = pathlib.Path(__file__).resolve().parents[1]
DATA = SCRIPTS.parent / "tests/data"
TRAINING = DATA / "training"


class Unusable(Exception):
    """The backend that was asked for does not load."""


@dataclasses.dataclass
class Run:
    """One `quern train`: how it ended, its closing JSON, its log, and what the process took."""
    code: int
    error: str
    closing: dict
    steps: list  # lines of log.jsonl that have a loss
    evaluations: list
    seconds: float
    processor_seconds: float
    process_peak_bytes: int
    anonymous: list  # (steps in the log, bytes of anonymous memory) while it ran
    folder: pathlib.Path

    @property
    def losses(self):
        return [step["loss"] for step in self.steps]

    @property
    def curve(self):
        """What has to be equal in bits where a run is repeated."""
        return [(step["step"], step["loss"], step["grad_norm"], step["learning_rate"]) for step in self.steps]


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tensors(path):
    """Name -> list of f32 of a safetensors file whose tensors are all f32."""
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    found = {}
    for name, tensor in header.items():
        if tensor["dtype"] != "F32":
            raise Wrong(f"{name} of an adapter is {tensor['dtype']}, and F32 is what a run writes.")
        begin, end = tensor["data_offsets"]
        found[name] = struct.unpack(f"<{(end - begin) // 4}f", data[8 + size + begin:8 + size + end])
    return found


def floats(path):
    data = pathlib.Path(path).read_bytes()
    return struct.unpack(f"<{len(data) // 4}f", data)


def lines_of(path):
    """The whole lines of a log that may be written right now."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]


def last_line(text):
    return f'"{text.strip().splitlines()[-1]}"' if text.strip() else "nothing on standard error"


class Program:
    """A quern program on one backend. Files are made in `folder`; models of random weights are kept in `models`."""

    def __init__(self, path, backend, device, folder, models):
        self.path, self.backend, self.folder, self.models = path, backend, pathlib.Path(folder), pathlib.Path(models)
        kept = {k: v for k, v in os.environ.items()
                if not k.startswith(("QUERN_", "HF_")) or k in ("QUERN_BACKEND_PATH", "QUERN_CACHE_DIR")}
        # strict: a node that the device does not compute is an error, so a run that ends well was on that device alone.
        self.environment = {**kept, "QUERN_BACKEND": backend, "QUERN_FALLBACK": "strict", "XDG_CONFIG_HOME": str(self.folder / "config"),
                            "LC_ALL": "C.UTF-8", **({"QUERN_DEVICE": device} if device else {})}
        self.environment.setdefault("XDG_CACHE_HOME", str(self.folder / "cache"))
        self.deadline = None
        self.report = None
        self.others = []  # the same program on other backends
        self.curves = None  # a folder for pictures of losses

    def left(self):
        """Seconds until the tier has to end."""
        if self.deadline is None:
            return None
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise Wrong("the time of the tier is over.")
        return left

    def call(self, *arguments):
        """Exit code, standard output, standard error."""
        try:
            done = subprocess.run([self.path, *map(str, arguments)], env=self.environment, cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True,
                                  timeout=self.left(), check=False)
        except subprocess.TimeoutExpired:
            raise Wrong(f"quern {arguments[0]} did not end within the time of the tier.") from None
        return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")

    def json(self, *arguments, codes=(0,)):
        code, out, err = self.call(*arguments, "--json")
        if code not in codes:
            raise Wrong(f"quern {arguments[0]} ended with {code} and {last_line(err)}.")
        return json.loads(out)

    def do(self, *arguments):
        code, _, err = self.call(*arguments)
        if code != 0:
            raise Wrong(f"quern {arguments[0]} ended with {code} and {last_line(err)}.")

    def machine(self):
        """What a report has of the machine; throws Unusable where no device of the backend may be used."""
        code, out, err = self.call("devices", "--json")
        devices = json.loads(out)["devices"] if out.startswith("{") else []
        chosen = [one for one in devices if one.get("selected")]
        if code != 0 or {one["backend"] for one in chosen} != {self.backend}:
            raise Unusable(f"the backend {self.backend} does not load: {last_line(err)}")
        version = self.call("--version")[1].splitlines()
        names = ("name", "backend", "description", "device_class", "architecture", "driver", "memory_total")
        return {"date": time.strftime("%Y-%m-%d", time.gmtime()), "quern": version, "processors": len(os.sched_getaffinity(0)),
                "device": {name: chosen[0].get(name, "") for name in names}}

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def config(self, name, config):
        return self.write(f"{name}.yaml", json.dumps({**config, "output_dir": str(self.folder / name)}))  # JSON is YAML

    def estimate(self, name, config):
        return self.json("estimate", "--train", self.config(name, config))["estimate"]

    def train(self, name, config, *flags, kill_at=None, fresh=True):
        """A run into the folder `name`. With kill_at the process gets SIGKILL once the log has that many steps."""
        folder = self.folder / name
        if fresh:
            shutil.rmtree(folder, ignore_errors=True)
        log, path, began = folder / "log.jsonl", self.config(name, config), time.monotonic()
        anonymous, size, end = [], -1, None if self.deadline is None else time.monotonic() + self.left()
        with open(self.folder / f"{name}.out", "w+b") as out, open(self.folder / f"{name}.err", "w+b") as err:
            process = subprocess.Popen([self.path, "train", path, "--json", "--quiet", *flags], env=self.environment, cwd=self.folder,
                                       stdin=subprocess.DEVNULL, stdout=out, stderr=err)
            try:
                while True:
                    pid, status, usage = os.wait4(process.pid, os.WNOHANG)
                    if pid:
                        break
                    if end is not None and time.monotonic() > end:
                        raise Wrong(f"the run {name} did not end within the time of the tier.")
                    if log.exists() and log.stat().st_size != size:
                        size = log.stat().st_size
                        count = max((line["step"] for line in lines_of(log)), default=0)
                        taken = re.search(r"RssAnon:\s+(\d+)", pathlib.Path(f"/proc/{process.pid}/status").read_text())
                        if taken:
                            anonymous.append((count, int(taken[1]) * 1024))
                        if kill_at is not None and count >= kill_at:
                            process.kill()
                    time.sleep(0.01)
            except BaseException:
                process.kill()
                os.wait4(process.pid, 0)
                raise
            process.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0), err.seek(0)
            said, problem = out.read().decode(errors="replace"), err.read().decode(errors="replace")
        lines = lines_of(log)
        run = Run(process.returncode, problem, json.loads(said) if said.startswith("{") else {}, [line for line in lines if "loss" in line],
                  [line for line in lines if "validation_loss" in line], time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024,
                  anonymous, folder)
        expected = -signal.SIGKILL if kill_at is not None else 0
        if run.code != expected:
            raise Wrong(f"the run {name} ended with {run.code}, and {expected} is asked for; its last words are {last_line(problem)}.")
        self.record(name, config, run)
        return run

    def record(self, name, config, run):
        """Figures of a run, for the report."""
        estimate = run.closing.get("estimate", {})
        seconds = [step["seconds"] for step in run.steps]
        self.report.run(
            run=name, base=pathlib.Path(config["base_model"]).name, adapter=config.get("adapter", "all weights"), rank=config.get("lora_r"),
            rows="f32" if config.get("float32") else "bf16" if config.get("bf16") else "fp16" if config.get("fp16") else "auto",
            checkpointing=config.get("gradient_checkpointing", False), steps=len(run.steps),
            first_loss=run.losses[0] if run.losses else None, last_loss=run.losses[-1] if run.losses else None,
            validation_loss=run.closing.get("validation_loss"), seconds=round(run.seconds, 2),
            processor_seconds=round(run.processor_seconds, 2), step_seconds_median=statistics.median(seconds) if seconds else None,
            tokens_per_second=statistics.median(step["tokens_per_second"] for step in run.steps) if run.steps else None,
            device_peak_bytes=run.closing.get("peak_bytes"), device_estimate_bytes=estimate.get("devices_bytes"),
            host_estimate_bytes=estimate.get("host_bytes"), process_peak_bytes=run.process_peak_bytes, allocations=run.closing.get("allocations"))

    def answer(self, model, prompt, *flags, tokens=24):
        """The greedy answer to a prompt."""
        return self.json("run", model, prompt, "--temperature", "0", "-n", tokens, *flags)["text"]

    def logits(self, model, text, *flags):
        """Of the last position, in exact numerics."""
        out = self.folder / "logits.f32"
        self.do("eval", model, self.write("logits.txt", text), "--logits", out, "--activations", "f32", "--kv", "f32", *flags)
        return floats(out)

    def random_model(self, name, *arguments):
        """A model of random weights by make_gguf.py, made once."""
        self.models.mkdir(parents=True, exist_ok=True)
        path = self.models / f"{name}.gguf"
        if not path.exists():
            part = path.with_suffix(f".{os.getpid()}.part")
            done = subprocess.run([sys.executable, SCRIPTS / "make_gguf.py", *arguments, part], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                part.unlink(missing_ok=True)
                raise Wrong(f"make_gguf.py cannot make {name}: {last_line(done.stderr)}.")
            part.rename(path)
        return path
