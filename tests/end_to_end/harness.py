"""Runs the `quern` program in a clean environment and gives what it wrote; exits with 77 where tests were skipped."""

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = os.environ["QUERN_PROGRAM"]
DATA = pathlib.Path(os.environ["QUERN_TEST_DATA"])
SOURCE = pathlib.Path(os.environ["QUERN_TEST_SOURCE"])
SANITIZER = os.environ.get("QUERN_TEST_SANITIZER", "")
VERBS = ("run", "tokenize", "eval", "bench", "devices", "doctor", "show", "estimate", "pull", "list", "rm", "monitor", "ps", "trace", "train", "merge", "export", "convert", "quantize", "imatrix")
MICRO = str(DATA / "gguf/micro-llama-f32.gguf")


def clean_environment(home):
    """The caller's environment without settings of Quern and with its own folders for configuration and cache."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("QUERN_", "HF_", "HUGGING"))}
    for name in ("CUDA_FORCE_CPU", "AXOLOTL_FORCE_CPU"):
        kept.pop(name, None)
    kept.update(HOME=home, XDG_CONFIG_HOME=f"{home}/config", XDG_CACHE_HOME=f"{home}/cache", LC_ALL="C.UTF-8")
    return kept


# A shape for `quern estimate`.
MISTRAL = ("--hidden", "4096", "--ffn", "14336", "--layers", "32", "--vocab", "32000", "--heads", "32",
           "--kv-heads", "8")


@dataclasses.dataclass
class Result:
    code: int
    out: bytes
    err: str
    err_bytes: bytes = b""


def wait_until_computed(process, seconds):
    """Until a program has computed that long, whatever the machine does beside it, or has ended."""
    ticks = seconds * os.sysconf("SC_CLK_TCK")
    while process.poll() is None and int(pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11]) < ticks:
        time.sleep(0.01)


def controls(text, page=True):
    """The bytes and characters of a text that a terminal obeys: C0, DEL, C1 alone and as UTF-8, directions, separators, what is no UTF-8."""
    known = text.decode("utf-8", "surrogateescape")
    passed = "\n\t" if page else ""
    return [hex(ord(c)) for c in known if (c < " " and c not in passed) or "\x7f" <= c <= "\x9f" or c in "\u061c\u200e\u200f\u2028\u2029"
            or "\u202a" <= c <= "\u202e" or "\u2066" <= c <= "\u2069" or "\udc80" <= c <= "\udcff"]


class Case(unittest.TestCase):
    """One temporary folder a test; `self.folder` is a pathlib.Path."""

    maxDiff = 2000

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="quern-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def environment(self, extra=None):
        return {**clean_environment(str(self.folder)), **(extra or {})}

    def quern(self, *arguments, stdin=b"", env=None, timeout=100):
        done = subprocess.run(
            [PROGRAM, *map(str, arguments)],
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment(env),
            timeout=timeout,
        )
        return Result(done.returncode, done.stdout, done.stderr.decode("utf-8", "replace"), done.stderr)

    def quern_json(self, *arguments, code=0, **how):
        """With --json; checks the exit code and that standard output is one JSON object and nothing else."""
        result = self.quern(*arguments, "--json", **how)
        if code is not None:  # None: any
            self.assertEqual(result.code, code, result.err)
        self.assertTrue(result.out.endswith(b"\n"), result.out[-80:])
        value = json.loads(result.out)
        self.assertIsInstance(value, dict)
        return value

    def assert_fails(self, code, mentions, *arguments, **how):
        """The exit code, a last line with the words on standard error, and nothing on standard output."""
        result = self.quern(*arguments, **how)
        self.assertEqual(result.code, code, result.err)
        self.assertEqual(result.out, b"")
        sentence = result.err.splitlines()[-1]
        self.assertTrue(sentence.startswith("quern: "), result.err)
        for words in [mentions] if isinstance(mentions, str) else mentions:
            self.assertIn(words, sentence)
        return result

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def write_messages(self, *messages, name="messages.json"):
        return self.write(name, json.dumps([{"role": role, "content": text} for role, text in messages]))

    def without_template(self):
        """The micro model with its chat template under another key: same size, no template."""
        content = pathlib.Path(MICRO).read_bytes()
        assert content.count(b"tokenizer.chat_template") == 1
        return self.write("no-template.gguf", content.replace(b"tokenizer.chat_template", b"tokenizer.chat_tomplate"))


def real_model():
    """The path of the real model, or a skip that names the variable."""
    path = os.environ.get("QUERN_TEST_MODEL")
    if not path:
        raise unittest.SkipTest("QUERN_TEST_MODEL is not set: it names SmolLM2-135M-Instruct.Q4_1.gguf")
    return path


def main():
    with contextlib.suppress(AttributeError):
        sys.stdout.reconfigure(line_buffering=True)
    program = unittest.main(module="__main__", exit=False, verbosity=2)
    result = program.result
    if not result.wasSuccessful():
        sys.exit(1)
    if result.testsRun == 0 and not result.skipped:
        sys.exit("no test ran")
    sys.exit(77 if result.skipped and len(result.skipped) >= max(result.testsRun, 1) else 0)
