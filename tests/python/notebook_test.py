"""The notebooks of python/examples run from their first cell to their last, and every cell that computes prints something.

Environment: QUERN_LIBRARY, QUERN_PLUGINS, QUERN_TEST_SOURCE. The model is a tiny one."""

import ast
import asyncio
import contextlib
import inspect
import io
import json
import os
import pathlib
import sys
import unittest

SOURCE = pathlib.Path(os.environ["QUERN_TEST_SOURCE"])
os.environ.update(QUERN_BACKEND="cpu", QUERN_BACKEND_PATH=os.environ["QUERN_PLUGINS"], QUERN_MODEL=str(SOURCE / "tests/data/gguf/micro-llama-f32.gguf"))
sys.path.insert(0, str(SOURCE / "python"))


class Notebooks(unittest.TestCase):
    def test_every_cell_runs_and_prints(self):
        notebooks = sorted((SOURCE / "python/examples").glob("*.ipynb"))
        self.assertTrue(notebooks)
        for path in notebooks:
            book = json.loads(path.read_text())
            names = {"__name__": "__main__"}
            for number, cell in enumerate(book["cells"]):
                if cell["cell_type"] != "code":
                    continue
                with self.subTest(path.name, cell=number):
                    self.assertEqual((cell["outputs"], cell["execution_count"]), ([], None), "a notebook is stored without what it printed")
                    said = io.StringIO()
                    with contextlib.redirect_stdout(said):
                        cell_code = compile("".join(cell["source"]), f"{path.name} cell {number}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                        made = eval(cell_code, names)
                        if inspect.iscoroutine(made):  # the cell awaits, as notebooks may
                            asyncio.run(made)
                    self.assertTrue(said.getvalue().strip())


if __name__ == "__main__":
    unittest.main(verbosity=2)
