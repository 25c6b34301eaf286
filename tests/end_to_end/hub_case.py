"""A hub on this machine and the command that asks it: what the tests of the hub share."""

import contextlib
import hashlib
import os
import pathlib
import subprocess

from harness import DATA, MICRO, Case
from hub_server import Hub, Repository

MODEL = pathlib.Path(MICRO).read_bytes()
OTHER = (DATA / "gguf/micro-llama-q8_0.gguf").read_bytes()
PARTS = {f"big-Q6_K-0000{n}-of-00002.gguf": (DATA / f"gguf/micro-split-0000{n}-of-00002.gguf").read_bytes() for n in (1, 2)}
STORE = "/store/me/micro/micro-Q4_K_M.gguf"
FILES = {"micro-Q4_K_M.gguf": MODEL, "micro.Q8_0.gguf": OTHER, "README.md": b"hello\n", "mmproj-F16.gguf": b"GGUFx", **PARTS}


def sha256(content):
    return hashlib.sha256(content).hexdigest()


class HubCase(Case):
    def setUp(self):
        super().setUp()
        self.cache = self.folder / "cache/huggingface/hub"
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.repository = Repository(FILES)
        self.hub = stack.enter_context(Hub({"me/micro": self.repository}))

    def environment(self, extra=None):
        return {**super().environment(), "HF_ENDPOINT": self.hub.url, "NO_PROXY": "*", "no_proxy": "*", **(extra or {})}

    def pull(self, name="me/micro", *flags, **how):
        """Pulls, and gives the path, which must hold a file."""
        result = self.quern("pull", name, *flags, **how)
        self.assertEqual(result.code, 0, result.err)
        path = pathlib.Path(result.out.decode().removesuffix("\n"))
        self.assertTrue(path.is_file(), path)
        return path

    def client(self, code):
        """What huggingface_hub prints. QUERN_TEST_HUB_PYTHON names a Python that has it."""
        python = os.environ.get("QUERN_TEST_HUB_PYTHON")
        if not python:
            self.skipTest("QUERN_TEST_HUB_PYTHON is not set: it names a Python with huggingface_hub")
        variables = {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        done = subprocess.run([python, "-c", "import huggingface_hub as hub\n" + code], capture_output=True, text=True,
                              env=self.environment(variables), timeout=100)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def names(self):
        return [model["name"] for model in self.quern_json("list")["models"]]

    def incomplete(self):
        return sorted(self.cache.glob("models--me--micro/blobs/*.incomplete"))

    def assert_nothing_kept(self):
        self.assertEqual(self.names(), [])
        self.assertEqual(self.incomplete(), [])
