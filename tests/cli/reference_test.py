"""The reference is what quern.h says, and the script that writes it finds a function without a word."""

import pathlib
import subprocess
import sys

source = pathlib.Path(sys.argv[1])
sys.dont_write_bytecode = True
sys.path.insert(0, str(source / "runtime/tools"))
import reference  # noqa: E402

bare, told = "QUERN_API int quern_new(void);\n", "/* Text. */\nQUERN_API int quern_new(void);\n"
assert reference.undocumented([("x", reference.blocks(bare))]) == ["quern_new"]
assert reference.undocumented([("x", reference.blocks(told))]) == []
sys.exit(subprocess.run([sys.executable, str(source / "runtime/tools/reference.py"), "--check"]).returncode)
