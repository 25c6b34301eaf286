"""The Python package under mypy --strict, and what an editor then knows of a caller: its keywords, and which of them are wrong."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["QUERN_TEST_SOURCE"])
CALLER = '''
import quern

async def ask(session: quern.Session) -> str:
    answer = session.generate("hi", raw=True, max_tokens=3, stop="x", sampling=quern.Sampling(temperature=1))
    async for piece in session.astream([{"role": "user", "content": "hi"}], loop_guard=True):
        answer.text += piece
    rows: list[list[float]] = session.embed("hi")
    return answer.text + (await session.agenerate("hi")).finish + str(len(rows))

def wrong(session: quern.Session) -> None:
    session.generate("hi", max_token=3)  # wrong
    session.stream("hi", temperature=1)  # wrong
    session.generate("hi", max_tokens="3")  # wrong
    quern.pull("owner/name", retries=3)  # wrong
'''


class Types(unittest.TestCase):
    def test_mypy_strict_has_nothing_to_say_but_of_a_callers_mistakes(self):
        mypy = next((python for python in (sys.executable, "/usr/bin/python3")
                     if subprocess.run([python, "-c", "import mypy"], capture_output=True).returncode == 0), None)
        if mypy is None:
            self.skipTest("no Python here has mypy; install mypy")
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(SOURCE / "python/quern", pathlib.Path(folder, "quern"))
            shutil.copy(SOURCE / "python/pyproject.toml", folder)
            pathlib.Path(folder, "caller.py").write_text(CALLER)
            found = subprocess.run([mypy, "-m", "mypy", "--strict", "--cache-dir", f"{folder}/cache", "quern", "caller.py"], cwd=folder,
                                   capture_output=True, text=True)
        complaints = {line for line in found.stdout.splitlines() if ": error:" in line}
        wrong = {number for number, line in enumerate(CALLER.splitlines(), 1) if line.endswith("# wrong")}
        told = {int(re.match(r"caller\.py:(\d+):", line)[1]) for line in complaints if line.startswith("caller.py:")}
        self.assertEqual(told, wrong, found.stdout + found.stderr)
        self.assertEqual([line for line in complaints if not line.startswith("caller.py:")], [])


if __name__ == "__main__":
    made = unittest.main(verbosity=2, exit=False).result
    sys.exit(1 if not made.wasSuccessful() else 77 if made.skipped else 0)
